//! What each gate says, with its reason.

use std::collections::BTreeMap;
use std::path::Path;

use yb_figures::{money, percent, plural};

use super::{Answer, GateAnswer, GateLimits, NoRegression, OnInconclusive};
use crate::baseline::Recorded;
use crate::compare::{self, MAX_LOST};
use crate::run::{RunResults, TrialResults};
use yb_case::Isolation;
use yb_stats::{Decision, ExcludedTrials, Observation, OutcomeCounts, RegressionCriteria};

const NEAR: f64 = 1e-9;

fn said(gate: String, answer: Answer, reason: String) -> GateAnswer {
    GateAnswer { gate, answer, reason, value: None, limit: None }
}

/// The limits of some trials, whose keys begin with `prefix`.
pub(super) fn limits(
    prefix: &str,
    limits: &GateLimits,
    results: &RunResults,
    takes: impl Fn(&TrialResults) -> bool,
) -> Vec<GateAnswer> {
    let trials: Vec<&TrialResults> = results.trials.iter().filter(|trial| takes(trial)).collect();
    let observations: Vec<Observation> = trials.iter().map(|trial| trial.observation()).collect();
    let tally = yb_stats::count_outcomes(&observations);
    let max_lost = limits.max_lost.unwrap_or(MAX_LOST);
    let too_many = tally.excluded as f64 > max_lost * tally.all() as f64 + NEAR;
    let mut all = Vec::new();
    if let Some(least) = limits.min_pass_rate {
        all.push(min_pass_rate(format!("{prefix}min_pass_rate"), least, tally, too_many));
    }
    if let Some(most) = limits.max_cost_usd {
        all.push(max_cost(format!("{prefix}max_cost_usd"), most, &trials));
    }
    // Where it is not asked for it is a reason of others.
    if limits.max_lost.is_some() {
        let (lost, of) = (tally.excluded, tally.all());
        let answer = if too_many || of == 0 { Answer::CannotTell } else { Answer::Held };
        let share = (of > 0).then(|| lost as f64 / of as f64);
        let reason = match share {
            Some(share) => format!(
                "{} (maximum {}), {lost} of {}",
                percent(share),
                percent(max_lost),
                plural(of, "trial")
            ),
            None => "no trial has the tag".to_owned(),
        };
        all.push(GateAnswer {
            value: share,
            limit: Some(max_lost),
            ..said(format!("{prefix}max_lost"), answer, reason)
        });
    }
    if let Some(level) = limits.isolation {
        all.push(isolation(format!("{prefix}isolation"), level, &trials));
    }
    all
}

fn min_pass_rate(gate: String, least: f64, tally: OutcomeCounts, too_many: bool) -> GateAnswer {
    // Too many lost ones are like those of which nobody knows: sometimes the others decide alone.
    let lost = if too_many { ExcludedTrials::TreatAsUnknown } else { ExcludedTrials::Omit };
    let (worst, best) = (tally.passes(false, lost).rate(), tally.passes(true, lost).rate());
    let answer = match (worst, best) {
        (Some(worst), _) if worst >= least - NEAR => Answer::Held,
        (_, Some(best)) if best < least - NEAR => Answer::Failed,
        _ => Answer::CannotTell,
    };
    let known = tally.passed + tally.failed;
    let mut reason = if tally.all() == 0 {
        "no trial has the tag".to_owned()
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
        reason += &format!("; {} excluded by infrastructure failures", plural(tally.excluded, "trial"));
    }
    let value = (known > 0).then(|| tally.passed as f64 / known as f64);
    GateAnswer { value, limit: Some(least), ..said(gate, answer, reason) }
}

fn max_cost(gate: String, most: f64, trials: &[&TrialResults]) -> GateAnswer {
    let attempts = || trials.iter().flat_map(|trial| &trial.attempts);
    // An empty sum is minus zero.
    let spent = attempts().filter_map(|attempt| attempt.spend.total()).fold(0.0, |sum, usd| sum + usd);
    // Without an agent nothing was spent.
    let unpriced =
        attempts().filter(|attempt| attempt.isolation.is_some() && attempt.spend.total().is_none());
    let (unpriced, pending) =
        (unpriced.count() as u64, trials.iter().filter(|trial| trial.outcome.is_none()).count());
    let reason = format!("{} (maximum {})", money(spent), money(most));
    let (answer, reason) = if spent > most + NEAR {
        (Answer::Failed, reason)
    } else if unpriced > 0 {
        (Answer::CannotTell, format!("{reason}; cost of {} unknown", plural(unpriced, "trial")))
    } else if pending > 0 {
        (Answer::CannotTell, format!("{reason}; {} pending", plural(pending, "trial")))
    } else {
        (Answer::Held, reason)
    };
    GateAnswer { value: Some(spent), limit: Some(most), ..said(gate, answer, reason) }
}

fn isolation(gate: String, level: Isolation, trials: &[&TrialResults]) -> GateAnswer {
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    for attempt in trials.iter().filter_map(|trial| trial.result()) {
        if let Some(used_by) = attempt.isolation {
            *used.entry(used_by.to_string()).or_default() += 1;
        }
    }
    let weaker = used.iter().find(|(name, _)| !is_enough(name, level));
    let (answer, reason) = match (weaker, used.len()) {
        (Some((name, count)), _) => (
            Answer::Failed,
            format!("{} ran with `{name}` (minimum `{}`)", plural(*count, "trial"), level.as_str()),
        ),
        (None, 0) => (Answer::CannotTell, "no agent ran".to_owned()),
        (None, _) => (Answer::Held, format!("all agents ran with `{}` or stronger", level.as_str())),
    };
    said(gate, answer, reason)
}

/// Whether what was used is what was asked for, or stronger. What stands outside can't be compared with anything.
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
) -> GateAnswer {
    let options = compare::Options {
        estimand: gate.estimand,
        question: RegressionCriteria::new(gate.tolerance, gate.alpha),
        max_lost,
        ..compare::Options::default()
    };
    let name = "no_regression".to_owned();
    let found = Recorded::before(root, &gate.against, Some(&results.run))
        .map_err(|error| error.to_string())
        .and_then(|a| {
            let b = Recorded { baseline: None, results: results.clone() };
            let found = compare::compare(&a, &b, &options).map_err(|error| error.to_string())?;
            Ok((a.label(), found))
        });
    let (decision, reason, value) = match found {
        Ok((label, found)) => {
            let value = found.pass_rate.map(|shown| shown.estimate);
            (found.decision, format!("{} (against {label})", found.reason), value)
        }
        Err(error) => (Decision::Inconclusive, format!("inconclusive: {error}"), None),
    };
    let (answer, note) = match (decision, gate.on_inconclusive) {
        (Decision::Ok, _) => (Answer::Held, ""),
        (Decision::Regressed, _) => (Answer::Failed, ""),
        (_, OnInconclusive::Pass) => (Answer::Held, "; counts as passed"),
        (_, OnInconclusive::Fail) => (Answer::Failed, "; counts as failed"),
        _ => (Answer::CannotTell, ""),
    };
    GateAnswer { value, limit: Some(-gate.tolerance), ..said(name, answer, format!("{reason}{note}")) }
}
