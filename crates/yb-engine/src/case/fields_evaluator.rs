//! The fields of evaluators, of their files, and of the configuration of each that is known.

use super::fields_agent::AGENTS;
use super::format::Format;
use super::shape::{FREE, Field, Kind, MILLISECONDS, Object, TEXT, formatted, text};

pub(crate) const GIT_DIFF: &str = "git-diff";
pub(crate) const EXPECTED_DIFF: &str = "expected-diff";
pub(crate) const AGENTIC_JUDGE: &str = "agentic-judge";
pub(crate) const EVALUATORS: &[&str] = &[GIT_DIFF, EXPECTED_DIFF, AGENTIC_JUDGE];

const COUNT: Kind = Kind::Whole { min: 0, max: i64::MAX };
const BITS: Kind = Kind::Number { min: 0.0, max: f64::MAX, above: false };
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
        Field::new("type", Kind::Word(AGENTS), "The agent that judges.").required(),
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
        Field::new("assertions", ASSERTIONS, "What must hold, as a list or by name."),
        Field::new("criteria", ASSERTIONS, "Another name of `assertions`."),
    ],
};

/// The configuration of an evaluator by its name; several judges are told apart by what follows theirs.
pub(crate) fn config_of(name: &str) -> Option<&'static Object> {
    match known(name)? {
        GIT_DIFF => Some(&GIT_DIFF_CONFIG),
        EXPECTED_DIFF => Some(&EXPECTED_DIFF_CONFIG),
        _ => Some(&JUDGE_CONFIG),
    }
}

/// The evaluator that a name means.
pub(crate) fn known(name: &str) -> Option<&'static str> {
    let judge = name.strip_prefix(AGENTIC_JUDGE).is_some_and(|rest| rest.starts_with(['-', ':']));
    if judge { Some(AGENTIC_JUDGE) } else { EVALUATORS.iter().copied().find(|known| *known == name) }
}
