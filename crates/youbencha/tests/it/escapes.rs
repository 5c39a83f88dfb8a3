//! Agents that try to escape their sandbox: blocked attempts by level, which succeed without isolation.

mod files;
mod levels;
mod limits;
mod network;
mod processes;
mod real;
mod secrets;
mod syscalls;

pub(crate) use real::MCP_SERVER;

use std::path::PathBuf;

use serde_json::{Value, json};
use yb_testkit::git::Repo;
use yb_testkit::{Outcome, TestContext};

use crate::YB;

/// All levels, strongest first.
const LEVELS: [&str; 3] = ["bubblewrap", "landlock", "none"];

/// A context with a repository with later commits, a case, a home with a key, and a finished run.
struct World {
    context: TestContext,
}

impl World {
    fn new() -> Self {
        let context = TestContext::new();
        let repo = context.dir().join("repo");
        std::fs::create_dir(&repo).unwrap();
        Repo::init(&repo).write("greet.sh", "echo Hello!\n").commit("start");
        context.write("hidden-test.sh", "the answer\n");
        let ssh = context.home().join(".ssh");
        std::fs::create_dir_all(&ssh).unwrap();
        std::fs::write(ssh.join("id_ed25519"), "PRIVATE KEY\n").unwrap();
        std::fs::write(context.home().join(".git-credentials"), "https://me:word@host\n").unwrap();
        let world = Self { context };
        let before = world.run("echo 1 > earlier", "none");
        assert_eq!(before.code, Some(0), "{}", before.stderr);
        world
    }

    fn case(&self, agent: &Value, isolation: &str, rest: &Value) -> String {
        let mut case = json!({ "youbencha": 1, "name": "escape", "description": "It tries.", "repo": "repo",
            "isolation": isolation, "agent": agent,
            "evaluators": [{ "name": "git-diff", "config": { "assertions": { "max_files_changed": 9 } } }] });
        for (key, value) in rest.as_object().unwrap() {
            case[key] = value.clone();
        }
        case.to_string()
    }

    /// Runs a shell agent with an isolation level.
    fn run(&self, command: &str, isolation: &str) -> Outcome {
        self.run_with(command, isolation, &json!({}))
    }

    fn run_with(&self, command: &str, isolation: &str, rest: &Value) -> Outcome {
        let agent = json!({ "type": "command", "config": { "prompt": "Try.",
            "command": { "argv": ["sh", "-c", command] } } });
        self.context.write("case.yaml", self.case(&agent, isolation, rest));
        self.context.command(YB).args(["run", "-c", "case.yaml"]).run()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.context.dir().join(path)
    }

    fn newest(&self) -> PathBuf {
        let runs = yb_engine::run::all_runs(&self.at(".youbencha-workspace")).unwrap();
        runs.last().unwrap().path().to_owned()
    }

    /// Reads a JSON file of the only trial of the newest run.
    fn artifact(&self, file: &str) -> Value {
        let bytes = std::fs::read(self.newest().join("artifacts").join(file)).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Returns the lines of the file `found` in the workspace of the newest run.
    fn found(&self) -> Vec<String> {
        let path = self.newest().join("trials/escape--default--1/attempt-1/src-modified/found");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Runs the agent with every level and returns its findings, in the order of [`LEVELS`].
    fn each(&self, command: &str) -> [Vec<String>; 3] {
        LEVELS.map(|level| {
            let outcome = self.run(command, level);
            assert_eq!(outcome.code, Some(0), "{level}: {}{}", outcome.stdout, outcome.stderr);
            assert!(outcome.stdout.contains(&format!("isolation: {level}")), "{}", outcome.stdout);
            self.found()
        })
    }
}
