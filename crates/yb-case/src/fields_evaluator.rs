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
        Field::new("name", TEXT, "Which evaluator."),
        Field::new("config", FREE, "Its configuration."),
        Field::new(
            "file",
            formatted(500, Format::RelativePath),
            "A file that defines it, instead of `name`.",
        ),
    ],
};

/// An evaluator in a file of its own.
pub(crate) static EVALUATOR_FILE: Object = Object {
    name: "evaluatorFile",
    fields: &[
        Field::new("name", TEXT, "Which evaluator.").required(),
        Field::new("description", text(0, usize::MAX), "What it looks at."),
        Field::new("config", FREE, "Its configuration."),
    ],
};

static GIT_DIFF_CONFIG: Object = Object {
    name: "gitDiff",
    fields: &[
        Field::new(
            "base_commit",
            TEXT,
            "Kept from older files: the diff always starts at the starting tree.",
        ),
        Field::new("assertions", Kind::Object(&GIT_DIFF_ASSERTIONS), "Limits; without any it always passes."),
        Field::new("include", GLOBS, "Globs of the files that count; by default all."),
        Field::new("exclude", GLOBS, "Globs of files that do not count."),
    ],
};

static GIT_DIFF_ASSERTIONS: Object = Object {
    name: "gitDiffAssertions",
    fields: &[
        Field::new("max_files_changed", COUNT, "The most files that may change."),
        Field::new("max_lines_added", COUNT, "The most lines that may be added."),
        Field::new("max_lines_removed", COUNT, "The most lines that may be removed."),
        Field::new("max_total_changes", COUNT, "The most lines that may be added and removed."),
        Field::new("min_change_entropy", BITS, "The least spread of changes over files, in bits."),
        Field::new("max_change_entropy", BITS, "The most spread of changes over files, in bits."),
    ],
};

static EXPECTED_DIFF_CONFIG: Object = Object {
    name: "expectedDiff",
    fields: &[Field::new(
        "threshold",
        Kind::Number { min: 0.0, max: 1.0, above: false },
        "How alike the result and the expected one must be, from 0 to 1.",
    )
    .default("0.8")],
};

static JUDGE_CONFIG: Object = Object {
    name: "agenticJudge",
    fields: &[
        Field::new("type", Kind::AgentType, "The agent that judges.").required(),
        Field::new("agent_name", formatted(100, Format::Name), "Its own definition to run as."),
        Field::new("model", formatted(200, Format::Model), "Its model."),
        Field::new("timeout", MILLISECONDS, "Its time in milliseconds.").default("300000"),
        Field::new("prompt", TEXT, "What it is told besides the assertions."),
        Field::new("prompt_file", formatted(500, Format::RelativePath), "A file with that."),
        Field::new(
            "instructions-file",
            formatted(500, Format::RelativePath),
            "A template of its whole prompt, with `{{ASSERTIONS}}`.",
        ),
        Field::new(
            "assertions",
            ASSERTIONS,
            "What must hold: a list of texts, or by name a text or `{ text, threshold }`.",
        ),
        Field::new("criteria", ASSERTIONS, "Another name of `assertions`."),
        Field::new("threshold", SHARE, "The score that each assertion needs, from 0 to 1.").default("0.7"),
        Field::new("repeat", Kind::Whole { min: 1, max: 100 }, "How often each judge is asked.").default("1"),
        Field::new(
            "panel",
            Kind::List { of: &Kind::Object(&PANELIST), min: 1 },
            "Several judges; what one does not say is as above.",
        ),
        Field::new("command", FREE, "The program, for `type: command`: `argv`, `prompt_via`, `output`."),
        Field::new("env", ENV, "Variables that a judge is given."),
        Field::new(
            "max_budget_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "A judge is stopped when a call has cost this much.",
        ),
    ],
};

static PANELIST: Object = Object {
    name: "judge",
    fields: &[
        Field::new("type", Kind::AgentType, "The agent that judges."),
        Field::new("agent_name", formatted(100, Format::Name), "Its own definition to run as."),
        Field::new("model", formatted(200, Format::Model), "Its model."),
        Field::new("command", FREE, "The program, for `type: command`."),
    ],
};

static COMMAND_CONFIG: Object = Object {
    name: "command",
    fields: &[
        Field::new(
            "argv",
            Kind::List { of: &TEXT, min: 1 },
            "The program and its arguments. No shell reads them.",
        ),
        Field::new("shell", TEXT, "A line for `sh -c`, instead of `argv`."),
        Field::new(
            "working_dir",
            formatted(500, Format::RelativePath),
            "Where it runs, from the root of the tree.",
        ),
        Field::new(
            "env",
            ENV,
            "Variables for it: names to pass on, or names with values, in which `${ENV:NAME}` is replaced.",
        ),
        Field::new("timeout", MILLISECONDS, "Its time; by default every evaluator's."),
        Field::new("network", Kind::Bool, "Whether it may use the network.").default("false"),
        Field::new(
            "hidden",
            Kind::Map { names: Format::RelativePath, of: &formatted(500, Format::RelativePath) },
            "Files that only grading sees: where each goes in the tree, and where it is, relative to this file.",
        ),
        Field::new(
            "restore",
            GLOBS,
            "Globs of files that are as they were at the start, whatever the agent made of them; by default tests and what steers them.",
        ),
        Field::new("expect", Kind::Object(&EXPECT), "What must hold afterwards."),
        Field::new("report", Kind::Object(&REPORT), "Where it tells about its tests."),
        Field::new(
            "metrics",
            Kind::Map { names: Format::Any, of: &Kind::Object(&METRIC) },
            "Numbers that are read from what it leaves.",
        ),
    ],
};

static EXPECT: Object = Object {
    name: "expect",
    fields: &[
        Field::new(
            "exit_code",
            Kind::Either(&[EXIT_CODE, Kind::List { of: &EXIT_CODE, min: 1 }]),
            "The exit code, or several.",
        )
        .default("0"),
        Field::new("output", ONE_OR_MORE, "Regular expressions that must match in what it prints."),
        Field::new("no_output", ONE_OR_MORE, "Regular expressions that must not match."),
        Field::new(
            "tests",
            Kind::Either(&[Kind::Whole { min: 1, max: i64::MAX }, Kind::List { of: &TEXT, min: 1 }]),
            "Tests that must have passed: so many, or those with these ids. Code under test can end its runner with exit code 0.",
        ),
    ],
};

static REPORT: Object = Object {
    name: "testReport",
    fields: &[
        Field::new("format", Kind::Word(&["junit", "json", "tap"]), "How it tells.").required(),
        Field::new(
            "file",
            formatted(500, Format::RelativePath),
            "The file that it writes, from where it runs; without one its stdout is read.",
        ),
    ],
};

static METRIC: Object = Object {
    name: "metric",
    fields: &[
        Field::new("regex", TEXT, "Its first group is the number, at its last match."),
        Field::new("json", TEXT, "A JSON pointer, such as `/totals/percent`."),
        Field::new(
            "file",
            formatted(500, Format::RelativePath),
            "The file that it is in, from where the command runs; without one the output is read.",
        ),
        Field::new("min", NUMBER, "The least that it may be."),
        Field::new("max", NUMBER, "The most that it may be."),
    ],
};

static FILES_CONFIG: Object = Object {
    name: "files",
    fields: &[
        Field::new("assertions", Kind::Object(&FILES_ASSERTIONS), "What must hold."),
        Field::new("tampering", Kind::Bool, "Whether changing a file of `unchanged` is cheating.")
            .default("false"),
    ],
};

static FILES_ASSERTIONS: Object = Object {
    name: "filesAssertions",
    fields: &[
        Field::new("exists", GLOBS, "Globs, each of which must match a file."),
        Field::new("absent", GLOBS, "Globs that must match nothing."),
        Field::new("contains", BY_FILE, "Files with texts that must be in them."),
        Field::new("matches", BY_FILE, "Files with regular expressions that must match in them."),
        Field::new(
            "json_schema",
            Kind::Map {
                names: Format::RelativePath,
                of: &Kind::Either(&[formatted(500, Format::RelativePath), FREE]),
            },
            "Files with the JSON Schemas that they must satisfy: a file beside this one, or in place.",
        ),
        Field::new("unchanged", GLOBS, "Globs of files that must be as they were at the start."),
    ],
};

static TRAJECTORY_CONFIG: Object = Object {
    name: "trajectory",
    fields: &[Field::new("assertions", Kind::Object(&TRAJECTORY_ASSERTIONS), "What must hold.")],
};

static TRAJECTORY_ASSERTIONS: Object = Object {
    name: "trajectoryAssertions",
    fields: &[
        Field::new(
            "tools_used",
            TOOLS,
            "Tools that must have been called, such as `Edit` or `Bash(cargo test*)`.",
        ),
        Field::new("tools_forbidden", TOOLS, "Tools that must not have been called."),
        Field::new(
            "order",
            TOOLS,
            "Tools that must have been called in this order; others may stand between.",
        ),
        Field::new(
            "counts",
            Kind::Map { names: Format::Any, of: &Kind::Object(&CALL_COUNT) },
            "How often a tool may be called.",
        ),
        Field::new("max_tool_calls", COUNT, "The most calls of tools."),
        Field::new("max_failed_calls", COUNT, "The most calls that failed."),
        Field::new("max_repeated_calls", COUNT, "The most calls that an earlier one equals."),
        Field::new("max_denials", COUNT, "The most calls that were not allowed."),
        Field::new("max_turns", COUNT, "The most turns."),
    ],
};

static CALL_COUNT: Object = Object {
    name: "callCount",
    fields: &[Field::new("min", COUNT, "At least so often."), Field::new("max", COUNT, "At most so often.")],
};

static BUDGET_CONFIG: Object = Object {
    name: "budget",
    fields: &[Field::new("assertions", Kind::Object(&BUDGET_ASSERTIONS), "What the agent may use.")],
};

static BUDGET_ASSERTIONS: Object = Object {
    name: "budgetAssertions",
    fields: &[
        Field::new("max_tokens", COUNT, "The most tokens read and written, without the cache."),
        Field::new("max_input_tokens", COUNT, "The most tokens read at the full price."),
        Field::new("max_output_tokens", COUNT, "The most tokens written."),
        Field::new("max_cost_usd", BITS, "The most that it may cost."),
        Field::new("max_duration", MILLISECONDS, "The longest that it may take."),
        Field::new("max_turns", COUNT, "The most turns."),
    ],
};

static ANSWER_CONFIG: Object = Object {
    name: "answer",
    fields: &[
        Field::new("assertions", Kind::Object(&ANSWER_ASSERTIONS), "What the answer must be."),
        Field::new(
            "assertions_file",
            formatted(500, Format::RelativePath),
            "A JSON file with more of them, beside this one; no variables are filled in there.",
        ),
    ],
};

static ANSWER_ASSERTIONS: Object = Object {
    name: "answerAssertions",
    fields: &[
        Field::new("equals", text(0, usize::MAX), "The agent's last words, but for space around them."),
        Field::new("contains", ONE_OR_MORE, "Texts that must be in them."),
        Field::new("matches", ONE_OR_MORE, "Regular expressions that must match in them."),
        Field::new("json", Kind::Any, "The value that it must give, as an object or as text."),
        Field::new("json_schema", FREE, "The JSON Schema that this value must satisfy."),
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
