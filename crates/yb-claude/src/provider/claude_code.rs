//! Claude Code as a provider: no key needed, the user's own login does.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use yb_supervise::CancellationToken;

use super::answer::{Answer, Pieces};
use super::run::{Observer, Run, Watch};
use super::{Context, OutgoingMessage, Provider, ProviderError, Stop};
use crate::env_vars as vars;
use crate::launcher::Launcher;
use crate::{Availability, AvailabilityCheck, Baseline, Message, Options, Prompt, Session, Target};

const NAME: &str = "claude-code";
/// What a session that reached its limit of turns is told.
const GO_ON: &str = "Continue where you left off. Complete the remaining work.";
/// The first pause before a question is asked again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Answers by running the locally installed `claude` CLI.
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
/// Dropping the future of [`complete`](Provider::complete) ends the agent with everything that it started.
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
    seed_compatible: bool,
    cancel: CancellationToken,
}

impl Default for ClaudeCodeProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl ClaudeCodeProvider {
    /// Ten turns, the tools Bash, Read, Write and Edit, ten minutes.
    pub fn new() -> Self {
        let tools = ["Bash", "Read", "Write", "Edit"].map(str::to_owned).to_vec();
        Self::from_config(10, tools, 600)
    }

    /// Other limits. An empty list of tools leaves them to the CLI's own rules.
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
            seed_compatible: false,
            cancel: CancellationToken::new(),
        }
    }

    /// Whether the CLI is installed and says its version. Nothing is asked of a model.
    pub async fn check_cli() -> bool {
        !matches!(Self::new().availability().await, Availability::Missing(_))
    }

    /// Whether the CLI is there and logged in, with hints if not.
    pub async fn availability(&self) -> Availability {
        let mut check = AvailabilityCheck::new(self.launcher.environment());
        if let Some(program) = &self.launcher.program {
            check = check.program(program);
        }
        if let Some(shim) = &self.launcher.shim {
            check = check.shim(shim);
        }
        check.check().await
    }

    /// The session of every call that names none: a UUID begins it, anything else is resumed.
    pub fn with_session_id(mut self, id: impl Into<String>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// The model of every call that names none.
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.options.model = Some(model.into());
        self
    }

    /// What one call may cost, continuations included.
    pub fn with_max_budget_usd(mut self, usd: f64) -> Self {
        self.options.max_budget_usd = Some(usd);
        self
    }

    /// How often the agent is told to go on after it has reached its limit of turns; by default never, because the
    /// limit would mean nothing. The texts are joined, cost and tokens summed.
    pub fn with_continuations(mut self, attempts: u32) -> Self {
        self.continuations = attempts;
        self
    }

    /// How often a question is asked again after an API error that may pass; by default never, because the CLI itself
    /// already tries ten times. A question whose answer has used a tool is not asked again: its work would be done twice.
    pub fn with_retries(mut self, attempts: u32) -> Self {
        self.retries = attempts;
        self
    }

    /// Everything else that can be said about a run. Limits, tools and session are still the provider's.
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// This program, and no other.
    pub fn with_program(mut self, path: impl Into<PathBuf>) -> Self {
        self.launcher.program = Some(path.into());
        self
    }

    /// The program that contains the agent; by default the running one, if it called `yb_supervise::shim_main`.
    pub fn with_shim(mut self, path: impl Into<PathBuf>) -> Self {
        self.launcher.shim = Some(path.into());
        self
    }

    /// Exactly these variables for the agent, instead of the host's own.
    pub fn with_environment(
        mut self,
        env: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Self {
        self.launcher.env = Some(env.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// Ends every call when this token is cancelled.
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// The command in the literal form of the specification: `-p PROMPT --output-format json`, and `--allowedTools` for each
    /// tool. The CLI then interprets the prompt, and at the limit of turns there is no text.
    pub fn with_seed_compatibility(mut self, on: bool) -> Self {
        self.seed_compatible = on;
        self
    }

    /// [`complete`](Provider::complete), with every message of the agent as it comes.
    ///
    /// # Errors
    /// As [`complete`](Provider::complete).
    pub async fn complete_observed(
        &self,
        context: &Context,
        observe: &mut (dyn FnMut(&Message) + Send),
    ) -> Result<OutgoingMessage, ProviderError> {
        let began = Instant::now();
        let program = self.find()?;
        let mut options = self.options_for(context)?;
        let mut prompt = Prompt::text(context.to_prompt_string());
        let resumes =
            matches!(options.session, Session::Resume(_) | Session::Continue | Session::Fork { .. });
        let mut pieces = Pieces::new(if resumes { Baseline::Unknown } else { Baseline::NewSession });
        loop {
            let answer = match self.ask(&program, &options, &prompt, observe).await {
                Ok(answer) => answer,
                // What was said and paid for is not thrown away because going on failed.
                Err(error) if pieces.count() > 0 && !matches!(error, ProviderError::Cancelled) => {
                    tracing::warn!(%error, "could not go on after the limit of turns");
                    break;
                }
                Err(error) => return Err(error),
            };
            let session = answer.run.summary.session_id().map(str::to_owned);
            let stop = answer.stop.clone();
            pieces.add(answer);
            let (Stop::MaxTurns, Some(session), true) = (stop, session, pieces.count() <= self.continuations)
            else {
                break;
            };
            if let Some(budget) = self.options.max_budget_usd {
                // A cost that is not known can't be kept within a budget.
                match pieces.cost_usd().map(|cost| budget - cost) {
                    Some(left) if left > 0.0 => options.max_budget_usd = Some(left),
                    _ => break,
                }
            }
            options.session = Session::Resume(session);
            prompt = Prompt::text(GO_ON);
        }
        let model = context.model.as_deref().or(self.options.model.as_deref());
        Ok(pieces.into_message(NAME, model, began.elapsed()))
    }

    /// One run, asked again after API errors that may pass.
    async fn ask(
        &self,
        program: &Path,
        options: &Options,
        prompt: &Prompt,
        observe: Observer<'_>,
    ) -> Result<Answer, ProviderError> {
        let mut pause = FIRST_PAUSE;
        let mut left = self.retries;
        loop {
            let mut worked = false;
            let mut watch = |message: &Message| {
                worked |= matches!(message, Message::User(_));
                observe(message);
            };
            match self.run(program, options, prompt, &mut watch).await {
                Err(error) if error.is_retryable() && left > 0 && !worked => {
                    tracing::warn!(%error, ?pause, "asking again");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.cancel.cancelled() => return Err(ProviderError::Cancelled),
                    }
                    left -= 1;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                answer => return answer,
            }
        }
    }

    async fn run(
        &self,
        program: &Path,
        options: &Options,
        prompt: &Prompt,
        observe: Observer<'_>,
    ) -> Result<Answer, ProviderError> {
        let private = tempfile::TempDir::with_prefix("yb-claude-")
            .map_err(|error| ProviderError::NotStarted { reason: error.to_string(), hints: Vec::new() })?;
        let target = Target::new(private.path().join("files"));
        let invocation = if self.seed_compatible {
            options.seed_invocation(prompt, &target)
        } else {
            options.invocation(prompt, &target)
        };
        let invocation = invocation.map_err(|error| ProviderError::Invalid { reason: error.to_string() })?;
        for warning in &invocation.warnings {
            tracing::warn!(%warning, "an option goes otherwise than asked");
        }
        invocation
            .write_files()
            .map_err(|error| ProviderError::NotStarted { reason: error.to_string(), hints: Vec::new() })?;
        let command = self.launcher.in_environment(invocation.command(program), &invocation.env);
        let watch =
            Watch { deadline: self.timeout, cancel: self.cancel.clone(), streams: !self.seed_compatible };
        let run = Run::of(command, &watch, observe).await?;
        Answer::of(run)
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

    /// The agent's definition goes along, so that a name that the CLI does not know is an error and not ignored.
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

    /// Installed and, as far as it can be told without asking a model, logged in.
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
    fn it_can_be_shared_between_threads_and_hidden_behind_the_trait() {
        fn is_send_and_sync<T: Send + Sync>() {}
        is_send_and_sync::<ClaudeCodeProvider>();
        let provider: Box<dyn Provider> = Box::new(ClaudeCodeProvider::default());
        assert_eq!(provider.name(), "claude-code");
    }

    #[test]
    fn a_context_wins_over_the_provider() {
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
