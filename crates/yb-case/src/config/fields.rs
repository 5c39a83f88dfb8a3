//! The keys of `.youbencharc`.

use serde_json::Value;

use crate::fields::{ISOLATION, LIMITS, NETWORK_MODES};
use crate::format::Format;
use crate::shape::{Field, Kind, Object, TEXT, formatted, text};

pub(super) const WORKSPACE_DIR: &str = ".youbencha-workspace";
pub(super) const OUTPUT_DIR: &str = ".youbencha-eval";
pub(super) const TIMEOUT_MS: u64 = 300_000;

const POSITIVE: Kind = Kind::Whole { min: 1, max: i64::MAX };

/// The type of a variable: any string.
pub(super) const VARIABLE: Kind = text(0, usize::MAX);

pub(super) static CONFIG: Object = Object {
    name: "config",
    fields: &[
        Field::new("workspace_dir", TEXT, "Directory of runs.").default("\".youbencha-workspace\""),
        Field::new("output_dir", TEXT, "Directory of the results of `yb eval`.")
            .default("\".youbencha-eval\""),
        Field::new("timeout_ms", POSITIVE, "Timeout of each step in milliseconds.").default("300000"),
        Field::new("log_level", Kind::Word(&["debug", "info", "warn", "error"]), "Log level.")
            .default("\"info\""),
        Field::new("keep_workspace", Kind::Bool, "Whether to keep workspaces.").default("true"),
        Field::new(
            "observe_api",
            Kind::Bool,
            "Whether a proxy observes failures of the model API, which otherwise only the agent reports.",
        )
        .default("true"),
        Field::new("isolation", Kind::Word(ISOLATION), "Isolation of cases that do not set it.")
            .default("\"auto\""),
        Field::new("network", Kind::Word(NETWORK_MODES), "Network access of cases that do not set it.")
            .default("\"open\""),
        Field::new(
            "variables",
            Kind::Map { names: Format::Any, of: &VARIABLE },
            "Values of `${NAME}` in cases.",
        ),
        Field::new("agent", Kind::Object(&AGENT), "Defaults of agents."),
        Field::new("evaluators", Kind::Object(&EVALUATORS), "Defaults of evaluators."),
        Field::new("limits", Kind::Object(&LIMITS), "Resource limits of cases that do not set them."),
        Field::new("otel", Kind::Object(&OTEL), "Traces."),
    ],
};

static AGENT: Object = Object {
    name: "configAgent",
    fields: &[
        Field::new("timeout_ms", POSITIVE, "Timeout of agents in milliseconds [default: `timeout_ms`]."),
        Field::new("model", formatted(200, Format::Model), "Model of cases that do not set one."),
    ],
};

static EVALUATORS: Object = Object {
    name: "configEvaluators",
    fields: &[Field::new("max_concurrent", POSITIVE, "Number of evaluators at once.").default("4")],
};

static OTEL: Object = Object {
    name: "configOtel",
    fields: &[
        Field::new("endpoint", TEXT, "OTLP endpoint; `OTEL_EXPORTER_OTLP_ENDPOINT` overrides it."),
        Field::new("file", TEXT, "File to which traces are appended as lines of OTLP JSON."),
        Field::new("content", Kind::Bool, "Whether traces include prompts, answers and tool calls.")
            .default("false"),
        Field::new(
            "vocabulary",
            Kind::Word(&["genai-latest", "seed"]),
            "Names of spans and attributes: OpenTelemetry conventions, or those of the prompt adapter.",
        )
        .default("\"genai-latest\""),
    ],
};

/// Returns the keys with a single value, each with its field.
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

/// Returns the environment variable for a key: `YB_AGENT_TIMEOUT_MS` for `agent.timeout_ms`.
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
