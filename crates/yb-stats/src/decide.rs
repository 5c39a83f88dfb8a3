//! Is it worse? An interval of the difference answers: ok, regressed, or cannot tell.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interval::{Interval, clopper_pearson};
use super::new_cases::sign_flip;
use super::observation::Passes;
use super::permute::{PassPair, pass_p_value};
use super::special::normal_quantile;

/// The power at which a number of further repeats is told.
const POWER: f64 = 0.8;
/// More than this nobody will run.
const MOST: f64 = 100_000.0;

/// What the answer is to be about.
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
    /// As people write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suite => "suite",
            Self::NewCases => "new-cases",
        }
    }

    /// As people write it.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        [Self::Suite, Self::NewCases].into_iter().find(|one| one.as_str() == word)
    }
}

/// How sure one has to be, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// A loss of pass rate up to this is no regression.
    pub tolerance: f64,
    /// The chance of a wrong `ok`, and of a wrong `regressed`.
    pub alpha: f64,
}

impl Default for Question {
    fn default() -> Self {
        Self { tolerance: 0.05, alpha: 0.05 }
    }
}

impl Question {
    /// A question.
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
            Decision::CannotTell
        }
    }
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The lower bound is above the tolerated loss.
    Ok,
    /// The upper bound is below it.
    Regressed,
    /// Neither.
    CannotTell,
}

impl Decision {
    /// As files spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Regressed => "regressed",
            Self::CannotTell => "cannot_tell",
        }
    }
}

/// How a p-value came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// From all arrangements.
    Exact,
    /// From arrangements by chance, always the same ones.
    MonteCarlo,
}

impl Method {
    pub fn of(exact: bool) -> Self {
        if exact { Self::Exact } else { Self::MonteCarlo }
    }
}

/// What would make the answer likely (80 %), if what was seen is what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum More {
    /// About so many more repeats of each case, in both runs.
    Repeats(u64),
    /// About so many more cases.
    Cases(u64),
    /// The difference is the tolerated one, so no number would.
    Never,
}

/// The difference of two pass rates: the mean over cases of `b` minus `a`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// As it was seen.
    pub estimate: f64,
    /// Each end one-sided at `alpha`; absent where there is no bound.
    pub interval: Option<Interval>,
    /// Of no difference, two-sided; absent where there is no test.
    pub p_value: Option<f64>,
    /// How that came about.
    pub method: Option<Method>,
    /// The answer.
    pub decision: Decision,
    /// What would help, if the answer is that there is none.
    pub more: Option<More>,
}

/// One run's mean pass rate, as the bounds see it.
#[derive(Clone, Copy)]
struct Arm {
    rate: f64,
    /// As many independent tries of one mixed case would say as much.
    tries: f64,
}

impl Arm {
    /// Cases count alike. For the sum of tries with different chances the binomial distribution is the widest (Hoeffding, *Annals
    /// of Mathematical Statistics* 27, 1956), so taking them for equal is safe, and with many different cases wasteful: where repeats
    /// show how much smaller the variance within cases is, the effective number of tries is larger. That variance is
    /// estimated with each case pulled towards one half so that it is never too small on average: unbiased at one half,
    /// too large elsewhere.
    fn of(cases: impl Iterator<Item = Passes> + Clone) -> Self {
        let count = cases.clone().count() as f64;
        let rate = cases.clone().filter_map(|case| case.rate()).sum::<f64>() / count;
        let tries = count * count / cases.clone().map(|case| 1.0 / case.of as f64).sum::<f64>();
        let within = |case: Passes| {
            let (x, n) = (case.passed as f64, case.of as f64);
            (x * (n - x) + n + 1.0) / (n * (n - 1.0) + 4.0 * (n + 1.0)) / n
        };
        let variance = cases.map(within).sum::<f64>() / (count * count);
        let effective = if count > 1.0 { rate * (1.0 - rate) / variance } else { 0.0 };
        Self { rate, tries: tries.max(effective) }
    }

    fn times(self, factor: f64) -> Self {
        Self { tries: self.tries * factor, ..self }
    }

    /// Of the rate, if it is as it was seen.
    fn variance(&self) -> f64 {
        self.rate * (1.0 - self.rate) / self.tries
    }
}

/// Bounds of a difference from bounds of both rates: MOVER (Newcombe, *Statistics in Medicine* 17, 1998, method 10; Zou and Donner,
/// *Statistics in Medicine* 27, 2008), with exact bounds of the rates, so that it is cautious where all or none passed.
fn between(a: Arm, b: Arm, alpha: f64) -> Interval {
    let estimate = b.rate - a.rate;
    let (of_a, of_b) = (clopper_pearson(a.rate, a.tries, alpha), clopper_pearson(b.rate, b.tries, alpha));
    let lower = estimate - (b.rate - of_b.lower).hypot(of_a.upper - a.rate);
    let upper = estimate + (of_b.upper - b.rate).hypot(a.rate - of_a.lower);
    Interval { lower: lower.max(-1.0), upper: upper.min(1.0) }
}

/// About exactly these cases; each pair is one of them. `None` if no case was tried in both runs.
#[must_use]
pub fn suite(pairs: &[PassPair], question: &Question) -> Option<Difference> {
    let pairs: Vec<PassPair> = pairs.iter().filter(|pair| pair.a.of > 0 && pair.b.of > 0).copied().collect();
    let (p_value, exact) = pass_p_value(&pairs)?;
    let (a, b) = (Arm::of(pairs.iter().map(|pair| pair.a)), Arm::of(pairs.iter().map(|pair| pair.b)));
    let interval = between(a, b, question.alpha);
    Some(Difference {
        estimate: b.rate - a.rate,
        interval: Some(interval),
        p_value: Some(p_value),
        method: Some(Method::of(exact)),
        decision: question.decide(interval),
        more: None,
    })
}

/// How many more repeats would tell, where [`suite`] can't.
#[must_use]
pub fn more_repeats(pairs: &[PassPair], question: &Question) -> Option<More> {
    let pairs: Vec<PassPair> = pairs.iter().filter(|pair| pair.a.of > 0 && pair.b.of > 0).copied().collect();
    let tries: u64 = pairs.iter().map(|pair| pair.a.of + pair.b.of).sum();
    let repeats = tries as f64 / (2 * pairs.len()) as f64;
    let (a, b) = (Arm::of(pairs.iter().map(|pair| pair.a)), Arm::of(pairs.iter().map(|pair| pair.b)));
    (!pairs.is_empty()).then(|| needed(a, b, repeats, question))
}

/// About other cases of the same kind; each difference is that of one case. Without enough differences there is no answer.
#[must_use]
pub fn new_cases(differences: &[f64], question: &Question) -> Option<Difference> {
    if differences.is_empty() {
        return None;
    }
    let count = differences.len() as f64;
    let estimate = differences.iter().sum::<f64>() / count;
    let Some(found) = sign_flip(differences, question.alpha) else {
        let more = super::MIN_NON_ZERO as u64;
        let seen = differences.iter().filter(|one| **one != 0.0).count() as u64;
        return Some(Difference {
            estimate,
            interval: None,
            p_value: None,
            method: None,
            decision: Decision::CannotTell,
            more: Some(More::Cases(more - seen)),
        });
    };
    let interval = Interval { lower: found.lower, upper: found.upper };
    let decision = question.decide(interval);
    let variance = differences.iter().map(|one| (one - estimate) * (one - estimate)).sum::<f64>()
        / (count - 1.0).max(1.0);
    let factor = power_factor(variance / count, estimate, question);
    let more = match factor.map(|factor| ((factor - 1.0) * count).ceil()) {
        Some(more) if more < MOST => More::Cases(more.max(1.0) as u64),
        _ => More::Never,
    };
    Some(Difference {
        estimate,
        interval: interval.lower.is_finite().then_some(interval),
        p_value: Some(found.p_value),
        method: Some(Method::of(found.exact)),
        decision,
        more: (decision == Decision::CannotTell).then_some(more),
    })
}

/// How many times as much it takes to tell the estimate from the tolerated loss, with normal distributions.
fn power_factor(variance: f64, estimate: f64, question: &Question) -> Option<f64> {
    let distance = estimate + question.tolerance;
    let z = normal_quantile(1.0 - question.alpha) + normal_quantile(POWER);
    (distance.abs() > 1e-9).then(|| z * z * variance / (distance * distance))
}

fn needed(a: Arm, b: Arm, repeats: f64, question: &Question) -> More {
    let Some(normal) = power_factor(a.variance() + b.variance(), b.rate - a.rate, question) else {
        return More::Never;
    };
    // Near all or none the exact bounds ask for more than the normal distribution does.
    let decides = |factor: f64| {
        question.decide(between(a.times(factor), b.times(factor), question.alpha)) != Decision::CannotTell
    };
    let (mut low, mut high) = (1.0, 2.0);
    while !decides(high) {
        (low, high) = (high, high * 2.0);
        if high * repeats > MOST {
            return More::Never;
        }
    }
    for _ in 0..30 {
        let middle = 0.5 * (low + high);
        if decides(middle) { high = middle } else { low = middle }
    }
    let more = ((normal.max(high) - 1.0) * repeats).ceil();
    if more > MOST { More::Never } else { More::Repeats(more.max(1.0) as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(a: (u64, u64), b: (u64, u64), cases: usize) -> Vec<PassPair> {
        let passes = |of: (u64, u64)| Passes { passed: of.0, of: of.1 };
        vec![PassPair { a: passes(a), b: passes(b) }; cases]
    }

    fn same(a: (u64, u64), b: (u64, u64), cases: usize) -> Difference {
        suite(&pairs(a, b, cases), &Question::default()).unwrap()
    }

    fn more(a: (u64, u64), b: (u64, u64), cases: usize) -> Option<More> {
        more_repeats(&pairs(a, b, cases), &Question::default())
    }

    #[test]
    fn the_three_answers() {
        assert_eq!(same((10, 10), (10, 10), 6).decision, Decision::Ok);
        assert_eq!(same((9, 10), (4, 10), 6).decision, Decision::Regressed);
        assert_eq!(same((3, 3), (3, 3), 1).decision, Decision::CannotTell);
        assert_eq!(same((3, 3), (2, 3), 2).decision, Decision::CannotTell);
        assert_eq!(suite(&[], &Question::default()), None);
    }

    #[test]
    fn further_repeats_are_told_and_are_enough() {
        // With all passed it takes 59 tries to exclude a loss of five points.
        assert_eq!(more((5, 5), (5, 5), 1), Some(More::Repeats(54)));
        assert_eq!(same((59, 59), (59, 59), 1).decision, Decision::Ok);
        assert_eq!(same((58, 58), (58, 58), 1).decision, Decision::CannotTell);
        let Some(More::Repeats(some)) = more((7, 10), (6, 10), 3) else { panic!() };
        assert!((200..2000).contains(&some), "{some}");
        assert_eq!(more((10, 20), (9, 20), 1), Some(More::Never));
    }

    #[test]
    fn new_cases_need_differences() {
        let question = Question::default();
        let few = new_cases(&[0.0, 0.0, 0.1, 0.0], &question).unwrap();
        assert_eq!((few.decision, few.more), (Decision::CannotTell, Some(More::Cases(4))));
        let worse: Vec<f64> = (0..12).map(|at| -0.3 - 0.02 * f64::from(at)).collect();
        assert_eq!(new_cases(&worse, &question).unwrap().decision, Decision::Regressed);
        let better: Vec<f64> = worse.iter().map(|one| -one).collect();
        assert_eq!(new_cases(&better, &question).unwrap().decision, Decision::Ok);
    }
}
