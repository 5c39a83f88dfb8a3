//! The trace of a trial, and the trace context that its agent receives.

use std::sync::{Arc, Mutex};

use yb_agents::trace::{Begin, End, Trace};

use crate::trial::{World, case};

/// Records the start and end of each node with the path to it.
#[derive(Clone)]
struct TraceRecorder {
    path: String,
    lines: Arc<Mutex<Vec<String>>>,
}

impl TraceRecorder {
    fn new() -> Self {
        Self { path: "trial".to_owned(), lines: Arc::default() }
    }

    fn record(&self, text: &str) {
        self.lines.lock().unwrap().push(format!("{} {text}", self.path));
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl Trace for TraceRecorder {
    fn begin(&self, what: Begin<'_>) -> Arc<dyn Trace> {
        let name = match what {
            Begin::Agent(begins) => format!("{}({})", begins.agent, begins.prompt.unwrap_or_default()),
            Begin::Evaluator { name } => name.to_owned(),
            other => panic!("{other:?}"),
        };
        let below = Self { path: format!("{}/{name}", self.path), ..self.clone() };
        below.record("begins");
        Arc::new(below)
    }

    fn parent(&self) -> Option<String> {
        Some(format!("parent of {}", self.path))
    }

    fn end(&self, how: End<'_>) {
        self.record(&match how {
            End::Agent { log, outcome } => format!("{:?} {outcome:?}", log.execution.status),
            End::Evaluator(verdict) => format!("{:?} {}", verdict.status, verdict.message),
            other => panic!("{other:?}"),
        });
    }
}

#[tokio::test]
async fn trial_traces_agent_and_evaluators_and_passes_the_parent() {
    let (mut world, recorder) = (World::new().env("DEPLOY_TOKEN", "very-secret-token"), TraceRecorder::new());
    world.runner.trace = Some(Arc::new(recorder.clone()));
    let agent = "printf '%s' \"$TRACEPARENT\" > greet.sh; touch \"$DEPLOY_TOKEN\" two";
    let ran = world.run(&case(agent, "env: [DEPLOY_TOKEN]\n")).await.unwrap();
    let node = "trial/command(Greet by name.)";
    assert_eq!(
        recorder.lines(),
        [
            format!("{node} begins"),
            format!("{node} Success None"),
            "trial/git-diff begins".to_owned(),
            "trial/git-diff Failed ✗ 3 files changed (+1/-1 lines): `greet.sh`, `two`, `[REDACTED:DEPLOY_TOKEN]` | Violations: files_changed (3) exceeds max_files_changed (1)".to_owned(),
        ]
    );
    let left = ran.run.attempt("greeting", 1).join("src-modified/greet.sh");
    assert_eq!(std::fs::read_to_string(left).unwrap(), format!("parent of {node}"));
    assert!(!recorder.lines().concat().contains("very-secret"), "{:?}", recorder.lines());
}

#[tokio::test]
async fn traceparent_of_the_case_is_kept() {
    let mut world = World::new();
    world.runner.trace = Some(Arc::new(TraceRecorder::new()));
    let ran = world
        .run(&case("printf '%s' \"$TRACEPARENT\" > greet.sh", "env: { TRACEPARENT: mine }\n"))
        .await
        .unwrap();
    let left = ran.run.attempt("greeting", 1).join("src-modified/greet.sh");
    assert_eq!(std::fs::read_to_string(left).unwrap(), "mine");
}
