//! The fields of evaluators, of their files, and of the configuration of each that is known.

use super::format::Format;
use super::shape::{FREE, Field, Kind, MILLISECONDS, Object, TEXT, formatted, text};

pub const GIT_DIFF: &str = "git-diff";
pub const EXPECTED_DIFF: &str = "expected-diff";
pub const COMMAND: &str = "command";
pub const FILES: &str = "files";
pub const TRAJECTORY: &str = "trajectory";
pub const BUDGET: &str = "budget";
pub const ANSWER: &str = "answer";
pub const AGENTIC_JUDGE: &str = "agentic-judge";
pub const EVALUATORS: &[&str] =
    &[GIT_DIFF, EXPECTED_DIFF, COMMAND, FILES, TRAJECTORY, BUDGET, ANSWER, AGENTIC_JUDGE];

const COUNT: Kind = Kind::Whole { min: 0, max: i64::MAX };
const BITS: Kind = Kind::Number { min: 0.0, max: f64::MAX, above: false };
const SHARE: Kind = Kind::Number { min: 0.0, max: 1.0, above: false };
const NUMBER: Kind = Kind::Number { min: f64::MIN, max: f64::MAX, above: false };
const EXIT_CODE: Kind = Kind::Whole { min: 0, max: 255 };
const ONE_OR_MORE: Kind = Kind::Either(&[TEXT, Kind::List { of: &TEXT, min: 1 }]);
const BY_FILE: Kind = Kind::Map { names: Format::RelativePath, of: &ONE_OR_MORE };
const TOOLS: Kind = Kind::List { of: &TEXT, min: 0 };
const ENV: Kind = Kind::Either(&[
    Kind::Map { names: Format::EnvName, of: &text(0, usize::MAX) },
    Kind::List { of: &formatted(200, Format::EnvName), min: 0 },
]);
const GLOBS: Kind = Kind::List { of: &formatted(500, Format::RelativePath), min: 0 };
const ASSERTIONS: Kind =
    Kind::Either(&[Kind::List { of: &TEXT, min: 0 }, Kind::Map { names: Format::Any, of: &Kind::Any }]);

/// An evaluator in a case.
pub(crate) static EVALUATOR: Object = Object {
    name: "evaluator",
    fields: &[
        Field::new("name", TEXT, "Name of the evaluator."),
        Field::new("config", FREE, "Configuration."),
        Field::new(
            "file",
            formatted(500, Format::RelativePath),
            "File that defines the evaluator, instead of `name`.",
        ),
    ],
};

/// An evaluator in a file of its own.
pub(crate) static EVALUATOR_FILE: Object = Object {
    name: "evaluatorFile",
    fields: &[
        Field::new("name", TEXT, "Name of the evaluator.").required(),
        Field::new("description", text(0, usize::MAX), "Description."),
        Field::new("config", FREE, "Configuration."),
    ],
};

static GIT_DIFF_CONFIG: Object = Object {
    name: "gitDiff",
    fields: &[
        Field::new(
            "base_commit",
            TEXT,
            "Ignored, for compatibility: the diff always starts at the start tree.",
        ),
        Field::new(
            "assertions",
            Kind::Object(&GIT_DIFF_ASSERTIONS),
            "Limits; without any, the evaluator always passes.",
        ),
        Field::new("include", GLOBS, "Globs of files to include [default: all]."),
        Field::new("exclude", GLOBS, "Globs of files to exclude."),
    ],
};

static GIT_DIFF_ASSERTIONS: Object = Object {
    name: "gitDiffAssertions",
    fields: &[
        Field::new("max_files_changed", COUNT, "Maximum number of changed files."),
        Field::new("max_lines_added", COUNT, "Maximum number of added lines."),
        Field::new("max_lines_removed", COUNT, "Maximum number of removed lines."),
        Field::new("max_total_changes", COUNT, "Maximum number of added and removed lines."),
        Field::new("min_change_entropy", BITS, "Minimum entropy of changes over files, in bits."),
        Field::new("max_change_entropy", BITS, "Maximum entropy of changes over files, in bits."),
    ],
};

static EXPECTED_DIFF_CONFIG: Object = Object {
    name: "expectedDiff",
    fields: &[Field::new(
        "threshold",
        Kind::Number { min: 0.0, max: 1.0, above: false },
        "Minimum similarity to the expected result, from 0 to 1.",
    )
    .default("0.8")],
};

static JUDGE_CONFIG: Object = Object {
    name: "agenticJudge",
    fields: &[
        Field::new("type", Kind::AgentType, "Agent type of the judge.").required(),
        Field::new("agent_name", formatted(100, Format::Name), "Agent definition of the judge."),
        Field::new("model", formatted(200, Format::Model), "Model of the judge."),
        Field::new("timeout", MILLISECONDS, "Timeout in milliseconds.").default("300000"),
        Field::new("prompt", TEXT, "Further prompt in addition to the assertions."),
        Field::new("prompt_file", formatted(500, Format::RelativePath), "File with the further prompt."),
        Field::new(
            "instructions-file",
            formatted(500, Format::RelativePath),
            "File with a template of the complete prompt, with `{{ASSERTIONS}}`.",
        ),
        Field::new(
            "assertions",
            ASSERTIONS,
            "Assertions: a list of texts, or a map of names to texts or `{ text, threshold }`.",
        ),
        Field::new("criteria", ASSERTIONS, "Alias of `assertions`."),
        Field::new("threshold", SHARE, "Minimum score of each assertion, from 0 to 1.").default("0.7"),
        Field::new("repeat", Kind::Whole { min: 1, max: 100 }, "Number of calls per judge.").default("1"),
        Field::new(
            "panel",
            Kind::List { of: &Kind::Object(&PANELIST), min: 1 },
            "Panel of judges; missing keys are inherited.",
        ),
        Field::new("command", FREE, "Program for `type: command`: `argv`, `prompt_via`, `output`."),
        Field::new("env", ENV, "Environment variables of the judge."),
        Field::new(
            "max_budget_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "Stops a call of a judge when its cost reaches this amount.",
        ),
    ],
};

static PANELIST: Object = Object {
    name: "judge",
    fields: &[
        Field::new("type", Kind::AgentType, "Agent type of the judge."),
        Field::new("agent_name", formatted(100, Format::Name), "Agent definition of the judge."),
        Field::new("model", formatted(200, Format::Model), "Model of the judge."),
        Field::new("command", FREE, "Program for `type: command`."),
    ],
};

static COMMAND_CONFIG: Object = Object {
    name: "commandEvaluator",
    fields: &[
        Field::new("argv", Kind::List { of: &TEXT, min: 1 }, "Program and arguments, without a shell."),
        Field::new("shell", TEXT, "Command line for `sh -c`, instead of `argv`."),
        Field::new(
            "working_dir",
            formatted(500, Format::RelativePath),
            "Working directory, relative to the root of the tree.",
        ),
        Field::new(
            "env",
            ENV,
            "Environment variables: names to pass through, or names with values, in which `${ENV:NAME}` is expanded.",
        ),
        Field::new("timeout", MILLISECONDS, "Timeout [default: `timeouts.evaluators`]."),
        Field::new("network", Kind::Bool, "Whether network access is allowed.").default("false"),
        Field::new(
            "hidden",
            Kind::Map { names: Format::RelativePath, of: &formatted(500, Format::RelativePath) },
            "Files hidden from the agent: destinations in the tree, with sources relative to this file.",
        ),
        Field::new(
            "restore",
            GLOBS,
            "Globs of files to restore from the start tree before grading [default: tests and their configuration].",
        ),
        Field::new("expect", Kind::Object(&EXPECT), "Expectations."),
        Field::new("report", Kind::Object(&REPORT), "Test report to read."),
        Field::new(
            "metrics",
            Kind::Map { names: Format::Any, of: &Kind::Object(&METRIC) },
            "Numbers to read from the output or files.",
        ),
    ],
};

static EXPECT: Object = Object {
    name: "expect",
    fields: &[
        Field::new(
            "exit_code",
            Kind::Either(&[EXIT_CODE, Kind::List { of: &EXIT_CODE, min: 1 }]),
            "Expected exit code or codes.",
        )
        .default("0"),
        Field::new("output", ONE_OR_MORE, "Regular expressions that must match the output."),
        Field::new("no_output", ONE_OR_MORE, "Regular expressions that must not match the output."),
        Field::new(
            "tests",
            Kind::Either(&[Kind::Whole { min: 1, max: i64::MAX }, Kind::List { of: &TEXT, min: 1 }]),
            "Tests that must pass: a minimum number, or ids. Guards against code that ends the test runner with exit code 0.",
        ),
    ],
};

static REPORT: Object = Object {
    name: "testReport",
    fields: &[
        Field::new("format", Kind::Word(&["junit", "json", "tap"]), "Format of the report.").required(),
        Field::new(
            "file",
            formatted(500, Format::RelativePath),
            "Report file, relative to the working directory [default: stdout].",
        ),
    ],
};

static METRIC: Object = Object {
    name: "metric",
    fields: &[
        Field::new("regex", TEXT, "Regular expression; the first group of its last match is the number."),
        Field::new("json", TEXT, "JSON pointer, such as `/totals/percent`."),
        Field::new(
            "file",
            formatted(500, Format::RelativePath),
            "File with the number, relative to the working directory [default: output].",
        ),
        Field::new("min", NUMBER, "Minimum value."),
        Field::new("max", NUMBER, "Maximum value."),
    ],
};

static FILES_CONFIG: Object = Object {
    name: "files",
    fields: &[
        Field::new("assertions", Kind::Object(&FILES_ASSERTIONS), "Assertions."),
        Field::new("tampering", Kind::Bool, "Whether changes to files in `unchanged` count as cheating.")
            .default("false"),
    ],
};

static FILES_ASSERTIONS: Object = Object {
    name: "filesAssertions",
    fields: &[
        Field::new("exists", GLOBS, "Globs that must each match a file."),
        Field::new("absent", GLOBS, "Globs that must not match."),
        Field::new("contains", BY_FILE, "Texts that files must contain, by file."),
        Field::new("matches", BY_FILE, "Regular expressions that files must match, by file."),
        Field::new(
            "json_schema",
            Kind::Map {
                names: Format::RelativePath,
                of: &Kind::Either(&[formatted(500, Format::RelativePath), FREE]),
            },
            "JSON Schemas that files must match, by file: inline, or a path relative to this file.",
        ),
        Field::new("unchanged", GLOBS, "Globs of files that must not change."),
    ],
};

static TRAJECTORY_CONFIG: Object = Object {
    name: "trajectory",
    fields: &[Field::new("assertions", Kind::Object(&TRAJECTORY_ASSERTIONS), "Assertions.")],
};

static TRAJECTORY_ASSERTIONS: Object = Object {
    name: "trajectoryAssertions",
    fields: &[
        Field::new("tools_used", TOOLS, "Tools that must be called, such as `Edit` or `Bash(cargo test*)`."),
        Field::new("tools_forbidden", TOOLS, "Tools that must not be called."),
        Field::new("order", TOOLS, "Tools that must be called in this order, with any others between."),
        Field::new(
            "counts",
            Kind::Map { names: Format::Any, of: &Kind::Object(&CALL_COUNT) },
            "Number of calls by tool.",
        ),
        Field::new("max_tool_calls", COUNT, "Maximum number of tool calls."),
        Field::new("max_failed_calls", COUNT, "Maximum number of failed tool calls."),
        Field::new("max_repeated_calls", COUNT, "Maximum number of repeated tool calls."),
        Field::new("max_denials", COUNT, "Maximum number of denied tool calls."),
        Field::new("max_turns", COUNT, "Maximum number of turns."),
    ],
};

static CALL_COUNT: Object = Object {
    name: "callCount",
    fields: &[
        Field::new("min", COUNT, "Minimum number of calls."),
        Field::new("max", COUNT, "Maximum number of calls."),
    ],
};

static BUDGET_CONFIG: Object = Object {
    name: "budget",
    fields: &[Field::new("assertions", Kind::Object(&BUDGET_ASSERTIONS), "Limits.")],
};

static BUDGET_ASSERTIONS: Object = Object {
    name: "budgetAssertions",
    fields: &[
        Field::new("max_tokens", COUNT, "Maximum number of input and output tokens, without cache."),
        Field::new("max_input_tokens", COUNT, "Maximum number of uncached input tokens."),
        Field::new("max_output_tokens", COUNT, "Maximum number of output tokens."),
        Field::new("max_cost_usd", BITS, "Maximum cost."),
        Field::new("max_duration", MILLISECONDS, "Maximum duration."),
        Field::new("max_turns", COUNT, "Maximum number of turns."),
    ],
};

static ANSWER_CONFIG: Object = Object {
    name: "answer",
    fields: &[
        Field::new("assertions", Kind::Object(&ANSWER_ASSERTIONS), "Assertions on the final answer."),
        Field::new(
            "assertions_file",
            formatted(500, Format::RelativePath),
            "JSON file with further assertions, relative to this file; variables are not expanded.",
        ),
    ],
};

static ANSWER_ASSERTIONS: Object = Object {
    name: "answerAssertions",
    fields: &[
        Field::new("equals", text(0, usize::MAX), "Expected final answer, without surrounding whitespace."),
        Field::new("contains", ONE_OR_MORE, "Texts that the answer must contain."),
        Field::new("matches", ONE_OR_MORE, "Regular expressions that the answer must match."),
        Field::new("json", Kind::Any, "Expected JSON value, structured or as text."),
        Field::new("json_schema", FREE, "JSON Schema that the value must match."),
    ],
};

/// The configuration of an evaluator by its name; several of a kind are told apart by what follows its name.
pub(crate) fn config_of(name: &str) -> Option<&'static Object> {
    match known(name)? {
        GIT_DIFF => Some(&GIT_DIFF_CONFIG),
        EXPECTED_DIFF => Some(&EXPECTED_DIFF_CONFIG),
        COMMAND => Some(&COMMAND_CONFIG),
        FILES => Some(&FILES_CONFIG),
        TRAJECTORY => Some(&TRAJECTORY_CONFIG),
        BUDGET => Some(&BUDGET_CONFIG),
        ANSWER => Some(&ANSWER_CONFIG),
        _ => Some(&JUDGE_CONFIG),
    }
}

/// The evaluator that a name means: its own, or that with more after `-` or `:`.
pub(crate) fn known(name: &str) -> Option<&'static str> {
    let means = |known: &&str| {
        name.strip_prefix(*known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':']))
    };
    EVALUATORS.iter().copied().find(means)
}
