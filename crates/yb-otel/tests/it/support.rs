//! What the tests share: a pipeline to a receiver of their own.

use std::time::Duration;

use yb_otel::{Pipeline, PipelineConfig};
use yb_testkit::{OtlpReceiver, ReceivedSpan};

/// A pipeline, and who receives what comes out of it.
pub(crate) struct Traced {
    pub(crate) receiver: OtlpReceiver,
    pub(crate) pipeline: Pipeline,
}

impl Traced {
    pub(crate) fn new() -> Self {
        Self::with(|config| config)
    }

    pub(crate) fn with(change: impl FnOnce(PipelineConfig) -> PipelineConfig) -> Self {
        let receiver = OtlpReceiver::start();
        let config = PipelineConfig::new([("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint())]);
        let pipeline = Pipeline::start(&change(config)).unwrap();
        Self { receiver, pipeline }
    }

    /// Everything, after the end.
    pub(crate) async fn spans(&self) -> Vec<ReceivedSpan> {
        let dropped = self.pipeline.shutdown(Duration::from_secs(30)).await;
        assert_eq!(dropped.count, 0, "{dropped}");
        self.receiver.spans()
    }
}
