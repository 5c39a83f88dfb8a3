//! Counts and durations: tokens, operations, tools and money.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use yb_claude::Tokens;

use crate::names::{common, metrics as names};

/// The boundaries that the conventions ask for, in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// The same for tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The instruments. Clones record into the same ones.
#[derive(Debug, Clone)]
pub struct Metrics {
    tokens: Histogram<u64>,
    operations: Histogram<f64>,
    tools: Histogram<f64>,
    cost: Counter<f64>,
}

/// What an operation was, for its duration and its tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Operation<'a> {
    /// `chat` or `invoke_agent`.
    pub name: &'a str,
    /// Who runs the model, `anthropic` for example.
    pub provider: &'a str,
    /// The model.
    pub model: Option<&'a str>,
    /// What kind of failure it was.
    pub error_type: Option<&'a str>,
}

impl Operation<'_> {
    fn attributes(&self) -> Vec<KeyValue> {
        let mut attributes = vec![
            KeyValue::new(names::OPERATION_NAME, self.name.to_owned()),
            KeyValue::new(names::PROVIDER, self.provider.to_owned()),
        ];
        let optional =
            [(crate::names::GEN_AI_1_41.request_model, self.model), (common::ERROR_TYPE, self.error_type)];
        attributes.extend(
            optional.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?.to_owned()))),
        );
        attributes
    }
}

impl Metrics {
    /// The instruments of this meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        Self {
            tokens: meter
                .u64_histogram(names::TOKENS)
                .with_unit("{token}")
                .with_description("Tokens that a model read or wrote")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            operations: meter
                .f64_histogram(names::OPERATION)
                .with_unit("s")
                .with_description("How long an operation took")
                .with_boundaries(SECONDS.to_vec())
                .build(),
            tools: meter
                .f64_histogram(names::TOOL)
                .with_unit("s")
                .with_description("How long a tool took")
                .with_boundaries(SECONDS.to_vec())
                .build(),
            cost: meter
                .f64_counter(names::COST)
                .with_unit("USD")
                .with_description("What agents cost, as they report it")
                .build(),
        }
    }

    /// How long an operation took.
    pub fn operation(&self, operation: Operation<'_>, took: Duration) {
        self.operations.record(took.as_secs_f64(), &operation.attributes());
    }

    /// What a model read and wrote; what the cache gave counts as read.
    pub fn tokens(&self, operation: Operation<'_>, tokens: &Tokens) {
        let input = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_creation);
        for (kind, count) in [("input", input), ("output", tokens.output)] {
            let mut attributes = operation.attributes();
            attributes.push(KeyValue::new(names::TOKEN_TYPE, kind));
            self.tokens.record(count, &attributes);
        }
    }

    /// How long a tool took.
    pub fn tool(&self, name: &str, error_type: Option<&str>, took: Duration) {
        let mut attributes = vec![KeyValue::new(crate::names::GEN_AI_1_41.tool_name, name.to_owned())];
        attributes.extend(error_type.map(|kind| KeyValue::new(common::ERROR_TYPE, kind.to_owned())));
        self.tools.record(took.as_secs_f64(), &attributes);
    }

    /// What a model cost, in US dollars.
    pub fn cost(&self, operation: Operation<'_>, usd: f64) {
        self.cost.add(usd, &operation.attributes());
    }
}
