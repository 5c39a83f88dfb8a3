//! What a trial tells whoever traces it, and what its agent is told of its place in the trace.

use std::sync::{Arc, Mutex};

use yb_agents::trace::{Begin, End, Trace};

use crate::trial::{World, case};

/// Writes down what it is told, each node by the way to it.
#[derive(Clone)]
struct Told {
    path: String,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Told {
    fn new() -> Self {
        Self { path: "trial".to_owned(), lines: Arc::default() }
    }

    fn say(&self, text: &str) {
        self.lines.lock().unwrap().push(format!("{} {text}", self.path));
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl Trace for Told {
    fn begin(&self, what: Begin<'_>) -> Arc<dyn Trace> {
        let name = match what {
            Begin::Agent(begins) => format!("{}({})", begins.agent, begins.prompt.unwrap_or_default()),
            Begin::Evaluator { name } => name.to_owned(),
            other => panic!("{other:?}"),
        };
        let below = Self { path: format!("{}/{name}", self.path), ..self.clone() };
        below.say("begins");
        Arc::new(below)
    }

    fn parent(&self) -> Option<String> {
        Some(format!("parent of {}", self.path))
    }

    fn end(&self, how: End<'_>) {
        self.say(&match how {
            End::Agent { log, outcome } => format!("{:?} {outcome:?}", log.execution.status),
            End::Evaluator(verdict) => format!("{:?} {}", verdict.status, verdict.message),
            other => panic!("{other:?}"),
        });
    }
}

#[tokio::test]
async fn a_trial_tells_what_begins_and_ends_and_its_agent_knows_its_place() {
    let (mut world, told) = (World::new().env("DEPLOY_TOKEN", "very-secret-token"), Told::new());
    world.runner.trace = Some(Arc::new(told.clone()));
    let agent = "printf '%s' \"$TRACEPARENT\" > greet.sh; touch \"$DEPLOY_TOKEN\" two";
    let ran = world.run(&case(agent, "env: [DEPLOY_TOKEN]\n")).await.unwrap();
    let node = "trial/command(Greet by name.)";
    assert_eq!(
        told.lines(),
        [
            format!("{node} begins"),
            format!("{node} Success None"),
            "trial/git-diff begins".to_owned(),
            "trial/git-diff Failed ✗ 3 files changed (+1/-1 lines) | Violations: files_changed (3) exceeds max_files_changed (1)".to_owned(),
        ]
    );
    let left = ran.run.attempt("greeting", 1).join("src-modified/greet.sh");
    assert_eq!(std::fs::read_to_string(left).unwrap(), format!("parent of {node}"));
    assert!(!told.lines().concat().contains("very-secret"), "{:?}", told.lines());
}

#[tokio::test]
async fn a_case_that_names_the_variable_itself_keeps_it() {
    let mut world = World::new();
    world.runner.trace = Some(Arc::new(Told::new()));
    let ran = world
        .run(&case("printf '%s' \"$TRACEPARENT\" > greet.sh", "env: { TRACEPARENT: mine }\n"))
        .await
        .unwrap();
    let left = ran.run.attempt("greeting", 1).join("src-modified/greet.sh");
    assert_eq!(std::fs::read_to_string(left).unwrap(), "mine");
}
