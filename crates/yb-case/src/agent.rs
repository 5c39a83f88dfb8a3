//! The agent: which one, its model and name wherever they are written, and the keys that it knows.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value as Json};
use yb_claude::{AgentDefinition, PermissionMode};

use super::add_on;
use super::agent_tools::ToolNameError;
use super::check::{Checker, join};
use super::evaluator::number;
use super::expected::{ExpectedFiles, of_files};
use super::files::FileError;
use super::hook::texts;
use super::prompt::{self, Dirs};
use super::types::{AddedDir, Agent, AgentConfig, Start};
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Span, Value};

const CONFIG: &str = "agent.config";
/// Keys with lists of tools.
const TOOL_LISTS: [&str; 3] = ["tools", "allowed_tools", "disallowed_tools"];

/// Reads `agent`, which has been checked.
pub(crate) fn read(
    root: &Node,
    dirs: Dirs<'_>,
    start: Option<&Start>,
    checker: &mut Checker<'_, '_>,
) -> Option<Agent> {
    let entry = root.entry("agent")?;
    let agent = &entry.node;
    let config = agent.get("config").filter(|config| matches!(config.value, Value::Map(_)));
    let kind = agent.get("type").and_then(Node::text).unwrap_or_default().to_owned();
    let model = model(agent, config, &kind, checker);
    let agent_name = agent_name(agent, config, checker);
    let prompt = prompt::read(config, entry.key.span, dirs, start, checker);
    lacking(config, &kind, checker);
    let settings = settings(config, &kind, dirs, checker);
    let version = version(agent, &kind, checker);
    Some(Agent { kind, agent_name, model, version, prompt: prompt?, config: settings })
}

/// Reads the version of the agent's program; an agent without an npm program can't be pinned.
fn version(agent: &Node, kind: &str, checker: &mut Checker<'_, '_>) -> Option<String> {
    let entry = agent.entry("version")?;
    let text = entry.node.text()?;
    if checker.agents.get(kind).is_some_and(|spec| spec.npm().is_none()) {
        let message = format!("`{kind}` has no version that could be pinned: {}", quoted(text));
        checker.found.error(entry.key.span, "agent.version", message).hint("leave `version` out");
    }
    Some(text.to_owned())
}

/// A value that may be written at several places, as long as they agree.
fn agreed<'n>(
    places: [(&str, Option<&'n Node>); 3],
    what: &str,
    checker: &mut Checker<'_, '_>,
) -> Option<(&'n str, Span)> {
    let mut given = places.into_iter().filter_map(|(key, node)| Some((key, node?.text()?, node?.span)));
    let (first_key, first, span) = given.next()?;
    for (key, other, at) in given {
        if other != first {
            checker
                .found
                .error(at, key, format!("another {what} than `{first_key}`: {}", quoted(other)))
                .expected(quoted(first))
                .hint("write it at one place");
        }
    }
    Some((first, span))
}

fn agent_name(agent: &Node, config: Option<&Node>, checker: &mut Checker<'_, '_>) -> Option<String> {
    let places = [
        ("agent.agent_name", agent.get("agent_name")),
        ("agent.config.agent_name", config.and_then(|config| config.get("agent_name"))),
        ("agent.config.agent", config.and_then(|config| config.get("agent"))),
    ];
    agreed(places, "agent name", checker).map(|(name, _)| name.to_owned())
}

fn model(agent: &Node, config: Option<&Node>, kind: &str, checker: &mut Checker<'_, '_>) -> Option<String> {
    for entry in agent.get("models").map(Node::entries).unwrap_or_default() {
        if !checker.agents.contains(&entry.key.name) {
            let message = format!("unknown agent: {}", quoted(&entry.key.name));
            let key = join("agent.models", &entry.key.name);
            let severity = checker.severity(entry.key.span);
            let found = checker.found.add(severity, entry.key.span, key, message);
            found.did_you_mean(&entry.key.name, checker.agents.names());
        }
    }
    let places = [
        ("agent.model", agent.get("model")),
        ("agent.config.model", config.and_then(|config| config.get("model"))),
        ("", None),
    ];
    let shared = agreed(places, "model", checker);
    let own = agent.get("models").and_then(|models| models.get(kind));
    let own = own.and_then(|node| Some((node.text()?, node.span)));
    let (name, span) = own.or(shared)?;
    if let Some(rule) = checker.agents.get(kind).and_then(|spec| spec.model_rule.as_ref())
        && !(rule.is_full_name)(name)
    {
        let message = format!("not the full name of {}: {}", rule.model, quoted(name));
        checker
            .found
            .warning(span, "agent.model", message)
            .expected(rule.expected)
            .hint("an alias can mean another model tomorrow; `agent.models` names one for each agent");
    }
    Some(name.to_owned())
}

/// Keys that all agents share, but this one does not know.
fn lacking(config: Option<&Node>, kind: &str, checker: &mut Checker<'_, '_>) {
    if !checker.agents.contains(kind) {
        return;
    }
    for entry in config.map(Node::entries).unwrap_or_default() {
        let name = entry.key.name.as_str();
        if super::fields_agent::CONFIG.field(name).is_none() || checker.agents.supports(kind, name) {
            continue;
        }
        let (key, message) = (join(CONFIG, name), format!("`{kind}` has no such setting: `{name}`"));
        let found = &mut checker.found;
        if add_on::KEYS.contains(&name) {
            found.error(entry.key.span, key, message).hint(format!(
                "its variants would not differ; leave `{name}` out, or choose an agent that supports it"
            ));
        // A restriction that is ignored would let the agent do what the case forbids.
        } else if TOOL_LISTS.contains(&name) {
            found.error(entry.key.span, key, message).hint(
                "its tools can't be restricted; put what only one agent knows under `agent.config.<type>`",
            );
        } else {
            found
                .warning(entry.key.span, key, message)
                .hint("it is ignored; put what only one agent knows under `agent.config.<type>`");
        }
    }
}

fn settings(config: Option<&Node>, kind: &str, dirs: Dirs<'_>, checker: &mut Checker<'_, '_>) -> AgentConfig {
    let section = config.and_then(|config| config.get(kind));
    let known = checker.agents;
    let get = |key: &str| {
        let own = section.and_then(|section| section.get(key));
        own.or_else(|| config.filter(|_| known.supports(kind, key)).and_then(|config| config.get(key)))
    };
    let text = |key: &str| get(key).and_then(Node::text).map(str::to_owned);
    let servers: Vec<String> = get("mcp_servers")
        .map(Node::entries)
        .unwrap_or_default()
        .iter()
        .map(|entry| entry.key.name.clone())
        .collect();
    check_servers(get("mcp_servers"), checker);
    check_bypass(get("permission_mode"), get("tools"), get("allowed_tools"), checker);
    let [tools, allowed_tools, disallowed_tools] =
        TOOL_LISTS.map(|key| get(key).map(|node| tools(node, key, kind, &servers, checker)));
    let count = |key: &str| match get(key).map(|node| &node.value) {
        Some(Value::Int(number)) => u32::try_from(*number).ok(),
        _ => None,
    };
    let object = |key: &str| get(key).map(map);
    if let Some(node) =
        get("temperature").filter(|node| number(node).is_some_and(|number| (0.0..=1.0).contains(&number)))
    {
        checker
            .found
            .warning(node.span, join(CONFIG, "temperature"), "unsupported by the CLI: `temperature`")
            .hint("it is recorded and has no effect; leave it out");
    }
    AgentConfig {
        append_system_prompt: text("append_system_prompt"),
        system_prompt: text("system_prompt"),
        permission_mode: get("permission_mode").and_then(|node| permission_mode(node, checker)),
        tools,
        allowed_tools,
        disallowed_tools,
        max_tokens: count("max_tokens"),
        temperature: get("temperature").and_then(number),
        max_turns: count("max_turns"),
        mcp_servers: object("mcp_servers").unwrap_or_default(),
        mcp_optional: text("mcp").is_some_and(|word| word == "optional"),
        plugins: get("plugins").map(|node| add_on::plugins(node, dirs, checker)).unwrap_or_default(),
        skills: get("skills").map(|node| add_on::skills(node, dirs, checker)).unwrap_or_default(),
        instructions: get("instructions").and_then(|node| add_on::instructions(node, kind, dirs, checker)),
        agents: get("agents").map(|node| agents(node, kind, &servers, checker)).unwrap_or_default(),
        effort: text("effort"),
        settings: object("settings"),
        add_dirs: get("add_dirs").map(|node| added_dirs(node, dirs, checker)).unwrap_or_default(),
        extra_args: get("extra_args").map(|node| extra_args(node, checker)).unwrap_or_default(),
        trust_repo_settings: matches!(
            get("trust_repo_settings").map(|node| &node.value),
            Some(Value::Bool(true))
        ),
        section: section.map(map).unwrap_or_default(),
    }
}

/// Reads the additional directories. Relative paths start at the directory of the file that names them.
fn added_dirs(node: &Node, dirs: Dirs<'_>, checker: &mut Checker<'_, '_>) -> Vec<AddedDir> {
    let mut added = Vec::new();
    for (at, item) in node.items().iter().enumerate() {
        let Some(text) = item.text().filter(|text| !text.is_empty()) else { continue };
        let path = dirs.of(item.span).join(text).canonicalize().ok().filter(|path| path.is_dir());
        let found = path.ok_or(FileError::Missing).and_then(|path| {
            if Path::new(text).is_absolute() {
                return Ok(AddedDir { path: text.into(), digest: None });
            }
            let ExpectedFiles { path, digest } = of_files(path)?;
            Ok(AddedDir { path, digest: Some(digest) })
        });
        match found {
            Ok(directory) => added.push(directory),
            Err(error) => {
                let message = match error {
                    FileError::Missing => format!("no such directory: {}", quoted(text)),
                    other => format!("failed to read {} ({other})", quoted(text)),
                };
                checker
                    .found
                    .error(item.span, join(CONFIG, &format!("add_dirs[{at}]")), message)
                    .hint("a relative path starts at the directory of the case or suite file that names it");
            }
        }
    }
    added
}

/// How a server is started or reached; each has one of them.
const SERVER_ADDRESSES: [&str; 4] = ["command", "url", "httpUrl", "tcp"];
/// Further keys of servers, in the formats of all agents.
const SERVER_KEYS: [&str; 15] = [
    "args",
    "env",
    "environment",
    "cwd",
    "headers",
    "type",
    "timeout",
    "tools",
    "trust",
    "enabled",
    "disabled",
    "description",
    "oauth",
    "scopes",
    "required",
];

/// Rejects servers that no agent can start. Agents ignore keys that they do not know, and then the server.
fn check_servers(servers: Option<&Node>, checker: &mut Checker<'_, '_>) {
    for entry in servers.map(Node::entries).unwrap_or_default() {
        let place = format!("{CONFIG}.mcp_servers.{}", entry.key.name);
        let known = || SERVER_ADDRESSES.into_iter().chain(SERVER_KEYS);
        let mut wrong = false;
        for key in entry.node.entries().iter().map(|entry| &entry.key) {
            let near = yb_yaml::diagnostic::nearest(&key.name, known()).filter(|near| *near != key.name);
            if let Some(near) = near.filter(|_| !key.name.contains(['_', '-'])) {
                wrong = true;
                let message = format!("unknown key of an MCP server: {}", quoted(&key.name));
                checker
                    .found
                    .error(key.span, format!("{place}.{}", key.name), message)
                    .hint(format!("did you mean `{near}`?"));
            }
        }
        if !wrong && SERVER_ADDRESSES.iter().all(|key| entry.node.get(key).is_none()) {
            checker
                .found
                .error(entry.key.span, place, "an MCP server has neither `command` nor `url`")
                .hint("write `command: PROGRAM` and `args: […]`, or `url: https://…`");
        }
    }
}

/// Warns of a list of allowed tools that restricts nothing.
fn check_bypass(
    mode: Option<&Node>,
    tools: Option<&Node>,
    allowed: Option<&Node>,
    checker: &mut Checker<'_, '_>,
) {
    let bypasses = mode.and_then(Node::text) == Some("bypassPermissions");
    if let (true, None, Some(allowed)) = (bypasses, tools, allowed) {
        let message = "`allowed_tools` restricts nothing with `permission_mode: bypassPermissions`";
        checker
            .found
            .warning(allowed.span, join(CONFIG, "allowed_tools"), message)
            .hint("leave `permission_mode` out, and the agent has no other tools; or list them in `tools`");
    }
}

/// Reads the definitions of named agents.
fn agents(
    node: &Node,
    kind: &str,
    mcp_servers: &[String],
    checker: &mut Checker<'_, '_>,
) -> BTreeMap<String, AgentDefinition> {
    let mut all = BTreeMap::new();
    for entry in node.entries() {
        let (name, agent) = (&entry.key.name, &entry.node);
        let text = |key: &str| agent.get(key).and_then(Node::text).map(str::to_owned);
        // Claude Code rejects an agent without a description.
        let description = text("description").filter(|text| !text.trim().is_empty());
        let mut definition = AgentDefinition::new(
            description.unwrap_or_else(|| name.clone()),
            text("prompt").unwrap_or_default(),
        );
        definition.model = text("model");
        let key = format!("agents.{name}.tools");
        definition.tools = agent.get("tools").map(|node| tools(node, &key, kind, mcp_servers, checker));
        all.insert(name.clone(), definition);
    }
    all
}

/// Reads a list of tools, in the agent's own names.
fn tools(
    node: &Node,
    key: &str,
    kind: &str,
    mcp_servers: &[String],
    checker: &mut Checker<'_, '_>,
) -> Vec<String> {
    let Some(spec) = checker.agents.get(kind) else { return texts(Some(node)) };
    let mut names = Vec::new();
    for (at, item) in node.items().iter().enumerate() {
        let Some(rule) = item.text() else { continue };
        let error = match spec.tool_names(rule, checker.agents, mcp_servers) {
            Ok(own) => {
                names.extend(own);
                continue;
            }
            Err(error) => error,
        };
        let place = format!("{CONFIG}.{key}[{at}]");
        let message = format!("{} has no tool {}", spec.label, quoted(rule));
        let found = checker.found.error(item.span, place, message);
        match error {
            ToolNameError::Unknown => {
                found.hint("a tool that only another version of the CLI has can be passed by `extra_args`");
                found.did_you_mean(rule, spec.tools.iter().map(|tool| tool.name));
            }
            ToolNameError::NoCounterpart => {
                found.hint("no tool of this agent has the same purpose; leave it out");
            }
            ToolNameError::ForeignPattern { own } => {
                let own: Vec<String> = own.iter().map(|name| format!("`{name}`")).collect();
                found.hint(format!("write the rule for this agent, whose tool is {}", own.join(" or ")));
            }
        }
    }
    names
}

fn map(node: &Node) -> Map<String, Json> {
    match node.to_json() {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

/// The CLI's own name of a mode.
fn permission_mode(node: &Node, checker: &mut Checker<'_, '_>) -> Option<String> {
    let (mode, finding) = PermissionMode::parse_with_aliases(node.text()?).ok()?;
    if let Some(finding) = finding {
        let key = join(CONFIG, "permission_mode");
        checker.found.warning(node.span, key, finding.message).hint(finding.hint);
    }
    Some(mode.as_str().to_owned())
}

fn extra_args(node: &Node, checker: &mut Checker<'_, '_>) -> Vec<String> {
    const EXPECTED: &str = "`--flag` or `--flag=value`";
    let mut args = Vec::new();
    for (at, item) in node.items().iter().enumerate() {
        let Some(text) = item.text() else { continue };
        let flag = text.strip_prefix("--").map(|flag| flag.split('=').next().unwrap_or_default());
        if flag.is_some_and(|flag| super::format::Format::Flag.accepts(flag)) {
            args.push(text.to_owned());
        } else {
            let message = format!("not a flag: {}", quoted(text));
            checker.found.error(item.span, format!("{CONFIG}.extra_args[{at}]"), message).expected(EXPECTED);
        }
    }
    // A mapping has no order of its own.
    let mut entries: Vec<_> = node.entries().iter().collect();
    entries.sort_by(|a, b| a.key.name.cmp(&b.key.name));
    for entry in entries {
        let name = &entry.key.name;
        match &entry.node.value {
            Value::Null | Value::Bool(true) => args.push(format!("--{name}")),
            Value::Bool(false) => {}
            Value::Text(text) => args.push(format!("--{name}={text}")),
            Value::Int(number) => args.push(format!("--{name}={number}")),
            Value::Float(number) => args.push(format!("--{name}={number}")),
            Value::List(_) | Value::Map(_) => {
                let key = format!("{CONFIG}.extra_args.{name}");
                let message = format!("wrong value: {}", entry.node.describe());
                checker.found.error(entry.node.span, key, message).expected("a text, a number or nothing");
            }
        }
    }
    args
}
