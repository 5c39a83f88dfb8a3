//! The fields of hooks. The name of a hook determines the fields of its configuration.

use super::format::Format;
use super::shape::{FREE, Field, Kind, MILLISECONDS, Object, TEXT, TEXTS, formatted, text};

pub(crate) const SCRIPT: &str = "script";
pub(crate) const WEBHOOK: &str = "webhook";
pub(crate) const DATABASE: &str = "database";

/// The trees that a command of `prepare` is for.
pub(crate) const BOTH: &str = "both";

const VARIABLES: Kind = Kind::Map { names: Format::EnvName, of: &text(0, usize::MAX) };
const HEADERS: Kind = Kind::Map { names: Format::Any, of: &text(0, usize::MAX) };

pub(crate) static PRE_EXECUTION: Object = Object {
    name: "preExecution",
    fields: &[
        Field::new("name", Kind::Word(&[SCRIPT]), "Kind of hook.").required(),
        Field::new("config", FREE, "Configuration.").required(),
    ],
};

pub(crate) static POST_EVALUATION: Object = Object {
    name: "postEvaluation",
    fields: &[
        Field::new("name", Kind::Word(&[SCRIPT, WEBHOOK, DATABASE]), "Kind of hook.").required(),
        Field::new("config", FREE, "Configuration.").required(),
    ],
};

static SCRIPT_CONFIG: Object = Object {
    name: "script",
    fields: &[
        Field::new("command", TEXT, "Shell command.").required(),
        Field::new("args", TEXTS, "Arguments; `${WORKSPACE_DIR}` and similar variables are expanded."),
        Field::new("env", VARIABLES, "Environment variables; `${ENV:NAME}` is expanded."),
        Field::new("timeout_ms", MILLISECONDS, "Timeout.").default("30000"),
        Field::new("working_dir", TEXT, "Working directory [default: workspace]."),
    ],
};

/// A command that prepares a tree for grading.
pub(crate) static PREPARE: Object = Object {
    name: "prepare",
    fields: &[
        Field::new("command", TEXT, "Shell command.").required(),
        Field::new(
            "for",
            Kind::Word(&["grading", BOTH]),
            "Which trees it prepares: those that are graded, or the workspace of the agent too.",
        )
        .default("\"grading\""),
        Field::new("env", VARIABLES, "Environment variables; `${ENV:NAME}` is expanded."),
        Field::new("timeout_ms", MILLISECONDS, "Timeout.").default("600000"),
        Field::new(
            "working_dir",
            formatted(500, Format::RelativePath),
            "Working directory, relative to the root of the tree.",
        ),
    ],
};

static WEBHOOK_CONFIG: Object = Object {
    name: "webhook",
    fields: &[
        Field::new("url", TEXT, "URL that receives the results; `${ENV:NAME}` is expanded.").required(),
        Field::new("method", Kind::Word(&["POST", "PUT", "PATCH"]), "HTTP method.").default("\"POST\""),
        Field::new("headers", HEADERS, "Further headers; `${ENV:NAME}` is expanded."),
        Field::new("include_artifacts", Kind::Bool, "Whether to send the path of the artifacts.")
            .default("false"),
        Field::new("retry_on_failure", Kind::Bool, "Whether to retry up to three times.").default("true"),
        Field::new("timeout_ms", MILLISECONDS, "Timeout.").default("5000"),
    ],
};

static DATABASE_CONFIG: Object = Object {
    name: "database",
    fields: &[
        Field::new("type", Kind::Word(&["json-file"]), "Kind of store.").required(),
        Field::new(
            "output_path",
            formatted(1000, Format::Any),
            "File that receives a line of JSON per trial.",
        )
        .required(),
        Field::new("include_full_bundle", Kind::Bool, "Whether to write the complete results or a summary.")
            .default("true"),
        Field::new("append", Kind::Bool, "Whether to append to the file or replace it.").default("true"),
    ],
};

/// Returns the configuration fields of a hook.
pub(crate) fn config_of(name: &str) -> Option<&'static Object> {
    match name {
        SCRIPT => Some(&SCRIPT_CONFIG),
        WEBHOOK => Some(&WEBHOOK_CONFIG),
        DATABASE => Some(&DATABASE_CONFIG),
        _ => None,
    }
}
