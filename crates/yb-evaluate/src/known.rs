//! The evaluators that a case may name, for those who ask what there is.

use super::Need;
use yb_case::fields_evaluator::{
    AGENTIC_JUDGE, ANSWER, BUDGET, COMMAND, EVALUATORS, EXPECTED_DIFF, FILES, GIT_DIFF, TRAJECTORY,
};

/// An evaluator that a case may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownEvaluator {
    /// Its name.
    pub name: &'static str,
    /// What it grades, in one line.
    pub doc: &'static str,
    /// What it has to be given.
    pub need: Need,
    /// Whether this version runs it.
    pub runs: bool,
}

/// Every evaluator that a case may name.
#[must_use]
pub fn known_evaluators() -> Vec<KnownEvaluator> {
    let known = EVALUATORS.iter().copied();
    known
        .map(|name| {
            let (need, doc) = about(name);
            KnownEvaluator { name, doc, need, runs: true }
        })
        .collect()
}

fn about(name: &str) -> (Need, &'static str) {
    match name {
        GIT_DIFF => {
            (Need::Objects, "how much changed, against limits: files, lines, and how they are spread")
        }
        EXPECTED_DIFF => (Need::Objects, "how alike the result and the expected one are, from 0 to 1"),
        COMMAND => {
            (Need::Tree, "a build, a test run, a linter: how it ends, what it prints, which tests pass")
        }
        FILES => (Need::Objects, "which files there are, what is in them, and which are as they were"),
        TRAJECTORY => (Need::Log, "which tools the agent called, how often, in which order, and what failed"),
        BUDGET => (Need::Log, "tokens, cost, time and turns, against limits"),
        ANSWER => (Need::Log, "what the agent says at its end, in words or as an object"),
        AGENTIC_JUDGE => (Need::Tree, "what another agent says about each assertion"),
        _ => (Need::Log, ""),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_says_what_it_grades() {
        for known in super::known_evaluators() {
            assert!(!known.doc.is_empty(), "{}", known.name);
        }
    }
}
