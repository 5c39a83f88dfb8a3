//! Two runs side by side, paired by the names of their cases: what changed, and whether it got worse.

mod fold;
mod words;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fold::Metric;

use crate::baseline::Recorded;
use fold::{Pair, Sides};
use yb_stats::{Decision, Difference, Estimand, Interval, ExcludedTrials, PValueMethod, PassPair, RegressionCriteria, OutcomeCounts};

/// The format of a comparison; a newer major is not read.
const VERSION: &str = "1.0.0";
/// The share of trials that may be lost before the rest says nothing, unless told otherwise.
pub const MAX_LOST: f64 = 0.05;
/// The confidence of intervals of one run's pass rate.
const CONFIDENCE: f64 = 0.95;

/// How to compare.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// What the answer is about.
    pub estimand: Estimand,
    /// How sure one has to be, and of what.
    pub question: RegressionCriteria,
    /// The share of trials that may be lost.
    pub max_lost: f64,
    /// Which variant of the first run belongs to which of the second; empty pairs equal names.
    pub variants: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            estimand: Estimand::default(),
            question: RegressionCriteria::default(),
            max_lost: MAX_LOST,
            variants: Vec::new(),
        }
    }
}

/// Why two runs can't be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// They have no case in common.
    #[error("`{a}` and `{b}` have no case in common")]
    NoCommonCase {
        /// The first run.
        a: String,
        /// The second run.
        b: String,
    },
    /// They have cases in common, but no variant.
    #[error("`{a}` and `{b}` have no variant in common")]
    NoCommonVariant {
        /// The first run.
        a: String,
        /// The second run.
        b: String,
        /// The first run's variants.
        of_a: Vec<String>,
        /// The second run's.
        of_b: Vec<String>,
    },
    /// A variant that a run does not have.
    #[error("`{run}` has no variant `{name}`")]
    NoSuchVariant {
        /// The run.
        run: String,
        /// As it was written.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
}

impl CompareError {
    /// The ways out, where there are any to name.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let list =
            |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        match self {
            Self::NoCommonCase { .. } => vec!["cases are paired by their names".to_owned()],
            Self::NoCommonVariant { of_a, of_b, .. } => {
                let first = |names: &[String]| names.first().cloned().unwrap_or_default();
                vec![
                    format!("there are {} and {}", list(of_a), list(of_b)),
                    format!("say which belong together: `--variant {}={}`", first(of_a), first(of_b)),
                ]
            }
            Self::NoSuchVariant { known, .. } => vec![format!("there are: {}", list(known))],
        }
    }
}

/// Two runs side by side; differences are the second's minus the first's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Comparison {
    /// Of this format.
    pub version: String,
    /// The run that is compared with.
    pub a: Side,
    /// The run that is looked at.
    pub b: Side,
    /// What the answer is about.
    pub estimand: Estimand,
    /// How sure one has to be, and of what.
    pub question: RegressionCriteria,
    /// The answer.
    pub decision: Decision,
    /// The answer in one sentence.
    pub reason: String,
    /// The difference of the pass rates; absent if no case has results in both runs.
    pub pass_rate: Option<Difference>,
    /// The p-value of the pass rate and of each metric once there are several: Holm's.
    pub pass_rate_p_holm: Option<f64>,
    /// Cost, tokens, duration and turns.
    pub metrics: Vec<MetricDifference>,
    /// Case by case, and variant by variant, in the order of the second run.
    pub cases: Vec<CaseDifference>,
    /// Cases, with their variants, that only the first run has.
    pub only_in_a: Vec<String>,
    /// That only the second has.
    pub only_in_b: Vec<String>,
    /// That the two runs judge by different rules.
    pub judged_differently: Vec<String>,
}

/// One run of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Side {
    /// Its id.
    pub run: String,
    /// The baseline's name, if it was compared as one.
    pub baseline: Option<String>,
    /// The suite's or the case's name.
    pub name: String,
    /// Trials that belong to the comparison.
    pub trials: u64,
    /// Of these: passed.
    pub passed: u64,
    /// That count.
    pub counted: u64,
    /// That could not be graded.
    pub ungraded: u64,
    /// That were lost, or are still to do.
    pub lost: u64,
    /// The mean pass rate of the cases.
    pub pass_rate: Option<f64>,
    /// Where that of such cases lies, with 95 % confidence.
    pub interval: Option<Interval>,
    /// The chance that at least one of `k` tries passes, by `k`.
    pub pass_at_k: BTreeMap<u64, f64>,
    /// The chance that all of `k` tries pass, by `k`.
    pub pass_hat_k: BTreeMap<u64, f64>,
    /// Cases that passed at one time and failed at another.
    pub flaky: Vec<String>,
}

/// A figure in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MetricDifference {
    /// Which.
    pub metric: Metric,
    /// The mean over the cases that have it in both runs.
    pub a: f64,
    /// The same of the second run.
    pub b: f64,
    /// The mean difference.
    pub estimate: f64,
    /// Each end one-sided at `alpha`; absent where there is no bound.
    pub interval: Option<Interval>,
    /// Of no difference, two-sided.
    pub p_value: f64,
    /// The same once there are several: Holm's.
    pub p_holm: f64,
    /// How they came about.
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
    /// The second run's.
    pub variant_b: String,
    /// What it came to in the first run.
    pub a: CaseSide,
    /// And in the second.
    pub b: CaseSide,
}

/// One case in one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CaseSide {
    /// Trials that passed.
    pub passed: u64,
    /// That count.
    pub counted: u64,
    /// That were lost, or are still to do.
    pub lost: u64,
    /// Their mean cost, if they told it.
    pub cost_usd: Option<f64>,
    /// Their mean number of tokens.
    pub tokens: Option<f64>,
    /// Their mean duration.
    pub duration_ms: Option<f64>,
    /// Their mean number of turns.
    pub turns: Option<f64>,
    /// Whether it passed at one time and failed at another.
    pub flaky: bool,
}

/// Compares `b` with `a`.
///
/// # Errors
/// When they have nothing in common.
pub fn compare(a: &Recorded, b: &Recorded, options: &Options) -> Result<Comparison, CompareError> {
    let sides = fold::pairs(a, b, &options.variants)?;
    let (tally_a, tally_b) = (sides.tally(|pair| pair.a.tally), sides.tally(|pair| pair.b.tally));
    let too_many =
        |tally: OutcomeCounts| tally.excluded as f64 > options.max_lost * tally.all() as f64 + 1e-9;
    let lost = if too_many(tally_a) || too_many(tally_b) {
        ExcludedTrials::TreatAsUnknown
    } else {
        ExcludedTrials::Omit
    };
    let unknown = [tally_a, tally_b]
        .map(|tally| tally.unknown + if lost == ExcludedTrials::TreatAsUnknown { tally.excluded } else { 0 });
    let shown = difference(&sides, options, (false, false), ExcludedTrials::Omit);
    let answers: Vec<Option<Decision>> = if unknown == [0, 0] {
        vec![shown.map(|shown| shown.decision)]
    } else {
        let both = [(false, false), (false, true), (true, false), (true, true)];
        both.map(|pass| difference(&sides, options, pass, lost).map(|found| found.decision)).to_vec()
    };
    let agreed =
        answers.first().copied().flatten().filter(|first| answers.iter().all(|one| *one == Some(*first)));
    let mut found = Comparison {
        version: VERSION.to_owned(),
        a: side(a, &sides, tally_a, |pair| &pair.a),
        b: side(b, &sides, tally_b, |pair| &pair.b),
        estimand: options.estimand,
        question: options.question,
        decision: agreed.unwrap_or(Decision::Inconclusive),
        reason: String::new(),
        pass_rate: shown,
        pass_rate_p_holm: None,
        metrics: Metric::ALL
            .into_iter()
            .filter_map(|metric| sides.metric(metric, options.question.alpha))
            .collect(),
        cases: sides.pairs.iter().map(Pair::shown).collect(),
        only_in_a: sides.only_in_a.clone(),
        only_in_b: sides.only_in_b.clone(),
        judged_differently: sides.judged_differently(),
    };
    found.adjust();
    if let Some(shown) = &mut found.pass_rate
        && agreed == Some(Decision::Inconclusive)
        && options.estimand == Estimand::Suite
    {
        shown.more = yb_stats::additional_repeats(
            &counted(&sides, (false, false), ExcludedTrials::Omit),
            &options.question,
        );
    }
    // Too many that are lost are the first thing to say, also where the rest would not tell either.
    let told = agreed.is_some_and(|agreed| agreed != Decision::Inconclusive || lost == ExcludedTrials::Omit);
    let trouble = if told { [0, 0] } else { unknown };
    found.reason = words::reason(&found, trouble, lost, options.max_lost);
    Ok(found)
}

/// The passes of each pair; those of which nobody knows are passes in the first run, in the second, or in neither.
fn counted(sides: &Sides, pass: (bool, bool), lost: ExcludedTrials) -> Vec<PassPair> {
    let one =
        |pair: &Pair| PassPair { a: pair.a.tally.passes(pass.0, lost), b: pair.b.tally.passes(pass.1, lost) };
    sides.pairs.iter().map(one).collect()
}

fn difference(
    sides: &Sides,
    options: &Options,
    pass: (bool, bool),
    lost: ExcludedTrials,
) -> Option<Difference> {
    let counted = counted(sides, pass, lost);
    match options.estimand {
        Estimand::Suite => yb_stats::compare_suite(&counted, &options.question),
        Estimand::NewCases => yb_stats::compare_new_cases(&sides.by_case(&counted), &options.question),
    }
}

fn side(of: &Recorded, sides: &Sides, tally: OutcomeCounts, arm: impl Fn(&Pair) -> &fold::Arm) -> Side {
    let passes: Vec<_> =
        sides.pairs.iter().map(|pair| arm(pair).tally.passes(false, ExcludedTrials::Omit)).collect();
    let rate = yb_stats::mean_pass_rate(&passes, CONFIDENCE);
    // No further than every case goes, in both runs: so all numbers are about the same cases.
    let least =
        sides.pairs.iter().map(|pair| pair.a.tally.counted().min(pair.b.tally.counted())).min().unwrap_or(0);
    let by_k = |of: &dyn Fn(u64) -> Option<f64>| {
        let ks = [1, 2, 3, 5, 10, 20, 50, 100].into_iter().filter(|k| *k <= least);
        ks.filter_map(|k| Some((k, of(k)?))).collect::<BTreeMap<u64, f64>>()
    };
    Side {
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
        flaky: sides
            .pairs
            .iter()
            .filter(|pair| arm(pair).tally.is_flaky())
            .map(|pair| arm(pair).label.clone())
            .collect(),
    }
}

impl Comparison {
    /// Holm's p-values, over the pass rate and all metrics.
    fn adjust(&mut self) {
        let own = self.pass_rate.and_then(|found| found.p_value);
        let all: Vec<f64> = own.into_iter().chain(self.metrics.iter().map(|metric| metric.p_value)).collect();
        let mut adjusted = yb_stats::holm(&all).into_iter();
        self.pass_rate_p_holm = own.and_then(|_| adjusted.next());
        for (metric, p_holm) in self.metrics.iter_mut().zip(adjusted) {
            metric.p_holm = p_holm;
        }
    }

    /// The JSON Schema, as pretty JSON that ends with a line break.
    #[must_use]
    pub fn schema() -> String {
        format!("{:#}\n", schemars::schema_for!(Self).to_value())
    }
}
