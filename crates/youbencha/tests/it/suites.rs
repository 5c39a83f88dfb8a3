//! Shared helpers for tests of runs: suites of shell agents, a `yb` that can be signaled, and a journal reader
//! that is independent of the engine.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use yb_testkit::{Invocation, TestContext};

use crate::YB;

/// The timeout of waiting for a condition.
const HANG: Duration = Duration::from_secs(60);

/// An agent that changes one file, which every case allows.
pub(crate) const GOOD: &str = "echo more >> a.txt";
/// An agent that changes too many files.
pub(crate) const BAD: &str = "echo 1 > b; echo 2 > c";
/// Sets `$trial` in a shell agent.
pub(crate) const WHO: &str = "d=${PWD%/attempt-*}; trial=${d##*/}; ";

/// A context with a start directory for cases.
pub(crate) struct World {
    pub(crate) context: TestContext,
}

/// Builds a suite of shell agents; every case allows one changed file.
pub(crate) fn suite(cases: &[&str], variants: &[(&str, &str)], rest: &str) -> String {
    let cases: Vec<Value> = cases.iter().map(|name| case(name)).collect();
    let variants: Vec<Value> =
        variants.iter().map(|(name, command)| variant(name, command, "text")).collect();
    format!("youbencha: 1\nname: nightly\ncases: {}\nvariants: {}\n{rest}", json!(cases), json!(variants))
}

/// Builds a case. Agents communicate with the test by files outside of their workspace.
pub(crate) fn case(name: &str) -> Value {
    json!({ "name": name, "description": "One file changes.", "directory": "tree", "isolation": "none",
        "agent": { "type": "command", "config": { "prompt": "Change one file." } },
        "evaluators": [{ "name": "git-diff", "config": { "assertions": { "max_files_changed": 1 } } }] })
}

/// Builds a variant: a shell command and its output format.
pub(crate) fn variant(name: &str, command: &str, output: &str) -> Value {
    let mut variant = json!({ "name": name, "type": "command",
        "config": { "command": { "argv": ["sh", "-c", command], "output": output } } });
    if output == "claude-stream-json" {
        variant["env"] = json!({ "ANTHROPIC_BASE_URL": yb_testkit::failing_api() });
    }
    variant
}

/// An agent whose API fails, with its last frame. It needs the environment of [`variant`].
pub(crate) fn refused(status: u16) -> String {
    let result = json!({ "type": "result", "subtype": "success", "is_error": true, "result": format!("API Error: {status}"),
        "api_error_status": status, "terminal_reason": "api_error" });
    let request = yb_testkit::bin("model-request");
    format!("{} {status}; echo '{result}'; exit 1", request.display())
}

impl World {
    pub(crate) fn new() -> Self {
        let mut context = TestContext::new();
        context.filter(r"run-\d{4}-\d\d-\d\d-\[HEX\]", "[RUN]").filter(r"\d+\.\d s", "[TIME]");
        context.write("tree/a.txt", "start\n");
        Self { context }
    }

    /// Creates a context with this `suite.yaml`.
    pub(crate) fn with(suite: &str) -> Self {
        let world = Self::new();
        world.context.write("suite.yaml", suite);
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.context.dir().join(name)
    }

    /// Prepares `yb run` with these arguments.
    pub(crate) fn run(&self, args: &[&str]) -> Invocation {
        self.context.command(YB).arg("run").args(args)
    }

    /// Prepares `yb run -c suite.yaml` with these arguments.
    pub(crate) fn suite(&self, args: &[&str]) -> Invocation {
        self.run(&["-c", "suite.yaml"]).args(args)
    }

    /// Starts `yb run` with these arguments in the background.
    pub(crate) fn start(&self, args: &[&str]) -> Yb {
        self.start_with(args, &[])
    }

    /// The same with additional environment variables.
    pub(crate) fn start_with(&self, args: &[&str], env: &[(&str, &str)]) -> Yb {
        self.start_command(&[&["run"], args].concat(), env)
    }

    /// Starts any command of `yb` in the background.
    pub(crate) fn start_command(&self, args: &[&str], env: &[(&str, &str)]) -> Yb {
        let (stdout, stderr) = (self.context.root().join("stdout"), self.context.root().join("stderr"));
        let mut command = Command::new(YB);
        command.args(args).current_dir(self.context.dir()).env_clear();
        for name in ["PATH", "LLVM_PROFILE_FILE"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.env("HOME", self.context.home()).env("TMPDIR", self.context.root().join("tmp"));
        command.envs(env.iter().copied()).stdin(Stdio::null());
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Yb { child: command.spawn().unwrap(), stderr }
    }

    /// Returns the directories of all runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let runs = yb_engine::run::all_runs(&self.path(".youbencha-workspace")).unwrap();
        runs.into_iter().map(|run| run.path().to_owned()).collect()
    }

    /// Returns the only run.
    pub(crate) fn only_run(&self) -> PathBuf {
        let mut runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    /// Waits for a number of events in the journal of the only run.
    pub(crate) fn wait_for(&self, event: &str, count: usize) {
        wait_until(&format!("{count} × {event}"), || {
            let runs = self.runs();
            let Some(run) = runs.first().filter(|run| run.join("journal.jsonl").exists()) else {
                return false;
            };
            Journal::of(run).count(event) >= count
        });
    }

    /// Waits for a number of lines in a file.
    pub(crate) fn wait_for_lines(&self, name: &str, count: usize) {
        wait_until(&format!("{count} lines in {name}"), || self.lines(name).len() >= count);
    }

    /// Returns the lines of a file.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn assert_nothing_runs(&self) {
        yb_testkit::assert_no_process_in(self.context.root());
    }
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + HANG;
    while !done() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A `yb` in the background that is killed with its test.
pub(crate) struct Yb {
    child: Child,
    stderr: PathBuf,
}

/// The exit status and output.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

impl Yb {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap()
    }

    #[track_caller]
    pub(crate) fn wait(mut self) -> End {
        wait_until("the end of yb", || self.is_over());
        End { code: self.child.wait().unwrap().code(), stderr: self.stderr() }
    }
}

impl Drop for Yb {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A journal, read as lines of JSON.
pub(crate) struct Journal {
    pub(crate) entries: Vec<Value>,
}

impl Journal {
    /// Reads the journal of a run; the last line may be incomplete.
    #[track_caller]
    pub(crate) fn of(run: &Path) -> Self {
        let text = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Self { entries: whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect() }
    }

    pub(crate) fn events<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a Value> {
        self.entries.iter().filter(move |entry| entry["event"] == event)
    }

    pub(crate) fn count(&self, event: &str) -> usize {
        self.events(event).count()
    }

    /// Returns the trials in start order, once per attempt.
    pub(crate) fn started(&self) -> Vec<&str> {
        self.events("attempt_started").map(|entry| entry["trial"].as_str().unwrap()).collect()
    }

    /// Returns the outcomes of the attempts of a trial.
    pub(crate) fn outcomes(&self, trial: &str) -> Vec<&str> {
        let of_trial = self.events("attempt_finished").filter(|entry| entry["trial"] == trial);
        of_trial.map(|entry| entry["outcome"].as_str().unwrap()).collect()
    }

    /// Checks invariants of a journal, also after kills: each attempt starts once and ends once, and nothing
    /// follows a result. Returns the results by trial.
    #[track_caller]
    pub(crate) fn results(&self) -> BTreeMap<String, String> {
        let mut results = BTreeMap::new();
        let mut in_flight: BTreeMap<String, u64> = BTreeMap::new();
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for (number, entry) in self.entries.iter().enumerate() {
            assert_eq!(entry["seq"], number as u64 + 1);
            for trial in entry["again"].as_array().into_iter().flatten() {
                results.remove(trial.as_str().unwrap());
            }
            let (Some(trial), Some(attempt)) = (entry["trial"].as_str(), entry["attempt"].as_u64()) else {
                continue;
            };
            match entry["event"].as_str().unwrap() {
                "attempt_started" => {
                    assert!(!results.contains_key(trial), "{trial} is repeated: {entry}");
                    assert!(last.get(trial).is_none_or(|last| *last < attempt), "an old number: {entry}");
                    assert_eq!(in_flight.insert(trial.to_owned(), attempt), None, "twice at once: {entry}");
                    last.insert(trial.to_owned(), attempt);
                }
                "attempt_finished" => {
                    assert_eq!(in_flight.remove(trial), Some(attempt), "it had not begun: {entry}");
                    if entry["then"] == "done" && entry["outcome"] != "cancelled" {
                        let outcome = entry["outcome"].as_str().unwrap().to_owned();
                        assert_eq!(results.insert(trial.to_owned(), outcome), None, "{entry}");
                    }
                }
                _ => assert_eq!(in_flight.get(trial), Some(&attempt), "{entry}"),
            }
        }
        results
    }

    /// Returns the cost of all attempts.
    pub(crate) fn usd(&self) -> f64 {
        let parts = ["agent_usd", "subagents_usd", "judge_usd"];
        let spend = self.events("attempt_finished").map(|entry| &entry["spend"]);
        spend.flat_map(|spend| parts.map(|part| spend[part].as_f64().unwrap_or(0.0))).sum()
    }
}

/// Asserts that a run is complete and matches `results.json`.
#[track_caller]
pub(crate) fn assert_complete(run: &Path, trials: usize) -> Value {
    let journal = Journal::of(run);
    let results = journal.results();
    assert_eq!(results.len(), trials, "{results:?}");
    assert_eq!(journal.entries.last().unwrap()["event"], "run_finished");
    let printed: Value = serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap();
    assert_eq!((&printed["finished"], &printed["planned"]), (&json!(true), &json!(trials)));
    assert_same(&journal, &printed);
    printed
}

/// Asserts that `results.json` matches the journal.
#[track_caller]
pub(crate) fn assert_same(journal: &Journal, printed: &Value) {
    let results = journal.results();
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in results.values() {
        *outcomes.entry(outcome).or_default() += 1;
    }
    assert_eq!(printed["outcomes"], json!(outcomes));
    assert_eq!(printed["done"], results.len());
    assert_eq!(printed["last_at"], journal.entries.last().unwrap()["at"]);
    let mut attempts = 0;
    for trial in printed["trials"].as_array().unwrap() {
        let result = results.get(trial["trial"].as_str().unwrap());
        assert_eq!(trial["outcome"].as_str(), result.map(String::as_str), "{trial}");
        attempts += trial["attempts"].as_array().unwrap().len();
    }
    assert_eq!(attempts, journal.count("attempt_finished"));
    let parts = ["agent_usd", "subagents_usd", "judge_usd"];
    let usd: f64 = parts.map(|part| printed["spend"][part].as_f64().unwrap_or(0.0)).iter().sum();
    assert!((usd - journal.usd()).abs() < 1e-9, "{usd} and {}", journal.usd());
}
