//! The fields of a case file, described once: what the decoder checks and what `yb schema` prints.

use super::expected::SOURCES;
use super::fields_agent::AGENT;
use super::fields_evaluator::EVALUATOR;
use super::fields_hook::{POST_EVALUATION, PRE_EXECUTION, PREPARE};
use super::format::Format;
use super::shape::{Field, Kind, MILLISECONDS, Object, TEXT, formatted, text};

/// The version of the format that strict files name.
pub(crate) const VERSION: i64 = 1;

pub(crate) const ISOLATION: &[&str] = &["auto", "bubblewrap", "landlock", "none", "external"];

pub(crate) const NETWORK_MODES: &[&str] = &["open", "model-only", "none"];

/// One of the modes, or a mode with hosts.
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
            "The version of the format. A file that says it is strict: an unknown key is an error.",
        ),
        Field::new("name", text(1, 200), "What the case is called in reports.").wanted(),
        Field::new("description", text(1, 1000), "What the case is about.").wanted(),
        Field::new(
            "repo",
            TEXT,
            "Where the starting tree comes from: a URL, or the path of a repository on this machine, relative to this file.",
        ),
        Field::new(
            "directory",
            TEXT,
            "A directory as the starting tree, relative to this file, instead of `repo`.",
        ),
        Field::new("branch", TEXT, "The branch to start from; by default the remote's own."),
        Field::new("commit", TEXT, "The commit to start from; by default the branch's head."),
        Field::new("agent", Kind::Object(&AGENT), "The agent and what it is told.").required(),
        Field::new(
            "expected_source",
            Kind::Word(SOURCES),
            "What `expected` is: a branch or a commit of the repository, or a directory or a patch beside this file.",
        )
        .default("\"branch\""),
        Field::new("expected", TEXT, "The expected result: the branch, the commit, or the path."),
        Field::new(
            "evaluators",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&EVALUATOR)]), min: 1 },
            "What grades the result: names, `{name, config}`, or `{file}`.",
        )
        .required(),
        Field::new(
            "prepare",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&PREPARE)]), min: 0 },
            "What readies a tree before a command grades it, such as `npm ci`: done once, kept and copied.",
        ),
        Field::new(
            "pre_execution",
            Kind::List { of: &Kind::Object(&PRE_EXECUTION), min: 0 },
            "What runs in the workspace before the agent.",
        ),
        Field::new(
            "post_evaluation",
            Kind::List { of: &Kind::Object(&POST_EVALUATION), min: 0 },
            "What runs with the results after grading.",
        ),
        Field::new("workspace_dir", TEXT, "Where runs are kept.").default("\".youbencha-workspace\""),
        Field::new(
            "workspace_name",
            formatted(100, Format::WorkspaceName),
            "The first part of the run's name, instead of `run`.",
        ),
        Field::new(
            "timeout",
            MILLISECONDS,
            "The time for the agent and for cloning, in milliseconds; `timeouts` says them apart.",
        )
        .default("300000"),
        Field::new("timeouts", Kind::Object(&TIMEOUTS), "Times, each for its own step."),
        Field::new(
            "max_budget_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "The agent is stopped when it has cost this much.",
        ),
        Field::new(
            "tags",
            Kind::List { of: &formatted(50, Format::Tag), min: 0 },
            "Labels by which cases are chosen.",
        ),
        Field::new(
            "env",
            Kind::Either(&[
                Kind::Map { names: Format::EnvName, of: &ANY_TEXT },
                Kind::List { of: &formatted(200, Format::EnvName), min: 0 },
            ]),
            "Variables for the agent: names to pass on from the environment, or names with values, in which `${ENV:NAME}` is replaced.",
        ),
        Field::new("capture", Kind::Object(&CAPTURE), "What is kept of the agent's work."),
        Field::new("isolation", Kind::Word(ISOLATION), "What stands between the agent and the machine.")
            .default("\"auto\""),
        Field::new("network", NETWORK, "What the agent can connect to.").default("\"open\""),
        Field::new("limits", Kind::Object(&LIMITS), "How much the agent may use; 0 is no limit."),
        Field::new(
            "tape",
            Kind::Either(&[formatted(500, Format::RelativePath), Kind::Object(&TAPE)]),
            "Who plays the model: a recorded tape, a directory with one for each trial, or a script.",
        ),
    ],
};

static TAPE: Object = Object {
    name: "tape",
    fields: &[
        Field::new(
            "script",
            formatted(500, Format::RelativePath),
            "A script of the model's answers, relative to this file; `{{workspace}}` in it is the agent's workspace.",
        ),
        Field::new(
            "replay",
            formatted(500, Format::RelativePath),
            "A tape, or a directory with one for each trial, relative to this file.",
        ),
        Field::new(
            "mode",
            Kind::Word(&["strict", "lenient"]),
            "Whether what tools say has to be as it was recorded.",
        )
        .default("\"strict\""),
        Field::new(
            "speed",
            Kind::Word(&["fast", "real"]),
            "Whether answers come at once or as they were recorded.",
        )
        .default("\"fast\""),
    ],
};

static NETWORK_OBJECT: Object = Object {
    name: "network",
    fields: &[
        Field::new("mode", Kind::Word(NETWORK_MODES), "What the agent can connect to.").required(),
        Field::new(
            "allow",
            Kind::List { of: &formatted(300, Format::Host), min: 0 },
            "Hosts that can be reached beside the model's, with `model-only`.",
        ),
    ],
};

/// What a trial may use.
pub(crate) static LIMITS: Object = Object {
    name: "limits",
    fields: &[
        Field::new("memory_mb", AMOUNT, "Memory of all its processes together, in MB.").default("8192"),
        Field::new("processes", AMOUNT, "Processes at the same time.").default("1024"),
        Field::new("cpu_seconds", AMOUNT, "CPU time of all its processes together, in seconds.").default("0"),
        Field::new("disk_mb", AMOUNT, "What it writes into its workspace and private directory, in MB.")
            .default("10240"),
    ],
};

/// What holds where a file says nothing about isolation.
pub(crate) const ISOLATION_DEFAULT: super::Isolation = super::Isolation::Auto;

/// An eval file.
pub(crate) static EVAL: Object = Object {
    name: "eval",
    fields: &[
        Field::new(
            "youbencha",
            Kind::Whole { min: VERSION, max: VERSION },
            "The version of the format. A file that says it is strict: an unknown key is an error.",
        ),
        Field::new("name", text(1, 200), "What it is called in reports."),
        Field::new("description", text(1, 1000), "What it is about."),
        Field::new(
            "directory",
            TEXT,
            "The directory to grade, relative to this file or to the working directory.",
        ),
        Field::new(
            "base",
            TEXT,
            "What it is compared with: a branch or commit of its own repository; by default its last commit.",
        ),
        Field::new("expected_directory", TEXT, "A directory with the expected result."),
        Field::new(
            "evaluators",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&EVALUATOR)]), min: 1 },
            "What grades it: names, `{name, config}`, or `{file}`.",
        )
        .required(),
        Field::new(
            "prepare",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&PREPARE)]), min: 0 },
            "What readies a tree before a command grades it, such as `npm ci`: done once, kept and copied.",
        ),
        Field::new(
            "post_evaluation",
            Kind::List { of: &Kind::Object(&POST_EVALUATION), min: 0 },
            "What runs with the results after grading.",
        ),
        Field::new("output_dir", TEXT, "Where results are kept.").default("\".youbencha-eval\""),
        Field::new("timeouts", Kind::Object(&TIMEOUTS), "Times; only `evaluators` means something here."),
        Field::new(
            "isolation",
            Kind::Word(ISOLATION),
            "What stands between what is run for grading and the machine.",
        )
        .default("\"auto\""),
    ],
};

static TIMEOUTS: Object = Object {
    name: "timeouts",
    fields: &[
        Field::new("clone", TIME, "For fetching the repository; 0 is for ever.").default("300000"),
        Field::new("agent", TIME, "For the agent; 0 is for ever.").default("300000"),
        Field::new("evaluators", TIME, "For each evaluator; 0 is for ever.").default("300000"),
    ],
};

static CAPTURE: Object = Object {
    name: "capture",
    fields: &[Field::new(
        "include",
        Kind::List { of: &formatted(500, Format::RelativePath), min: 0 },
        "Patterns of ignored files that count as part of the result.",
    )],
};
