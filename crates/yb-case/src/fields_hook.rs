//! The fields of hooks. The name of a hook determines the fields of its configuration.

use super::format::Format;
use super::shape::{FREE, Field, Kind, MILLISECONDS, Object, TEXT, TEXTS, formatted, text};

pub(crate) const SCRIPT: &str = "script";
pub(crate) const WEBHOOK: &str = "webhook";
pub(crate) const DATABASE: &str = "database";

const VARIABLES: Kind = Kind::Map { names: Format::EnvName, of: &text(0, usize::MAX) };
const HEADERS: Kind = Kind::Map { names: Format::Any, of: &text(0, usize::MAX) };

pub(crate) static PRE_EXECUTION: Object = Object {
    name: "preExecution",
    fields: &[
        Field::new("name", Kind::Word(&[SCRIPT]), "Type of the hook.").required(),
        Field::new("config", FREE, "Configuration of the hook.").required(),
    ],
};

pub(crate) static POST_EVALUATION: Object = Object {
    name: "postEvaluation",
    fields: &[
        Field::new("name", Kind::Word(&[SCRIPT, WEBHOOK, DATABASE]), "Type of the hook.").required(),
        Field::new("config", FREE, "Configuration of the hook.").required(),
    ],
};

static SCRIPT_CONFIG: Object = Object {
    name: "script",
    fields: &[
        Field::new("command", TEXT, "Command for the shell.").required(),
        Field::new("args", TEXTS, "Arguments, in which variables such as `${WORKSPACE_DIR}` are replaced."),
        Field::new("env", VARIABLES, "Environment variables; `${ENV:NAME}` is replaced."),
        Field::new("timeout_ms", MILLISECONDS, "Timeout in milliseconds.").default("30000"),
        Field::new("working_dir", TEXT, "Working directory; by default the workspace."),
    ],
};

/// A command that prepares a tree for grading.
pub(crate) static PREPARE: Object = Object {
    name: "prepare",
    fields: &[
        Field::new("command", TEXT, "Command for the shell.").required(),
        Field::new("env", VARIABLES, "Environment variables; `${ENV:NAME}` is replaced."),
        Field::new("timeout_ms", MILLISECONDS, "Timeout in milliseconds.").default("600000"),
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
        Field::new("url", TEXT, "URL that receives the results; `${ENV:NAME}` is replaced.").required(),
        Field::new("method", Kind::Word(&["POST", "PUT", "PATCH"]), "HTTP method.").default("\"POST\""),
        Field::new("headers", HEADERS, "Additional headers; `${ENV:NAME}` is replaced."),
        Field::new("include_artifacts", Kind::Bool, "Also send the path of the artifacts.").default("false"),
        Field::new("retry_on_failure", Kind::Bool, "Retry up to three times.").default("true"),
        Field::new("timeout_ms", MILLISECONDS, "Timeout in milliseconds.").default("5000"),
    ],
};

static DATABASE_CONFIG: Object = Object {
    name: "database",
    fields: &[
        Field::new("type", Kind::Word(&["json-file"]), "Type of the store.").required(),
        Field::new("output_path", formatted(1000, Format::Any), "File that receives one JSON line per run.")
            .required(),
        Field::new("include_full_bundle", Kind::Bool, "Write the complete results instead of a summary.")
            .default("true"),
        Field::new("append", Kind::Bool, "Append to the file instead of replacing it.").default("true"),
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
