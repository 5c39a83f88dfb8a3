//! The fields of case and eval files: the one description used by validation and `yb schema`.

use super::expected::SOURCES;
use super::fields_agent::AGENT;
use super::fields_evaluator::EVALUATOR;
use super::fields_hook::{POST_EVALUATION, PRE_EXECUTION, PREPARE};
use super::format::Format;
use super::shape::{Field, GLOBS, Kind, Object, TEXT, formatted, text};
use super::solution::COMMAND;

/// The format version of strict files.
pub(crate) const VERSION: i64 = 1;

/// The evaluator of Harbor tasks.
pub(crate) const REWARD_EVALUATOR: &str = concat!("reward", "-file");

pub(crate) const ISOLATION: &[&str] = &["auto", "bubblewrap", "landlock", "none", "external"];

pub(crate) const NETWORK_MODES: &[&str] = &["open", "model-only", "none"];

/// A network mode, or a mode with allowed hosts.
pub(crate) const NETWORK: Kind = Kind::Either(&[Kind::Word(NETWORK_MODES), Kind::Object(&NETWORK_OBJECT)]);

const AMOUNT: Kind = Kind::Whole { min: 0, max: 1_000_000_000 };

const TIME: Kind = Kind::Duration { zero: true };
const ANY_TEXT: Kind = text(0, usize::MAX);

const MAY_CHANGE: &str = "Globs of the files whose changes are graded by commands; all others are as at the start. `default` stands for all but tests, settings of test runners, caches, environments and shadows of hidden files [default: `[default]`].";

const PATH_KIND: Kind = formatted(500, Format::RelativePath);

/// Files of a case or a variant.
pub(crate) const OVERLAY_FILES: Field = Field::new(
    "files",
    Kind::Map { names: Format::RelativePath, of: &PATH_KIND },
    "Files to lay over the start tree, such as `CLAUDE.md: md/strict.md`: paths in the workspace, each with a file or directory relative to this file.",
);
pub(crate) const OVERLAY_REMOVE: Field = Field::new(
    "remove",
    Kind::List { of: &PATH_KIND, min: 0 },
    "Files and directories to remove from the start tree, before `files` are laid over it.",
);

/// A case file.
pub(crate) static CASE: Object = Object {
    name: "case",
    fields: &[
        Field::new(
            "youbencha",
            Kind::Whole { min: VERSION, max: VERSION },
            "Format version. If set, unknown keys are errors.",
        ),
        Field::new("name", text(1, 200), "Name of the case.").wanted(),
        Field::new("description", text(1, 1000), "Description of the case.").wanted(),
        Field::new(
            "repo",
            TEXT,
            "Repository of the start tree: a URL, or a path relative to this file.",
        ),
        Field::new(
            "directory",
            TEXT,
            "Directory of the start tree, relative to this file, instead of `repo`.",
        ),
        Field::new("branch", TEXT, "Branch of the start tree [default: default branch of the remote]."),
        Field::new("commit", TEXT, "Commit of the start tree [default: head of the branch]."),
        Field::new(
            "environment",
            Kind::Object(&ENVIRONMENT),
            "Root directory of all processes in place of the host's: an image, a Dockerfile or a directory. Without `repo` and `directory`, its working directory is the start tree.",
        ),
        OVERLAY_FILES,
        OVERLAY_REMOVE,
        Field::new("agent", Kind::Object(&AGENT), "Agent, prompt and options.").required(),
        Field::new(
            "expected_source",
            Kind::Word(SOURCES),
            "Kind of `expected`: a branch or commit of the repository, or a directory or patch relative to this file.",
        )
        .default("\"branch\""),
        Field::new("expected", TEXT, "Expected result: branch, commit or path."),
        Field::new(
            "solution",
            Kind::Object(&SOLUTION),
            "Reference solution, with which `yb check` proves that the case can be solved [default: `expected`].",
        ),
        Field::new(
            "evaluators",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&EVALUATOR)]), min: 1 },
            "Evaluators: names, `{name, config}` or `{file}`.",
        )
        .required(),
        Field::new(
            "prepare",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&PREPARE)]), min: 0 },
            "Preparation of a tree before a command grades it, such as `npm ci`, and with `for: both` of the workspace of the agent; runs once, and the result is cached and copied.",
        ),
        Field::new("may_change", GLOBS, MAY_CHANGE),
        Field::new(
            "pre_execution",
            Kind::List { of: &Kind::Object(&PRE_EXECUTION), min: 0 },
            "Hooks that run in the workspace before the agent.",
        ),
        Field::new(
            "post_evaluation",
            Kind::List { of: &Kind::Object(&POST_EVALUATION), min: 0 },
            "Hooks that receive the results after grading.",
        ),
        Field::new("workspace_dir", TEXT, "Directory of runs.").default("\".youbencha-workspace\""),
        Field::new(
            "workspace_name",
            formatted(100, Format::WorkspaceName),
            "Prefix of the run id instead of `run`.",
        ),
        Field::new(
            "timeout",
            TIME,
            "Timeout of the agent and of fetching the repository, in milliseconds; 0 means no limit; `timeouts` sets them separately.",
        )
        .default("300000"),
        Field::new("timeouts", Kind::Object(&TIMEOUTS), "Timeouts by step."),
        Field::new(
            "max_budget_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "Stops the agent when its cost reaches this amount.",
        ),
        Field::new(
            "tags",
            Kind::List { of: &formatted(50, Format::Tag), min: 0 },
            "Labels to select cases.",
        ),
        Field::new(
            "env",
            Kind::Either(&[
                Kind::Map { names: Format::EnvName, of: &ANY_TEXT },
                Kind::List { of: &formatted(200, Format::EnvName), min: 0 },
            ]),
            "Environment variables of the agent: names to pass through, or names with values, in which `${ENV:NAME}` is expanded.",
        ),
        Field::new("capture", Kind::Object(&CAPTURE), "Options of capturing the end tree."),
        Field::new("isolation", Kind::Word(ISOLATION), "Isolation of the agent.")
            .default("\"auto\""),
        Field::new("network", NETWORK, "Network access of the agent.").default("\"open\""),
        Field::new("limits", Kind::Object(&LIMITS), "Resource limits of the agent; 0 means no limit."),
        Field::new(
            "tape",
            Kind::Either(&[formatted(500, Format::RelativePath), Kind::Object(&TAPE)]),
            "Replaces the model API: a tape, a directory with a tape per trial, or a script.",
        ),
    ],
};

/// The root of a case: one of the first three keys.
static ENVIRONMENT: Object = Object {
    name: "environment",
    fields: &[
        Field::new(
            "image",
            TEXT,
            "Image: `registry/name:tag`, `registry/name@sha256:…`, `oci:DIR` or `docker-archive:FILE`, the last two relative to this file.",
        ),
        Field::new(
            "dockerfile",
            TEXT,
            "Directory with a Dockerfile and its build context, relative to this file.",
        ),
        Field::new("rootfs", TEXT, "Directory with the files of a root, relative to this file."),
        Field::new("workdir", text(1, 500), "Working directory inside [default: that of the image]."),
        Field::new(
            "user",
            text(1, 100),
            "User inside: a name or an id [default: that of the image, or `root`].",
        ),
        Field::new(
            "env",
            super::shape::ENVIRONMENT,
            "Environment variables of all processes, in addition to those of the image.",
        ),
    ],
};

/// The reference solution: one of these keys.
pub(crate) static SOLUTION: Object = Object {
    name: "solution",
    fields: &[
        Field::new("patch", TEXT, "Patch of the start tree, relative to this file."),
        Field::new(
            "directory",
            TEXT,
            "Directory with files that are copied over the start tree, relative to this file.",
        ),
        Field::new("branch", TEXT, "Branch of the repository."),
        Field::new("commit", TEXT, "Commit of the repository."),
        Field::new(
            COMMAND,
            TEXT,
            "Shell command that solves the task in the workspace, in the sandbox of the agent.",
        ),
    ],
};

static TAPE: Object = Object {
    name: "tape",
    fields: &[
        Field::new(
            "script",
            formatted(500, Format::RelativePath),
            "Script of model responses, relative to this file; `{{workspace}}` expands to the workspace.",
        ),
        Field::new(
            "replay",
            formatted(500, Format::RelativePath),
            "Tape, or directory with a tape per trial, relative to this file.",
        ),
        Field::new(
            "mode",
            Kind::Word(&["exact", "strict", "lenient"]),
            "Comparison of tool results with the recording.",
        )
        .default("\"strict\""),
        Field::new("speed", Kind::Word(&["fast", "real"]), "Replay speed: immediate or as recorded.")
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
            "Further hosts that can be reached with `model-only`.",
        ),
    ],
};

/// Resource limits of a trial.
pub(crate) static LIMITS: Object = Object {
    name: "limits",
    fields: &[
        Field::new("memory_mb", AMOUNT, "Memory of all processes in MB.").default("8192"),
        Field::new("processes", AMOUNT, "Number of concurrent processes.").default("1024"),
        Field::new("cpu_seconds", AMOUNT, "CPU time of all processes in seconds.").default("0"),
        Field::new("disk_mb", AMOUNT, "Disk usage of workspace and private directory in MB.")
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
            "Format version. If set, unknown keys are errors.",
        ),
        Field::new("name", text(1, 200), "Name in reports."),
        Field::new("description", text(1, 1000), "Description."),
        Field::new(
            "directory",
            TEXT,
            "Directory to grade, relative to this file or to the working directory.",
        ),
        Field::new(
            "base",
            TEXT,
            "Branch or commit of the repository to compare with [default: last commit].",
        ),
        Field::new("expected_directory", TEXT, "Directory with the expected result."),
        Field::new(
            "evaluators",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&EVALUATOR)]), min: 1 },
            "Evaluators: names, `{name, config}` or `{file}`.",
        )
        .required(),
        Field::new(
            "prepare",
            Kind::List { of: &Kind::Either(&[TEXT, Kind::Object(&PREPARE)]), min: 0 },
            "Preparation of a tree before a command grades it, such as `npm ci`; runs once, and the result is cached and copied.",
        ),
        Field::new("may_change", GLOBS, MAY_CHANGE),
        Field::new(
            "post_evaluation",
            Kind::List { of: &Kind::Object(&POST_EVALUATION), min: 0 },
            "Hooks that receive the results after grading.",
        ),
        Field::new("output_dir", TEXT, "Directory of results.").default("\".youbencha-eval\""),
        Field::new("timeouts", Kind::Object(&TIMEOUTS), "Timeouts; only `evaluators` applies."),
        Field::new("isolation", Kind::Word(ISOLATION), "Isolation of grading processes.").default("\"auto\""),
    ],
};

static TIMEOUTS: Object = Object {
    name: "timeouts",
    fields: &[
        Field::new("clone", TIME, "Timeout of fetching the repository; 0 means no limit.").default("300000"),
        Field::new("agent", TIME, "Timeout of the agent; 0 means no limit.").default("300000"),
        Field::new("evaluators", TIME, "Timeout of each evaluator; 0 means no limit.").default("300000"),
    ],
};

static CAPTURE: Object = Object {
    name: "capture",
    fields: &[
        Field::new("include", GLOBS, "Globs of git-ignored files to include in the end tree."),
        Field::new("steps", Kind::Bool, "Record the workspace after each step of the agent, for `yb view`.")
            .default("false"),
    ],
};
