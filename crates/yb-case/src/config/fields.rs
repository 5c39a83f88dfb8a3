//! The keys of `.youbencharc`, described once.

use serde_json::Value;

use crate::fields::{ISOLATION, LIMITS, NETWORK_MODES};
use crate::format::Format;
use crate::shape::{Field, Kind, Object, TEXT, formatted, text};

pub(super) const WORKSPACE_DIR: &str = ".youbencha-workspace";
pub(super) const OUTPUT_DIR: &str = ".youbencha-eval";
pub(super) const TIMEOUT_MS: u64 = 300_000;

const POSITIVE: Kind = Kind::Whole { min: 1, max: i64::MAX };

/// What a variable may be: any text.
pub(super) const VARIABLE: Kind = text(0, usize::MAX);

pub(super) static CONFIG: Object = Object {
    name: "config",
    fields: &[
        Field::new("workspace_dir", TEXT, "Where runs are kept.").default("\".youbencha-workspace\""),
        Field::new("output_dir", TEXT, "Where the results of evaluating a directory are kept.")
            .default("\".youbencha-eval\""),
        Field::new("timeout_ms", POSITIVE, "The time for each step.").default("300000"),
        Field::new("log_level", Kind::Word(&["debug", "info", "warn", "error"]), "How much is logged.")
            .default("\"info\""),
        Field::new("keep_workspace", Kind::Bool, "Whether workspaces are kept.").default("true"),
        Field::new(
            "isolation",
            Kind::Word(ISOLATION),
            "What stands between agents and the machine, where a case does not say it.",
        )
        .default("\"auto\""),
        Field::new(
            "network",
            Kind::Word(NETWORK_MODES),
            "What agents can connect to, where a case does not say it.",
        )
        .default("\"open\""),
        Field::new(
            "variables",
            Kind::Map { names: Format::Any, of: &VARIABLE },
            "What `${NAME}` in a case is replaced by.",
        ),
        Field::new("agent", Kind::Object(&AGENT), "For agents."),
        Field::new("evaluators", Kind::Object(&EVALUATORS), "For evaluators."),
        Field::new(
            "limits",
            Kind::Object(&LIMITS),
            "How much each trial may use, where a case does not say it.",
        ),
        Field::new("otel", Kind::Object(&OTEL), "For traces."),
    ],
};

static AGENT: Object = Object {
    name: "configAgent",
    fields: &[
        Field::new("timeout_ms", POSITIVE, "The time for the agent; by default `timeout_ms`."),
        Field::new("model", formatted(200, Format::Model), "The model."),
    ],
};

static EVALUATORS: Object = Object {
    name: "configEvaluators",
    fields: &[Field::new("max_concurrent", POSITIVE, "How many run at the same time.").default("4")],
};

static OTEL: Object = Object {
    name: "configOtel",
    fields: &[
        Field::new(
            "endpoint",
            TEXT,
            "Where traces go, over OTLP; `OTEL_EXPORTER_OTLP_ENDPOINT` wins over it.",
        ),
        Field::new("file", TEXT, "The file that traces are added to, as lines of OTLP JSON."),
        Field::new("content", Kind::Bool, "Whether prompts, answers and tool calls are in traces.")
            .default("false"),
        Field::new(
            "vocabulary",
            Kind::Word(&["genai-latest", "seed"]),
            "The names of spans and attributes: OpenTelemetry's, or those of the prompt adapter.",
        )
        .default("\"genai-latest\""),
    ],
};

/// The keys that hold one value each, with what it must be.
pub(super) fn leaves() -> Vec<(String, &'static Field)> {
    let mut leaves = Vec::new();
    for field in CONFIG.fields {
        match field.kind {
            Kind::Object(object) => {
                let below =
                    object.fields.iter().map(|inner| (format!("{}.{}", field.name, inner.name), inner));
                leaves.extend(below);
            }
            Kind::Map { .. } => {}
            _ => leaves.push((field.name.to_owned(), field)),
        }
    }
    leaves
}

pub(super) fn defaults() -> Vec<(String, Value)> {
    let given = leaves().into_iter();
    given.filter_map(|(key, field)| Some((key, serde_json::from_str(field.default?).ok()?))).collect()
}

/// The variable of the environment that sets a key: `YB_AGENT_TIMEOUT_MS` for `agent.timeout_ms`.
#[must_use]
pub fn environment_name(key: &str) -> String {
    format!("YB_{}", key.replace('.', "_").to_ascii_uppercase())
}

pub(super) fn by_environment_name(name: &str) -> Option<(String, &'static Kind)> {
    if !name.starts_with("YB_") {
        return None;
    }
    leaves().into_iter().find(|(key, _)| environment_name(key) == name).map(|(key, field)| (key, &field.kind))
}
