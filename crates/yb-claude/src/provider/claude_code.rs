//! Claude Code as a provider, authenticated by the user's login.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use yb_supervise::CancellationToken;

use super::response::{CliResponse, CombinedResponse};
use super::run::{CliRun, MessageObserver, RunLimits};
use super::{Context, OutgoingMessage, Provider, ProviderError, StopReason};
use crate::env_vars as vars;
use crate::launcher::Launcher;
use crate::{
    Availability, AvailabilityCheck, InvocationTarget, Message, Options, Prompt, Session, UsageBaseline,
};

const NAME: &str = "claude-code";
/// The prompt that continues a session after the turn limit.
const CONTINUE_PROMPT: &str = "Continue where you left off. Complete the remaining work.";
/// The delay before the first retry; it doubles with each retry.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// A provider that runs the locally installed `claude` CLI.
///
/// ```no_run
/// use yb_claude::{ClaudeCodeProvider, Context, Provider};
///
/// # async fn example() -> Result<(), yb_claude::ProviderError> {
/// let provider = ClaudeCodeProvider::new().with_max_budget_usd(0.5);
/// let answer = provider.complete(&Context::new("What does this repository do?")).await?;
/// println!("{} ({:?} tokens)", answer.text, answer.metadata.tokens_used);
/// # Ok(())
/// # }
/// ```
///
/// Dropping the future of [`complete`](Provider::complete) kills the CLI. Its descendants are killed too, if the program
/// calls [`shim_main`](crate::shim_main) first in `main`.
#[derive(Debug, Clone)]
#[must_use]
pub struct ClaudeCodeProvider {
    session_id: Option<String>,
    max_turns: u32,
    allowed_tools: Vec<String>,
    timeout: Duration,
    options: Options,
    launcher: Launcher,
    continuations: u32,
    retries: u32,
    legacy_command_line: bool,
    cancel: CancellationToken,
}

impl Default for ClaudeCodeProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl ClaudeCodeProvider {
    /// Creates a provider with 10 turns, the tools Bash, Read, Write and Edit, and a timeout of 10 minutes.
    pub fn new() -> Self {
        let tools = ["Bash", "Read", "Write", "Edit"].map(str::to_owned).to_vec();
        Self::from_config(10, tools, 600)
    }

    /// Creates a provider with the given limits. With an empty list of tools, the CLI's own rules apply.
    pub fn from_config(max_turns: u32, allowed_tools: Vec<String>, timeout_secs: u64) -> Self {
        Self {
            session_id: None,
            max_turns,
            allowed_tools,
            timeout: Duration::from_secs(timeout_secs),
            options: Options::default(),
            launcher: Launcher::default(),
            continuations: 0,
            retries: 0,
            legacy_command_line: false,
            cancel: CancellationToken::new(),
        }
    }

    /// Returns whether the CLI is installed and runs, without a model request.
    pub async fn check_cli() -> bool {
        !matches!(Self::new().availability().await, Availability::Missing(_))
    }

    /// Checks whether the CLI is installed and authenticated.
    pub async fn availability(&self) -> Availability {
        let mut check = AvailabilityCheck::new(self.launcher.environment());
        if let Some(program) = &self.launcher.program {
            check = check.with_program(program);
        }
        if let Some(shim) = &self.launcher.shim {
            check = check.with_shim(shim);
        }
        check.check().await
    }

    /// Sets the default session: a UUID starts a new session, anything else resumes an existing one.
    pub fn with_session_id(mut self, id: impl Into<String>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Sets the default model.
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.options.model = Some(model.into());
        self
    }

    /// Sets the budget of one call, including continuations.
    pub fn with_max_budget_usd(mut self, usd: f64) -> Self {
        self.options.max_budget_usd = Some(usd);
        self
    }

    /// Sets how often a run is continued after it reached the turn limit; 0 by default, so that the limit is effective.
    /// Texts are joined, cost and tokens are summed.
    pub fn with_continuations(mut self, attempts: u32) -> Self {
        self.continuations = attempts;
        self
    }

    /// Sets the number of retries after a transient API error; 0 by default, because the CLI itself retries ten times. A run
    /// that has used a tool is not retried, because its work would be repeated.
    pub fn with_retries(mut self, attempts: u32) -> Self {
        self.retries = attempts;
        self
    }

    /// Sets all other options. Turn limit, tools and session are still taken from the provider.
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Sets the program, instead of searching for one.
    pub fn with_program(mut self, path: impl Into<PathBuf>) -> Self {
        self.launcher.program = Some(path.into());
        self
    }

    /// Sets the shim program; by default the current executable, if it calls [`shim_main`](crate::shim_main).
    pub fn with_shim(mut self, path: impl Into<PathBuf>) -> Self {
        self.launcher.shim = Some(path.into());
        self
    }

    /// Sets the complete environment of the CLI, instead of the host's own.
    pub fn with_environment(
        mut self,
        env: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Self {
        self.launcher.env = Some(env.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// Cancels all calls when the token is cancelled.
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// Uses the legacy command line: see [`Options::legacy_invocation`]. The CLI then interprets the prompt, and returns no
    /// text at the turn limit.
    pub fn with_legacy_command_line(mut self, on: bool) -> Self {
        self.legacy_command_line = on;
        self
    }

    /// Like [`complete`](Provider::complete), and calls `observe` for every message as it arrives.
    ///
    /// # Errors
    /// As [`complete`](Provider::complete).
    pub async fn complete_observed(
        &self,
        context: &Context,
        observe: &mut (dyn FnMut(&Message) + Send),
    ) -> Result<OutgoingMessage, ProviderError> {
        let started = Instant::now();
        let program = self.find()?;
        let mut options = self.options_for(context)?;
        let mut prompt = Prompt::text(context.to_prompt_string());
        let resumes =
            matches!(options.session, Session::Resume(_) | Session::Continue | Session::Fork { .. });
        let mut combined =
            CombinedResponse::new(if resumes { UsageBaseline::Unknown } else { UsageBaseline::NewSession });
        loop {
            let response = match self.run_with_retries(&program, &options, &prompt, observe).await {
                Ok(response) => response,
                // A failed continuation does not discard the text so far.
                Err(error) if combined.count() > 0 && !matches!(error, ProviderError::Cancelled) => {
                    tracing::warn!(%error, "failed to continue after the turn limit");
                    break;
                }
                Err(error) => return Err(error),
            };
            let session = response.run.summary.session_id().map(str::to_owned);
            let stop_reason = response.stop_reason.clone();
            combined.add(response);
            let (StopReason::MaxTurns, Some(session), true) =
                (stop_reason, session, combined.count() <= self.continuations)
            else {
                break;
            };
            if let Some(budget) = self.options.max_budget_usd {
                // An unknown cost can't be limited by a budget.
                match combined.cost_usd().map(|cost| budget - cost) {
                    Some(left) if left > 0.0 => options.max_budget_usd = Some(left),
                    _ => break,
                }
            }
            options.session = Session::Resume(session);
            prompt = Prompt::text(CONTINUE_PROMPT);
        }
        let model = context.model.as_deref().or(self.options.model.as_deref());
        Ok(combined.into_message(NAME, model, started.elapsed()))
    }

    /// Runs the CLI, with retries after transient API errors.
    async fn run_with_retries(
        &self,
        program: &Path,
        options: &Options,
        prompt: &Prompt,
        observe: MessageObserver<'_>,
    ) -> Result<CliResponse, ProviderError> {
        let mut delay = FIRST_RETRY_DELAY;
        let mut left = self.retries;
        loop {
            let mut used_tool = false;
            let mut watch = |message: &Message| {
                used_tool |= matches!(message, Message::User(_));
                observe(message);
            };
            match self.run(program, options, prompt, &mut watch).await {
                Err(error) if error.is_retryable() && left > 0 && !used_tool => {
                    tracing::warn!(%error, ?delay, "retrying");
                    tokio::select! {
                        () = tokio::time::sleep(delay) => {}
                        () = self.cancel.cancelled() => return Err(ProviderError::Cancelled),
                    }
                    left -= 1;
                    delay = (delay * 2).min(MAX_RETRY_DELAY);
                }
                response => return response,
            }
        }
    }

    async fn run(
        &self,
        program: &Path,
        options: &Options,
        prompt: &Prompt,
        observe: MessageObserver<'_>,
    ) -> Result<CliResponse, ProviderError> {
        let private = tempfile::TempDir::with_prefix("yb-claude-")
            .map_err(|error| ProviderError::NotStarted { reason: error.to_string(), hints: Vec::new() })?;
        let target = InvocationTarget::new(private.path().join("files"));
        let invocation = if self.legacy_command_line {
            options.legacy_invocation(prompt, &target)
        } else {
            options.invocation(prompt, &target)
        };
        let invocation = invocation.map_err(|error| ProviderError::Invalid { reason: error.to_string() })?;
        for warning in &invocation.warnings {
            tracing::warn!(%warning, "an option has a different effect than requested");
        }
        invocation
            .write_files()
            .map_err(|error| ProviderError::NotStarted { reason: error.to_string(), hints: Vec::new() })?;
        let command = self.launcher.in_environment(invocation.command(program), &invocation.env);
        let limits = RunLimits {
            deadline: self.timeout,
            cancel: self.cancel.clone(),
            streams: !self.legacy_command_line,
        };
        let run = CliRun::start(command, &limits, observe).await?;
        CliResponse::from_run(run)
    }

    fn find(&self) -> Result<PathBuf, ProviderError> {
        self.launcher
            .find()
            .map_err(|error| ProviderError::NotStarted { reason: error.to_string(), hints: error.hints() })
    }

    fn options_for(&self, context: &Context) -> Result<Options, ProviderError> {
        let mut options = self.options.clone();
        options.max_turns = Some(context.max_turns.unwrap_or(self.max_turns));
        match &context.allowed_tools {
            Some(tools) if tools.is_empty() => options.tools = Some(Vec::new()),
            Some(tools) => options.allowed_tools = Some(tools.clone()),
            None if self.allowed_tools.is_empty() => {}
            None => options.allowed_tools = Some(self.allowed_tools.clone()),
        }
        if context.model.is_some() {
            options.model.clone_from(&context.model);
        }
        if let Some(id) = &context.session_id {
            options.session = Session::Resume(id.clone());
        } else if let Some(id) = &self.session_id {
            options.session = Session::from_id(id.clone());
        }
        if let Some(name) = &context.agent_name {
            self.choose_agent(&mut options, name)?;
        }
        Ok(options)
    }

    /// Passes the agent's definition inline, so that an unknown name is an error; the CLI would ignore it.
    fn choose_agent(&self, options: &mut Options, name: &str) -> Result<(), ProviderError> {
        if !options.agents.contains_key(name) {
            let cwd = options.cwd.clone().or_else(|| std::env::current_dir().ok());
            let home = self.launcher.environment().into_iter().find(|(known, _)| known == vars::HOME);
            let roots: Vec<PathBuf> = cwd.into_iter().chain(home.map(|(_, home)| home.into())).collect();
            let roots: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
            let (definition, _) = crate::find_agent(name, &roots)
                .map_err(|error| ProviderError::Invalid { reason: error.to_string() })?;
            options.agents.insert(name.to_owned(), definition);
        }
        options.agent = Some(crate::Agent::Defined(name.to_owned()));
        Ok(())
    }
}

#[async_trait]
impl Provider for ClaudeCodeProvider {
    fn name(&self) -> &str {
        NAME
    }

    fn requires_api_key(&self) -> bool {
        false
    }

    async fn complete(&self, context: &Context) -> Result<OutgoingMessage, ProviderError> {
        self.complete_observed(context, &mut |_| {}).await
    }

    /// Returns whether the CLI is installed and, as far as known without a model request, authenticated.
    async fn is_available(&self) -> bool {
        self.availability().await.is_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default_provider() {
        let provider = ClaudeCodeProvider::new();
        assert_eq!(provider.name(), "claude-code");
        assert!(!provider.requires_api_key());
        assert_eq!(provider.max_turns, 10);
        assert_eq!(provider.allowed_tools.len(), 4);
        assert_eq!(provider.timeout, Duration::from_secs(600));
    }

    #[test]
    fn test_from_config_with_timeout() {
        let provider = ClaudeCodeProvider::from_config(5, vec!["Bash".into()], 300);
        assert_eq!(provider.timeout, Duration::from_secs(300));
    }

    #[test]
    fn provider_is_send_sync_and_object_safe() {
        fn is_send_and_sync<T: Send + Sync>() {}
        is_send_and_sync::<ClaudeCodeProvider>();
        let provider: Box<dyn Provider> = Box::new(ClaudeCodeProvider::default());
        assert_eq!(provider.name(), "claude-code");
    }

    #[test]
    fn context_overrides_provider() {
        let provider = ClaudeCodeProvider::new().with_model("sonnet").with_session_id("not-a-uuid");
        let options = provider.options_for(&Context::new("x")).unwrap();
        assert_eq!((options.model.as_deref(), options.max_turns), (Some("sonnet"), Some(10)));
        assert_eq!(options.session, Session::Resume("not-a-uuid".to_owned()));
        let context = Context::new("x")
            .with_model("haiku")
            .with_max_turns(3)
            .with_session("s")
            .with_allowed_tools([""; 0]);
        let options = provider.options_for(&context).unwrap();
        assert_eq!((options.model.as_deref(), options.max_turns), (Some("haiku"), Some(3)));
        assert_eq!(options.session, Session::Resume("s".to_owned()));
        assert_eq!(options.tools, Some(Vec::new()));
    }
}
