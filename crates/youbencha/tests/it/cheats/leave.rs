//! Agents that can't pass and try to leave the pass rate instead: they cause failures that look like those of the machine or of
//! the API, which are excluded and retried. All runs are those of an ordinary user, whom permissions bind.

use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Value, json};
use yb_testkit::git::Repo;
use yb_testkit::{Invocation, TestContext};

use super::HANG;
use crate::YB;

/// Solves the task.
const SOLVE: &str = "echo done > answer.txt";

/// More nested directories than a process may have open files, and a path that is too long to be captured.
const NEST: &str = r#"python3 -c 'import os
for _ in range(1100):
    os.mkdir("d"); os.chdir("d")'"#;

/// A way to leave the pass rate: a name and a shell script.
struct Trick {
    name: &'static str,
    script: String,
    /// The declared output of the agent.
    output: &'static str,
}

/// A frame about a failure of the API, as Claude Code prints it.
fn api_error(status: u16) -> Value {
    json!({ "type": "result", "subtype": "success", "is_error": true, "result": format!("API Error: {status}"),
        "api_error_status": status, "terminal_reason": "api_error" })
}

fn tricks() -> Vec<Trick> {
    let trick = |name, script: &str| Trick { name, script: script.to_owned(), output: "text" };
    let frame = |name, frame: Value| Trick {
        name,
        script: format!("echo '{frame}'; exit 1"),
        output: "claude-stream-json",
    };
    let retry = json!({ "type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10,
        "retry_delay_ms": 1, "error_status": 401, "error": "authentication_error" });
    // A path that fits here, but not in a directory whose name is a bit longer.
    let long = r#"python3 -c 'import os
left = 4095 - len(os.getcwd()) - 1
while left > 250:
    os.mkdir("d" * 199); os.chdir("d" * 199); left -= 200
open("f" * (left - 1), "w").close()'"#;
    vec![
        trick("home-closed", "mkdir $HOME/x && touch $HOME/x/y && chmod 000 $HOME/x"),
        trick("home-read-only", "mkdir -p $HOME/go/a/b && touch $HOME/go/a/b/c && chmod -R a-w $HOME/go"),
        trick("tmp-closed", "mkdir -p $TMPDIR/x/y && chmod 000 $TMPDIR/x/y $TMPDIR/x"),
        trick("home-nested", &format!("cd $HOME && {NEST}")),
        trick("workspace-nested", NEST),
        trick("workspace-read-only", "mkdir -p a/b && touch a/b/c && chmod -R a-w a && chmod a-w ."),
        trick(
            "graded-nested",
            &format!("cat > build.sh << 'EOF'\n({NEST})\nmkdir z z/y; chmod 000 z/y z\nEOF"),
        ),
        trick("graded-closed", "echo 'touch $HOME/f; mkdir $HOME/x; chmod 000 $HOME/x $HOME .' > build.sh"),
        trick("sparse", "for n in $(seq 300); do truncate -s 60M hole$n; done"),
        trick("long-path", long),
        trick("closed", "mkdir x && touch x/y && chmod 000 x && chmod 000 ."),
        trick("gone", "rm -rf .git * .[a-z]*; true"),
        frame("says-429", api_error(429)),
        frame("says-500", api_error(500)),
        frame("says-401", api_error(401)),
        frame("retries-401", retry),
    ]
}

/// Runs a suite of these agents as an ordinary user and returns the journal's ends of attempts by variant.
struct Simulation {
    context: Rc<TestContext>,
}

impl Simulation {
    fn new() -> Self {
        let context = Rc::new(TestContext::new());
        Repo::init(context.dir().join("repo")).write("question.txt", "Is it done?\n").commit("start");
        Self { context }
    }

    /// `yb` as an ordinary user, whom permissions bind. Root gets a user namespace in which it is one.
    fn yb(&self, args: &[&str]) -> Invocation {
        let limited = ["sh", "-c", "ulimit -n 1024; exec \"$@\"", "sh", YB];
        if rustix::process::geteuid().is_root() {
            let user = ["-U", "--map-user=1000", "--map-group=1000"];
            return self.context.command("unshare").args(user).args(limited).args(args).timeout(HANG);
        }
        self.context.command(limited[0]).args(&limited[1..]).args(args).timeout(HANG)
    }

    fn run(&self, variants: &[Value], flags: &[&str]) -> (String, Vec<(String, String)>) {
        // A build script of the agent runs while it is graded.
        let check = "[ ! -f build.sh ] || sh build.sh; grep -q done answer.txt";
        let case = json!({ "name": "task", "description": "A task.", "repo": "repo",
            "agent": { "type": "command", "config": { "prompt": "Do the task." } },
            "evaluators": [{ "name": "command", "config": { "shell": check } }] });
        let suite = json!({ "youbencha": 1, "name": "leave", "cases": [case], "variants": variants });
        self.context.write("suite.yaml", suite.to_string());
        let mut args = vec!["run", "-c", "suite.yaml", "--quiet"];
        args.extend(flags);
        let outcome = self.yb(&args).run();
        let journal = std::fs::read_to_string(self.newest().join("journal.jsonl"))
            .unwrap_or_else(|error| panic!("{error}: {}{}", outcome.stdout, outcome.stderr));
        let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ends = lines.filter(|line| line["event"] == "attempt_finished");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ends = ends
            .map(|end| (text(&end["trial"]).replace("task--", "").replace("--1", ""), text(&end["outcome"])));
        (format!("{}{}", outcome.stdout, outcome.stderr), ends.collect())
    }

    fn newest(&self) -> PathBuf {
        let runs = yb_engine::run::all_runs(&self.context.dir().join(".youbencha-workspace")).unwrap();
        runs.last().unwrap().path().to_owned()
    }
}

fn variant(name: &str, script: &str, output: &str) -> Value {
    json!({ "name": name, "type": "command",
        "config": { "command": { "argv": ["sh", "-c", script], "output": output } } })
}

/// Forty agents that solve the task now and then, and otherwise try everything to be excluded: the pass rate is that of agents
/// which do nothing instead.
#[test]
fn forty_agents_that_hide_their_failures_have_the_honest_pass_rate() {
    let tricks = tricks();
    let mut variants = Vec::new();
    let mut solvers = Vec::new();
    for number in 0..40 {
        let trick = &tricks[number % tricks.len()];
        let name = format!("{}-{number}", trick.name);
        // Three of ten solve it.
        if number * 3 % 10 < 3 {
            variants.push(variant(&name, SOLVE, "text"));
            solvers.push(name);
        } else {
            variants.push(variant(&name, &trick.script, trick.output));
        }
    }
    let simulation = Simulation::new();
    let (printed, ends) = simulation.run(&variants, &["--jobs", "4"]);
    assert_eq!(ends.len(), 40, "one attempt each: {ends:?}\n{printed}");
    for (name, outcome) in &ends {
        if solvers.contains(name) {
            assert_eq!(outcome, "passed", "{name}: {printed}");
        } else {
            let zero = matches!(outcome.as_str(), "failed" | "over_quota" | "agent_error");
            assert!(zero, "{name}: {outcome}: {printed}");
        }
    }
    assert_eq!(solvers.len(), 12);
    assert!(printed.contains("12 passed"), "{printed}");
    yb_testkit::assert_no_process_in(&simulation.context.dir());
}

/// Package managers of honest agents leave read-only and deep directories.
#[test]
fn honest_agents_with_odd_files_pass() {
    let simulation = Simulation::new();
    let odd = [
        (
            "module-cache",
            "mkdir -p $HOME/go/pkg/mod/x && touch $HOME/go/pkg/mod/x/y && chmod -R a-w $HOME/go",
        ),
        ("closed-directory", "mkdir x && touch x/y && chmod 000 x"),
        ("read-only-workspace", "mkdir -p a/b && touch a/b/c && chmod -R a-w a"),
        ("sparse", "truncate -s 50M disk.img"),
        ("nested", &format!("cd $HOME && {NEST}")),
    ];
    let variants: Vec<Value> =
        odd.iter().map(|(name, script)| variant(name, &format!("{SOLVE}; {script}"), "text")).collect();
    for flags in [&[][..], &["--delete-workspace"]] {
        let (printed, ends) = simulation.run(&variants, flags);
        assert_eq!(ends.len(), odd.len(), "{ends:?}\n{printed}");
        assert!(ends.iter().all(|(_, outcome)| outcome == "passed"), "{ends:?}\n{printed}");
        // Nothing of the private directories is left; HOME may hold credentials.
        let left = simulation.newest().join("trials");
        for (name, _) in odd {
            let attempt = left.join(format!("task--{name}--1/attempt-1"));
            let names = std::fs::read_dir(&attempt).unwrap().flatten().map(|entry| entry.file_name());
            let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
            assert!(!names.iter().any(|name| name.starts_with("private")), "{names:?}");
            assert_eq!(names.contains(&"src-modified".to_owned()), flags.is_empty(), "{names:?}");
        }
    }
    let cleaned = simulation.yb(&["clean", "--all", "--yes"]).run();
    assert_eq!(cleaned.code, Some(0), "{}{}", cleaned.stdout, cleaned.stderr);
}

/// Files that the owner can't list, or that no path reaches, count against the disk limit.
#[test]
fn hidden_files_count_against_the_disk_limit() {
    let fill =
        "import time\nfor n in range(60):\n    open('f%d' % n, 'wb').write(b'x' * 1000000)\ntime.sleep(60)";
    let closed =
        |mode: &str| format!("cd $HOME && mkdir x && cd x && chmod {mode} . && exec python3 -c \"{fill}\"");
    let deep = format!(
        "cd $HOME && exec python3 -c \"import os\nfor _ in range(40):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\n{fill}\""
    );
    let variants = [variant("closed", &closed("300"), "text"), variant("deep", &deep, "text")];
    let simulation = Simulation::new();
    let (printed, mut ends) = simulation.run(&variants, &["--limit", "disk_mb=20", "--jobs", "2"]);
    ends.sort();
    let expected = [("closed", "over_quota"), ("deep", "over_quota")];
    assert_eq!(ends, expected.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())), "{printed}");
}

/// A frame alone proves nothing; an answer of the API does, and a later success refutes it.
#[test]
fn api_failures_count_only_if_they_were_observed() {
    let request = yb_testkit::bin("model-request").display().to_string();
    let simulation = Simulation::new();
    let agent = |name: &str, statuses: &[u16], said: u16| {
        let requests: String = statuses.iter().map(|status| format!("{request} {status}; ")).collect();
        let mut variant =
            variant(name, &format!("{requests}echo '{}'; exit 1", api_error(said)), "claude-stream-json");
        variant["env"] = json!({ "ANTHROPIC_BASE_URL": yb_testkit::failing_api() });
        variant["isolation"] = json!("none");
        variant
    };
    let variants = [
        agent("limited", &[200, 429], 429),
        agent("down", &[500], 500),
        agent("forbidden", &[401], 401),
        agent("other-claim", &[529], 401),
        agent("recovered", &[529, 200], 529),
        agent("invalid", &[400], 500),
        agent("silent", &[], 429),
    ];
    let (printed, ends) = simulation.run(&variants, &["--retries", "0"]);
    let mut ends: Vec<(&str, &str)> =
        ends.iter().map(|(name, outcome)| (name.as_str(), outcome.as_str())).collect();
    ends.sort_unstable();
    let expected = [
        ("down", "infra"),
        ("forbidden", "unauthenticated"),
        ("invalid", "failed"),
        ("limited", "rate_limited"),
        ("other-claim", "rate_limited"),
        ("recovered", "failed"),
        ("silent", "failed"),
    ];
    assert_eq!(ends, expected, "{printed}");
    let log = |name: &str| -> Value {
        let path = format!("trials/task--{name}--1/attempt-1/artifacts/youbencha-log.json");
        serde_json::from_slice(&std::fs::read(simulation.newest().join(path)).unwrap()).unwrap()
    };
    assert_eq!(log("silent")["execution"]["api_observation"], "observed");
    let message = log("silent")["errors"][0]["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("the agent reported a failure of its API that was not observed"),
        "{message}"
    );
    // Switched off, the report of a program that the case names counts for nothing.
    let off = simulation.context.write(".youbencharc", "{ \"observe_api\": false }");
    let (printed, ends) = simulation.run(&variants[..1], &["--retries", "0"]);
    assert_eq!(ends, [("limited".to_owned(), "failed".to_owned())], "{}: {printed}", off.display());
    assert_eq!(log("limited")["execution"]["api_observation"], "not observed: `observe_api` is off");
}

/// Under the real CLI, a tool writes a frame into the CLI's stdout and ends it. A failure that the API really answered still counts.
#[test]
fn real_claude_frames_from_a_tool_prove_nothing() {
    let forge = |status: u16| {
        let frame = api_error(status).to_string().replace('"', "\\\"");
        // The CLI is the parent of the shell, or above it.
        format!(
            "p=$PPID; while [ -n \\\"$p\\\" ] && [ $p -gt 1 ]; do case $(readlink /proc/$p/exe) in */claude*) \
             echo '{frame}' > /proc/$p/fd/1; sleep 1; kill -TERM $p; sleep 5;; esac; \
             p=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$p/status); done"
        )
    };
    let mut lanes = String::new();
    for status in [429, 500, 401] {
        lanes.push_str(&format!(
            "  says-{status}:\n    match: Pretend {status}\n    replies:\n      - tools: [{{ Bash: {{ command: \"{}\", description: Forge }} }}]\n      - say: Done.\n",
            forge(status)
        ));
    }
    lanes.push_str("  down:\n    match: Meet a limit\n    replies:\n      - fault: { status: 429 }\n        say: never\n");
    let script = format!("tape: 1\nlanes:\n{lanes}");
    let script = yb_tape::Script::parse(&script, &yb_tape::Vars::new()).unwrap();
    let server = yb_tape::MockServer::start(script, &yb_tape::MockServerOptions::default()).unwrap();
    let simulation = Simulation::new();
    let prompts = ["Pretend 429", "Pretend 500", "Pretend 401", "Meet a limit"];
    let names = ["says-429", "says-500", "says-401", "down"];
    let variants: Vec<Value> = names
        .iter()
        .zip(prompts)
        .map(|(name, prompt)| {
            json!({ "name": name, "type": "claude-code", "model": "claude-opus-5-5", "config": { "prompt": prompt } })
        })
        .collect();
    let case = json!({ "name": "task", "description": "A task.", "repo": "repo", "agent": { "type": "claude-code" },
        "evaluators": [{ "name": "files", "config": { "assertions": { "exists": ["answer.txt"] } } }] });
    let suite = json!({ "youbencha": 1, "name": "leave", "cases": [case], "variants": variants });
    simulation.context.write("suite.yaml", suite.to_string());
    let outcome = simulation
        .context
        .command(YB)
        .args(["run", "-c", "suite.yaml", "--quiet", "--retries", "0", "--jobs", "2"])
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key")
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
        .env("YB_CLAUDE", yb_testkit::RealClaude::new().program())
        .timeout(HANG)
        .run();
    let results = |name: &str, file: &str| -> Value {
        let path = format!("trials/task--{name}--1/attempt-1/artifacts/{file}");
        let bytes = std::fs::read(simulation.newest().join(path));
        let bytes =
            bytes.unwrap_or_else(|error| panic!("{name}: {error}: {}{}", outcome.stdout, outcome.stderr));
        serde_json::from_slice(&bytes).unwrap()
    };
    for name in ["says-429", "says-500", "says-401"] {
        let log = results(name, "youbencha-log.json");
        assert_eq!(results(name, "results.json")["outcome"], "failed", "{name}: {:#}", log["errors"]);
        let message = log["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains("not observed"), "the frame did not arrive: {name}: {message}");
    }
    assert_eq!(results("down", "results.json")["outcome"], "rate_limited");
    yb_testkit::assert_no_process_in(&simulation.context.dir());
}

/// The observing proxy changes nothing in the requests of the real CLI but the host and the encoding of responses.
#[test]
fn real_claude_sends_the_same_requests_through_the_observer() {
    let script = "{ tape: 1, lanes: { main: [ { tools: [ { Bash: { command: 'true', description: x } } ] }, { say: Done. } ] } }";
    let simulation = Simulation::new();
    let case = json!({ "name": "task", "description": "A task.", "repo": "repo",
        "agent": { "type": "claude-code", "model": "claude-opus-5-5", "config": { "prompt": "Look around." } },
        "evaluators": [{ "name": "files", "config": { "assertions": { "exists": ["question.txt"] } } }] });
    let suite = json!({ "youbencha": 1, "name": "leave", "cases": [case] });
    simulation.context.write("suite.yaml", suite.to_string());
    let claude = yb_testkit::RealClaude::new();
    let requests = ["true", "false"].map(|observe| {
        let script = yb_tape::Script::parse(script, &yb_tape::Vars::new()).unwrap();
        let server = yb_tape::MockServer::start(script, &yb_tape::MockServerOptions::default()).unwrap();
        let outcome = simulation
            .context
            .command(YB)
            .args(["run", "-c", "suite.yaml", "--quiet"])
            .env("ANTHROPIC_BASE_URL", server.base_url())
            .env("ANTHROPIC_API_KEY", "not-a-real-key")
            .env("YB_OBSERVE_API", observe)
            .env("YB_CLAUDE", claude.program())
            .timeout(HANG)
            .run();
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        let run = simulation.newest().file_name().unwrap().to_string_lossy().into_owned();
        let seen = server.requests();
        let seen: Vec<Value> = seen
            .iter()
            .filter(|request| request.lane.is_some())
            .map(|request| {
                let changed =
                    ["host", "accept-encoding", "connection", "content-length", "x-claude-code-session-id"];
                let headers = request.headers.iter().filter(|(name, _)| !changed.contains(&name.as_str()));
                let mut headers: Vec<_> = headers.cloned().collect();
                headers.sort();
                let mut body = request.body.clone();
                // Ids of the session, and the directory of the run.
                body["metadata"] = Value::Null;
                let body = body.to_string().replace(&run, "[RUN]");
                json!([request.method, request.path, request.query, headers, body])
            })
            .collect();
        assert_eq!(seen.len(), 2, "{seen:#?}");
        seen
    });
    let [observed, direct] = requests;
    for (observed, direct) in observed.iter().zip(&direct) {
        for part in 0..5 {
            let (left, right) = (observed[part].to_string(), direct[part].to_string());
            // The whole is too long to be read.
            let at = left.bytes().zip(right.bytes()).position(|(a, b)| a != b).unwrap_or(0);
            let near = |text: &str| text.chars().skip(at.saturating_sub(80)).take(200).collect::<String>();
            assert!(left == right, "{}\n{}", near(&left), near(&right));
        }
    }
}
