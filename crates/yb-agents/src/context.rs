//! The context of one execution. Nothing else of this process reaches an agent.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use yb_claude::AgentDefinition;
use yb_model::Isolation;
use yb_supervise::{CancellationToken, OverlayMount, PauseSwitch, RootMount};

use super::bounds::Bounds;
use super::{AdapterError, Observer, ProcessRole, StartRecorder};
use crate::programs::ProgramStore;
use crate::trace::Trace;
use yb_case::{AgentSpec, Network, TrialLimits};

/// The default timeout of an agent.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(300_000);

/// Variables by name.
pub type Environment = BTreeMap<OsString, OsString>;

/// The environment of a child process.
#[derive(Clone, Default)]
pub struct Host {
    /// The variables that the agent gets, credentials among them, beside PATH, locale, TERM and TZ.
    pub env: Environment,
    /// The program that contains the child; by default the running one, if it called `yb_supervise::shim_main`.
    pub shim: Option<PathBuf>,
    /// The store of installed programs.
    pub programs: Option<ProgramStore>,
}

/// Values may be secrets; only names are shown.
impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Host").field("env", &self.env.keys()).field("shim", &self.shim).finish()
    }
}

impl Host {
    /// A host with these variables.
    pub fn new(env: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>) -> Self {
        let env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { env, shim: None, programs: None }
    }

    /// Sets the shim program.
    #[must_use]
    pub fn with_shim(mut self, program: impl Into<PathBuf>) -> Self {
        self.shim = Some(program.into());
        self
    }

    /// Sets the store of installed programs.
    #[must_use]
    pub fn with_programs(mut self, programs: Option<ProgramStore>) -> Self {
        self.programs = programs;
        self
    }

    /// The value of a variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}

/// One execution.
#[derive(Debug, Clone)]
pub struct ExecutionContext {
    /// Where the agent works; an absolute path.
    pub workspace: PathBuf,
    /// The overlay that a sandbox mounts at [`Self::workspace`], which is empty outside of it.
    pub overlay: Option<OverlayMount>,
    /// The root in which the agent runs, if it is not the host's.
    pub root: Option<OtherRoot>,
    /// Where logs go; it must exist.
    pub artifacts_dir: PathBuf,
    /// A directory for this execution alone, outside the workspace: HOME, temporary files, what is too secret for argv.
    pub private_dir: PathBuf,
    /// Where prompt files and agents' definitions are looked for, before the workspace: the case's directory.
    pub search_roots: Vec<PathBuf>,
    /// The user's project, where agents' definitions are looked for after [`Self::search_roots`]: the working directory.
    pub project_dir: Option<PathBuf>,
    /// The case's `agent.config`.
    pub config: AgentConfig,
    /// The timeout; 0 means no limit.
    pub timeout: Duration,
    /// How long the agent may only retry requests to its API; 0 means no limit.
    pub patience: Duration,
    /// Whether failures of the API are observed on the wire, rather than reported by the agent alone.
    pub api_observed: bool,
    /// The same for the log, with the reason if they are not.
    pub api_observation: Option<String>,
    /// The environment of the agent.
    pub host: Host,
    /// The isolation.
    pub isolation: Isolation,
    /// Paths that a sandbox hides, even below visible ones.
    pub hidden: Vec<PathBuf>,
    /// The network. Any mode but an open network needs an isolation that can enforce it.
    pub network: Network,
    /// The resource limits.
    pub limits: TrialLimits,
    /// The size of the workspace before the agent starts, if known; it does not count against the disk limit.
    pub disk_before: Option<u64>,
    /// Stops the agent when cancelled.
    pub cancellation: CancellationToken,
    /// Suspends the agent and its timeout.
    pub pause: PauseSwitch,
    /// Suspends this agent alone, while its workspace is being read.
    pub step_pause: PauseSwitch,
    /// Receives the progress of the agent.
    pub observer: Option<Arc<dyn Observer>>,
    /// Persists the record of the process before its program runs.
    pub start_recorder: Option<(ProcessRole, StartRecorder)>,
    /// The parent span, if there is a trace.
    pub trace: Option<Arc<dyn Trace>>,
    /// What the log keeps of its output.
    pub bounds: Bounds,
}

impl ExecutionContext {
    /// An execution with the default timeout, without isolation.
    pub fn new(
        workspace: impl Into<PathBuf>,
        artifacts_dir: impl Into<PathBuf>,
        private_dir: impl Into<PathBuf>,
        config: AgentConfig,
        host: Host,
    ) -> Self {
        Self {
            workspace: workspace.into(),
            overlay: None,
            root: None,
            artifacts_dir: artifacts_dir.into(),
            private_dir: private_dir.into(),
            search_roots: Vec::new(),
            project_dir: None,
            config,
            timeout: DEFAULT_TIMEOUT,
            patience: super::DEFAULT_PATIENCE,
            api_observed: true,
            api_observation: None,
            host,
            isolation: Isolation::default(),
            hidden: Vec::new(),
            network: Network::default(),
            limits: TrialLimits::default(),
            disk_before: None,
            cancellation: CancellationToken::new(),
            pause: PauseSwitch::new(),
            step_pause: PauseSwitch::new(),
            observer: None,
            start_recorder: None,
            trace: None,
            bounds: Bounds::default(),
        }
    }
}

/// A root other than the host's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherRoot {
    /// The layers.
    pub mount: RootMount,
    /// Its variables, among them PATH.
    pub env: BTreeMap<String, String>,
    /// The workspace, if it is a directory of the root.
    pub workdir: Option<PathBuf>,
}

impl OtherRoot {
    /// Lets a program run in the root: one of the root if there is one at this path, else one of the host.
    pub(crate) fn for_program(&self, view: yb_supervise::Sandbox, program: &Path) -> yb_supervise::Sandbox {
        let is_of_host = program.is_absolute() && self.mount.resolve(program).is_none() && program.exists();
        if is_of_host { view.host_program() } else { view }
    }
}

impl ExecutionContext {
    /// Whether the workspace exists, in the root or on the host.
    pub(crate) fn has_workspace(&self) -> bool {
        self.is_in_root() || self.workspace.is_dir()
    }

    /// Whether the workspace is a directory of another root.
    pub(crate) fn is_in_root(&self) -> bool {
        self.root.as_ref().is_some_and(|root| root.workdir.is_some())
    }

    /// The directories with the files of the workspace, outside of a sandbox; the first one that has a file has the current one.
    pub(crate) fn workspace_roots(&self) -> Vec<&Path> {
        match &self.overlay {
            Some(overlay) => vec![&overlay.upper, &overlay.lower],
            None => vec![&self.workspace],
        }
    }
}

/// An execution that is validated before it has a workspace.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    /// The case's `agent.config`.
    pub config: &'a AgentConfig,
    /// The environment of the agent.
    pub host: &'a Host,
    /// The isolation.
    pub isolation: Isolation,
    /// Where prompt files are looked for, before the workspace.
    pub search_roots: &'a [PathBuf],
    /// The network; open by default.
    pub network: Option<&'a Network>,
}

impl<'a> Intent<'a> {
    /// An execution with this configuration on this host.
    #[must_use]
    pub fn new(
        config: &'a AgentConfig,
        host: &'a Host,
        isolation: Isolation,
        search_roots: &'a [PathBuf],
    ) -> Self {
        Self { config, host, isolation, search_roots, network: None }
    }

    /// Sets the network.
    #[must_use]
    pub fn with_network(mut self, network: &'a Network) -> Self {
        self.network = Some(network);
        self
    }

    /// A context with directories that do not exist, for validation only.
    pub(super) fn nowhere(&self) -> ExecutionContext {
        let mut context = ExecutionContext::new(
            "/workspace",
            "/artifacts",
            "/private",
            self.config.clone(),
            self.host.clone(),
        );
        context.isolation = self.isolation;
        context.search_roots = self.search_roots.to_vec();
        context.network = self.network.cloned().unwrap_or_default();
        context
    }
}

/// A case's `agent.config`, with `agent.model` and `agent.agent_name` merged into it.
#[derive(Clone, Default)]
pub struct AgentConfig {
    /// The prompt.
    pub prompt: Option<String>,
    /// The file with the prompt, instead of `prompt`.
    pub prompt_file: Option<PathBuf>,
    /// The pinned version of the program; by default the version that is found.
    pub version: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The agent's definition to run as.
    pub agent_name: Option<String>,
    /// Text appended to the system prompt.
    pub append_system_prompt: Option<String>,
    /// Text that replaces the system prompt.
    pub system_prompt: Option<String>,
    /// The permission mode.
    pub permission_mode: Option<String>,
    /// The available tools; by default the usual set.
    pub tools: Option<Vec<String>>,
    /// Tools that need no permission.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that are denied.
    pub disallowed_tools: Option<Vec<String>>,
    /// The turn limit.
    pub max_turns: Option<u32>,
    /// The cost limit.
    pub max_budget_usd: Option<f64>,
    /// MCP servers by name, each as its own JSON.
    pub mcp_servers: BTreeMap<String, Map<String, Value>>,
    /// Whether the execution fails if one of them does not start.
    pub mcp_required: bool,
    /// Definitions of named agents, which take precedence over files.
    pub agents: BTreeMap<String, AgentDefinition>,
    /// Plugins.
    pub plugins: Vec<AddOnDir>,
    /// Skills; the directories of all are in the same one.
    pub skills: Vec<AddOnDir>,
    /// The instruction file of the workspace, if the case sets it.
    pub instructions: Option<InstructionFile>,
    /// The reasoning effort.
    pub effort: Option<String>,
    /// Settings for the agent.
    pub settings: Option<Map<String, Value>>,
    /// More directories that tools may use.
    pub add_dirs: Vec<PathBuf>,
    /// Further arguments, each `--flag` or `--flag=value`.
    pub extra_args: Vec<String>,
    /// The most tokens of one answer.
    pub max_tokens: Option<u32>,
    /// Recorded; no CLI takes it.
    pub temperature: Option<f64>,
    /// Whether hooks, MCP servers and settings of the repository take effect.
    pub trust_repo_settings: bool,
    /// Whether a warning is an error.
    pub strict: bool,
    /// The agent's own section of `agent.config`, which its adapter reads.
    pub section: Map<String, Value>,
    /// The JSON Schema of the answer, for agents with structured output.
    pub answer_schema: Option<Value>,
}

/// A plugin or a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddOnDir {
    /// The name under which the agent loads it.
    pub name: String,
    /// The directory, which the agent can't change in a sandbox.
    pub path: PathBuf,
    /// The BLAKE3 digest of its files.
    pub digest: String,
}

/// An instruction file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionFile {
    /// Its path in the workspace.
    pub name: String,
    /// The BLAKE3 digest.
    pub digest: String,
    /// A line that is expected in a model request.
    pub line: Option<String>,
}

/// Omits servers and settings, which may contain secrets.
impl fmt::Debug for AgentConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AgentConfig")
            .field("prompt", &self.prompt.as_ref().map(String::len))
            .field("prompt_file", &self.prompt_file)
            .field("model", &self.model)
            .field("agent_name", &self.agent_name)
            .field("permission_mode", &self.permission_mode)
            .finish_non_exhaustive()
    }
}

impl AgentConfig {
    /// A prompt and nothing else.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { prompt: Some(prompt.into()), ..Self::default() }
    }
}

/// Any program as an agent: a case's `agent.config.command`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// The program and its arguments, in which `{prompt}`, `{prompt_file}`, `{workspace}` and `{model}` are replaced.
    pub argv: Vec<String>,
    /// How the prompt reaches the program; by default as `argv` shows, else on stdin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_via: Option<PromptVia>,
    /// The format of its output.
    #[serde(default)]
    pub output: DeclaredOutput,
}

impl CommandConfig {
    /// A program and its arguments.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Reads a case's `agent.config.command`.
    ///
    /// # Errors
    /// If the section does not have this shape.
    pub fn from_section(section: &Map<String, Value>) -> Result<Self, AdapterError> {
        Self::deserialize(section).map_err(|error| {
            let message = format!("`command`: {error}");
            AdapterError::config(message, "write `agent.config.command.argv: [program, argument, …]`")
        })
    }

    /// The section of `agent.config` with this configuration.
    #[must_use]
    pub fn to_section(&self) -> Map<String, Value> {
        section(self)
    }

    /// Sets how the prompt reaches the program.
    #[must_use]
    pub fn with_prompt_via(mut self, via: PromptVia) -> Self {
        self.prompt_via = Some(via);
        self
    }

    /// Sets the declared output.
    #[must_use]
    pub fn with_output(mut self, output: DeclaredOutput) -> Self {
        self.output = output;
        self
    }
}

/// How a prompt reaches a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptVia {
    /// In an argument, as `{prompt}`.
    Argument,
    /// On stdin.
    Stdin,
    /// In a file that an argument names, as `{prompt_file}`.
    File,
}

/// The declared format of a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeclaredOutput {
    /// Its answer as text.
    #[default]
    Text,
    /// Messages of Claude Code, one JSON object per line.
    ClaudeStreamJson,
    /// Output that is ignored.
    None,
}

/// A configuration as the section of `agent.config` that it is read from.
pub(crate) fn section(config: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(section)) => section,
        _ => Map::new(),
    }
}

/// The part of an environment that an agent gets, before a case adds to it.
#[must_use]
pub fn agent_host(agent: &AgentSpec, env: &BTreeMap<String, String>) -> Host {
    // `PATH` as well: an agent is searched where it will search its own tools.
    let names = ["PATH"].into_iter().chain(agent.host_variables());
    Host::new(names.filter_map(|name| Some((name, env.get(name)?))))
        .with_programs(ProgramStore::from_env(&|name| env.get(name).cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_the_data_model() {
        let context = ExecutionContext::new("/w", "/a", "/p", AgentConfig::new("x"), Host::default());
        assert_eq!(context.timeout.as_millis(), 300_000);
        assert_eq!(super::super::MAX_OUTPUT_SIZE, 10 * 1024 * 1024);
        assert_eq!(yb_claude::MAX_PROMPT_CHARS, 1_000_000);
    }

    #[test]
    fn command_is_read_from_its_section() {
        let read = |section: Value| CommandConfig::from_section(section.as_object().unwrap());
        let spec =
            read(serde_json::json!({"argv": ["a", "{prompt}"], "prompt_via": "argument", "output": "none"}));
        let expected = CommandConfig::new(["a", "{prompt}"]).with_prompt_via(PromptVia::Argument);
        assert_eq!(spec.unwrap(), expected.with_output(DeclaredOutput::None));
        assert_eq!(read(serde_json::json!({"argv": ["a"]})).unwrap(), CommandConfig::new(["a"]));
        for wrong in [serde_json::json!({}), serde_json::json!({"argv": ["a"], "outptu": "none"})] {
            let error = read(wrong).unwrap_err();
            assert!(error.to_string().contains("`command`: "), "{error}");
        }
    }

    #[test]
    fn debug_output_hides_possible_secrets() {
        let mut config = AgentConfig::new("prompt-secret");
        config.settings = serde_json::json!({"env": {"K": "settings-secret"}}).as_object().cloned();
        let host = Host::new([("API_KEY", "env-secret")]);
        let shown = format!("{:?}", ExecutionContext::new("/w", "/a", "/p", config, host));
        assert!(!shown.contains("secret") && shown.contains("API_KEY"), "{shown}");
    }
}
