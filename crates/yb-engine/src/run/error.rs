//! Why there is no run, or no more of it.

use std::io;
use std::path::{Path, PathBuf};

use super::journal::JournalError;
use crate::trial::TrialError;

const FREE: &str = "free some space, then go on with `yb run --resume`; nothing recorded is lost";

/// One thing that stands in the way of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Problem {
    /// The cases and variants that it concerns.
    pub of: Vec<String>,
    /// What it is.
    pub error: TrialError,
}

/// Why there is no run, or no more of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Some of its trials can't be run; none was started.
    #[error("{}", one_or_many(problems))]
    Refused {
        /// Everything that was found.
        problems: Vec<Problem>,
    },
    /// The filters leave nothing.
    #[error("no trial matches the filter{}: {}", if filters.len() == 1 { "" } else { "s" }, filters.join(", "))]
    NothingSelected {
        /// As they were written.
        filters: Vec<String>,
        /// What there is.
        known: Vec<String>,
    },
    /// A file or directory of the run.
    #[error("failed to {what} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A trial could not be written down, and no other could.
    #[error("nothing more can be written: {reason}")]
    Full {
        /// What could not, and why.
        reason: String,
    },
    /// It can't be graded again.
    #[error("failed to grade again: {reason}")]
    Regrade {
        /// Why not.
        reason: String,
    },
    /// No grading has such a name.
    #[error("run `{run}` has no grading `{name}`")]
    NoSuchGrading {
        /// The run.
        run: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Somebody else works on the run.
    #[error("run `{run}` is being worked on{}", pid.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Locked {
        /// The run.
        run: String,
        /// Whose process it is.
        pid: Option<u32>,
    },
    /// The plan can't be used.
    #[error("failed to read the plan `{}`: {reason}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Results that were written down can't be used.
    #[error("failed to read the results `{}`: {reason}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A gate compares with something that is not there.
    #[error(transparent)]
    Against(#[from] crate::baseline::BaselineError),
    /// Files that the plan was made from are others now.
    #[error("files have changed since run `{run}` began: {}", files.join(", "))]
    Changed {
        /// The run.
        run: String,
        /// Which.
        files: Vec<String>,
    },
    /// What finished trials left is not there any more.
    #[error("run `{run}` is damaged: {}", missing.join(", "))]
    Damaged {
        /// The run.
        run: String,
        /// What is missing.
        missing: Vec<String>,
    },
    /// No run has such a name.
    #[error("no run matches `{name}` in `{}`", dir.display())]
    NoSuchRun {
        /// As it was written.
        name: String,
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// No trial has such a name.
    #[error("no trial of run `{run}` matches `{name}`")]
    NoSuchTrial {
        /// The run.
        run: String,
        /// As it was written.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Several have.
    #[error("`{name}` could be any of: {}", candidates.join(", "))]
    Ambiguous {
        /// As it was written.
        name: String,
        /// Which.
        candidates: Vec<String>,
    },
    /// There is no unfinished run.
    #[error("no run in `{}` is unfinished", dir.display())]
    NothingToResume {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// None of the run's trials is to be done again.
    #[error("no trial of run `{run}` {which}")]
    NothingToRerun {
        /// The run.
        run: String,
        /// What was asked for.
        which: &'static str,
    },
}

fn one_or_many(problems: &[Problem]) -> String {
    match problems {
        [one] => one.error.to_string(),
        many => format!("{} things stand in the way; nothing was started", many.len()),
    }
}

impl RunError {
    pub(crate) fn one(error: TrialError) -> Self {
        Self::Refused { problems: vec![Problem { of: Vec::new(), error }] }
    }

    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn full(error: &TrialError) -> Self {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        let known = |cause: &String| !error.to_string().contains(cause.as_str());
        Self::Full { reason: format!("{error}{}", cause.filter(known).unwrap_or_default()) }
    }

    /// The ways out, where there are any to name.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Refused { problems } => match problems.as_slice() {
                [one] => one.error.hints(),
                _ => Vec::new(),
            },
            Self::NoSuchGrading { known, run, .. } if known.is_empty() => {
                vec![format!("make one: `yb eval --from {run}`")]
            }
            Self::NoSuchGrading { known, .. } => vec![format!("there are: {}", shortened(known))],
            Self::NothingSelected { known, .. } => vec![format!("there are: {}", shortened(known))],
            Self::Locked { .. } => vec!["wait for it, or stop it".to_owned()],
            Self::Changed { .. } => {
                vec!["put them back, or start a new run with `yb run -c FILE`".to_owned()]
            }
            Self::NoSuchRun { .. } => vec!["`yb list runs` shows all runs".to_owned()],
            Self::NoSuchTrial { known, .. } => vec![format!("there are: {}", shortened(known))],
            Self::Ambiguous { .. } => vec!["write more of the name".to_owned()],
            Self::NothingToResume { .. } => {
                vec!["name a run to look at it: `yb show RUN`".to_owned()]
            }
            Self::Full { .. } => vec![FREE.to_owned()],
            Self::Against(error) => error.hints(),
            Self::Io { source, .. } | Self::Journal(JournalError::Io { source, .. }) if is_full(source) => {
                vec![FREE.to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether there is no space, or none for us.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
    )
}
