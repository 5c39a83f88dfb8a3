//! The gate `min_lift`, and the check that variants differ only in what their suite declares.

use super::evaluate::{gate_result, status};
use super::{GateResult, GateStatus, MinLift};
use crate::compare::{self, Lift, LiftAnswer};
use crate::run::RunResults;
use yb_stats::Decision;

/// Evaluates whether one variant is better than another by more than so many points.
pub(super) fn min_lift(gate: &MinLift, results: &RunResults) -> GateResult {
    let (lift, decision): (Lift, Decision) =
        compare::lift_decision(results, (&gate.of, &gate.over), gate.points / 100.0, gate.alpha);
    let (status, note) = match lift.answer {
        LiftAnswer::Miswired => status(Decision::Inconclusive, gate.on_inconclusive),
        // What is never used can't be better.
        LiftAnswer::NeverFired if gate.points >= 0.0 => (GateStatus::Failed, ""),
        _ => status(decision, gate.on_inconclusive),
    };
    GateResult {
        value: lift.estimate.map(|share| share * 100.0),
        limit: Some(gate.points),
        ..gate_result(
            "min_lift".to_owned(),
            status,
            format!("{} (minimum {} points){note}", lift.sentence, gate.points),
        )
    }
}

/// Evaluates `vary`: without comparable variants, nothing can be said about their difference.
pub(super) fn vary(results: &RunResults) -> Option<GateResult> {
    if results.vary.is_empty() {
        return None;
    }
    let differences = compare::undeclared_differences(results);
    let (status, reason) = if differences.is_empty() {
        (GateStatus::Passed, format!("variants differ only in {}", results.vary.join(", ")))
    } else {
        (GateStatus::Inconclusive, differences.join("; "))
    };
    Some(gate_result("vary".to_owned(), status, reason))
}
