//! Runs of the workspace directory, as commands name and describe them.

use std::fmt;
use std::path::{Path, PathBuf};

use yb_engine::config::Settings;
use yb_engine::run::{RunInfo, StopReason};

use crate::diagnostics::render;
use crate::error::{CliError, ErrorKind};
use crate::printer::Printer;

/// Returns the workspace directory of this project and prints diagnostics of the settings.
pub(crate) fn root(printer: &mut Printer) -> Result<PathBuf, CliError> {
    let settings = settings(printer)?;
    std::path::absolute(settings.workspace_dir()).map_err(CliError::failed_to("find the workspace directory"))
}

/// Returns the settings of this project and prints their diagnostics.
pub(crate) fn settings(printer: &mut Printer) -> Result<Settings, CliError> {
    let project = std::env::current_dir().map_err(|error| {
        CliError::new(ErrorKind::Usage, "failed to find the working directory").caused_by(error)
    })?;
    let (settings, found) = Settings::load(std::env::home_dir().as_deref(), &project);
    for finding in found {
        printer.note(render(&finding, finding.severity));
    }
    Ok(settings)
}

/// Kills the processes of gradings and checks that were killed, in this directory of runs and in that of evaluations, and says so.
pub(crate) fn end_leftovers(root: &Path, settings: &Settings, printer: &mut Printer) {
    for directory in [root, &settings.output_dir()] {
        if let Some(message) = yb_engine::processes::end_leftovers(directory) {
            printer.note(format_args!("note: {message}"));
        }
    }
}

/// The condition of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunCondition {
    /// A process is executing it.
    Running,
    /// All trials have a result.
    Finished,
    /// Stopped before the end.
    Stopped(StopReason),
    /// Killed without recording an end.
    Died,
}

impl RunCondition {
    pub(crate) fn of(info: &RunInfo) -> Self {
        match &info.state.stopped {
            _ if info.active => Self::Running,
            Some(reason) => Self::Stopped(reason.clone()),
            None if info.state.finished => Self::Finished,
            None => Self::Died,
        }
    }

    /// Returns the name in JSON output.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Stopped(_) => "stopped",
            Self::Died => "died",
        }
    }
}

impl fmt::Display for RunCondition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(reason) => write!(formatter, "stopped ({})", stop_reason(reason)),
            other => formatter.write_str(other.as_str()),
        }
    }
}

fn stop_reason(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::Interrupted => "interrupted",
        StopReason::Budget => "budget",
        StopReason::Disk => "disk full",
        _ => "unknown",
    }
}

/// Formats a path, relative to the working directory if below it.
pub(crate) fn display_path(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}
