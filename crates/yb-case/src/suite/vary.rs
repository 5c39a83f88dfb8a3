//! `vary`: what the variants of a suite may differ in. Any other difference between the merged cases is an error, because a
//! difference of their results could be due to it.

use serde_json::{Value, json};

use super::Combination;
use super::variant::Variant;
use crate::{Case, EnvVar};
use yb_yaml::Node;
use yb_yaml::diagnostic::{Diagnostics, quoted};

/// The aspects of a variant.
pub(crate) const ASPECTS: &[&str] = &[
    "plugins",
    "skills",
    "mcp_servers",
    "agents",
    "instructions",
    "files",
    "settings",
    "prompt",
    "system_prompt",
    "model",
    "type",
    "version",
    "agent_name",
    "tools",
    "permission_mode",
    "effort",
    "limits",
    "sandbox",
    "env",
    "other",
];
/// The maximum length of a value in a message.
const MAX_VALUE: usize = 80;

/// Reports differences between the variants of a case that `vary` does not list.
pub(super) fn check(root: &Node, variants: &[Variant], made: &[Combination], found: &mut Diagnostics<'_>) {
    let Some(vary) = root.entry("vary") else { return };
    let listed: Vec<&str> = vary.node.items().iter().filter_map(Node::text).collect();
    if variants.len() < 2 {
        let error = found.error(vary.key.span, "vary", "`vary` requires at least two variants");
        error.hint("add `variants`, or remove it");
        return;
    }
    let mut reported: Vec<(&str, &str)> = Vec::new();
    for (at, one) in made.iter().enumerate() {
        let Some(first) = made[..at].iter().find(|other| other.case_name == one.case_name) else { continue };
        for (aspect, (a, b)) in ASPECTS.iter().zip(aspects(&first.case).into_iter().zip(aspects(&one.case))) {
            if a == b || listed.contains(aspect) || reported.contains(&(*aspect, &one.variant)) {
                continue;
            }
            reported.push((aspect, &one.variant));
            let variant = variants.iter().find(|variant| variant.name == one.variant);
            let span = variant.and_then(|variant| variant.at).unwrap_or(vary.key.span);
            let key = variant.map_or("vary", |variant| &variant.key);
            let message = format!(
                "variants {} and {} differ in `{aspect}`, which `vary` does not list",
                quoted(&first.variant),
                quoted(&one.variant)
            );
            let error = found.error(span, key, message);
            error.expected(format!("{} as in {}, found {}", shown(&a), quoted(&first.variant), shown(&b)));
            error.hint(format!("add `{aspect}` to `vary`, or make the variants equal in it"));
        }
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let end = text.floor_char_boundary(MAX_VALUE);
    if end < text.len() { format!("`{}…`", &text[..end]) } else { format!("`{text}`") }
}

/// Returns the values of all aspects, in their order.
fn aspects(case: &Case) -> Vec<Value> {
    let (agent, config) = (&case.agent, &case.agent.config);
    let add_ons =
        |all: &[crate::AddOn]| json!(all.iter().map(|one| (&one.name, &one.digest)).collect::<Vec<_>>());
    let definition = |agent: &yb_claude::AgentDefinition| {
        json!([agent.description, agent.prompt, agent.tools, agent.model])
    };
    let agents = config.agents.iter().map(|(name, agent)| (name.clone(), definition(agent)));
    let instructions = config.instructions.as_ref().map(|one| one.file.digest.clone());
    let target = config.instructions.as_ref().map(|one| one.file.target.as_str());
    let files: Vec<Value> = case
        .overlay
        .layers
        .iter()
        .flat_map(|layer| {
            let removed = layer.remove.iter().map(|path| json!(["remove", path]));
            let own = layer.files.iter().filter(move |file| Some(file.target.as_str()) != target);
            removed.chain(own.map(|file| json!([file.target, file.digest])))
        })
        .collect();
    let variable = |variable: &EnvVar| (variable.name.clone(), json!(variable.value));
    vec![
        add_ons(&config.plugins),
        add_ons(&config.skills),
        json!(config.mcp_servers),
        Value::Object(agents.collect()),
        json!(instructions),
        json!(files),
        json!(config.settings),
        json!(agent.prompt.text()),
        json!([config.system_prompt, config.append_system_prompt]),
        json!(agent.model),
        json!(agent.kind),
        json!(agent.version),
        json!(agent.agent_name),
        json!([config.tools, config.allowed_tools, config.disallowed_tools]),
        json!(config.permission_mode),
        json!(config.effort),
        json!([
            case.limits,
            case.timeouts.agent.map(|time| time.as_millis() as u64),
            case.max_budget_usd,
            config.max_turns,
            config.max_tokens
        ]),
        json!([
            case.isolation.as_str(),
            case.network.as_ref().map(|network| json!([network.mode, network.allow])),
            config.trust_repo_settings
        ]),
        Value::Object(case.env.iter().map(variable).collect()),
        json!([
            config.extra_args,
            config.add_dirs.iter().map(crate::AddedDir::key).collect::<Vec<_>>(),
            config.temperature,
            config.mcp_optional
        ]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut() {
        assert_eq!(shown(&json!("x")), "`\"x\"`");
        assert!(shown(&json!("ä".repeat(100))).ends_with("…`"));
    }
}
