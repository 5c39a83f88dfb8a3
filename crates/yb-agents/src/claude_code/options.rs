//! A case's `agent.config` as options of Claude Code.

use std::path::Path;

use yb_claude::env_vars as vars;
use yb_claude::{
    AgentError, McpServer, Options, PermissionMode, SettingSource, Settings, SystemPrompt, TextSource,
};

use super::super::{AdapterError, AgentConfig, ExecutionContext, definition};
use yb_case::NetworkMode;

/// The permission mode of the case. By default everything is allowed, because there is no user to ask, or everything that
/// `allowed_tools` lists; the log has the mode.
pub(super) fn permission_mode(
    config: &AgentConfig,
    warnings: &mut Vec<String>,
) -> Result<PermissionMode, AdapterError> {
    let Some(name) = &config.permission_mode else {
        let by_list = config.allowed_tools.is_some();
        return Ok(if by_list { PermissionMode::DontAsk } else { PermissionMode::BypassPermissions });
    };
    let (mode, finding) = PermissionMode::parse_with_aliases(name).map_err(|error| {
        AdapterError::config(format!("`permission_mode`: {error}"), "choose one of these")
    })?;
    if let Some(finding) = finding {
        if config.strict {
            return Err(AdapterError::config(finding.to_string(), finding.hint));
        }
        warnings.push(finding.to_string());
    }
    Ok(mode)
}

/// All options except the environment and the definition of the agent.
pub(super) fn options(context: &ExecutionContext, mode: PermissionMode) -> Result<Options, AdapterError> {
    let config = &context.config;
    let mut options = Options::default().with_cwd(&context.workspace).with_permission_mode(mode);
    options.strict = config.strict;
    // The end of each answer has its cost; without an observer the partial messages are not needed.
    options.include_partial_messages = context.observer.is_some() || context.trace.is_some();
    let text = |name| context.host.variable(name).map(|value| value.to_string_lossy().into_owned());
    options.trace_parent = text(vars::TRACEPARENT);
    options.trace_state = text(vars::TRACESTATE);
    options.model.clone_from(&config.model);
    options.max_turns = config.max_turns;
    options.max_budget_usd = config.max_budget_usd;
    options.max_output_tokens = config.max_tokens;
    options.temperature = config.temperature;
    options.tools.clone_from(&config.tools);
    // Without a permission mode the list of allowed tools is all that the agent has. Measured: `dontAsk` alone still offers
    // the others, and runs those that only read.
    if let (None, None, Some(allowed)) = (&config.permission_mode, &config.tools, &config.allowed_tools) {
        options.tools = Some(tool_names(allowed));
    }
    options.allowed_tools.clone_from(&config.allowed_tools);
    options.disallowed_tools.clone_from(&config.disallowed_tools);
    // They run on the servers of the model, outside of the network restrictions.
    if context.network.mode != NetworkMode::Open {
        let denied = options.disallowed_tools.get_or_insert_default();
        for tool in ["WebSearch", "WebFetch"] {
            if denied.iter().all(|known| known != tool) {
                denied.push(tool.to_owned());
            }
        }
    }
    options.append_system_prompt = config.append_system_prompt.clone().map(TextSource::Text);
    options.json_schema.clone_from(&config.answer_schema);
    options.settings = config.settings.clone().map(Settings::Json);
    if let Some(text) = &config.system_prompt {
        options.system_prompt = SystemPrompt::Text(text.clone());
    }
    if let Some(effort) = &config.effort {
        let effort = effort.parse().map_err(|error: yb_claude::UnknownValue| {
            AdapterError::config(format!("`effort`: {error}"), "choose one of these")
        })?;
        options.effort = Some(effort);
    }
    for (name, server) in &config.mcp_servers {
        options.mcp_servers.insert(name.clone(), McpServer::Other(server.clone()));
    }
    options.agents.clone_from(&config.agents);
    options = for_repository(options, context);
    options.add_dirs.extend(config.add_dirs.iter().cloned());
    for argument in &config.extra_args {
        options.extra_args.push(extra(argument)?);
    }
    Ok(options)
}

/// The built-in tools that rules such as `Bash(git *)` name; those of MCP servers are not in the list of `--tools`.
fn tool_names(rules: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for rule in rules.iter().filter(|rule| !rule.starts_with("mcp__")) {
        let name = rule.split('(').next().unwrap_or(rule);
        if names.iter().all(|known| known != name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Measured: with `--strict-mcp-config`, the servers of plugins are not started; without the settings of the project, those of the
/// repository are not started either. Skills are read from the user's settings, which are private to the execution.
///
/// The instructions of a repository are read; its hooks, servers and settings take effect only if it is trusted.
/// Measured: `--setting-sources=project` would run its `apiKeyHelper` even with hooks disabled.
fn for_repository(mut options: Options, context: &ExecutionContext) -> Options {
    let config = &context.config;
    options.plugin_dirs = config.plugins.iter().map(|plugin| plugin.path.clone()).collect();
    let user = (!config.skills.is_empty()).then_some(SettingSource::User);
    if config.trust_repo_settings {
        let project = [SettingSource::Project, SettingSource::Local];
        return options.with_setting_sources(user.into_iter().chain(project));
    }
    options.strict_mcp_config = config.plugins.is_empty();
    options.with_setting_sources(user).with_add_dir(&context.workspace)
}

/// Passes the definition of an agent as an option, so that nothing is copied into the workspace.
pub(super) fn as_agent(options: Options, context: &ExecutionContext) -> Result<Options, AdapterError> {
    let Some(name) = &context.config.agent_name else { return Ok(options) };
    let home = context.host.variable(yb_claude::env_vars::HOME).map(Path::new);
    let places = context.search_roots.iter().chain(&context.project_dir).map(|root| root.as_path());
    let roots: Vec<&Path> = context.workspace_roots().into_iter().chain(places).chain(home).collect();
    let mut options = options.with_agent_from(name, &roots).map_err(|error| unusable(&error))?;
    let servers: Vec<String> = context.config.mcp_servers.keys().cloned().collect();
    if let Some(tools) = options.agents.get_mut(name).and_then(|agent| agent.tools.as_mut()) {
        *tools = definition::own_tools(name, tools, &super::SPEC, &servers)?;
    }
    // Measured: otherwise a definition with a list of tools can't return the structured answer.
    if options.json_schema.is_some() {
        let lists = options.agents.values_mut().filter_map(|agent| agent.tools.as_mut());
        lists.for_each(|tools| tools.push(STRUCTURED.to_owned()));
    }
    Ok(options)
}

/// The tool that returns a structured answer.
const STRUCTURED: &str = "StructuredOutput";

/// Checks the form of the name; whether the definition exists depends on the workspace.
pub(super) fn check_agent_name(config: &AgentConfig) -> Result<(), AdapterError> {
    let Some(name) = &config.agent_name else { return Ok(()) };
    if config.agents.contains_key(name) {
        return Ok(());
    }
    match yb_claude::find_agent(name, &[]) {
        Err(error @ AgentError::BadName(_)) => Err(unusable(&error)),
        _ => Ok(()),
    }
}

fn unusable(error: &AgentError) -> AdapterError {
    let hint = match error {
        AgentError::NotFound { .. } => {
            "create one of these files, or define the agent in the case: `agent.config.agents`"
        }
        other => other.hint(),
    };
    AdapterError::config(format!("`agent_name`: {error}"), hint)
}

/// Parses `--flag` or `--flag=value`; a separate value could be taken for a flag.
fn extra(argument: &str) -> Result<(String, Option<std::ffi::OsString>), AdapterError> {
    let Some(flag) = argument.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
        let message = format!("`extra_args`: expected `--flag` or `--flag=value`: `{argument}`");
        return Err(AdapterError::config(message, "write flag and value as one element"));
    };
    Ok(match flag.split_once('=') {
        Some((flag, value)) => (flag.to_owned(), Some(value.into())),
        None => (flag.to_owned(), None),
    })
}
