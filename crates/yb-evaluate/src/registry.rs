//! Which code grades which check of a case: a line for each evaluator.

use super::Evaluator;
use yb_case::Check;

/// The evaluator of a check; none for what this version can't run.
pub fn evaluator(check: &Check) -> Option<&dyn Evaluator> {
    match check {
        Check::GitDiff(config) => Some(config),
        Check::ExpectedDiff(config) => Some(config),
        Check::Command(config) => Some(config.as_ref()),
        Check::Files(config) => Some(config),
        Check::Trajectory(config) => Some(config),
        Check::Budget(config) => Some(config),
        Check::Answer(config) => Some(config),
        Check::AgenticJudge(config) => Some(config.as_ref()),
        Check::Unknown => None,
    }
}
