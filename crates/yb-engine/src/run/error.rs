//! Errors of preparing and executing a run.

use std::io;
use std::path::{Path, PathBuf};

use super::journal::JournalError;
use crate::trial::TrialError;

const FREE_SPACE_HINT: &str =
    "free disk space, then continue with `yb run --resume`; recorded results are kept";

/// A problem found before any trial was started.
#[derive(Debug)]
#[non_exhaustive]
pub struct PreflightProblem {
    /// The affected combinations of case and variant.
    pub affected: Vec<String>,
    /// The error.
    pub error: TrialError,
    /// The code of an error that concerns the agent, such as `CLAUDE_CLI_NOT_FOUND`.
    pub code: Option<String>,
}

/// An error of preparing or executing a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Some trials can't be run; none was started.
    #[error("{}", preflight_message(problems))]
    Refused {
        /// All problems.
        problems: Vec<PreflightProblem>,
    },
    /// No trial matches the filters.
    #[error("no trial matches the filter{}: {}", if filters.len() == 1 { "" } else { "s" }, filters.join(", "))]
    NothingSelected {
        /// The filters.
        filters: Vec<String>,
        /// The available names.
        known: Vec<String>,
    },
    /// A file or directory of the run can't be used.
    #[error("failed to {what} `{}`: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The journal can't be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Results can't be recorded because the disk is full.
    #[error("failed to record results: {reason}")]
    DiskFull {
        /// The reason.
        reason: String,
    },
    /// The files that trials share were changed.
    #[error(transparent)]
    Checkout(yb_repo::RepoError),
    /// The run can't be regraded.
    #[error("failed to regrade: {reason}")]
    Regrade {
        /// The reason.
        reason: String,
    },
    /// No grading has this name.
    #[error("run `{run}` has no grading `{name}`")]
    NoSuchGrading {
        /// The run.
        run: String,
        /// The name.
        name: String,
        /// The available names.
        known: Vec<String>,
    },
    /// Another process has the run locked.
    #[error("run `{run}` is in use{}", pid.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Locked {
        /// The run.
        run: String,
        /// The id of the process, if known.
        pid: Option<u32>,
    },
    /// The plan can't be read.
    #[error("failed to read the plan `{}`: {reason}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The results can't be read.
    #[error("failed to read the results `{}`: {reason}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The baseline of a gate can't be read.
    #[error(transparent)]
    Baseline(#[from] crate::baseline::BaselineError),
    /// Files have changed since the run was planned.
    #[error("files have changed since run `{run}` started: {}", files.join(", "))]
    Changed {
        /// The run.
        run: String,
        /// The changed files.
        files: Vec<String>,
    },
    /// Artifacts of finished trials are missing.
    #[error("run `{run}` is damaged: {}", missing.join(", "))]
    Damaged {
        /// The run.
        run: String,
        /// The missing artifacts.
        missing: Vec<String>,
    },
    /// A recorded file was changed.
    #[error("changed since it was recorded: `{}`", path.display())]
    Modified {
        /// The run.
        run: String,
        /// The file.
        path: PathBuf,
    },
    /// No run has this name.
    #[error("no run matches `{name}` in `{}`", dir.display())]
    NoSuchRun {
        /// The name.
        name: String,
        /// The directory that was searched.
        dir: PathBuf,
    },
    /// No trial has this name.
    #[error("no trial of run `{run}` matches `{name}`")]
    NoSuchTrial {
        /// The run.
        run: String,
        /// The name.
        name: String,
        /// The available names.
        known: Vec<String>,
    },
    /// Several names have this prefix.
    #[error("`{name}` is ambiguous: {}", candidates.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// The matching names.
        candidates: Vec<String>,
    },
    /// There is no unfinished run.
    #[error("no unfinished run in `{}`", dir.display())]
    NothingToResume {
        /// The directory that was searched.
        dir: PathBuf,
    },
    /// No trial of the run qualifies.
    #[error("no trial of run `{run}` {which}")]
    NothingToRerun {
        /// The run.
        run: String,
        /// The criterion, as the predicate of a sentence.
        which: &'static str,
    },
}

fn preflight_message(problems: &[PreflightProblem]) -> String {
    match problems {
        [one] => one.error.to_string(),
        many => format!("{} problems found; no trial was started", many.len()),
    }
}

impl RunError {
    pub(crate) fn from_trial(error: TrialError) -> Self {
        Self::Refused { problems: vec![PreflightProblem { affected: Vec::new(), error, code: None }] }
    }

    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn disk_full(error: &TrialError) -> Self {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        let known = |cause: &String| !error.to_string().contains(cause.as_str());
        Self::DiskFull { reason: format!("{error}{}", cause.filter(known).unwrap_or_default()) }
    }

    /// Returns hints, if there are any.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Refused { problems } => match problems.as_slice() {
                [one] => one.error.hints(),
                _ => Vec::new(),
            },
            Self::NoSuchGrading { known, run, .. } if known.is_empty() => {
                vec![format!("create one with `yb eval --from {run}`")]
            }
            Self::NoSuchGrading { known, .. } => vec![format!("available: {}", name_list(known))],
            Self::NothingSelected { known, .. } => vec![format!("available: {}", name_list(known))],
            Self::Locked { .. } => vec!["wait for that process to finish, or stop it".to_owned()],
            Self::Changed { .. } => {
                vec!["restore them, or start a new run with `yb run -c FILE`".to_owned()]
            }
            Self::Modified { run, .. } => vec![
                format!("`yb verify {run}` lists all changes"),
                "restore the file; an artifact may also be removed, then it is not used".to_owned(),
            ],
            Self::Journal(JournalError::Damaged { .. }) => {
                vec!["restore the journal: no result of the run can be trusted".to_owned()]
            }
            Self::NoSuchRun { .. } => vec!["`yb list runs` shows all runs".to_owned()],
            Self::NoSuchTrial { known, .. } => vec![format!("available: {}", name_list(known))],
            Self::Ambiguous { .. } => vec!["use a longer prefix".to_owned()],
            Self::NothingToResume { .. } => {
                vec!["show a finished run with `yb show RUN`".to_owned()]
            }
            Self::DiskFull { .. } => vec![FREE_SPACE_HINT.to_owned()],
            Self::Baseline(error) => error.hints(),
            Self::Checkout(error) => error.hint().map(str::to_owned).into_iter().collect(),
            Self::Io { source, .. } | Self::Journal(JournalError::Io { source, .. })
                if is_disk_full(source) =>
            {
                vec![FREE_SPACE_HINT.to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

fn name_list(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether the error means that no more data can be written.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
    )
}
