//! Receivers that accept only traces, such as Phoenix.

use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::{Span as _, Tracer as _};
use yb_otel::{Evaluation, Pipeline, PipelineConfig, Redactor, emit_evaluation};
use yb_testkit::OtlpReceiver;

/// Returns how many events and spans are dropped if every request is answered with 405.
async fn dropped_counts(more: Option<&str>) -> [u64; 2] {
    let receiver = OtlpReceiver::start();
    receiver.respond_with(405);
    let mut variables = vec![("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), receiver.endpoint())];
    variables.extend(more.map(|name| (name.to_owned(), format!("{}/v1/logs", receiver.endpoint()))));
    let mut lost = [0; 2];
    for (place, lost) in lost.iter_mut().enumerate() {
        let pipeline = Pipeline::start(&PipelineConfig::new(variables.clone())).unwrap();
        match place {
            0 => emit_evaluation(
                &pipeline.logger(),
                &Context::new(),
                &Evaluation::new("judge"),
                &Redactor::default(),
            ),
            _ => pipeline.tracer().start("one").end(),
        }
        *lost = pipeline.shutdown(Duration::from_secs(30)).await.count;
    }
    lost
}

#[tokio::test]
async fn unsupported_signal_at_the_general_endpoint_is_not_counted_as_dropped() {
    assert_eq!(dropped_counts(None).await, [0, 1]);
    assert_eq!(dropped_counts(Some("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")).await, [1, 1]);
}
