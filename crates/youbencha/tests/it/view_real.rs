//! `yb view` and `yb run --view` with the real Claude Code and a scripted model: steps, forks, live pages and control.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use yb_testkit::git::Repo;
use yb_testkit::{Browser, RealClaude, TestContext};

use crate::YB;

const MODEL: &str = r#"
tape: 1
lanes:
  main:
    - say: I look around.
      tools: [{ Bash: { command: cat greeting.txt, description: Look } }]
    - tools: [{ Write: { file_path: "{{workspace}}/greeting.txt", content: "Hello and welcome!\n" } }]
    - tools: [{ Bash: { command: 'mkdir notes; echo "<b>one</b>" > notes/a.txt', description: Note } }, { Bash: { command: 'echo two > notes/b.txt', description: More } }]
    - tools: [{ Bash: { command: 'rm notes/a.txt', description: Clean } }]
    - say: The greeting is friendlier now.
"#;

const CASE: &str = "youbencha: 1
name: greeting
description: The greeting is friendly.
repo: repo
agent: { type: claude-code, model: claude-opus-5-5, config: { prompt: Be friendly. } }
tape: { script: model.yaml }
evaluators: [{ name: command, config: { argv: [grep, -q, welcome, greeting.txt] } }]
";

/// A context with the real agent, a repository and a scripted model.
fn world(model: &str) -> TestContext {
    let context = TestContext::new();
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("greeting.txt", "Hello.\n").commit("start");
    context.write("model.yaml", model);
    context.write("case.yaml", CASE);
    context
}

fn command(context: &TestContext, args: &[&str]) -> Command {
    let mut command = Command::new(YB);
    command
        .args(args)
        .env_clear()
        .env("HOME", context.home())
        .env("PATH", std::env::var("PATH").unwrap())
        .env("YB_CLAUDE", RealClaude::new().program())
        .current_dir(context.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A process that serves pages, killed at the end of a test.
struct Served {
    child: Child,
    address: String,
    token: String,
}

impl Served {
    /// Starts `yb` and reads the address that it prints.
    fn start(context: &TestContext, args: &[&str]) -> Self {
        let child = command(context, args).spawn().unwrap();
        let mut served = Self { child, address: String::new(), token: String::new() };
        let (out, err) = (served.child.stdout.take().unwrap(), served.child.stderr.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        for stream in [Box::new(out) as Box<dyn std::io::Read + Send>, Box::new(err)] {
            let sender = sender.clone();
            std::thread::spawn(move || {
                BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| {
                    let _ = sender.send(line);
                });
            });
        }
        let mut seen = Vec::new();
        loop {
            let line = lines
                .recv_timeout(Duration::from_secs(60))
                .unwrap_or_else(|_| panic!("no address: {seen:?}"));
            if let Some((address, rest)) =
                line.strip_prefix("view: http://").and_then(|url| url.split_once('/'))
            {
                rest.split_once("token=").unwrap().1.clone_into(&mut served.token);
                address.clone_into(&mut served.address);
                return served;
            }
            seen.push(line);
        }
    }

    fn url(&self, path: &str) -> String {
        let mark = if path.contains('?') { '&' } else { '?' };
        format!("http://{}{path}{mark}token={}", self.address, self.token)
    }

    fn send(&self, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let port = self.address.rsplit(':').next().unwrap();
        write!(
            stream,
            "{head} HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nCookie: yb-view-{port}={1}\r\nConnection: close\r\n\
             Content-Length: {2}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
        .unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    }

    fn get(&self, path: &str) -> String {
        let page = self.send(&format!("GET {path}"), "");
        assert!(page.starts_with("HTTP/1.1 200"), "{path}: {page}");
        page
    }

    fn end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn runs(context: &TestContext) -> Vec<PathBuf> {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let mut runs: Vec<_> = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    runs.sort();
    runs
}

fn name(run: &std::path::Path) -> String {
    run.file_name().unwrap().to_str().unwrap().to_owned()
}

fn form_of(page: &str) -> String {
    page.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[test]
fn real_claude_steps_are_recorded_shown_and_forked() {
    let context = world(MODEL);
    let ran = command(&context, &["run", "case.yaml", "--record", "tapes", "--steps", "--quiet"]).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let run = runs(&context).pop().unwrap();
    let artifacts = run.join("trials/greeting--default--1/attempt-1/artifacts");
    let lines = std::fs::read_to_string(artifacts.join("steps.jsonl")).unwrap();
    let steps: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<usize> =
        steps.iter().map(|step| step["tool_calls"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(calls, [1, 1, 2, 1], "one step for each answer with tool calls: {lines}");
    assert!(steps.iter().enumerate().all(|(at, step)| step["turn"] == at + 1 && step["main"] == true));

    let served = Served::start(&context, &["view", "--no-open"]);
    let trial = format!("/runs/{}/trials/greeting--default--1", name(&run));
    assert!(served.get(&trial).contains("Workspace step by step"));
    let start = served.get(&format!("{trial}/steps?step=0&file=greeting.txt"));
    assert!(start.contains("Before the agent started") && start.contains("> Hello.</span>"), "{start}");
    let first = served.get(&format!("{trial}/steps?step=1"));
    assert!(first.contains("Nothing changed.") && first.contains("Bash: cat greeting.txt"), "{first}");
    let second = served.get(&format!("{trial}/steps?step=2&file=greeting.txt"));
    assert!(second.contains("+Hello and welcome!") && second.contains("Write: greeting.txt"), "{second}");
    let third = served.get(&format!("{trial}/steps?step=3&file=notes/a.txt"));
    assert!(third.contains("&lt;b&gt;one&lt;/b&gt;") && !third.contains("<b>one</b>"), "{third}");
    assert!(third.contains(">notes/b.txt</a>") && third.contains("--fork=3"), "{third}");
    let end = served.get(&format!("{trial}/steps?step=end&file=notes/a.txt"));
    assert!(end.contains("does not exist at this step"), "{end}");

    // The page starts a run that continues after the second turn, with another model.
    context.write("model.yaml", MODEL.replace("echo two", "echo forked"));
    let form = format!("form={}&step=2", form_of(&second));
    assert!(served.send(&format!("POST {trial}/fork"), "step=2").starts_with("HTTP/1.1 403"));
    assert!(served.send(&format!("POST {trial}/fork"), "step=2&form=x").starts_with("HTTP/1.1 403"));
    assert!(served.send(&format!("POST {trial}/fork"), &form).starts_with("HTTP/1.1 303"));
    let deadline = Instant::now() + Duration::from_secs(60);
    let forked = loop {
        let done =
            runs(&context).into_iter().find(|other| *other != run && other.join("results.json").is_file());
        if let Some(done) = done {
            break done;
        }
        assert!(Instant::now() < deadline, "the fork did not run");
        std::thread::sleep(Duration::from_millis(100));
    };
    let page = served.get(&format!("/runs/{}/trials/greeting--default--1/steps?step=3", name(&forked)));
    assert!(page.contains("+forked"), "{page}");
}

#[test]
fn real_claude_run_is_live_in_a_browser_and_stopped_from_the_page() {
    let slow = MODEL.replace("cat greeting.txt", "sleep 1; cat greeting.txt");
    let context = world(&slow);
    let args = ["run", "case.yaml", "--repeat", "8", "--jobs", "2", "--view", "--quiet", "--steps"];
    let served = Served::start(&context, &args);
    let run = name(&runs(&context).pop().unwrap());
    let mut browser = Browser::start();
    browser.open(&served.url(&format!("/runs/{run}")));
    browser.until("document.getElementById('state').textContent === 'live'");
    browser.until("/greeting--default--[12]/.test(document.getElementById('live').textContent)");
    // The last tool call of a running trial, as it happens.
    browser.until("/Bash|Write/.test(document.querySelector('#live .now').textContent)");
    browser.until("/[1-8] of 8 trials/.test(document.getElementById('live').textContent)");
    browser.click(".controls form:first-child button");
    browser.wait_for_load();
    let code = served.end();
    assert_eq!(code, Some(130), "drained like after Ctrl-C");
    let journal = std::fs::read_to_string(runs(&context)[0].join("journal.jsonl")).unwrap();
    let ended = journal.matches("\"outcome\":\"passed\"").count();
    assert!((1..8).contains(&ended), "{ended} trials ended");
    assert!(
        browser.console_errors().iter().all(|error| error.to_string().contains("ERR_")),
        "only lost connections"
    );
}
