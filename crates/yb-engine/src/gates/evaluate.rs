//! Evaluates single gates, with the reason of each result.

use std::collections::BTreeMap;
use std::path::Path;

use yb_figures::{money, percent, plural};

use super::{
    EvaluatorLimits, GateLimits, GateResult, GateStatus, IfMissing, NoRegression, OnInconclusive,
    counts_as_passed,
};
use crate::baseline::RecordedRun;
use crate::compare::{self, MAX_LOST};
use crate::run::{RunError, RunResults, TrialResults};
use yb_case::Isolation;
use yb_stats::{Decision, ExcludedTrials, Observation, OutcomeCounts, RegressionCriteria};

const NEAR: f64 = 1e-9;

pub(super) fn gate_result(gate: String, status: GateStatus, reason: String) -> GateResult {
    GateResult { gate, status, reason, value: None, limit: None, cases: Vec::new() }
}

/// Returns the status of a comparison's decision, and the note that explains it.
pub(super) fn status(decision: Decision, on_inconclusive: OnInconclusive) -> (GateStatus, &'static str) {
    match (decision, on_inconclusive) {
        (Decision::Ok, _) => (GateStatus::Passed, ""),
        (Decision::Regressed, _) => (GateStatus::Failed, ""),
        (_, OnInconclusive::Pass) => (GateStatus::Passed, "; counts as passed"),
        (_, OnInconclusive::Fail) => (GateStatus::Failed, "; counts as failed"),
        _ => (GateStatus::Inconclusive, ""),
    }
}

/// Returns the result of a gate whose run to compare with can't be read.
pub(super) fn missing(
    gate: &str,
    error: &RunError,
    on_inconclusive: OnInconclusive,
    if_missing: IfMissing,
) -> GateResult {
    let (status, note) = match counts_as_passed(error, on_inconclusive, if_missing) {
        true => (GateStatus::Passed, "; counts as passed"),
        false => status(Decision::Inconclusive, on_inconclusive),
    };
    gate_result(gate.to_owned(), status, format!("inconclusive: {error}{note}"))
}

/// Evaluates the limits on the trials that `takes` selects. `prefix` is the beginning of their keys.
pub(super) fn limits(
    prefix: &str,
    limits: &GateLimits,
    results: &RunResults,
    takes: impl Fn(&TrialResults) -> bool,
) -> Vec<GateResult> {
    let trials: Vec<&TrialResults> = results.trials.iter().filter(|trial| takes(trial)).collect();
    let observations: Vec<Observation> = trials.iter().map(|trial| trial.observation()).collect();
    let tally = yb_stats::count_outcomes(&observations);
    let max_lost = limits.max_lost.unwrap_or(MAX_LOST);
    let too_many = is_too_many(tally, max_lost);
    let what = if prefix.starts_with("variants.") { "variant" } else { "tag" };
    let mut all = Vec::new();
    if let Some(least) = limits.min_pass_rate {
        let pending = trials.iter().filter(|trial| trial.outcome.is_none()).count() as u64;
        let gate = format!("{prefix}min_pass_rate");
        all.push(min_pass_rate(gate, least, tally, too_many, (pending, what)));
    }
    if let Some(most) = limits.max_cost_usd {
        all.push(max_cost(format!("{prefix}max_cost_usd"), most, &trials));
    }
    // Without its own gate it only affects the reasons of others.
    if limits.max_lost.is_some() {
        let (lost, of) = (tally.excluded, tally.all());
        let status = if too_many || of == 0 { GateStatus::Inconclusive } else { GateStatus::Passed };
        let share = (of > 0).then(|| lost as f64 / of as f64);
        let reason = match share {
            Some(share) => format!(
                "{} (maximum {}), {lost} of {}",
                percent(share),
                percent(max_lost),
                plural(of, "trial")
            ),
            None => format!("no trial has the {what}"),
        };
        all.push(GateResult {
            value: share,
            limit: Some(max_lost),
            ..gate_result(format!("{prefix}max_lost"), status, reason)
        });
    }
    if let Some(level) = limits.isolation {
        all.push(isolation(format!("{prefix}isolation"), level, &trials));
    }
    all
}

/// Evaluates the limits of one evaluator.
pub(super) fn evaluator(
    name: &str,
    limits: EvaluatorLimits,
    max_lost: f64,
    results: &RunResults,
) -> GateResult {
    let observations: Vec<Observation> =
        results.trials.iter().filter_map(|trial| trial.observation_by(name)).collect();
    let tally = yb_stats::count_outcomes(&observations);
    let gate = format!("evaluators.{name}.min_pass_rate");
    let pending = results.trials.iter().filter(|trial| trial.outcome.is_none()).count() as u64;
    let is_too_many = is_too_many(tally, max_lost);
    min_pass_rate(gate, limits.min_pass_rate, tally, is_too_many, (pending, "evaluator"))
}

/// Whether so many trials are excluded that the others do not decide.
fn is_too_many(tally: OutcomeCounts, max_lost: f64) -> bool {
    tally.excluded as f64 > max_lost * tally.all() as f64 + NEAR
}

fn min_pass_rate(
    gate: String,
    least: f64,
    tally: OutcomeCounts,
    too_many: bool,
    (pending, selected_by): (u64, &str),
) -> GateResult {
    // Too many excluded trials count as unknown; the others may still decide the result.
    let lost = if too_many { ExcludedTrials::TreatAsUnknown } else { ExcludedTrials::Omit };
    let (worst, best) = (tally.passes(false, lost).rate(), tally.passes(true, lost).rate());
    let status = match (worst, best) {
        (Some(worst), _) if worst >= least - NEAR => GateStatus::Passed,
        (_, Some(best)) if best < least - NEAR => GateStatus::Failed,
        _ => GateStatus::Inconclusive,
    };
    let known = tally.passed + tally.failed;
    let mut reason = if tally.all() == 0 {
        format!("no trial has the {selected_by}")
    } else if known == 0 {
        format!("no trial passed or failed (minimum {})", percent(least))
    } else {
        let rate = tally.passed as f64 / known as f64;
        format!(
            "{} (minimum {}), {} of {}",
            percent(rate),
            percent(least),
            tally.passed,
            plural(known, "trial")
        )
    };
    if tally.unknown > 0 {
        reason += &format!("; {} could not be graded", plural(tally.unknown, "trial"));
    }
    if too_many {
        let (pending, lost) = (pending.min(tally.excluded), tally.excluded.saturating_sub(pending));
        for (count, what) in [(lost, "excluded by infrastructure failures"), (pending, "pending")] {
            if count > 0 {
                reason += &format!("; {} {what}", plural(count, "trial"));
            }
        }
    }
    let value = (known > 0).then(|| tally.passed as f64 / known as f64);
    GateResult { value, limit: Some(least), ..gate_result(gate, status, reason) }
}

fn max_cost(gate: String, most: f64, trials: &[&TrialResults]) -> GateResult {
    let attempts = || trials.iter().flat_map(|trial| &trial.attempts);
    // `Iterator::sum` of no values is -0.0.
    let spent = attempts().filter_map(|attempt| attempt.spend.total()).fold(0.0, |sum, usd| sum + usd);
    // An attempt without an agent costs nothing.
    let unpriced =
        attempts().filter(|attempt| attempt.isolation.is_some() && attempt.spend.total().is_none());
    let (unpriced, pending) =
        (unpriced.count() as u64, trials.iter().filter(|trial| trial.outcome.is_none()).count());
    let reason = format!("{} (maximum {})", money(spent), money(most));
    let (status, reason) = if spent > most + NEAR {
        (GateStatus::Failed, reason)
    } else if unpriced > 0 {
        (GateStatus::Inconclusive, format!("{reason}; cost of {} unknown", plural(unpriced, "trial")))
    } else if pending > 0 {
        (GateStatus::Inconclusive, format!("{reason}; {} pending", plural(pending, "trial")))
    } else {
        (GateStatus::Passed, reason)
    };
    GateResult { value: Some(spent), limit: Some(most), ..gate_result(gate, status, reason) }
}

/// Follows the name of a level that ran without its filter of system calls, which satisfies no gate.
const NO_FILTER: &str = " without a system call filter";

fn isolation(gate: String, level: Isolation, trials: &[&TrialResults]) -> GateResult {
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    for attempt in trials.iter().filter_map(|trial| trial.result()) {
        if let Some(used_by) = attempt.isolation {
            // A sandbox without the filter stops less than its level promises.
            let filter = if attempt.syscall_filter == Some(false) { NO_FILTER } else { "" };
            *used.entry(format!("{used_by}{filter}")).or_default() += 1;
        }
    }
    let weaker = used.iter().find(|(name, _)| !is_enough(name, level));
    let (status, reason) = match (weaker, used.len()) {
        (Some((name, count)), _) => (
            GateStatus::Failed,
            format!("{} ran with `{name}` (minimum `{}`)", plural(*count, "trial"), level.as_str()),
        ),
        (None, 0) => (GateStatus::Inconclusive, "no agent ran".to_owned()),
        (None, _) => (GateStatus::Passed, format!("all agents ran with `{}` or stronger", level.as_str())),
    };
    gate_result(gate, status, reason)
}

/// Whether the used isolation is the required one or stronger. External isolation can't be compared with others.
fn is_enough(used: &str, level: Isolation) -> bool {
    let rank = |name: &str| match name {
        "bubblewrap" => Some(2),
        "landlock" => Some(1),
        _ => None,
    };
    used == level.as_str() || rank(used).zip(rank(level.as_str())).is_some_and(|(used, level)| used >= level)
}

pub(super) fn no_regression(
    gate: &NoRegression,
    max_lost: f64,
    results: &RunResults,
    root: &Path,
) -> GateResult {
    let options = compare::CompareOptions {
        estimand: gate.estimand,
        question: RegressionCriteria::new(gate.tolerance, gate.alpha),
        max_lost,
        ..compare::CompareOptions::default()
    };
    let name = "no_regression";
    let limit = Some(-gate.tolerance);
    let a = match RecordedRun::before(root, &gate.against, Some(&results.run)) {
        Ok(a) => a,
        Err(error) => {
            return GateResult { limit, ..missing(name, &error, gate.on_inconclusive, gate.if_missing) };
        }
    };
    let b = RecordedRun { baseline: None, results: results.clone() };
    let (decision, reason, value) = match compare::compare(&a, &b, &options) {
        Ok(found) => {
            let value = found.pass_rate.map(|shown| shown.estimate);
            (found.decision, format!("{} (against {})", found.reason, a.label()), value)
        }
        Err(error) => (Decision::Inconclusive, format!("inconclusive: {error}"), None),
    };
    let (status, note) = status(decision, gate.on_inconclusive);
    GateResult { value, limit, ..gate_result(name.to_owned(), status, format!("{reason}{note}")) }
}
