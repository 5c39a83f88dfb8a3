//! Grading: what each evaluator found, in one shape. An evaluator is one file and a line in the registry.
//!
//! Nothing in here needs a trial that is still there: a `Subject` is made from a run's `objects.git` and the agent's
//! log, and the same subject gives the same [`Verdict`]s, byte for byte. How long grading took is told apart from them.

mod answer;
mod bench;
mod budget;
mod command;
mod expected_diff;
mod files;
mod git_diff;
mod grade;
mod held;
mod judge;
mod known;
mod prepare;
mod registry;
mod report;
#[cfg(test)]
mod samples;
mod similarity;
mod subject;
mod trajectory;
mod tree;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

pub use git_diff::PATCH_FILE;
pub use grade::{Limits, grade, outcome};
pub use judge::{JudgeError, available as judge_available, check as check_judge};
pub use known::{KnownEvaluator, known_evaluators};
pub use prepare::{Preparation, prepared};
pub use registry::evaluator;
pub use subject::{Bench, Desk, FOLDER, Subject, VERDICT_FILE, remove_tree};
pub use yb_model::verdict::{
    Artifact, Assertion, EvaluatorError, EvaluatorResult, EvaluatorStatus, Trust, Verdict,
};

use yb_repo::RepoError;

/// What an evaluator has to be given before it can look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The agent's log.
    Log,
    /// The start tree and the end tree, in the store.
    Objects,
    /// A tree of files on disk, made for this evaluator alone.
    Tree,
}

impl Need {
    /// As `yb list evaluators` says it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Objects => "objects",
            Self::Tree => "tree",
        }
    }
}

/// What grades one aspect of a trial. The configuration that a case has for it *is* the evaluator.
#[async_trait]
pub(crate) trait Evaluator: Send + Sync {
    /// What it has to be given.
    fn need(&self) -> Need;

    /// How long it may look, where all others may look so long; zero is for ever.
    fn time(&self, usual: Duration) -> Duration {
        usual
    }

    /// Looks. Whatever an agent may have caused is a verdict; an error means that nobody can tell, and is never a pass.
    async fn evaluate(&self, subject: &Subject, desk: &Desk) -> Result<Verdict, GradeError>;
}

/// Why an evaluator can't say anything.
#[derive(Debug, thiserror::Error)]
pub enum GradeError {
    /// The store did not answer.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// A file of ours can't be written or read.
    #[error("failed to write `{}`: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// Something else, in words.
    #[error("{0}")]
    Other(String),
}

impl GradeError {
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    pub fn other(text: impl Into<String>) -> Self {
        Self::Other(text.into())
    }
}

/// Whether anything of a case is graded in a tree of files.
pub fn needs_tree(evaluators: &[yb_case::Evaluator]) -> bool {
    let needs = evaluators.iter().filter_map(|one| evaluator(&one.check)).map(Evaluator::need);
    needs.max() == Some(Need::Tree)
}

/// Whether this version can run an evaluator of a case.
pub fn runs(evaluator: &yb_case::Evaluator) -> bool {
    self::evaluator(&evaluator.check).is_some()
}
