//! The lift of a variant with add-ons over one without them, and whether there is one at all: a tie, an add-on that was not loaded and
//! one that was never used look the same in a pass rate.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yb_figures::{p_value, plural};

use super::pairs::CaseArm;
use super::scenarios;
use crate::run::{AttemptRecord, RunResults};
use yb_model::outcome::Outcome;
use yb_model::{AddOnKind, AddOnRecord, WiringStatus};
use yb_stats::{
    AdditionalSamples, Answer, Decision, Difference, ExcludedTrials, Interval, OutcomeCounts, PassPair,
    RegressionCriteria,
};

/// How often an add-on was loaded and used by the trials of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Activation {
    /// The variant.
    pub variant: String,
    /// The kind of the add-on.
    pub kind: AddOnKind,
    /// The name of the add-on.
    pub name: String,
    /// Trials that declare it and in which an agent ran.
    pub trials: u64,
    /// Trials in which it was proven to be loaded.
    pub proven: u64,
    /// Trials in which it was not loaded.
    pub missing: u64,
    /// Trials in which it was used.
    pub used: u64,
    /// Trials in which it is unknown whether it was used.
    pub unknown: u64,
}

impl Activation {
    /// Returns the share of trials that used the add-on; `None` if it is unknown for all.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let known = self.trials - self.unknown - self.missing;
        (known > 0).then(|| self.used as f64 / known as f64)
    }

    /// Kind and name: ``skill `polite` ``.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} `{}`", self.kind, self.name)
    }
}

/// Whether a variant has a lift over another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LiftAnswer {
    /// The pass rate is higher.
    Real,
    /// The pass rate is lower.
    Harmful,
    /// A difference larger than the tolerance is excluded in both directions.
    NoDifference,
    /// The data does not suffice.
    CannotTell,
    /// Add-ons were not loaded.
    Miswired,
    /// No trial used any of the add-ons.
    NeverFired,
}

/// The lift of one variant over another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Lift {
    /// The variant with add-ons.
    pub of: String,
    /// The variant that it is compared with.
    pub over: String,
    /// The difference of the pass rates, paired by case.
    pub estimate: Option<f64>,
    /// Bounds of the difference, corrected for the number of lifts.
    pub interval: Option<Interval>,
    /// The two-sided p-value of no difference, corrected for the number of lifts.
    pub p_value: Option<f64>,
    /// The answer.
    pub answer: LiftAnswer,
    /// The answer as a sentence.
    pub sentence: String,
}

/// Counts how often add-ons were loaded and used, by variant in plan order.
pub(super) fn activations(results: &RunResults) -> Vec<Activation> {
    let mut all: Vec<Activation> = Vec::new();
    for trial in &results.trials {
        for add_on in trial.result().map(|attempt| attempt.add_ons.as_slice()).unwrap_or_default() {
            let is_same = |one: &Activation| {
                one.variant == trial.variant && one.kind == add_on.kind && one.name == add_on.name
            };
            let at = all.iter().position(is_same).unwrap_or_else(|| {
                all.push(Activation {
                    variant: trial.variant.clone(),
                    kind: add_on.kind,
                    name: add_on.name.clone(),
                    trials: 0,
                    proven: 0,
                    missing: 0,
                    used: 0,
                    unknown: 0,
                });
                all.len() - 1
            });
            let count = &mut all[at];
            count.trials += 1;
            match add_on.status {
                WiringStatus::Proven => count.proven += 1,
                WiringStatus::Missing => {
                    count.missing += 1;
                    continue;
                }
                WiringStatus::Unproven => {}
            }
            match add_on.uses {
                Some(0) => {}
                Some(_) => count.used += 1,
                None => count.unknown += 1,
            }
        }
    }
    all
}

/// Returns the lifts of all variants with add-ons over the variant whose add-ons they have too, and the fewest of them.
pub(super) fn lifts(
    names: &[&str],
    results: &RunResults,
    arms: &BTreeMap<(String, String), CaseArm>,
    criteria: &RegressionCriteria,
) -> Vec<Lift> {
    let declared: BTreeMap<&str, BTreeSet<AddOnKey<'_>>> =
        names.iter().map(|name| (*name, add_ons_of(name, results))).collect();
    let Some(over) = names.iter().min_by_key(|name| declared[*name].len()) else { return Vec::new() };
    let base = &declared[over];
    let with: Vec<&str> =
        names.iter().filter(|name| *name != over && declared[*name] != *base).copied().collect();
    with.iter().map(|of| lift(of, over, results, arms, criteria, with.len())).collect()
}

/// Returns the lift of one variant over another; `comparisons` is the number of lifts that are reported together.
fn lift(
    of: &str,
    over: &str,
    results: &RunResults,
    arms: &BTreeMap<(String, String), CaseArm>,
    criteria: &RegressionCriteria,
    comparisons: usize,
) -> Lift {
    let corrected = RegressionCriteria::new(criteria.tolerance, criteria.alpha / comparisons.max(1) as f64);
    let strata = strata(of, over, arms);
    let (found, answer) = scenarios::answer(&strata, &corrected, super::MAX_LOST);
    let more = additional_repeats(&strata, &corrected);
    let own: Vec<&AttemptRecord> = results
        .trials
        .iter()
        .filter(|trial| trial.variant == of)
        .filter_map(|trial| trial.result())
        .collect();
    let base = add_ons_of(over, results);
    let is_new = |add_on: &&AddOnRecord| !base.contains(&key(add_on));
    let miswired = own.iter().filter(|attempt| attempt.outcome == Outcome::Miswired).count();
    let too_many = miswired as f64 > super::MAX_LOST * own.len() as f64;
    let ran: Vec<&&AttemptRecord> =
        own.iter().filter(|attempt| attempt.outcome != Outcome::Miswired).collect();
    let new = || ran.iter().flat_map(|attempt| attempt.add_ons.iter().filter(is_new));
    let never_fired = new().next().is_some() && new().all(|add_on| add_on.uses == Some(0));
    let (answer, text) = if too_many {
        (LiftAnswer::Miswired, missing(&own, miswired))
    } else if never_fired {
        let names: BTreeSet<String> = new().map(AddOnRecord::label).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        (LiftAnswer::NeverFired, format!("never fired: {names} used in 0 of {}", plural(ran.len(), "trial")))
    } else {
        described(
            answer,
            found.as_ref(),
            more.map(|repeats| repeats.saturating_mul(2 * strata.len() as u64)),
            &corrected,
            comparisons,
        )
    };
    let corrected_p = found.and_then(|found| found.p_value).map(|p| (p * comparisons.max(1) as f64).min(1.0));
    Lift {
        of: of.to_owned(),
        over: over.to_owned(),
        estimate: found.map(|found| found.estimate),
        interval: found.and_then(|found| found.interval),
        p_value: corrected_p,
        answer,
        sentence: format!("`{of}` over `{over}`: {text}"),
    }
}

/// Returns the lift of one variant over another, and whether it exceeds a share.
pub(crate) fn decision(
    results: &RunResults,
    (of, over): (&str, &str),
    least: f64,
    alpha: f64,
) -> (Lift, Decision) {
    let arms = super::pairs::arms(results);
    let tolerance = RegressionCriteria::default().tolerance;
    let found = lift(of, over, results, &arms, &RegressionCriteria::new(tolerance, alpha), 1);
    let strata = strata(of, over, &arms);
    let decided = scenarios::decision(&strata, &RegressionCriteria::new(-least, alpha), super::MAX_LOST);
    (found, decided)
}

/// Returns the outcomes of both variants, by case.
fn strata(
    of: &str,
    over: &str,
    arms: &BTreeMap<(String, String), CaseArm>,
) -> Vec<(OutcomeCounts, OutcomeCounts)> {
    let base = arms.iter().filter(|((_, variant), _)| variant == over);
    base.filter_map(|((case, _), arm)| Some((arm.tally, arms.get(&(case.clone(), of.to_owned()))?.tally)))
        .collect()
}

type AddOnKey<'a> = (AddOnKind, &'a str, Option<&'a str>);

fn key(add_on: &AddOnRecord) -> AddOnKey<'_> {
    // Agents have different names for the same instructions.
    let name = if add_on.kind == AddOnKind::Instructions { "" } else { add_on.name.as_str() };
    (add_on.kind, name, add_on.digest.as_deref())
}

fn add_ons_of<'a>(variant: &str, results: &'a RunResults) -> BTreeSet<AddOnKey<'a>> {
    let trials = results.trials.iter().filter(|trial| trial.variant == variant);
    trials.filter_map(|trial| trial.result()).flat_map(|attempt| attempt.add_ons.iter().map(key)).collect()
}

/// Names the add-ons that were not loaded.
fn missing(own: &[&AttemptRecord], trials: usize) -> String {
    let missing =
        own.iter().flat_map(|attempt| &attempt.add_ons).filter(|one| one.status == WiringStatus::Missing);
    let names: BTreeSet<String> = missing.map(AddOnRecord::label).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    format!("miswired: {names} did not load in {}", plural(trials, "trial"))
}

/// Returns the number of additional repeats of each case in both variants that are expected to tell the sign of the difference, or that
/// it is within the tolerance.
fn additional_repeats(
    strata: &[(OutcomeCounts, OutcomeCounts)],
    criteria: &RegressionCriteria,
) -> Option<u64> {
    let passes = |side: OutcomeCounts| side.passes(false, ExcludedTrials::Omit);
    let pairs: Vec<PassPair> =
        strata.iter().map(|(a, b)| PassPair { a: passes(*a), b: passes(*b) }).collect();
    let questions = [RegressionCriteria::new(0.0, criteria.alpha), *criteria];
    let needed = questions.iter().filter_map(|question| yb_stats::additional_repeats(&pairs, question));
    needed
        .filter_map(|more| match more {
            AdditionalSamples::Repeats(repeats) => Some(repeats),
            _ => None,
        })
        .min()
}

/// Whole percentage points with a sign, as in `+12`.
fn points(share: f64) -> String {
    let rounded = (share * 100.0).round();
    if rounded == 0.0 { "0".to_owned() } else { format!("{rounded:+}") }
}

fn described(
    answer: Answer,
    found: Option<&Difference>,
    more: Option<u64>,
    criteria: &RegressionCriteria,
    comparisons: usize,
) -> (LiftAnswer, String) {
    let range = found.and_then(|found| found.interval).map(|ends| {
        let end = |share: f64| points(share).trim_start_matches('+').to_owned();
        format!(" [{}, {}]", end(ends.lower), end(ends.upper))
    });
    let estimate =
        found.map(|found| format!("{} points{}", points(found.estimate), range.unwrap_or_default()));
    let p = found.and_then(|found| found.p_value).map(|p| {
        let corrected = (p * comparisons.max(1) as f64).min(1.0);
        match p_value(corrected) {
            small if small.starts_with('<') => format!(" (p {small})"),
            p => format!(" (p = {p})"),
        }
    });
    let (seen, p) = (estimate.unwrap_or_default(), p.unwrap_or_default());
    match answer {
        Answer::Better => (LiftAnswer::Real, format!("{seen}: real{p}")),
        Answer::Worse => (LiftAnswer::Harmful, format!("{seen}: real, and harmful{p}")),
        Answer::NoDifference => {
            let tolerance = (criteria.tolerance * 100.0).round();
            (LiftAnswer::NoDifference, format!("no difference beyond {tolerance} points: {seen}"))
        }
        Answer::CannotTell => {
            let more = more.map_or_else(
                || "more trials with these results would not help".to_owned(),
                |trials| format!("about {} more {}", trials, if trials == 1 { "trial" } else { "trials" }),
            );
            let seen = if seen.is_empty() { String::new() } else { format!("; so far {seen}{p}") };
            (LiftAnswer::CannotTell, format!("cannot tell: {more}{seen}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::compare::VariantSummary;

    /// A trial with an outcome and the uses of the skill `polite`; `None` for a variant without it.
    fn trial(variant: &str, repeat: usize, outcome: &str, uses: Option<u64>) -> Value {
        let status = if outcome == "miswired" { "missing" } else { "proven" };
        let skill =
            uses.map(|uses| json!({ "kind": "skill", "name": "polite", "status": status, "uses": uses }));
        json!({ "id": format!("{variant}{repeat}"), "trial": format!("c--{variant}--{repeat}"), "case": "c",
            "variant": variant, "repeat": repeat, "outcome": outcome, "attempts": [{
                "trial": "t", "attempt": 1, "outcome": outcome, "then": "done", "started_at": "", "duration_ms": 1,
                "isolation": "bubblewrap", "add_ons": skill.into_iter().collect::<Vec<_>>() }] })
    }

    /// A run with so many passes of so many trials, without and with the skill.
    fn run(without: (usize, usize), with: (usize, usize), uses: u64) -> RunResults {
        let arm = |variant: &'static str, (passed, of): (usize, usize), uses: Option<u64>| {
            (0..of).map(move |at| trial(variant, at, if at < passed { "passed" } else { "failed" }, uses))
        };
        of(&arm("without", without, None).chain(arm("with", with, Some(uses))).collect::<Vec<_>>())
    }

    fn of(trials: &[Value]) -> RunResults {
        serde_json::from_value(json!({ "version": "1.1.0", "run": "r", "name": "n", "started_at": null,
            "last_at": null, "finished": true, "planned": trials.len(), "done": trials.len(), "outcomes": {},
            "spend": {}, "unpriced": 0, "trials": trials }))
        .unwrap()
    }

    fn sentence(results: &RunResults) -> (LiftAnswer, String) {
        let summary = VariantSummary::of(results).unwrap();
        let [lift] = &summary.lifts[..] else { panic!("{:?}", summary.lifts) };
        assert_eq!(summary.answers[0], lift.sentence, "it comes first");
        (lift.answer, lift.sentence.strip_prefix("`with` over `without`: ").unwrap().to_owned())
    }

    #[test]
    fn lift_is_told_apart_from_a_tie_and_from_too_little_data() {
        let (answer, text) = sentence(&run((4, 40), (30, 40), 1));
        assert_eq!(answer, LiftAnswer::Real);
        assert!(text.starts_with("+65 points [") && text.contains("]: real (p <"), "{text}");
        let (answer, text) = sentence(&run((30, 40), (4, 40), 1));
        assert_eq!(answer, LiftAnswer::Harmful, "{text}");
        assert!(text.starts_with("-65 points ["), "{text}");
        let (answer, text) = sentence(&run((200, 200), (200, 200), 1));
        assert_eq!(answer, LiftAnswer::NoDifference);
        assert!(text.starts_with("no difference beyond 5 points: 0 points ["), "{text}");
        let (answer, text) = sentence(&run((4, 10), (6, 10), 1));
        assert_eq!(answer, LiftAnswer::CannotTell);
        assert!(text.starts_with("cannot tell: about "), "{text}");
        let more: u64 = text.split_whitespace().nth(3).unwrap().parse().unwrap();
        assert!(more > 20 && more.is_multiple_of(2), "{text}");
    }

    #[test]
    fn unused_and_unloaded_add_ons_are_named() {
        let (answer, text) = sentence(&run((5, 10), (5, 10), 0));
        assert_eq!(
            (answer, text.as_str()),
            (LiftAnswer::NeverFired, "never fired: skill `polite` used in 0 of 10 trials")
        );
        let mut trials: Vec<Value> = (0..10).map(|at| trial("without", at, "passed", None)).collect();
        trials
            .extend((0..10).map(|at| trial("with", at, if at < 3 { "miswired" } else { "passed" }, Some(1))));
        let results = of(&trials);
        let (answer, text) = sentence(&results);
        assert_eq!(
            (answer, text.as_str()),
            (LiftAnswer::Miswired, "miswired: skill `polite` did not load in 3 trials")
        );
        let summary = VariantSummary::of(&results).unwrap();
        let [activation] = &summary.activations[..] else { panic!("{:?}", summary.activations) };
        assert_eq!(
            (activation.trials, activation.proven, activation.missing, activation.used),
            (10, 7, 3, 7)
        );
        assert_eq!(activation.rate(), Some(1.0));
        let table = &summary.tables()[1];
        assert_eq!(table.rows, [["with", "skill", "polite", "7/10", "7/7", "100.0%"]]);
    }

    #[test]
    fn variants_without_add_ons_have_no_lift() {
        let trials = ["one", "two"].map(|variant| trial(variant, 0, "passed", None));
        let summary = VariantSummary::of(&of(&trials)).unwrap();
        assert!(summary.lifts.is_empty() && summary.activations.is_empty());
    }

    #[test]
    fn gate_passes_fails_or_is_inconclusive() {
        use crate::gates::{GateStatus, Gates, MinLift, OnInconclusive};
        let gate = |results: &RunResults, points: f64| {
            let gate = MinLift {
                of: "with".to_owned(),
                over: "without".to_owned(),
                points,
                alpha: 0.05,
                on_inconclusive: OnInconclusive::CannotTell,
            };
            let gates = Gates { min_lift: Some(gate), ..Gates::default() };
            let report = crate::gates::evaluate(&gates, results, std::path::Path::new(".")).unwrap();
            report.gates[0].status
        };
        assert_eq!(gate(&run((4, 40), (30, 40), 1), 0.0), GateStatus::Passed);
        assert_eq!(gate(&run((4, 40), (30, 40), 1), 60.0), GateStatus::Inconclusive);
        assert_eq!(gate(&run((30, 40), (4, 40), 1), 0.0), GateStatus::Failed);
        assert_eq!(gate(&run((4, 10), (6, 10), 1), 0.0), GateStatus::Inconclusive);
        assert_eq!(gate(&run((200, 200), (200, 200), 1), -5.0), GateStatus::Passed, "no harm");
        assert_eq!(gate(&run((5, 10), (5, 10), 0), 0.0), GateStatus::Failed, "never used");
    }
}
