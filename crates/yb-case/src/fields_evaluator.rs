//! The fields of evaluators in a case and of evaluator files. The fields of each `config` are in the evaluator's spec.

use super::shape::{FREE, Field, Object, RELATIVE_PATH, TEXT, text};

/// An evaluator in a case.
pub(crate) static EVALUATOR: Object = Object {
    name: "evaluator",
    fields: &[
        Field::new("name", TEXT, "Which evaluator."),
        Field::new("config", FREE, "Its configuration."),
        Field::new("file", RELATIVE_PATH, "A file that defines it, instead of `name`."),
    ],
};

/// An evaluator file.
pub(crate) static EVALUATOR_FILE: Object = Object {
    name: "evaluatorFile",
    fields: &[
        Field::new("name", TEXT, "Name of the evaluator.").required(),
        Field::new("description", text(0, usize::MAX), "Description."),
        Field::new("config", FREE, "Configuration."),
    ],
};
