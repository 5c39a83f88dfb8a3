//! Tapes of a run: what is asked for, which tape belongs to which trial, and what became of it.

mod endpoint;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use yb_case::{TapeMode, TapeSpeed};

pub use endpoint::{ModelEndpoint, redirect_to_mock};

/// How a tape's file ends.
pub const EXTENSION: &str = "tape";

/// What a run does with tapes; by default nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TapeOptions {
    /// A directory that gets a tape of each trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// Whether the agent's own prompts and tools are kept as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full_requests: bool,
    /// A directory with a tape for each trial, or one tape for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<PathBuf>,
    /// How strictly a replay compares, instead of what the case says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TapeMode>,
    /// How fast a replay answers, instead of what the case says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<TapeSpeed>,
    /// What goes wrong on purpose in a replay, and at which step: `3:429`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// From where on a replay goes on with a live model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkAt>,
}

/// Where a replay becomes live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkAt {
    /// The last turn of the main conversation that the tape answers.
    pub step: usize,
    /// The model that answers from there on, instead of the one that the agent asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl TapeOptions {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ForkAt {
    /// After this turn, with this model.
    #[must_use]
    pub fn new(step: usize, model: Option<String>) -> Self {
        Self { step, model }
    }
}

/// What a trial's tape was, as results tell it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TapeUse {
    /// What was done with it.
    pub how: TapeHow,
    /// The tape, or the script.
    pub file: String,
    /// The tape's digest: replays of one tape count as one observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Requests that passed by.
    #[serde(default)]
    pub exchanges: u64,
    /// Tool results that differed and were let pass.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tolerated: u64,
    /// Requests that a live model answered after a fork.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forwarded: u64,
    /// What the recorded run cost; this one did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_usd: Option<f64>,
}

/// What was done with a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TapeHow {
    /// A model was asked, and its answers were kept.
    Recorded,
    /// The tape answered.
    Replayed,
    /// The tape answered up to a step, and a model from there on.
    Forked,
    /// A script answered.
    Scripted,
    /// A script answered, and its answers were kept.
    RecordedScript,
}

impl TapeHow {
    /// Whether the model's answers are from a tape alone, so that doing it again tells nothing new.
    #[must_use]
    pub fn is_replay(self) -> bool {
        self == Self::Replayed
    }

    /// Whether no model was paid.
    #[must_use]
    pub fn is_free(self) -> bool {
        matches!(self, Self::Replayed | Self::Scripted | Self::RecordedScript)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The tape that recording a trial makes.
#[must_use]
pub fn recorded(directory: &Path, trial: &str) -> PathBuf {
    directory.join(format!("{trial}.{EXTENSION}"))
}

/// The tape that a trial is replayed from: its own, or else the one of the first repeat, or the file that is named for all.
#[must_use]
pub fn replayed(path: &Path, trial: &str) -> PathBuf {
    if path.is_file() {
        return path.to_owned();
    }
    let own = recorded(path, trial);
    if own.is_file() {
        return own;
    }
    let first = trial.rsplit_once("--").map(|(combination, _)| recorded(path, &format!("{combination}--1")));
    first.filter(|first| first.is_file()).unwrap_or(own)
}

/// What is not to be on a tape: every value of these variables that looks like a secret.
#[must_use]
pub fn secrets(env: &BTreeMap<String, String>) -> yb_tape::Secrets {
    let host = crate::Host::new(env);
    crate::secrets_of(&host)
        .into_iter()
        .fold(yb_tape::Secrets::new(), |all, (name, value)| all.with(name, String::from_utf8_lossy(&value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_has_a_tape_of_its_own_or_its_first_repeats() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a--x--1.tape", "a--x--2.tape", "all.tape"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let found =
            |trial: &str| replayed(dir.path(), trial).file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(found("a--x--2"), "a--x--2.tape");
        assert_eq!(found("a--x--3"), "a--x--1.tape");
        assert_eq!(found("b--x--2"), "b--x--2.tape", "what is missing is named as it would be");
        assert_eq!(replayed(&dir.path().join("all.tape"), "b--x--2"), dir.path().join("all.tape"));
    }
}
