//! The fields of case and eval files: the one description used by validation and `yb schema`.

use super::expected::SOURCES;
use super::fields_agent::AGENT;
use super::fields_evaluator::EVALUATOR;
use super::fields_hook::{POST_EVALUATION, PRE_EXECUTION, PREPARE};
use super::format::Format;
use super::shape::{Field, Kind, MILLISECONDS, Object, TEXT, formatted, text};

/// The format version of strict files.
pub(crate) const VERSION: i64 = 1;

pub(crate) const ISOLATION: &[&str] = &["auto", "bubblewrap", "landlock", "none", "external"];

pub(crate) const NETWORK_MODES: &[&str] = &["open", "model-only", "none"];

/// A network mode, or a mode with allowed hosts.
pub(crate) const NETWORK: Kind = Kind::Either(&[Kind::Word(NETWORK_MODES), Kind::Object(&NETWORK_OBJECT)]);

const AMOUNT: Kind = Kind::Whole { min: 0, max: 1_000_000_000 };

const TIME: Kind = Kind::Duration { zero: true };
const ANY_TEXT: Kind = text(0, usize::MAX);

/// A case file.
pub(crate) static CASE: Object = Object {
    name: "case",
    fields: &[
        Field::new(
            "youbencha",
            Kind::Whole { min: VERSION, max: VERSION },
            "Format version. With it, the file is strict: unknown keys are errors.",
        ),
        Field::new("name", text(1, 200), "Name of the case in reports.").wanted(),
        Field::new("description", text(1, 1000), "Description of the case.").wanted(),
        Field::new(
            "repo",
            TEXT,
            "Repository of the start tree: a URL, or a local path relative to this file.",
        ),
        Field::new(
            "directory",
            TEXT,
            "Directory to use as the start tree instead of `repo`, relative to this file.",
        ),
        Field::new("branch", TEXT, "Branch to start from; by default the default branch of the remote."),
        Field::new("commit", TEXT, "Commit to start from; by default the head of the branch."),
        Field::new("agent", Kind::Object(&AGENT), "The agent and its prompt.").required(),
        Field::new(
            "expected_source",
            Kind::Word(SOURCES),
            "Type of `expected`: a branch or a commit of the repository, or a directory or a patch relative to this file.",
        )
        .default("\"branch\""),
        Field::new("expected", TEXT, "Expected result: a branch, a commit, or a path."),
        Field::new(
            "evaluators",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&EVALUATOR)]), min: 1 },
            "Evaluators that grade the result: names, `{name, config}`, or `{file}`.",
        )
        .required(),
        Field::new(
            "prepare",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&PREPARE)]), min: 0 },
            "Commands that prepare a tree for grading, such as `npm ci`. They run once; the result is cached and copied.",
        ),
        Field::new(
            "pre_execution",
            Kind::List { of: &Kind::Object(&PRE_EXECUTION), min: 0 },
            "Hooks to run in the workspace before the agent.",
        ),
        Field::new(
            "post_evaluation",
            Kind::List { of: &Kind::Object(&POST_EVALUATION), min: 0 },
            "Hooks to run with the results after grading.",
        ),
        Field::new("workspace_dir", TEXT, "Directory for runs.").default("\".youbencha-workspace\""),
        Field::new(
            "workspace_name",
            formatted(100, Format::WorkspaceName),
            "Prefix of the run name, instead of `run`.",
        ),
        Field::new(
            "timeout",
            MILLISECONDS,
            "Timeout for the agent and for cloning, in milliseconds; `timeouts` sets them separately.",
        )
        .default("300000"),
        Field::new("timeouts", Kind::Object(&TIMEOUTS), "Timeouts of the individual steps."),
        Field::new(
            "max_budget_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "Budget of the agent in USD; the agent is stopped when it is exceeded.",
        ),
        Field::new(
            "tags",
            Kind::List { of: &formatted(50, Format::Tag), min: 0 },
            "Tags for selecting cases.",
        ),
        Field::new(
            "env",
            Kind::Either(&[
                Kind::Map { names: Format::EnvName, of: &ANY_TEXT },
                Kind::List { of: &formatted(200, Format::EnvName), min: 0 },
            ]),
            "Environment variables for the agent: names to pass through, or names with values, in which `${ENV:NAME}` is replaced.",
        ),
        Field::new("capture", Kind::Object(&CAPTURE), "Files to capture after the agent has run."),
        Field::new("isolation", Kind::Word(ISOLATION), "Sandbox for the agent.")
            .default("\"auto\""),
        Field::new("network", NETWORK, "Network access of the agent.").default("\"open\""),
        Field::new("limits", Kind::Object(&LIMITS), "Resource limits of the agent; 0 means no limit."),
        Field::new(
            "tape",
            Kind::Either(&[formatted(500, Format::RelativePath), Kind::Object(&TAPE)]),
            "Replacement for the model: a recorded tape, a directory with one tape per trial, or a script.",
        ),
    ],
};

static TAPE: Object = Object {
    name: "tape",
    fields: &[
        Field::new(
            "script",
            formatted(500, Format::RelativePath),
            "Script with the replies of the model, relative to this file; `{{workspace}}` is replaced by the path of the workspace.",
        ),
        Field::new(
            "replay",
            formatted(500, Format::RelativePath),
            "Tape, or directory with one tape per trial, relative to this file.",
        ),
        Field::new(
            "mode",
            Kind::Word(&["strict", "lenient"]),
            "Whether tool results must match the recording; `lenient` tolerates and counts differences.",
        )
        .default("\"strict\""),
        Field::new(
            "speed",
            Kind::Word(&["fast", "real"]),
            "Replay without delays, or with the recorded timing.",
        )
        .default("\"fast\""),
    ],
};

static NETWORK_OBJECT: Object = Object {
    name: "network",
    fields: &[
        Field::new("mode", Kind::Word(NETWORK_MODES), "Network access of the agent.").required(),
        Field::new(
            "allow",
            Kind::List { of: &formatted(300, Format::Host), min: 0 },
            "Additional hosts to allow with `model-only`.",
        ),
    ],
};

/// Resource limits of a trial.
pub(crate) static LIMITS: Object = Object {
    name: "limits",
    fields: &[
        Field::new("memory_mb", AMOUNT, "Memory of all processes together, in MB.").default("8192"),
        Field::new("processes", AMOUNT, "Number of concurrent processes.").default("1024"),
        Field::new("cpu_seconds", AMOUNT, "CPU time of all processes together, in seconds.").default("0"),
        Field::new("disk_mb", AMOUNT, "Disk usage of the workspace and the private directory, in MB.")
            .default("10240"),
    ],
};

/// The default isolation.
pub(crate) const ISOLATION_DEFAULT: super::Isolation = super::Isolation::Auto;

/// An eval file.
pub(crate) static EVAL: Object = Object {
    name: "eval",
    fields: &[
        Field::new(
            "youbencha",
            Kind::Whole { min: VERSION, max: VERSION },
            "Format version. With it, the file is strict: unknown keys are errors.",
        ),
        Field::new("name", text(1, 200), "Name in reports."),
        Field::new("description", text(1, 1000), "Description of the evaluation."),
        Field::new(
            "directory",
            TEXT,
            "Directory to grade, relative to this file or to the working directory.",
        ),
        Field::new(
            "base",
            TEXT,
            "Branch or commit of the repository to compare with; by default its last commit.",
        ),
        Field::new("expected_directory", TEXT, "Directory with the expected result."),
        Field::new(
            "evaluators",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&EVALUATOR)]), min: 1 },
            "Evaluators: names, `{name, config}`, or `{file}`.",
        )
        .required(),
        Field::new(
            "prepare",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&PREPARE)]), min: 0 },
            "Commands that prepare a tree for grading, such as `npm ci`. They run once; the result is cached and copied.",
        ),
        Field::new(
            "post_evaluation",
            Kind::List { of: &Kind::Object(&POST_EVALUATION), min: 0 },
            "Hooks to run with the results after grading.",
        ),
        Field::new("output_dir", TEXT, "Directory for results.").default("\".youbencha-eval\""),
        Field::new("timeouts", Kind::Object(&TIMEOUTS), "Timeouts; only `evaluators` applies here."),
        Field::new("isolation", Kind::Word(ISOLATION), "Sandbox for commands that run for grading.")
            .default("\"auto\""),
    ],
};

static TIMEOUTS: Object = Object {
    name: "timeouts",
    fields: &[
        Field::new("clone", TIME, "Timeout for fetching the repository; 0 means no limit.").default("300000"),
        Field::new("agent", TIME, "Timeout for the agent; 0 means no limit.").default("300000"),
        Field::new("evaluators", TIME, "Timeout for each evaluator; 0 means no limit.").default("300000"),
    ],
};

static CAPTURE: Object = Object {
    name: "capture",
    fields: &[Field::new(
        "include",
        Kind::List { of: &formatted(500, Format::RelativePath), min: 0 },
        "Patterns of git-ignored files to include in the result.",
    )],
};
