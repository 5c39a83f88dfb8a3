//! `yb ask`, with the real CLI and a scripted model.

use insta::assert_snapshot;
use serde_json::Value;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{FakeAgent, RealClaude, TestContext};

use crate::YB;

/// The real CLI, a scripted model and a working directory.
struct Asked {
    context: TestContext,
    claude: RealClaude,
    server: MockServer,
}

impl Asked {
    fn new(script: &str) -> Self {
        let script = Script::parse(script, &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        let mut context = TestContext::new();
        context.filter(r"\d+ tokens", "[TOKENS] tokens").filter(r"\$\d+\.\d+", "[COST]");
        Self { context, claude: RealClaude::new(), server }
    }

    fn yb(&self, args: &[&str]) -> yb_testkit::Invocation {
        let command = self.context.command(YB).envs(self.claude.env(&self.server.base_url()));
        command.arg("ask").args(args).arg("--claude").arg(self.claude.program())
    }
}

#[test]
fn real_claude_answers_on_stdout_and_its_price_is_on_stderr() {
    let asked = Asked::new(
        "
tape: 1
lanes:
  main:
    - { say: I look., tools: [{ Bash: { command: 'true', description: Look } }] }
    - { say: It is a test., pace: { chunk: 4 } }
",
    );
    let outcome = asked.yb(&["What is this?", "--model", "claude-opus-5-5"]).run();
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    I look.

    It is a test.
    ----- stderr -----
    claude-opus-5-5, [TOKENS] tokens, [COST], [TIME], session [UUID]
    ");
    let requests = asked.server.requests();
    let first = requests.iter().find(|seen| seen.lane.is_some()).unwrap();
    assert!(first.body.to_string().contains("\"What is this?\""), "the question is sent as it is");
}

#[test]
fn real_claude_as_json_from_stdin_and_resumed() {
    let asked = Asked::new("{ tape: 1, lanes: { main: [ { say: One. }, { say: Two. } ] } }");
    let first = asked.yb(&["--json"]).stdin("first").run();
    let first: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!((first["text"].as_str(), first["stop"].as_str()), (Some("One."), Some("done")));
    assert!(first["cost_usd"].as_f64().unwrap() > 0.0 && first["tokens"].as_u64() == Some(15));
    let session = first["session_id"].as_str().unwrap();
    let second = asked.yb(&["second", "--json", "--resume", session]).run();
    let second: Value = serde_json::from_str(&second.stdout).unwrap();
    assert_eq!((second["text"].as_str(), second["session_id"].as_str()), (Some("Two."), Some(session)));
}

#[test]
fn real_claude_at_a_limit_exits_with_1_and_keeps_the_text() {
    let asked = Asked::new(
        "{ tape: 1, lanes: { main: [ { say: So far., tools: [ { Bash: { command: 'true', description: x } } ] } ] } }",
    );
    let outcome = asked.yb(&["go", "--max-turns", "1"]).run();
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.starts_with("So far.\n"), "{}", outcome.stdout);
    assert!(outcome.stderr.ends_with("stopped: max_turns\n"), "{}", outcome.stderr);
}

#[test]
fn real_claude_api_errors_have_their_exit_codes() {
    for (status, code) in [(401, 3), (529, 4), (413, 1)] {
        let asked =
            Asked::new(&format!("{{ tape: 1, lanes: {{ main: [ {{ fault: {{ status: {status} }} }} ] }} }}"));
        let outcome = asked.yb(&["hi"]).run();
        assert_eq!(outcome.code, Some(code), "{status}: {}", outcome.stderr);
    }
}

#[test]
fn ask_rejects_an_empty_prompt() {
    let context = TestContext::new();
    assert_snapshot!(context.run(YB, ["ask", " "]).snapshot(), @r#"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: empty prompt
    hint: pass it as an argument or on stdin: `yb ask "What does this repository do?"`
    "#);
    let claude =
        FakeAgent::in_dir(context.dir()).name("claude").script("[{write: {path: started, line: x}}]");
    let claude = claude.to_str().unwrap();
    let outcome = context.run(YB, ["ask", "hi", "--claude", claude, "--max-budget-usd=-1"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(!context.dir().join("started").exists());
}

#[test]
fn missing_cli_is_exit_code_3() {
    let outcome = TestContext::new().run(YB, ["ask", "hi", "--claude", "/no/such/claude"]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: "), "{}", outcome.stderr);
}

/// Without a `claude` on the PATH, as after `yb install-agents --cli claude-code`.
#[test]
fn real_claude_that_yb_installed_is_found_by_ask_and_prompt_run() {
    let asked = Asked::new("{ tape: 1, lanes: { main: [ { say: Found. } ] } }");
    let program = asked.claude.program();
    let tools = asked.context.root().join("tools");
    let prefix = tools.join("claude-code").join(RealClaude::pinned_version());
    let package = program.parent().unwrap().file_name().unwrap();
    let target = prefix.join("node_modules/@anthropic-ai").join(package);
    std::fs::create_dir_all(&target).unwrap();
    std::os::unix::fs::symlink(program, target.join("claude")).unwrap();
    let version = RealClaude::pinned_version();
    let manifest =
        format!(r#"{{"name":"claude-code","version":"{version}","package":"@anthropic-ai/claude-code"}}"#);
    std::fs::write(prefix.join("tool.json"), manifest).unwrap();
    asked.context.write(
        "q.prompt.mdx",
        "---\nname: q\ntext_config: { model_name: claude-opus-5-5 }\n---\n<User>What?</User>\n",
    );
    for args in [["ask", "What is this?"].as_slice(), &["prompt", "run", "q.prompt.mdx"]] {
        let command = asked.context.command(YB).envs(asked.claude.env(&asked.server.base_url()));
        let path = ("PATH", "/usr/bin:/bin");
        let outcome = command.args(args).env("YB_TOOLS_DIR", &tools).env(path.0, path.1).run();
        assert_eq!(outcome.code, Some(0), "{args:?}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains("Found."), "{args:?}: {}", outcome.stdout);
    }
}
