//! Translates the agent section of a case for the adapter.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{TrialError, add_ons};
use yb_agents::{AgentConfig, Host, InstructionFile};
use yb_case::{AgentSpec, Case, Prompt, with_environment};

/// Returns the adapter's configuration.
pub(super) fn config(
    case: &Case,
    model: Option<&str>,
    env: &BTreeMap<String, String>,
    add_ons: &Path,
) -> Result<AgentConfig, TrialError> {
    let from = &case.agent.config;
    let mut config = AgentConfig::default();
    match &case.agent.prompt {
        Prompt::Text(text) | Prompt::File { text, .. } => config.prompt = Some(text.clone()),
        Prompt::InWorkspace(path) => config.prompt_file = Some(path.clone()),
    }
    config.version.clone_from(&case.agent.version);
    config.model = case.agent.model.clone().or_else(|| model.map(str::to_owned));
    config.agent_name.clone_from(&case.agent.agent_name);
    config.append_system_prompt.clone_from(&from.append_system_prompt);
    config.system_prompt.clone_from(&from.system_prompt);
    config.permission_mode.clone_from(&from.permission_mode);
    config.tools.clone_from(&from.tools);
    config.allowed_tools.clone_from(&from.allowed_tools);
    config.disallowed_tools.clone_from(&from.disallowed_tools);
    config.max_turns = from.max_turns;
    config.max_budget_usd = case.max_budget_usd;
    config.effort.clone_from(&from.effort);
    config.settings.clone_from(&from.settings);
    config.add_dirs = from.add_dirs.iter().map(|added| added.path.clone()).collect();
    config.extra_args.clone_from(&from.extra_args);
    config.max_tokens = from.max_tokens;
    config.temperature = from.temperature;
    config.trust_repo_settings = from.trust_repo_settings;
    config.strict = case.strict;
    for (name, server) in &from.mcp_servers {
        let text = fill(&server.to_string(), env)?;
        if let Ok(Value::Object(server)) = serde_json::from_str(&text) {
            config.mcp_servers.insert(name.clone(), server);
        }
    }
    config.mcp_required = !from.mcp_optional;
    config.agents.clone_from(&from.agents);
    config.plugins = add_ons::directories(add_ons, add_ons::PLUGINS, &from.plugins);
    config.skills = add_ons::directories(add_ons, add_ons::SKILLS, &from.skills);
    config.instructions = from.instructions.as_ref().map(|instructions| InstructionFile {
        name: instructions.file.target.clone(),
        digest: instructions.file.digest.clone(),
        line: instructions.line.clone(),
    });
    config.section.clone_from(&from.section);
    Ok(config)
}

/// Returns the environment of the agent.
pub(super) fn host(
    case: &Case,
    agent: Option<&AgentSpec>,
    env: &BTreeMap<String, String>,
    shim: Option<&Path>,
) -> Result<Host, TrialError> {
    // A directory that `yb eval` grades has no agent.
    let mut host = match agent {
        Some(agent) => yb_agents::agent_host(agent, env),
        None => Host::new(env.get("PATH").map(|path| ("PATH", path))),
    };
    host.env.extend(case_variables(case, env)?.into_iter().map(|(name, value)| (name.into(), value.into())));
    Ok(match shim {
        Some(shim) => host.with_shim(shim),
        None => host,
    })
}

/// Returns the variables that the case itself names.
fn case_variables(case: &Case, env: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, TrialError> {
    case.env
        .iter()
        .map(|variable| {
            let value = match &variable.value {
                Some(value) => fill(value, env)?,
                None => env
                    .get(&variable.name)
                    .cloned()
                    .ok_or_else(|| TrialError::NoVariable { name: variable.name.clone() })?,
            };
            Ok((variable.name.clone(), value))
        })
        .collect()
}

/// Returns the secrets that the agent receives, which must not appear in any artifact.
pub(super) fn secrets(
    case: &Case,
    agent: Option<&AgentSpec>,
    env: &BTreeMap<String, String>,
) -> Result<Vec<(String, Vec<u8>)>, TrialError> {
    Ok(yb_agents::secrets_of(&host(case, agent, env, None)?))
}

fn fill(text: &str, env: &BTreeMap<String, String>) -> Result<String, TrialError> {
    with_environment(text, |name| env.get(name).cloned()).map_err(|name| TrialError::NoVariable { name })
}
