//! Gates of a suite: minimum pass rate, maximum cost and the like, from the suite file or `--gate KEY=VALUE`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use yb_stats::{Estimand, RegressionCriteria};

use crate::Isolation;
use crate::shape::list_of;

/// The values of the gate `isolation`, strongest first.
pub const LEVELS: &[&str] = &["bubblewrap", "landlock", "external"];
/// The values of `estimand`.
pub const ESTIMANDS: &[&str] = &["suite", "new-cases"];
/// The values of `on_inconclusive`.
pub const ON_INCONCLUSIVE: &[&str] = &["cannot_tell", "pass", "fail"];
/// The values of `if_missing`.
pub const IF_MISSING: &[&str] = &["error", "pass"];

/// Conditions on the results of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gates {
    /// Limits for all trials.
    #[serde(default)]
    pub limits: GateLimits,
    /// Comparison with another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_regression: Option<NoRegression>,
    /// Comparison of each case with another run: none may lose all its passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_case_dies: Option<CaseComparison>,
    /// Comparison of each case with another run: the largest drop of a case's pass rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_case: Option<PerCase>,
    /// The minimum lift of one variant over another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_lift: Option<MinLift>,
    /// Limits for the cases with a tag, by tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, GateLimits>,
    /// Limits for the trials of a variant, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, GateLimits>,
    /// Limits for the verdicts of one evaluator, by the evaluator's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evaluators: BTreeMap<String, EvaluatorLimits>,
}

/// The minimum lift of one variant over another in the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MinLift {
    /// The variant that has to be better.
    pub of: String,
    /// The variant that it is compared with.
    pub over: String,
    /// The lift that has to be exceeded, in percentage points.
    pub points: f64,
    /// The significance level.
    pub alpha: f64,
    /// The outcome when the comparison is inconclusive.
    pub on_inconclusive: OnInconclusive,
}

/// Limits for the verdicts of one evaluator.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct EvaluatorLimits {
    /// The minimum share of trials that the evaluator passes.
    pub min_pass_rate: f64,
}

/// Limits for a set of trials.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct GateLimits {
    /// The minimum pass rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_pass_rate: Option<f64>,
    /// The maximum total cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The maximum share of infrastructure failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lost: Option<f64>,
    /// The minimum isolation of every trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
}

/// A comparison of the pass rate with another run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoRegression {
    /// A baseline or a run.
    pub against: String,
    /// The largest drop that is not a regression.
    pub tolerance: f64,
    /// The significance level.
    pub alpha: f64,
    /// The population of the conclusion.
    pub estimand: Estimand,
    /// The outcome when the comparison is inconclusive.
    pub on_inconclusive: OnInconclusive,
    /// The outcome when there is no such baseline or run.
    #[serde(default)]
    pub if_missing: IfMissing,
}

/// A comparison of every single case with another run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseComparison {
    /// A baseline or a run.
    pub against: String,
    /// The probability of a false alarm, over all cases.
    pub alpha: f64,
    /// The outcome when the comparison is inconclusive.
    pub on_inconclusive: OnInconclusive,
    /// The outcome when there is no such baseline or run.
    #[serde(default)]
    pub if_missing: IfMissing,
}

impl Default for CaseComparison {
    /// Creates a comparison with the default values and an empty `against`.
    fn default() -> Self {
        Self {
            against: String::new(),
            alpha: RegressionCriteria::default().alpha,
            on_inconclusive: OnInconclusive::default(),
            if_missing: IfMissing::default(),
        }
    }
}

/// A limit for the drop of every single case.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PerCase {
    /// The largest accepted drop of a case's pass rate.
    pub max_drop: f64,
    /// The comparison.
    #[serde(flatten)]
    pub comparison: CaseComparison,
}

/// The outcome of a gate when the run to compare with does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfMissing {
    /// Nothing is started.
    #[default]
    Error,
    /// The gate passes: a first run can become the baseline.
    Pass,
}

impl IfMissing {
    /// Parses the value in suite files.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        match word {
            "error" => Some(Self::Error),
            "pass" => Some(Self::Pass),
            _ => None,
        }
    }
}

/// The outcome of a gate when its comparison is inconclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInconclusive {
    /// Inconclusive: exit code 5.
    #[default]
    CannotTell,
    /// The gate passes.
    Pass,
    /// The gate fails.
    Fail,
}

impl OnInconclusive {
    /// Parses the value in suite files.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        match word {
            "cannot_tell" => Some(Self::CannotTell),
            "pass" => Some(Self::Pass),
            "fail" => Some(Self::Fail),
            _ => None,
        }
    }
}

const KEYS: &[&str] = &["min_pass_rate", "max_cost_usd", "max_lost", "isolation"];

/// A gate from the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct GateOverride {
    key: String,
    value: String,
}

impl GateOverride {
    /// Parses `KEY=VALUE`.
    ///
    /// # Errors
    /// When the key or the value is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("expected `KEY=VALUE`, such as `min_pass_rate=0.9`")?;
        let setting = Self { key: key.to_owned(), value: value.to_owned() };
        setting.apply(&mut Gates::default())?;
        Ok(setting)
    }

    fn apply(&self, gates: &mut Gates) -> Result<(), String> {
        let (key, value) = (self.key.as_str(), self.value.as_str());
        if value.is_empty() {
            return Err(format!("expected a value after `{key}=`"));
        }
        if let Some(rest) = key.strip_prefix("tags.") {
            let (tag, key) = rest.rsplit_once('.').ok_or("expected `tags.TAG.KEY=VALUE`")?;
            return limit(gates.tags.entry(tag.to_owned()).or_default(), key, value);
        }
        if let Some(rest) = key.strip_prefix("variants.") {
            let (variant, key) = rest.rsplit_once('.').ok_or("expected `variants.NAME.KEY=VALUE`")?;
            return limit(gates.variants.entry(variant.to_owned()).or_default(), key, value);
        }
        if let Some(rest) = key.strip_prefix("evaluators.") {
            let name = rest
                .strip_suffix(".min_pass_rate")
                .filter(|name| !name.is_empty())
                .ok_or("expected `evaluators.NAME.min_pass_rate=VALUE`")?;
            let limits = EvaluatorLimits { min_pass_rate: share(value)? };
            gates.evaluators.insert(name.to_owned(), limits);
            return Ok(());
        }
        match key {
            "no_regression" | "no_regression.against" => {
                // The other keys of the comparison are kept.
                gates.comparison().against = value.to_owned();
                Ok(())
            }
            "no_regression.tolerance" => share(value).map(|share| gates.comparison().tolerance = share),
            "no_regression.alpha" => alpha(value).map(|alpha| gates.comparison().alpha = alpha),
            "no_regression.estimand" => {
                let estimand = Estimand::parse(value).ok_or_else(|| one_of(ESTIMANDS))?;
                gates.comparison().estimand = estimand;
                Ok(())
            }
            "no_regression.on_inconclusive" => {
                on_inconclusive(value).map(|word| gates.comparison().on_inconclusive = word)
            }
            "no_regression.if_missing" => if_missing(value).map(|word| gates.comparison().if_missing = word),
            "per_case.max_drop" => {
                share(value).map(|share| gates.per_case.get_or_insert_default().max_drop = share)
            }
            "per_case" => case_comparison(gates.per_case(), "against", value),
            "no_case_dies" => case_comparison(gates.no_case_dies.get_or_insert_default(), "against", value),
            key => match key.split_once('.') {
                Some(("per_case", key)) => case_comparison(gates.per_case(), key, value),
                Some(("no_case_dies", key)) => {
                    case_comparison(gates.no_case_dies.get_or_insert_default(), key, value)
                }
                _ => limit(&mut gates.limits, key, value),
            },
        }
    }
}

fn one_of(words: &[&str]) -> String {
    format!("expected one of {}", list_of(words.iter().copied()))
}

fn share(value: &str) -> Result<f64, String> {
    match value.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}

fn alpha(value: &str) -> Result<f64, String> {
    match value.parse::<f64>() {
        Ok(alpha) if (0.0001..=0.5).contains(&alpha) => Ok(alpha),
        _ => Err("expected a number from 0.0001 to 0.5".to_owned()),
    }
}

fn on_inconclusive(value: &str) -> Result<OnInconclusive, String> {
    OnInconclusive::read(value).ok_or_else(|| one_of(ON_INCONCLUSIVE))
}

fn if_missing(value: &str) -> Result<IfMissing, String> {
    IfMissing::read(value).ok_or_else(|| one_of(IF_MISSING))
}

fn case_comparison(comparison: &mut CaseComparison, key: &str, value: &str) -> Result<(), String> {
    match key {
        "against" => value.clone_into(&mut comparison.against),
        "alpha" => comparison.alpha = alpha(value)?,
        "on_inconclusive" => comparison.on_inconclusive = on_inconclusive(value)?,
        "if_missing" => comparison.if_missing = if_missing(value)?,
        _ => {
            let keys = list_of(["against", "alpha", "on_inconclusive", "if_missing"].into_iter());
            return Err(format!("expected {keys} after `no_case_dies.` or `per_case.`, found `{key}`"));
        }
    }
    Ok(())
}

fn limit(limits: &mut GateLimits, key: &str, value: &str) -> Result<(), String> {
    match key {
        "min_pass_rate" => limits.min_pass_rate = Some(share(value)?),
        "max_lost" => limits.max_lost = Some(share(value)?),
        "max_cost_usd" => match value.trim_start_matches('$').parse::<f64>() {
            Ok(usd) if usd >= 0.0 && usd.is_finite() => limits.max_cost_usd = Some(usd),
            _ => return Err("expected an amount, such as `2.50`".to_owned()),
        },
        "isolation" if LEVELS.contains(&value) => limits.isolation = Some(Isolation::read(value)),
        "isolation" => return Err(one_of(LEVELS)),
        _ => {
            let keys = list_of(KEYS.iter().copied());
            return Err(format!(
                "expected {keys}, `no_regression`, `no_case_dies`, `per_case`, `tags.TAG.KEY`, `variants.NAME.KEY` or `evaluators.NAME.min_pass_rate`, found `{key}`"
            ));
        }
    }
    Ok(())
}

impl Gates {
    /// Returns whether no gate is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the comparison; a new one has the default values and an empty `against`.
    fn comparison(&mut self) -> &mut NoRegression {
        let RegressionCriteria { tolerance, alpha } = RegressionCriteria::default();
        self.no_regression.get_or_insert_with(|| NoRegression {
            against: String::new(),
            tolerance,
            alpha,
            estimand: Estimand::default(),
            on_inconclusive: OnInconclusive::default(),
            if_missing: IfMissing::default(),
        })
    }

    fn per_case(&mut self) -> &mut CaseComparison {
        &mut self.per_case.get_or_insert_default().comparison
    }

    /// Returns the gates that compare with another run: name, run, and the outcomes without an answer.
    #[must_use]
    pub fn comparisons(&self) -> Vec<(&'static str, &str, OnInconclusive, IfMissing)> {
        let mut all = Vec::new();
        if let Some(one) = &self.no_regression {
            all.push(("no_regression", one.against.as_str(), one.on_inconclusive, one.if_missing));
        }
        let cases = [
            self.no_case_dies.as_ref().map(|one| ("no_case_dies", one)),
            self.per_case.as_ref().map(|one| ("per_case", &one.comparison)),
        ];
        for (gate, one) in cases.into_iter().flatten() {
            all.push((gate, one.against.as_str(), one.on_inconclusive, one.if_missing));
        }
        all
    }

    /// Applies the gates of the command line.
    ///
    /// # Errors
    /// When a comparison has no run to compare with.
    pub fn with(mut self, settings: &[GateOverride]) -> Result<Self, String> {
        for setting in settings {
            setting.apply(&mut self)?;
        }
        match self.comparisons().iter().find(|(_, against, ..)| against.is_empty()) {
            Some((gate, ..)) => Err(format!("no run to compare with: add `--gate {gate}=BASELINE`")),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_overrides_are_parsed_or_rejected_with_a_reason() {
        let all = [
            "min_pass_rate=0.9",
            "no_regression=main",
            "no_regression.alpha=0.1",
            "tags.a.b.max_lost=0",
            "evaluators.command-a.b.min_pass_rate=0.5",
        ];
        let settings: Vec<GateOverride> = all.iter().map(|text| GateOverride::parse(text).unwrap()).collect();
        let gates = Gates::default().with(&settings).unwrap();
        assert_eq!(gates.limits.min_pass_rate, Some(0.9));
        assert_eq!(
            gates.no_regression.map(|gate| (gate.against, gate.alpha)),
            Some(("main".to_owned(), 0.1))
        );
        assert_eq!(gates.tags["a.b"].max_lost, Some(0.0));
        assert_eq!(gates.evaluators["command-a.b"].min_pass_rate, 0.5);
        for (bad, expected) in [
            ("x", "expected `KEY=VALUE`, such as `min_pass_rate=0.9`"),
            ("min_pass_rate=90", "expected a number from 0 to 1"),
            ("min_pass_rate=", "expected a value after `min_pass_rate=`"),
            ("isolation=none", "expected one of `bubblewrap`, `landlock`, `external`"),
            ("tags.slow=1", "expected `tags.TAG.KEY=VALUE`"),
            ("evaluators.command=1", "expected `evaluators.NAME.min_pass_rate=VALUE`"),
            ("evaluators.command.min_pass_rate=2", "expected a number from 0 to 1"),
            ("no_regression.on_inconclusive=maybe", "expected one of `cannot_tell`, `pass`, `fail`"),
            (
                "pass_rate=1",
                "expected `min_pass_rate`, `max_cost_usd`, `max_lost`, `isolation`, `no_regression`, `no_case_dies`, `per_case`, `tags.TAG.KEY`, `variants.NAME.KEY` or `evaluators.NAME.min_pass_rate`, found `pass_rate`",
            ),
        ] {
            assert_eq!(GateOverride::parse(bad).unwrap_err(), expected);
        }
        for (alone, gate) in [
            ("no_regression.alpha=0.1", "no_regression"),
            ("no_case_dies.alpha=0.1", "no_case_dies"),
            ("per_case.max_drop=0.1", "per_case"),
        ] {
            let alone = GateOverride::parse(alone).unwrap();
            let error = Gates::default().with(&[alone]).unwrap_err();
            assert_eq!(error, format!("no run to compare with: add `--gate {gate}=BASELINE`"));
        }
    }

    #[test]
    fn gate_overrides_of_single_cases_are_parsed() {
        let all = ["no_case_dies=main", "per_case=old", "per_case.max_drop=0.3", "per_case.if_missing=pass"];
        let settings: Vec<GateOverride> = all.iter().map(|text| GateOverride::parse(text).unwrap()).collect();
        let gates = Gates::default().with(&settings).unwrap();
        assert_eq!(gates.no_case_dies.clone().map(|gate| gate.against), Some("main".to_owned()));
        let per_case = gates.per_case.clone().unwrap();
        assert_eq!((per_case.max_drop, per_case.comparison.if_missing), (0.3, IfMissing::Pass));
        assert_eq!(gates.comparisons().len(), 2);
        // Plans keep gates.
        let kept: Gates = serde_json::from_value(serde_json::to_value(&gates).unwrap()).unwrap();
        assert_eq!(kept, gates);
    }
}
