//! The judge of graders that a program can't decide: one panel of equal judges for all of them, each grader an assertion.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Graded;
use super::grader::{Grader, GraderKind, Target};
use crate::Verdict;
use crate::agentic_judge::{AgenticJudge, JudgeAssertion, Panelist};

/// The score from which a vote counts as a pass.
const THRESHOLD: f64 = 0.5;

/// The settings of a judge.
#[derive(Debug, Clone, Default)]
pub(super) struct JudgeSettings {
    pub(super) agent: String,
    pub(super) model: Option<String>,
    pub(super) votes: u32,
    pub(super) max_budget_usd: Option<f64>,
    pub(super) command: Map<String, Value>,
}

/// Returns the judge of the graders that need one.
pub(super) fn of(graders: &[Grader], settings: JudgeSettings, dir: &std::path::Path) -> AgenticJudge {
    let assertions = graders.iter().filter_map(|grader| match &grader.kind {
        GraderKind::Judged { text, .. } => Some(JudgeAssertion {
            name: grader.name.clone(),
            text: text.clone(),
            threshold: THRESHOLD,
            named: true,
        }),
        _ => None,
    });
    AgenticJudge {
        assertions: assertions.collect(),
        panel: vec![Panelist {
            agent: settings.agent,
            agent_name: None,
            model: settings.model,
            command: settings.command,
        }],
        repeat: settings.votes,
        timeout: Duration::from_secs(300),
        max_budget_usd: settings.max_budget_usd,
        prompt: None,
        instructions: None,
        threshold: THRESHOLD,
        env: Vec::new(),
        dir: dir.to_owned(),
    }
}

/// Returns the text of an assertion about a part of the work.
pub(super) fn assertion(criteria: &str, focus: &Target) -> String {
    let focus = match focus {
        Target::LastMessage => "the final message of the agent alone".to_owned(),
        Target::Trace => "the transcript".to_owned(),
        Target::Files => "the names of the files that the agent created".to_owned(),
        Target::File(path) => format!("the file `{path}` alone"),
    };
    format!("{criteria} (Look at {focus}.)")
}

/// Returns the result of one grader from the verdict of the judge.
pub(super) fn graded(name: &str, verdict: Option<&Verdict>) -> Graded {
    let check = verdict.and_then(|verdict| verdict.checks.iter().find(|check| check.name == name));
    match check {
        Some(check) => Graded {
            passed: check.passed,
            explanation: format!("mean score of the judge: {:.2}", check.score),
        },
        None => Graded { passed: false, explanation: "the judge did not score it".to_owned() },
    }
}
