//! The trait that evaluators implement, and its connection to the configuration in a case.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{EvaluatorContext, GraderEnv, Subject, Verdict};
use yb_agents::AdapterError;
use yb_case::{ConfiguredEvaluator, EnvVar, EvaluatorConfig, EvaluatorInput};
use yb_repo::{GitError, RepoError};

/// An evaluator grades one aspect of a trial. Its parsed configuration implements this trait.
#[async_trait]
pub trait Evaluator: fmt::Debug + Send + Sync {
    /// Returns whether it asserts nothing, so that it always passes. Such an evaluator is a warning in a case.
    fn is_vacuous(&self) -> bool {
        false
    }

    /// Returns the environment variables that it reads. A run does not start without them.
    fn variables(&self) -> &[EnvVar] {
        &[]
    }

    /// Returns its timeout, given the one that the case sets for all evaluators. Zero means no limit.
    fn timeout(&self, default: Duration) -> Duration {
        default
    }

    /// Returns whether it may exceed its timeout because of a service, such as a model API, rather than because of the trial.
    fn awaits_a_service(&self) -> bool {
        false
    }

    /// Checks before a run whether it can run in this environment, without starting a process.
    ///
    /// # Errors
    /// When it can't run.
    fn check(&self, _env: &GraderEnv) -> Result<(), PreflightError> {
        Ok(())
    }

    /// Checks before a run whether the programs that it needs are installed and authenticated.
    ///
    /// # Errors
    /// When one is not.
    async fn check_availability(&self, _env: &GraderEnv) -> Result<(), PreflightError> {
        Ok(())
    }

    /// Grades a trial. Every failure that the agent may have caused is part of the verdict.
    ///
    /// # Errors
    /// When the result is unknown for a reason that the agent can't have caused. Such a trial never passes.
    async fn evaluate(&self, subject: &Subject, context: &EvaluatorContext) -> Result<Verdict, GradeError>;
}

/// Wraps an evaluator as the parsed configuration that a spec returns.
#[must_use]
pub fn into_config<E: Evaluator + 'static>(evaluator: E) -> Arc<dyn EvaluatorConfig> {
    Arc::new(BoxedEvaluator(Box::new(evaluator)))
}

/// An evaluator within a case.
#[derive(Debug)]
struct BoxedEvaluator(Box<dyn Evaluator>);

impl EvaluatorConfig for BoxedEvaluator {
    fn is_vacuous(&self) -> bool {
        self.0.is_vacuous()
    }

    fn variables(&self) -> &[EnvVar] {
        self.0.variables()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the evaluator within a case, unless it is unknown.
pub(crate) fn evaluator_of(configured: &ConfiguredEvaluator) -> Option<&dyn Evaluator> {
    let boxed = configured.parsed.as_ref()?.as_any().downcast_ref::<BoxedEvaluator>()?;
    Some(boxed.0.as_ref())
}

/// Returns whether an evaluator of a case can be run.
#[must_use]
pub fn is_supported(evaluator: &ConfiguredEvaluator) -> bool {
    evaluator_of(evaluator).is_some()
}

/// Returns whether an evaluator calls a model, which costs money.
#[must_use]
pub fn calls_a_model(evaluator: &ConfiguredEvaluator) -> bool {
    evaluator_of(evaluator).is_some_and(|evaluator| evaluator.awaits_a_service())
}

/// Returns whether any of the evaluators needs a checkout of the end tree.
#[must_use]
pub fn needs_tree(evaluators: &[ConfiguredEvaluator]) -> bool {
    evaluators.iter().any(|one| one.spec.is_some_and(|spec| spec.input == EvaluatorInput::Tree))
}

/// Checks whether the evaluators of a case can run, without starting a process.
///
/// # Errors
/// The first problem.
pub fn check(evaluators: &[ConfiguredEvaluator], env: &GraderEnv) -> Result<(), PreflightError> {
    evaluators.iter().filter_map(evaluator_of).try_for_each(|evaluator| evaluator.check(env))
}

/// Checks whether the programs that the evaluators of a case need are installed and authenticated.
///
/// # Errors
/// The first problem.
pub async fn check_availability(
    evaluators: &[ConfiguredEvaluator],
    env: &GraderEnv,
) -> Result<(), PreflightError> {
    for evaluator in evaluators.iter().filter_map(evaluator_of) {
        evaluator.check_availability(env).await?;
    }
    Ok(())
}

/// Why an evaluator has no verdict.
#[derive(Debug, thiserror::Error)]
pub enum GradeError {
    /// The object store failed.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// A file of the run can't be written or read.
    #[error("failed to write `{}`: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

impl GradeError {
    /// Returns a function that adds a path to an I/O error.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Returns whether the content of the graded tree caused the error: names and paths that can't be created, or too much of it.
    pub(crate) fn is_caused_by_content(&self) -> bool {
        use std::io::ErrorKind;
        match self {
            Self::Repo(RepoError::Io { source, .. }) | Self::Io { source, .. } => matches!(
                source.kind(),
                ErrorKind::InvalidFilename
                    | ErrorKind::InvalidInput
                    | ErrorKind::NotADirectory
                    | ErrorKind::IsADirectory
                    | ErrorKind::DirectoryNotEmpty
                    | ErrorKind::AlreadyExists
                    | ErrorKind::TooManyLinks
            ),
            Self::Repo(RepoError::Git(GitError::TimedOut { .. })) => true,
            Self::Repo(_) | Self::Other(_) => false,
        }
    }

    /// Creates an error from a message.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }
}

/// Why an evaluator of a case can't run.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// It needs an agent that does not exist.
    #[error("unknown agent: `{agent}`")]
    UnknownAgent {
        /// The name of the agent.
        agent: String,
    },
    /// It needs an environment variable that is not set.
    #[error("environment variable is not set: `{name}`")]
    NoVariable {
        /// The name of the variable.
        name: String,
    },
    /// It runs a program that is not installed.
    #[error("program not found: `{program}`")]
    NoProgram {
        /// The name or path of the program.
        program: String,
    },
    /// It needs a program that is not installed or not authenticated.
    #[error("{message}")]
    Unavailable {
        /// The problem.
        message: String,
        /// The ways out.
        hints: Vec<String>,
    },
    /// The configuration of its agent is invalid.
    #[error(transparent)]
    Agent(#[from] AdapterError),
    /// Its environment can't be prepared.
    #[error("failed to grade: {reason}")]
    Grading {
        /// The cause.
        reason: String,
    },
}
