//! Lays a variant over the agent of a case: key by key, and whatever says the same thing elsewhere gives way.

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
            lay_over(own, &variant.agent, agents)
        }
        Some(Entry { node, .. }) if node.value == Value::Null => {
            node.value = Value::Map(variant.agent.clone());
        }
        // What is no mapping is reported as it is.
        Some(_) => {}
        None => {
            let span = at.over();
            let node = Node { value: Value::Map(variant.agent.clone()), span };
            entries.push(Entry { key: Key { name: "agent".to_owned(), span }, node });
        }
    }
    case
}

fn lay_over(own: &mut Vec<Entry>, over: &[Entry], agents: &AgentSpecs) {
    let config = over.iter().find(|entry| entry.key.name == "config").map(|entry| &entry.node);
    let says = |key: &str| over.iter().any(|entry| entry.key.name == key);
    let configures = |key: &str| config.is_some_and(|config| config.get(key).is_some());
    if says("model") || configures("model") {
        drop_keys(own, &["model", "models"]);
        drop_below(own, &["config"], &["model"]);
    }
    // Another agent has other versions.
    if says("type") {
        drop_keys(own, &["version"]);
    }
    if says("agent_name") || configures("agent_name") || configures("agent") {
        drop_keys(own, &["agent_name"]);
        drop_below(own, &["config"], &["agent_name", "agent"]);
    }
    if configures("prompt") || configures("prompt_file") {
        drop_below(own, &["config"], &["prompt", "prompt_file"]);
    }
    // A section with the agent's own name wins over what all share, so the case's may not win over the variant's.
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
