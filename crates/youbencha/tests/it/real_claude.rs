//! The real Claude Code CLI, offline, with a scripted model and `yb` as the shim.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use yb_supervise::{Command, End, Launch, OutputMode, Report, Stdin, StreamItem};
use yb_tape::{MockServer, MockServerOptions, ResponseKind, Script, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{Process, RealClaude};

const PROMPT: &str = "Make the greeting friendlier.";

/// One run of the agent in its own repository.
struct Trial {
    claude: RealClaude,
    directory: tempfile::TempDir,
    repo: Repo,
}

/// The result of one run.
struct Outcome {
    report: Report,
    frames: Vec<Value>,
    server: MockServer,
}

impl Trial {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repo::init(directory.path());
        repo.write("greeting.txt", "Hello.\n").commit("start");
        Self { claude: RealClaude::new(), directory, repo }
    }

    fn workspace(&self) -> &Path {
        self.directory.path()
    }

    async fn run(&self, script: &str, deadline: Duration) -> Outcome {
        let vars = Vars::new().with("workspace", self.workspace().to_str().unwrap());
        let server =
            MockServer::start(Script::parse(script, &vars).unwrap(), &MockServerOptions::default()).unwrap();
        let command = Command::new(self.claude.program())
            .args([
                "-p",
                "--output-format",
                "stream-json",
                "--verbose",
                "--permission-mode",
                "bypassPermissions",
            ])
            .current_dir(self.workspace())
            .envs(self.claude.env(&server.base_url()))
            .stdin(Stdin::Bytes(PROMPT.into()))
            .output(OutputMode::stream())
            .launch(Launch::Contained)
            .shim(crate::YB)
            .deadline(deadline);
        let mut running = command.spawn().await.unwrap();
        let mut lines = running.lines().unwrap();
        let mut frames = Vec::new();
        while let Some(item) = lines.next().await {
            // A killed agent may leave an incomplete line.
            if let StreamItem::Line(line) = item {
                frames.push(serde_json::from_slice(&line).unwrap());
            }
        }
        Outcome { report: running.wait().await, frames, server }
    }
}

impl Outcome {
    fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.frames.iter().filter(move |frame| frame["type"] == kind)
    }

    fn result(&self) -> &Value {
        self.of_type("result").last().unwrap_or_else(|| panic!("no result: {:#?}", self.report))
    }

    /// Returns lanes and turns in request order.
    fn turns(&self) -> Vec<String> {
        let requests = self.server.requests();
        let turns =
            requests.iter().filter_map(|seen| Some(format!("{} {}", seen.lane.as_ref()?, seen.turn?)));
        turns.collect()
    }
}

#[tokio::test]
async fn edits_a_file_runs_a_command_and_leaves_nothing_running() {
    let trial = Trial::new();
    let script = "
tape: 1
lanes:
  main:
    match: Make the greeting friendlier
    replies:
      - say: I look at the greeting first.
        tools: [{ Read: { file_path: '{{workspace}}/greeting.txt' } }]
      - tools: [{ Edit: { file_path: '{{workspace}}/greeting.txt', old_string: Hello., new_string: Hello and welcome! } }]
      - think: Did it work?
        tools: [{ Bash: { command: 'wc -w < greeting.txt && git status --porcelain', description: Check } }]
        usage: { input: 100, output: 20 }
      - say: The greeting is friendlier now.
";
    let outcome = trial.run(script, Duration::from_secs(120)).await;
    assert!(outcome.report.success(), "{}\n{:#?}", outcome.report.end, outcome.report.output);
    assert!(!outcome.report.leaked);
    assert_eq!(outcome.report.unkillable, [0; 0]);
    assert!(!outcome.report.containment.unwrap().best_effort);

    let greeting = std::fs::read_to_string(trial.workspace().join("greeting.txt")).unwrap();
    assert_eq!(greeting, "Hello and welcome!\n");
    assert_eq!(trial.repo.status().trim(), "M greeting.txt");

    let init = outcome.of_type("system").find(|frame| frame["subtype"] == "init").unwrap();
    assert_eq!(init["claude_code_version"], RealClaude::pinned_version());
    assert_eq!(init["cwd"].as_str(), trial.workspace().canonicalize().unwrap().to_str());
    let tools: Vec<&str> = outcome
        .of_type("assistant")
        .flat_map(|frame| frame["message"]["content"].as_array().unwrap())
        .filter_map(|block| block["name"].as_str())
        .collect();
    assert_eq!(tools, ["Read", "Edit", "Bash"]);
    let printed =
        outcome.of_type("user").last().unwrap()["message"]["content"][0]["content"].as_str().unwrap();
    assert!(printed.starts_with("3\n") && printed.contains("M greeting.txt"), "{printed}");
    assert_eq!(outcome.result()["subtype"], "success");
    assert_eq!(outcome.result()["result"], "The greeting is friendlier now.");

    assert_eq!(outcome.turns(), ["main 1", "main 2", "main 3", "main 4"]);
    assert!(outcome.server.unscripted().is_empty());
    assert!(
        outcome
            .server
            .requests()
            .iter()
            .all(|seen| !format!("{seen:?}").contains(yb_claude::hermetic::DUMMY_KEY))
    );
    yb_testkit::assert_no_process_in(trial.workspace());
    yb_testkit::assert_no_process_in(trial.claude.private());
}

#[tokio::test]
async fn is_killed_by_its_deadline_while_a_tool_runs() {
    let trial = Trial::new();
    let script = "
tape: 1
lanes:
  main:
    - tools:
        - Bash:
            command: 'cut -d\" \" -f1,22 /proc/$$/stat > t && mv t tool.pid; while :; do sleep 0.2; done'
            description: Wait
            timeout: 600000
";
    let outcome = trial.run(script, Duration::from_secs(12)).await;
    assert!(matches!(outcome.report.end, End::TimedOut { .. }), "{}", outcome.report.end);
    // It exits on SIGTERM without a result.
    assert_eq!(outcome.report.shell_code(), Some(143));
    assert_eq!(outcome.of_type("result").count(), 0);
    assert_eq!(outcome.turns(), ["main 1"]);
    let tool = Process::from_file(&trial.workspace().join("tool.pid"));
    assert!(!tool.is_alive(), "the tool outlived the deadline");
    yb_testkit::assert_no_process_in(trial.workspace());
}

#[tokio::test]
async fn daemon_that_a_tool_left_behind_is_found_and_killed() {
    let trial = Trial::new();
    let script = "
tape: 1
lanes:
  main:
    - tools:
        - Bash:
            command: >-
              env -i setsid sh -c 'cut -d\" \" -f1,22 /proc/$$/stat > daemon.pid; while :; do sleep 1; done'
              > /dev/null 2>&1 < /dev/null & while [ ! -s daemon.pid ]; do sleep 0.1; done
            description: Leave a daemon
    - say: Done.
";
    let outcome = trial.run(script, Duration::from_secs(120)).await;
    assert!(outcome.report.success(), "{}", outcome.report.end);
    assert!(outcome.report.leaked);
    assert!(!Process::from_file(&trial.workspace().join("daemon.pid")).is_alive());
    yb_testkit::assert_no_process_in(trial.workspace());
}

#[tokio::test]
async fn subagent_has_a_lane_of_its_own() {
    let trial = Trial::new();
    let script = "
tape: 1
lanes:
  main:
    - tools:
        - Agent:
            description: Review
            prompt: Review the greeting and say whether it is friendly.
            subagent_type: general-purpose
            run_in_background: false
    - say: The reviewer is content.
  reviewer:
    match: Review the greeting
    replies:
      - tools: [{ Bash: { command: cat greeting.txt, description: Read } }]
      - say: It is friendly.
";
    let outcome = trial.run(script, Duration::from_secs(120)).await;
    assert_eq!(outcome.turns(), ["main 1", "reviewer 1", "reviewer 2", "main 2"]);
    assert!(outcome.server.unscripted().is_empty());
    assert_eq!(outcome.result()["result"], "The reviewer is content.");
    let sub = outcome.of_type("assistant").filter(|frame| !frame["parent_tool_use_id"].is_null()).count();
    assert!(sub > 0, "no frame of the subagent");
}

#[tokio::test]
async fn retry_gets_the_same_turn() {
    let mut trial = Trial::new();
    trial.claude = RealClaude::new().max_retries(2);
    let script = "
tape: 1
lanes:
  main:
    - tools: [{ Bash: { command: echo one, description: One } }]
    - fault: { status: 529, times: 1 }
      say: Second.
";
    let outcome = trial.run(script, Duration::from_secs(120)).await;
    assert_eq!(outcome.turns(), ["main 1", "main 2", "main 2"]);
    assert_eq!(outcome.result()["result"], "Second.");
    let answers: Vec<ResponseKind> = outcome
        .server
        .requests()
        .iter()
        .filter(|seen| seen.lane.is_some())
        .map(|seen| seen.response.clone())
        .collect();
    assert_eq!(answers, [ResponseKind::Reply, ResponseKind::Fault, ResponseKind::Reply]);
}

#[tokio::test]
async fn unscripted_turn_is_an_error_that_names_it() {
    let trial = Trial::new();
    let script =
        "{ tape: 1, lanes: { main: [ { tools: [ { Bash: { command: 'true', description: x } } ] } ] } }";
    let outcome = trial.run(script, Duration::from_secs(120)).await;
    assert_eq!(outcome.report.shell_code(), Some(1));
    assert_eq!(outcome.result()["is_error"], true);
    let message = outcome.result()["result"].as_str().unwrap();
    assert!(message.contains("no reply scripted for lane `main`, turn 2"), "{message}");
    assert!(!outcome.server.unscripted().is_empty());
}
