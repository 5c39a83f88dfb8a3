//! The decision whether one run is worse than another, from a confidence interval of the difference of their pass rates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distributions::normal_quantile;
use super::interval::{Interval, clopper_pearson};
use super::observation::PassCount;
use super::permutation::{PassPair, pass_p_value};
use super::sign_flip::sign_flip;

/// The power at which the number of additional repeats or cases is computed.
const POWER: f64 = 0.8;
/// A larger number of additional repeats or cases is reported as [`AdditionalSamples::Never`].
const MAX_ADDITIONAL: f64 = 100_000.0;

/// The population that a comparison is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Estimand {
    /// Exactly these cases.
    #[default]
    Suite,
    /// Other cases of the same kind.
    NewCases,
}

impl Estimand {
    /// The name in files and options.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suite => "suite",
            Self::NewCases => "new-cases",
        }
    }

    /// Parses the name in files and options.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Suite, Self::NewCases].into_iter().find(|estimand| estimand.as_str() == name)
    }
}

/// The tolerated loss and the error rate of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegressionCriteria {
    /// A loss of pass rate up to this is no regression: the non-inferiority margin.
    pub tolerance: f64,
    /// The probability of a wrong `ok`, and of a wrong `regressed`.
    pub alpha: f64,
}

impl Default for RegressionCriteria {
    fn default() -> Self {
        Self { tolerance: 0.05, alpha: 0.05 }
    }
}

impl RegressionCriteria {
    /// Creates criteria from a tolerance and an alpha.
    #[must_use]
    pub fn new(tolerance: f64, alpha: f64) -> Self {
        Self { tolerance, alpha }
    }

    fn decide(&self, interval: Interval) -> Decision {
        if interval.lower > -self.tolerance {
            Decision::Ok
        } else if interval.upper < -self.tolerance {
            Decision::Regressed
        } else {
            Decision::Inconclusive
        }
    }
}

/// The decision about a regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The lower bound is above the tolerated loss.
    Ok,
    /// The upper bound is below the tolerated loss.
    Regressed,
    /// The interval contains the tolerated loss.
    #[serde(rename = "cannot_tell")]
    Inconclusive,
}

impl Decision {
    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Regressed => "regressed",
            Self::Inconclusive => "cannot_tell",
        }
    }
}

/// How a p-value was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PValueMethod {
    /// From all permutations.
    Exact,
    /// From random permutations with a fixed seed.
    MonteCarlo,
}

impl PValueMethod {
    /// Returns [`Exact`](Self::Exact) if `exact`, else [`MonteCarlo`](Self::MonteCarlo).
    #[must_use]
    pub fn of(exact: bool) -> Self {
        if exact { Self::Exact } else { Self::MonteCarlo }
    }
}

/// The additional data with which a decision is expected at 80% power, if the true rates are the observed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdditionalSamples {
    /// Approximate number of additional repeats of each case, in both runs.
    Repeats(u64),
    /// Approximate number of additional cases.
    Cases(u64),
    /// No practical number is enough: the difference is too close to the tolerated loss.
    Never,
}

/// The difference of two pass rates: the mean of `b` minus `a` over the cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The observed difference.
    pub estimate: f64,
    /// Bounds of the difference, each one-sided at `alpha`; absent if there are no finite bounds.
    pub interval: Option<Interval>,
    /// The two-sided p-value of no difference; absent if there is too little data for a test.
    pub p_value: Option<f64>,
    /// How the p-value was computed.
    pub method: Option<PValueMethod>,
    /// The decision.
    pub decision: Decision,
    /// The additional data that an inconclusive comparison needs.
    pub more: Option<AdditionalSamples>,
}

/// The mean pass rate of one run, as a proportion with an effective sample size.
#[derive(Clone, Copy)]
struct Arm {
    rate: f64,
    /// The effective sample size: so many independent trials of one case would give the same precision.
    trials: f64,
}

impl Arm {
    /// All cases have the same weight. For the sum of trials with different probabilities the binomial distribution is the widest
    /// (Hoeffding, *Annals of Mathematical Statistics* 27, 1956), so assuming equal probabilities is conservative, but inefficient if
    /// the cases differ much: where repeats show a smaller variance within cases, the effective sample size is larger. The
    /// variance is estimated with the rate of each case shrunk towards one half, so its bias is never negative: it is unbiased at one
    /// half and too large elsewhere.
    fn of(cases: impl Iterator<Item = PassCount> + Clone) -> Self {
        let count = cases.clone().count() as f64;
        let rate = cases.clone().filter_map(|case| case.rate()).sum::<f64>() / count;
        let trials = count * count / cases.clone().map(|case| 1.0 / case.of as f64).sum::<f64>();
        let within = |case: PassCount| {
            let (x, n) = (case.passed as f64, case.of as f64);
            (x * (n - x) + n + 1.0) / (n * (n - 1.0) + 4.0 * (n + 1.0)) / n
        };
        let variance = cases.map(within).sum::<f64>() / (count * count);
        let effective = if count > 1.0 { rate * (1.0 - rate) / variance } else { 0.0 };
        Self { rate, trials: trials.max(effective) }
    }

    /// The same rate with a larger sample.
    fn scaled(self, factor: f64) -> Self {
        Self { trials: self.trials * factor, ..self }
    }

    /// The variance of the rate, if the true rate is the observed one.
    fn variance(&self) -> f64 {
        self.rate * (1.0 - self.rate) / self.trials
    }
}

/// The interval of a difference of two rates from an interval of each: MOVER (Newcombe, *Statistics in Medicine* 17, 1998, method 10;
/// Zou and Donner, *Statistics in Medicine* 27, 2008), with exact intervals of the rates, so it is conservative where all or none
/// passed.
fn mover_interval(a: Arm, b: Arm, alpha: f64) -> Interval {
    let estimate = b.rate - a.rate;
    let exact_a = clopper_pearson(a.rate, a.trials, alpha);
    let exact_b = clopper_pearson(b.rate, b.trials, alpha);
    let lower = estimate - (b.rate - exact_b.lower).hypot(exact_a.upper - a.rate);
    let upper = estimate + (exact_b.upper - b.rate).hypot(a.rate - exact_a.lower);
    Interval { lower: lower.max(-1.0), upper: upper.min(1.0) }
}

/// Compares two runs of exactly these cases ([`Estimand::Suite`]); each pair is one case. `None` if no case has trials in both
/// runs.
#[must_use]
pub fn compare_suite(pairs: &[PassPair], criteria: &RegressionCriteria) -> Option<Difference> {
    let pairs: Vec<PassPair> = pairs.iter().filter(|pair| pair.a.of > 0 && pair.b.of > 0).copied().collect();
    let (p_value, exact) = pass_p_value(&pairs)?;
    let (a, b) = (Arm::of(pairs.iter().map(|pair| pair.a)), Arm::of(pairs.iter().map(|pair| pair.b)));
    let interval = mover_interval(a, b, criteria.alpha);
    Some(Difference {
        estimate: b.rate - a.rate,
        interval: Some(interval),
        p_value: Some(p_value),
        method: Some(PValueMethod::of(exact)),
        decision: criteria.decide(interval),
        more: None,
    })
}

/// Decides about one case as [`compare_suite`] does, without a p-value; inconclusive without trials in both runs.
pub(super) fn decide_case(pair: &PassPair, criteria: &RegressionCriteria) -> Decision {
    if pair.a.of == 0 || pair.b.of == 0 {
        return Decision::Inconclusive;
    }
    let arm = |passes: PassCount| Arm::of(std::iter::once(passes));
    criteria.decide(mover_interval(arm(pair.a), arm(pair.b), criteria.alpha))
}

/// Returns the number of additional repeats with which [`compare_suite`] is expected to be conclusive.
#[must_use]
pub fn additional_repeats(pairs: &[PassPair], criteria: &RegressionCriteria) -> Option<AdditionalSamples> {
    let pairs: Vec<PassPair> = pairs.iter().filter(|pair| pair.a.of > 0 && pair.b.of > 0).copied().collect();
    let trials: u64 = pairs.iter().map(|pair| pair.a.of + pair.b.of).sum();
    let repeats = trials as f64 / (2 * pairs.len()) as f64;
    let (a, b) = (Arm::of(pairs.iter().map(|pair| pair.a)), Arm::of(pairs.iter().map(|pair| pair.b)));
    (!pairs.is_empty()).then(|| required_repeats(a, b, repeats, criteria))
}

/// Compares two runs as samples of all cases of this kind ([`Estimand::NewCases`]); each difference is that of one case. Inconclusive
/// if fewer than [`MIN_NON_ZERO`](crate::MIN_NON_ZERO) differences are not zero.
#[must_use]
pub fn compare_new_cases(differences: &[f64], criteria: &RegressionCriteria) -> Option<Difference> {
    if differences.is_empty() {
        return None;
    }
    let count = differences.len() as f64;
    let estimate = differences.iter().sum::<f64>() / count;
    let Some(test) = sign_flip(differences, criteria.alpha) else {
        let required = super::MIN_NON_ZERO as u64;
        let non_zero = differences.iter().filter(|difference| **difference != 0.0).count() as u64;
        return Some(Difference {
            estimate,
            interval: None,
            p_value: None,
            method: None,
            decision: Decision::Inconclusive,
            more: Some(AdditionalSamples::Cases(required - non_zero)),
        });
    };
    let interval = Interval { lower: test.lower, upper: test.upper };
    let decision = criteria.decide(interval);
    let squares = differences.iter().map(|difference| (difference - estimate).powi(2)).sum::<f64>();
    let variance = squares / (count - 1.0).max(1.0);
    let factor = power_factor(variance / count, estimate, criteria);
    let more = match factor.map(|factor| ((factor - 1.0) * count).ceil()) {
        Some(more) if more < MAX_ADDITIONAL => AdditionalSamples::Cases(more.max(1.0) as u64),
        _ => AdditionalSamples::Never,
    };
    Some(Difference {
        estimate,
        interval: interval.lower.is_finite().then_some(interval),
        p_value: Some(test.p_value),
        method: Some(PValueMethod::of(test.exact)),
        decision,
        more: (decision == Decision::Inconclusive).then_some(more),
    })
}

/// The factor by which a sample must grow to distinguish the estimate from the tolerated loss, in normal approximation.
fn power_factor(variance: f64, estimate: f64, criteria: &RegressionCriteria) -> Option<f64> {
    let distance = estimate + criteria.tolerance;
    let z = normal_quantile(1.0 - criteria.alpha) + normal_quantile(POWER);
    (distance.abs() > 1e-9).then(|| z * z * variance / (distance * distance))
}

fn required_repeats(a: Arm, b: Arm, repeats: f64, criteria: &RegressionCriteria) -> AdditionalSamples {
    let Some(normal) = power_factor(a.variance() + b.variance(), b.rate - a.rate, criteria) else {
        return AdditionalSamples::Never;
    };
    // For rates near 0 or 1 the exact bounds need more trials than the normal approximation.
    let decides = |factor: f64| {
        let interval = mover_interval(a.scaled(factor), b.scaled(factor), criteria.alpha);
        criteria.decide(interval) != Decision::Inconclusive
    };
    let (mut low, mut high) = (1.0, 2.0);
    while !decides(high) {
        (low, high) = (high, high * 2.0);
        if high * repeats > MAX_ADDITIONAL {
            return AdditionalSamples::Never;
        }
    }
    for _ in 0..30 {
        let middle = 0.5 * (low + high);
        if decides(middle) { high = middle } else { low = middle }
    }
    let more = ((normal.max(high) - 1.0) * repeats).ceil();
    if more > MAX_ADDITIONAL {
        AdditionalSamples::Never
    } else {
        AdditionalSamples::Repeats(more.max(1.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(a: (u64, u64), b: (u64, u64), cases: usize) -> Vec<PassPair> {
        let passes = |of: (u64, u64)| PassCount { passed: of.0, of: of.1 };
        vec![PassPair { a: passes(a), b: passes(b) }; cases]
    }

    fn compared(a: (u64, u64), b: (u64, u64), cases: usize) -> Difference {
        compare_suite(&pairs(a, b, cases), &RegressionCriteria::default()).unwrap()
    }

    fn additional(a: (u64, u64), b: (u64, u64), cases: usize) -> Option<AdditionalSamples> {
        additional_repeats(&pairs(a, b, cases), &RegressionCriteria::default())
    }

    #[test]
    fn compare_suite_is_ok_regressed_or_inconclusive() {
        assert_eq!(compared((10, 10), (10, 10), 6).decision, Decision::Ok);
        assert_eq!(compared((9, 10), (4, 10), 6).decision, Decision::Regressed);
        assert_eq!(compared((3, 3), (3, 3), 1).decision, Decision::Inconclusive);
        assert_eq!(compared((3, 3), (2, 3), 2).decision, Decision::Inconclusive);
        assert_eq!(compare_suite(&[], &RegressionCriteria::default()), None);
    }

    #[test]
    fn additional_repeats_are_enough_to_decide() {
        // If all pass, 59 trials are needed to exclude a loss of five points.
        assert_eq!(additional((5, 5), (5, 5), 1), Some(AdditionalSamples::Repeats(54)));
        assert_eq!(compared((59, 59), (59, 59), 1).decision, Decision::Ok);
        assert_eq!(compared((58, 58), (58, 58), 1).decision, Decision::Inconclusive);
        let Some(AdditionalSamples::Repeats(some)) = additional((7, 10), (6, 10), 3) else { panic!() };
        assert!((200..2000).contains(&some), "{some}");
        assert_eq!(additional((10, 20), (9, 20), 1), Some(AdditionalSamples::Never));
    }

    #[test]
    fn compare_new_cases_needs_five_differences() {
        let criteria = RegressionCriteria::default();
        let few = compare_new_cases(&[0.0, 0.0, 0.1, 0.0], &criteria).unwrap();
        assert_eq!((few.decision, few.more), (Decision::Inconclusive, Some(AdditionalSamples::Cases(4))));
        let worse: Vec<f64> = (0..12).map(|case| -0.3 - 0.02 * f64::from(case)).collect();
        assert_eq!(compare_new_cases(&worse, &criteria).unwrap().decision, Decision::Regressed);
        let better: Vec<f64> = worse.iter().map(|difference| -difference).collect();
        assert_eq!(compare_new_cases(&better, &criteria).unwrap().decision, Decision::Ok);
    }
}
