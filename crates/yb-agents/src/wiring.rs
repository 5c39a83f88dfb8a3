//! Proves which plugins, skills, MCP servers and agents of a case were loaded. Claude Code lists all of them in its first message,
//! before its model and its tools can write anything.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yb_case::AgentSpec;
use yb_claude::Message;
use yb_claude::frame::{InitMessage, SystemMessage};
use yb_model::log::ToolCallRecord;
use yb_model::{AddOnKind, AddOnRecord, WiringStatus};

use super::AgentConfig;

/// The tool by which Claude Code uses skills.
const SKILL_TOOL: &str = "Skill";
/// The tools by which Claude Code uses skills and commands, in all versions.
const SKILL_TOOLS: [&str; 2] = [SKILL_TOOL, "SlashCommand"];
/// The tools by which Claude Code uses agents.
const AGENT_TOOLS: [&str; 2] = ["Task", "Agent"];

/// A session as the agent reported it before its first answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SessionFacts {
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// The tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// The agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The MCP servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<String>,
    /// The plugins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
}

/// The declared add-ons of an execution, and the evidence about them.
#[derive(Debug, Clone, Default)]
pub(super) struct Wiring {
    add_ons: Vec<AddOnRecord>,
    session: Option<SessionFacts>,
    /// The agent has answered; later messages prove nothing.
    answered: bool,
    /// A required MCP server had not started when the agent listed what it loaded.
    server_failed: bool,
}

impl Wiring {
    /// The add-ons that a configuration declares.
    pub(super) fn declared(config: &AgentConfig) -> Self {
        let with_files = |kind, add_on: &super::AddOnDir| AddOnRecord {
            digest: Some(add_on.digest.clone()),
            ..AddOnRecord::declared(kind, &add_on.name)
        };
        let plugins = config.plugins.iter().map(|one| with_files(AddOnKind::Plugin, one));
        let skills = config.skills.iter().map(|one| with_files(AddOnKind::Skill, one));
        let servers = config.mcp_servers.keys().map(|name| AddOnRecord::declared(AddOnKind::McpServer, name));
        let agents = config.agents.keys().map(|name| AddOnRecord::declared(AddOnKind::Agent, name));
        let instructions = config.instructions.iter().map(|file| AddOnRecord {
            digest: Some(file.digest.clone()),
            ..AddOnRecord::declared(AddOnKind::Instructions, &file.name)
        });
        let add_ons = plugins.chain(skills).chain(servers).chain(agents).chain(instructions).collect();
        Self { add_ons, ..Self::default() }
    }

    /// Reads the first messages of an agent that lists what it loaded.
    pub(super) fn observe(&mut self, messages: &[Message], config: &AgentConfig) {
        for message in messages {
            match message {
                Message::System(SystemMessage::Init(init)) if !self.answered && self.session.is_none() => {
                    self.session = Some(facts(init));
                    for add_on in &mut self.add_ons {
                        check(add_on, init, config);
                    }
                }
                Message::Assistant(_) => self.answered = true,
                _ => {}
            }
        }
    }

    /// Records that the agent reports a failed MCP server. After its first answer, a tool may have written the report.
    pub(super) fn report_failed_server(&mut self) {
        self.server_failed |= self.session.is_some() && !self.answered;
    }

    /// Whether a required MCP server had not started when the agent listed what it loaded.
    pub(super) fn has_failed_server(&self) -> bool {
        self.server_failed
    }

    /// Describes the add-ons that were not loaded. An MCP server is reported as a failure of its own, which may be a warning.
    pub(super) fn missing(&self) -> Option<String> {
        let missing = self
            .add_ons
            .iter()
            .filter(|add_on| add_on.status == WiringStatus::Missing && add_on.kind != AddOnKind::McpServer);
        let texts: Vec<String> = missing
            .map(|add_on| {
                let reason = add_on.reason.as_deref().unwrap_or("not loaded");
                format!("{} was not loaded: {reason}", add_on.label())
            })
            .collect();
        (!texts.is_empty()).then(|| format!("miswired: {}", texts.join("; ")))
    }

    pub(super) fn into_parts(self) -> (Vec<AddOnRecord>, Option<SessionFacts>) {
        (self.add_ons, self.session)
    }
}

/// Counts how often the agent used each add-on, from its own tool calls. Instructions are counted by their model requests instead, and
/// what an agent does not report stays unknown.
pub fn count_uses(agent: &AgentSpec, add_ons: &mut [AddOnRecord], calls: &[ToolCallRecord]) {
    for add_on in add_ons.iter_mut().filter(|add_on| add_on.kind != AddOnKind::Instructions) {
        let is_reported = match add_on.kind {
            AddOnKind::McpServer => agent.mcp_tools.is_some(),
            _ => agent.tools.iter().any(|tool| tool.name == SKILL_TOOL),
        };
        if !is_reported {
            continue;
        }
        let uses = calls.iter().filter(|call| uses(agent, add_on, call)).count() as u64;
        // A call proves more than a list.
        if uses > 0 && add_on.status == WiringStatus::Unproven {
            (add_on.status, add_on.reason) = (WiringStatus::Proven, None);
        }
        add_on.uses = Some(uses);
    }
}

/// Whether a tool call uses an add-on. A skill or agent of a plugin has the name of the plugin before its own. A call that failed,
/// such as one of an unknown skill, uses nothing.
fn uses(agent: &AgentSpec, add_on: &AddOnRecord, call: &ToolCallRecord) -> bool {
    let name = &add_on.name;
    if call.is_error == Some(true) && add_on.kind != AddOnKind::McpServer {
        return false;
    }
    let argument = |keys: &[&str]| -> Option<String> {
        let arguments: serde_json::Value = serde_json::from_str(&call.arguments).ok()?;
        keys.iter()
            .find_map(|key| arguments[key].as_str())
            .map(|text| text.trim_start_matches('/').split_whitespace().next().unwrap_or_default().to_owned())
    };
    let skill = || argument(&["skill", "command"]).filter(|_| SKILL_TOOLS.contains(&call.name.as_str()));
    let subagent = || argument(&["subagent_type"]).filter(|_| AGENT_TOOLS.contains(&call.name.as_str()));
    match add_on.kind {
        AddOnKind::Skill => skill().as_ref() == Some(name),
        AddOnKind::Agent => subagent().as_ref() == Some(name),
        AddOnKind::Plugin => {
            let is_own =
                |used: String| used.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(':'));
            skill().or_else(subagent).is_some_and(is_own)
                || call.name.starts_with(&format!("mcp__plugin_{}_", tool_part(name)))
        }
        AddOnKind::McpServer => agent
            .mcp_tools
            .is_some_and(|prefix| call.name.starts_with(&prefix.replace("{server}", &tool_part(name)))),
        AddOnKind::Instructions => false,
    }
}

/// A name as Claude Code writes it in the names of tools.
fn tool_part(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect()
}

fn facts(init: &InitMessage) -> SessionFacts {
    SessionFacts {
        model: init.model.clone(),
        agent_version: init.claude_code_version.clone(),
        permission_mode: init.permission_mode.clone(),
        tools: init.tools.clone(),
        skills: init.skills.clone(),
        agents: init.agents.clone(),
        mcp_servers: init.mcp_servers.iter().map(|server| server.name.clone()).collect(),
        plugins: init.plugins.iter().map(|plugin| plugin.name.clone()).collect(),
    }
}

/// Decides about one add-on.
fn check(add_on: &mut AddOnRecord, init: &InitMessage, config: &AgentConfig) {
    let has_tool = |names: &[&str]| init.tools.iter().any(|tool| names.contains(&tool.as_str()));
    let verdict = match add_on.kind {
        AddOnKind::Plugin => plugin(&add_on.name, init, config),
        AddOnKind::Skill if !init.skills.contains(&add_on.name) => {
            Err("Claude Code does not list it; its `SKILL.md` needs a `description` in its header".to_owned())
        }
        AddOnKind::Skill if !has_tool(&[SKILL_TOOL]) => Err(format!("the agent has no tool `{SKILL_TOOL}`")),
        AddOnKind::Agent if !init.agents.contains(&add_on.name) => {
            Err("Claude Code does not list it".to_owned())
        }
        // An agent that the session runs as needs no tool.
        AddOnKind::Agent if !has_tool(&AGENT_TOOLS) && config.agent_name.as_deref() != Some(&add_on.name) => {
            Err("the agent has no tool `Agent`".to_owned())
        }
        AddOnKind::Skill | AddOnKind::Agent => Ok(()),
        AddOnKind::McpServer => {
            let server = init.mcp_servers.iter().find(|server| server.name == add_on.name);
            match server.map(|server| server.status.as_str()) {
                Some("connected") => Ok(()),
                Some("pending") => {
                    add_on.reason = Some("still starting when the session began".to_owned());
                    return;
                }
                Some(status) => Err(format!("Claude Code reports status `{status}`")),
                None => Err("Claude Code does not list it".to_owned()),
            }
        }
        // Claude Code does not list them; the requests to its model have them.
        AddOnKind::Instructions => return,
    };
    match verdict {
        Ok(()) => add_on.status = WiringStatus::Proven,
        Err(reason) => (add_on.status, add_on.reason) = (WiringStatus::Missing, Some(reason)),
    }
}

/// A plugin is loaded if it is listed, none of its parts failed, and all its MCP servers started.
fn plugin(name: &str, init: &InitMessage, config: &AgentConfig) -> Result<(), String> {
    let path = config.plugins.iter().find(|plugin| plugin.name == name).map(|plugin| plugin.path.as_path());
    let directory = path.and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    let is_own = |error: &&yb_claude::frame::PluginError| {
        error.path.as_deref().map(std::path::Path::new) == path
            || directory.as_ref().is_some_and(|directory| error.plugin == format!("{directory}@inline"))
    };
    if let Some(error) = init.plugin_errors.iter().find(is_own) {
        return Err(error.message.clone());
    }
    if init.plugins.iter().all(|plugin| plugin.name != name) {
        return Err("Claude Code does not list it".to_owned());
    }
    let prefix = format!("plugin:{name}:");
    let failed = |server: &&yb_claude::frame::McpServerStatus| {
        server.name.starts_with(&prefix) && !["connected", "pending"].contains(&server.status.as_str())
    };
    match init.mcp_servers.iter().find(failed) {
        Some(server) => Err(format!("MCP server `{}`: status `{}`", server.name, server.status)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adapter as _, AddOnDir, ClaudeCode, Codex, Gemini};

    fn config() -> AgentConfig {
        let add_on = |name: &str| AddOnDir {
            name: name.into(),
            path: format!("/a/{name}").into(),
            digest: "d".into(),
        };
        AgentConfig {
            plugins: vec![add_on("greeter")],
            skills: vec![add_on("polite")],
            mcp_servers: [("db".to_owned(), serde_json::Map::new())].into(),
            ..AgentConfig::default()
        }
    }

    fn observed(lines: &[serde_json::Value]) -> Wiring {
        let messages: Vec<Message> =
            lines.iter().map(|line| Message::parse(line.to_string().as_bytes()).unwrap()).collect();
        let mut wiring = Wiring::declared(&config());
        wiring.observe(&messages, &config());
        wiring
    }

    fn init() -> serde_json::Value {
        serde_json::json!({ "type": "system", "subtype": "init", "tools": ["Skill"], "skills": ["polite"],
            "plugins": [{ "name": "greeter", "path": "/a/greeter" }],
            "mcp_servers": [{ "name": "db", "status": "connected" }] })
    }

    #[test]
    fn first_message_proves_what_was_loaded() {
        let wiring = observed(&[init()]);
        assert!(wiring.missing().is_none());
        let mut failed = wiring.clone();
        failed.report_failed_server();
        assert!(failed.has_failed_server() && !wiring.has_failed_server());
        let (add_ons, session) = wiring.into_parts();
        assert!(add_ons.iter().all(|one| one.status == WiringStatus::Proven), "{add_ons:?}");
        assert_eq!(session.unwrap().skills, ["polite"]);
        for (path, value, message) in [
            ("skills", serde_json::json!([]), "skill `polite` was not loaded: Claude Code does not list it"),
            (
                "tools",
                serde_json::json!(["Read"]),
                "skill `polite` was not loaded: the agent has no tool `Skill`",
            ),
            (
                "plugins",
                serde_json::json!([]),
                "plugin `greeter` was not loaded: Claude Code does not list it",
            ),
            (
                "plugin_errors",
                serde_json::json!([{ "plugin": "greeter@inline", "message": "Hook load failed" }]),
                "plugin `greeter` was not loaded: Hook load failed",
            ),
            (
                "mcp_servers",
                serde_json::json!([{ "name": "plugin:greeter:x", "status": "failed" }, { "name": "db", "status": "connected" }]),
                "plugin `greeter` was not loaded: MCP server `plugin:greeter:x`: status `failed`",
            ),
        ] {
            let mut line = init();
            line[path] = value;
            let missing = observed(&[line]).missing().unwrap_or_default();
            assert!(missing.contains(message), "{path}: {missing}");
        }
    }

    #[test]
    fn message_after_the_first_answer_proves_nothing() {
        let answer = serde_json::json!({ "type": "assistant", "message": { "content": [] } });
        let mut forged = init();
        forged["skills"] = serde_json::json!([]);
        assert!(observed(&[init(), answer.clone(), forged.clone()]).missing().is_none());
        let mut late = observed(&[answer, forged]);
        late.report_failed_server();
        assert!(late.missing().is_none() && !late.has_failed_server());
        assert!(late.into_parts().0.iter().all(|one| one.status == WiringStatus::Unproven));
    }

    #[test]
    fn uses_are_counted_in_the_words_of_the_agent() {
        let call = |name: &str, arguments: &str, is_error: bool| -> ToolCallRecord {
            serde_json::from_value(
                serde_json::json!({ "name": name, "arguments": arguments, "is_error": is_error }),
            )
            .unwrap()
        };
        let calls = [
            call("Skill", r#"{"skill":"polite"}"#, false),
            call("Skill", r#"{"skill":"polite"}"#, true),
            call("Skill", r#"{"skill":"greeter:polite"}"#, false),
            call("Agent", r#"{"subagent_type":"greeter:reviewer"}"#, false),
            call("mcp__db__query", "{}", true),
            call("mcp__dbx__query", "{}", false),
        ];
        let uses = |agent: &AgentSpec| -> Vec<Option<u64>> {
            let (mut add_ons, _) = Wiring::declared(&config()).into_parts();
            count_uses(agent, &mut add_ons, &calls);
            add_ons.iter().map(|one| one.uses).collect()
        };
        assert_eq!(uses(ClaudeCode.spec()), [Some(2), Some(1), Some(1)], "plugin, skill, server");
        assert_eq!(uses(Codex.spec()), [None, None, Some(1)]);
        assert_eq!(uses(Gemini.spec()), [None; 3]);
    }
}
