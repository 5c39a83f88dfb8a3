//! A case as the rest of the engine knows it: whole, checked, and never changed afterwards.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::evaluator::ConfiguredEvaluator;
use super::expected::Expected;
use super::guard::{Limits, Network};
use super::hook::{PostHook, Script};
use super::tape::Tape;
use yb_repo::Source;

/// One task: where it starts, what the agent is told, and how the result is graded.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The file that it was read from.
    pub file: PathBuf,
    /// The file's directory, from which its paths start.
    pub dir: PathBuf,
    /// Whether the file says `youbencha: 1`.
    pub strict: bool,
    /// Its name; the file's, where it has none of its own.
    pub name: String,
    /// What it is about; may be empty.
    pub description: String,
    /// Where the starting tree comes from.
    pub start: Start,
    /// The agent.
    pub agent: Agent,
    /// The expected result.
    pub expected: Option<Expected>,
    /// What grades the result, in order.
    pub evaluators: Vec<ConfiguredEvaluator>,
    /// What readies a tree before it is graded.
    pub prepare: Vec<Script>,
    /// What runs before the agent.
    pub pre_execution: Vec<Script>,
    /// What runs after grading.
    pub post_evaluation: Vec<PostHook>,
    /// Where runs are kept, where the case says so.
    pub workspace_dir: Option<PathBuf>,
    /// The first part of the run's name.
    pub workspace_name: Option<String>,
    /// Times, as far as the case says them.
    pub timeouts: Timeouts,
    /// The agent is stopped when it has cost this much.
    pub max_budget_usd: Option<f64>,
    /// Labels by which cases are chosen.
    pub tags: Vec<String>,
    /// Variables for the agent.
    pub env: Vec<EnvVar>,
    /// Patterns of ignored files that count as part of the result.
    pub capture_include: Vec<String>,
    /// What is to stand between the agent and the machine.
    pub isolation: Isolation,
    /// What the agent can connect to, where the case says it.
    pub network: Option<Network>,
    /// How much it may use, as far as the case says it.
    pub limits: Limits,
    /// Who plays the model.
    pub tape: Option<Tape>,
}

/// Where a starting tree comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A repository: a URL, or a path that starts at the case's directory. [`Source::parse`] has accepted it.
    Repo {
        /// As written.
        repo: String,
        /// The branch; by default the repository's own.
        branch: Option<String>,
        /// The commit; by default the branch's head.
        commit: Option<String>,
    },
    /// A directory, absolute.
    Directory(PathBuf),
}

/// Without credentials, so that it can be shown.
impl fmt::Display for Start {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repo { repo, .. } => match Source::parse(repo, Path::new(".")) {
                Ok(source @ Source::Remote(_)) => source.fmt(formatter),
                _ => formatter.write_str(repo),
            },
            Self::Directory(path) => path.display().fmt(formatter),
        }
    }
}

/// The agent and what it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Which agent: `claude-code`, `copilot-cli`, `codex` or `command`, to name some.
    pub kind: String,
    /// The agent's own definition to run as.
    pub agent_name: Option<String>,
    /// The model, as this agent calls it.
    pub model: Option<String>,
    /// The version of its program that is to run.
    pub version: Option<String>,
    /// What to do.
    pub prompt: Prompt,
    /// Everything else.
    pub config: AgentConfig,
}

/// What an agent is told to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// The text, from the case.
    Text(String),
    /// The text of a file beside the case, trimmed.
    File {
        /// The file, with all links followed.
        path: PathBuf,
        /// What it says.
        text: String,
    },
    /// A file that the workspace may bring; a relative path without `..`.
    InWorkspace(PathBuf),
}

impl Prompt {
    /// The text, where it is known before there is a workspace.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::File { text, .. } => Some(text),
            Self::InWorkspace(_) => None,
        }
    }
}

/// The rest of `agent.config`; a section with the agent's own name wins over what all share.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentConfig {
    /// What follows the system prompt.
    pub append_system_prompt: Option<String>,
    /// What replaces the system prompt.
    pub system_prompt: Option<String>,
    /// What the agent may do without being asked, under the CLI's own name.
    pub permission_mode: Option<String>,
    /// The tools there are.
    pub tools: Option<Vec<String>>,
    /// Tools that need no permission.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that are denied.
    pub disallowed_tools: Option<Vec<String>>,
    /// The longest answer, in tokens.
    pub max_tokens: Option<u32>,
    /// Recorded; no CLI takes it.
    pub temperature: Option<f64>,
    /// The limit of turns.
    pub max_turns: Option<u32>,
    /// MCP servers by name, each as its own JSON.
    pub mcp_servers: Map<String, Value>,
    /// How much effort the model makes.
    pub effort: Option<String>,
    /// Settings for the agent.
    pub settings: Option<Map<String, Value>>,
    /// More directories that tools may use.
    pub add_dirs: Vec<PathBuf>,
    /// Further arguments, each `--flag` or `--flag=value`.
    pub extra_args: Vec<String>,
    /// Lets what the repository brings take effect.
    pub trust_repo_settings: bool,
    /// The section with the agent's own name, whole.
    pub section: Map<String, Value>,
}

/// Times that a case says; zero is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// For fetching the repository.
    pub clone: Option<Duration>,
    /// For the agent.
    pub agent: Option<Duration>,
    /// For each evaluator.
    pub evaluators: Option<Duration>,
}

/// A variable for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value, in which `${ENV:NAME}` is still to be replaced; without one it is passed on from the environment.
    pub value: Option<String>,
}

/// What is to stand between the agent and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// The strongest there is.
    #[default]
    Auto,
    /// Bubblewrap.
    Bubblewrap,
    /// Landlock.
    Landlock,
    /// Nothing.
    None,
    /// The machine itself is the sandbox.
    External,
}

impl Isolation {
    /// As a case writes it.
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
    /// The environment's variables that this case reads: those that it passes on, and those that a value names.
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
