//! From the results of two runs to pairs of cases with numbers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CaseDifference, CaseSide, CompareError, MetricDifference};
use crate::baseline::Recorded;
use crate::run::{AttemptRecord, RunResults, TrialResults};
use yb_stats::{Interval, Observation, ObservedOutcome, OutcomeCounts, PValueMethod, PassPair, ValuePair};

/// A figure of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// What it cost.
    CostUsd,
    /// Tokens in and out.
    Tokens,
    /// How long it took.
    DurationMs,
    /// Turns, as the agent counts them.
    Turns,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::CostUsd, Self::Tokens, Self::DurationMs, Self::Turns];

    /// How people are told of it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::CostUsd => "cost",
            Self::Tokens => "tokens",
            Self::DurationMs => "time",
            Self::Turns => "turns",
        }
    }

    /// Of the attempt that decided a trial; what nobody told is not there.
    fn of(self, attempt: &AttemptRecord) -> Option<f64> {
        match self {
            Self::CostUsd => attempt.spend.total(),
            Self::Tokens => (attempt.tokens > 0).then_some(attempt.tokens as f64),
            Self::DurationMs => Some(attempt.duration_ms as f64),
            Self::Turns => attempt.turns.map(|turns| turns as f64),
        }
    }
}

/// One case with one variant in one run.
pub(super) struct Arm {
    pub(super) label: String,
    variant: String,
    pub(super) tally: OutcomeCounts,
    grade_digest: String,
    values: [Vec<f64>; 4],
}

/// One case with one variant in both.
pub(super) struct Pair {
    case: String,
    pub(super) a: Arm,
    pub(super) b: Arm,
}

pub(super) struct Sides {
    pub(super) pairs: Vec<Pair>,
    pub(super) only_in_a: Vec<String>,
    pub(super) only_in_b: Vec<String>,
}

/// How people are told of a case with a variant.
fn label(case: &str, variant: &str) -> String {
    if variant == yb_case::suite::DEFAULT_VARIANT { case.to_owned() } else { format!("{case} / {variant}") }
}

impl Arm {
    fn of(trials: &[&TrialResults]) -> Self {
        let observations: Vec<Observation> = trials.iter().map(|trial| trial.observation()).collect();
        let counted =
            trials.iter().filter(|trial| ObservedOutcome::of(trial.outcome) != ObservedOutcome::Excluded);
        let results: Vec<&AttemptRecord> = counted.filter_map(|trial| trial.result()).collect();
        let first = trials.first();
        let of = |text: fn(&TrialResults) -> &str| first.map(|one| text(one).to_owned()).unwrap_or_default();
        let (case, variant) = (of(|one| &one.case), of(|one| &one.variant));
        Self {
            label: label(&case, &variant),
            variant,
            tally: yb_stats::count_outcomes(&observations),
            grade_digest: of(|one| &one.grade_digest),
            values: Metric::ALL.map(|metric| results.iter().filter_map(|one| metric.of(one)).collect()),
        }
    }

    fn values(&self, metric: Metric) -> &[f64] {
        &self.values[metric as usize]
    }

    fn mean(&self, metric: Metric) -> Option<f64> {
        mean(self.values(metric))
    }

    fn shown(&self) -> CaseSide {
        CaseSide {
            passed: self.tally.passed,
            counted: self.tally.counted(),
            lost: self.tally.excluded,
            cost_usd: self.mean(Metric::CostUsd),
            tokens: self.mean(Metric::Tokens),
            duration_ms: self.mean(Metric::DurationMs),
            turns: self.mean(Metric::Turns),
            flaky: self.tally.is_flaky(),
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl Pair {
    pub(super) fn shown(&self) -> CaseDifference {
        CaseDifference {
            case: self.case.clone(),
            variant_a: self.a.variant.clone(),
            variant_b: self.b.variant.clone(),
            a: self.a.shown(),
            b: self.b.shown(),
        }
    }
}

impl Sides {
    pub(super) fn tally(&self, of: impl Fn(&Pair) -> OutcomeCounts) -> OutcomeCounts {
        self.pairs.iter().map(of).fold(OutcomeCounts::default(), OutcomeCounts::plus)
    }

    /// The difference of each case, all its variants together; cases without results in both runs are not there.
    pub(super) fn by_case(&self, counted: &[PassPair]) -> Vec<f64> {
        let mut cases: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (pair, counted) in self.pairs.iter().zip(counted) {
            if let (Some(a), Some(b)) = (counted.a.rate(), counted.b.rate()) {
                cases.entry(&pair.case).or_default().push(b - a);
            }
        }
        cases.values().filter_map(|all| mean(all)).collect()
    }

    pub(super) fn metric(&self, metric: Metric, alpha: f64) -> Option<MetricDifference> {
        let both: Vec<ValuePair> = self
            .pairs
            .iter()
            .map(|pair| ValuePair { a: pair.a.values(metric).to_vec(), b: pair.b.values(metric).to_vec() })
            .filter(|pair| !pair.a.is_empty() && !pair.b.is_empty())
            .collect();
        let found = yb_stats::location_shift(&both, alpha)?;
        let interval = Interval { lower: found.lower, upper: found.upper };
        let side = |of: fn(&ValuePair) -> &Vec<f64>| {
            both.iter().filter_map(|pair| mean(of(pair))).sum::<f64>() / both.len() as f64
        };
        Some(MetricDifference {
            metric,
            a: side(|pair| &pair.a),
            b: side(|pair| &pair.b),
            estimate: found.estimate,
            interval: (interval.lower.is_finite() && interval.upper.is_finite()).then_some(interval),
            p_value: found.p_value,
            p_holm: found.p_value,
            method: PValueMethod::of(found.exact),
        })
    }

    pub(super) fn judged_differently(&self) -> Vec<String> {
        let both = |pair: &&Pair| !pair.a.grade_digest.is_empty() && !pair.b.grade_digest.is_empty();
        let differ = self.pairs.iter().filter(both).filter(|pair| pair.a.grade_digest != pair.b.grade_digest);
        differ.map(|pair| pair.b.label.clone()).collect()
    }
}

type Trials<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a TrialResults>>;

fn trials(results: &RunResults) -> Trials<'_> {
    let mut all: Trials<'_> = BTreeMap::new();
    for trial in &results.trials {
        all.entry((&trial.case, &trial.variant)).or_default().push(trial);
    }
    all
}

fn variants<'a>(all: &Trials<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = all.keys().map(|(_, variant)| *variant).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Which variant of the second run is compared with which of the first.
fn mapped<'a>(
    a: (&Recorded, &Trials<'a>),
    b: (&Recorded, &Trials<'a>),
    asked: &'a [(String, String)],
) -> Result<Vec<(&'a str, &'a str)>, CompareError> {
    let (of_a, of_b) = (variants(a.1), variants(b.1));
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let missing = |of: &Recorded, name: &str, known: &[&str]| CompareError::NoSuchVariant {
        run: of.label(),
        name: name.to_owned(),
        known: owned(known),
    };
    for (one, two) in asked {
        if !of_a.contains(&one.as_str()) {
            return Err(missing(a.0, one, &of_a));
        }
        if !of_b.contains(&two.as_str()) {
            return Err(missing(b.0, two, &of_b));
        }
    }
    if !asked.is_empty() {
        return Ok(asked.iter().map(|(one, two)| (one.as_str(), two.as_str())).collect());
    }
    let common: Vec<(&str, &str)> =
        of_b.iter().filter(|name| of_a.contains(name)).map(|name| (*name, *name)).collect();
    match (common.as_slice(), of_a.as_slice(), of_b.as_slice()) {
        // The only one of each: there is nothing else that could be meant.
        ([], [one], [two]) => Ok(vec![(*one, *two)]),
        ([], ..) => Err(CompareError::NoCommonVariant {
            a: a.0.label(),
            b: b.0.label(),
            of_a: owned(&of_a),
            of_b: owned(&of_b),
        }),
        _ => Ok(common),
    }
}

pub(super) fn pairs(a: &Recorded, b: &Recorded, asked: &[(String, String)]) -> Result<Sides, CompareError> {
    let (all_a, all_b) = (trials(&a.results), trials(&b.results));
    let map = mapped((a, &all_a), (b, &all_b), asked)?;
    let to_a: BTreeMap<&str, &str> = map.iter().map(|(one, two)| (*two, *one)).collect();
    let mut sides = Sides { pairs: Vec::new(), only_in_a: Vec::new(), only_in_b: Vec::new() };
    let mut seen = std::collections::BTreeSet::new();
    for trial in &b.results.trials {
        let key = (trial.case.as_str(), trial.variant.as_str());
        if !seen.insert(key) {
            continue;
        }
        let of_a = to_a.get(key.1).and_then(|variant| all_a.get(&(key.0, *variant)));
        match of_a {
            Some(of_a) => {
                let (a, b) = (Arm::of(of_a), Arm::of(&all_b[&key]));
                sides.pairs.push(Pair { case: trial.case.clone(), a, b });
            }
            None if asked.is_empty() || to_a.contains_key(key.1) => {
                sides.only_in_b.push(label(key.0, key.1));
            }
            None => {}
        }
    }
    let to_b: BTreeMap<&str, &str> = map.into_iter().collect();
    for (case, variant) in all_a.keys() {
        let of_b = to_b.get(variant).is_some_and(|variant| all_b.contains_key(&(*case, *variant)));
        if !of_b && (asked.is_empty() || to_b.contains_key(variant)) {
            sides.only_in_a.push(label(case, variant));
        }
    }
    if sides.pairs.is_empty() {
        return Err(CompareError::NoCommonCase { a: a.label(), b: b.label() });
    }
    Ok(sides)
}
