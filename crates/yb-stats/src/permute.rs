//! *This suite*: which run a trial belongs to is permuted within each case. If the runs do not differ, every such arrangement
//! was as likely as the one that was seen (Fisher 1935; Ernst, *Statistical Science* 19, 2004). It works for a single case.

use super::observation::Passes;
use super::random::Random;
use super::special::ln_choose;

/// Up to so many arrangements are all looked at.
const EXACT: f64 = 20_000.0;
/// Otherwise so many by chance, always the same ones.
pub(super) const DRAWN: usize = 10_000;
pub(super) const SEED: u64 = 0x7962_2d63_6f6d_7061;
/// Steps that the exact distribution of passes may take.
const STEPS: u64 = 50_000_000;
/// Rounding must not make an arrangement more extreme than itself.
const SAME: f64 = 1e-9;

/// One case in both runs: `b` is compared with `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two arms of a comparison")]
pub struct PassPair {
    /// The run that is compared with.
    pub a: Passes,
    /// The run that is looked at.
    pub b: Passes,
}

/// Figures of one case in both runs, such as costs.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the two arms of a comparison")]
pub struct ValuePair {
    /// The run that is compared with.
    pub a: Vec<f64>,
    /// The run that is looked at.
    pub b: Vec<f64>,
}

/// How much larger the figures of one run are, on average over the cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The mean of the cases' differences of means.
    pub estimate: f64,
    /// The lower bound, one-sided at `alpha`; minus infinity if there is none.
    pub lower: f64,
    /// The upper bound likewise.
    pub upper: f64,
    /// Of no difference, two-sided.
    pub p_value: f64,
    /// Whether every arrangement was looked at.
    pub exact: bool,
}

/// The two-sided p-value of no difference in the pass rates, and whether it is exact. Given the passes of a case, those of one run are
/// hypergeometric, so the whole distribution is a convolution: with one try each it is McNemar's exact test, with one
/// case Fisher's.
#[must_use]
pub fn pass_p_value(pairs: &[PassPair]) -> Option<(f64, bool)> {
    let pairs: Vec<PassPair> = pairs.iter().filter(|pair| pair.a.of > 0 && pair.b.of > 0).copied().collect();
    if pairs.is_empty() {
        return None;
    }
    Some(match unit(&pairs) {
        Some(unit) => (exact(&pairs, unit), true),
        None => (drawn(&pairs), false),
    })
}

/// The number of which every rate is a multiple of its inverse, if the distribution is small enough with it.
fn unit(pairs: &[PassPair]) -> Option<u64> {
    let mut unit = 1_u64;
    for tries in pairs.iter().flat_map(|pair| [pair.a.of, pair.b.of]) {
        unit = unit.checked_mul(tries / gcd(unit, tries))?;
        if unit > 1_000_000 {
            return None;
        }
    }
    let width = 2 * unit * pairs.len() as u64;
    let support: u64 = pairs.iter().map(|pair| pair.a.of.min(pair.b.of) + 1).sum();
    (width.saturating_mul(support) <= STEPS).then_some(unit)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn exact(pairs: &[PassPair], unit: u64) -> f64 {
    let score = |pair: &PassPair, b: u64| {
        let passed = pair.a.passed + pair.b.passed;
        (b * (unit / pair.b.of)) as i64 - ((passed - b) * (unit / pair.a.of)) as i64
    };
    let seen: i64 = pairs.iter().map(|pair| score(pair, pair.b.passed)).sum();
    // The sums so far: their probabilities, from `low` on.
    let (mut low, mut known) = (0_i64, vec![1.0_f64]);
    for pair in pairs {
        let passed = pair.a.passed + pair.b.passed;
        let (least, most) = (passed.saturating_sub(pair.a.of), passed.min(pair.b.of));
        let weights = hypergeometric(pair, least, most);
        let (first, last) = (score(pair, least), score(pair, most));
        let mut next = vec![0.0; known.len() + (last - first) as usize];
        for (b, weight) in (least..=most).zip(weights) {
            let offset = (score(pair, b) - first) as usize;
            for (to, probability) in next[offset..].iter_mut().zip(&known) {
                *to += weight * probability;
            }
        }
        (low, known) = (low + first, next);
    }
    let extreme = known.iter().enumerate().filter(|(at, _)| (low + *at as i64).abs() >= seen.abs());
    extreme.map(|(_, probability)| probability).sum::<f64>().min(1.0)
}

/// The chances of each number of passes that `b` may have, from the ratio of each to the one before.
fn hypergeometric(pair: &PassPair, least: u64, most: u64) -> Vec<f64> {
    let passed = pair.a.passed + pair.b.passed;
    let all = pair.a.of + pair.b.of;
    let first =
        ln_choose(passed, least) + ln_choose(all - passed, pair.b.of - least) - ln_choose(all, pair.b.of);
    // A chance too small for a number would make all that follow nothing; they are scaled to their sum anyway.
    let mut weights = vec![first.max(-600.0).exp()];
    for b in least..most {
        let up = (passed - b) as f64 * (pair.b.of - b) as f64;
        let down = (b + 1) as f64 * (pair.a.of + b + 1 - passed) as f64;
        weights.push(weights[weights.len() - 1] * up / down);
    }
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

fn drawn(pairs: &[PassPair]) -> f64 {
    let mean = |difference: f64| difference / pairs.len() as f64;
    let difference = |pair: &PassPair, b: u64| {
        let a = pair.a.passed + pair.b.passed - b;
        b as f64 / pair.b.of as f64 - a as f64 / pair.a.of as f64
    };
    let seen = mean(pairs.iter().map(|pair| difference(pair, pair.b.passed)).sum()).abs();
    let mut random = Random::new(SEED);
    let extreme = (0..DRAWN)
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
            mean(sum.sum()).abs() >= seen - SAME
        })
        .count();
    // The arrangement that was seen is one of them (Phipson and Smyth, 2010).
    (extreme + 1) as f64 / (DRAWN + 1) as f64
}

/// How much larger the figures of `b` are, with bounds by inverting the test: every arrangement says up to which shift it would be
/// more extreme than what was seen, so the bounds are quantiles of those shifts.
#[must_use]
pub fn shift(pairs: &[ValuePair], alpha: f64) -> Option<Shift> {
    let pairs: Vec<&ValuePair> =
        pairs.iter().filter(|pair| !pair.a.is_empty() && !pair.b.is_empty()).collect();
    if pairs.is_empty() {
        return None;
    }
    let count = pairs.len() as f64;
    let estimate = pairs.iter().map(|pair| average(&pair.b) - average(&pair.a)).sum::<f64>() / count;
    let arrangements: f64 =
        pairs.iter().map(|pair| ln_choose((pair.a.len() + pair.b.len()) as u64, pair.b.len() as u64)).sum();
    let exact = arrangements.exp() <= EXACT + 0.5;
    let all = if exact { every(&pairs) } else { by_chance(&pairs) };
    let scale = all.iter().map(|one| one.difference.abs()).fold(estimate.abs(), f64::max) * SAME;
    let extreme = all.iter().filter(|one| one.difference.abs() >= estimate.abs() - scale).count();
    // Those that move nothing are never less extreme than what was seen.
    let mut shifts: Vec<f64> =
        all.iter().filter(|one| one.moved > 0.0).map(|one| (estimate - one.difference) / one.moved).collect();
    let (lower, upper) = ends(&mut shifts, all.len(), alpha);
    Some(Shift { estimate, lower, upper, p_value: extreme as f64 / all.len() as f64, exact })
}

/// The bounds that the shifts leave; arrangements without one are always as extreme as what was seen.
pub(super) fn ends(shifts: &mut [f64], all: usize, alpha: f64) -> (f64, f64) {
    let allowed = (alpha * all as f64 + SAME).floor() as usize;
    let last = shifts.len().saturating_sub(1);
    match allowed.checked_sub(all - shifts.len()) {
        Some(at) if at <= last && !shifts.is_empty() => {
            let lower = *shifts.select_nth_unstable_by(at, f64::total_cmp).1;
            (lower, *shifts.select_nth_unstable_by(last - at, f64::total_cmp).1)
        }
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of all figures of a case.
fn total(pair: &ValuePair) -> f64 {
    pair.a.iter().chain(&pair.b).sum()
}

/// One arrangement: the difference that it makes, and how much of the original difference it takes away, from 0 (all of it
/// is still there) on.
#[derive(Clone, Copy, Default)]
struct Arranged {
    difference: f64,
    moved: f64,
}

/// A case's contribution when these of its figures, first those of `a` and then those of `b`, are taken for `b`'s.
fn arranged(pair: &ValuePair, total: f64, taken: &[usize], count: f64) -> Arranged {
    let (a, b) = (pair.a.len() as f64, pair.b.len() as f64);
    let (mut sum, mut kept) = (0.0, 0.0);
    for &at in taken {
        match pair.a.get(at) {
            Some(value) => sum += value,
            None => {
                sum += pair.b[at - pair.a.len()];
                kept += 1.0;
            }
        }
    }
    Arranged {
        difference: (sum / b - (total - sum) / a) / count,
        moved: (b - kept) * (1.0 / a + 1.0 / b) / count,
    }
}

fn every(pairs: &[&ValuePair]) -> Vec<Arranged> {
    let count = pairs.len() as f64;
    let mut all = vec![Arranged::default()];
    for pair in pairs {
        let (size, taken) = (pair.a.len() + pair.b.len(), pair.b.len());
        let mut own = Vec::new();
        let mut chosen: Vec<usize> = (0..taken).collect();
        loop {
            own.push(arranged(pair, total(pair), &chosen, count));
            // The next choice in order, if there is one.
            let Some(at) = (0..taken).rev().find(|at| chosen[*at] < size - taken + at) else { break };
            chosen[at] += 1;
            for next in at + 1..taken {
                chosen[next] = chosen[next - 1] + 1;
            }
        }
        all = all
            .iter()
            .flat_map(|one| {
                own.iter().map(|two| Arranged {
                    difference: one.difference + two.difference,
                    moved: one.moved + two.moved,
                })
            })
            .collect();
    }
    all
}

fn by_chance(pairs: &[&ValuePair]) -> Vec<Arranged> {
    let count = pairs.len() as f64;
    let mut random = Random::new(SEED);
    let mut orders: Vec<Vec<usize>> =
        pairs.iter().map(|pair| (0..pair.a.len() + pair.b.len()).collect()).collect();
    let estimate = pairs.iter().map(|pair| average(&pair.b) - average(&pair.a)).sum::<f64>() / count;
    let totals: Vec<f64> = pairs.iter().map(|pair| total(pair)).collect();
    let mut all = vec![Arranged { difference: estimate, moved: 0.0 }];
    for _ in 0..DRAWN {
        let mut whole = Arranged::default();
        for ((pair, order), total) in pairs.iter().zip(&mut orders).zip(&totals) {
            for at in 0..pair.b.len() {
                let other = at + random.below(order.len() - at);
                order.swap(at, other);
            }
            let one = arranged(pair, *total, &order[..pair.b.len()], count);
            whole.difference += one.difference;
            whole.moved += one.moved;
        }
        all.push(whole);
    }
    all
}

/// p-values such that none of several true hypotheses is rejected more often than one alone would be (Holm, *Scandinavian Journal
/// of Statistics* 6, 1979).
#[must_use]
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, two| values[*one].total_cmp(&values[*two]));
    let mut adjusted = vec![0.0; values.len()];
    let mut least = 0.0_f64;
    for (rank, at) in order.iter().enumerate() {
        least = least.max((values[*at] * (values.len() - rank) as f64).min(1.0));
        adjusted[*at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(a: (u64, u64), b: (u64, u64)) -> PassPair {
        PassPair { a: Passes { passed: a.0, of: a.1 }, b: Passes { passed: b.0, of: b.1 } }
    }

    #[test]
    fn one_case_is_fishers_test_and_one_try_is_mcnemars() {
        let (p, exact) = pass_p_value(&[pair((3, 3), (0, 3))]).unwrap();
        assert!(exact && (p - 0.1).abs() < 1e-12, "{p}");
        // Six cases went one way and none the other: 2 / 2⁶; cases that did not change say nothing.
        let mut cases = vec![pair((1, 1), (0, 1)); 6];
        cases.extend(vec![pair((1, 1), (1, 1)); 9]);
        let (p, _) = pass_p_value(&cases).unwrap();
        assert!((p - 2.0 / 64.0).abs() < 1e-12, "{p}");
        assert_eq!(pass_p_value(&[pair((1, 1), (0, 0))]), None);
    }

    #[test]
    fn drawn_and_exact_agree() {
        let cases = [pair((5, 7), (3, 5)), pair((4, 5), (1, 6)), pair((6, 6), (4, 7))];
        let (p, exact) = pass_p_value(&cases).unwrap();
        assert!(exact);
        assert!((drawn(&cases) - p).abs() < 0.02, "{p}");
    }

    #[test]
    fn a_shift_is_found_with_bounds_on_both_sides() {
        let cases: Vec<ValuePair> = (0..6)
            .map(|case| {
                let base = f64::from(case) * 10.0;
                let around = [0.0, 0.3, -0.2, 0.1].map(|one| base + one);
                ValuePair { a: around.to_vec(), b: around.iter().map(|one| one + 2.0).collect() }
            })
            .collect();
        let found = shift(&cases, 0.05).unwrap();
        assert!((found.estimate - 2.0).abs() < 1e-9 && !found.exact);
        assert!(
            found.lower > 1.5 && found.lower < 2.0 && found.upper > 2.0 && found.upper < 2.5,
            "{found:?}"
        );
        let one = shift(&[ValuePair { a: vec![1.0], b: vec![9.0] }], 0.05).unwrap();
        assert!(one.exact && one.lower == f64::NEG_INFINITY && (one.p_value - 1.0).abs() < 1e-12, "{one:?}");
    }

    #[test]
    fn holm_by_hand() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
