//! Which code grades which check of a case: a line for each evaluator.

use super::Evaluator;
use crate::case::Check;

/// The evaluator of a check; none for what this version can't run.
pub(crate) fn evaluator(check: &Check) -> Option<&dyn Evaluator> {
    match check {
        Check::GitDiff(config) => Some(config),
        Check::Trajectory(config) => Some(config),
        Check::Budget(config) => Some(config),
        Check::ExpectedDiff(_)
        | Check::Command(_)
        | Check::Files(_)
        | Check::AgenticJudge(_)
        | Check::Unknown => None,
    }
}
