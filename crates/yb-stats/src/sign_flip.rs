//! The sign-flip test, for [`Estimand::NewCases`](crate::Estimand::NewCases): the cases are a sample, and each gives one difference.
//! Under the null hypothesis each difference is equally likely to have the opposite sign (Fisher's sign-flip test; Hemerik, Goeman and
//! Finos, *JRSS B* 82, 2020).

use super::permutation::{RESAMPLES, SEED, invert_test};
use super::random::Random;

/// The smallest number of non-zero differences for a test: with fewer, no p-value is small.
pub const MIN_NON_ZERO: usize = 5;
/// Up to this number of cases, all choices of signs are enumerated.
const EXACT_CASES: usize = 14;

/// The mean difference of the cases, with its sign-flip test and bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignFlip {
    /// The mean difference.
    pub estimate: f64,
    /// The lower bound, one-sided at `alpha`.
    pub lower: f64,
    /// The upper bound, one-sided at `alpha`.
    pub upper: f64,
    /// The two-sided p-value of no difference.
    pub p_value: f64,
    /// Whether all choices of signs were enumerated.
    pub exact: bool,
}

/// Runs the sign-flip test and inverts it into bounds, which are quantiles of the means of all subsets of the differences (Hartigan,
/// *JASA* 64, 1969). `None` if fewer than [`MIN_NON_ZERO`] differences are not zero.
#[must_use]
pub fn sign_flip(differences: &[f64], alpha: f64) -> Option<SignFlip> {
    if differences.iter().filter(|one| **one != 0.0).count() < MIN_NON_ZERO {
        return None;
    }
    let total: f64 = differences.iter().sum();
    let size = differences.iter().map(|one| one.abs()).sum::<f64>();
    let exact = differences.len() <= EXACT_CASES;
    let subsets = if exact { all_subsets(differences) } else { random_subsets(differences) };
    // Flipping the signs of a subset subtracts twice its sum.
    let extreme =
        subsets.iter().filter(|(sum, _)| (total - 2.0 * sum).abs() >= total.abs() - size * 1e-12).count();
    let mut means: Vec<f64> =
        subsets.iter().filter(|(_, count)| *count > 0).map(|(sum, count)| sum / *count as f64).collect();
    let (lower, upper) = invert_test(&mut means, subsets.len(), alpha);
    Some(SignFlip {
        estimate: total / differences.len() as f64,
        lower,
        upper,
        p_value: extreme as f64 / subsets.len() as f64,
        exact,
    })
}

/// The sum and the size of every subset, the empty one first.
fn all_subsets(differences: &[f64]) -> Vec<(f64, usize)> {
    let mut subsets = Vec::with_capacity(1 << differences.len());
    subsets.push((0.0, 0));
    for difference in differences {
        for index in 0..subsets.len() {
            let (sum, count): (f64, usize) = subsets[index];
            subsets.push((sum + difference, count + 1));
        }
    }
    subsets
}

/// The sum and the size of random subsets, with the empty one first: it is the observed arrangement.
fn random_subsets(differences: &[f64]) -> Vec<(f64, usize)> {
    let mut random = Random::new(SEED);
    let mut subsets = vec![(0.0, 0)];
    for _ in 0..RESAMPLES {
        let (mut sum, mut count) = (0.0, 0);
        for chunk in differences.chunks(64) {
            let bits = random.next_u64();
            for (index, difference) in chunk.iter().enumerate() {
                if bits >> index & 1 == 1 {
                    sum += difference;
                    count += 1;
                }
            }
        }
        subsets.push((sum, count));
    }
    subsets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_flip_needs_five_non_zero_differences() {
        assert_eq!(sign_flip(&[-1.0, -1.0, -1.0, -1.0, 0.0, 0.0], 0.05), None);
        let all = sign_flip(&[-1.0; 5], 0.05).unwrap();
        assert!((all.p_value - 2.0 / 32.0).abs() < 1e-12 && all.exact);
        assert!((all.upper + 1.0).abs() < 1e-12 && (all.lower + 1.0).abs() < 1e-12, "{all:?}");
    }

    #[test]
    fn random_and_enumerated_sign_flips_agree() {
        let some: Vec<f64> = (0..14).map(|at| f64::from((at * 37) % 11) - 4.0).collect();
        let exact = sign_flip(&some, 0.05).unwrap();
        let drawn = random_subsets(&some);
        let total: f64 = some.iter().sum();
        let extreme = drawn.iter().filter(|(sum, _)| (total - 2.0 * sum).abs() >= total.abs() - 1e-9).count();
        assert!((extreme as f64 / drawn.len() as f64 - exact.p_value).abs() < 0.02);
    }
}
