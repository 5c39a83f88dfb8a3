//! The texts of a case that reach its agent: what a replay compares verbatim with its tape.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use yb_redact::Secrets;

use super::secrets::{secrets, secrets_of_json};
use super::{ExecutionContext, prompt};

/// Returns prompt, system prompts and settings by name, as far as the case sets them, with secrets replaced and with
/// placeholders for the directories of the run. The version of the agent and the limits are left out: a replay may test others.
#[must_use]
pub fn case_texts(context: &ExecutionContext) -> BTreeMap<String, String> {
    let config = &context.config;
    let text = |text: &Option<String>| text.clone();
    let list = |list: &Option<Vec<String>>| list.as_ref().map(|list| json!(list).to_string());
    let object = |value: Value| (value != json!({}) && value != json!([])).then(|| value.to_string());
    let fields = [
        // An unreadable prompt file is reported when the agent starts.
        ("prompt", prompt::prompt(context).ok()),
        ("system_prompt", text(&config.system_prompt)),
        ("append_system_prompt", text(&config.append_system_prompt)),
        ("model", text(&config.model)),
        ("agent_name", text(&config.agent_name)),
        ("agent_definition", definition(context)),
        ("permission_mode", text(&config.permission_mode)),
        ("tools", list(&config.tools)),
        ("allowed_tools", list(&config.allowed_tools)),
        ("disallowed_tools", list(&config.disallowed_tools)),
        ("mcp_servers", object(json!(config.mcp_servers))),
        ("effort", text(&config.effort)),
        ("max_tokens", config.max_tokens.map(|number| number.to_string())),
        ("temperature", config.temperature.map(|number| number.to_string())),
        ("settings", config.settings.as_ref().map(|settings| json!(settings).to_string())),
        ("add_dirs", object(json!(config.add_dirs))),
        ("extra_args", object(json!(config.extra_args))),
        ("trust_repo_settings", config.trust_repo_settings.then(|| "true".to_owned())),
        ("section", object(json!(config.section))),
        ("answer_schema", config.answer_schema.as_ref().map(Value::to_string)),
    ];
    let maps = config.mcp_servers.values().chain(&config.settings);
    let secrets = Secrets::of_safe_length(secrets(&context.host.env).chain(maps.flat_map(secrets_of_json)));
    let directories = directories(context);
    fields
        .into_iter()
        .filter_map(|(name, text)| {
            let text = text?;
            let text = directories.iter().fold(text, |text, (path, name)| text.replace(path.as_str(), name));
            Some((name.to_owned(), secrets.redact(&text).into_owned()))
        })
        .collect()
}

/// Returns the directories of the run and their placeholders, the longest first, because one may contain another.
fn directories(context: &ExecutionContext) -> Vec<(String, &'static str)> {
    let cases = context.search_roots.iter().map(|root| (root.as_path(), "{case}"));
    let own: [(&Path, &'static str); 2] =
        [(&context.workspace, "{workspace}"), (&context.private_dir, "{private}")];
    let mut found: Vec<(String, &'static str)> =
        own.into_iter().chain(cases).map(|(path, name)| (path.display().to_string(), name)).collect();
    found.retain(|(path, _)| path.len() > 1);
    found.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    found
}

/// Returns the definition of the agent that the case names, from the same places as Claude Code's adapter.
fn definition(context: &ExecutionContext) -> Option<String> {
    let name = context.config.agent_name.as_deref()?;
    let others = context.search_roots.iter().map(|root| root.as_path());
    let roots: Vec<&Path> = context.workspace_roots().into_iter().chain(others).collect();
    let (_, path) = yb_claude::find_agent(name, &roots).ok()?;
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentConfig, Host};

    #[test]
    fn texts_have_no_secrets_and_no_directories_of_the_run() {
        let mut config = AgentConfig::new("In /run/7/src fix /case/a with sk-12345678");
        config.append_system_prompt = Some("Be brief.".to_owned());
        config.extra_args = vec!["--x=/run/7/private/y".to_owned()];
        let host = Host::new([("A_KEY", "sk-12345678")]);
        let mut context =
            ExecutionContext::new("/run/7/src", "/run/7/artifacts", "/run/7/private", config, host);
        context.search_roots = vec!["/case".into()];
        let expected = [
            ("append_system_prompt", "Be brief."),
            ("extra_args", r#"["--x={private}/y"]"#),
            ("prompt", "In {workspace} fix {case}/a with [REDACTED:A_KEY]"),
        ];
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        assert_eq!(case_texts(&context), expected);
    }
}
