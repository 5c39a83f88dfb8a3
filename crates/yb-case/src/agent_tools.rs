//! Names of tools: each agent's own ones, and what a name of another agent means for it.
//!
//! Agents ignore unknown tool names without a warning, so a misspelled list would leave an agent without tools. A name
//! in a case is therefore one of the agent's own, or translated by its purpose, or an error.

use crate::agent_spec::{AgentSpec, AgentSpecs};

/// A built-in tool of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentTool {
    /// The agent's name for it.
    pub name: &'static str,
    /// What it does, by which names are translated.
    pub purpose: ToolPurpose,
}

impl AgentTool {
    /// A tool with a purpose.
    #[must_use]
    pub const fn new(purpose: ToolPurpose, name: &'static str) -> Self {
        Self { name, purpose }
    }
}

/// What a tool does. Tools of two agents with the same purpose can replace each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolPurpose {
    /// Reads a file.
    Read,
    /// Searches the contents of files.
    Grep,
    /// Finds files by name.
    Glob,
    /// Lists a directory.
    List,
    /// Creates or replaces a file.
    Write,
    /// Changes a part of a file.
    Edit,
    /// Runs a command.
    Shell,
    /// Fetches a page.
    Fetch,
    /// Searches the web.
    WebSearch,
    /// Starts another agent.
    Subagent,
    /// Keeps a list of tasks.
    Tasks,
    /// Something that no other agent has.
    Other,
}

use ToolPurpose::{Edit, Fetch, Glob, Grep, List, Other, Read, Shell, Subagent, Tasks, WebSearch, Write};

/// Purposes that only read files.
pub(crate) const READING: &[ToolPurpose] = &[Read, Grep, Glob, List];
/// Purposes that change files.
pub(crate) const EDITING: &[ToolPurpose] = &[Write, Edit];

/// Portable names, and names of tools in earlier versions of agents.
const PORTABLE: &[(&str, &[ToolPurpose])] = &[
    ("read", &[Read]),
    ("search", &[Grep, Glob]),
    ("list", &[List]),
    ("write", &[Write]),
    ("edit", &[Edit]),
    ("run", &[Shell]),
    ("shell", &[Shell]),
    ("execute", &[Shell]),
    ("web", &[Fetch, WebSearch]),
    ("agent", &[Subagent]),
    ("todo", &[Tasks]),
    ("LS", &[List]),
    ("MultiEdit", &[Edit]),
    ("NotebookRead", &[Read]),
    ("TodoWrite", &[Tasks]),
];

/// Why a tool name can't be used with an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolNameError {
    /// No agent has a tool with this name.
    Unknown,
    /// Another agent has it, and this one has nothing like it.
    NoCounterpart,
    /// A rule with a pattern, such as `Bash(git *)`, in the syntax of another agent.
    ForeignPattern {
        /// The names of the tool for this agent.
        own: Vec<String>,
    },
}

impl AgentSpec {
    /// The names of the agent's tools with one of these purposes.
    pub(crate) fn tools_for(&self, purposes: &[ToolPurpose]) -> Vec<String> {
        let own = |purpose: ToolPurpose| self.tools.iter().filter(move |tool| tool.purpose == purpose);
        purposes.iter().flat_map(|purpose| own(*purpose)).map(|tool| tool.name.to_owned()).collect()
    }

    /// Translates an entry of `tools`, `allowed_tools` or `disallowed_tools`: a tool name, or a rule such as `Bash(git *)`. Names of
    /// MCP tools are kept, as are all names for an agent whose tools are unknown.
    ///
    /// # Errors
    /// If this agent has no such tool.
    pub fn tool_names(
        &self,
        rule: &str,
        agents: &AgentSpecs,
        mcp_servers: &[String],
    ) -> Result<Vec<String>, ToolNameError> {
        let (name, pattern) = match rule.split_once('(') {
            Some((name, rest)) => (name, Some(rest)),
            None => (rule, None),
        };
        let is_own = |name: &str| {
            let mut own = self.tools.iter().map(|tool| tool.name).chain(self.tool_kinds.iter().copied());
            own.any(|own| own == name)
        };
        let is_mcp = name.starts_with("mcp__")
            || name.starts_with("mcp_")
            || mcp_servers.iter().any(|server| name.starts_with(server.as_str()));
        if self.tools.is_empty() || is_mcp || name == "*" || is_own(name) {
            return Ok(vec![rule.to_owned()]);
        }
        let purposes = purposes_of(name, agents).ok_or(ToolNameError::Unknown)?;
        let mut own = self.tools_for(&purposes);
        // Agents without a tool for directories find files by name.
        if own.is_empty() && purposes == [List] {
            own = self.tools_for(&[Glob]);
        }
        match (own.is_empty(), pattern) {
            (true, _) => Err(ToolNameError::NoCounterpart),
            (false, Some(_)) => Err(ToolNameError::ForeignPattern { own }),
            (false, None) => Ok(own),
        }
    }
}

/// What a name means: for any agent, or in one of the agents' own words; letter case decides only between agents.
fn purposes_of(name: &str, agents: &AgentSpecs) -> Option<Vec<ToolPurpose>> {
    let portable = PORTABLE.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    if let Some((_, purposes)) = portable {
        return Some(purposes.to_vec());
    }
    let all = agents.iter().flat_map(|spec| spec.tools.iter());
    let exact = all.clone().find(|tool| tool.name == name);
    let found = exact.or_else(|| all.clone().find(|tool| tool.name.eq_ignore_ascii_case(name)))?;
    Some(vec![found.purpose]).filter(|purposes| *purposes != [Other])
}

#[cfg(test)]
mod tests {
    use super::*;

    static CAPITAL: AgentSpec = AgentSpec {
        tools: &[
            AgentTool::new(Read, "Read"),
            AgentTool::new(Grep, "Grep"),
            AgentTool::new(Glob, "Glob"),
            AgentTool::new(Shell, "Bash"),
            AgentTool::new(Other, "Skill"),
        ],
        ..AgentSpec::new("capital", "Capital")
    };
    static SNAKE: AgentSpec = AgentSpec {
        tools: &[
            AgentTool::new(Read, "read_file"),
            AgentTool::new(List, "list_directory"),
            AgentTool::new(Shell, "run_shell_command"),
        ],
        tool_kinds: &["shell"],
        ..AgentSpec::new("snake", "Snake")
    };
    static ANY: AgentSpec = AgentSpec::new("any", "Any");

    fn names(spec: &AgentSpec, rule: &str) -> Result<Vec<String>, ToolNameError> {
        spec.tool_names(rule, &AgentSpecs::new([&CAPITAL, &SNAKE, &ANY]), &["tickets".to_owned()])
    }

    fn check(spec: &AgentSpec, rule: &str, expected: &[&str]) {
        assert_eq!(names(spec, rule).unwrap(), expected, "{} {rule}", spec.name);
    }

    #[test]
    fn own_names_and_mcp_tools_are_kept() {
        check(&CAPITAL, "Bash(git *)", &["Bash(git *)"]);
        check(&CAPITAL, "Skill", &["Skill"]);
        check(&SNAKE, "shell(git:*)", &["shell(git:*)"]);
        check(&SNAKE, "mcp__tickets__list", &["mcp__tickets__list"]);
        check(&SNAKE, "tickets-list", &["tickets-list"]);
        check(&ANY, "anything", &["anything"]);
    }

    #[test]
    fn names_of_other_agents_are_translated_by_purpose() {
        check(&SNAKE, "Read", &["read_file"]);
        check(&SNAKE, "Bash", &["run_shell_command"]);
        check(&CAPITAL, "read_file", &["Read"]);
        check(&CAPITAL, "bash", &["Bash"]);
        check(&CAPITAL, "list_directory", &["Glob"]);
        check(&CAPITAL, "LS", &["Glob"]);
        check(&CAPITAL, "search", &["Grep", "Glob"]);
    }

    #[test]
    fn names_without_a_counterpart_are_errors() {
        assert_eq!(names(&CAPITAL, "Reed"), Err(ToolNameError::Unknown));
        assert_eq!(names(&SNAKE, "Skill"), Err(ToolNameError::Unknown));
        assert_eq!(names(&SNAKE, "Grep"), Err(ToolNameError::NoCounterpart));
        assert_eq!(
            names(&SNAKE, "Bash(git *)"),
            Err(ToolNameError::ForeignPattern { own: vec!["run_shell_command".to_owned()] })
        );
    }
}
