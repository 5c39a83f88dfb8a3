//! Compares two runs, paired by case names: differences, and whether the pass rate regressed.

mod drift;
mod effects;
mod lift;
mod pairs;
mod reason;
mod scenarios;
mod variants;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use drift::differences as undeclared_differences;
pub use effects::FactorEffect;
pub(crate) use lift::decision as lift_decision;
pub use lift::{Activation, Lift, LiftAnswer};
pub use pairs::Metric;
pub use variants::{SummaryTable, VariantSummary, VariantTotal};

use crate::baseline::RecordedRun;
use pairs::{CasePair, PairedRuns};
use scenarios::Scenarios;
use yb_stats::{
    Answer, CasePasses, Decision, Difference, Estimand, ExcludedTrials, Interval, OutcomeCounts,
    PValueMethod, PassPair, RegressionCriteria,
};

/// The version of the format. Newer major versions are rejected.
const VERSION: &str = "1.0.0";
/// The default share of trials that infrastructure failures may exclude before a comparison is inconclusive.
pub const MAX_LOST: f64 = 0.05;
/// The confidence level of the interval of one run's pass rate.
const CONFIDENCE: f64 = 0.95;

/// Options of a comparison.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompareOptions {
    /// The estimand.
    pub estimand: Estimand,
    /// Tolerance and significance level.
    pub question: RegressionCriteria,
    /// The share of trials that infrastructure failures may exclude.
    pub max_lost: f64,
    /// Pairs of variants of the first and the second run, each variant of a run in one pair; if empty, variants are paired
    /// by name.
    pub variants: Vec<(String, String)>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            estimand: Estimand::default(),
            question: RegressionCriteria::default(),
            max_lost: MAX_LOST,
            variants: Vec::new(),
        }
    }
}

/// An error that prevents a comparison.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The runs have no common case.
    #[error("`{a}` and `{b}` have no case in common")]
    NoCommonCase {
        /// The first run.
        a: String,
        /// The second run.
        b: String,
    },
    /// The runs have common cases, but no common variant.
    #[error("`{a}` and `{b}` have no variant in common")]
    NoCommonVariant {
        /// The first run.
        a: String,
        /// The second run.
        b: String,
        /// The first run's variants.
        of_a: Vec<String>,
        /// The second run's variants.
        of_b: Vec<String>,
    },
    /// A run does not have the variant.
    #[error("`{run}` has no variant `{name}`")]
    NoSuchVariant {
        /// The run.
        run: String,
        /// The variant.
        name: String,
        /// The available variants.
        known: Vec<String>,
    },
    /// A variant is in two pairs. Its trials would count twice, as if there were more of them.
    #[error("variant `{name}` is in more than one pair")]
    PairedTwice {
        /// The variant.
        name: String,
    },
}

impl CompareError {
    /// Returns hints, if there are any.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let list =
            |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        match self {
            Self::NoCommonCase { .. } => vec!["cases are paired by name".to_owned()],
            Self::NoCommonVariant { of_a, of_b, .. } => {
                let first = |names: &[String]| names.first().cloned().unwrap_or_default();
                vec![
                    format!("available: {} and {}", list(of_a), list(of_b)),
                    format!("map the variants: `--variant {}={}`", first(of_a), first(of_b)),
                ]
            }
            Self::NoSuchVariant { known, .. } => vec![format!("available: {}", list(known))],
            Self::PairedTwice { .. } => {
                vec!["run one comparison for each pair; its trials would count twice in one".to_owned()]
            }
        }
    }
}

/// A comparison of two runs. Differences are second minus first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Comparison {
    /// Version of this format.
    pub version: String,
    /// The first run, the reference.
    pub a: ComparedRun,
    /// The second run.
    pub b: ComparedRun,
    /// The estimand.
    pub estimand: Estimand,
    /// Tolerance and significance level.
    pub question: RegressionCriteria,
    /// The decision.
    pub decision: Decision,
    /// The reason of the decision.
    pub reason: String,
    /// Which run is better.
    #[serde(default)]
    pub answer: Answer,
    /// The answer in a sentence.
    #[serde(default)]
    pub answer_reason: String,
    /// Difference of the pass rates; absent if no case has results in both runs.
    pub pass_rate: Option<Difference>,
    /// P-value of the pass rate with Holm's correction for multiple comparisons.
    pub pass_rate_p_holm: Option<f64>,
    /// Cost, tokens, duration and turns.
    pub metrics: Vec<MetricDifference>,
    /// Differences by case and variant, in the order of the second run.
    pub cases: Vec<CaseDifference>,
    /// Cases, with their variants, that only the first run has.
    pub only_in_a: Vec<String>,
    /// Cases that only the second run has.
    pub only_in_b: Vec<String>,
    /// Cases whose evaluators differ between the runs.
    pub judged_differently: Vec<String>,
}

/// One run of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ComparedRun {
    /// Id of the run.
    pub run: String,
    /// Name of the baseline, if it is one.
    pub baseline: Option<String>,
    /// The suite's or the case's name.
    pub name: String,
    /// Compared trials.
    pub trials: u64,
    /// Trials that passed.
    pub passed: u64,
    /// Trials that passed or failed.
    pub counted: u64,
    /// Trials that could not be graded.
    pub ungraded: u64,
    /// Trials that were excluded by infrastructure failures or are pending.
    pub lost: u64,
    /// Mean pass rate of the cases.
    pub pass_rate: Option<f64>,
    /// 95% confidence interval of the pass rate.
    pub interval: Option<Interval>,
    /// Probability that at least one of `k` trials passes, by `k`.
    pub pass_at_k: BTreeMap<u64, f64>,
    /// Probability that all of `k` trials pass, by `k`.
    pub pass_hat_k: BTreeMap<u64, f64>,
    /// Cases with passed and failed trials.
    pub flaky: Vec<String>,
}

/// The difference of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MetricDifference {
    /// The metric.
    pub metric: Metric,
    /// Mean of the first run, over the cases that have the metric in both runs.
    pub a: f64,
    /// Mean of the second run.
    pub b: f64,
    /// The mean difference.
    pub estimate: f64,
    /// Confidence interval, each bound one-sided at `alpha`; absent if unbounded.
    pub interval: Option<Interval>,
    /// Two-sided p-value of no difference.
    pub p_value: f64,
    /// P-value with Holm's correction for multiple comparisons.
    pub p_holm: f64,
    /// Method of the test.
    pub method: PValueMethod,
}

/// One case, with one variant, in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CaseDifference {
    /// The case.
    pub case: String,
    /// The first run's variant.
    pub variant_a: String,
    /// The second run's variant.
    pub variant_b: String,
    /// Summary of the first run.
    pub a: CaseSummary,
    /// Summary of the second run.
    pub b: CaseSummary,
}

/// One case in one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CaseSummary {
    /// Trials that passed.
    pub passed: u64,
    /// Trials that passed or failed.
    pub counted: u64,
    /// Trials that were excluded by infrastructure failures or are pending.
    pub lost: u64,
    /// Mean cost, if reported.
    pub cost_usd: Option<f64>,
    /// Mean number of tokens.
    pub tokens: Option<f64>,
    /// Mean duration.
    pub duration_ms: Option<f64>,
    /// Mean number of turns.
    pub turns: Option<f64>,
    /// Whether the case has passed and failed trials.
    pub flaky: bool,
}

/// Compares run `b` with run `a`.
///
/// # Errors
/// Returns an error when the runs have no common case or variant.
pub fn compare(
    a: &RecordedRun,
    b: &RecordedRun,
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    let paired = pairs::pairs(a, b, &options.variants)?;
    let (tally_a, tally_b) = (paired.tally(|pair| pair.a.tally), paired.tally(|pair| pair.b.tally));
    let scenarios = Scenarios::of([tally_a, tally_b], options.max_lost);
    let Scenarios { lost, unknown } = scenarios;
    let shown = difference(&paired, options, (false, false), ExcludedTrials::Omit);
    let found = scenarios.evaluate(|pass, lost| difference(&paired, options, pass, lost));
    let agreed = scenarios::agreed(found.iter().map(|found| found.map(|found| found.decision)));
    let answer =
        scenarios::agreed(found.iter().map(|found| found.map(|found| found.answer(&options.question))));
    let mut found = Comparison {
        version: VERSION.to_owned(),
        a: side(a, &paired, tally_a, |pair| &pair.a),
        b: side(b, &paired, tally_b, |pair| &pair.b),
        estimand: options.estimand,
        question: options.question,
        decision: agreed.unwrap_or(Decision::Inconclusive),
        reason: String::new(),
        answer: answer.unwrap_or_default(),
        answer_reason: String::new(),
        pass_rate: shown,
        pass_rate_p_holm: None,
        metrics: Metric::ALL
            .into_iter()
            .filter_map(|metric| paired.metric(metric, options.question.alpha))
            .collect(),
        cases: paired.pairs.iter().map(CasePair::difference).collect(),
        only_in_a: paired.only_in_a.clone(),
        only_in_b: paired.only_in_b.clone(),
        judged_differently: paired.judged_differently(),
    };
    found.apply_holm_correction();
    if let Some(shown) = &mut found.pass_rate
        && agreed == Some(Decision::Inconclusive)
        && options.estimand == Estimand::Suite
    {
        shown.more = yb_stats::additional_repeats(
            &counted(&paired, (false, false), ExcludedTrials::Omit),
            &options.question,
        );
    }
    // Too many excluded trials take precedence as the reason, even if the rest is inconclusive too.
    let is_decided =
        agreed.is_some_and(|agreed| agreed != Decision::Inconclusive || lost == ExcludedTrials::Omit);
    let trouble = if is_decided { [0, 0] } else { unknown };
    found.reason = reason::reason(&found, trouble, lost, options.max_lost);
    found.answer_reason = found.answer_in_words();
    Ok(found)
}

/// The cases that two runs have in common, for decisions about single cases.
pub(crate) struct PairedCases {
    /// The cases, in the order of the second run.
    pub(crate) cases: Vec<PairedCase>,
    /// Cases that only the first run has.
    pub(crate) only_before: Vec<String>,
    excluded: ExcludedTrials,
}

/// One case, with one variant, in both runs.
pub(crate) struct PairedCase {
    pub(crate) label: String,
    pub(crate) a: OutcomeCounts,
    pub(crate) b: OutcomeCounts,
    deterministic: bool,
}

impl PairedCases {
    /// Returns the passes, once for each way to count the trials without a known result.
    pub(crate) fn readings(&self) -> Vec<Vec<CasePasses>> {
        let reading = |pass: (bool, bool)| -> Vec<CasePasses> {
            let one = |case: &PairedCase| CasePasses {
                pair: PassPair {
                    a: case.a.passes(pass.0, self.excluded),
                    b: case.b.passes(pass.1, self.excluded),
                },
                deterministic: case.deterministic,
            };
            self.cases.iter().map(one).collect()
        };
        let mut all: Vec<_> =
            [(false, false), (false, true), (true, false), (true, true)].map(reading).to_vec();
        all.dedup();
        all
    }
}

/// Pairs the cases of two runs by name.
///
/// # Errors
/// Returns an error when the runs have no common case or variant.
pub(crate) fn paired_cases(
    a: &RecordedRun,
    b: &RecordedRun,
    max_lost: f64,
) -> Result<PairedCases, CompareError> {
    let paired = pairs::pairs(a, b, &[])?;
    let totals = [paired.tally(|pair| pair.a.tally), paired.tally(|pair| pair.b.tally)];
    let cases = paired.pairs.iter().map(|pair| PairedCase {
        label: pair.b.label.clone(),
        a: pair.a.tally,
        b: pair.b.tally,
        deterministic: pair.replays_the_same_tapes(),
    });
    Ok(PairedCases {
        cases: cases.collect(),
        excluded: Scenarios::of(totals, max_lost).lost,
        only_before: paired.only_in_a,
    })
}

/// Returns the passes of each pair. `pass` says for each run whether its unknown trials count as passed.
fn counted(paired: &PairedRuns, pass: (bool, bool), lost: ExcludedTrials) -> Vec<PassPair> {
    let one = |pair: &CasePair| PassPair {
        a: pair.a.tally.passes(pass.0, lost),
        b: pair.b.tally.passes(pass.1, lost),
    };
    paired.pairs.iter().map(one).collect()
}

fn difference(
    paired: &PairedRuns,
    options: &CompareOptions,
    pass: (bool, bool),
    lost: ExcludedTrials,
) -> Option<Difference> {
    let counted = counted(paired, pass, lost);
    match options.estimand {
        Estimand::Suite => yb_stats::compare_suite(&counted, &options.question),
        Estimand::NewCases => yb_stats::compare_new_cases(&paired.by_case(&counted), &options.question),
    }
}

fn side(
    of: &RecordedRun,
    paired: &PairedRuns,
    tally: OutcomeCounts,
    arm: impl Fn(&CasePair) -> &pairs::CaseArm,
) -> ComparedRun {
    let passes: Vec<_> =
        paired.pairs.iter().map(|pair| arm(pair).tally.passes(false, ExcludedTrials::Omit)).collect();
    let rate = yb_stats::mean_pass_rate(&passes, CONFIDENCE);
    // Limited by the case with the fewest trials, so that all values cover the same cases.
    let least =
        paired.pairs.iter().map(|pair| pair.a.tally.counted().min(pair.b.tally.counted())).min().unwrap_or(0);
    let by_k = |of: &dyn Fn(u64) -> Option<f64>| {
        let ks = [1, 2, 3, 5, 10, 20, 50, 100].into_iter().filter(|k| *k <= least);
        ks.filter_map(|k| Some((k, of(k)?))).collect::<BTreeMap<u64, f64>>()
    };
    ComparedRun {
        run: of.results.run.clone(),
        baseline: of.baseline.clone(),
        name: of.results.name.clone(),
        trials: tally.all(),
        passed: tally.passed,
        counted: tally.counted(),
        ungraded: tally.unknown,
        lost: tally.excluded,
        pass_rate: rate.map(|(rate, _)| rate),
        interval: rate.map(|(_, interval)| interval),
        pass_at_k: by_k(&|k| yb_stats::pass_at_k(&passes, k)),
        pass_hat_k: by_k(&|k| yb_stats::pass_hat_k(&passes, k)),
        flaky: paired
            .pairs
            .iter()
            .filter(|pair| arm(pair).tally.is_flaky())
            .map(|pair| arm(pair).label.clone())
            .collect(),
    }
}

impl Comparison {
    /// Names the better side: by its variant if all pairs have the same two, else by its run.
    fn answer_in_words(&self) -> String {
        let pair = |case: &CaseDifference| (case.variant_a.clone(), case.variant_b.clone());
        let variants = self.cases.first().map(pair).filter(|(a, b)| a != b);
        let variants = variants.filter(|first| self.cases.iter().all(|case| pair(case) == *first));
        let run = |side: &ComparedRun| side.baseline.clone().unwrap_or_else(|| side.run.clone());
        let (a, b) = variants.unwrap_or_else(|| (run(&self.a), run(&self.b)));
        let sides = reason::Sides { a: &a, b: &b, rates: (self.a.pass_rate, self.b.pass_rate) };
        reason::answer_sentence(
            self.answer,
            &sides,
            self.pass_rate.as_ref(),
            &self.question,
            self.question.alpha,
        )
    }

    /// Sets the Holm-corrected p-values of the pass rate and all metrics.
    fn apply_holm_correction(&mut self) {
        let own = self.pass_rate.and_then(|found| found.p_value);
        let all: Vec<f64> = own.into_iter().chain(self.metrics.iter().map(|metric| metric.p_value)).collect();
        let mut adjusted = yb_stats::holm(&all).into_iter();
        self.pass_rate_p_holm = own.and_then(|_| adjusted.next());
        for (metric, p_holm) in self.metrics.iter_mut().zip(adjusted) {
            metric.p_holm = p_holm;
        }
    }

    /// Returns the JSON Schema as pretty-printed JSON with a final line break.
    #[must_use]
    pub fn schema() -> String {
        format!("{:#}\n", schemars::schema_for!(Self).to_value())
    }
}
