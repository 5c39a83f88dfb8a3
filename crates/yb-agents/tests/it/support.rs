//! Test environment for adapters: a fake or real agent in its own directories; every log is checked against both schemas.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use yb_agents::{
    AcpConfig, Adapter, AdapterError, Adapters, AgentConfig, ExecutionContext, ExecutionResult, Host,
    Isolation,
};
use yb_model::log::YouBenchaLog;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{FakeAgent, RealAgent, RealClaude};

pub(crate) const PROMPT: &str = "List files";
pub(crate) const KEY: &str = "sk-ant-test-0123456789";

/// One execution with its environment.
pub(crate) struct Stage {
    dir: TempDir,
    pub(crate) adapter: &'static dyn Adapter,
    pub(crate) context: ExecutionContext,
}

/// A finished execution.
pub(crate) struct Done {
    pub(crate) result: ExecutionResult,
    pub(crate) log: YouBenchaLog,
    /// The log as JSON.
    pub(crate) json: Value,
}

impl Stage {
    /// Uses a fake `claude` with this script, with `isolation: external`.
    pub(crate) fn fake(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        let _ = FakeAgent::in_dir(dir.path().join("bin")).name("claude").script(script);
        let path = std::env::join_paths(
            [dir.path().join("bin")]
                .into_iter()
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        let env: Vec<(&str, OsString)> = vec![
            ("PATH", path.unwrap()),
            ("ANTHROPIC_API_KEY", KEY.into()),
            ("HOME", dir.path().join("users-home").into()),
        ];
        Self::of(dir, "claude-code", Host::new(env))
    }

    /// Uses a shell script as `claude`, which can look at its arguments; the fake agent ignores them.
    pub(crate) fn shell(script: &str) -> Self {
        let stage = Self::fake("[{exit: 1}]");
        // Written to a new file: the old one may be a link to the program that all tests share.
        let program = stage.path("bin/claude");
        std::fs::remove_file(&program).unwrap();
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        stage
    }

    /// Uses a fake `claude` that prints these messages and exits.
    pub(crate) fn frames(frames: &[Value], exit: i32) -> Self {
        let mut steps: Vec<Value> =
            frames.iter().map(|frame| json!({ "print": { "json": frame } })).collect();
        steps.push(json!({ "exit": exit }));
        Self::fake(&Value::Array(steps).to_string())
    }

    /// Uses a fake `claude` that prints this text.
    pub(crate) fn text(text: &str) -> Self {
        Self::fake(&json!([{ "print": { "text": text } }]).to_string())
    }

    /// Uses a fake `claude` that records its invocation and succeeds.
    pub(crate) fn dumping() -> Self {
        let frame = json!({"type": "result", "subtype": "success", "result": "ok", "num_turns": 1});
        Self::fake(
            &json!([{ "dump": { "path": "dump.json", "read_stdin": true } }, { "print": { "json": frame } }])
                .to_string(),
        )
    }

    /// Uses the real `claude` with this model script.
    pub(crate) fn real(script: &str) -> (Self, MockServer) {
        let claude = RealClaude::new();
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("workspace");
        let vars = Vars::new().with("workspace", workspace.to_str().unwrap());
        let server =
            MockServer::start(Script::parse(script, &vars).unwrap(), &MockServerOptions::default()).unwrap();
        let mut env = claude.env(&server.base_url());
        // The adapter has to set these itself.
        env.retain(|(name, _)| {
            ["PATH", "LANG", "TERM", "SHELL", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]
                .contains(&name.as_str())
        });
        env.push(("YB_CLAUDE".to_owned(), claude.program().into()));
        env.push(("HOME".to_owned(), dir.path().join("users-home").into()));
        (Self::of(dir, "claude-code", Host::new(env)), server)
    }

    /// Uses the real CLI of this agent with this model script.
    pub(crate) fn agent(name: &'static str, script: &str) -> (Self, MockServer) {
        Self::agent_with(name, script, &Vars::new())
    }

    /// Like [`Self::agent`], with variables for the script.
    pub(crate) fn agent_with(name: &'static str, script: &str, vars: &Vars) -> (Self, MockServer) {
        let dir = tempfile::tempdir().unwrap();
        let script = Script::parse(script, vars).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        (Self::at(dir, name, &server.base_url()), server)
    }

    /// Uses the real CLI of this agent with a model at this address.
    pub(crate) fn agent_at(name: &'static str, base_url: &str) -> Self {
        Self::at(tempfile::tempdir().unwrap(), name, base_url)
    }

    fn at(dir: TempDir, name: &'static str, base_url: &str) -> Self {
        // `acp` has no CLI of its own; it uses one that supports the protocol.
        let real = RealAgent::named(if name == "acp" { "gemini" } else { name });
        let mut env = real.env(base_url);
        if name != "acp" {
            env.push(("HOME", dir.path().join("users-home").into()));
        }
        let mut stage = Self::of(dir, name, Host::new(env));
        stage.context.config.model = Some(real.model.to_owned());
        // Long enough for a busy machine; anything longer is a hang.
        stage.context.timeout = std::time::Duration::from_secs(100);
        if name == "acp" {
            let program = real.program().to_string_lossy().into_owned();
            let mut spec = AcpConfig::new([program, "--acp".to_owned(), format!("--model={}", real.model)]);
            spec.auth_method = Some("gemini-api-key".to_owned());
            stage.context.config.section = spec.to_section();
            stage.context.config.model = None;
            stage = stage.env("GEMINI_CLI_TRUST_WORKSPACE", "true").env("GEMINI_CLI_NO_RELAUNCH", "true");
        }
        stage
    }

    /// Uses the `command` agent with any program.
    pub(crate) fn command(spec: &yb_agents::CommandConfig) -> Self {
        let host = Host::new([("PATH", std::env::var_os("PATH").unwrap())]);
        let mut stage = Self::of(tempfile::tempdir().unwrap(), "command", host);
        stage.context.config.section = spec.to_section();
        stage
    }

    fn of(dir: TempDir, name: &str, host: Host) -> Self {
        for name in ["workspace", "artifacts", "private", "users-home"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let place = |name: &str| dir.path().join(name);
        let mut context = ExecutionContext::new(
            place("workspace"),
            place("artifacts"),
            place("private"),
            AgentConfig::new(PROMPT),
            host.with_shim(yb_testkit::bin("yb-shim")),
        );
        context.isolation = Isolation::External;
        Self { dir, adapter: Adapters::builtin().get(name).unwrap(), context }
    }

    /// Modifies the execution context.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut ExecutionContext)) -> Self {
        change(&mut self.context);
        self
    }

    /// Modifies the configuration.
    pub(crate) fn configured(self, change: impl FnOnce(&mut AgentConfig)) -> Self {
        self.with(|context| change(&mut context.config))
    }

    /// Sets a variable.
    pub(crate) fn env(self, name: &str, value: &str) -> Self {
        self.with(|context| {
            context.host.env.insert(name.into(), value.into());
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file and creates its parent directories.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Executes the agent, which must start.
    pub(crate) async fn run(&self) -> Done {
        let result = self.adapter.execute(&self.context).await.unwrap();
        self.logged(result)
    }

    /// Executes the agent, which must not start, and returns the error.
    pub(crate) async fn refused(&self) -> AdapterError {
        let error = self.adapter.execute(&self.context).await.unwrap_err();
        if self.context.artifacts_dir.is_dir() {
            self.logged(ExecutionResult::not_started(self.adapter.spec(), &error));
        }
        error
    }

    fn logged(&self, result: ExecutionResult) -> Done {
        let log = self.adapter.normalize_log(&result, &self.context);
        let path = log.write(&self.context.artifacts_dir).unwrap();
        assert_eq!(path.file_name().unwrap(), "youbencha-log.json");
        assert_eq!(YouBenchaLog::read(&path).unwrap(), log);
        let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        crate::log_schema::check(&json);
        Done { result, log, json }
    }

    /// Returns the invocation of the fake agent.
    pub(crate) fn dump(&self) -> Dump {
        let text = std::fs::read_to_string(self.path("workspace/dump.json")).unwrap();
        Dump(serde_json::from_str(&text).unwrap())
    }

    /// Returns the terminal logs of the agent.
    pub(crate) fn terminal_logs(&self) -> Vec<PathBuf> {
        files(&self.path("artifacts/claude-code-logs"))
    }

    pub(crate) fn terminal_log(&self) -> String {
        let logs = self.terminal_logs();
        assert_eq!(logs.len(), 1, "{logs:?}");
        String::from_utf8_lossy(&std::fs::read(&logs[0]).unwrap()).into_owned()
    }
}

pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

impl Done {
    pub(crate) fn codes(&self) -> Vec<&str> {
        self.log.errors.iter().filter_map(|error| error.code.as_deref()).collect()
    }
}

/// The recorded invocation of a fake agent.
pub(crate) struct Dump(Value);

impl Dump {
    pub(crate) fn argv(&self) -> Vec<&str> {
        self.0["argv"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect()
    }

    pub(crate) fn has(&self, argument: &str) -> bool {
        self.argv().contains(&argument)
    }

    pub(crate) fn env(&self, name: &str) -> Option<&str> {
        self.0["env"][name].as_str()
    }

    pub(crate) fn cwd(&self) -> &str {
        self.0["cwd"].as_str().unwrap()
    }

    pub(crate) fn stdin(&self) -> &str {
        self.0["stdin"]["text"].as_str().unwrap()
    }

    /// Returns the prompt: the only frame on stdin.
    pub(crate) fn prompt(&self) -> String {
        let frame: Value = serde_json::from_str(self.stdin()).unwrap();
        assert_eq!(frame["client_composed"], true);
        frame["message"]["content"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-sonnet-4-5-20250929",
        "claude_code_version": "2.1.325", "permissionMode": "bypassPermissions"})
}

pub(crate) fn success(text: &str) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": text, "num_turns": 1,
        "session_id": "s-1", "total_cost_usd": 0.25,
        "usage": {"input_tokens": 1234, "output_tokens": 5678, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 8},
        "modelUsage": {"claude-sonnet-4-5-20250929": {"inputTokens": 1234, "outputTokens": 5678,
            "cacheReadInputTokens": 7, "cacheCreationInputTokens": 8, "costUSD": 0.25, "costBasis": "list"}}})
}
