//! The first model request of `yb run`, of a query and of the official Python SDK with the same options, compared.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use yb_claude::sdk::{Host, Subprocess};
use yb_claude::{Options, PermissionMode};
use yb_tape::{LoggedRequest, MockServer, MockServerOptions, Script, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{RealClaude, TestContext};

use crate::YB;

const PROMPT: &str = "Greet by name.";
const MODEL: &str = "claude-opus-5-5";
/// Lets `--add-dir` read the instructions of the directory; `yb run` sets it.
const READ_INSTRUCTIONS: &str = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD";

/// A case without options of its own, other than the permission mode of a sandbox.
const CASE: &str = "
youbencha: 1
name: greeting
description: The script greets by name.
repo: repo
isolation: external
agent: { type: claude-code, model: claude-opus-5-5, config: { prompt: Greet by name., permission_mode: bypassPermissions } }
evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
";

/// The same with the official SDK. Its prompts are interpreted by default, and its default system prompt is empty.
const PYTHON: &str = "
import asyncio, sys
import claude_agent_sdk as sdk

async def main():
    options = sdk.ClaudeAgentOptions(
        cli_path=sys.argv[1], cwd=sys.argv[2], model=sys.argv[3], add_dirs=[sys.argv[2]],
        system_prompt={'type': 'preset', 'preset': 'claude_code'}, verbatim_prompts=True,
        permission_mode='bypassPermissions', setting_sources=[], strict_mcp_config=True,
        env={sys.argv[5]: '1'})
    async for _ in sdk.query(prompt=sys.argv[4], options=options):
        pass

asyncio.run(main())
";

fn server() -> MockServer {
    let script = "{ tape: 1, lanes: { main: [ { say: Hello. } ] } }";
    MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default()).unwrap()
}

fn repository(parent: &Path) -> std::path::PathBuf {
    let repo = parent.join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("greet.sh", "echo Hello!\n").write("CLAUDE.md", "Be brief.\n").commit("start");
    // The workspaces of `yb run` have this user.
    let config = yb_testkit::git::command(&repo).args(["config", "user.name", "agent"]).status();
    assert!(config.unwrap().success());
    repo
}

fn first_request(server: &MockServer) -> Arc<LoggedRequest> {
    assert!(server.unscripted().is_empty());
    server.requests().into_iter().find(|seen| seen.lane.is_some()).unwrap()
}

fn by_yb_run() -> Arc<LoggedRequest> {
    let (server, claude, context) = (server(), RealClaude::new(), TestContext::new());
    repository(&context.dir());
    context.write("case.yaml", CASE);
    let outcome = context
        .command(YB)
        .args(["run", "-c", "case.yaml"])
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", yb_claude::hermetic::DUMMY_KEY)
        .env("YB_CLAUDE", claude.program())
        .run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    first_request(&server)
}

async fn by_query() -> Arc<LoggedRequest> {
    let (server, claude, context) = (server(), RealClaude::new(), TestContext::new());
    let repo = repository(&context.dir());
    let options = Options::default()
        .with_cwd(&repo)
        .with_add_dir(&repo)
        .with_model(MODEL)
        .with_permission_mode(PermissionMode::BypassPermissions)
        .with_setting_sources([])
        .with_strict_mcp_config(true)
        .with_env(READ_INSTRUCTIONS, "1");
    let transport = Subprocess::new()
        .with_program(claude.program())
        .with_shim(YB)
        .with_environment(claude.env(&server.base_url()));
    let text = Host::new(options).with_transport(transport).query(PROMPT).text().await.unwrap();
    assert_eq!(text, "Hello.");
    first_request(&server)
}

fn by_python_sdk() -> Arc<LoggedRequest> {
    let (server, claude, context) = (server(), RealClaude::new(), TestContext::new());
    let repo = repository(&context.dir());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Installs the SDK, if necessary.
    assert!(context.run(root.join("scripts/conformance"), ["no-such-case"]).success());
    let python = root.join(".tools/claude-agent-sdk-0.2.182/bin/python");
    let (program, repo) = (claude.program().to_str().unwrap(), repo.to_str().unwrap());
    let outcome = context
        .command(python)
        .args(["-c", PYTHON, program, repo, MODEL, PROMPT, READ_INSTRUCTIONS])
        .envs(claude.env(&server.base_url()))
        .run();
    assert!(outcome.success(), "{}", outcome.stderr);
    first_request(&server)
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin:?} in {text}"));
    rest.split_once(end).unwrap().0
}

/// Replaces UUIDs and hashes.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| {
        let hex = word.bytes().filter(u8::is_ascii_hexdigit).count();
        hex == 64 && word.len() == 64 || hex == 32 && word.len() == 36
    };
    let mut kept = String::new();
    for word in text.split_inclusive(|letter: char| !letter.is_ascii_hexdigit() && letter != '-') {
        let plain = word.trim_end_matches(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
        kept.push_str(if is_id(plain) { "[ID]" } else { plain });
        kept.push_str(&word[plain.len()..]);
    }
    kept
}

/// Returns the request without paths and IDs, and without what differs by design:
/// - the entry point, `sdk-cli` or `sdk-py`, in the first block of the system prompt;
/// - `user-agent` with entry point, SDK version and application, and `x-client-app`, which the test checks on its own;
/// - `host`, and `content-length`, which depends on the length of paths and names;
/// - `connection` and `accept-encoding`, which the proxy that observes the API sets for `yb run`.
fn normalized(request: &LoggedRequest) -> Value {
    let body = request.body.to_string();
    let cwd = between(&body, "Primary working directory: ", "\\n").to_owned();
    let config = between(&body, "persistent file-based memory at `", "/projects/").to_owned();
    let slug: String =
        cwd.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let body = body.replace(&config, "[CONFIG]").replace(&slug, "[SLUG]").replace(&cwd, "[CWD]");
    let body = ["sdk-cli", "sdk-py"].iter().fold(body, |body, name| {
        body.replace(&format!("cc_entrypoint={name};"), "cc_entrypoint=[ENTRYPOINT];")
    });
    let differing = ["user-agent", "x-client-app", "host", "content-length", "connection", "accept-encoding"];
    let headers: Vec<_> = request
        .headers
        .iter()
        .filter(|(name, _)| !differing.contains(&name.as_str()))
        .map(|(name, value)| (name, without_ids(value)))
        .collect();
    let body: Value = serde_json::from_str(&without_ids(&body)).unwrap();
    json!({"path": request.path, "query": request.query, "headers": headers, "body": body})
}

#[tokio::test]
async fn real_claude_requests_match_those_of_official_sdk() {
    let (run, python) = (tokio::task::spawn_blocking(by_yb_run), tokio::task::spawn_blocking(by_python_sdk));
    let query = by_query().await;
    let (run, python) = (run.await.unwrap(), python.await.unwrap());
    let pretty = |request: &LoggedRequest| serde_json::to_string_pretty(&normalized(request)).unwrap();
    let expected = pretty(&python);
    assert!(expected.contains("general-purpose") && expected.contains("Be brief."), "{expected}");
    assert!(!expected.contains("claude-code-guide"), "{expected}");
    for (name, request) in [("query", &query), ("yb run", &run)] {
        let found = pretty(request);
        let differences: Vec<_> =
            expected.lines().zip(found.lines()).filter(|(expected, found)| expected != found).collect();
        assert!(differences.is_empty() && expected.len() == found.len(), "{name}: {differences:#?}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let cli = format!("claude-cli/{} (external", RealClaude::pinned_version());
    let agent = |request: &LoggedRequest| request.header("user-agent").unwrap().to_owned();
    assert_eq!(agent(&python), format!("{cli}, sdk-py, agent-sdk/0.2.182)"));
    assert_eq!(
        agent(&query),
        format!("{cli}, sdk-cli, agent-sdk/{version}, client-app/yb-claude/{version})")
    );
    assert_eq!(agent(&run), format!("{cli}, sdk-cli, client-app/yb-claude/{version})"));
    let app = format!("yb-claude/{version}");
    assert_eq!(
        [&python, &query, &run].map(|request| request.header("x-client-app")),
        [None, Some(&*app), Some(&*app)]
    );
}
