//! Gates of a suite: minimum pass rate, maximum cost and the like, from the suite file or `--gate KEY=VALUE`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use yb_stats::{Estimand, RegressionCriteria};

use crate::Isolation;
use crate::shape::list_of;

/// What a gate may demand of the isolation, strongest first.
pub const LEVELS: &[&str] = &["bubblewrap", "landlock", "external"];
/// The values of `estimand`.
pub const ESTIMANDS: &[&str] = &["suite", "new-cases"];
/// The values of `on_inconclusive`.
pub const ON_INCONCLUSIVE: &[&str] = &["cannot_tell", "pass", "fail"];

/// What the results have to hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gates {
    /// Of all trials.
    #[serde(default)]
    pub limits: GateLimits,
    /// Not lower than another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_regression: Option<NoRegression>,
    /// Of the trials whose case has a tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, GateLimits>,
}

/// What some trials have to hold.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct GateLimits {
    /// At least this share passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_pass_rate: Option<f64>,
    /// All of them cost no more than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// No more than this share is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lost: Option<f64>,
    /// This, or something stronger, stood between every agent and the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
}

/// Which run the results are compared with, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoRegression {
    /// A baseline or a run.
    pub against: String,
    /// A loss up to this is no regression.
    pub tolerance: f64,
    /// How often the answer may be wrong.
    pub alpha: f64,
    /// What the answer is about.
    pub estimand: Estimand,
    /// What it counts as when nobody can tell.
    pub on_inconclusive: OnInconclusive,
}

/// What a comparison counts as when nobody can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInconclusive {
    /// As that: exit code 5.
    #[default]
    CannotTell,
    /// The gate holds.
    Pass,
    /// It does not.
    Fail,
}

impl OnInconclusive {
    /// As a suite writes it.
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

/// One gate from the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    key: String,
    value: String,
}

impl Setting {
    /// Reads `KEY=VALUE`.
    ///
    /// # Errors
    /// What is wrong with it.
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
                // What was said before of how to compare stays.
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
    /// Whether no gate is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The comparison, with what holds by default; against nothing yet if there was none.
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

    /// These, with what the command line says laid over them.
    ///
    /// # Errors
    /// When a comparison is described that has nothing to compare with.
    pub fn with(mut self, settings: &[Setting]) -> Result<Self, String> {
        for setting in settings {
            setting.apply(&mut self)?;
        }
        match &self.no_regression {
            Some(gate) if gate.against.is_empty() => {
                Err("nothing to compare with: add `--gate no_regression=BASELINE`".to_owned())
            }
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_or_say_what_is_wrong() {
        let all =
            ["min_pass_rate=0.9", "no_regression=main", "no_regression.alpha=0.1", "tags.a.b.max_lost=0"];
        let settings: Vec<Setting> = all.iter().map(|text| Setting::parse(text).unwrap()).collect();
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
            assert_eq!(Setting::parse(bad).unwrap_err(), expected);
        }
        let alone = Setting::parse("no_regression.alpha=0.1").unwrap();
        assert!(Gates::default().with(&[alone]).is_err());
    }
}
