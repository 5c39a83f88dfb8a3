//! Decisions about single cases, each with one error rate over all cases.
//!
//! Ten cases are ten chances of a false alarm. The test of [`find_dead_cases`] is conditional on the passes of each case in both runs
//! together, so a case that could not show a death takes no part in it (Tarone, *Biometrics* 46, 1990): nine cases that always pass do
//! not weaken the evidence against the tenth.

use std::collections::BTreeMap;

use super::decision::{Decision, RegressionCriteria, decide_case};
use super::observation::PassCount;
use super::permutation::{PassPair, no_pass_in_b};

/// Rounding errors of probabilities: 3/3 → 0/3 has a p-value of exactly 0.05.
const ROUNDING: f64 = 1e-9;

/// The passes of one case in both runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two arms of a comparison, and whether chance has a part")]
pub struct CasePasses {
    /// The passes of both runs.
    pub pair: PassPair,
    /// Whether both runs replayed the same tapes: then the model's answers are the same, and every difference is real.
    pub deterministic: bool,
}

/// The decision about all cases.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CasesDecision {
    /// The decision: `regressed` is wrong with probability `alpha` at most, over all cases.
    pub decision: Decision,
    /// Indexes of the cases that decided it.
    pub cases: Vec<usize>,
    /// The p-value of the hypothesis that no case got worse, if chance had a part.
    pub p_value: Option<f64>,
}

/// Decides whether a case died: it passed before, and no longer passes at all.
///
/// - `ok`: every case that passed before passed at least once.
/// - `regressed`: so many cases have no pass any more that chance is excluded. Under the hypothesis that no case got worse, and given
///   the passes of each case in both runs together, the number of passes now is hypergeometric (Fisher's exact test), so that each case
///   has a known probability to have none now. The number of such cases has a Poisson binomial distribution; its upper tail is the
///   p-value. A case whose probability is above `alpha` takes no part: it could never be shown to have died (Tarone, *Biometrics* 46,
///   1990; conditional on the totals, that selection does not depend on what is tested).
/// - inconclusive: a case that passed before has no pass or no result now, and chance is not excluded.
#[must_use]
pub fn find_dead_cases(cases: &[CasePasses], alpha: f64) -> CasesDecision {
    let passed_before = |case: &CasePasses| case.pair.a.passed > 0;
    let without_pass: Vec<usize> = (0..cases.len())
        .filter(|index| passed_before(&cases[*index]) && cases[*index].pair.b.passed == 0)
        .collect();
    let has_result = |index: &usize| cases[*index].pair.b.of > 0;
    let probability = |case: &CasePasses| no_pass_in_b(&case.pair);
    let takes_part = |case: &CasePasses| {
        let tried = case.pair.a.of > 0 && case.pair.b.of > 0 && case.pair.a.passed + case.pair.b.passed > 0;
        tried && !case.deterministic && probability(case) <= alpha + ROUNDING
    };
    let dead_for_sure: Vec<usize> = without_pass
        .iter()
        .copied()
        .filter(|index| cases[*index].deterministic && has_result(index))
        .collect();
    let dead: Vec<usize> = without_pass.iter().copied().filter(|index| takes_part(&cases[*index])).collect();
    let family: Vec<f64> = cases.iter().filter(|case| takes_part(case)).map(probability).collect();
    let p_value = (!dead.is_empty()).then(|| poisson_binomial_tail(&family, dead.len()));
    let is_significant = p_value.is_some_and(|p| p <= alpha + ROUNDING);
    let mut shown: Vec<usize> =
        dead_for_sure.into_iter().chain(dead.into_iter().filter(|_| is_significant)).collect();
    shown.sort_unstable();
    if without_pass.is_empty() {
        CasesDecision { decision: Decision::Ok, cases: Vec::new(), p_value: None }
    } else if shown.is_empty() {
        CasesDecision { decision: Decision::Inconclusive, cases: without_pass, p_value }
    } else {
        CasesDecision {
            decision: Decision::Regressed,
            cases: shown,
            p_value: p_value.filter(|_| is_significant),
        }
    }
}

/// The probability that at least `count` of independent events happen (Le Cam, *Pacific Journal of Mathematics* 10, 1960; computed
/// exactly by adding one event at a time).
fn poisson_binomial_tail(events: &[f64], count: usize) -> f64 {
    let mut distribution = vec![1.0];
    for event in events {
        let mut next = vec![0.0; distribution.len() + 1];
        for (happened, probability) in distribution.iter().enumerate() {
            next[happened] += probability * (1.0 - event);
            next[happened + 1] += probability * event;
        }
        distribution = next;
    }
    distribution.iter().skip(count).sum::<f64>().min(1.0)
}

/// Decides whether the pass rate of a case dropped by more than `criteria.tolerance`.
///
/// - `ok`: the drop of every case is below the tolerance, each at `alpha`. The claim is about all cases, so it is wrong with probability
///   `alpha` at most without a correction (intersection-union test: Berger, *Technometrics* 24, 1982).
/// - `regressed`: the drop of some case is above the tolerance, at `alpha` divided by the number of cases. A case with too few trials to
///   show that at all is not counted (Tarone, *Biometrics* 46, 1990; the numbers of trials are known beforehand).
/// - inconclusive otherwise, also if a case has no results in one run.
#[must_use]
pub fn find_dropped_cases(cases: &[CasePasses], criteria: &RegressionCriteria) -> CasesDecision {
    let corrected = corrected_criteria(cases, criteria);
    let of_case = |case: &CasePasses| match (case.pair.a.rate(), case.pair.b.rate()) {
        // No pass rate can drop by more.
        _ if criteria.tolerance >= 1.0 => Decision::Ok,
        (Some(a), Some(b)) if case.deterministic => {
            if a - b > criteria.tolerance + ROUNDING {
                Decision::Regressed
            } else {
                Decision::Ok
            }
        }
        _ if decide_case(&case.pair, &corrected) == Decision::Regressed => Decision::Regressed,
        _ if decide_case(&case.pair, criteria) == Decision::Ok => Decision::Ok,
        _ => Decision::Inconclusive,
    };
    let decisions: Vec<Decision> = cases.iter().map(of_case).collect();
    let with = |decision: Decision| -> Vec<usize> {
        (0..cases.len()).filter(|index| decisions[*index] == decision).collect()
    };
    for decision in [Decision::Regressed, Decision::Inconclusive] {
        let cases = with(decision);
        if !cases.is_empty() {
            return CasesDecision { decision, cases, p_value: None };
        }
    }
    CasesDecision { decision: Decision::Ok, cases: Vec::new(), p_value: None }
}

/// Divides `alpha` by the number of cases that could be shown to have dropped at the divided level.
fn corrected_criteria(cases: &[CasePasses], criteria: &RegressionCriteria) -> RegressionCriteria {
    let mut sizes: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for case in cases.iter().filter(|case| !case.deterministic) {
        *sizes.entry((case.pair.a.of, case.pair.b.of)).or_default() += 1;
    }
    let divided = |by: usize| RegressionCriteria { alpha: criteria.alpha / by as f64, ..*criteria };
    let could_drop = |(a, b): (u64, u64), by: usize| {
        let extreme = PassPair { a: PassCount { passed: a, of: a }, b: PassCount { passed: 0, of: b } };
        decide_case(&extreme, &divided(by)) == Decision::Regressed
    };
    let all = cases.len().max(1);
    let fits = |by: &usize| {
        sizes.iter().filter(|(size, _)| could_drop(**size, *by)).map(|(_, count)| count).sum::<usize>() <= *by
    };
    divided((1..=all).find(fits).unwrap_or(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(a: (u64, u64), b: (u64, u64)) -> CasePasses {
        let pair = PassPair { a: PassCount { passed: a.0, of: a.1 }, b: PassCount { passed: b.0, of: b.1 } };
        CasePasses { pair, deterministic: false }
    }

    fn suite(rest: CasePasses, others: &[CasePasses]) -> Vec<CasePasses> {
        [vec![rest; 10 - others.len()], others.to_vec()].concat()
    }

    fn dead(cases: &[CasePasses]) -> (Decision, Vec<usize>) {
        let found = find_dead_cases(cases, 0.05);
        (found.decision, found.cases)
    }

    #[test]
    fn one_dead_case_of_ten_is_found_at_three_repeats() {
        let healthy = case((3, 3), (3, 3));
        assert_eq!(dead(&suite(healthy, &[case((3, 3), (0, 3))])), (Decision::Regressed, vec![9]));
        assert_eq!(
            dead(&suite(healthy, &[case((3, 3), (0, 3)), case((3, 3), (0, 3))])),
            (Decision::Regressed, vec![8, 9])
        );
        assert_eq!(dead(&suite(healthy, &[case((0, 3), (0, 3)), case((0, 3), (3, 3))])).0, Decision::Ok);
        assert_eq!(dead(&suite(healthy, &[case((3, 3), (1, 3))])).0, Decision::Ok);
    }

    #[test]
    fn case_without_a_pass_never_counts_as_alive() {
        let healthy = case((3, 3), (3, 3));
        // One of two repeats, a case without a result, and a flaky suite in which chance has the same effect.
        for others in [
            vec![case((1, 1), (0, 1))],
            vec![case((3, 3), (0, 0))],
            vec![case((3, 3), (0, 3)), case((2, 3), (1, 3))],
        ] {
            let found = find_dead_cases(&suite(healthy, &others), 0.05);
            assert_eq!(found.decision, Decision::Inconclusive, "{others:?}");
            assert_eq!(found.cases.len(), 1, "{found:?}");
        }
    }

    #[test]
    fn replays_of_the_same_tapes_need_no_repeats() {
        let replayed = |a, b| CasePasses { deterministic: true, ..case(a, b) };
        let cases = suite(replayed((1, 1), (1, 1)), &[replayed((1, 1), (0, 1))]);
        assert_eq!(dead(&cases), (Decision::Regressed, vec![9]));
        let criteria = RegressionCriteria::new(0.5, 0.05);
        assert_eq!(find_dropped_cases(&cases, &criteria).cases, [9]);
        assert_eq!(find_dropped_cases(&cases[..9], &criteria).decision, Decision::Ok);
    }

    #[test]
    fn drop_of_one_case_is_ok_regressed_or_inconclusive() {
        let criteria = RegressionCriteria::new(0.5, 0.05);
        let decide = |others: &[CasePasses], rest| find_dropped_cases(&suite(rest, others), &criteria);
        // Five passes exclude a drop of one half, three do not.
        assert_eq!(decide(&[], case((5, 5), (5, 5))).decision, Decision::Ok);
        assert_eq!(decide(&[], case((3, 3), (3, 3))).decision, Decision::Inconclusive);
        let found = decide(&[case((20, 20), (0, 20))], case((20, 20), (20, 20)));
        assert_eq!((found.decision, found.cases), (Decision::Regressed, vec![9]));
        // Five failures before exclude a drop of one half too; a case without a result can't be decided.
        assert_eq!(decide(&[case((0, 5), (0, 5))], case((5, 5), (5, 5))).decision, Decision::Ok);
        assert_eq!(decide(&[case((5, 5), (0, 0))], case((5, 5), (5, 5))).cases, [9]);
    }

    #[test]
    fn cases_with_too_few_trials_are_not_counted() {
        let criteria = RegressionCriteria::new(0.2, 0.05);
        let few = suite(case((1, 1), (1, 1)), &[case((9, 9), (0, 9))]);
        assert!((corrected_criteria(&few, &criteria).alpha - 0.05).abs() < 1e-12);
        let many = vec![case((9, 9), (9, 9)); 10];
        assert!((corrected_criteria(&many, &criteria).alpha - 0.005).abs() < 1e-12);
    }
}
