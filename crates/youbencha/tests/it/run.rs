//! `yb run`: log, patch, results and exit code of a case.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;

use insta::assert_snapshot;
use serde_json::Value;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{Invocation, Outcome, RealClaude, TestContext};

use crate::YB;

/// A context with a repository of one file.
fn world() -> TestContext {
    let mut context = TestContext::new();
    context.filter(r"run-\d{4}-\d\d-\d\d-\[HEX\]", "[RUN]").filter(r"\$\d+\.\d+", "[COST]");
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("greet.sh", "echo Hello!\n").commit("start");
    context
}

/// Builds a case with a shell agent.
fn case(command: &str, rest: &str) -> String {
    let command = serde_json::to_string(command).unwrap();
    format!(
        "youbencha: 1
name: greeting
description: The script greets by name.
repo: repo
agent: {{ type: command, config: {{ prompt: Greet by name., command: {{ argv: [sh, -c, {command}] }} }} }}
evaluators: [{{ name: git-diff, config: {{ assertions: {{ max_files_changed: 1 }} }} }}]
{rest}"
    )
}

fn yb(context: &TestContext, case: &str) -> Invocation {
    context.write("case.yaml", case);
    context.command(YB).args(["run", "-c", "case.yaml"]).env("PATH", std::env::var_os("PATH").unwrap())
}

fn run(context: &TestContext, case: &str) -> Outcome {
    yb(context, case).run()
}

/// Returns the artifacts of the only run.
fn artifacts(context: &TestContext) -> PathBuf {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let mut runs: Vec<_> = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(runs.len(), 1);
    runs.remove(0).join("artifacts")
}

fn json(context: &TestContext, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(artifacts(context).join(file)).unwrap()).unwrap()
}

#[test]
fn run_writes_log_patch_and_results() {
    let context = world();
    let case = case("echo 'echo Hello, $1' > greet.sh; echo done", "");
    // The warning about the case, which passes untouched, comes at any time.
    let outcome = yb(&context, &case).arg("--no-check").run();
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    greeting: passed
      agent: command succeeded after [TIME]
      isolation: bubblewrap
      git-diff: passed: ✓ 1 file changed (+1/-1 lines)
      artifacts: .youbencha-workspace/runs/[RUN]/trials/greeting--default--1/attempt-1/artifacts
    ----- stderr -----
    workspace [TEMP]/work/.youbencha-workspace/runs/[RUN]/trials/greeting--default--1/attempt-1/src-modified
    running agent `command`
    captured the end tree
    hint: inspect the trial: yb show latest
    ");
    let results = json(&context, "results.json");
    assert_eq!(results["summary"]["overall_status"], "passed");
    assert_eq!(results["outcome"], "passed");
    assert_eq!(results["evaluators"][0]["metrics"]["lines_added"], 1);
    let patch = std::fs::read_to_string(artifacts(&context).join("git-diff.patch")).unwrap();
    assert!(patch.contains("+echo Hello, $1\n") && patch.contains("-echo Hello!\n"), "{patch}");
    assert_eq!(json(&context, "youbencha-log.json")["execution"]["status"], "success");
}

#[test]
fn second_ctrl_c_kills_the_agent_and_keeps_its_changes() {
    let context = world();
    context.write(
        "case.yaml",
        case("echo half > half-done; touch ../../../../../../../up; sleep 321", "isolation: none"),
    );
    let mut yb = std::process::Command::new(YB);
    yb.args(["run", "-c", "case.yaml"]).current_dir(context.dir()).env_clear();
    yb.env("PATH", std::env::var_os("PATH").unwrap()).stdin(std::process::Stdio::null());
    let mut child =
        yb.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let up = context.dir().join("up");
    while !up.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    }
    let pid = rustix::process::Pid::from_child(&child);
    // Simultaneous signals are merged, so each is repeated until it is handled.
    while child.try_wait().unwrap().is_none() {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let results = json(&context, "results.json");
    assert_eq!(results["outcome"], "cancelled");
    let patch = std::fs::read_to_string(artifacts(&context).join("git-diff.patch")).unwrap();
    assert!(patch.contains("+half"), "{patch}");
    yb_testkit::assert_no_process_in(&context.dir());
}

#[test]
fn failed_assertion_is_exit_code_1() {
    let context = world();
    let outcome = run(&context, &case("echo a > a; echo b > b", ""));
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("files_changed (2) exceeds max_files_changed (1)"), "{}", outcome.stdout);
}

#[test]
fn failing_agent_is_exit_code_1_and_graded() {
    let context = world();
    let outcome = run(&context, &case("echo x > x; echo broken >&2; exit 3", ""));
    assert_eq!(outcome.code, Some(1));
    let results = json(&context, "results.json");
    assert_eq!((&results["agent"]["status"], &results["agent"]["exit_code"]), (&"failed".into(), &3.into()));
    assert_eq!(results["outcome"], "agent_error");
    assert_eq!(results["evaluators"][0]["metrics"]["files_changed"], 1);
}

#[test]
fn changes_of_pre_execution_hooks_are_not_graded() {
    let context = world();
    let hook = "pre_execution: [{ name: script, config: { command: echo, args: ['$TEST_CASE_NAME is ready'] } }, \
                { name: script, config: { command: 'touch made-by-hook' } }]";
    let outcome = run(&context, &case("test -e made-by-hook && echo x > x", hook));
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(json(&context, "results.json")["evaluators"][0]["metrics"]["files_changed"], 1);
}

#[test]
fn failing_hook_stops_the_trial_with_its_output() {
    let context = world();
    let hook = "pre_execution: [{ name: script, config: { command: 'echo no tools here >&2; exit 5' } }]";
    let outcome = run(&context, &case("echo never > started", hook));
    assert_eq!(outcome.code, Some(4));
    assert!(
        outcome.stdout.contains("exited with code 5") && outcome.stdout.contains("no tools here"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn post_evaluation_hooks_do_not_change_the_outcome() {
    let context = world();
    let hooks = "post_evaluation:
  - { name: script, config: { command: 'echo $OVERALL_STATUS of $TEST_CASE_NAME > told; test -s $RESULTS_PATH' } }
  - { name: script, config: { command: 'echo went wrong; exit 7' } }
  - { name: database, config: { type: json-file, output_path: history.jsonl } }
";
    let outcome = run(&context, &case("echo x > x", hooks));
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(context.read("told"), "passed of greeting\n");
    let line: Value = serde_json::from_str(&context.read("history.jsonl")).unwrap();
    assert_eq!(line["summary"]["overall_status"], "passed");
    let printed = json(&context, "hooks.json");
    let succeeded: Vec<bool> =
        printed.as_array().unwrap().iter().filter_map(|hook| hook["succeeded"].as_bool()).collect();
    assert_eq!(succeeded, [true, false, true]);
    assert_eq!(
        (&printed[1]["message"], &printed[1]["output"]),
        (&"exited with code 7".into(), &"went wrong".into())
    );
    assert!(outcome.stderr.contains("post-evaluation failed"), "{}", outcome.stderr);
}

/// Answers one request and returns it.
fn webhook_server() -> (std::net::SocketAddr, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut request, mut length) = (String::new(), 0);
        while !request.ends_with("\r\n\r\n") {
            reader.read_line(&mut request).unwrap();
            let line = request.lines().last().unwrap_or_default();
            length =
                line.strip_prefix("content-length: ").and_then(|text| text.parse().ok()).unwrap_or(length);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let token = request.lines().find(|line| line.starts_with("authorization: ")).unwrap_or_default();
        let answer = format!("HTTP/1.1 202 Accepted\r\ncontent-length: {}\r\n\r\n{token}", token.len());
        stream.write_all(answer.as_bytes()).unwrap();
        request + &String::from_utf8(body).unwrap()
    });
    (address, served)
}

fn webhook(address: std::net::SocketAddr) -> String {
    format!(
        "post_evaluation:
  - name: webhook
    config:
      url: http://{address}/results
      headers: {{ Authorization: 'Bearer ${{ENV:HOOK_TOKEN}}' }}
      include_artifacts: true
"
    )
}

#[test]
fn webhook_receives_results_and_its_token_is_not_stored() {
    let context = world();
    let (address, served) = webhook_server();
    let outcome = yb(&context, &case("echo x > x", &webhook(address)))
        .args(["--allow-private-hosts", "--no-check"])
        .env("HOOK_TOKEN", "t0ken-of-the-hook")
        .run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stderr.contains("warning"), "{}", outcome.stderr);
    let request = served.join().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /results HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer t0ken-of-the-hook"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["results"], json(&context, "results.json"));
    let artifacts = std::fs::canonicalize(artifacts(&context)).unwrap();
    assert_eq!(body["artifacts_path"].as_str().map(std::path::Path::new), Some(artifacts.as_path()));
    let printed = json(&context, "hooks.json");
    assert_eq!((&printed[0]["hook"], &printed[0]["succeeded"]), (&"webhook".into(), &true.into()));
    assert_eq!(printed[0]["message"], "HTTP 202 Accepted");
    assert_eq!(printed[0]["output"], "authorization: [REDACTED:Authorization]");
    assert!(!printed.to_string().contains("t0ken"), "{printed}");
}

#[test]
fn webhook_on_a_private_host_is_rejected_and_the_trial_passes() {
    let context = world();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let hook = webhook(listener.local_addr().unwrap());
    let outcome = yb(&context, &case("echo x > x", &hook)).env("HOOK_TOKEN", "t0ken-of-the-hook").run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stderr.contains("host is private") && outcome.stderr.contains("--allow-private-hosts"),
        "{}",
        outcome.stderr
    );
    assert_eq!(json(&context, "hooks.json")[0]["succeeded"], false);
    assert!(listener.accept().is_err(), "nobody came");
}

#[test]
fn webhook_without_token_is_reported_before_the_run_starts() {
    let context = world();
    let outcome = run(&context, &case("true", &webhook("192.0.2.1:80".parse().unwrap())));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("`HOOK_TOKEN`") && outcome.stderr.contains("hint: "),
        "{}",
        outcome.stderr
    );
    assert!(!context.dir().join(".youbencha-workspace").exists());
}

#[test]
fn invalid_agent_configuration_creates_no_run() {
    let ours = CLAUDE_CASE
        .replace("prompt: Greet by name.", "prompt: Greet by name., extra_args: [--output-format=text]");
    let privileged = CLAUDE_CASE.replace("isolation: external", "isolation: none");
    let no_model = case("true", "").replace("argv: [sh, -c,", "argv: [sh, '{model}', -c,");
    let mut cases = vec![(ours, "extra_args"), (no_model, "names no model")];
    // Other users may bypass permissions.
    if rustix::process::geteuid().is_root() {
        cases.push((privileged, "IS_SANDBOX=1"));
    }
    for (text, message) in cases {
        let context = world();
        // Checked before the agent is searched, which would be exit code 3.
        let outcome = yb(&context, &text).env("YB_CLAUDE", "/no/such/claude").run();
        assert_eq!(outcome.code, Some(2), "{message}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains(message) && outcome.stderr.contains("hint: "), "{}", outcome.stderr);
        assert!(!context.dir().join(".youbencha-workspace").exists(), "{message}");
    }
}

#[test]
fn missing_judge_is_reported_before_the_run_starts() {
    let context = world();
    let text = case("true", "").replace(
        "name: git-diff, config: { assertions: { max_files_changed: 1 } }",
        "name: agentic-judge, config: { type: copilot-cli, assertions: [It greets.] }",
    );
    let outcome = yb(&context, &text).env("YB_COPILOT", "/no/such/copilot").run();
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("Copilot is not where `YB_COPILOT` says"), "{}", outcome.stderr);
    assert!(!context.dir().join(".youbencha-workspace").exists());
}

#[test]
fn missing_repository_is_reported() {
    let context = world();
    let outcome = run(&context, &case("true", "").replace("repo: repo", "repo: repo\nbranch: nowhere"));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("nowhere"), "{}", outcome.stderr);
}

#[test]
fn all_file_errors_are_reported_before_the_run_starts() {
    let context = world();
    let text =
        case("true", "").replace("max_files_changed: 1", "max_file_changed: one").replace("repo: repo", "");
    let outcome = run(&context, &text);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("max_file_changed") && outcome.stderr.contains("repo"),
        "{}",
        outcome.stderr
    );
}

const CLAUDE_CASE: &str = "
youbencha: 1
name: greeting
description: The script greets by name.
repo: repo
isolation: external
agent: { type: claude-code, model: claude-opus-5-5, config: { prompt: Greet by name., permission_mode: bypassPermissions } }
evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
";

/// End to end with a scripted model.
#[test]
fn cr_4_1_real_claude_runs_a_case_to_its_results() {
    let script = "
tape: 1
lanes:
  main:
    - { say: I look first., tools: [{ Bash: { command: cat greet.sh, description: Look } }] }
    - { tools: [{ Bash: { command: 'echo ''echo Hello, $1'' > greet.sh; git commit -qam done', description: Fix } }] }
    - { say: Done., usage: { input: 100, output: 20 } }
";
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let claude = RealClaude::new();
    let context = world();
    let key = "not-a-real-key-but-a-secret";
    let outcome = yb(&context, CLAUDE_CASE)
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", key)
        .env("YB_CLAUDE", claude.program())
        .run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let log = json(&context, "youbencha-log.json");
    assert_eq!(log["agent_info"]["version"], RealClaude::pinned_version());
    assert_eq!(log["model_info"]["name"], "claude-opus-5-5");
    assert_eq!((&log["agent"], &log["model"]), (&log["agent_info"], &log["model_info"]));
    assert_eq!(log["usage"]["total_tokens"], 150);
    assert_eq!(log["tool_calls"].as_array().unwrap().len(), 2);
    let results = json(&context, "results.json");
    // The agent committed, but the diff starts at the start tree.
    assert_eq!(results["evaluators"][0]["metrics"]["files_changed"], 1);
    let logs = artifacts(&context).join("claude-code-logs");
    let terminal = std::fs::read_dir(logs).unwrap().next().unwrap().unwrap().path();
    assert!(std::fs::read_to_string(terminal).unwrap().contains("I look first."));
    assert_eq!(server.unscripted().len(), 0);
    for file in ["youbencha-log.json", "results.json", "git-diff.patch", "frames.jsonl"] {
        assert!(!std::fs::read_to_string(artifacts(&context).join(file)).unwrap().contains(key), "{file}");
    }
    yb_testkit::assert_no_process_in(&context.dir());
}

#[test]
fn invalid_agent_configuration_is_exit_code_2_with_a_hint() {
    let context = world();
    let text = CLAUDE_CASE.replace("model: claude-opus-5-5", "agent_name: nobody-knows");
    let outcome =
        yb(&context, &text).env("YB_CLAUDE", RealClaude::new().program()).env("ANTHROPIC_API_KEY", "x").run();
    assert_eq!(outcome.code, Some(2), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("nobody-knows"), "{}", outcome.stderr);
    // It ends like any other trial.
    let log = json(&context, "youbencha-log.json");
    assert_eq!(log["errors"][0]["code"], "CLAUDE_INVALID_CONFIG");
    assert_eq!(log["agent"]["version"], RealClaude::pinned_version());
    assert_eq!((&log["outcome"], &log["execution"]["status"]), (&"infra".into(), &"failed".into()));
    assert_eq!(json(&context, "results.json")["outcome"], "infra");
}

#[test]
fn json_has_the_codes_of_a_mistake_and_of_a_missing_agent() {
    let events = |outcome: &Outcome| -> Vec<Value> {
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let context = world();
    let text = CLAUDE_CASE.replace("model: claude-opus-5-5", "agent_name: nobody-knows");
    let claude = RealClaude::new();
    let mistake = yb(&context, &text)
        .arg("--json")
        .env("YB_CLAUDE", claude.program())
        .env("ANTHROPIC_API_KEY", "x")
        .run();
    let seen = events(&mistake);
    let finished = seen.iter().find(|event| event["event"] == "attempt_finished").unwrap();
    assert_eq!(
        (&finished["error_code"], &finished["outcome"]),
        (&"CLAUDE_INVALID_CONFIG".into(), &"infra".into())
    );
    assert_eq!(finished["agent_version"], RealClaude::pinned_version());
    assert_eq!(seen.last().unwrap()["exit_code"], 2);

    let context = world();
    let missing = yb(&context, CLAUDE_CASE).arg("--json").env("YB_CLAUDE", "/no/such/claude").run();
    assert_eq!(missing.code, Some(3), "{}{}", missing.stdout, missing.stderr);
    let seen = events(&missing);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!((&seen[0]["event"], &seen[0]["code"]), (&"refused".into(), &"CLAUDE_CLI_NOT_FOUND".into()));
    assert_eq!(seen[0]["trials"].as_array().unwrap().len(), 1);
}

#[test]
fn missing_agent_is_exit_code_3() {
    let context = world();
    let outcome = yb(&context, CLAUDE_CASE).env("YB_CLAUDE", "/no/such/claude").run();
    assert_eq!(outcome.code, Some(3), "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stderr.contains("/no/such/claude") && outcome.stderr.contains("hint: "),
        "{}",
        outcome.stderr
    );
    assert!(!context.dir().join(".youbencha-workspace").exists(), "nothing is started");
}

#[test]
fn fr_002_real_claude_without_a_login_is_exit_code_3_before_anything_is_started() {
    let context = world();
    let outcome = yb(&context, CLAUDE_CASE).env("YB_CLAUDE", RealClaude::new().program()).run();
    assert_eq!(outcome.code, Some(3), "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stderr.contains("authentication") && outcome.stderr.contains("claude auth login"),
        "{}",
        outcome.stderr
    );
    assert!(!context.dir().join(".youbencha-workspace").exists());
}

/// Runs `yb run` in a shell that sets limits first.
fn with_limits(context: &TestContext, limits: &str) -> Outcome {
    let script = format!("{limits}; exec \"$0\" run -c case.yaml");
    context.write("case.yaml", case("ulimit -Sn > greet.sh", ""));
    context.command("/bin/sh").args(["-c", &script, YB]).run()
}

#[test]
fn low_limit_of_open_files_is_named_before_anything_starts() {
    let context = world();
    let outcome = with_limits(&context, "ulimit -n 64");
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 4
    ----- stdout -----
    ----- stderr -----
    error: the limit of open files is too low: 64 (minimum 256)
    hint: raise it: `ulimit -n 4096`
    ");
    assert!(!context.dir().join(".youbencha-workspace/runs").exists());
}

#[test]
fn soft_limit_of_open_files_is_raised_but_not_for_the_agent() {
    let context = world();
    let outcome = with_limits(&context, "ulimit -Hn 256; ulimit -Sn 64");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let runs = yb_engine::run::all_runs(&context.dir().join(".youbencha-workspace")).unwrap();
    let workspace = runs[0].path().join("trials/greeting--default--1/attempt-1/src-modified/greet.sh");
    assert_eq!(std::fs::read_to_string(workspace).unwrap(), "64\n");
}
