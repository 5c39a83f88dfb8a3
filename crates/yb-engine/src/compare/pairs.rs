//! Pairs the cases of two runs and aggregates their metrics.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yb_figures::{count, duration_ms, money};

use super::{CaseDifference, CaseSummary, CompareError, MetricDifference};
use crate::baseline::RecordedRun;
use crate::run::{AttemptRecord, RunResults, TrialResults};
use yb_stats::{Interval, Observation, ObservedOutcome, OutcomeCounts, PValueMethod, PassPair, ValuePair};

/// A metric of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// Cost.
    CostUsd,
    /// Input and output tokens.
    Tokens,
    /// Duration.
    DurationMs,
    /// Turns, as reported by the agent.
    Turns,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 4] = [Self::CostUsd, Self::Tokens, Self::DurationMs, Self::Turns];

    /// Returns the display name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::CostUsd => "cost",
            Self::Tokens => "tokens",
            Self::DurationMs => "time",
            Self::Turns => "turns",
        }
    }

    /// Formats a value.
    #[must_use]
    pub fn amount(self, value: f64) -> String {
        match self {
            Self::CostUsd => money(value),
            Self::DurationMs => duration_ms(value.round() as u64),
            Self::Turns => format!("{value:.1}"),
            Self::Tokens => count(value.round() as u64),
        }
    }

    /// Formats a difference, with its sign.
    #[must_use]
    pub fn change(self, difference: f64) -> String {
        format!("{}{}", if difference < 0.0 { "-" } else { "+" }, self.amount(difference.abs()))
    }

    /// Returns the value of an attempt, if it was reported.
    fn of(self, attempt: &AttemptRecord) -> Option<f64> {
        match self {
            Self::CostUsd => attempt.spend.total(),
            Self::Tokens => (attempt.tokens > 0).then_some(attempt.tokens as f64),
            Self::DurationMs => Some(attempt.duration_ms as f64),
            Self::Turns => attempt.turns.map(|turns| turns as f64),
        }
    }
}

/// A case with one variant in one run.
pub(super) struct CaseArm {
    pub(super) label: String,
    variant: String,
    pub(super) tally: OutcomeCounts,
    /// The tapes of the counted trials; `None` if one of them had a live model.
    tapes: Option<BTreeSet<String>>,
    grade_digest: String,
    values: [Vec<f64>; 4],
}

/// A case with one variant in both runs.
pub(super) struct CasePair {
    case: String,
    pub(super) a: CaseArm,
    pub(super) b: CaseArm,
}

pub(super) struct PairedRuns {
    pub(super) pairs: Vec<CasePair>,
    pub(super) only_in_a: Vec<String>,
    pub(super) only_in_b: Vec<String>,
}

/// Returns the display name of a case with a variant.
fn label(case: &str, variant: &str) -> String {
    if variant == yb_case::suite::DEFAULT_VARIANT { case.to_owned() } else { format!("{case} / {variant}") }
}

impl CaseArm {
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
            tapes: observations
                .iter()
                .filter(|one| one.outcome != ObservedOutcome::Excluded)
                .map(|one| one.tape.clone())
                .collect(),
            grade_digest: of(|one| &one.grade_digest),
            values: Metric::ALL.map(|metric| results.iter().filter_map(|one| metric.of(one)).collect()),
        }
    }

    pub(super) fn values(&self, metric: Metric) -> &[f64] {
        &self.values[metric as usize]
    }

    pub(super) fn mean(&self, metric: Metric) -> Option<f64> {
        mean(self.values(metric))
    }

    fn summary(&self) -> CaseSummary {
        CaseSummary {
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

impl CasePair {
    /// Returns whether both runs replayed the same tapes, so that the model's answers were the same.
    pub(super) fn replays_the_same_tapes(&self) -> bool {
        self.a.tapes.is_some() && self.a.tapes == self.b.tapes
    }

    pub(super) fn difference(&self) -> CaseDifference {
        CaseDifference {
            case: self.case.clone(),
            variant_a: self.a.variant.clone(),
            variant_b: self.b.variant.clone(),
            a: self.a.summary(),
            b: self.b.summary(),
        }
    }
}

impl PairedRuns {
    pub(super) fn tally(&self, of: impl Fn(&CasePair) -> OutcomeCounts) -> OutcomeCounts {
        self.pairs.iter().map(of).fold(OutcomeCounts::default(), OutcomeCounts::plus)
    }

    /// Returns the mean difference of each case over its variants. Cases without results in both runs are omitted.
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
        let both = |pair: &&CasePair| !pair.a.grade_digest.is_empty() && !pair.b.grade_digest.is_empty();
        let differ = self.pairs.iter().filter(both).filter(|pair| pair.a.grade_digest != pair.b.grade_digest);
        differ.map(|pair| pair.b.label.clone()).collect()
    }
}

/// Returns the trials of each case with each variant.
pub(super) fn arms(results: &RunResults) -> BTreeMap<(String, String), CaseArm> {
    let arm = |((case, variant), trials): ((&str, &str), Vec<&TrialResults>)| {
        ((case.to_owned(), variant.to_owned()), CaseArm::of(&trials))
    };
    trials(results).into_iter().map(arm).collect()
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

/// Returns the pairs of variants to compare.
fn map_variants<'a>(
    a: (&RecordedRun, &Trials<'a>),
    b: (&RecordedRun, &Trials<'a>),
    asked: &'a [(String, String)],
) -> Result<Vec<(&'a str, &'a str)>, CompareError> {
    let (of_a, of_b) = (variants(a.1), variants(b.1));
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let missing = |of: &RecordedRun, name: &str, known: &[&str]| CompareError::NoSuchVariant {
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
    let (mut before, mut now) = (BTreeSet::new(), BTreeSet::new());
    for (one, two) in asked {
        let repeated = [(&mut before, one), (&mut now, two)].into_iter().find_map(|(seen, name)| {
            let is_new = seen.insert(name);
            (!is_new).then(|| name.clone())
        });
        if let Some(name) = repeated {
            return Err(CompareError::PairedTwice { name });
        }
    }
    if !asked.is_empty() {
        return Ok(asked.iter().map(|(one, two)| (one.as_str(), two.as_str())).collect());
    }
    let common: Vec<(&str, &str)> =
        of_b.iter().filter(|name| of_a.contains(name)).map(|name| (*name, *name)).collect();
    match (common.as_slice(), of_a.as_slice(), of_b.as_slice()) {
        // Each run has a single variant, so the pair is unambiguous.
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

pub(super) fn pairs(
    a: &RecordedRun,
    b: &RecordedRun,
    asked: &[(String, String)],
) -> Result<PairedRuns, CompareError> {
    let (all_a, all_b) = (trials(&a.results), trials(&b.results));
    let map = map_variants((a, &all_a), (b, &all_b), asked)?;
    let to_a: BTreeMap<&str, &str> = map.iter().map(|(one, two)| (*two, *one)).collect();
    let mut paired = PairedRuns { pairs: Vec::new(), only_in_a: Vec::new(), only_in_b: Vec::new() };
    let mut seen = BTreeSet::new();
    for trial in &b.results.trials {
        let key = (trial.case.as_str(), trial.variant.as_str());
        if !seen.insert(key) {
            continue;
        }
        let of_a = to_a.get(key.1).and_then(|variant| all_a.get(&(key.0, *variant)));
        match of_a {
            Some(of_a) => {
                let (a, b) = (CaseArm::of(of_a), CaseArm::of(&all_b[&key]));
                paired.pairs.push(CasePair { case: trial.case.clone(), a, b });
            }
            None if asked.is_empty() || to_a.contains_key(key.1) => {
                paired.only_in_b.push(label(key.0, key.1));
            }
            None => {}
        }
    }
    let to_b: BTreeMap<&str, &str> = map.into_iter().collect();
    for (case, variant) in all_a.keys() {
        let of_b = to_b.get(variant).is_some_and(|variant| all_b.contains_key(&(*case, *variant)));
        if !of_b && (asked.is_empty() || to_b.contains_key(variant)) {
            paired.only_in_a.push(label(case, variant));
        }
    }
    if paired.pairs.is_empty() {
        return Err(CompareError::NoCommonCase { a: a.label(), b: b.label() });
    }
    Ok(paired)
}
