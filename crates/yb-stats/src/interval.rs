//! Intervals of one pass rate.

use super::observation::Passes;
use super::special::{beta_quantile, normal_quantile, t_quantile};

/// Two ends between which something lies.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[expect(clippy::exhaustive_structs, reason = "two ends, and there will be no third")]
pub struct Interval {
    /// The lower end.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

/// Wilson's score interval for a proportion (*JASA* 22, 1927), for tries that need not be a whole number; `quantile` is that of
/// the reference distribution, 1.96 for a two-sided 95 %.
fn wilson_at(rate: f64, tries: f64, quantile: f64) -> Interval {
    let square = quantile * quantile;
    let centre = (rate + square / (2.0 * tries)) / (1.0 + square / tries);
    let half = quantile / (1.0 + square / tries)
        * (rate * (1.0 - rate) / tries + square / (4.0 * tries * tries)).sqrt();
    Interval { lower: (centre - half).max(0.0), upper: (centre + half).min(1.0) }
}

/// Wilson's score interval. It takes every try as independent of the others, so only where there is one for each case.
#[must_use]
pub fn wilson(passes: Passes, confidence: f64) -> Option<Interval> {
    let z = normal_quantile(0.5 + confidence / 2.0);
    passes.rate().map(|rate| wilson_at(rate, passes.of as f64, z))
}

/// The exact one-sided bounds of a proportion, each at `alpha` (Clopper and Pearson, *Biometrika* 26, 1934). Tries need not be
/// a whole number: with an effective number of them it is the interval of Korn and Graubard (*Survey Methodology* 24, 1998).
#[must_use]
pub fn clopper_pearson(rate: f64, tries: f64, alpha: f64) -> Interval {
    let passed = rate * tries;
    let failed = tries - passed;
    let lower = if passed <= 1e-9 { 0.0 } else { beta_quantile(alpha, passed, failed + 1.0) };
    let upper = if failed <= 1e-9 { 1.0 } else { beta_quantile(1.0 - alpha, passed + 1.0, failed) };
    Interval { lower, upper }
}

/// The pass rate of cases like these, each with the same weight, and its interval.
///
/// With one try of each it is Wilson's. With more, tries of one case resemble each other, so cases are what is counted: Wilson's
/// interval with the effective number of tries that the variance between cases leaves (Dean and Pagano, *Survey
/// Methodology* 41, 2015), and Student's quantile for as many cases. A single case has no such variance: there the interval is about this
/// case.
#[must_use]
pub fn rate_of_cases(cases: &[Passes], confidence: f64) -> Option<(f64, Interval)> {
    let rates: Vec<f64> = cases.iter().filter_map(Passes::rate).collect();
    let count = rates.len() as f64;
    let tries: u64 = cases.iter().map(|case| case.of).sum();
    let rate = rates.iter().sum::<f64>() / count;
    if rates.is_empty() {
        return None;
    }
    let tail = 0.5 + confidence / 2.0;
    if rates.len() == 1 || cases.iter().all(|case| case.of <= 1) {
        return Some((rate, wilson_at(rate, tries as f64, normal_quantile(tail))));
    }
    let variance = rates.iter().map(|one| (one - rate) * (one - rate)).sum::<f64>() / (count - 1.0) / count;
    // All passed or all failed says no more than so many cases do; otherwise never more than were tried.
    let mixed = rate * (1.0 - rate);
    let effective = if mixed > 0.0 { (mixed / variance).clamp(count - 1.0, tries as f64) } else { count };
    Some((rate, wilson_at(rate, effective, t_quantile(tail, count - 1.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_stay_where_they_can_be() {
        let all = wilson(Passes { passed: 5, of: 5 }, 0.95).unwrap();
        assert!((all.upper - 1.0).abs() < 1e-12 && (all.lower - 0.5655).abs() < 1e-4, "{all:?}");
        assert_eq!(wilson(Passes::default(), 0.95), None);
        assert_eq!(rate_of_cases(&[Passes::default()], 0.95), None);
        let exact = clopper_pearson(1.0, 59.0, 0.05);
        assert!((exact.lower - 0.05_f64.powf(1.0 / 59.0)).abs() < 1e-9 && exact.upper == 1.0, "{exact:?}");
    }

    #[test]
    fn repeats_of_one_case_do_not_make_more_cases() {
        let one = [Passes { passed: 1, of: 1 }, Passes { passed: 0, of: 1 }].repeat(5);
        let ten = [Passes { passed: 10, of: 10 }, Passes { passed: 0, of: 10 }].repeat(5);
        let ((_, few), (rate, many)) =
            (rate_of_cases(&one, 0.95).unwrap(), rate_of_cases(&ten, 0.95).unwrap());
        assert!((rate - 0.5).abs() < 1e-12);
        assert!(many.upper - many.lower > 0.95 * (few.upper - few.lower), "{few:?} {many:?}");
    }
}
