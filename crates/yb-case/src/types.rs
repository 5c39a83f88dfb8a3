//! A validated case. It is immutable.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::add_on::{AddOn, Instructions};
use super::evaluator::ConfiguredEvaluator;
use super::expected::Expected;
use super::guard::{Network, TrialLimits};
use super::hook::{PostHook, Script};
use super::overlay::Overlay;
use super::solution::Solution;
use super::tape::Tape;
use super::task_environment::TaskEnvironment;
use yb_repo::Source;

/// A task: its start tree, the agent with its prompt, and the evaluators.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The case file.
    pub file: PathBuf,
    /// The directory of the file, the base of relative paths.
    pub dir: PathBuf,
    /// Whether the file has `youbencha: 1`.
    pub strict: bool,
    /// The name; by default the file name without extension.
    pub name: String,
    /// The description; may be empty.
    pub description: String,
    /// The source of the start tree.
    pub start: Start,
    /// The root directory of all processes, if it is not the host's.
    pub environment: Option<TaskEnvironment>,
    /// The files to lay over the start tree.
    pub overlay: Overlay,
    /// The agent.
    pub agent: Agent,
    /// The expected result.
    pub expected: Option<Expected>,
    /// The reference solution.
    pub solution: Option<Solution>,
    /// What grades the result, in order.
    pub evaluators: Vec<ConfiguredEvaluator>,
    /// What readies a tree before it is graded.
    pub prepare: Vec<Script>,
    /// Those of these commands that ready the workspace of the agent too.
    pub prepare_for_agent: Vec<Script>,
    /// Globs of the files whose changes are graded, if set.
    pub may_change: Option<Vec<String>>,
    /// Hooks to run before the agent.
    pub pre_execution: Vec<Script>,
    /// Hooks to run after grading.
    pub post_evaluation: Vec<PostHook>,
    /// The directory for runs, if set.
    pub workspace_dir: Option<PathBuf>,
    /// The prefix of the run name.
    pub workspace_name: Option<String>,
    /// The timeouts that are set.
    pub timeouts: Timeouts,
    /// The budget; the agent is stopped when it is exceeded.
    pub max_budget_usd: Option<f64>,
    /// Tags for selecting cases.
    pub tags: Vec<String>,
    /// Environment variables for the agent.
    pub env: Vec<EnvVar>,
    /// Patterns of git-ignored files to include in the result.
    pub capture_include: Vec<String>,
    /// Records the workspace after each step of the agent.
    pub capture_steps: bool,
    /// The sandbox of the agent.
    pub isolation: Isolation,
    /// The network access of the agent, if set.
    pub network: Option<Network>,
    /// The resource limits that are set.
    pub limits: TrialLimits,
    /// The tape or script that replaces the model.
    pub tape: Option<Tape>,
}

/// The source of a start tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A repository: a URL, or a path relative to the directory of the case. It is valid for [`Source::parse`].
    Repo {
        /// The URL or path as written.
        repo: String,
        /// The branch; by default the default branch.
        branch: Option<String>,
        /// The commit; by default the head of the branch.
        commit: Option<String>,
    },
    /// An absolute directory.
    Directory(PathBuf),
    /// The working directory of the environment.
    Image,
}

/// Formats the source without credentials.
impl fmt::Display for Start {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repo { repo, .. } => match Source::parse(repo, Path::new(".")) {
                Ok(source @ Source::Remote(_)) => source.fmt(formatter),
                _ => formatter.write_str(repo),
            },
            Self::Directory(path) => path.display().fmt(formatter),
            Self::Image => formatter.write_str("image"),
        }
    }
}

/// The agent with its prompt and configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The agent type, such as `claude-code`, `codex` or `command`.
    pub kind: String,
    /// The agent definition to run as.
    pub agent_name: Option<String>,
    /// The model, under its name in the agent.
    pub model: Option<String>,
    /// The version of the agent program to run.
    pub version: Option<String>,
    /// The prompt.
    pub prompt: Prompt,
    /// The other settings.
    pub config: AgentConfig,
}

/// The prompt of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Text in the case file.
    Text(String),
    /// A file relative to the case.
    File {
        /// The file, with symbolic links resolved.
        path: PathBuf,
        /// The trimmed text.
        text: String,
    },
    /// A file expected in the workspace; a relative path without `..`.
    InWorkspace(PathBuf),
}

impl Prompt {
    /// Returns the text, unless it comes from the workspace.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::File { text, .. } => Some(text),
            Self::InWorkspace(_) => None,
        }
    }
}

/// The settings of `agent.config`. The section with the name of the agent takes precedence over shared keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentConfig {
    /// Text to append to the system prompt.
    pub append_system_prompt: Option<String>,
    /// The replacement of the system prompt.
    pub system_prompt: Option<String>,
    /// The permission mode, under its name in the CLI.
    pub permission_mode: Option<String>,
    /// The available tools.
    pub tools: Option<Vec<String>>,
    /// Tools that need no permission.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that are denied.
    pub disallowed_tools: Option<Vec<String>>,
    /// The maximum number of output tokens.
    pub max_tokens: Option<u32>,
    /// Recorded only; no CLI supports it.
    pub temperature: Option<f64>,
    /// The maximum number of turns.
    pub max_turns: Option<u32>,
    /// MCP servers by name, as JSON.
    pub mcp_servers: Map<String, Value>,
    /// Whether an MCP server that does not start is only a warning.
    pub mcp_optional: bool,
    /// Definitions of named agents.
    pub agents: BTreeMap<String, yb_claude::AgentDefinition>,
    /// Plugins.
    pub plugins: Vec<AddOn>,
    /// Skills.
    pub skills: Vec<AddOn>,
    /// The instruction file, which is also a file of the overlay.
    pub instructions: Option<Instructions>,
    /// The effort level of the model.
    pub effort: Option<String>,
    /// Settings for the agent.
    pub settings: Option<Map<String, Value>>,
    /// Additional directories for tools.
    pub add_dirs: Vec<AddedDir>,
    /// Additional arguments, each `--flag` or `--flag=value`.
    pub extra_args: Vec<String>,
    /// Whether settings in the repository take effect.
    pub trust_repo_settings: bool,
    /// The complete section with the name of the agent.
    pub section: Map<String, Value>,
}

/// An additional directory for the tools of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedDir {
    /// The absolute path.
    pub path: PathBuf,
    /// The digest of its files if it was given relative to its case or suite, whose location does not matter.
    pub digest: Option<String>,
}

impl AddedDir {
    /// Returns an identifier that does not depend on the location of the case or suite.
    #[must_use]
    pub fn key(&self) -> String {
        match &self.digest {
            Some(digest) => format!("files {digest}"),
            None => self.path.display().to_string(),
        }
    }
}

/// The timeouts of a case; zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// For fetching the repository.
    pub clone: Option<Duration>,
    /// For the agent.
    pub agent: Option<Duration>,
    /// For each evaluator.
    pub evaluators: Option<Duration>,
}

/// An environment variable for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVar {
    /// The name.
    pub name: String,
    /// The value, with unexpanded `${ENV:NAME}`; `None` passes the variable through from the environment.
    pub value: Option<String>,
}

/// The sandbox of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// The strongest available sandbox.
    #[default]
    Auto,
    /// Bubblewrap.
    Bubblewrap,
    /// Landlock.
    Landlock,
    /// No sandbox.
    None,
    /// The machine itself is the sandbox.
    External,
}

impl Isolation {
    /// Returns the value in case files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::None => "none",
            Self::External => "external",
        }
    }

    pub(crate) fn read(word: &str) -> Self {
        match word {
            "bubblewrap" => Self::Bubblewrap,
            "landlock" => Self::Landlock,
            "none" => Self::None,
            "external" => Self::External,
            _ => Self::Auto,
        }
    }
}

impl Case {
    /// Returns the environment variables that this case reads: those passed through, and those referenced by values.
    #[must_use]
    pub fn environment_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for variable in &self.env {
            match &variable.value {
                None => names.push(variable.name.clone()),
                Some(value) => names.extend(named(value)),
            }
        }
        for hook in self.pre_execution.iter().chain(&self.prepare) {
            names.extend(hook.texts().flat_map(named));
        }
        for hook in &self.post_evaluation {
            names.extend(hook.texts().flat_map(named));
        }
        for variable in self.evaluators.iter().flat_map(ConfiguredEvaluator::variables) {
            match &variable.value {
                None => names.push(variable.name.clone()),
                Some(value) => names.extend(named(value)),
            }
        }
        names.extend(named(&Value::Object(self.agent.config.mcp_servers.clone()).to_string()));
        names.sort();
        names.dedup();
        names
    }
}

fn named(text: &str) -> Vec<String> {
    super::variables::environment_names(text).into_iter().map(str::to_owned).collect()
}
