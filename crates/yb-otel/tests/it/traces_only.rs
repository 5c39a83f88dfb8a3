//! A receiver that takes traces and nothing else, such as Phoenix, is no failure; one that was said to take more is.

use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::{Span as _, Tracer as _};
use yb_otel::{Evaluation, Pipeline, PipelineConfig, Redact, evaluation_result};
use yb_testkit::OtlpReceiver;

/// How much is lost of an event, and of a span, when every request is answered with 405.
async fn lost(more: Option<&str>) -> [u64; 2] {
    let receiver = OtlpReceiver::start();
    receiver.respond_with(405);
    let mut variables = vec![("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), receiver.endpoint())];
    variables.extend(more.map(|name| (name.to_owned(), format!("{}/v1/logs", receiver.endpoint()))));
    let mut lost = [0; 2];
    for (place, lost) in lost.iter_mut().enumerate() {
        let pipeline = Pipeline::start(&PipelineConfig::new(variables.clone())).unwrap();
        match place {
            0 => evaluation_result(
                &pipeline.logger(),
                &Context::new(),
                &Evaluation::new("judge"),
                &Redact::default(),
            ),
            _ => pipeline.tracer().start("one").end(),
        }
        *lost = pipeline.shutdown(Duration::from_secs(30)).await.count;
    }
    lost
}

#[tokio::test]
async fn what_nobody_said_would_be_taken_is_not_lost() {
    assert_eq!(lost(None).await, [0, 1]);
    assert_eq!(lost(Some("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")).await, [1, 1]);
}
