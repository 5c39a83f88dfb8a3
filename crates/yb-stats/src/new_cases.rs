//! *New cases*: the cases are a sample, and each gives one difference. If the runs do not differ, each difference might as well
//! have had the other sign (Fisher's sign-flip test; Hemerik, Goeman and Finos, *JRSS B* 82, 2020).

use super::permute::{DRAWN, SEED, ends};
use super::random::Random;

/// With fewer differences that are not zero there is no small p-value to be had.
pub const MIN_NON_ZERO: usize = 5;
/// Up to so many cases, every choice of signs is looked at.
const EXACT_CASES: usize = 14;

/// The mean of differences between cases, as far as it says something about other cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignFlip {
    /// The mean.
    pub estimate: f64,
    /// The lower bound, one-sided at `alpha`.
    pub lower: f64,
    /// The upper bound likewise.
    pub upper: f64,
    /// Of no difference, two-sided.
    pub p_value: f64,
    /// Whether every choice of signs was looked at.
    pub exact: bool,
}

/// The test and, by inverting it, the bounds: these are quantiles of the means of all subsets of the differences (Hartigan, *JASA* 64,
/// 1969). `None` if fewer than [`MIN_NON_ZERO`] differences are not zero.
#[must_use]
pub fn sign_flip(differences: &[f64], alpha: f64) -> Option<SignFlip> {
    if differences.iter().filter(|one| **one != 0.0).count() < MIN_NON_ZERO {
        return None;
    }
    let total: f64 = differences.iter().sum();
    let size = differences.iter().map(|one| one.abs()).sum::<f64>();
    let exact = differences.len() <= EXACT_CASES;
    let subsets = if exact { every(differences) } else { by_chance(differences) };
    // Flipping the signs of a subset takes twice its sum away.
    let extreme =
        subsets.iter().filter(|(sum, _)| (total - 2.0 * sum).abs() >= total.abs() - size * 1e-12).count();
    let mut means: Vec<f64> =
        subsets.iter().filter(|(_, count)| *count > 0).map(|(sum, count)| sum / *count as f64).collect();
    let (lower, upper) = ends(&mut means, subsets.len(), alpha);
    Some(SignFlip {
        estimate: total / differences.len() as f64,
        lower,
        upper,
        p_value: extreme as f64 / subsets.len() as f64,
        exact,
    })
}

/// The sum and the size of every subset, the empty one first.
fn every(differences: &[f64]) -> Vec<(f64, usize)> {
    let mut all = Vec::with_capacity(1 << differences.len());
    all.push((0.0, 0));
    for one in differences {
        for at in 0..all.len() {
            let (sum, count): (f64, usize) = all[at];
            all.push((sum + one, count + 1));
        }
    }
    all
}

fn by_chance(differences: &[f64]) -> Vec<(f64, usize)> {
    let mut random = Random::new(SEED);
    let mut all = vec![(0.0, 0)];
    for _ in 0..DRAWN {
        let (mut sum, mut count) = (0.0, 0);
        for chunk in differences.chunks(64) {
            let bits = random.bits();
            for (at, one) in chunk.iter().enumerate() {
                if bits >> at & 1 == 1 {
                    sum += one;
                    count += 1;
                }
            }
        }
        all.push((sum, count));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_on_one_side_is_the_least_that_tells() {
        assert_eq!(sign_flip(&[-1.0, -1.0, -1.0, -1.0, 0.0, 0.0], 0.05), None);
        let all = sign_flip(&[-1.0; 5], 0.05).unwrap();
        assert!((all.p_value - 2.0 / 32.0).abs() < 1e-12 && all.exact);
        assert!((all.upper + 1.0).abs() < 1e-12 && (all.lower + 1.0).abs() < 1e-12, "{all:?}");
    }

    #[test]
    fn drawn_and_exact_agree() {
        let some: Vec<f64> = (0..14).map(|at| f64::from((at * 37) % 11) - 4.0).collect();
        let exact = sign_flip(&some, 0.05).unwrap();
        let drawn = by_chance(&some);
        let total: f64 = some.iter().sum();
        let extreme = drawn.iter().filter(|(sum, _)| (total - 2.0 * sum).abs() >= total.abs() - 1e-9).count();
        assert!((extreme as f64 / drawn.len() as f64 - exact.p_value).abs() < 0.02);
    }
}
