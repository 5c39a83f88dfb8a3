//! Main effects of factors: the mean difference between trials with one level and with another.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yb_figures::{level, p_value, points, points_range};

use super::pairs::{CaseArm, Metric};
use super::reason::{Sides, answer_sentence};
use super::variants::SummaryTable;
use super::{MAX_LOST, scenarios};
use yb_stats::{Answer, FactorialDesign, Interval, OutcomeCounts, RegressionCriteria, ValuePair};

/// The metrics of effects besides the pass rate.
const METRICS: [Metric; 3] = [Metric::CostUsd, Metric::Tokens, Metric::DurationMs];

/// The main effect of a level of a factor, compared with the first level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct FactorEffect {
    /// The factor.
    pub factor: String,
    /// The first level, with which the other is compared.
    pub reference: String,
    /// The level.
    pub level: String,
    /// The metric; absent for the pass rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The mean difference: level minus reference.
    pub estimate: f64,
    /// Bounds that hold for all effects on the metric together; absent if unbounded.
    pub interval: Option<Interval>,
    /// Two-sided p-value of no effect.
    pub p_value: Option<f64>,
    /// P-value with Holm's correction for the number of effects on the metric.
    pub p_holm: Option<f64>,
    /// Whether the level is better than the reference, corrected for the number of effects; for the pass rate only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// The trials of one stratum with either level.
#[derive(Default)]
struct Stratum<'a> {
    a: Vec<&'a CaseArm>,
    b: Vec<&'a CaseArm>,
}

impl Stratum<'_> {
    fn tallies(&self) -> (OutcomeCounts, OutcomeCounts) {
        let sum = |arms: &[&CaseArm]| {
            arms.iter().map(|arm| arm.tally).fold(OutcomeCounts::default(), OutcomeCounts::plus)
        };
        (sum(&self.a), sum(&self.b))
    }

    fn values(&self, metric: Metric) -> ValuePair {
        let values = |arms: &[&CaseArm]| arms.iter().flat_map(|arm| arm.values(metric)).copied().collect();
        ValuePair { a: values(&self.a), b: values(&self.b) }
    }
}

/// Returns the effects of all factors, and a sentence for each on the pass rate. The error rate is divided by the number of
/// effects, so the bounds hold simultaneously (Bonferroni).
pub(super) fn of(
    design: &FactorialDesign,
    arms: &BTreeMap<(String, String), CaseArm>,
    criteria: &RegressionCriteria,
) -> (Vec<FactorEffect>, Vec<String>) {
    let mut seen: Vec<&str> = arms.keys().map(|(_, variant)| variant.as_str()).collect();
    seen.sort_unstable();
    seen.dedup();
    let planned = design.variants.len();
    if design.variants.keys().any(|variant| !seen.contains(&variant.as_str())) {
        let message =
            format!("effects need all {planned} combinations of the design; this run has {}", seen.len());
        return (Vec::new(), vec![message]);
    }
    let contrasts: Vec<(usize, usize)> = design
        .factors
        .iter()
        .enumerate()
        .flat_map(|(factor, levels)| (1..levels.levels.len()).map(move |level| (factor, level)))
        .collect();
    let corrected =
        RegressionCriteria::new(criteria.tolerance, criteria.alpha / contrasts.len().max(1) as f64);
    let (mut effects, mut answers) = (Vec::new(), vec![format!("design: {design}")]);
    for (factor, level) in &contrasts {
        let (effect, sentence) = pass_rate(design, (*factor, *level), arms, &corrected, criteria.alpha);
        effects.extend(effect);
        answers.push(sentence);
    }
    apply_holm(&mut effects);
    for metric in METRICS {
        let shifts =
            contrasts.iter().filter_map(|contrast| shift(design, *contrast, arms, metric, corrected.alpha));
        let mut of_metric: Vec<FactorEffect> = shifts.collect();
        apply_holm(&mut of_metric);
        effects.append(&mut of_metric);
    }
    (effects, answers)
}

/// Groups the trials of a contrast. With all combinations of levels, each has a counterpart that differs in this factor alone; a
/// fraction is balanced over the other factors only as a whole.
fn strata<'a>(
    design: &FactorialDesign,
    (factor, level): (usize, usize),
    arms: &'a BTreeMap<(String, String), CaseArm>,
) -> Vec<Stratum<'a>> {
    let names = &design.factors[factor].levels;
    let mut strata: BTreeMap<(&str, Vec<&str>), Stratum<'a>> = BTreeMap::new();
    for ((case, variant), arm) in arms {
        let Some(levels) = design.variants.get(variant) else { continue };
        let others = levels.iter().enumerate().filter(|(at, _)| *at != factor && design.resolution.is_none());
        let key = (case.as_str(), others.map(|(_, name)| name.as_str()).collect());
        if levels.get(factor) == names.first() {
            strata.entry(key).or_default().a.push(arm);
        } else if levels.get(factor) == names.get(level) {
            strata.entry(key).or_default().b.push(arm);
        }
    }
    strata.into_values().filter(|stratum| !stratum.a.is_empty() && !stratum.b.is_empty()).collect()
}

fn blank(design: &FactorialDesign, (factor, level): (usize, usize)) -> FactorEffect {
    let factor = &design.factors[factor];
    FactorEffect {
        factor: factor.name.clone(),
        reference: factor.levels[0].clone(),
        level: factor.levels[level].clone(),
        metric: None,
        estimate: 0.0,
        interval: None,
        p_value: None,
        p_holm: None,
        answer: None,
    }
}

fn pass_rate(
    design: &FactorialDesign,
    contrast: (usize, usize),
    arms: &BTreeMap<(String, String), CaseArm>,
    corrected: &RegressionCriteria,
    alpha: f64,
) -> (Option<FactorEffect>, String) {
    let effect = blank(design, contrast);
    let tallies: Vec<_> = strata(design, contrast, arms).iter().map(Stratum::tallies).collect();
    let (found, answer) = scenarios::answer(&tallies, corrected, MAX_LOST);
    let rate = |side: fn(&(OutcomeCounts, OutcomeCounts)) -> OutcomeCounts| {
        let rates: Vec<f64> = tallies
            .iter()
            .filter_map(|pair| side(pair).passes(false, yb_stats::ExcludedTrials::Omit).rate())
            .collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    };
    let sides =
        Sides { a: &effect.reference, b: &effect.level, rates: (rate(|pair| pair.0), rate(|pair| pair.1)) };
    let sentence = answer_sentence(answer, &sides, found.as_ref(), corrected, alpha);
    let sentence = format!("{}: {sentence}", effect.factor);
    let effect = found.map(|found| FactorEffect {
        estimate: found.estimate,
        interval: found.interval,
        p_value: found.p_value,
        answer: Some(answer),
        ..effect
    });
    (effect, sentence)
}

fn shift(
    design: &FactorialDesign,
    contrast: (usize, usize),
    arms: &BTreeMap<(String, String), CaseArm>,
    metric: Metric,
    alpha: f64,
) -> Option<FactorEffect> {
    let values: Vec<ValuePair> =
        strata(design, contrast, arms).iter().map(|stratum| stratum.values(metric)).collect();
    let found = yb_stats::location_shift(&values, alpha)?;
    let interval = Interval { lower: found.lower, upper: found.upper };
    Some(FactorEffect {
        metric: Some(metric),
        estimate: found.estimate,
        interval: (interval.lower.is_finite() && interval.upper.is_finite()).then_some(interval),
        p_value: Some(found.p_value),
        ..blank(design, contrast)
    })
}

fn apply_holm(effects: &mut [FactorEffect]) {
    let values: Vec<f64> = effects.iter().filter_map(|effect| effect.p_value).collect();
    let tested = effects.iter_mut().filter(|effect| effect.p_value.is_some());
    for (effect, adjusted) in tested.zip(yb_stats::holm(&values)) {
        effect.p_holm = Some(adjusted);
    }
}

/// Returns a table with a row for each effect.
pub(super) fn table(effects: &[FactorEffect]) -> Option<SummaryTable> {
    let rows = effects.iter().map(|effect| {
        let show = |value: f64| match effect.metric {
            None => points(value),
            Some(metric) => metric.change(value),
        };
        let bounds = effect.interval.map(|ends| match effect.metric {
            None => points_range(ends.lower, ends.upper),
            Some(_) => format!("{} to {}", show(ends.lower), show(ends.upper)),
        });
        vec![
            effect.factor.clone(),
            format!("{} → {}", effect.reference, effect.level),
            effect.metric.map_or("pass rate", Metric::label).to_owned(),
            show(effect.estimate),
            bounds.unwrap_or_default(),
            effect.p_holm.map(p_value).unwrap_or_default(),
        ]
    });
    let bounds = format!("{} bounds", level(1.0 - RegressionCriteria::default().alpha));
    (!effects.is_empty()).then(|| SummaryTable {
        title: "Effects",
        header: ["factor", "levels", "metric", "effect", &bounds, "p (Holm)"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    })
}
