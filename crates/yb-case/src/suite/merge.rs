//! Merges a variant over the agent of a case, key by key. Equivalent keys of the case are removed.

use super::variant::Variant;
use crate::agent_spec::AgentSpecs;
use yb_yaml::{Entry, Key, Node, Value};

/// The case with the variant merged over it.
pub(super) fn merged(case: &Node, variant: &Variant, agents: &AgentSpecs) -> Node {
    let mut case = case.clone();
    let (Value::Map(entries), Some(at)) = (&mut case.value, variant.at) else { return case };
    if variant.agent.is_empty() {
        return case;
    }
    match entries.iter_mut().find(|entry| entry.key.name == "agent") {
        Some(Entry { node: Node { value: Value::Map(own), .. }, .. }) => {
            merge_agent(own, &variant.agent, agents);
        }
        Some(Entry { node, .. }) if node.value == Value::Null => {
            node.value = Value::Map(variant.agent.clone());
        }
        // An invalid `agent` is reported by the validation.
        Some(_) => {}
        None => {
            let span = at.into_overlay();
            let node = Node { value: Value::Map(variant.agent.clone()), span };
            entries.push(Entry { key: Key { name: "agent".to_owned(), span }, node });
        }
    }
    case
}

fn merge_agent(own: &mut Vec<Entry>, over: &[Entry], agents: &AgentSpecs) {
    let config = over.iter().find(|entry| entry.key.name == "config").map(|entry| &entry.node);
    let sets = |key: &str| over.iter().any(|entry| entry.key.name == key);
    let configures = |key: &str| config.is_some_and(|config| config.get(key).is_some());
    if sets("model") || configures("model") {
        drop_keys(own, &["model", "models"]);
        drop_below(own, &["config"], &["model"]);
    }
    // A version belongs to one agent.
    if sets("type") {
        drop_keys(own, &["version"]);
    }
    if sets("agent_name") || configures("agent_name") || configures("agent") {
        drop_keys(own, &["agent_name"]);
        drop_below(own, &["config"], &["agent_name", "agent"]);
    }
    if configures("prompt") || configures("prompt_file") {
        drop_below(own, &["config"], &["prompt", "prompt_file"]);
    }
    // The section of an agent takes precedence over shared keys. That of the case must not override the variant.
    let shared: Vec<&str> = config
        .map(Node::entries)
        .unwrap_or_default()
        .iter()
        .map(|entry| entry.key.name.as_str())
        .filter(|key| !agents.contains(key) && configures(key))
        .collect();
    for agent in agents.names() {
        drop_below(own, &["config", agent], &shared);
    }
    put_all(own, over, 2, agents);
}

/// Replaces and adds entries; mappings are merged for so many levels: `config`, and the sections of agents in it.
fn put_all(own: &mut Vec<Entry>, over: &[Entry], levels: usize, agents: &AgentSpecs) {
    for entry in over.iter().filter(|entry| entry.node.value != Value::Null) {
        let name = entry.key.name.as_str();
        let deeper = levels > 0 && (name == "config" || agents.contains(name));
        match own.iter_mut().find(|earlier| earlier.key.name == name) {
            Some(Entry { node: Node { value: Value::Map(below), .. }, .. })
                if deeper && matches!(entry.node.value, Value::Map(_)) =>
            {
                put_all(below, entry.node.entries(), levels - 1, agents);
            }
            Some(earlier) => *earlier = entry.clone(),
            None => own.push(entry.clone()),
        }
    }
}

fn drop_keys(entries: &mut Vec<Entry>, keys: &[&str]) {
    entries.retain(|entry| !keys.contains(&entry.key.name.as_str()));
}

fn drop_below(entries: &mut Vec<Entry>, path: &[&str], keys: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return drop_keys(entries, keys) };
    for entry in entries.iter_mut().filter(|entry| entry.key.name == *first) {
        if let Value::Map(below) = &mut entry.node.value {
            drop_below(below, rest, keys);
        }
    }
}
