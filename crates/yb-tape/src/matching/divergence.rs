//! Where a replay left its tape, in words that tell what happened.

use std::fmt;
use std::path::PathBuf;

/// How much of a text is shown around the place where it differs.
const BEFORE: usize = 40;
const AFTER: usize = 100;

/// A request that is not on the tape.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The tape.
    pub tape: PathBuf,
    /// The lane, as far as it is known.
    pub lane: Option<String>,
    /// The turn within the lane, from 1.
    pub turn: usize,
    /// What kind of difference it is.
    pub kind: DivergenceKind,
    /// The first part that differs.
    pub part: String,
    /// What the tape has there; empty when it has nothing.
    pub expected: String,
    /// What came instead; empty when nothing came.
    pub came: String,
    /// Whether the tape was cut, so that what is missing may have been on it.
    pub tape_is_cut: bool,
}

/// What kind of difference ended a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DivergenceKind {
    /// A conversation that the tape does not have.
    UnknownConversation,
    /// A turn after the last one that the tape has.
    ExtraTurn,
    /// The request sends back other words of the model than the tape has.
    OtherAnswers,
    /// A tool returned something else.
    ToolResult,
    /// The user, or the agent in the user's name, says something else.
    UserPart,
    /// The tape has this request, but all its answers were given already.
    AskedAgain,
    /// The tape has this turn only as a stream, or only as one message.
    OtherForm,
    /// Something that is no conversation, and that the tape does not have.
    UnknownRequest,
}

impl DivergenceKind {
    /// One word for it, for files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownConversation => "unknown-conversation",
            Self::ExtraTurn => "extra-turn",
            Self::OtherAnswers => "other-answers",
            Self::ToolResult => "tool-result",
            Self::UserPart => "user-part",
            Self::AskedAgain => "asked-again",
            Self::OtherForm => "other-form",
            Self::UnknownRequest => "unknown-request",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::UnknownConversation => "the tape has no such conversation",
            Self::ExtraTurn => "the tape has no further turn",
            Self::OtherAnswers => "the request sends back other answers than the tape's",
            Self::ToolResult => "a tool returned something else",
            Self::UserPart => "the user says something else",
            Self::AskedAgain => "all recorded answers to this were given already",
            Self::OtherForm => "the tape has this turn only in the other form (stream or one message)",
            Self::UnknownRequest => "the tape has no such request",
        }
    }
}

impl Divergence {
    /// The way out.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        if self.tape_is_cut {
            return "the tape was cut and may lack this: record it again";
        }
        match self.kind {
            DivergenceKind::ToolResult => {
                "make the tool's output the same in every run, or replay with `lenient`; if the change is meant, record again"
            }
            DivergenceKind::UnknownConversation | DivergenceKind::UserPart => {
                "a changed prompt needs a new recording: replay tests the harness, not prompts"
            }
            _ => {
                "the agent, its version or its settings act in another way than when it was recorded: record again"
            }
        }
    }

    /// Where it is, in one line.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.lane {
            Some(lane) => format!("lane `{lane}`, turn {}", self.turn),
            None => format!("a lane that is not on the tape, turn {}", self.turn),
        }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replay diverged in {}: {}", self.place(), self.kind.sentence())?;
        write!(f, "\n  differs:  {}", self.part)?;
        if !self.expected.is_empty() {
            write!(f, "\n  expected: {}", self.expected)?;
        }
        if !self.came.is_empty() {
            write!(f, "\n  came:     {}", self.came)?;
        }
        write!(f, "\n  tape:     {}", self.tape.display())
    }
}

/// Both texts around their first difference, each in one line.
pub(crate) fn excerpts(expected: &str, came: &str) -> (String, String) {
    let same = expected.char_indices().zip(came.chars()).find(|((_, a), b)| a != b).map_or_else(
        // One is the beginning of the other, and both are the same up to there.
        || expected.len().min(came.len()),
        |((at, _), _)| at,
    );
    (excerpt(expected, same), excerpt(came, same))
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
    fn excerpts_show_where_texts_part() {
        let long = "x".repeat(100);
        for (expected, came, shown) in [
            ("a b", "a c", ("a b", "a c")),
            ("", "new", ("(nothing)", "new")),
            ("one\ntwo", "one", ("one\\ntwo", "one")),
            ("\u{e4}b", "\u{e4}c", ("\u{e4}b", "\u{e4}c")),
        ] {
            assert_eq!(excerpts(expected, came), (shown.0.to_owned(), shown.1.to_owned()));
        }
        let (expected, came) = excerpts(&format!("{long}a"), &format!("{long}b"));
        assert_eq!(expected, format!("…{}a", "x".repeat(40)));
        assert_eq!(came, format!("…{}b", "x".repeat(40)));
    }
}
