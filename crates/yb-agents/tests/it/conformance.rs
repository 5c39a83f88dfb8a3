//! Conformance of every adapter with its real CLI and a scripted model. A row is a requirement, a column an adapter.
//! The table in `docs/reference/adapters.md` is checked against the data here.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};
use yb_agents::{Adapters, AvailabilityStatus, Isolation};
use yb_model::log::{ExecutionStatus, Role, UsageSource};
use yb_model::outcome::Outcome;
use yb_tape::Vars;
use yb_testkit::{RealAgent, assert_no_process_in};

use crate::support::{Done, Stage};

/// The result of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// Tested with the real CLI.
    Real,
    /// Not supported by this CLI; the test verifies the reason.
    Cant(&'static str),
}

/// A requirement of all adapters.
struct Row {
    id: &'static str,
    /// Its text in the documentation.
    words: &'static str,
}

const fn row(id: &'static str, words: &'static str) -> Row {
    Row { id, words }
}

const ROWS: &[Row] = &[
    row("success", "answers, exit code 0"),
    row("edit_and_shell", "edits a file and runs a command; both calls are in the log with their results"),
    row("non_zero_exit", "the API rejects a request: `failed`, with the reason"),
    row("timeout", "timeout while a tool runs: no process is left"),
    row("unavailable", "not installed: not started, with installation instructions"),
    row("unauthenticated", "missing credentials, and credentials that the API rejects"),
    row("rate_limited", "429 to every request: `rate_limited`, promptly"),
    row("refused", "connection refused: `infra`, promptly"),
    row("mid_run", "the API fails during the run: `infra`, with a partial log"),
    row("long_prompt", "a prompt of 1 MB is delivered"),
    row(
        "special_characters",
        "a prompt with a leading dash, quotes, `$(…)`, `@`, newlines and emoji is delivered verbatim",
    ),
    row("truncation", "output beyond 10 MB is truncated, marked, and kept on disk"),
    row("usage", "token counts are correct, and no cost is invented"),
    row("comparable", "a failing command is an error, turns are counted, every call has a start and an end"),
    row("mcp", "an MCP server that does not start is named: a failure, or a warning with `mcp: optional`"),
    row("isolation_none", "runs with `isolation: none`"),
    row("isolation_external", "runs with `isolation: external`"),
    row("isolation_landlock", "runs with `isolation: landlock`"),
    row("isolation_bubblewrap", "runs with `isolation: bubblewrap`"),
];

const NO_TERMINAL: &str =
    "over ACP, Gemini CLI runs commands in its own terminal, which landlock does not allow";
const ROOT: &str = "as root, it refuses to bypass permissions outside a sandbox";

/// Exceptions of the table. `acp` is tested with the CLI of Gemini.
const CELLS: &[(&str, &str, Cell)] = &[
    ("claude-code", "isolation_none", Cell::Cant(ROOT)),
    ("acp", "edit_and_shell", Cell::Cant("it does, but Gemini CLI does not report command output over ACP")),
    (
        "acp",
        "non_zero_exit",
        Cell::Cant("ACP returns the error and the agent keeps running: `agent_error`, exit code 0"),
    ),
    (
        "acp",
        "unauthenticated",
        Cell::Cant("rejected credentials are recognized; missing ones only when the API is called"),
    ),
    (
        "acp",
        "rate_limited",
        Cell::Cant("ACP does not report retries: `infra` after three times the retry timeout"),
    ),
    ("acp", "isolation_landlock", Cell::Cant(NO_TERMINAL)),
    ("acp", "comparable", Cell::Cant("ACP reports no exit codes of commands; calls have start and end")),
    ("acp", "mcp", Cell::Cant("ACP does not report the status of MCP servers")),
    ("gemini", "mcp", Cell::Cant("it reports a failure, but not of which server")),
    ("acp", "usage", Cell::Cant("it does not report cached tokens separately")),
];

fn cell(agent: &str, row: &str) -> Cell {
    let special = CELLS.iter().find(|(of, at, _)| (*of, *at) == (agent, row));
    special.map_or(Cell::Real, |(_, _, cell)| *cell)
}

/// Returns the CLI of an adapter; `acp` uses that of Gemini.
fn real(agent: &str) -> RealAgent {
    RealAgent::named(if agent == "acp" { "gemini" } else { agent })
}

const HELLO: &str = "{ tape: 1, lanes: { main: [ { say: Hello there. } ] } }";

/// How long an agent may retry. An agent that prints nothing while it retries may be silent for three times as long.
fn patience(agent: &str) -> Duration {
    Duration::from_secs(if agent == "acp" { 3 } else { 5 })
}

/// Returns the first request of the conversation, in any protocol.
fn asked(server: &yb_tape::MockServer) -> String {
    let seen = server.requests();
    seen.iter().find(|seen| seen.lane.is_some()).unwrap().body.to_string()
}

fn ended(done: &Done) -> (ExecutionStatus, Option<Outcome>) {
    (done.result.status, done.result.outcome)
}

fn last_words(done: &Done) -> &str {
    let said = done.log.messages.iter().rev().find(|message| message.role == Role::Assistant);
    said.map_or("", |message| message.content.as_str())
}

#[track_caller]
fn is_success(done: &Done) {
    assert_eq!(
        ended(done),
        (ExecutionStatus::Success, None),
        "{:#?}\n{}",
        done.log.errors,
        done.result.output
    );
    assert_eq!(done.result.exit_code, 0);
    assert!(done.log.errors.is_empty(), "{:#?}", done.log.errors);
}

async fn success(agent: &'static str) {
    let (stage, server) = Stage::agent(agent, HELLO);
    let done = stage.run().await;
    is_success(&done);
    assert_eq!(last_words(&done), "Hello there.");
    assert_eq!(done.log.agent.name, agent);
    // ACP agents report their name as well.
    let version = &done.log.agent.version;
    assert_eq!(version.rsplit(' ').next(), Some(real(agent).pinned_version().as_str()));
    assert!(agent == "acp" || !version.contains(' '), "{version}");
    assert!(server.unscripted().is_empty(), "{:?}", server.unscripted());
    assert!(
        std::fs::read_dir(stage.path("users-home")).unwrap().next().is_none(),
        "the user's home was touched"
    );
    assert!(done.log.output.terminal_log.is_some() && done.log.output.frames.is_some());
}

async fn edit_and_shell(agent: &'static str) {
    let script = r#"
tape: 1
lanes:
  main:
    - say: I write the file.
      tools: [ { write: { path: hello.txt, content: "hi\n" } } ]
    - tools: [ { edit: { path: hello.txt, old: hi, new: hello } } ]
    - tools: [ { run: { command: "cat hello.txt; wc -c < hello.txt > size.txt" } } ]
    - say: It is done.
"#;
    let (stage, server) = Stage::agent(agent, script);
    let done = stage.run().await;
    is_success(&done);
    assert_eq!(std::fs::read_to_string(stage.path("workspace/hello.txt")).unwrap(), "hello\n");
    assert_eq!(std::fs::read_to_string(stage.path("workspace/size.txt")).unwrap().trim(), "6");
    assert_eq!(last_words(&done), "It is done.");
    let calls = &done.log.tool_calls;
    assert_eq!(calls.len(), 3, "{calls:#?}");
    for call in calls {
        assert!(call.result.is_some() && call.is_error == Some(false), "{call:#?}");
        assert!(serde_json::from_str::<Value>(&call.arguments).is_ok(), "{call:#?}");
    }
    let printed = calls[2].result.as_ref().unwrap();
    match cell(agent, "edit_and_shell") {
        Cell::Real => assert!(printed.contains("hello"), "{calls:#?}"),
        Cell::Cant(_) => assert_eq!(printed, "", "{calls:#?}"),
    }
    let reported = done.log.messages.iter().filter(|message| message.role == Role::Tool).count();
    assert_eq!(reported, 3);
    assert!(server.unscripted().is_empty());
    assert_no_process_in(&stage.path("workspace"));
}

async fn non_zero_exit(agent: &'static str) {
    let script = "{ tape: 1, lanes: { main: [ { fault: { status: 400, message: no such thing } } ] } }";
    let (stage, _server) = Stage::agent(agent, script);
    let done = stage.run().await;
    assert_eq!(done.result.outcome, Some(Outcome::AgentError), "{:#?}", done.log.errors);
    match cell(agent, "non_zero_exit") {
        Cell::Real => assert!(done.result.exit_code > 0),
        // The code of the process.
        Cell::Cant(_) => assert_eq!(done.log.errors[0].context["exit_code"], 0),
    }
    assert_eq!(done.result.status, ExecutionStatus::Failed);
    assert!(done.log.errors[0].message.contains("no such thing"), "{:#?}", done.log.errors);
}

async fn timeout(agent: &'static str) {
    let script = "{ tape: 1, lanes: { main: [ { say: First words., tools: [ { run: { command: 'echo a > a; sleep 300; echo b' } } ] } ] } }";
    // A busy machine may need longer until the tool runs.
    let mut seconds = 10;
    let (stage, done) = loop {
        let (stage, _server) = Stage::agent(agent, script);
        let stage = stage.with(|context| context.timeout = Duration::from_secs(seconds));
        let done = stage.run().await;
        if stage.path("workspace/a").exists() {
            break (stage, done);
        }
        assert!(seconds < 60, "the tool did not run: {}", done.result.output);
        seconds *= 3;
    };
    assert_eq!(ended(&done), (ExecutionStatus::Timeout, Some(Outcome::Timeout)), "{:#?}", done.log.errors);
    assert_eq!(done.result.exit_code, -1);
    assert!(done.log.messages.iter().any(|message| message.content.contains("First words.")));
    // Some agents still report that the tool was killed; opencode reports a call only when it has ended.
    let calls = &done.log.tool_calls;
    assert!(!calls.is_empty() || agent == "opencode");
    assert!(calls.iter().all(|call| call.result.is_none() || call.is_error == Some(true)), "{calls:#?}");
    assert_no_process_in(&stage.path("workspace"));
    assert_no_process_in(&stage.path("private"));
}

async fn unavailable(agent: &'static str) {
    let variable = real(agent).variable;
    let stage = Stage::agent_at(agent, "http://127.0.0.1:9");
    let stage = stage.env(variable, "/nowhere/at-all").env("PATH", "/nowhere").configured(|config| {
        if let Some(Value::Array(argv)) = config.section.get_mut("argv") {
            argv[0] = "/nowhere/at-all".into();
        }
    });
    let found = stage.adapter.check_availability(&stage.context.config, &stage.context.host).await;
    assert_eq!(found.status, AvailabilityStatus::Missing, "{found:?}");
    assert!(!found.hints.is_empty(), "{found:?}");
    let error = stage.refused().await;
    assert_eq!(error.outcome(), Outcome::Unauthenticated);
    let hints = error.hints();
    assert!(
        hints.iter().any(|hint| hint.contains("install") || hint.contains(variable)),
        "{error}: {hints:?}"
    );
}

async fn unauthenticated(agent: &'static str) {
    let script = "{ tape: 1, lanes: { main: [ { fault: { status: 401, message: bad key } } ] } }";
    let (stage, _server) = Stage::agent(agent, script);
    let done = stage.with(|context| context.patience = patience(agent)).run().await;
    assert_eq!(done.result.outcome, Some(Outcome::Unauthenticated), "{:#?}", done.log.errors);
    assert!(done.codes()[0].ends_with("_AUTH_FAILED"), "{:?}", done.codes());
    assert!(done.log.errors[0].message.contains("authentication failed"), "{:#?}", done.log.errors);

    let stage = Stage::agent_at(agent, "http://127.0.0.1:9").with(|context| {
        context
            .host
            .env
            .retain(|name, _| name == "PATH" || name == "HOME" || name.to_string_lossy().starts_with("YB_"));
    });
    let found = stage.adapter.check_availability(&stage.context.config, &stage.context.host).await;
    if let Cell::Cant(_) = cell(agent, "unauthenticated") {
        assert_eq!(found.status, AvailabilityStatus::Ready, "{found:?}");
        return;
    }
    assert_eq!(found.status, AvailabilityStatus::NotAuthenticated, "{found:?}");
    assert!(!found.hints.is_empty() && found.message.contains("authenticat"), "{found:?}");
}

async fn rate_limited(agent: &'static str) {
    let script = "{ tape: 1, lanes: { main: [ { fault: { status: 429, message: Rate limit reached } } ] } }";
    let (stage, _server) = Stage::agent(agent, script);
    let done = stage.with(|context| context.patience = patience(agent)).run().await;
    if let Cell::Cant(_) = cell(agent, "rate_limited") {
        assert_eq!(ended(&done), (ExecutionStatus::Failed, Some(Outcome::Infra)), "{:#?}", done.log.errors);
        return;
    }
    assert_eq!(ended(&done), (ExecutionStatus::Failed, Some(Outcome::RateLimited)), "{:#?}", done.log.errors);
    assert!(done.codes()[0].ends_with("_RATE_LIMIT"), "{:?}", done.codes());
}

async fn refused(agent: &'static str) {
    // A port that was free a moment ago; connections to it are refused.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stage = Stage::agent_at(agent, &format!("http://127.0.0.1:{port}"));
    let done = stage.with(|context| context.patience = patience(agent)).run().await;
    assert_eq!(ended(&done), (ExecutionStatus::Failed, Some(Outcome::Infra)), "{:#?}", done.log.errors);
}

async fn mid_run(agent: &'static str) {
    let script = r#"
tape: 1
lanes:
  main:
    - say: I begin.
      tools: [ { write: { path: half.txt, content: half } } ]
    - fault: { status: 500, message: broken }
"#;
    let (stage, _server) = Stage::agent(agent, script);
    let stage = stage.with(|context| context.patience = patience(agent));
    let done = stage.run().await;
    assert_eq!(ended(&done), (ExecutionStatus::Failed, Some(Outcome::Infra)), "{:#?}", done.log.errors);
    assert!(stage.path("workspace/half.txt").exists());
    assert_eq!(done.log.tool_calls.len(), 1, "{:#?}", done.log.tool_calls);
    assert!(done.log.messages.iter().any(|message| message.content.contains("I begin.")));
}

async fn long_prompt(agent: &'static str) {
    let prompt = format!("{} the end of it", "word and ".repeat(111_000));
    assert!(prompt.len() > 999_000 && prompt.len() < 1_000_000);
    let (stage, server) = Stage::agent(agent, HELLO);
    let done = stage.configured(|config| config.prompt = Some(prompt)).run().await;
    is_success(&done);
    let asked = asked(&server);
    assert!(asked.len() > 1_000_000 && asked.contains("the end of it"), "{}", asked.len());
}

async fn special_characters(agent: &'static str) {
    let prompt = "-dash first; it's \"quoted\", $(touch pwned) `touch pwned`, @file, 100% \\ \n\nline three, tab\there, 🦀 é";
    let (stage, server) = Stage::agent(agent, HELLO);
    let stage = stage.configured(|config| config.prompt = Some(prompt.to_owned()));
    let done = stage.run().await;
    is_success(&done);
    let escaped = json!(prompt).to_string();
    let words = escaped.trim_matches('"');
    let asked = asked(&server);
    assert!(asked.contains(words), "{words}\nis not in\n{asked}");
    assert_eq!(done.log.messages[0].content, prompt);
    assert!(!stage.path("workspace/pwned").exists());
}

async fn truncation(agent: &'static str) {
    // All words differ, because some agents stop a model that repeats itself. opencode exits before it has written an answer
    // of this length, so it gets several parts; the others would not accept such a long conversation.
    let parts = if agent == "opencode" { 12 } else { 1 };
    let words = 720_000 / parts;
    let part = |part: usize| (0..words).map(|word| format!("{part:03}{word:012} ")).collect::<String>();
    let parts: Vec<String> = (0..parts).map(part).collect();
    let mut script = "tape: 1\nlanes:\n  main:\n".to_owned();
    let mut vars = Vars::new();
    for (number, part) in parts.iter().enumerate() {
        let call = "tools: [ { run: { command: 'true' } } ]";
        script.push_str(&format!(
            "    - {{ say: '{{{{part{number}}}}}', pace: {{ chunk: 400000 }}, {call} }}\n"
        ));
        vars = vars.with(format!("part{number}"), part.as_str());
    }
    script.push_str("    - say: The end.\n");
    let (stage, _server) = Stage::agent_with(agent, &script, &vars);
    let done = stage.run().await;
    assert!(done.result.truncated, "{} bytes, {:#?}", done.result.output.len(), done.log.errors);
    assert!(done.result.output.ends_with("[OUTPUT TRUNCATED: exceeded the 10MB limit of 10485760 bytes]"));
    assert!(done.codes().iter().any(|code| code.ends_with("_OUTPUT_TRUNCATED")), "{:?}", done.codes());
    assert_eq!(done.result.status, ExecutionStatus::Success);
    let log = done.result.terminal_log.as_ref().unwrap();
    assert!(std::fs::metadata(log).unwrap().len() > 11_000_000);
}

async fn usage(agent: &'static str) {
    let script = r#"
tape: 1
lanes:
  main:
    - tools: [ { run: { command: "true" } } ]
      usage: { input: 100, output: 20, cache_read: 30 }
    - say: Done.
      usage: { input: 120, output: 40 }
"#;
    let (stage, server) = Stage::agent(agent, script);
    let done = stage.run().await;
    is_success(&done);
    let usage = &done.log.usage;
    assert_eq!(usage.source, UsageSource::SelfReported);
    if let Cell::Cant(_) = cell(agent, "usage") {
        let reported = (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens);
        assert_eq!(reported, (250, 60, 0), "{usage:#?}");
        return;
    }
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens),
        (220, 60, 30),
        "{usage:#?}"
    );
    assert_eq!(usage.total_tokens, 280);
    assert!(server.unscripted().is_empty());
    // Claude Code reports its cost. The model of the test is in our price list for Gemini alone.
    let source = match agent {
        "claude-code" => Some(UsageSource::SelfReported),
        "gemini" => Some(UsageSource::Metered),
        _ => None,
    };
    assert_eq!((usage.cost_source, usage.cost_usd.is_some()), (source, source.is_some()), "{usage:#?}");
    if agent == "gemini" {
        let usd = (220.0 * 0.3 + 60.0 * 2.5 + 30.0 * 0.03) / 1e6;
        assert!((usage.cost_usd.unwrap() - usd).abs() < 1e-12, "{usage:#?}");
    }
}

async fn comparable(agent: &'static str) {
    let script = r#"
tape: 1
lanes:
  main:
    - say: I try.
      tools: [ { run: { command: "echo out; exit 3" } } ]
    - tools: [ { run: { command: "echo two; sleep 0.3" } } ]
    - say: Done.
"#;
    let (stage, _server) = Stage::agent(agent, script);
    let done = stage.run().await;
    is_success(&done);
    let calls = &done.log.tool_calls;
    let failed: Vec<_> = calls.iter().map(|call| call.is_error).collect();
    for call in calls {
        let (started, ended) = (call.started_at.as_ref().unwrap(), call.completed_at.as_ref().unwrap());
        assert!(started <= ended, "{call:#?}");
    }
    if let Cell::Cant(_) = cell(agent, "comparable") {
        assert_eq!(failed, [Some(false); 2], "{calls:#?}");
        return;
    }
    assert_eq!(failed, [Some(true), Some(false)], "{calls:#?}");
    assert_eq!(done.log.execution.num_turns, Some(3));
    assert_eq!(done.log.model.name, real(agent).model);
    let provider = match agent {
        "claude-code" => "anthropic",
        "copilot-cli" => "github",
        "codex" => "openai",
        "gemini" => "google",
        _ => "openai-compatible",
    };
    assert_eq!(done.log.model.provider, provider);
}

async fn mcp(agent: &'static str) {
    let server = json!({ "command": "/no/such/server", "args": ["x"] });
    for required in [true, false] {
        let (stage, _server) = Stage::agent(agent, HELLO);
        let stage = stage.configured(|config| {
            config.mcp_servers.insert("broken".to_owned(), server.as_object().cloned().unwrap());
            config.mcp_required = required;
        });
        let done = stage.run().await;
        if agent == "acp" {
            assert!(done.codes().iter().all(|code| !code.ends_with("_MCP_FAILED")), "{:?}", done.codes());
            continue;
        }
        let name = if agent == "gemini" { "an MCP server" } else { "MCP server `broken`" };
        let message = format!("{name} did not start");
        if required {
            // Only its first message can't be written by a tool of the agent.
            let outcome = if agent == "claude-code" { Outcome::Miswired } else { Outcome::AgentError };
            assert_eq!(
                ended(&done),
                (ExecutionStatus::Failed, Some(outcome)),
                "{:#?}\n{}",
                done.log.errors,
                done.result.output
            );
            assert!(done.codes()[0].ends_with("_MCP_FAILED"), "{:?}", done.codes());
            assert!(done.log.errors[0].message.starts_with(&message), "{:#?}", done.log.errors);
        } else {
            is_success(&done);
            let warned = done.log.warnings.iter().any(|warning| warning.starts_with(&message));
            assert!(warned, "{:?}", done.log.warnings);
        }
    }
}

async fn runs_in(agent: &'static str, isolation: Isolation) {
    let script = r#"
tape: 1
lanes:
  main:
    - tools: [ { run: { command: "echo inside > inside.txt" } } ]
    - say: Done.
"#;
    let (stage, _server) = Stage::agent(agent, script);
    let stage = stage.with(|context| context.isolation = isolation);
    let cell = cell(agent, &format!("isolation_{isolation}"));
    if cell == Cell::Cant(ROOT) && rustix::process::geteuid().is_root() {
        let error = stage.refused().await;
        assert!(error.to_string().contains("as root"), "{error}");
        return;
    }
    let done = stage.run().await;
    is_success(&done);
    if cell == Cell::Cant(NO_TERMINAL) {
        let reported = done.log.tool_calls[0].result.as_deref();
        assert!(reported.is_some_and(|text| text.contains("forkpty")), "{reported:?}");
        return;
    }
    let inside = std::fs::read_to_string(stage.path("workspace/inside.txt"));
    assert!(
        inside.is_ok_and(|text| text == "inside\n"),
        "{}\n{:#?}",
        done.result.output,
        done.log.tool_calls
    );
    assert_eq!(done.log.execution.isolation, isolation);
}

async fn isolation_none(agent: &'static str) {
    runs_in(agent, Isolation::None).await;
}

async fn isolation_external(agent: &'static str) {
    runs_in(agent, Isolation::External).await;
}

async fn isolation_landlock(agent: &'static str) {
    runs_in(agent, Isolation::Landlock).await;
}

async fn isolation_bubblewrap(agent: &'static str) {
    runs_in(agent, Isolation::Bubblewrap).await;
}

/// Defines a module for each adapter, with a test for each row.
macro_rules! conforms {
    ($($module:ident: $agent:literal),+ $(,)?) => {
        /// The tested adapters with their rows.
        const TESTED: &[(&str, &[&str])] = &[$(($agent, $module::TESTED)),+];
        $(mod $module {
            conforms!(@rows $agent: success edit_and_shell non_zero_exit timeout unavailable unauthenticated rate_limited
                refused mid_run long_prompt special_characters truncation usage comparable mcp isolation_none
                isolation_external isolation_landlock isolation_bubblewrap);
        })+
    };
    (@rows $agent:literal: $($row:ident)+) => {
        pub(super) const TESTED: &[&str] = &[$(stringify!($row)),+];
        $(#[tokio::test]
        async fn $row() {
            super::$row($agent).await;
        })+
    };
}

conforms! {
    real_claude: "claude-code",
    real_copilot: "copilot-cli",
    real_codex: "codex",
    real_gemini: "gemini",
    real_opencode: "opencode",
    real_acp: "acp",
}

/// Adapters without a CLI of their own: the case names the program.
const NO_CLI: [&str; 1] = ["command"];

#[test]
fn table_has_no_blanks() {
    let rows: Vec<_> = ROWS.iter().map(|row| row.id).collect();
    let agents: Vec<_> = TESTED.iter().map(|(agent, _)| *agent).collect();
    for (agent, tested) in TESTED {
        assert_eq!(rows, *tested, "{agent}");
    }
    let adapters: Vec<_> = Adapters::builtin().names().filter(|name| !NO_CLI.contains(name)).collect();
    assert_eq!(adapters, agents, "every adapter is a column");
    for (agent, row, _) in CELLS {
        assert!(agents.contains(agent) && rows.contains(row), "{agent} {row}");
    }
}

/// Number of executions of the soak test that time out: 5 by default (docs/performance.md).
const SOAK: &str = "YB_SOAK_TIMEOUTS";

mod soak {
    use super::*;

    /// Timeouts at any moment: while the CLI starts, during a request, while a tool runs.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clis_leave_no_processes_after_a_timeout() {
        let wanted = std::env::var(SOAK).ok().and_then(|number| number.parse().ok()).unwrap_or(5);
        let script =
            "{ tape: 1, lanes: { main: [ { tools: [ { run: { command: 'sleep 300 & sleep 300' } } ] } ] } }";
        let agents: Vec<&'static str> = TESTED.iter().map(|(agent, _)| *agent).collect();
        for first in (0..wanted).step_by(agents.len()) {
            let mut batch = tokio::task::JoinSet::new();
            for number in first..wanted.min(first + agents.len()) {
                let (stage, server) = Stage::agent(agents[number % agents.len()], script);
                let after = Duration::from_millis(500 + (number as u64 * 3_700) % 9_000);
                let stage = stage.with(|context| context.timeout = after);
                batch.spawn(async move {
                    let result = stage.adapter.execute(&stage.context).await.unwrap();
                    drop(server);
                    (stage, result)
                });
            }
            while let Some(done) = batch.join_next().await {
                let (stage, result) = done.unwrap();
                let name = stage.adapter.spec().name;
                assert_eq!(result.status, ExecutionStatus::Timeout, "{name}: {}", result.output);
                for place in ["workspace", "private"] {
                    assert_no_process_in(&stage.path(place));
                }
            }
        }
    }
}

/// Renders the table of the documentation.
fn table() -> String {
    let mut lines = vec![
        format!("| | {} |", TESTED.iter().map(|(agent, _)| *agent).collect::<Vec<_>>().join(" | ")),
        format!("| --- |{}", " --- |".repeat(TESTED.len())),
    ];
    let mut notes: Vec<&str> = Vec::new();
    for row in ROWS {
        let cells = TESTED.iter().map(|(agent, _)| match cell(agent, row.id) {
            Cell::Real => "yes".to_owned(),
            Cell::Cant(reason) => {
                if !notes.contains(&reason) {
                    notes.push(reason);
                }
                let number = notes.iter().position(|known| *known == reason).unwrap_or_default() + 1;
                format!("no ({number})")
            }
        });
        lines.push(format!("| {} | {} |", row.words, cells.collect::<Vec<_>>().join(" | ")));
    }
    let notes = notes.iter().enumerate().map(|(at, note)| format!("({}) {note}.", at + 1));
    format!("{}\n\n{}\n", lines.join("\n"), notes.collect::<Vec<_>>().join("\n"))
}

/// The markers around the table in the documentation.
const MARKS: (&str, &str) = ("<!-- conformance -->\n", "<!-- /conformance -->\n");

#[test]
fn reference_page_has_the_current_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/adapters.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS.0).unwrap();
    let (shown, after) = rest.split_once(MARKS.1).unwrap();
    if std::env::var_os("YB_UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, format!("{before}{}{}{}{after}", MARKS.0, table(), MARKS.1)).unwrap();
        return;
    }
    assert!(shown == table(), "the table drifted; hint: run this test with `YB_UPDATE_SCHEMAS=1`");
}
