//! What a case says about who plays its model: a script, or a tape that was recorded.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::check::Checker;
use yb_yaml::Node;

/// Who plays the model, instead of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tape {
    /// Where the answers come from.
    pub source: TapeSource,
    /// How strictly a replay compares.
    pub mode: TapeMode,
    /// How fast a replay answers.
    pub speed: TapeSpeed,
}

/// Where answers come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapeSource {
    /// A script, in which `{{workspace}}` is the trial's workspace.
    Script(PathBuf),
    /// A tape, or a directory with a tape for each trial.
    Replay(PathBuf),
}

/// How strictly a replay compares requests with its tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapeMode {
    /// All that user and tools say has to be the same.
    #[default]
    Strict,
    /// What tools say may differ, and is counted.
    Lenient,
}

/// How fast a replay answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapeSpeed {
    /// At once.
    #[default]
    Fast,
    /// As it was recorded.
    Real,
}

/// Reads `tape`, which has been checked: the path of a tape, or a mapping.
pub(super) fn read(root: &Node, dir: &Path, checker: &mut Checker<'_, '_>) -> Option<Tape> {
    let entry = root.entry("tape")?;
    let node = &entry.node;
    let path = |node: &Node| node.text().map(|text| dir.join(text));
    let (mut mode, mut speed) = (TapeMode::Strict, TapeSpeed::Fast);
    let source = match (path(node), node.get("script").and_then(path), node.get("replay").and_then(path)) {
        (Some(tape), ..) | (None, None, Some(tape)) => TapeSource::Replay(tape),
        (None, Some(script), None) => TapeSource::Script(script),
        (None, both, _) => {
            let message =
                if both.is_some() { "both `script` and `replay`" } else { "neither `script` nor `replay`" };
            checker
                .found
                .error(entry.key.span, "tape", message)
                .expected("one of them")
                .hint("`tape: tapes/one.tape` replays a tape, `tape: { script: model.yaml }` plays a script");
            return None;
        }
    };
    if node.get("mode").and_then(Node::text) == Some("lenient") {
        mode = TapeMode::Lenient;
    }
    if node.get("speed").and_then(Node::text) == Some("real") {
        speed = TapeSpeed::Real;
    }
    Some(Tape { source, mode, speed })
}
