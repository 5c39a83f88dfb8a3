//! Exports, read by the programs that they are for: Harbor's models and validator, Inspect, pandas, polars, DuckDB.

use std::path::{Path, PathBuf};
use std::process::Command;

use insta::assert_snapshot;
use serde_json::{Value, json};
use yb_testkit::{Browser, Outcome};

use crate::YB;
use crate::suites::{BAD, GOOD, World, suite};
use crate::tracing::World as Traced;

const FORMATS: [&str; 7] = ["atif", "inspect", "harbor", "parquet", "arrow", "csv", "swebench"];

fn tools() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/formats");
    let hint = "run `scripts/test`, which installs what the tests need";
    assert!(tools.join(".installed").is_file(), "{} is missing: {hint}", tools.display());
    tools
}

fn python() -> Command {
    let mut command = Command::new(tools().join("venv/bin/python"));
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("INSPECT_LOG_LEVEL", "error");
    command
}

/// Exports the newest run in all formats with this `yb`, and reads the files with other programs.
pub(crate) fn read_by_others(dir: &Path, yb: impl Fn(&[&str]) -> Outcome) -> Value {
    for format in FORMATS {
        let outcome = yb(&["export", "--format", format, "--output", &format!("exports/{format}")]);
        assert_eq!(outcome.code, Some(0), "{format}: {}{}", outcome.stdout, outcome.stderr);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/export/check.py");
    let read = python().arg(script).arg(tools()).arg(dir.join("exports")).output().unwrap();
    let errors = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{errors}");
    let text = String::from_utf8(read.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap())
        .unwrap_or_else(|error| panic!("{error}: {text}{errors}"))
}

/// Checks the exports of the run of five agents.
pub(crate) fn check_five_agents(found: &Value) {
    for agent in ["claude-code", "codex", "copilot-cli", "gemini", "opencode"] {
        let name = format!("greet-by-name--{agent}--1");
        let atif = &found["atif"][&name];
        assert_eq!(atif["agent"], agent, "{atif:#}");
        assert_eq!(atif["version"], "ATIF-v1.8");
        assert_eq!(atif["calls"].as_array().unwrap().len(), 3, "{atif:#}");
        assert_eq!(atif["results"], 3, "{atif:#}");
        assert_eq!(
            (&atif["prompt_tokens"], &atif["completion_tokens"]),
            (&json!(700), &json!(80)),
            "{atif:#}"
        );
        let log = &found["inspect"][format!("five-agents/{agent}")];
        assert_eq!(log["samples"], json!(["greet-by-name"]), "{:#}", found["inspect"]);
        assert_eq!(log["scores"]["outcome"], "C", "{log:#}");
        assert_eq!(log["events"].as_array().unwrap().iter().filter(|event| **event == "tool").count(), 3);
        assert_eq!(log["roles"].as_array().unwrap().iter().filter(|role| **role == "tool").count(), 3);
        let trial = &found["harbor"]["trials"][&name];
        assert_eq!(trial["rewards"], json!({ "reward": 1.0 }), "{:#}", found["harbor"]);
        assert_eq!((&trial["agent"], &trial["tokens"]), (&json!(agent), &json!([700, 0, 80])));
    }
    assert_eq!(found["frames"]["trials"]["rows"], 5);
    assert_eq!(found["frames"]["tool_calls"]["rows"], 15);
    assert_eq!(found["swebench"].as_array().unwrap().len(), 5);
}

#[test]
fn real_claude_subagents_and_verdicts_are_read_by_others() {
    let world = Traced::new();
    assert_eq!(world.run(&[]).run().code, Some(1));
    let found = read_by_others(&world.context.dir(), |args| world.yb(args).run());
    let atif = &found["atif"]["greeting--default--1"];
    assert_eq!(atif["steps"], json!(["user", "agent", "agent", "agent", "agent"]), "{atif:#}");
    assert_eq!(atif["calls"], json!(["Bash", "Agent", "Bash"]));
    assert_eq!(atif["results"], 3);
    // Its last answer is the result of the call.
    assert_eq!(atif["subagents"], json!([2]), "{atif:#}");
    // Cached tokens are part of the prompt.
    assert_eq!(atif["step_prompt_tokens"], json!([107, 10, 10, 200]), "{atif:#}");
    let log = &found["inspect"]["greeting/default"];
    assert_eq!(log["spans"], json!(["general-purpose"]), "{log:#}");
    assert_eq!(log["scores"], json!({ "outcome": "I", "git-diff": "C", "command": "I" }), "{log:#}");
    assert_eq!(log["accuracy"]["git-diff"], 1.0);
    let trial = &found["harbor"]["trials"]["greeting--default--1"];
    assert_eq!(
        (&trial["rewards"], &trial["failure"]),
        (&json!({ "reward": 0.0 }), &Value::Null),
        "{trial:#}"
    );
    let frames = &found["frames"];
    assert_eq!(frames["tool_calls"]["rows"], 4, "{frames:#}");
    assert_eq!(frames["verdicts"]["rows"], 2);
    assert_eq!(frames["trials"]["first"]["passed"], false);
    assert_eq!(frames["trials"]["types"]["cost_usd"], "double");

    // A trajectory is read again as a log, and graded.
    world.context.write("eval.yaml", TRAJECTORY_EVAL);
    let file = "exports/atif/greeting--default--1.json";
    let graded = world.yb(&["eval", "eval.yaml", "--trajectory", file]).run();
    assert_eq!(graded.code, Some(0), "{}{}", graded.stdout, graded.stderr);
    let shown = world.yb(&["show", file]).run();
    let recorded = world.yb(&["show", "latest", "--transcript"]).run();
    assert_eq!(shown.stdout, recorded.stdout);
}

const TRAJECTORY_EVAL: &str = "
youbencha: 1
name: calls
evaluators:
  - name: trajectory
    config:
      assertions: { tools_used: [Bash, Agent, Read], max_failed_calls: 2, counts: { Bash: { min: 2, max: 2 } } }
";

#[test]
fn real_claude_log_opens_in_inspect_view_in_a_browser() {
    let world = Traced::new();
    assert_eq!(world.run(&[]).run().code, Some(1));
    let outcome = world.yb(&["export", "--format", "inspect", "--output", "logs"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let mut server = InspectView::start(&world.context.dir().join("logs"));
    let mut browser = Browser::start();
    browser.set_viewport(1280, 860, "light");
    browser.open(&server.url());
    browser.until("document.body.innerText.includes('greeting/default')");
    let log = std::fs::read_dir(world.context.dir().join("logs")).unwrap().next().unwrap().unwrap();
    let log = log.file_name().into_string().unwrap();
    let page = |tab: &str| format!("{}/#/logs/{log}/samples/sample/greeting/1/{tab}", server.url());
    for (tab, text) in
        [("transcript", "GENERAL-PURPOSE"), ("messages", "The reviewer is content."), ("scoring", "git-diff")]
    {
        browser.open(&page(tab));
        browser.until(&format!("document.body.innerText.includes('{text}')"));
        if let Some(folder) = std::env::var_os("YB_SCREENSHOTS") {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(Path::new(&folder).join(format!("inspect-{tab}.png")), browser.screenshot())
                .unwrap();
        }
    }
    server.stop();
}

/// `inspect view` on a free port of loopback.
struct InspectView {
    process: std::process::Child,
    port: u16,
}

impl InspectView {
    fn start(logs: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let home = logs.parent().unwrap().join("inspect-home");
        std::fs::create_dir_all(&home).unwrap();
        let process = python()
            .env("HOME", &home)
            .args([
                "-m",
                "inspect_ai",
                "view",
                "start",
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--log-dir",
            ])
            .arg(logs)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let view = Self { process, port };
        let began = std::time::Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed().as_secs() < 60, "inspect view does not listen");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        view
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for InspectView {
    fn drop(&mut self) {
        self.stop();
    }
}

fn exported(world: &World) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![world.path("out")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), std::fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn export_is_deterministic_and_selects_trials() {
    let world = World::with(&suite(&["one"], &[("good", GOOD), ("bad", BAD)], ""));
    world.suite(&["--quiet"]).run();
    let export = |format: &str, more: &[&str]| {
        let mut args = vec!["export", "--format", format, "--output", "out"];
        args.extend(more);
        let outcome = world.context.run(YB, &args);
        assert_eq!(outcome.code, Some(0), "{format}: {}", outcome.stderr);
        outcome.stdout
    };
    for format in FORMATS {
        let printed = export(format, &[]);
        assert!(printed.starts_with("exported 2 trials to "), "{printed}");
        let first = exported(&world);
        assert!(!first.is_empty());
        export(format, &[]);
        assert!(exported(&world) == first, "{format}");
        std::fs::remove_dir_all(world.path("out")).unwrap();
    }
    export("atif", &["--trial", "one--good--1"]);
    let files: Vec<String> = exported(&world)
        .iter()
        .map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, ["one--good--1.json"]);
    let patches = export("swebench", &["--json"]);
    assert_eq!(serde_json::from_str::<Value>(&patches).unwrap()["files"], 2, "{patches}");
}

#[test]
fn export_reports_errors_with_the_way_out() {
    let world = World::with(&suite(&["one"], &[("good", GOOD)], ""));
    world.suite(&["--quiet"]).run();
    world.context.write("file", "");
    let yb = |args: &[&str]| world.context.run(YB, args).snapshot();
    assert_snapshot!(yb(&["export", "--format", "csv", "--output", "file"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: path is a file: `file`
    hint: name a directory: `--output DIR`
    ");
    let unknown = world.context.run(YB, ["export", "--format", "csv", "--trial", "two"]);
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.stderr.ends_with(" is named `two`\nhint: list its trials: `yb show latest`\n"),
        "{}",
        unknown.stderr
    );
    world.context.write("other.json", r#"{"schema_version": "ATIF-v2.0", "steps": []}"#);
    world.context.write("eval.yaml", TRAJECTORY_EVAL);
    assert_snapshot!(yb(&["eval", "eval.yaml", "--trajectory", "other.json"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `other.json`: not an ATIF trajectory of version 1: `schema_version` is `ATIF-v2.0`
    hint: pass an ATIF trajectory, such as one of `yb export --format atif`
    ");
}
