//! The provider with the real CLI and a scripted model.

use std::time::Duration;

use tempfile::TempDir;
use yb_claude::{
    ApiFailureKind, ClaudeCodeProvider, Context, Message, Options, Provider, ProviderError, StopReason,
};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{Process, RealClaude};

struct Trial {
    claude: RealClaude,
    workspace: TempDir,
    server: MockServer,
}

impl Trial {
    fn new(script: &str) -> Self {
        let script = Script::parse(script, &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        Self { claude: RealClaude::new(), workspace: tempfile::tempdir().unwrap(), server }
    }

    /// A single reply of the model, or a fault.
    fn reply(reply: &str) -> Self {
        Self::new(&format!("{{ tape: 1, lanes: {{ main: [ {reply} ] }} }}"))
    }

    fn provider(&self) -> ClaudeCodeProvider {
        self.configured(ClaudeCodeProvider::new(), Options::default())
    }

    fn configured(&self, provider: ClaudeCodeProvider, options: Options) -> ClaudeCodeProvider {
        provider
            .with_options(options.with_cwd(self.workspace.path()))
            .with_program(self.claude.program())
            .with_shim(yb_testkit::bin("yb-shim"))
            .with_environment(self.claude.env(&self.server.base_url()))
    }

    fn turns(&self) -> usize {
        self.server.requests().iter().filter(|seen| seen.lane.is_some()).count()
    }
}

#[tokio::test]
async fn real_claude_answers_with_model_tokens_cost_and_session() {
    let usage = "usage: { input: 100, output: 20, cache_read: 3, cache_write: 4 }";
    let trial = Trial::reply(&format!("{{ say: Hello., {usage} }}"));
    let provider = trial.provider().with_model("claude-opus-5-5");
    let answer = provider.complete(&Context::new("hi").with_system_prompt("Be brief.")).await.unwrap();
    assert_eq!(answer.text, "Hello.");
    let metadata = answer.metadata;
    assert_eq!(metadata.model.as_deref(), Some("claude-opus-5-5"));
    assert_eq!(metadata.tokens_used, Some(127));
    assert!(
        metadata.cost_usd.unwrap() > 0.0 && metadata.session_id.is_some() && metadata.processing_time_ms > 0
    );
    assert_eq!(
        (metadata.turns, metadata.stop_reason, metadata.continuations),
        (Some(1), StopReason::Done, 0)
    );
}

#[tokio::test]
async fn real_claude_answers_with_legacy_command_line() {
    let trial = Trial::reply("{ say: Hello. }");
    let answer = trial.provider().with_legacy_command_line(true).complete(&Context::new("hi")).await.unwrap();
    assert_eq!(answer.text, "Hello.");
    assert!(answer.metadata.tokens_used.is_some());
}

#[tokio::test]
async fn real_claude_tool_messages_are_observed() {
    let trial = Trial::new(
        "
tape: 1
lanes:
  main:
    - tools: [{ Bash: { command: echo made > made.txt, description: Make } }]
    - say: Made.
",
    );
    let mut kinds = Vec::new();
    let mut observe = |message: &Message| kinds.push(message.kind().to_owned());
    let answer = trial.provider().complete_observed(&Context::new("go"), &mut observe).await.unwrap();
    assert_eq!(answer.text, "Made.");
    assert_eq!(std::fs::read_to_string(trial.workspace.path().join("made.txt")).unwrap(), "made\n");
    for kind in ["system", "assistant", "user", "result"] {
        assert!(kinds.iter().any(|seen| seen == kind), "{kind} is missing: {kinds:?}");
    }
}

const THREE_TOOLS: &str = "
tape: 1
lanes:
  main:
    - { say: First part., tools: [{ Bash: { command: echo 1, description: One } }], usage: { input: 100, output: 10 } }
    - { say: Second part., tools: [{ Bash: { command: echo 2, description: Two } }], usage: { input: 200, output: 20 } }
    - { say: Third part., tools: [{ Bash: { command: echo 3, description: Three } }], usage: { input: 300, output: 30 } }
    - { say: The end., usage: { input: 400, output: 40 } }
    - { say: The very end., usage: { input: 400, output: 40 } }
    - { say: Past the end., usage: { input: 400, output: 40 } }
";

#[tokio::test]
async fn c15_real_claude_keeps_partial_text_at_turn_limit() {
    let trial = Trial::new(THREE_TOOLS);
    let answer = trial.provider().complete(&Context::new("go").with_max_turns(1)).await.unwrap();
    assert_eq!(answer.metadata.stop_reason, StopReason::MaxTurns);
    assert_eq!(answer.text, "First part.");
}

/// The CLI counts per session, so a continuation reports the difference.
#[tokio::test]
async fn real_claude_continues_after_turn_limit_without_double_counting() {
    let trial = Trial::new(THREE_TOOLS);
    let provider = trial.provider().with_continuations(5).with_model("claude-opus-5-5");
    let answer = provider.complete(&Context::new("go").with_max_turns(2)).await.unwrap();
    assert_eq!(answer.metadata.stop_reason, StopReason::Done, "{}", answer.text);
    assert!(answer.metadata.continuations >= 1);
    assert!(answer.text.starts_with("First part.") && answer.text.contains("\n\n---\n\n"), "{}", answer.text);
    let answered: u64 =
        (1..=trial.turns() as u64).map(|turn| [110, 220, 330, 440, 440, 440][turn as usize - 1]).sum();
    assert_eq!(answer.metadata.tokens_used, Some(answered));
    let (cost, session) = (answer.metadata.cost_usd.unwrap(), answer.metadata.session_cost_usd.unwrap());
    assert!((cost - session).abs() < 1e-9, "one call made the whole session: {cost} and {session}");
}

#[tokio::test]
async fn real_claude_resumes_session_of_earlier_call() {
    let trial = Trial::new("{ tape: 1, lanes: { main: [ { say: One. }, { say: Two. } ] } }");
    let first = trial.provider().complete(&Context::new("first")).await.unwrap();
    let session = first.metadata.session_id.clone().unwrap();
    let second = trial.provider().complete(&Context::new("second").with_session(&session)).await.unwrap();
    assert_eq!(second.text, "Two.");
    assert_eq!(second.metadata.session_id.as_deref(), Some(session.as_str()));
    // This CLI reports the usage of the call in addition to that of the session.
    let (cost, session) = (second.metadata.cost_usd.unwrap(), second.metadata.session_cost_usd.unwrap());
    assert_eq!(second.metadata.tokens_used, Some(15));
    assert!((session - cost - first.metadata.cost_usd.unwrap()).abs() < 1e-9, "{cost} of {session}");
}

#[tokio::test]
async fn real_claude_stops_at_its_budget() {
    let trial = Trial::new(THREE_TOOLS);
    let options = Options::default().with_model("claude-opus-5-5").with_max_budget_usd(0.000_001);
    let provider = trial.configured(ClaudeCodeProvider::new(), options);
    let answer = provider.complete(&Context::new("go")).await.unwrap();
    assert_eq!((answer.metadata.stop_reason, answer.text.as_str()), (StopReason::MaxBudget, "First part."));
    assert_eq!(answer.metadata.tokens_used, Some(110));
}

#[tokio::test]
async fn real_claude_api_errors_are_typed() {
    use ApiFailureKind::{
        InvalidRequest, ModelNotFound, Overloaded, RateLimited, ServerError, TooLarge, Unauthenticated,
    };
    for (status, kind) in [
        (400, InvalidRequest),
        (401, Unauthenticated),
        (403, Unauthenticated),
        (404, ModelNotFound),
        (413, TooLarge),
        (429, RateLimited),
        (500, ServerError),
        (529, Overloaded),
    ] {
        let trial = Trial::reply(&format!("{{ fault: {{ status: {status} }} }}"));
        let error = trial.provider().complete(&Context::new("hi")).await.unwrap_err();
        let ProviderError::Api { failure, api_status, .. } = &error else { panic!("{status}: {error}") };
        assert_eq!((*failure, *api_status), (kind, Some(status)), "{error}");
        assert!(error.to_string().starts_with("claude CLI exited with exit status: 1: "), "{error}");
    }
}

#[tokio::test]
async fn real_claude_without_reachable_api_is_network_error() {
    let trial = Trial::reply("{ say: never }");
    let environment = trial.claude.env("http://127.0.0.1:1");
    let error =
        trial.provider().with_environment(environment).complete(&Context::new("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::Api { failure: ApiFailureKind::Network, .. }), "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn real_claude_with_truncated_stream_is_an_error() {
    let trial = Trial::reply("{ say: Never finished., fault: { cut: { after: 3 events } } }");
    let error = trial.provider().complete(&Context::new("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::Api { .. }), "{error:?}");
}

#[tokio::test]
async fn real_claude_without_login_is_unauthenticated_without_request() {
    let trial = Trial::reply("{ say: never }");
    let environment = trial.claude.env(&trial.server.base_url());
    let environment: Vec<_> =
        environment.into_iter().filter(|(name, _)| name != "ANTHROPIC_API_KEY").collect();
    let provider = trial.provider().with_environment(environment);
    let error = provider.complete(&Context::new("hi")).await.unwrap_err();
    assert!(
        matches!(error, ProviderError::Api { failure: ApiFailureKind::Unauthenticated, .. }),
        "{error:?}"
    );
    assert!(error.hints().iter().any(|hint| hint.contains("claude auth login")));
    assert_eq!(trial.turns(), 0);
    assert!(!provider.is_available().await);
}

#[tokio::test]
async fn real_claude_rejects_bad_flag_and_unknown_session() {
    let trial = Trial::reply("{ say: never }");
    let options = Options::default().with_extra_flag("no-such-flag");
    let error =
        trial.configured(ClaudeCodeProvider::new(), options).complete(&Context::new("hi")).await.unwrap_err();
    assert!(error.to_string().contains("no-such-flag"), "{error}");
    let context = Context::new("hi").with_session("550e8400-e29b-41d4-a716-446655440000");
    let error = trial.provider().complete(&context).await.unwrap_err();
    assert!(error.to_string().contains("550e8400"), "{error}");
    assert_eq!(trial.turns(), 0);
}

#[tokio::test]
async fn real_claude_receives_large_and_syntax_like_prompts_verbatim() {
    for message in
        ["-p --help".to_owned(), "/cost".to_owned(), "@/etc/hostname".to_owned(), "x".repeat(999_000)]
    {
        let trial = Trial::reply("{ say: ok }");
        // An agent receives the bare message, without a label.
        let options = Options::default()
            .with_agent_definition("echo", yb_claude::AgentDefinition::new("Echo", "Repeat."));
        let provider = trial.configured(ClaudeCodeProvider::new(), options);
        let answer = provider.complete(&Context::new(message.clone()).with_agent("echo")).await.unwrap();
        assert_eq!(answer.text, "ok");
        let requests = trial.server.requests();
        let body = requests.iter().find(|seen| seen.lane.is_some()).unwrap().body.to_string();
        assert!(
            body.contains(&format!("\"{message}\"")),
            "{} did not arrive verbatim",
            &message[..8.min(message.len())]
        );
    }
}

#[tokio::test]
async fn real_claude_killed_by_signal_is_an_error_with_status() {
    for (signal, status) in [("TERM", "exit status: 143"), ("KILL", "signal: 9 (SIGKILL)")] {
        let trial = Trial::reply(&format!(
            "{{ say: Soon., tools: [{{ Bash: {{ command: 'kill -{signal} $PPID; sleep 5; true', description: End }} }}] }}"
        ));
        let error = trial.provider().complete(&Context::new("go")).await.unwrap_err();
        let ProviderError::Exited { status: got, .. } = &error else { panic!("{signal}: {error:?}") };
        assert_eq!(got, status);
        yb_testkit::assert_no_process_in(trial.workspace.path());
    }
    // On SIGINT the CLI prints a result without text and exits with 0.
    let trial = Trial::reply(
        "{ tools: [{ Bash: { command: 'kill -INT $PPID; sleep 5; true', description: End } }] }",
    );
    let answer = trial.provider().complete(&Context::new("go")).await.unwrap();
    assert_eq!(answer.text, "Error from Claude: error_during_execution");
    assert_eq!(answer.metadata.stop_reason, StopReason::Other("error_during_execution".to_owned()));
}

#[tokio::test]
async fn real_claude_timeout_leaves_no_process() {
    let trial = Trial::reply(
        "{ say: Working., tools: [{ Bash: { command: 'cut -d\" \" -f1,22 /proc/$$/stat > t && mv t tool.pid; while :; do sleep 0.2; done', description: Wait } }] }",
    );
    let provider = trial
        .configured(ClaudeCodeProvider::from_config(10, vec!["Bash".to_owned()], 10), Options::default());
    let error = provider.complete(&Context::new("go")).await.unwrap_err();
    assert_eq!(error.to_string(), "claude CLI timed out after 10s");
    assert!(matches!(error, ProviderError::TimedOut { partial, .. } if partial == "Working."));
    assert!(!Process::from_file(&trial.workspace.path().join("tool.pid")).is_alive());
    yb_testkit::assert_no_process_in(trial.workspace.path());
}

#[tokio::test]
async fn real_claude_is_retried_after_transient_error() {
    let trial = Trial::reply("{ say: Finally., fault: { status: 529, times: 1 } }");
    let answer = trial.provider().with_retries(1).complete(&Context::new("hi")).await.unwrap();
    assert_eq!((answer.text.as_str(), trial.turns()), ("Finally.", 2));
}

#[tokio::test]
async fn real_claude_runs_as_agent_of_call() {
    let trial = Trial::reply("{ say: Reviewed. }");
    let agents = trial.workspace.path().join(".claude/agents");
    std::fs::create_dir_all(&agents).unwrap();
    let definition = "---\nname: reviewer\ndescription: Reviews\n---\nYou review with a raised eyebrow.\n";
    std::fs::write(agents.join("reviewer.md"), definition).unwrap();
    let answer = trial.provider().complete(&Context::new("look").with_agent("reviewer")).await.unwrap();
    assert_eq!(answer.text, "Reviewed.");
    let requests = trial.server.requests();
    let request = requests.iter().find(|seen| seen.lane.is_some()).unwrap();
    assert!(request.body["system"].to_string().contains("raised eyebrow"));
}

/// Dropping the future kills the CLI long before the timeout of ten minutes.
#[tokio::test]
async fn real_claude_is_killed_when_future_is_dropped() {
    let trial = Trial::reply(
        "{ tools: [{ Bash: { command: 'cut -d\" \" -f1,22 /proc/$$/stat > t && mv t tool.pid; while :; do sleep 0.2; done', description: Wait } }] }",
    );
    let provider = trial.provider();
    let context = Context::new("go");
    let file = trial.workspace.path().join("tool.pid");
    let tool = tokio::select! {
        answer = provider.complete(&context) => panic!("{answer:?}"),
        tool = tokio::task::spawn_blocking(move || Process::from_file(&file)) => tool.unwrap(),
    };
    let gone =
        tokio::task::spawn_blocking(move || tool.is_gone_within(Duration::from_secs(20))).await.unwrap();
    assert!(gone);
}
