//! The `tape` of a case: a script or a recorded tape instead of the model.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::check::Checker;
use yb_yaml::Node;

/// The replacement of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tape {
    /// The source of the responses.
    pub source: TapeSource,
    /// How strictly a replay compares requests.
    pub mode: TapeMode,
    /// The speed of a replay.
    pub speed: TapeSpeed,
}

/// The source of responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapeSource {
    /// A script; `{{workspace}}` is replaced by the workspace of the trial.
    Script(PathBuf),
    /// A tape, or a directory with a tape for each trial.
    Replay(PathBuf),
}

/// How strictly a replay compares requests with its tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapeMode {
    /// User messages and tool results must be equal byte for byte, except for the directories of the run.
    Exact,
    /// User messages and tool results must match after normalization.
    #[default]
    Strict,
    /// Differing tool results are tolerated and counted.
    Lenient,
}

/// The speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapeSpeed {
    /// Without delays.
    #[default]
    Fast,
    /// With the recorded timing.
    Real,
}

/// Reads the validated `tape`: the path of a tape, or a mapping.
pub(super) fn read(root: &Node, dir: &Path, checker: &mut Checker<'_, '_>) -> Option<Tape> {
    let entry = root.entry("tape")?;
    let node = &entry.node;
    let path = |node: &Node| node.text().map(|text| dir.join(text));
    let (mut mode, mut speed) = (TapeMode::Strict, TapeSpeed::Fast);
    let source = match (path(node), node.get("script").and_then(path), node.get("replay").and_then(path)) {
        (Some(tape), ..) | (None, None, Some(tape)) => TapeSource::Replay(tape),
        (None, Some(script), None) => TapeSource::Script(script),
        (None, both, _) => {
            let message = if both.is_some() {
                "both `script` and `replay` given"
            } else {
                "missing key: `script` or `replay`"
            };
            checker
                .found
                .error(entry.key.span, "tape", message)
                .expected("exactly one of `script` and `replay`")
                .hint("use `tape: tapes/one.tape` to replay a tape, or `tape: { script: model.yaml }` for a script");
            return None;
        }
    };
    match node.get("mode").and_then(Node::text) {
        Some("lenient") => mode = TapeMode::Lenient,
        Some("exact") => mode = TapeMode::Exact,
        _ => {}
    }
    if node.get("speed").and_then(Node::text) == Some("real") {
        speed = TapeSpeed::Real;
    }
    Some(Tape { source, mode, speed })
}
