//! `yb tape serve`: script errors and served sessions.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use insta::assert_snapshot;
use yb_testkit::TestContext;

use crate::YB;

fn serve(script: &str, args: &[&str]) -> String {
    let context = TestContext::new();
    context.write("script.yaml", script);
    context.command(YB).args(["tape", "serve", "script.yaml"]).args(args).run().snapshot()
}

#[test]
fn invalid_script_is_reported_with_its_location() {
    assert_snapshot!(serve("tape: 1\nlanes:\n  main:\n    - sya: Hello.\n", &[]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to load the script
      caused by: script.yaml:4:7: unknown key in `lanes.main[0]`, expected one of `say`, `think`, `tools`, `blocks`, `stop`, `usage`, `pace`, `fault`: `sya`
    hint: did you mean `say`?
    ");
    assert_snapshot!(serve("tape: 1\nlanes:\n  main:\n    - say: In {{workspace}}.\n", &["--var", "home=/h"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to load the script
      caused by: script.yaml:4:12: undefined variable in `lanes.main[0].say`: `workspace`
    hint: define it when loading the script; on the command line: `--var workspace=VALUE`
    ");
    assert_snapshot!(serve("tape: 1\nlanes:\n  main:\n    - say: Ready: go.\n", &[]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to load the script
      caused by: script.yaml:4:17: not valid YAML: mapping values are not allowed in this context
    hint: put a string that contains `: ` in double quotes
    ");
}

#[test]
fn missing_script_is_reported() {
    assert_snapshot!(TestContext::new().run(YB, ["tape", "serve", "none.yaml"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to read script: `none.yaml`
      caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn port_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let shown = serve("{ tape: 1, lanes: { main: [ { say: a } ] } }", &["--port", &port]);
    assert_snapshot!(shown.replace(&port, "[PORT]"), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to listen on loopback port: [PORT]
      caused by: Address already in use (os error 98)
    hint: omit the port, or use 0 for any free port
    ");
}

#[test]
fn color_is_used_only_on_request() {
    let context = TestContext::new();
    let run =
        |name: &str| context.command(YB).args(["tape", "serve", "none.yaml"]).env(name, "1").run().stderr;
    assert!(run("CLICOLOR_FORCE").contains("\u{1b}["));
    assert!(!run("NO_COLOR").contains("\u{1b}["));
}

/// A server that is killed with its test.
struct Served {
    child: Child,
    out: BufReader<ChildStdout>,
    seen: String,
    address: String,
}

impl Served {
    fn start(context: &TestContext, args: &[&str]) -> Self {
        let mut child = Command::new(YB)
            .args(["tape", "serve"])
            .args(args)
            .env_clear()
            .current_dir(context.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut served = Self { child, out, seen: String::new(), address: String::new() };
        served.read_until("Requests:");
        let line = served.seen.lines().find(|line| line.starts_with("listening: ")).unwrap();
        served.address = line.trim_start_matches("listening: http://").to_owned();
        served
    }

    fn read_until(&mut self, end: &str) {
        loop {
            let before = self.seen.len();
            assert_ne!(self.out.read_line(&mut self.seen).unwrap(), 0, "it ended: {}", self.seen);
            if self.seen[before..].contains(end) {
                return;
            }
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Returns the complete output with the address replaced.
    fn stop(mut self, signal: rustix::process::Signal) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        self.out.read_to_string(&mut self.seen).unwrap();
        let status = self.child.wait().unwrap();
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let text = format!("exit code: {}\n{}{errors}", status.code().unwrap(), self.seen);
        text.replace(&self.address, "127.0.0.1:[PORT]")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SCRIPT: &str = "
tape: 1
lanes:
  main:
    - fault: { status: 429, times: 1 }
      say: I am in {{place}}.
    - fault: { cut: { after: request } }
  reviewer:
    match: Review
    replies:
      - say: Fine.
";

#[test]
fn serve_prints_a_line_per_request() {
    let context = TestContext::new();
    context.write("script.yaml", SCRIPT);
    let mut served = Served::start(&context, &["script.yaml", "--var", "place=the test"]);
    let messages =
        |text: &str| format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"{text}\"}}]}}");
    let post = |served: &Served, text: &str| served.ask("POST", "/v1/messages", &messages(text));
    served.ask("HEAD", "/api/hello", "");
    assert!(post(&served, "go").starts_with("HTTP/1.1 429"));
    assert!(post(&served, "go").contains("I am in the test."));
    assert!(post(&served, "Review it").contains("Fine."));
    let turn = |count: usize| {
        let answers =
            "{\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"b\"}";
        let answers = vec![answers; count].join(", ");
        format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"go\"}}, {answers}]}}")
    };
    assert_eq!(served.ask("POST", "/v1/messages", &turn(1)), "");
    assert!(served.ask("POST", "/v1/messages", &turn(2)).starts_with("HTTP/1.1 400"));
    served.read_until("unscripted");
    assert_snapshot!(served.stop(rustix::process::Signal::TERM), @r"
    exit code: 130
    listening: http://127.0.0.1:[PORT]
    script: script.yaml (main: 2 replies, reviewer: 1 reply)

    For Claude Code, in another terminal:
      export ANTHROPIC_BASE_URL=http://127.0.0.1:[PORT]
      export ANTHROPIC_API_KEY=not-a-secret-loopback-only
      export NO_PROXY=127.0.0.1,localhost
      export no_proxy=127.0.0.1,localhost
      export CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
      export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
      export DISABLE_TELEMETRY=1
      export DISABLE_AUTOUPDATER=1
      export DISABLE_ERROR_REPORTING=1

    Press Ctrl-C to stop. Requests:
       1  200  HEAD /api/hello: placeholder
       2  429  main, turn 1: fault
       3  200  main, turn 1 (attempt 2): reply
       4  200  reviewer, turn 1: reply
       5  ---  main, turn 2: fault
       6  400  main, turn 3: unscripted: no reply scripted for lane `main`, turn 3 (the script has 2)
    stopped: 6 requests, 1 unscripted
    ");
}

#[test]
fn ctrl_c_stops_serving_and_frees_the_port() {
    let context = TestContext::new();
    context.write("script.yaml", "{ tape: 1, lanes: { main: [ { say: a } ] } }");
    let served = Served::start(&context, &["script.yaml"]);
    let address = served.address.clone();
    let port = address.rsplit(':').next().unwrap().to_owned();
    let shown = served.stop(rustix::process::Signal::INT);
    assert!(shown.starts_with("exit code: 130\n"), "{shown}");
    assert!(shown.ends_with("stopped: 0 requests, 0 unscripted\n"), "{shown}");
    let again = Served::start(&context, &["script.yaml", "--port", &port]);
    assert_eq!(again.address, address);
}
