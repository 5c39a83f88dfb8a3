//! The one table of what `yb` can exit with; scripts and CI jobs rely on it.

use std::fmt::Write as _;

/// What an exit code of `yb` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// Everything ran and passed; with gates: every gate held.
    Passed = 0,
    /// Something evaluated failed, or a gate did not hold.
    Failed = 1,
    /// Usage or configuration error; nothing was started.
    Usage = 2,
    /// An agent is not installed or not authenticated.
    Agent = 3,
    /// Infrastructure: trials could not be completed.
    Infrastructure = 4,
    /// Cannot tell: too few or too uncertain results for the question.
    Uncertain = 5,
    /// Interrupted or terminated.
    Interrupted = 130,
}

impl ExitCode {
    /// All of them, by number.
    pub const ALL: [Self; 7] = [
        Self::Passed,
        Self::Failed,
        Self::Usage,
        Self::Agent,
        Self::Infrastructure,
        Self::Uncertain,
        Self::Interrupted,
    ];

    /// Strongest first: when several apply, the first of these that does is the exit code.
    const PRECEDENCE: [Self; 7] = [
        Self::Usage,
        Self::Interrupted,
        Self::Failed,
        Self::Agent,
        Self::Infrastructure,
        Self::Uncertain,
        Self::Passed,
    ];

    /// The number that the system sees.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What it means, in a few words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Passed => "everything ran and passed; with gates: every gate held",
            Self::Failed => "something evaluated failed, or a gate did not hold",
            Self::Usage => "usage or configuration error; nothing was started",
            Self::Agent => "an agent is not installed or not authenticated",
            Self::Infrastructure => "infrastructure: trials could not be completed",
            Self::Uncertain => "cannot tell: too few or too uncertain results for the question",
            Self::Interrupted => "interrupted or terminated",
        }
    }

    /// The one that counts when several apply; everything passed when none does.
    #[must_use]
    pub fn strongest(codes: impl IntoIterator<Item = Self>) -> Self {
        let codes: Vec<Self> = codes.into_iter().collect();
        Self::PRECEDENCE.into_iter().find(|code| codes.contains(code)).unwrap_or(Self::Passed)
    }

    /// The table as help text.
    pub(crate) fn table() -> String {
        Self::ALL.iter().fold("Exit codes:".to_owned(), |mut text, code| {
            // Writing to a string never fails.
            let _ = write!(text, "\n  {:>3}  {}", code.code(), code.meaning());
            text
        })
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.code())
    }
}

#[cfg(test)]
mod tests {
    use super::ExitCode::{self, Agent, Failed, Infrastructure, Interrupted, Passed, Uncertain, Usage};

    #[test]
    fn the_strongest_wins_whatever_the_order() {
        for (codes, expected) in [
            (&[][..], Passed),
            (&[Passed, Passed], Passed),
            (&[Passed, Uncertain], Uncertain),
            (&[Uncertain, Infrastructure], Infrastructure),
            (&[Infrastructure, Agent], Agent),
            (&[Agent, Failed, Uncertain], Failed),
            (&[Failed, Interrupted], Interrupted),
            (&[Interrupted, Usage], Usage),
        ] {
            assert_eq!(ExitCode::strongest(codes.iter().copied()), expected, "{codes:?}");
            assert_eq!(ExitCode::strongest(codes.iter().rev().copied()), expected, "{codes:?}");
        }
    }

    #[test]
    fn the_numbers_never_change() {
        assert_eq!(ExitCode::ALL.map(ExitCode::code), [0, 1, 2, 3, 4, 5, 130]);
    }
}
