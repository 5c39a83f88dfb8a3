//! Agents that try to pass without doing the task. With default settings each of them fails; an agent that does the
//! task passes, and one that does nothing fails. `docs/concepts/cheats.md` describes each defense.

mod disk;
mod forge;
mod history;
mod judge;
mod leave;
mod links;
mod node;
mod parents;
mod probe;
mod processes;
mod python;
mod runners;
mod rust;
mod tools;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use yb_testkit::TestContext;
use yb_testkit::git::Repo;

use crate::YB;

/// The timeout of a run with many agents on a shared machine.
const HANG: Duration = Duration::from_secs(170);

/// A case with an honest solution.
struct Task {
    context: Rc<TestContext>,
    /// The case without an agent.
    case: Value,
    honest: &'static str,
}

/// An agent as a shell command.
struct Agent {
    name: &'static str,
    script: String,
    /// Its declared output format.
    output: &'static str,
}

fn agent(name: &'static str, script: impl Into<String>) -> Agent {
    Agent { name, script: script.into(), output: "text" }
}

/// The results of one run.
struct Scores {
    /// The exit code of `yb run`.
    code: Option<i32>,
    run: PathBuf,
    /// The output.
    printed: String,
    /// The test context.
    _context: Rc<TestContext>,
}

impl Scores {
    fn artifacts(&self, agent: &str) -> PathBuf {
        self.run.join(format!("trials/task--{agent}--1/attempt-1/artifacts"))
    }

    /// Returns the end tree of an agent.
    fn workspace(&self, agent: &str) -> PathBuf {
        self.run.join(format!("trials/task--{agent}--1/attempt-1/src-modified"))
    }

    fn results(&self, agent: &str) -> Value {
        let path = self.artifacts(agent).join("results.json");
        let results = std::fs::read(&path);
        let results = results.unwrap_or_else(|error| panic!("{agent}: {error}: {}", self.printed));
        serde_json::from_slice(&results).unwrap()
    }

    fn outcome(&self, agent: &str) -> String {
        self.results(agent)["outcome"].as_str().unwrap().to_owned()
    }

    /// Returns a line per evaluator.
    fn said(&self, agent: &str) -> String {
        let results = self.results(agent);
        let evaluators = results["evaluators"].as_array().unwrap().iter();
        let lines = evaluators.map(|one| format!("{}: {}", one["evaluator"], one["message"]));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Asserts that an agent failed for this reason.
    #[track_caller]
    fn assert_zero(&self, agent: &str, reason: &str) {
        let (outcome, said) = (self.outcome(agent), self.said(agent));
        assert!(matches!(outcome.as_str(), "failed" | "cheating"), "{agent}: {outcome}: {said}");
        assert!(said.contains(reason), "{agent}: {said}");
        assert_ne!(self.code, Some(0));
    }
}

impl Task {
    /// Creates a task in a directory `repo` that the caller fills; `case` is the rest of the case.
    fn new(honest: &'static str, fill: impl FnOnce(&Repo), case: &Value) -> Self {
        let context = Rc::new(TestContext::new());
        fill(&Repo::init(context.dir().join("repo")));
        let mut whole = json!({ "name": "task", "description": "A task.", "repo": "repo",
            "agent": { "type": "command", "config": { "prompt": "Do the task." } } });
        for (key, value) in case.as_object().unwrap() {
            whole[key] = value.clone();
        }
        Self { context, case: whole, honest }
    }

    /// Runs these agents, an honest one and an idle one, and asserts that the last two pass and fail.
    #[track_caller]
    fn run(&self, agents: &[Agent]) -> Scores {
        let usual = [agent("honest", self.honest), agent("nothing", "true")];
        let variants = usual.iter().chain(agents).map(|agent| {
            json!({ "name": agent.name, "type": "command",
                "config": { "command": { "argv": ["sh", "-c", agent.script], "output": agent.output } } })
        });
        let variants: Vec<Value> = variants.collect();
        let suite = json!({ "youbencha": 1, "name": "cheats", "cases": [self.case], "variants": variants });
        self.context.write("suite.yaml", suite.to_string());
        let outcome =
            self.context.command(YB).args(["run", "-c", "suite.yaml", "--quiet"]).timeout(HANG).run();
        let runs = yb_engine::run::all_runs(&self.context.dir().join(".youbencha-workspace")).unwrap();
        let run = runs.last().unwrap_or_else(|| panic!("no run: {}", outcome.stderr)).path().to_owned();
        let printed = format!("{}{}", outcome.stdout, outcome.stderr);
        let scores = Scores { code: outcome.code, run, printed, _context: Rc::clone(&self.context) };
        assert_eq!(scores.outcome("honest"), "passed", "{}", scores.said("honest"));
        assert_eq!(scores.outcome("nothing"), "failed", "{}", scores.said("nothing"));
        assert_eq!(scores.code, Some(1), "{}", scores.printed);
        yb_testkit::assert_no_process_in(&self.context.dir());
        scores
    }
}
