//! Confidence intervals of one pass rate.

use super::distributions::{beta_quantile, normal_quantile, t_quantile};
use super::observation::PassCount;

/// A confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[expect(clippy::exhaustive_structs, reason = "an interval has two bounds")]
pub struct Interval {
    /// The lower bound.
    pub lower: f64,
    /// The upper bound.
    pub upper: f64,
}

/// Wilson's score interval of a proportion (*JASA* 22, 1927) for an effective sample size, which need not be a whole number;
/// `quantile` is that of the reference distribution, 1.96 for a two-sided 95%.
fn wilson_effective(rate: f64, trials: f64, quantile: f64) -> Interval {
    let square = quantile * quantile;
    let center = (rate + square / (2.0 * trials)) / (1.0 + square / trials);
    let half_width = quantile / (1.0 + square / trials)
        * (rate * (1.0 - rate) / trials + square / (4.0 * trials * trials)).sqrt();
    Interval { lower: (center - half_width).max(0.0), upper: (center + half_width).min(1.0) }
}

/// Wilson's score interval. It assumes independent trials, so each must be of a different case.
#[must_use]
pub fn wilson(passes: PassCount, confidence: f64) -> Option<Interval> {
    let z = normal_quantile(0.5 + confidence / 2.0);
    passes.rate().map(|rate| wilson_effective(rate, passes.of as f64, z))
}

/// The exact one-sided bounds of a proportion, each at `alpha` (Clopper and Pearson, *Biometrika* 26, 1934). `trials` need not be
/// a whole number: with an effective sample size it is the interval of Korn and Graubard (*Survey Methodology* 24, 1998).
#[must_use]
pub fn clopper_pearson(rate: f64, trials: f64, alpha: f64) -> Interval {
    let passed = rate * trials;
    let failed = trials - passed;
    let lower = if passed <= 1e-9 { 0.0 } else { beta_quantile(alpha, passed, failed + 1.0) };
    let upper = if failed <= 1e-9 { 1.0 } else { beta_quantile(1.0 - alpha, passed + 1.0, failed) };
    Interval { lower, upper }
}

/// The mean pass rate of the cases, all with the same weight, and its confidence interval.
///
/// With one trial per case it is Wilson's interval. With repeats, the trials of a case are correlated (cluster sampling): it is
/// Wilson's interval with the effective sample size that follows from the variance between cases (Dean and Pagano, *Survey
/// Methodology* 41, 2015), and with Student's quantile for this number of cases. A single case has no variance between cases, so the
/// interval is that of this case alone.
#[must_use]
pub fn mean_pass_rate(cases: &[PassCount], confidence: f64) -> Option<(f64, Interval)> {
    let rates: Vec<f64> = cases.iter().filter_map(PassCount::rate).collect();
    let count = rates.len() as f64;
    let trials: u64 = cases.iter().map(|case| case.of).sum();
    let rate = rates.iter().sum::<f64>() / count;
    if rates.is_empty() {
        return None;
    }
    let tail = 0.5 + confidence / 2.0;
    if rates.len() == 1 || cases.iter().all(|case| case.of <= 1) {
        return Some((rate, wilson_effective(rate, trials as f64, normal_quantile(tail))));
    }
    let variance = rates.iter().map(|one| (one - rate) * (one - rate)).sum::<f64>() / (count - 1.0) / count;
    // If all passed or all failed, the sample size is the number of cases; otherwise it is at most the number of trials.
    let binomial = rate * (1.0 - rate);
    let effective =
        if binomial > 0.0 { (binomial / variance).clamp(count - 1.0, trials as f64) } else { count };
    Some((rate, wilson_effective(rate, effective, t_quantile(tail, count - 1.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_stay_between_zero_and_one() {
        let all = wilson(PassCount { passed: 5, of: 5 }, 0.95).unwrap();
        assert!((all.upper - 1.0).abs() < 1e-12 && (all.lower - 0.5655).abs() < 1e-4, "{all:?}");
        assert_eq!(wilson(PassCount::default(), 0.95), None);
        assert_eq!(mean_pass_rate(&[PassCount::default()], 0.95), None);
        let exact = clopper_pearson(1.0, 59.0, 0.05);
        assert!((exact.lower - 0.05_f64.powf(1.0 / 59.0)).abs() < 1e-9 && exact.upper == 1.0, "{exact:?}");
    }

    #[test]
    fn repeats_of_one_case_do_not_count_as_further_cases() {
        let one = [PassCount { passed: 1, of: 1 }, PassCount { passed: 0, of: 1 }].repeat(5);
        let ten = [PassCount { passed: 10, of: 10 }, PassCount { passed: 0, of: 10 }].repeat(5);
        let ((_, few), (rate, many)) =
            (mean_pass_rate(&one, 0.95).unwrap(), mean_pass_rate(&ten, 0.95).unwrap());
        assert!((rate - 0.5).abs() < 1e-12);
        assert!(many.upper - many.lower > 0.95 * (few.upper - few.lower), "{few:?} {many:?}");
    }
}
