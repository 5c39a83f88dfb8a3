//! The runs that are there, as commands name and describe them.

use std::fmt;
use std::path::{Path, PathBuf};

use yb_engine::config::Settings;
use yb_engine::run::{RunInfo, StopReason};

use crate::diagnostics::render;
use crate::error::{CliError, ErrorKind};
use crate::printer::Printer;

/// The workspace directory of this project; what is wrong with the settings is shown.
pub(crate) fn root(printer: &mut Printer) -> Result<PathBuf, CliError> {
    let project = std::env::current_dir().map_err(|error| {
        CliError::new(ErrorKind::Usage, "failed to find the working directory").caused_by(error)
    })?;
    let (settings, found) = Settings::load(std::env::home_dir().as_deref(), &project);
    for finding in found {
        printer.note(render(&finding, finding.severity));
    }
    std::path::absolute(settings.workspace_dir()).map_err(CliError::failed_to("find the workspace directory"))
}

/// What a run is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Somebody works on it.
    Running,
    /// All was done.
    Finished,
    /// It was stopped.
    Stopped(StopReason),
    /// It ended without a word.
    Died,
}

impl Condition {
    pub(crate) fn of(info: &RunInfo) -> Self {
        match &info.state.stopped {
            _ if info.active => Self::Running,
            Some(reason) => Self::Stopped(reason.clone()),
            None if info.state.finished => Self::Finished,
            None => Self::Died,
        }
    }

    /// In one word, for programs.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Stopped(_) => "stopped",
            Self::Died => "died",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(reason) => write!(formatter, "stopped ({})", why(reason)),
            other => formatter.write_str(other.word()),
        }
    }
}

fn why(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::Interrupted => "interrupted",
        StopReason::Budget => "budget",
        StopReason::Disk => "disk full",
        _ => "unknown",
    }
}

/// Relative to the working directory, if it is below it.
pub(crate) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}

/// A moment as people read it, `2026-11-15 16:45:24Z`; a text that is no moment stays as it is.
pub(crate) fn moment(iso: &str) -> String {
    match iso.split_once('T') {
        Some((day, time)) => format!("{day} {}Z", time.get(..8).unwrap_or(time)),
        None => iso.to_owned(),
    }
}

/// Without anything that would move a cursor or colour a terminal: what an agent wrote is only shown.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::{harmless, moment};

    #[test]
    fn what_is_shown_does_nothing_to_a_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\u{9b}31m\tc\n"), "a[2Jb31m\tc\n");
    }

    #[test]
    fn moments_are_readable() {
        assert_eq!(moment("2026-11-15T16:45:24.123Z"), "2026-11-15 16:45:24Z");
        assert_eq!(moment("?"), "?");
    }
}
