//! The plan of a run, written before the first trial starts. `plan.json` and the case files are sufficient to resume a
//! run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use serde::{Deserialize, Serialize};

use super::error::RunError;
use crate::check::Proof;
use crate::gates::Gates;
use yb_agents::trace::TrialStart;
use yb_case::suite::{Combination, SourceFile, Suite};
use yb_model::safe_name;
use yb_repo::{PathSeparator, compile_glob};

/// The version of the format of `plan.json`. Newer plans are rejected.
pub const PLAN_VERSION: u32 = 1;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// Version of this format.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// Creation time, ISO 8601.
    pub created_at: String,
    /// The version of youBencha.
    pub youbencha: String,
    /// The suite's name, or the case's.
    pub name: String,
    /// The case or suite file.
    pub config: PathBuf,
    /// All files that were read to create the plan.
    pub files: Vec<SourceFile>,
    /// Options that also apply when the run is resumed.
    pub options: PlanOptions,
    /// The run whose failed trials this run repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun_of: Option<String>,
    /// The design, if the variants are combinations of factor levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub design: Option<yb_stats::FactorialDesign>,
    /// What variants may differ in; empty if it is not declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<String>,
    /// The trials, in start order.
    pub trials: Vec<PlannedTrial>,
}

/// Options of a run that also apply when it is resumed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanOptions {
    /// Allows fetching from hosts in private networks.
    #[serde(default)]
    pub allow_private_hosts: bool,
    /// Local directories outside of the project that cases may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_paths: Vec<PathBuf>,
    /// Deletes workspaces after grading.
    #[serde(default)]
    pub delete_workspace: bool,
    /// Records the workspace after each step of every agent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: bool,
    /// Number of retries after an infrastructure or API failure.
    pub retries: u32,
    /// Maximum number of concurrent trials, by agent.
    #[serde(default)]
    pub concurrency: BTreeMap<String, u32>,
    /// Budget of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Overrides the isolation of all cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<yb_case::Isolation>,
    /// The gates.
    #[serde(default, skip_serializing_if = "Gates::is_empty")]
    pub gates: Gates,
    /// Overrides the network access of all cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<yb_case::NetworkMode>,
    /// Overrides the resource limits of all cases.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: yb_case::TrialLimits,
    /// Options for recording and replaying tapes.
    #[serde(default, skip_serializing_if = "yb_agents::tape::TapeOptions::is_empty")]
    pub tape: yb_agents::tape::TapeOptions,
}

impl PlanOptions {
    /// Returns the options of a suite.
    #[must_use]
    pub fn of(suite: &Suite) -> Self {
        Self {
            allow_private_hosts: false,
            allow_paths: Vec::new(),
            delete_workspace: false,
            steps: false,
            retries: suite.retries,
            concurrency: suite.concurrency.clone(),
            max_cost_usd: suite.max_cost_usd,
            isolation: None,
            gates: suite.gates.clone(),
            network: None,
            limits: yb_case::TrialLimits::default(),
            tape: yb_agents::tape::TapeOptions::default(),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A planned trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedTrial {
    /// Digest of the task, the variant and the repeat; the same trial has the same id in other runs.
    pub id: String,
    /// `<case>--<variant>--<repeat>`, the folder and name of the trial.
    pub folder: String,
    /// The case.
    pub case: String,
    /// The variant.
    pub variant: String,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// The agent.
    pub agent: String,
    /// The model set by the case or variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The case's tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The start commit.
    pub commit: String,
    /// Digest of the task that the agent sees.
    pub task_digest: String,
    /// Digest of the evaluators and their settings.
    pub grade_digest: String,
    /// Timeout of the agent; 0 means no limit.
    pub timeout_ms: u64,
    /// What the last check of the case had shown when the run started; absent in plans of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

impl PlannedTrial {
    /// Returns the start of an attempt for a trace.
    pub(super) fn trace_start(&self, attempt: u32) -> TrialStart<'_> {
        TrialStart {
            folder: &self.folder,
            case: &self.case,
            variant: &self.variant,
            agent: &self.agent,
            tags: &self.tags,
            repeat: self.repeat,
            attempt,
        }
    }
}

/// A selection of the trials of a suite.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Selection {
    /// Overrides the number of repeats of the suite.
    pub repeats: Option<u32>,
    /// Filters. For each field that has filters, at least one of them must match.
    pub filters: Vec<Filter>,
}

impl Selection {
    /// Returns a selection.
    #[must_use]
    pub fn new(repeats: Option<u32>, filters: Vec<Filter>) -> Self {
        Self { repeats, filters }
    }

    /// Whether the selection includes a combination.
    #[must_use]
    pub fn includes(&self, combination: &Combination) -> bool {
        let fields = [FilterField::Case, FilterField::Variant, FilterField::Tag];
        fields.into_iter().all(|field| {
            let mut of_field = self.filters.iter().filter(|filter| filter.field == field).peekable();
            of_field.peek().is_none() || of_field.any(|filter| filter.matches(combination))
        })
    }
}

/// One `--filter`: `GLOB` or `case=GLOB`, `variant=GLOB`, `tag=GLOB`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Filter {
    field: FilterField,
    pattern: GlobMatcher,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterField {
    Case,
    Variant,
    Tag,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// Returns the reason why the filter is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (field, pattern) = match text.split_once('=') {
            Some(("case", pattern)) => (FilterField::Case, pattern),
            Some(("variant", pattern)) => (FilterField::Variant, pattern),
            Some(("tag", pattern)) => (FilterField::Tag, pattern),
            Some((other, _)) => {
                return Err(format!("expected `case=`, `variant=` or `tag=`, found `{other}=`"));
            }
            None => (FilterField::Case, text),
        };
        if pattern.is_empty() {
            return Err("expected a name or a pattern".to_owned());
        }
        let glob = compile_glob(pattern, PathSeparator::Matched)?;
        Ok(Self { field, pattern: glob.compile_matcher(), text: text.to_owned() })
    }

    fn matches(&self, combination: &Combination) -> bool {
        match self.field {
            FilterField::Case => self.pattern.is_match(&combination.case_name),
            FilterField::Variant => self.pattern.is_match(&combination.variant),
            FilterField::Tag => combination.tags.iter().any(|tag| self.pattern.is_match(tag)),
        }
    }
}

/// Returns the selected combinations.
pub(crate) fn select<'a>(suite: &'a Suite, selection: &Selection) -> Result<Vec<&'a Combination>, RunError> {
    let selected: Vec<&Combination> =
        suite.combinations.iter().filter(|one| selection.includes(one)).collect();
    if selected.is_empty() {
        return Err(RunError::NothingSelected {
            filters: selection.filters.iter().map(|filter| format!("`{}`", filter.text)).collect(),
            known: suite.combinations.iter().map(label).collect(),
        });
    }
    Ok(selected)
}

/// Returns the display name of a combination.
pub(super) fn label(combination: &Combination) -> String {
    if combination.variant == "default" {
        combination.case_name.clone()
    } else {
        format!("{} / {}", combination.case_name, combination.variant)
    }
}

/// Expands combinations to trials, ordered by repeat: every combination has its first repeat before any has its second.
pub(super) fn expand(selected: &[(&Combination, &str, u64)], repeats: u32) -> Vec<PlannedTrial> {
    let digests: Vec<_> = selected
        .iter()
        .map(|(combination, commit, _)| (combination.task_digest(commit), combination.grade_digest()))
        .collect();
    (1..=repeats)
        .flat_map(|repeat| {
            selected.iter().zip(&digests).map(move |((combination, commit, timeout_ms), digests)| {
                let (task_digest, grade_digest) = digests.clone();
                let identity = format!("{task_digest}\0{}\0{repeat}", combination.variant);
                PlannedTrial {
                    id: blake3::hash(identity.as_bytes()).to_hex().chars().take(16).collect(),
                    folder: format!(
                        "{}--{}--{repeat}",
                        safe_name(&combination.case_name),
                        safe_name(&combination.variant)
                    ),
                    case: combination.case_name.clone(),
                    variant: combination.variant.clone(),
                    repeat,
                    agent: combination.case.agent.kind.clone(),
                    model: combination.case.agent.model.clone(),
                    tags: combination.tags.clone(),
                    commit: (*commit).to_owned(),
                    task_digest,
                    grade_digest,
                    timeout_ms: *timeout_ms,
                    proof: None,
                }
            })
        })
        .collect()
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// Returns an error when the plan can't be read or is too new.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let invalid = |reason: String| RunError::Plan { path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| invalid(error.to_string()))?;
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        // The version is checked first: a newer format may lack the fields of this one.
        match value["version"].as_u64() {
            Some(version) if version <= u64::from(PLAN_VERSION) => {}
            Some(version) => {
                return Err(invalid(format!(
                    "it has version {version}; this version reads up to {PLAN_VERSION}"
                )));
            }
            None => return Err(invalid("it has no version".to_owned())),
        }
        serde_json::from_value(value).map_err(|error| invalid(error.to_string()))
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), RunError> {
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| RunError::io("write", path)(error.into()))?;
        text.push(b'\n');
        super::resume::replace(path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn filter_is_parsed_or_rejected_with_a_reason() {
        for good in ["fix-*", "case=fix-*", "variant=opus", "tag=slow"] {
            assert!(Filter::parse(good).is_ok(), "{good}");
        }
        for (bad, expected) in [
            ("model=x", "expected `case=`, `variant=` or `tag=`, found `model=`"),
            ("tag=", "expected a name or a pattern"),
            ("case=[", "unclosed character class; missing ']'"),
        ] {
            assert_eq!(Filter::parse(bad).unwrap_err(), expected);
        }
    }
}
