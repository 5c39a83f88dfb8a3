//! The examples, run as separate programs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_claude::sdk::StreamItem;
use yb_claude::supervise::{Command, OutputMode, Stdin};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{FakeAgent, Process, RealClaude, TestContext};

fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(example.is_file(), "missing example binary: {}", example.display());
    example
}

#[test]
fn real_claude_runs_ask_example() {
    let server =
        MockServer::start(Script::parse(ASK, &Vars::new()).unwrap(), &MockServerOptions::default()).unwrap();
    let claude = RealClaude::new();
    let context = TestContext::new();
    let command =
        context.command(example("ask")).arg("What does it do?").envs(claude.env(&server.base_url()));
    let outcome = command.env("YB_CLAUDE", claude.program()).run();
    assert!(outcome.success(), "{}", outcome.stderr);
    let mut lines = outcome.stdout.lines();
    assert_eq!(lines.next(), Some("It runs agents."));
    assert!(lines.next().unwrap().ends_with(", 107 tokens"), "{}", outcome.stdout);
}

#[test]
fn readme_code_matches_ask_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (readme, example) = (read("README.md"), read("examples/ask.rs"));
    let (_, code) = readme.split_once("```rust,no_run\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    for line in code.lines() {
        assert!(example.lines().any(|known| known == line), "missing in the example: {line}");
    }
}

/// Runs an SDK example with the replies of a scripted model.
fn run(name: &str, args: &[&str], script: &str) -> String {
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let claude = RealClaude::new();
    let context = TestContext::new();
    let command = context.command(example(name)).args(args).envs(claude.env(&server.base_url()));
    let outcome = command.env("YB_CLAUDE", claude.program()).run();
    assert!(outcome.success(), "{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.stderr, "", "the library prints nothing");
    outcome.stdout
}

#[test]
fn real_claude_runs_one_shot_example() {
    // The second query has a schema, and with it a tool for the structured output.
    let output = run("one_shot", &["Is it tested?"], ONE_SHOT);
    assert_eq!(output, "text   It is.\ntext   \ntext   Indeed.\nresult success\nyes: It says so.\n");
}

#[test]
fn real_claude_runs_hooks_and_tool_example() {
    let output = run("hooks_and_tool", &[], HOOKS_AND_TOOL);
    let mut lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.pop(), Some("It rains in Oslo."));
    assert!(lines.iter().any(|line| line.starts_with("hook") && line.contains("rm -r x")), "{output}");
    assert!(lines.contains(&"denied WebFetch"), "{output}");
}

#[test]
fn real_claude_runs_many_turns_example() {
    let output = run("many_turns", &[], MANY_TURNS);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "1 Nothing much.");
    assert_eq!(lines[1], "2 aborted_streaming");
    assert!(lines[2].starts_with("3 "), "{output}");
    assert!(lines[3].starts_with("used ") && lines[4] == "ended with exit code 0", "{output}");
}

/// The same programs with the official Python SDK.
const TWINS: [&str; 5] = ["ask", "one_shot", "hooks_and_tool", "many_turns", "timeout"];

fn twin(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/python-twins/{name}.py"))
}

/// Counts lines of code: not blank, no comment, no documentation.
fn code_lines(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    let is_code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !["//", "# ", "\"\"\""].iter().any(|comment| line.starts_with(comment))
    };
    text.lines().filter(is_code).count()
}

#[test]
fn examples_are_about_as_short_as_their_python_twins() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let lines =
        TWINS.map(|name| (name, code_lines(&root.join(format!("{name}.rs"))), code_lines(&twin(name))));
    let ours: usize = lines.iter().map(|(_, ours, _)| ours).sum();
    let theirs: usize = lines.iter().map(|(_, _, theirs)| theirs).sum();
    assert!(ours * 10 <= theirs * 12, "{ours} lines, {theirs} in Python: {lines:?}");
}

/// Runs a twin with the replies of a scripted model.
fn run_twin(name: &str, args: &[&str], script: &str) -> String {
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let (claude, context) = (RealClaude::new(), TestContext::new());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Installs the SDK, if necessary.
    assert!(context.run(root.join("scripts/conformance"), ["no-such-case"]).success());
    // The SDK searches the CLI in PATH.
    let path = std::env::var_os("PATH").unwrap();
    let path: Vec<PathBuf> = std::iter::once(claude.program().parent().unwrap().to_owned())
        .chain(std::env::split_paths(&path))
        .collect();
    let command = context
        .command(root.join(".tools/claude-agent-sdk-0.2.182/bin/python"))
        .arg(twin(name))
        .args(args)
        .envs(claude.env(&server.base_url()));
    let outcome = command.env("PATH", std::env::join_paths(path).unwrap()).run();
    assert!(outcome.success(), "{}\n{}", outcome.stdout, outcome.stderr);
    outcome.stdout
}

const ONE_SHOT: &str = "{ tape: 1, lanes: { main: [ { say: It is., tools: [ { StructuredOutput: { yes: true, because: 'It says so.' } } ] }, { say: Indeed. } ] } }";
const HOOKS_AND_TOOL: &str = "{ tape: 1, lanes: { main: [ \
   { tools: [ { mcp__home__weather: { town: Oslo } }, { Bash: { command: rm -r x, description: Tidy } } ] }, \
   { tools: [ { Bash: { command: ls, description: Look } }, { WebFetch: { url: 'http://127.0.0.1:1/', prompt: p } } ] }, \
   { say: It rains in Oslo. } ] } }";
const MANY_TURNS: &str = "{ tape: 1, lanes: { main: [ { say: Nothing much. }, \
   { say: one two three four five, pace: { between: 150ms, chunk: 2 } }, { say: Goodbye. } ] } }";

const ASK: &str =
    "{ tape: 1, lanes: { main: [ { say: It runs agents., usage: { input: 100, output: 7 } } ] } }";

// The twins do the same as the examples, so that the comparison of their lines is fair.

#[test]
fn real_claude_runs_python_twin_of_one_shot() {
    let output = run_twin("one_shot", &["Is it tested?"], ONE_SHOT);
    assert!(output.ends_with("text   Indeed.\nresult success\nyes: It says so.\n"), "{output}");
}

#[test]
fn real_claude_runs_python_twin_of_hooks_and_tool() {
    let output = run_twin("hooks_and_tool", &[], HOOKS_AND_TOOL);
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines.contains(&"denied WebFetch") && lines.last() == Some(&"It rains in Oslo."), "{output}");
    assert!(lines.iter().any(|line| line.starts_with("hook") && line.contains("rm -r x")), "{output}");
}

#[test]
fn real_claude_runs_python_twin_of_many_turns() {
    let output = run_twin("many_turns", &[], MANY_TURNS);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((lines[0], lines[1]), ("1 Nothing much.", "2 aborted_streaming"));
    assert!(lines[2].starts_with("3 ") && lines[3].starts_with("used "), "{output}");
}

#[test]
fn real_claude_runs_python_twins_of_ask_and_timeout() {
    let output = run_twin("ask", &["What does it do?"], ASK);
    assert!(output.starts_with("It runs agents.\n-- ") && output.contains(", 107 tokens"), "{output}");
    let output = run_twin("timeout", &["60", "What does it do?"], ASK);
    assert!(output.starts_with("It runs agents.\n"), "{output}");
}

/// The example calls `yb_claude::shim_main`, so that it is its own shim. The fake CLI starts a daemon in another session
/// with an empty environment, which survives without `shim_main`.
#[tokio::test]
async fn dropped_query_kills_descendants_of_cli_when_host_calls_shim_main() {
    let dir = tempfile::tempdir().unwrap();
    let cli = FakeAgent::in_dir(dir.path()).name("claude").script(
        r#"
- expect: {fields: {/request/subtype: initialize}, capture: {id: /request_id}}
- print: {json: {type: control_response, response: {subtype: success, request_id: "{{id}}", response: {}}}}
- pid_file: cli.pid
- daemon: {pipes: close, env: clear, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- sleep_ms: 60000
"#,
    );
    let mut host = Command::new(example("timeout"))
        .args(["2", "hi"])
        .env("YB_CLAUDE", &cli)
        .current_dir(dir.path())
        .stdin(Stdin::Interactive)
        .output(OutputMode::stream())
        .deadline(Duration::from_secs(60))
        .spawn()
        .await
        .unwrap();
    let stdin = host.stdin().unwrap();
    let mut lines = host.lines().unwrap();
    let files = ["cli.pid", "daemon.pid"].map(|name| dir.path().join(name));
    let processes = tokio::task::spawn_blocking(move || files.map(|file| Process::from_file(&file)));
    let processes = processes.await.unwrap();
    assert!(processes.iter().all(|process| process.is_alive()));

    let Some(StreamItem::Line(line)) = lines.next().await else { panic!("the host printed nothing") };
    assert_eq!(String::from_utf8_lossy(&line), "timed out after 2 s");
    let gone = tokio::task::spawn_blocking(move || {
        processes.map(|process| process.is_gone_within(Duration::from_secs(20)))
    });
    assert_eq!(gone.await.unwrap(), [true, true], "killed while the host is alive");

    drop(stdin);
    assert!(host.wait().await.success());
}

/// Compares line by line, ignoring indentation.
#[test]
fn sdk_docs_code_matches_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let examples = ["one_shot", "hooks_and_tool", "many_turns", "timeout"]
        .map(|name| std::fs::read_to_string(root.join(format!("examples/{name}.rs"))).unwrap())
        .join("\n");
    let page = std::fs::read_to_string(root.join("../../docs/guides/sdk.md")).unwrap();
    for block in page.split("```rust\n").skip(1) {
        let (code, _) = block.split_once("```").unwrap();
        for line in code.lines().map(str::trim) {
            assert!(examples.lines().any(|known| known.trim() == line), "missing in the examples: {line}");
        }
    }
}
