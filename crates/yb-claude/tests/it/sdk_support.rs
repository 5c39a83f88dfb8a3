//! Helpers of the SDK tests: the real CLI with a scripted model, and a scripted CLI with an `initialize` response.

use serde_json::{Value, json};
use tempfile::TempDir;
use yb_claude::Options;
use yb_claude::sdk::{Host, ScriptStep, ScriptedCli, Subprocess};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::RealClaude;

/// The real CLI in its own workspace.
pub(crate) struct Trial {
    pub(crate) claude: RealClaude,
    pub(crate) workspace: TempDir,
    pub(crate) server: MockServer,
}

impl Trial {
    /// Creates a trial with the replies of the main lane.
    pub(crate) fn replies(replies: &str) -> Self {
        Self::new(&format!("{{ tape: 1, lanes: {{ main: [ {replies} ] }} }}"))
    }

    pub(crate) fn new(script: &str) -> Self {
        let script = Script::parse(script, &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        Self { claude: RealClaude::new(), workspace: tempfile::tempdir().unwrap(), server }
    }

    pub(crate) fn options(&self) -> Options {
        Options::default().with_cwd(self.workspace.path()).with_model("claude-opus-5-5")
    }

    pub(crate) fn subprocess(&self) -> Subprocess {
        Subprocess::new()
            .with_program(self.claude.program())
            .with_shim(yb_testkit::bin("yb-shim"))
            .with_environment(self.claude.env(&self.server.base_url()))
    }

    pub(crate) fn host(&self) -> Host {
        self.host_with(self.options())
    }

    pub(crate) fn host_with(&self, options: Options) -> Host {
        Host::new(options).with_transport(self.subprocess())
    }

    /// Returns the number of model requests in all lanes.
    pub(crate) fn turns(&self) -> usize {
        self.server.requests().iter().filter(|seen| seen.lane.is_some()).count()
    }

    /// Returns all model requests as text.
    pub(crate) fn asked(&self) -> String {
        self.server.requests().iter().map(|seen| seen.body.to_string()).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace.path().join(name)).ok()
    }
}

/// Creates a script that answers `initialize` with this response and continues with the steps.
#[expect(clippy::needless_pass_by_value, reason = "it is written in place")]
pub(crate) fn script(initialized: Value, steps: impl IntoIterator<Item = ScriptStep>) -> ScriptedCli {
    let begin = [
        ScriptStep::Await("init".into(), json!({"request": {"subtype": "initialize"}})),
        ScriptStep::Line(json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": "{{init./request_id}}", "response": initialized}})),
    ];
    ScriptedCli::new(begin.into_iter().chain(steps))
}

pub(crate) fn prompt() -> ScriptStep {
    ScriptStep::Await("prompt".into(), json!({"type": "user"}))
}

pub(crate) fn result(text: &str) -> ScriptStep {
    ScriptStep::Line(json!({"type": "result", "subtype": "success", "is_error": false, "result": text}))
}

pub(crate) fn idle() -> ScriptStep {
    ScriptStep::Line(json!({"type": "system", "subtype": "session_state_changed", "state": "idle"}))
}

/// A control request from the CLI.
#[expect(clippy::needless_pass_by_value, reason = "it is written in place")]
pub(crate) fn ask(id: &str, body: Value) -> ScriptStep {
    ScriptStep::Line(json!({"type": "control_request", "request_id": id, "request": body}))
}

/// Waits for the response to a control request.
pub(crate) fn answer(id: &str) -> ScriptStep {
    ScriptStep::Await(id.to_owned(), json!({"type": "control_response", "response": {"request_id": id}}))
}

/// Returns the host's responses to a request.
pub(crate) fn answers(cli: &ScriptedCli, id: &str) -> Vec<Value> {
    let sessions = cli.sessions();
    let lines = sessions.iter().flat_map(|session| &session.lines);
    lines
        .filter(|line| line["type"] == "control_response" && line["response"]["request_id"] == id)
        .map(|line| line["response"].clone())
        .collect()
}
