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

/// Conditions on the results of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gates {
    /// Limits for all trials.
    #[serde(default)]
    pub limits: GateLimits,
    /// Comparison with another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_regression: Option<NoRegression>,
    /// Limits for the cases with a tag, by tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, GateLimits>,
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
        match key {
            "no_regression" | "no_regression.against" => {
                // The other keys of the comparison are kept.
                gates.comparison().against = value.to_owned();
                Ok(())
            }
            "no_regression.tolerance" => share(value).map(|share| gates.comparison().tolerance = share),
            "no_regression.alpha" => match value.parse::<f64>() {
                Ok(alpha) if (0.0001..=0.5).contains(&alpha) => {
                    gates.comparison().alpha = alpha;
                    Ok(())
                }
                _ => Err("expected a number from 0.0001 to 0.5".to_owned()),
            },
            "no_regression.estimand" => match Estimand::parse(value) {
                Some(estimand) => {
                    gates.comparison().estimand = estimand;
                    Ok(())
                }
                None => Err(one_of(ESTIMANDS)),
            },
            "no_regression.on_inconclusive" => match OnInconclusive::read(value) {
                Some(word) => {
                    gates.comparison().on_inconclusive = word;
                    Ok(())
                }
                None => Err(one_of(ON_INCONCLUSIVE)),
            },
            key => limit(&mut gates.limits, key, value),
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
            return Err(format!("expected {keys}, `no_regression` or `tags.TAG.KEY`, found `{key}`"));
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
        })
    }

    /// Applies the gates of the command line.
    ///
    /// # Errors
    /// When `no_regression` has no run to compare with.
    pub fn with(mut self, settings: &[GateOverride]) -> Result<Self, String> {
        for setting in settings {
            setting.apply(&mut self)?;
        }
        match &self.no_regression {
            Some(gate) if gate.against.is_empty() => {
                Err("no run to compare with: add `--gate no_regression=BASELINE`".to_owned())
            }
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_overrides_are_parsed_or_rejected_with_a_reason() {
        let all =
            ["min_pass_rate=0.9", "no_regression=main", "no_regression.alpha=0.1", "tags.a.b.max_lost=0"];
        let settings: Vec<GateOverride> = all.iter().map(|text| GateOverride::parse(text).unwrap()).collect();
        let gates = Gates::default().with(&settings).unwrap();
        assert_eq!(gates.limits.min_pass_rate, Some(0.9));
        assert_eq!(
            gates.no_regression.map(|gate| (gate.against, gate.alpha)),
            Some(("main".to_owned(), 0.1))
        );
        assert_eq!(gates.tags["a.b"].max_lost, Some(0.0));
        for (bad, expected) in [
            ("x", "expected `KEY=VALUE`, such as `min_pass_rate=0.9`"),
            ("min_pass_rate=90", "expected a number from 0 to 1"),
            ("min_pass_rate=", "expected a value after `min_pass_rate=`"),
            ("isolation=none", "expected one of `bubblewrap`, `landlock`, `external`"),
            ("tags.slow=1", "expected `tags.TAG.KEY=VALUE`"),
            ("no_regression.on_inconclusive=maybe", "expected one of `cannot_tell`, `pass`, `fail`"),
            (
                "pass_rate=1",
                "expected `min_pass_rate`, `max_cost_usd`, `max_lost`, `isolation`, `no_regression` or `tags.TAG.KEY`, found `pass_rate`",
            ),
        ] {
            assert_eq!(GateOverride::parse(bad).unwrap_err(), expected);
        }
        let alone = GateOverride::parse("no_regression.alpha=0.1").unwrap();
        assert!(Gates::default().with(&[alone]).is_err());
    }
}
