//! What a run is to do, written down before it begins: expanding is pure, and `plan.json` is all that a resumption
//! needs beside the case files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::error::RunError;
use crate::gates::Gates;
use yb_agents::trace::TrialStart;
use yb_case::suite::{Combination, SourceFile, Suite};
use yb_model::safe_name;

/// The format of `plan.json`; a newer one is not read.
pub const PLAN_VERSION: u32 = 1;

/// What a run is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// Of this format.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// When it was made, ISO 8601.
    pub created_at: String,
    /// Our version.
    pub youbencha: String,
    /// The suite's name, or the case's.
    pub name: String,
    /// The file that was given.
    pub config: PathBuf,
    /// Every file that was read for it.
    pub files: Vec<SourceFile>,
    /// What was asked for on the command line and is to hold when it goes on.
    pub options: PlanOptions,
    /// The run of which this one repeats failed trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun_of: Option<String>,
    /// The trials, in the order in which they begin.
    pub trials: Vec<PlannedTrial>,
}

/// What was asked for and is to hold when the run goes on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanOptions {
    /// Fetching from hosts inside a private network is allowed.
    #[serde(default)]
    pub allow_private_hosts: bool,
    /// Workspaces are removed.
    #[serde(default)]
    pub delete_workspace: bool,
    /// How often a trial that was lost to the machine or the API is tried again.
    pub retries: u32,
    /// How many trials of an agent run at once.
    #[serde(default)]
    pub concurrency: BTreeMap<String, u32>,
    /// The run's money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The isolation of all trials, instead of the cases' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<yb_case::Isolation>,
    /// What the results have to hold.
    #[serde(default, skip_serializing_if = "Gates::is_empty")]
    pub gates: Gates,
    /// The network of all trials, instead of the cases' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<yb_case::NetworkMode>,
    /// Limits of all trials, instead of the cases' own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: yb_case::Limits,
    /// What is done with tapes.
    #[serde(default, skip_serializing_if = "yb_agents::tape::TapeOptions::is_empty")]
    pub tape: yb_agents::tape::TapeOptions,
}

impl PlanOptions {
    /// As the suite says.
    #[must_use]
    pub fn of(suite: &Suite) -> Self {
        Self {
            allow_private_hosts: false,
            delete_workspace: false,
            retries: suite.retries,
            concurrency: suite.concurrency.clone(),
            max_cost_usd: suite.max_cost_usd,
            isolation: None,
            gates: suite.gates.clone(),
            network: None,
            limits: yb_case::Limits::default(),
            tape: yb_agents::tape::TapeOptions::default(),
        }
    }
}

fn is_default(limits: &yb_case::Limits) -> bool {
    *limits == yb_case::Limits::default()
}

/// One trial of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedTrial {
    /// From what the agent sees, the variant and the repeat: the same trial in another run has the same.
    pub id: String,
    /// `<case>--<variant>--<repeat>`, its folder and its name.
    pub folder: String,
    /// The case.
    pub case: String,
    /// The variant.
    pub variant: String,
    /// Counts from 1.
    pub repeat: u32,
    /// Which agent.
    pub agent: String,
    /// The model, as the case or variant names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The case's tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The commit that it starts with.
    pub commit: String,
    /// What the agent sees.
    pub task_digest: String,
    /// How it is judged.
    pub grade_digest: String,
    /// How long the agent may take; zero is for ever.
    pub timeout_ms: u64,
}

impl PlannedTrial {
    /// An attempt at this trial, for a trace.
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

/// Which trials of a suite are meant.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Selection {
    /// Other than the suite says.
    pub repeats: Option<u32>,
    /// Of one kind any may match; every kind must.
    pub filters: Vec<Filter>,
}

impl Selection {
    /// A selection.
    #[must_use]
    pub fn new(repeats: Option<u32>, filters: Vec<Filter>) -> Self {
        Self { repeats, filters }
    }

    /// Whether a combination is meant.
    #[must_use]
    pub fn takes(&self, combination: &Combination) -> bool {
        let kinds = [Kind::Case, Kind::Variant, Kind::Tag];
        kinds.into_iter().all(|kind| {
            let mut of_kind = self.filters.iter().filter(|filter| filter.kind == kind).peekable();
            of_kind.peek().is_none() || of_kind.any(|filter| filter.matches(combination))
        })
    }
}

/// One `--filter`: `GLOB` or `case=GLOB`, `variant=GLOB`, `tag=GLOB`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Filter {
    kind: Kind,
    pattern: GlobMatcher,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Case,
    Variant,
    Tag,
}

impl Filter {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (kind, pattern) = match text.split_once('=') {
            Some(("case", pattern)) => (Kind::Case, pattern),
            Some(("variant", pattern)) => (Kind::Variant, pattern),
            Some(("tag", pattern)) => (Kind::Tag, pattern),
            Some((other, _)) => {
                return Err(format!("expected `case=`, `variant=` or `tag=`, found `{other}=`"));
            }
            None => (Kind::Case, text),
        };
        if pattern.is_empty() {
            return Err("expected a name or a pattern".to_owned());
        }
        let glob = GlobBuilder::new(pattern).build().map_err(|error| error.kind().to_string())?;
        Ok(Self { kind, pattern: glob.compile_matcher(), text: text.to_owned() })
    }

    fn matches(&self, combination: &Combination) -> bool {
        match self.kind {
            Kind::Case => self.pattern.is_match(&combination.case_name),
            Kind::Variant => self.pattern.is_match(&combination.variant),
            Kind::Tag => combination.tags.iter().any(|tag| self.pattern.is_match(tag)),
        }
    }
}

/// The combinations that are meant.
pub(super) fn select<'a>(suite: &'a Suite, selection: &Selection) -> Result<Vec<&'a Combination>, RunError> {
    let taken: Vec<&Combination> = suite.combinations.iter().filter(|one| selection.takes(one)).collect();
    if taken.is_empty() {
        return Err(RunError::NothingSelected {
            filters: selection.filters.iter().map(|filter| format!("`{}`", filter.text)).collect(),
            known: suite.combinations.iter().map(label).collect(),
        });
    }
    Ok(taken)
}

/// How people are told of a combination.
pub(super) fn label(combination: &Combination) -> String {
    if combination.variant == "default" {
        combination.case_name.clone()
    } else {
        format!("{} / {}", combination.case_name, combination.variant)
    }
}

/// The trials of some combinations. Fair: every combination has its first repeat before any has its second.
pub(super) fn expand(taken: &[(&Combination, &str, u64)], repeats: u32) -> Vec<PlannedTrial> {
    let digests: Vec<_> = taken
        .iter()
        .map(|(combination, commit, _)| (combination.task_digest(commit), combination.grade_digest()))
        .collect();
    (1..=repeats)
        .flat_map(|repeat| {
            taken.iter().zip(&digests).map(move |((combination, commit, timeout_ms), digests)| {
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
                }
            })
        })
        .collect()
}

impl Plan {
    /// Reads a run's plan.
    ///
    /// # Errors
    /// When it can't be read, or is too new.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let wrong = |reason: String| RunError::Plan { path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        // The version first: what a newer program wrote need not have our fields.
        match value["version"].as_u64() {
            Some(version) if version <= u64::from(PLAN_VERSION) => {}
            Some(version) => {
                return Err(wrong(format!(
                    "it has version {version}; this version reads up to {PLAN_VERSION}"
                )));
            }
            None => return Err(wrong("it has no version".to_owned())),
        }
        serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), RunError> {
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| RunError::io("write", path)(error.into()))?;
        text.push(b'\n');
        super::open::replace(path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn a_filter_is_read_or_says_what_is_wrong() {
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
