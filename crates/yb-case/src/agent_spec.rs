//! The static description of an agent: everything that is known about it without running it.
//!
//! Each agent has one [`AgentSpec`], next to its adapter. The case format, its JSON Schemas, validation, installation, recording,
//! judges, `yb list`, `yb doctor` and the documentation read it, so a fact about an agent is written once.

use crate::agent_tools::{AgentTool, EDITING, READING, ToolPurpose};
use crate::fields_agent::CONFIG;
use crate::shape::{FREE, Field, Object};

/// Variables of the host that every installed agent gets, in addition to its own.
pub const SHARED_VARIABLES: [&str; 6] =
    ["HOME", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"];

/// Variables that lead the traffic of any program through another proxy.
pub const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];

/// Keys of `agent.config` that every agent supports.
const COMMON_KEYS: [&str; 3] = ["prompt", "prompt_file", "model"];

/// The static description of one agent.
#[derive(Debug)]
pub struct AgentSpec {
    /// `agent.type` of a case.
    pub name: &'static str,
    /// The product name, for messages: `Claude Code`.
    pub label: &'static str,
    /// One line for lists and documentation, without a final period.
    pub summary: &'static str,
    /// Version of the adapter, `MAJOR.MINOR.PATCH`.
    pub adapter_version: &'static str,
    /// The agent's folder among the artifacts of a trial.
    pub log_dir: &'static str,
    /// Vendor of the models, unless the agent's output names one.
    pub provider: &'static str,
    /// Prefix of the error codes in a log: `CLAUDE` in `CLAUDE_TIMEOUT`.
    pub error_prefix: &'static str,
    /// The program that runs.
    pub program: AgentProgram,
    /// How the agent authenticates.
    pub credentials: Credentials,
    /// Variables of the host that reach the agent, beside `PATH`; see [`AgentSpec::host_variables`].
    pub variables: &'static [&'static str],
    /// Model APIs that the agent can be pointed at, the preferred one first. Empty if no proxy can get between.
    pub apis: &'static [ModelApi],
    /// Variables that lead the agent around a proxy at [`AgentSpec::apis`]: other credentials and other backends.
    pub bypass_variables: &'static [&'static str],
    /// The agent's built-in tools, as `agent.config.tools` takes them. Empty if it has no such list.
    pub tools: &'static [AgentTool],
    /// Kinds of tools that `allowed_tools` and `disallowed_tools` take besides the names of tools, such as `shell`.
    pub tool_kinds: &'static [&'static str],
    /// Naming rule for `agent.model`; a name that breaks it is a warning.
    pub model_rule: Option<ModelRule>,
    /// Keys of `agent.config` that have an effect.
    pub config_keys: ConfigKeys,
    /// The agent's own section of `agent.config`. Its key is the agent's name; the name of its [`Object`] is unique in the schema.
    pub section: Field,
    /// How the names of tools of an MCP server begin, with `{server}` for its name; absent if it is not known.
    pub mcp_tools: Option<&'static str>,
    /// The file of a workspace whose text it adds to its prompt, if there is one.
    pub instruction_file: Option<&'static str>,
    /// Files of a repository, or beginnings of their paths, that it reads only with `trust_repo_settings`.
    pub trusted_files: &'static [&'static str],
    /// Optional abilities.
    pub capabilities: Capabilities,
}

/// Where the program of an agent comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentProgram {
    /// An npm package. Only such programs can be installed and pinned by `agent.version`.
    Npm(NpmProgram),
    /// The case names the program in the agent's section of `agent.config`.
    FromCase,
}

/// A program that npm installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NpmProgram {
    /// Name of the program on `PATH`.
    pub bin: &'static str,
    /// Variable with the path of the program, which takes precedence over `PATH`.
    pub path_variable: &'static str,
    /// The npm package.
    pub package: &'static str,
    /// The newest version that this version of `yb` was tested with.
    pub tested: &'static str,
    /// Approximate size on disk, in MB.
    pub megabytes: u32,
    /// Whether the install scripts of the package have to run.
    pub install_scripts: bool,
}

/// How an agent authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Variables any of which authenticates the agent.
    pub variables: &'static [&'static str],
    /// The command that logs in, if there is one.
    pub login: Option<&'static str>,
    /// What to do without credentials, as a hint: `log in with …, or set …`.
    pub hint: &'static str,
}

/// A model API, and the variables by which agents find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelApi {
    /// Variable with the base URL.
    pub variable: &'static str,
    /// Default base URL, without the suffix.
    pub address: &'static str,
    /// Path that agents expect at the end of the base URL.
    pub suffix: &'static str,
    /// Variable with the API key.
    pub key: &'static str,
}

impl ModelApi {
    /// The Anthropic Messages API.
    pub const ANTHROPIC: Self = Self {
        variable: "ANTHROPIC_BASE_URL",
        address: "https://api.anthropic.com",
        suffix: "",
        key: "ANTHROPIC_API_KEY",
    };
    /// The OpenAI Responses and Chat Completions APIs.
    pub const OPENAI: Self = Self {
        variable: "OPENAI_BASE_URL",
        address: "https://api.openai.com",
        suffix: "/v1",
        key: "OPENAI_API_KEY",
    };
    /// The Gemini API.
    pub const GEMINI: Self = Self {
        variable: "GOOGLE_GEMINI_BASE_URL",
        address: "https://generativelanguage.googleapis.com",
        suffix: "",
        key: "GEMINI_API_KEY",
    };
}

/// A naming rule for models.
#[derive(Debug, Clone, Copy)]
pub struct ModelRule {
    /// Whether a name identifies one model, now and later.
    pub is_full_name: fn(&str) -> bool,
    /// The kind of model, for the message: `a Claude model`.
    pub model: &'static str,
    /// Description of a full name.
    pub expected: &'static str,
}

/// Keys of `agent.config` that have an effect on an agent, beside `prompt`, `prompt_file` and `model`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigKeys {
    /// All of them.
    All,
    /// These alone; each other one is a warning.
    Only(&'static [&'static str]),
}

/// Optional abilities of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Enforces `max_budget_usd` itself.
    pub cost_limit: bool,
    /// Returns an answer that follows a JSON Schema.
    pub structured_output: bool,
}

impl AgentSpec {
    /// A description with nothing but names; a base for struct update syntax.
    #[must_use]
    pub const fn new(name: &'static str, label: &'static str) -> Self {
        Self {
            name,
            label,
            summary: "",
            adapter_version: "1.0.0",
            log_dir: "agent-logs",
            provider: "unknown",
            error_prefix: "AGENT",
            program: AgentProgram::FromCase,
            credentials: Credentials {
                variables: &[],
                login: None,
                hint: "set credentials by `env` in the case",
            },
            variables: &[],
            apis: &[],
            bypass_variables: &[],
            tools: &[],
            tool_kinds: &[],
            model_rule: None,
            config_keys: ConfigKeys::Only(&[]),
            section: Field::new(name, FREE, "For this agent alone; others ignore it."),
            mcp_tools: None,
            instruction_file: None,
            trusted_files: &[],
            capabilities: Capabilities { cost_limit: false, structured_output: false },
        }
    }

    /// The npm program, for an agent that can be installed and pinned.
    #[must_use]
    pub fn npm(&self) -> Option<&NpmProgram> {
        match &self.program {
            AgentProgram::Npm(program) => Some(program),
            AgentProgram::FromCase => None,
        }
    }

    /// Whether the case has to name the program.
    #[must_use]
    pub fn runs_any_program(&self) -> bool {
        self.program == AgentProgram::FromCase
    }

    /// Variables of the host that reach the agent, beside `PATH`. A program of the case gets only what the case names.
    #[must_use]
    pub fn host_variables(&self) -> Vec<&'static str> {
        let mut variables = self.variables.to_vec();
        if let Some(program) = self.npm() {
            variables.extend(SHARED_VARIABLES);
            variables.push(program.path_variable);
        }
        variables
    }

    /// Whether a key of `agent.config` has an effect.
    #[must_use]
    pub fn supports(&self, key: &str) -> bool {
        COMMON_KEYS.contains(&key)
            || match self.config_keys {
                ConfigKeys::All => true,
                ConfigKeys::Only(keys) => keys.contains(&key),
            }
    }

    /// The value of `agent.config.tools` that lets the agent read files only; none if it can't be restricted by name.
    #[must_use]
    pub fn read_tools(&self) -> Option<Vec<String>> {
        self.restricted_to(READING)
    }

    /// The value of `agent.config.tools` that lets the agent read and edit files; none if it can't be restricted by name.
    #[must_use]
    pub fn edit_tools(&self) -> Option<Vec<String>> {
        self.restricted_to(&[READING, EDITING].concat())
    }

    fn restricted_to(&self, purposes: &[ToolPurpose]) -> Option<Vec<String>> {
        Some(self.tools_for(purposes)).filter(|names| self.supports("tools") && !names.is_empty())
    }

    /// What the agent lacks, a phrase each: ``no `max_turns` ``.
    #[must_use]
    pub fn limitations(&self) -> Vec<String> {
        let lacking = settings().filter(|key| !self.supports(key)).map(|key| format!("no `{key}`"));
        let budget = (!self.capabilities.cost_limit).then(|| "no `max_budget_usd`".to_owned());
        lacking.chain(budget).collect()
    }
}

/// Keys of `agent.config` that agents may lack.
pub fn settings() -> impl Iterator<Item = &'static str> {
    CONFIG.names().filter(|name| !COMMON_KEYS.contains(name) && *name != "agent")
}

/// The agents that a file may name, in the order in which they are listed.
#[derive(Debug, Clone, Default)]
pub struct AgentSpecs(Vec<&'static AgentSpec>);

impl AgentSpecs {
    /// A list of agents.
    pub fn new(specs: impl IntoIterator<Item = &'static AgentSpec>) -> Self {
        Self(specs.into_iter().collect())
    }

    /// The agent with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static AgentSpec> {
        self.iter().find(|spec| spec.name == name)
    }

    /// Whether there is an agent with this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All agents.
    pub fn iter(&self) -> impl Iterator<Item = &'static AgentSpec> + Clone {
        self.0.iter().copied()
    }

    /// The names of all agents.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.iter().map(|spec| spec.name)
    }

    /// The agent whose npm program has this name.
    #[must_use]
    pub fn with_program(&self, bin: &str) -> Option<&'static AgentSpec> {
        self.iter().find(|spec| spec.npm().is_some_and(|program| program.bin == bin))
    }

    /// Variables that lead any of the agents around a proxy. A program of the case may be any agent.
    pub fn bypass_variables(&self) -> impl Iterator<Item = &'static str> {
        self.iter().flat_map(|spec| spec.bypass_variables.iter().copied()).chain(PROXY_VARIABLES)
    }

    /// Whether a key of `agent.config` has an effect on an agent. The sections of other agents are allowed everywhere.
    pub(crate) fn supports(&self, agent: &str, key: &str) -> bool {
        self.contains(key)
            || match self.get(agent) {
                Some(spec) => spec.supports(key),
                None => COMMON_KEYS.contains(&key),
            }
    }

    /// The fields of an object; `agent.config` has a section for each agent.
    pub(crate) fn fields_of(&self, object: &Object) -> impl Iterator<Item = &'static Field> + use<'_> {
        let agents = if std::ptr::eq(object, &CONFIG) { self.0.as_slice() } else { &[] };
        let section = |spec: &&'static AgentSpec| -> &'static Field { &spec.section };
        object.fields.iter().chain(agents.iter().map(section))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TOY: AgentSpec = AgentSpec {
        apis: &[ModelApi::OPENAI],
        bypass_variables: &["TOY_TOKEN"],
        variables: &["TOY_KEY"],
        program: AgentProgram::Npm(NpmProgram {
            bin: "toy",
            path_variable: "YB_TOY",
            package: "toy-agent",
            tested: "1.0.0",
            megabytes: 1,
            install_scripts: false,
        }),
        tools: &[AgentTool::new(ToolPurpose::Read, "look"), AgentTool::new(ToolPurpose::Edit, "change")],
        config_keys: ConfigKeys::Only(&["tools"]),
        ..AgentSpec::new("toy-agent", "Toy")
    };
    static ANY: AgentSpec = AgentSpec { variables: &["ANY_KEY"], ..AgentSpec::new("any", "Any") };

    fn specs() -> AgentSpecs {
        AgentSpecs::new([&TOY, &ANY])
    }

    #[test]
    fn agents_are_found_by_name_and_by_program() {
        assert_eq!(specs().get("any").unwrap().label, "Any");
        assert_eq!(specs().with_program("toy").unwrap().name, "toy-agent");
        assert!(specs().with_program("any").is_none() && specs().get("toy").is_none());
    }

    #[test]
    fn program_of_the_case_gets_no_shared_variables() {
        assert_eq!(ANY.host_variables(), ["ANY_KEY"]);
        let all = TOY.host_variables();
        assert!(all.starts_with(&["TOY_KEY", "HOME"]) && all.ends_with(&["YB_TOY"]), "{all:?}");
        assert!(specs().bypass_variables().eq(["TOY_TOKEN"].into_iter().chain(PROXY_VARIABLES)));
    }

    #[test]
    fn sections_of_all_agents_are_fields_of_agent_config_alone() {
        let names: Vec<_> = specs().fields_of(&CONFIG).map(|field| field.name).collect();
        assert!(names.starts_with(&["prompt"]) && names.ends_with(&["toy-agent", "any"]), "{names:?}");
        let agent = &crate::fields_agent::AGENT;
        assert_eq!(specs().fields_of(agent).count(), agent.fields.len());
    }

    #[test]
    fn only_supported_keys_have_an_effect() {
        let all = specs();
        assert!(all.supports("toy-agent", "tools") && !all.supports("any", "tools"));
        assert!(all.supports("any", "model") && all.supports("any", "toy-agent"));
        assert!(all.supports("unknown", "prompt") && !all.supports("unknown", "tools"));
    }

    #[test]
    fn only_agents_with_named_tools_can_be_restricted() {
        assert_eq!(TOY.read_tools().unwrap(), ["look"]);
        assert_eq!(TOY.edit_tools().unwrap(), ["look", "change"]);
        assert_eq!(ANY.read_tools(), None);
        let lacks = |spec: &AgentSpec, what: &str| spec.limitations().iter().any(|one| one == what);
        assert!(
            lacks(&ANY, "no `tools`") && !lacks(&TOY, "no `tools`") && lacks(&TOY, "no `max_budget_usd`")
        );
    }
}
