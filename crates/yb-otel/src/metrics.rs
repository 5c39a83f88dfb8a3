//! Metric instruments: tokens, durations and cost.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use yb_claude::Tokens;

use crate::names::{common, metrics as names};

/// The histogram boundaries of the conventions, in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// The histogram boundaries of the conventions, in tokens.
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

/// The metric instruments of the conventions. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    tokens: Histogram<u64>,
    operations: Histogram<f64>,
    tools: Histogram<f64>,
    cost: Counter<f64>,
}

/// An operation, as attributes of its metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Operation<'a> {
    /// `chat` or `invoke_agent`.
    pub name: &'a str,
    /// The model provider, for example `anthropic`.
    pub provider: &'a str,
    /// The model.
    pub model: Option<&'a str>,
    /// The `error.type` of a failure.
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
    /// Creates the instruments with this meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        Self {
            tokens: meter
                .u64_histogram(names::TOKENS)
                .with_unit("{token}")
                .with_description("Number of input and output tokens used")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            operations: meter
                .f64_histogram(names::OPERATION)
                .with_unit("s")
                .with_description("Duration of a GenAI operation")
                .with_boundaries(SECONDS.to_vec())
                .build(),
            tools: meter
                .f64_histogram(names::TOOL)
                .with_unit("s")
                .with_description("Duration of a tool call")
                .with_boundaries(SECONDS.to_vec())
                .build(),
            cost: meter
                .f64_counter(names::COST)
                .with_unit("USD")
                .with_description("Cost as reported by the agents")
                .build(),
        }
    }

    /// Records the duration of an operation.
    pub fn operation(&self, operation: Operation<'_>, duration: Duration) {
        self.operations.record(duration.as_secs_f64(), &operation.attributes());
    }

    /// Records token usage. Cached tokens count as input.
    pub fn tokens(&self, operation: Operation<'_>, tokens: &Tokens) {
        let input = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_creation);
        for (kind, count) in [("input", input), ("output", tokens.output)] {
            let mut attributes = operation.attributes();
            attributes.push(KeyValue::new(names::TOKEN_TYPE, kind));
            self.tokens.record(count, &attributes);
        }
    }

    /// Records the duration of a tool call.
    pub fn tool(&self, name: &str, error_type: Option<&str>, duration: Duration) {
        let mut attributes = vec![KeyValue::new(crate::names::GEN_AI_1_41.tool_name, name.to_owned())];
        attributes.extend(error_type.map(|kind| KeyValue::new(common::ERROR_TYPE, kind.to_owned())));
        self.tools.record(duration.as_secs_f64(), &attributes);
    }

    /// Records a cost in US dollars.
    pub fn cost(&self, operation: Operation<'_>, usd: f64) {
        self.cost.add(usd, &operation.attributes());
    }
}
