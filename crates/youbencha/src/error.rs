//! The error of a command: message, causes and hints for the user, exit code for scripts.

use std::error::Error;

use crate::exit_code::ExitCode;

/// The kind of an error, which determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// An argument or a file is wrong; nothing was started.
    Usage,
    /// The agent ran and failed.
    Failed,
    /// An agent is not installed or not authenticated.
    Agent,
    /// The machine, the network or an API failed.
    Infrastructure,
}

/// An error that ends a command.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
}

impl CliError {
    /// Creates an error. `message` is a lower-case fragment without a final period.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, hints: Vec::new() }
    }

    /// Returns a function for `map_err` that wraps an I/O error as "failed to …".
    pub(crate) fn failed_to(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::new(ErrorKind::Infrastructure, format!("failed to {what}")).caused_by(error)
    }

    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            ErrorKind::Usage => ExitCode::Usage,
            ErrorKind::Failed => ExitCode::Failed,
            ErrorKind::Agent => ExitCode::Agent,
            ErrorKind::Infrastructure => ExitCode::Infrastructure,
        }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the chain of causes, nearest first.
    pub(crate) fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        let mut next = self.source.as_deref().map(|source| source as &dyn Error);
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        causes
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl From<yb_supervise::SpawnError> for CliError {
    fn from(error: yb_supervise::SpawnError) -> Self {
        let hint = error.hint();
        let edge = Self::new(ErrorKind::Infrastructure, "failed to start a program").caused_by(error);
        hint.into_iter().fold(edge, Self::hint)
    }
}

impl From<yb_claude::FindError> for CliError {
    fn from(error: yb_claude::FindError) -> Self {
        let hints = error.hints();
        let edge = Self::new(ErrorKind::Agent, "failed to find Claude Code").caused_by(error);
        hints.into_iter().fold(edge, Self::hint)
    }
}

impl From<yb_claude::ProviderError> for CliError {
    fn from(error: yb_claude::ProviderError) -> Self {
        use yb_claude::{ApiFailureKind, ProviderError};
        let kind = match &error {
            ProviderError::Invalid { .. } => ErrorKind::Usage,
            ProviderError::NotStarted { .. } => ErrorKind::Agent,
            ProviderError::Api { failure: ApiFailureKind::Unauthenticated, .. } => ErrorKind::Agent,
            ProviderError::Api { failure, .. } if failure.is_retryable() => ErrorKind::Infrastructure,
            _ => ErrorKind::Failed,
        };
        let hints = error.hints();
        hints.into_iter().fold(Self::new(kind, error.to_string()), Self::hint)
    }
}

impl From<yb_tape::Error> for CliError {
    fn from(error: yb_tape::Error) -> Self {
        let message = error.to_string();
        let hint = error.hint().map(str::to_owned);
        let edge = match error {
            yb_tape::Error::Script(mistake) => {
                Self::new(ErrorKind::Usage, "failed to load the script").caused_by(mistake)
            }
            yb_tape::Error::ReadScript { source, .. }
            | yb_tape::Error::ReadTape { source, .. }
            | yb_tape::Error::WriteTape { source, .. }
            | yb_tape::Error::Bind { source, .. } => Self::new(ErrorKind::Usage, message).caused_by(source),
            yb_tape::Error::Start(source) => Self::new(ErrorKind::Infrastructure, message).caused_by(source),
            yb_tape::Error::Tls(_) => Self::new(ErrorKind::Infrastructure, message),
            _ => Self::new(ErrorKind::Usage, message),
        };
        hint.into_iter().fold(edge, Self::hint)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{CliError, ErrorKind};
    use crate::exit_code::ExitCode;

    #[test]
    fn tape_error_keeps_its_cause() {
        let source = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let path = "x.yaml".into();
        let error = CliError::from(yb_tape::Error::ReadScript { path, source });
        assert_eq!(error.message(), "failed to read script: `x.yaml`");
        assert_eq!(error.causes(), ["no such file"]);
        assert_eq!(error.exit_code(), ExitCode::Usage);
    }

    #[test]
    fn kind_determines_the_exit_code() {
        let code = |kind| CliError::new(kind, "failed").exit_code();
        assert_eq!(code(ErrorKind::Usage), ExitCode::Usage);
        assert_eq!(code(ErrorKind::Failed), ExitCode::Failed);
        assert_eq!(code(ErrorKind::Agent), ExitCode::Agent);
        assert_eq!(code(ErrorKind::Infrastructure), ExitCode::Infrastructure);
    }
}
