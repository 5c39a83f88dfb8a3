//! Description of a request that does not match the tape.

use std::fmt;
use std::path::PathBuf;

/// Characters shown before and after the first difference.
const BEFORE: usize = 40;
const AFTER: usize = 100;

/// A request that does not match the tape.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The tape file.
    pub tape: PathBuf,
    /// The lane, if known.
    pub lane: Option<String>,
    /// The turn within the lane, from 1.
    pub turn: usize,
    /// The kind of difference.
    pub kind: DivergenceKind,
    /// The first part that differs.
    pub part: String,
    /// The recorded content; empty if there is none.
    pub expected: String,
    /// The content of the request; empty if there is none.
    pub actual: String,
    /// Whether the tape is truncated, so that the missing part may have been recorded.
    pub tape_is_truncated: bool,
}

/// The kind of difference that ended a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DivergenceKind {
    /// A text of the case differs from the recorded one.
    CaseText,
    /// The request is equal only after normalization, which an exact replay refuses.
    Normalized,
    /// The conversation is not on the tape.
    UnknownConversation,
    /// The turn is after the last recorded one.
    ExtraTurn,
    /// The model output in the request differs from the tape.
    ModelOutput,
    /// A tool result differs.
    ToolResult,
    /// A user message differs, or content that the agent sends as the user.
    UserMessage,
    /// The request was sent more often than recorded.
    RepeatedRequest,
    /// The turn was recorded only as a stream, or only as one message.
    StreamMode,
    /// A request outside of conversations is not on the tape.
    UnknownRequest,
}

impl DivergenceKind {
    /// Returns the identifier used in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CaseText => "case-text",
            Self::Normalized => "normalized",
            Self::UnknownConversation => "unknown-conversation",
            Self::ExtraTurn => "extra-turn",
            Self::ModelOutput => "other-answers",
            Self::ToolResult => "tool-result",
            Self::UserMessage => "user-part",
            Self::RepeatedRequest => "asked-again",
            Self::StreamMode => "other-form",
            Self::UnknownRequest => "unknown-request",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::CaseText => "the case differs from the recorded one",
            Self::Normalized => "equal only after normalization",
            Self::UnknownConversation => "no such conversation on the tape",
            Self::ExtraTurn => "no further turn on the tape",
            Self::ModelOutput => "model output in the request differs from the tape",
            Self::ToolResult => "tool result differs",
            Self::UserMessage => "user message differs",
            Self::RepeatedRequest => "all recorded responses to this request were already served",
            Self::StreamMode => "turn was recorded with another response mode (streamed or not)",
            Self::UnknownRequest => "no such request on the tape",
        }
    }
}

impl Divergence {
    /// Returns a hint for solving the problem.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        if self.tape_is_truncated {
            return "the tape is truncated: record it again";
        }
        match self.kind {
            DivergenceKind::CaseText => {
                "undo the change, or record again: replay tests the harness, not prompts and settings; `--fork` continues with a live model"
            }
            DivergenceKind::Normalized => {
                "make the output of the tool deterministic, record again, or replay without `--exact`"
            }
            DivergenceKind::ToolResult => {
                "make the output of the tool deterministic, or replay in `lenient` mode; if the change is intended, record again"
            }
            DivergenceKind::UnknownConversation | DivergenceKind::UserMessage => {
                "a changed prompt requires a new recording: replay tests the harness, not prompts"
            }
            _ => "the agent, its version or its settings have changed since the recording: record again",
        }
    }

    /// Returns lane and turn as text.
    #[must_use]
    pub fn location(&self) -> String {
        match &self.lane {
            None if self.kind == DivergenceKind::CaseText => "the case, before the agent started".to_owned(),
            Some(lane) => format!("lane `{lane}`, turn {}", self.turn),
            None => format!("an unrecorded lane, turn {}", self.turn),
        }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replay diverged in {}: {}", self.location(), self.kind.description())?;
        write!(f, "\n  differs:  {}", self.part)?;
        if !self.expected.is_empty() {
            write!(f, "\n  expected: {}", self.expected)?;
        }
        if !self.actual.is_empty() {
            write!(f, "\n  actual:   {}", self.actual)?;
        }
        write!(f, "\n  tape:     {}", self.tape.display())
    }
}

/// Returns excerpts of both texts around their first difference, each in one line.
pub(crate) fn excerpts(expected: &str, actual: &str) -> (String, String) {
    let same = expected.char_indices().zip(actual.chars()).find(|((_, a), b)| a != b).map_or_else(
        // One is a prefix of the other.
        || expected.len().min(actual.len()),
        |((at, _), _)| at,
    );
    (excerpt(expected, same), excerpt(actual, same))
}

fn excerpt(text: &str, at: usize) -> String {
    let head: Vec<char> = text[..at].chars().rev().take(BEFORE + 1).collect();
    let tail: Vec<char> = text[at..].chars().take(AFTER + 1).collect();
    let mut out = String::new();
    if head.len() > BEFORE {
        out.push('…');
    }
    let shown = head.iter().take(BEFORE).rev().chain(tail.iter().take(AFTER));
    for character in shown {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(*other),
        }
    }
    if tail.len() > AFTER {
        out.push('…');
    }
    if out.is_empty() { "(nothing)".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_show_the_first_difference() {
        let long = "x".repeat(100);
        for (expected, actual, shown) in [
            ("a b", "a c", ("a b", "a c")),
            ("", "new", ("(nothing)", "new")),
            ("one\ntwo", "one", ("one\\ntwo", "one")),
            ("\u{e4}b", "\u{e4}c", ("\u{e4}b", "\u{e4}c")),
        ] {
            assert_eq!(excerpts(expected, actual), (shown.0.to_owned(), shown.1.to_owned()));
        }
        let (expected, actual) = excerpts(&format!("{long}a"), &format!("{long}b"));
        assert_eq!(expected, format!("…{}a", "x".repeat(40)));
        assert_eq!(actual, format!("…{}b", "x".repeat(40)));
    }
}
