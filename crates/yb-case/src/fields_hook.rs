//! The fields of hooks, whose configuration follows from their name.

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
        Field::new("name", Kind::Word(&[SCRIPT]), "What kind of hook.").required(),
        Field::new("config", FREE, "Its configuration.").required(),
    ],
};

pub(crate) static POST_EVALUATION: Object = Object {
    name: "postEvaluation",
    fields: &[
        Field::new("name", Kind::Word(&[SCRIPT, WEBHOOK, DATABASE]), "What kind of hook.").required(),
        Field::new("config", FREE, "Its configuration.").required(),
    ],
};

static SCRIPT_CONFIG: Object = Object {
    name: "script",
    fields: &[
        Field::new("command", TEXT, "The command, for a shell.").required(),
        Field::new("args", TEXTS, "Its arguments, in which `${WORKSPACE_DIR}` and its like are replaced."),
        Field::new("env", VARIABLES, "Variables; `${ENV:NAME}` is replaced."),
        Field::new("timeout_ms", MILLISECONDS, "Its time.").default("30000"),
        Field::new("working_dir", TEXT, "Where it runs; by default the workspace."),
    ],
};

/// A command that readies a tree for grading.
pub(crate) static PREPARE: Object = Object {
    name: "prepare",
    fields: &[
        Field::new("command", TEXT, "The command, for a shell.").required(),
        Field::new("env", VARIABLES, "Variables; `${ENV:NAME}` is replaced."),
        Field::new("timeout_ms", MILLISECONDS, "Its time.").default("600000"),
        Field::new(
            "working_dir",
            formatted(500, Format::RelativePath),
            "Where it runs, from the root of the tree.",
        ),
    ],
};

static WEBHOOK_CONFIG: Object = Object {
    name: "webhook",
    fields: &[
        Field::new("url", TEXT, "Where the results are sent; `${ENV:NAME}` is replaced.").required(),
        Field::new("method", Kind::Word(&["POST", "PUT", "PATCH"]), "How they are sent.").default("\"POST\""),
        Field::new("headers", HEADERS, "Further headers; `${ENV:NAME}` is replaced."),
        Field::new("include_artifacts", Kind::Bool, "Sends the path of the artifacts too.").default("false"),
        Field::new("retry_on_failure", Kind::Bool, "Tries up to three times.").default("true"),
        Field::new("timeout_ms", MILLISECONDS, "Its time.").default("5000"),
    ],
};

static DATABASE_CONFIG: Object = Object {
    name: "database",
    fields: &[
        Field::new("type", Kind::Word(&["json-file"]), "What kind of store.").required(),
        Field::new("output_path", formatted(1000, Format::Any), "The file that gets a line for each run.")
            .required(),
        Field::new("include_full_bundle", Kind::Bool, "The whole results, or a summary.").default("true"),
        Field::new("append", Kind::Bool, "Adds to the file, or replaces it.").default("true"),
    ],
};

/// The configuration of a hook by its name.
pub(crate) fn config_of(name: &str) -> Option<&'static Object> {
    match name {
        SCRIPT => Some(&SCRIPT_CONFIG),
        WEBHOOK => Some(&WEBHOOK_CONFIG),
        DATABASE => Some(&DATABASE_CONFIG),
        _ => None,
    }
}
