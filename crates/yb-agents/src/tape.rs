//! Tapes of a run: options, the tape of each trial, and how it was used.

mod endpoint;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use yb_case::{TapeMode, TapeSpeed};

pub use endpoint::{ModelEndpoint, redirect_to_mock};

/// The file extension of tapes.
pub const EXTENSION: &str = "tape";

/// What a run records and replays; by default nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TapeOptions {
    /// The directory for a recorded tape of each trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// Whether the system prompts and tools of the agent are recorded as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full_requests: bool,
    /// The directory with a tape for each trial, or one tape for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<PathBuf>,
    /// The mode of a replay, which overrides the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TapeMode>,
    /// The speed of a replay, which overrides the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<TapeSpeed>,
    /// Injected faults of a replay, with their steps: `3:429`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The step after which a live model continues a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkAt>,
}

/// The step after which a live model continues a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkAt {
    /// The last turn of the main conversation that the tape answers.
    pub step: usize,
    /// The model that continues, instead of the one that the agent requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl TapeOptions {
    /// Whether nothing is recorded or replayed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ForkAt {
    /// A fork after a turn, with a model.
    #[must_use]
    pub fn new(step: usize, model: Option<String>) -> Self {
        Self { step, model }
    }
}

/// How a trial used its tape, as recorded in the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TapeUse {
    /// What was done with it.
    pub how: TapeHow,
    /// The tape, or the script.
    pub file: String,
    /// The tape's digest: replays of one tape count as one observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The digest of the whole tape file, by which `yb verify` notices a changed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Requests that passed by.
    #[serde(default)]
    pub exchanges: u64,
    /// Tool results that differed and were let pass.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tolerated: u64,
    /// Places in requests that were equal only after normalization, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub normalized: BTreeMap<String, u64>,
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
    /// Whether all answers are from a tape, so that a repeat adds no information.
    #[must_use]
    pub fn is_replay(self) -> bool {
        self == Self::Replayed
    }

    /// Whether there were no paid API calls.
    #[must_use]
    pub fn is_free(self) -> bool {
        matches!(self, Self::Replayed | Self::Scripted | Self::RecordedScript)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The path of the recorded tape of a trial.
#[must_use]
pub fn recorded(directory: &Path, trial: &str) -> PathBuf {
    directory.join(format!("{trial}.{EXTENSION}"))
}

/// The path of the tape that a trial is replayed from: its own one, the one of the first repeat, or one file for all.
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

/// The secrets among these variables, which are kept off tapes.
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
    fn trial_without_a_tape_uses_the_tape_of_the_first_repeat() {
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
