//! The exit codes of `yb`, on which scripts and CI jobs rely.

use std::fmt::Write as _;

/// An exit code of `yb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// All trials passed; with gates, all gates passed.
    Passed = 0,
    /// A trial or a gate failed.
    Failed = 1,
    /// Usage or configuration error; nothing was started.
    Usage = 2,
    /// An agent is not installed or not authenticated.
    Agent = 3,
    /// Infrastructure failure: trials could not be completed.
    Infrastructure = 4,
    /// Inconclusive: too few results for a decision.
    Inconclusive = 5,
    /// Interrupted or terminated.
    Interrupted = 130,
}

impl ExitCode {
    /// All exit codes, by number.
    pub const ALL: [Self; 7] = [
        Self::Passed,
        Self::Failed,
        Self::Usage,
        Self::Agent,
        Self::Infrastructure,
        Self::Inconclusive,
        Self::Interrupted,
    ];

    /// Strongest first: of several codes that apply, the first in this list is used.
    const PRECEDENCE: [Self; 7] = [
        Self::Usage,
        Self::Interrupted,
        Self::Failed,
        Self::Agent,
        Self::Infrastructure,
        Self::Inconclusive,
        Self::Passed,
    ];

    /// Returns the number.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns a short description.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Passed => "all trials passed; with gates, all gates passed",
            Self::Failed => "a trial or a gate failed",
            Self::Usage => "usage or configuration error; nothing was started",
            Self::Agent => "an agent is not installed or not authenticated",
            Self::Infrastructure => "infrastructure failure: trials could not be completed",
            Self::Inconclusive => "inconclusive: too few results for a decision",
            Self::Interrupted => "interrupted or terminated",
        }
    }

    /// Returns the strongest of several codes; `Passed` if there is none.
    #[must_use]
    pub fn strongest(codes: impl IntoIterator<Item = Self>) -> Self {
        let codes: Vec<Self> = codes.into_iter().collect();
        Self::PRECEDENCE.into_iter().find(|code| codes.contains(code)).unwrap_or(Self::Passed)
    }

    /// Returns the table for help texts.
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
    use super::ExitCode::{self, Agent, Failed, Inconclusive, Infrastructure, Interrupted, Passed, Usage};

    #[test]
    fn strongest_code_wins_in_any_order() {
        for (codes, expected) in [
            (&[][..], Passed),
            (&[Passed, Passed], Passed),
            (&[Passed, Inconclusive], Inconclusive),
            (&[Inconclusive, Infrastructure], Infrastructure),
            (&[Infrastructure, Agent], Agent),
            (&[Agent, Failed, Inconclusive], Failed),
            (&[Failed, Interrupted], Interrupted),
            (&[Interrupted, Usage], Usage),
        ] {
            assert_eq!(ExitCode::strongest(codes.iter().copied()), expected, "{codes:?}");
            assert_eq!(ExitCode::strongest(codes.iter().rev().copied()), expected, "{codes:?}");
        }
    }

    #[test]
    fn numbers_are_stable() {
        assert_eq!(ExitCode::ALL.map(ExitCode::code), [0, 1, 2, 3, 4, 5, 130]);
    }
}
