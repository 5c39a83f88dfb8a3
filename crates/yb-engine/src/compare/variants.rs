//! The variants of one run: a total of each, which one is better, and the main effects of factors.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yb_figures::{level, percent};

use super::effects::{self, FactorEffect};
use super::lift::{self, Activation, Lift};
use super::pairs::{CaseArm, Metric, arms};
use super::reason::{Sides, answer_sentence};
use super::{CONFIDENCE, MAX_LOST, scenarios};
use crate::run::RunResults;
use yb_stats::{Answer, ExcludedTrials, Interval, OutcomeCounts, RegressionCriteria};

/// The totals and the comparison of the variants of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct VariantSummary {
    /// Totals, in plan order.
    pub totals: Vec<VariantTotal>,
    /// Main effects of the factors, by factor and metric; empty without factors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<FactorEffect>,
    /// How often the plugins, skills, MCP servers, agents and instructions of each variant were loaded and used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activations: Vec<Activation>,
    /// The lifts of variants with add-ons over the one without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lifts: Vec<Lift>,
    /// The lifts, and which variant, or which level of each factor, has the higher pass rate: a sentence each.
    pub answers: Vec<String>,
}

/// The total of a variant over all cases, each with the same weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct VariantTotal {
    /// The variant.
    pub variant: String,
    /// Trials that passed.
    pub passed: u64,
    /// Trials that passed or failed.
    pub counted: u64,
    /// Trials that were excluded by infrastructure failures or are pending.
    pub lost: u64,
    /// Mean pass rate of the cases.
    pub pass_rate: Option<f64>,
    /// 95% confidence interval of the pass rate.
    pub interval: Option<Interval>,
    /// Mean cost of a trial, if reported.
    pub cost_usd: Option<f64>,
    /// Mean number of tokens of a trial, if reported.
    pub tokens: Option<f64>,
    /// Mean duration of a trial.
    pub duration_ms: Option<f64>,
}

/// A table for a terminal or a report.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummaryTable {
    /// The title.
    pub title: &'static str,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl VariantSummary {
    /// Returns the summary of a run; `None` with fewer than two variants or without results.
    #[must_use]
    pub fn of(results: &RunResults) -> Option<Self> {
        let mut names: Vec<&str> = Vec::new();
        for trial in &results.trials {
            if !names.contains(&trial.variant.as_str()) {
                names.push(&trial.variant);
            }
        }
        if names.len() < 2 || results.done == 0 {
            return None;
        }
        let arms = arms(results);
        let totals: Vec<VariantTotal> = names.iter().map(|name| total(name, &arms)).collect();
        let criteria = RegressionCriteria::default();
        let (effects, mut answers) = match &results.design {
            Some(design) => effects::of(design, &arms, &criteria),
            None => (Vec::new(), vec![best(&totals, &arms, &criteria)]),
        };
        let lifts = match &results.design {
            Some(_) => Vec::new(),
            None => lift::lifts(&names, results, &arms, &criteria),
        };
        let differences = super::drift::differences(results);
        let first = lifts.iter().map(|lift| lift.sentence.clone()).chain(differences);
        answers.splice(0..0, first.collect::<Vec<_>>());
        Some(Self { totals, effects, activations: lift::activations(results), lifts, answers })
    }

    /// Returns the totals, and the effects if there are any, as tables.
    #[must_use]
    pub fn tables(&self) -> Vec<SummaryTable> {
        let interval = format!("{} interval", level(CONFIDENCE));
        let header = ["variant", "passed", "pass rate", &interval, "cost", "tokens"];
        let rows = self.totals.iter().map(|total| {
            let metric = |metric: Metric, value: Option<f64>| {
                value.map(|value| metric.amount(value)).unwrap_or_default()
            };
            let interval = total.interval.filter(|_| total.counted > 0);
            vec![
                total.variant.clone(),
                format!("{}/{}", total.passed, total.counted),
                total.pass_rate.map(percent).unwrap_or_default(),
                interval
                    .map(|ends| format!("{} to {}", percent(ends.lower), percent(ends.upper)))
                    .unwrap_or_default(),
                metric(Metric::CostUsd, total.cost_usd),
                metric(Metric::Tokens, total.tokens),
            ]
        });
        let totals = SummaryTable {
            title: "Variants",
            header: header.iter().map(ToString::to_string).collect(),
            rows: rows.collect(),
        };
        let add_ons = (!self.activations.is_empty()).then(|| activation_table(&self.activations));
        [Some(totals), add_ons, effects::table(&self.effects)].into_iter().flatten().collect()
    }
}

/// Returns how often add-ons were loaded and used.
fn activation_table(activations: &[Activation]) -> SummaryTable {
    let row = |one: &Activation| {
        let known = one.trials - one.missing - one.unknown;
        vec![
            one.variant.clone(),
            one.kind.to_string(),
            one.name.clone(),
            format!("{}/{}", one.proven, one.trials),
            if known > 0 { format!("{}/{known}", one.used) } else { String::new() },
            one.rate().map(percent).unwrap_or_default(),
        ]
    };
    SummaryTable {
        title: "Add-ons",
        header: ["variant", "kind", "add-on", "loaded", "used", "activation rate"]
            .map(str::to_owned)
            .to_vec(),
        rows: activations.iter().map(row).collect(),
    }
}

fn total(variant: &str, arms: &BTreeMap<(String, String), CaseArm>) -> VariantTotal {
    let own: Vec<&CaseArm> =
        arms.iter().filter(|((_, name), _)| name == variant).map(|(_, arm)| arm).collect();
    let tally = own.iter().map(|arm| arm.tally).fold(OutcomeCounts::default(), OutcomeCounts::plus);
    let passes: Vec<_> = own.iter().map(|arm| arm.tally.passes(false, ExcludedTrials::Omit)).collect();
    let rate = yb_stats::mean_pass_rate(&passes, CONFIDENCE);
    let mean = |metric: Metric| {
        let means: Vec<f64> = own.iter().filter_map(|arm| arm.mean(metric)).collect();
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    };
    VariantTotal {
        variant: variant.to_owned(),
        passed: tally.passed,
        counted: tally.counted(),
        lost: tally.excluded,
        pass_rate: rate.map(|(rate, _)| rate),
        interval: rate.map(|(_, interval)| interval),
        cost_usd: mean(Metric::CostUsd),
        tokens: mean(Metric::Tokens),
        duration_ms: mean(Metric::DurationMs),
    }
}

/// Compares the variant with the highest pass rate with all others. It was chosen among all of them, so the error rate is divided
/// by the number of all pairs (Bonferroni).
fn best(
    totals: &[VariantTotal],
    arms: &BTreeMap<(String, String), CaseArm>,
    criteria: &RegressionCriteria,
) -> String {
    let rate = |total: &VariantTotal| total.pass_rate.unwrap_or(-1.0);
    let first = totals.iter().fold(None, |best: Option<&VariantTotal>, total| match best {
        Some(best) if rate(best) >= rate(total) => Some(best),
        _ => Some(total),
    });
    let Some(best) = first else { return String::new() };
    let count = totals.len();
    let corrected =
        RegressionCriteria::new(criteria.tolerance, criteria.alpha / (count * (count - 1) / 2) as f64);
    let strata = |other: &str, better: &str| -> Vec<(OutcomeCounts, OutcomeCounts)> {
        let of_other = arms.iter().filter(|((_, name), _)| name == other);
        of_other
            .filter_map(|((case, _), arm)| {
                Some((arm.tally, arms.get(&(case.clone(), better.to_owned()))?.tally))
            })
            .collect()
    };
    let compared = |other: &VariantTotal| {
        scenarios::answer(&strata(&other.variant, &best.variant), &corrected, MAX_LOST)
    };
    if let [one, two] = totals {
        let (found, answer) = scenarios::answer(&strata(&one.variant, &two.variant), &corrected, MAX_LOST);
        let sides = Sides { a: &one.variant, b: &two.variant, rates: (one.pass_rate, two.pass_rate) };
        return answer_sentence(answer, &sides, found.as_ref(), &corrected, criteria.alpha);
    }
    let mut groups: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for other in totals.iter().filter(|other| other.variant != best.variant) {
        let place = match compared(other).1 {
            Answer::Better => 0,
            Answer::NoDifference => 1,
            _ => 2,
        };
        groups.entry(place).or_default().push(format!("`{}`", other.variant));
    }
    let tolerated = super::reason::tolerance(criteria.tolerance);
    let list = |place: usize| groups.get(&place).map(|names| names.join(", "));
    let parts = [
        list(0).map(|names| format!("better than {names}")),
        list(1).map(|names| format!("no difference beyond {tolerated} from {names}")),
        list(2).map(|names| format!("cannot tell from {names}")),
    ];
    format!(
        "`{}` has the highest pass rate: {} (error rate {} for all pairs together)",
        best.variant,
        parts.into_iter().flatten().collect::<Vec<_>>().join("; "),
        level(criteria.alpha)
    )
}
