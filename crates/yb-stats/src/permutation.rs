//! Permutation tests, for [`Estimand::Suite`](crate::Estimand::Suite): the assignment of trials to the two runs is permuted within each
//! case. Under the null hypothesis all permutations are equally likely (Fisher 1935; Ernst, *Statistical Science* 19, 2004). A single
//! case is enough for a test.

use super::distributions::ln_choose;
use super::observation::PassCount;
use super::random::Random;

/// Up to this number of permutations, all are enumerated.
const MAX_ENUMERATED: f64 = 20_000.0;
/// Otherwise this number is drawn at random, with a fixed seed.
pub(super) const RESAMPLES: usize = 10_000;
pub(super) const SEED: u64 = 0x7962_2d63_6f6d_7061;
/// The most steps to compute the exact distribution of passes in.
const MAX_EXACT_STEPS: u64 = 50_000_000;
/// Relative tolerance for rounding errors: a permutation must be as extreme as itself.
const ROUNDING: f64 = 1e-9;

/// The pass counts of one case in both runs: `b` is compared with `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two arms of a comparison")]
pub struct PassPair {
    /// The baseline run.
    pub a: PassCount,
    /// The run under test.
    pub b: PassCount,
}

/// The values of one metric, such as cost, of one case in both runs.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the two arms of a comparison")]
pub struct ValuePair {
    /// The baseline run.
    pub a: Vec<f64>,
    /// The run under test.
    pub b: Vec<f64>,
}

/// The location shift of a metric between two runs, averaged over the cases, with its permutation test and bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocationShift {
    /// The mean over the cases of the difference of means.
    pub estimate: f64,
    /// The lower bound, one-sided at `alpha`; negative infinity if there is none.
    pub lower: f64,
    /// The upper bound, one-sided at `alpha`; infinity if there is none.
    pub upper: f64,
    /// The two-sided p-value of no difference.
    pub p_value: f64,
    /// Whether all permutations were enumerated.
    pub exact: bool,
}

/// The two-sided p-value of no difference in the pass rates, and whether it is exact. `None` if no case has trials in both runs.
///
/// Given the passes of a case, the number in one run has a hypergeometric distribution, so the distribution of the mean
/// difference is a convolution over the cases. With one trial per case and run this is McNemar's exact test, with one case Fisher's.
#[must_use]
pub fn pass_p_value(pairs: &[PassPair]) -> Option<(f64, bool)> {
    let pairs: Vec<PassPair> = pairs.iter().filter(|pair| pair.a.of > 0 && pair.b.of > 0).copied().collect();
    if pairs.is_empty() {
        return None;
    }
    Some(match common_denominator(&pairs) {
        Some(denominator) => (exact_p_value(&pairs, denominator), true),
        None => (monte_carlo_p_value(&pairs), false),
    })
}

/// The least common denominator of all rates, if the exact distribution is small enough with it.
fn common_denominator(pairs: &[PassPair]) -> Option<u64> {
    let mut denominator = 1_u64;
    for trials in pairs.iter().flat_map(|pair| [pair.a.of, pair.b.of]) {
        denominator = denominator.checked_mul(trials / gcd(denominator, trials))?;
        if denominator > 1_000_000 {
            return None;
        }
    }
    let width = 2 * denominator * pairs.len() as u64;
    let support: u64 = pairs.iter().map(|pair| pair.a.of.min(pair.b.of) + 1).sum();
    (width.saturating_mul(support) <= MAX_EXACT_STEPS).then_some(denominator)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn exact_p_value(pairs: &[PassPair], denominator: u64) -> f64 {
    let score = |pair: &PassPair, b: u64| {
        let passed = pair.a.passed + pair.b.passed;
        (b * (denominator / pair.b.of)) as i64 - ((passed - b) * (denominator / pair.a.of)) as i64
    };
    let observed: i64 = pairs.iter().map(|pair| score(pair, pair.b.passed)).sum();
    // The distribution of the sum over the cases so far: the probabilities of `low`, `low + 1` and so on.
    let (mut low, mut distribution) = (0_i64, vec![1.0_f64]);
    for pair in pairs {
        let passed = pair.a.passed + pair.b.passed;
        let (least, most) = (passed.saturating_sub(pair.a.of), passed.min(pair.b.of));
        let weights = hypergeometric(pair, least, most);
        let (first, last) = (score(pair, least), score(pair, most));
        let mut next = vec![0.0; distribution.len() + (last - first) as usize];
        for (b, weight) in (least..=most).zip(weights) {
            let offset = (score(pair, b) - first) as usize;
            for (sum, probability) in next[offset..].iter_mut().zip(&distribution) {
                *sum += weight * probability;
            }
        }
        (low, distribution) = (low + first, next);
    }
    let extreme =
        distribution.iter().enumerate().filter(|(offset, _)| (low + *offset as i64).abs() >= observed.abs());
    extreme.map(|(_, probability)| probability).sum::<f64>().min(1.0)
}

/// The probability of each number of passes in `b`, computed from the ratio of each to the one before.
fn hypergeometric(pair: &PassPair, least: u64, most: u64) -> Vec<f64> {
    let passed = pair.a.passed + pair.b.passed;
    let all = pair.a.of + pair.b.of;
    let first =
        ln_choose(passed, least) + ln_choose(all - passed, pair.b.of - least) - ln_choose(all, pair.b.of);
    // An underflow to zero would make all later ones zero too. The clamp is harmless: the sum is normalized below.
    let mut weights = vec![first.max(-600.0).exp()];
    for b in least..most {
        let up = (passed - b) as f64 * (pair.b.of - b) as f64;
        let down = (b + 1) as f64 * (pair.a.of + b + 1 - passed) as f64;
        weights.push(weights[weights.len() - 1] * up / down);
    }
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// The probability that no trial of `b` passed, given the passes of both runs together.
pub(super) fn no_pass_in_b(pair: &PassPair) -> f64 {
    let passed = pair.a.passed + pair.b.passed;
    if passed > pair.a.of {
        return 0.0;
    }
    (ln_choose(pair.a.of, passed) - ln_choose(pair.a.of + pair.b.of, passed)).exp().min(1.0)
}

fn monte_carlo_p_value(pairs: &[PassPair]) -> f64 {
    let mean = |difference: f64| difference / pairs.len() as f64;
    let difference = |pair: &PassPair, b: u64| {
        let a = pair.a.passed + pair.b.passed - b;
        b as f64 / pair.b.of as f64 - a as f64 / pair.a.of as f64
    };
    let observed = mean(pairs.iter().map(|pair| difference(pair, pair.b.passed)).sum()).abs();
    let mut random = Random::new(SEED);
    let extreme = (0..RESAMPLES)
        .filter(|_| {
            let sum = pairs.iter().map(|pair| {
                let mut passed = pair.a.passed + pair.b.passed;
                let mut left = pair.a.of + pair.b.of;
                let before = passed;
                for _ in 0..pair.b.of {
                    passed -= u64::from((random.below(left as usize) as u64) < passed);
                    left -= 1;
                }
                difference(pair, before - passed)
            });
            mean(sum.sum()).abs() >= observed - ROUNDING
        })
        .count();
    // The observed permutation counts as one of them (Phipson and Smyth, 2010).
    (extreme + 1) as f64 / (RESAMPLES + 1) as f64
}

/// Estimates how much larger the values of `b` are, with bounds by test inversion: each permutation has a shift beyond which it
/// would be more extreme than the observed one, and the bounds are quantiles of these shifts. `None` if no case has values in
/// both runs.
#[must_use]
pub fn location_shift(pairs: &[ValuePair], alpha: f64) -> Option<LocationShift> {
    let pairs: Vec<&ValuePair> =
        pairs.iter().filter(|pair| !pair.a.is_empty() && !pair.b.is_empty()).collect();
    if pairs.is_empty() {
        return None;
    }
    let estimate = mean_difference(&pairs);
    let ln_permutations: f64 =
        pairs.iter().map(|pair| ln_choose((pair.a.len() + pair.b.len()) as u64, pair.b.len() as u64)).sum();
    let exact = ln_permutations.exp() <= MAX_ENUMERATED + 0.5;
    let all = if exact { all_permutations(&pairs) } else { random_permutations(&pairs) };
    let tolerance = all.iter().map(|one| one.difference.abs()).fold(estimate.abs(), f64::max) * ROUNDING;
    let extreme = all.iter().filter(|one| one.difference.abs() >= estimate.abs() - tolerance).count();
    // A permutation that removes none of the shift is always as extreme as the observed one.
    let mut shifts: Vec<f64> = all
        .iter()
        .filter(|one| one.removed_shift > 0.0)
        .map(|one| (estimate - one.difference) / one.removed_shift)
        .collect();
    let (lower, upper) = invert_test(&mut shifts, all.len(), alpha);
    Some(LocationShift { estimate, lower, upper, p_value: extreme as f64 / all.len() as f64, exact })
}

/// The bounds of a shift at which the one-sided tests no longer reject. The `permutations - shifts.len()` permutations without a
/// shift are always as extreme as the observed one.
pub(super) fn invert_test(shifts: &mut [f64], permutations: usize, alpha: f64) -> (f64, f64) {
    let allowed = (alpha * permutations as f64 + ROUNDING).floor() as usize;
    let last = shifts.len().saturating_sub(1);
    match allowed.checked_sub(permutations - shifts.len()) {
        Some(rank) if rank <= last && !shifts.is_empty() => {
            let lower = *shifts.select_nth_unstable_by(rank, f64::total_cmp).1;
            (lower, *shifts.select_nth_unstable_by(last - rank, f64::total_cmp).1)
        }
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn mean_difference(pairs: &[&ValuePair]) -> f64 {
    pairs.iter().map(|pair| mean(&pair.b) - mean(&pair.a)).sum::<f64>() / pairs.len() as f64
}

/// The sum of all values of a case.
fn total(pair: &ValuePair) -> f64 {
    pair.a.iter().chain(&pair.b).sum()
}

/// One permutation: its mean difference, and the fraction of a shift between the runs that it removes (0 for the observed one).
#[derive(Clone, Copy, Default)]
struct Permutation {
    difference: f64,
    removed_shift: f64,
}

/// The contribution of one of `count` cases if the values at these indexes, first those of `a` and then those of `b`, belong to `b`.
fn permute_case(pair: &ValuePair, total: f64, assigned_to_b: &[usize], count: f64) -> Permutation {
    let (a, b) = (pair.a.len() as f64, pair.b.len() as f64);
    let (mut sum, mut unmoved) = (0.0, 0.0);
    for &index in assigned_to_b {
        match pair.a.get(index) {
            Some(value) => sum += value,
            None => {
                sum += pair.b[index - pair.a.len()];
                unmoved += 1.0;
            }
        }
    }
    Permutation {
        difference: (sum / b - (total - sum) / a) / count,
        removed_shift: (b - unmoved) * (1.0 / a + 1.0 / b) / count,
    }
}

fn all_permutations(pairs: &[&ValuePair]) -> Vec<Permutation> {
    let count = pairs.len() as f64;
    let mut all = vec![Permutation::default()];
    for pair in pairs {
        let (size, size_b) = (pair.a.len() + pair.b.len(), pair.b.len());
        let mut of_case = Vec::new();
        let mut chosen: Vec<usize> = (0..size_b).collect();
        loop {
            of_case.push(permute_case(pair, total(pair), &chosen, count));
            // The next combination in lexicographic order.
            let Some(last) = (0..size_b).rev().find(|index| chosen[*index] < size - size_b + index) else {
                break;
            };
            chosen[last] += 1;
            for index in last + 1..size_b {
                chosen[index] = chosen[index - 1] + 1;
            }
        }
        all = all
            .iter()
            .flat_map(|one| {
                of_case.iter().map(|two| Permutation {
                    difference: one.difference + two.difference,
                    removed_shift: one.removed_shift + two.removed_shift,
                })
            })
            .collect();
    }
    all
}

/// Random permutations, with the observed one first.
fn random_permutations(pairs: &[&ValuePair]) -> Vec<Permutation> {
    let count = pairs.len() as f64;
    let mut random = Random::new(SEED);
    let mut orders: Vec<Vec<usize>> =
        pairs.iter().map(|pair| (0..pair.a.len() + pair.b.len()).collect()).collect();
    let totals: Vec<f64> = pairs.iter().map(|pair| total(pair)).collect();
    let mut all = vec![Permutation { difference: mean_difference(pairs), removed_shift: 0.0 }];
    for _ in 0..RESAMPLES {
        let mut permutation = Permutation::default();
        for ((pair, order), total) in pairs.iter().zip(&mut orders).zip(&totals) {
            // A partial Fisher-Yates shuffle.
            for index in 0..pair.b.len() {
                let other = index + random.below(order.len() - index);
                order.swap(index, other);
            }
            let of_case = permute_case(pair, *total, &order[..pair.b.len()], count);
            permutation.difference += of_case.difference;
            permutation.removed_shift += of_case.removed_shift;
        }
        all.push(permutation);
    }
    all
}

/// p-values adjusted for multiple comparisons by the Holm-Bonferroni method, which controls the family-wise error rate (Holm,
/// *Scandinavian Journal of Statistics* 6, 1979).
#[must_use]
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, two| values[*one].total_cmp(&values[*two]));
    let mut adjusted = vec![0.0; values.len()];
    let mut running_max = 0.0_f64;
    for (rank, index) in order.iter().enumerate() {
        running_max = running_max.max((values[*index] * (values.len() - rank) as f64).min(1.0));
        adjusted[*index] = running_max;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(a: (u64, u64), b: (u64, u64)) -> PassPair {
        PassPair { a: PassCount { passed: a.0, of: a.1 }, b: PassCount { passed: b.0, of: b.1 } }
    }

    #[test]
    fn pass_p_value_is_fishers_test_for_one_case_and_mcnemars_for_one_trial() {
        let (p, exact) = pass_p_value(&[pair((3, 3), (0, 3))]).unwrap();
        assert!(exact && (p - 0.1).abs() < 1e-12, "{p}");
        // Six cases changed in one direction and none in the other: 2 / 2⁶; unchanged cases have no effect.
        let mut cases = vec![pair((1, 1), (0, 1)); 6];
        cases.extend(vec![pair((1, 1), (1, 1)); 9]);
        let (p, _) = pass_p_value(&cases).unwrap();
        assert!((p - 2.0 / 64.0).abs() < 1e-12, "{p}");
        assert_eq!(pass_p_value(&[pair((1, 1), (0, 0))]), None);
    }

    #[test]
    fn monte_carlo_and_exact_p_values_agree() {
        let cases = [pair((5, 7), (3, 5)), pair((4, 5), (1, 6)), pair((6, 6), (4, 7))];
        let (p, exact) = pass_p_value(&cases).unwrap();
        assert!(exact);
        assert!((monte_carlo_p_value(&cases) - p).abs() < 0.02, "{p}");
    }

    #[test]
    fn location_shift_has_bounds_on_both_sides() {
        let cases: Vec<ValuePair> = (0..6)
            .map(|case| {
                let base = f64::from(case) * 10.0;
                let around = [0.0, 0.3, -0.2, 0.1].map(|one| base + one);
                ValuePair { a: around.to_vec(), b: around.iter().map(|one| one + 2.0).collect() }
            })
            .collect();
        let found = location_shift(&cases, 0.05).unwrap();
        assert!((found.estimate - 2.0).abs() < 1e-9 && !found.exact);
        assert!(
            found.lower > 1.5 && found.lower < 2.0 && found.upper > 2.0 && found.upper < 2.5,
            "{found:?}"
        );
        let one = location_shift(&[ValuePair { a: vec![1.0], b: vec![9.0] }], 0.05).unwrap();
        assert!(one.exact && one.lower == f64::NEG_INFINITY && (one.p_value - 1.0).abs() < 1e-12, "{one:?}");
    }

    #[test]
    fn holm_matches_hand_computed_values() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
