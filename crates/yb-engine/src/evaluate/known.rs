//! The evaluators that a case may name, for those who ask what there is.

use crate::case::fields_evaluator::{AGENTIC_JUDGE, EVALUATORS, EXPECTED_DIFF, GIT_DIFF};

/// Those that this version runs; a case with any other is refused before anything starts.
const RUN: &[&str] = &[GIT_DIFF];

/// An evaluator that a case may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownEvaluator {
    /// Its name.
    pub name: &'static str,
    /// What it grades, in one line.
    pub doc: &'static str,
    /// Whether this version runs it.
    pub runs: bool,
}

/// Every evaluator that a case may name.
#[must_use]
pub fn known_evaluators() -> Vec<KnownEvaluator> {
    let known = EVALUATORS.iter().copied();
    known.map(|name| KnownEvaluator { name, doc: doc(name), runs: RUN.contains(&name) }).collect()
}

fn doc(name: &str) -> &'static str {
    match name {
        GIT_DIFF => "how much changed, against limits: files, lines, and how they are spread",
        EXPECTED_DIFF => "how alike the result and the expected branch are, from 0 to 1",
        AGENTIC_JUDGE => "what another agent says about each assertion",
        _ => "",
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
