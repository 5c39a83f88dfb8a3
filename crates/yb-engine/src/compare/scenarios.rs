//! Evaluates a comparison for every way in which the trials with an unknown result may have ended.

use yb_stats::{Answer, Decision, Difference, ExcludedTrials, OutcomeCounts, PassPair, RegressionCriteria};

/// The ways to count trials with an unknown result.
pub(super) struct Scenarios {
    /// Whether so many trials were excluded that they count as unknown.
    pub(super) lost: ExcludedTrials,
    /// The number of unknown trials of either side.
    pub(super) unknown: [u64; 2],
}

impl Scenarios {
    /// Returns the scenarios for the totals of both sides.
    pub(super) fn of(totals: [OutcomeCounts; 2], max_lost: f64) -> Self {
        let too_many = |tally: &OutcomeCounts| tally.excluded as f64 > max_lost * tally.all() as f64 + 1e-9;
        let lost =
            if totals.iter().any(too_many) { ExcludedTrials::TreatAsUnknown } else { ExcludedTrials::Omit };
        let excluded =
            |tally: OutcomeCounts| if lost == ExcludedTrials::TreatAsUnknown { tally.excluded } else { 0 };
        Self { lost, unknown: totals.map(|tally| tally.unknown + excluded(tally)) }
    }

    /// Evaluates a comparison in each scenario. The arguments say for each side whether its unknown trials passed, and how
    /// excluded ones count.
    pub(super) fn evaluate<T>(&self, one: impl Fn((bool, bool), ExcludedTrials) -> T) -> Vec<T> {
        if self.unknown == [0, 0] {
            return vec![one((false, false), ExcludedTrials::Omit)];
        }
        let both = [(false, false), (false, true), (true, false), (true, true)];
        both.into_iter().map(|pass| one(pass, self.lost)).collect()
    }
}

/// Returns the value that all scenarios have in common.
pub(super) fn agreed<T: PartialEq>(values: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    let mut values = values.into_iter();
    let first = values.next()??;
    values.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Compares two sides by strata, whose counts are given: the difference without unknown trials, and the answer on which all
/// scenarios agree.
pub(super) fn answer(
    strata: &[(OutcomeCounts, OutcomeCounts)],
    criteria: &RegressionCriteria,
    max_lost: f64,
) -> (Option<Difference>, Answer) {
    let (shown, answer) = compared(strata, criteria, max_lost, |found| found.answer(criteria));
    (shown, answer.unwrap_or_default())
}

/// Decides whether the second side is worse than tolerated, if all scenarios agree.
pub(super) fn decision(
    strata: &[(OutcomeCounts, OutcomeCounts)],
    criteria: &RegressionCriteria,
    max_lost: f64,
) -> Decision {
    compared(strata, criteria, max_lost, |found| found.decision).1.unwrap_or(Decision::Inconclusive)
}

/// Returns the difference without unknown trials, and the value on which all scenarios agree.
fn compared<T: PartialEq>(
    strata: &[(OutcomeCounts, OutcomeCounts)],
    criteria: &RegressionCriteria,
    max_lost: f64,
    value: impl Fn(&Difference) -> T,
) -> (Option<Difference>, Option<T>) {
    let total = |side: fn(&(OutcomeCounts, OutcomeCounts)) -> OutcomeCounts| {
        strata.iter().map(side).fold(OutcomeCounts::default(), OutcomeCounts::plus)
    };
    let scenarios = Scenarios::of([total(|pair| pair.0), total(|pair| pair.1)], max_lost);
    let compared = |pass: (bool, bool), lost: ExcludedTrials| {
        let passes =
            strata.iter().map(|(a, b)| PassPair { a: a.passes(pass.0, lost), b: b.passes(pass.1, lost) });
        yb_stats::compare_suite(&passes.collect::<Vec<_>>(), criteria)
    };
    let shown = compared((false, false), ExcludedTrials::Omit);
    let values = scenarios.evaluate(compared).into_iter().map(|found| found.as_ref().map(&value));
    (shown, agreed(values))
}
