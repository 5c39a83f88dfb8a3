//! Shared test support: a pipeline to a test receiver.

use std::time::Duration;

use tempfile::TempDir;
use yb_claude::Options;
use yb_claude::sdk::{Host, Subprocess};
use yb_otel::{Pipeline, PipelineConfig};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{OtlpReceiver, RealClaude, ReceivedSpan};

/// A pipeline and its receiver.
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

    /// Shuts the pipeline down and returns all spans.
    pub(crate) async fn spans(&self) -> Vec<ReceivedSpan> {
        let dropped = self.pipeline.shutdown(Duration::from_secs(30)).await;
        assert_eq!(dropped.count, 0, "{dropped}");
        self.receiver.spans()
    }
}

/// The real CLI with a scripted model, in its own workspace.
pub(crate) struct Claude {
    claude: RealClaude,
    workspace: TempDir,
    server: MockServer,
}

impl Claude {
    pub(crate) fn new(lanes: &str) -> Self {
        let script = Script::parse(&format!("{{ tape: 1, lanes: {{ {lanes} }} }}"), &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        Self { claude: RealClaude::new(), workspace: tempfile::tempdir().unwrap(), server }
    }

    pub(crate) fn options(&self) -> Options {
        Options::default()
            .with_cwd(self.workspace.path())
            .with_model("claude-opus-5-5")
            .with_allowed_tools(["Bash"])
            .with_include_partial_messages(true)
            .with_env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")
    }

    pub(crate) fn host(&self, options: Options) -> Host {
        let subprocess = Subprocess::new()
            .with_program(self.claude.program())
            .with_shim(yb_testkit::bin("yb-shim"))
            .with_environment(self.claude.env(&self.server.base_url()));
        Host::new(options).with_transport(subprocess)
    }
}
