//! Variants: what each lays over a case.

use crate::{EnvVar, environment};
use yb_yaml::diagnostic::Findings;
use yb_yaml::{Entry, Node, Span};

/// One agent configuration.
pub(super) struct Variant {
    pub(super) name: String,
    /// Its place in the suite file; none for the one that nobody wrote.
    pub(super) at: Option<Span>,
    /// Its key in the suite file.
    pub(super) key: String,
    /// What is laid over the case's agent, as that writes it.
    pub(super) agent: Vec<Entry>,
    pub(super) env: Vec<EnvVar>,
    /// What it says about isolation, network and limits.
    pub(super) guard: Vec<Entry>,
}

impl Variant {
    /// The cases as they are.
    pub(super) fn default() -> Self {
        let name = super::DEFAULT_VARIANT.to_owned();
        Self { name, at: None, key: String::new(), agent: Vec::new(), env: Vec::new(), guard: Vec::new() }
    }
}

/// Reads `variants`, which has been checked.
pub(super) fn read(node: Option<&Node>, found: &mut Findings<'_>) -> Vec<Variant> {
    let Some(node) = node else { return vec![Variant::default()] };
    let items = node.items().iter().enumerate();
    items.filter_map(|(at, item)| one(item, format!("variants[{at}]"), found)).collect()
}

fn one(node: &Node, key: String, found: &mut Findings<'_>) -> Option<Variant> {
    if let (Some(_), Some(second)) = (node.entry("env"), node.entry("environment")) {
        found
            .error(second.key.span, format!("{key}.environment"), "two environments: `env` and `environment`")
            .hint("use only one of them");
    }
    let name = node.get("name")?;
    let agent = node.entries().iter().filter(|entry| {
        ["type", "version", "model", "agent_name", "config"].contains(&entry.key.name.as_str())
            && node.get(&entry.key.name).is_some()
    });
    let over = |entry: &Entry| {
        let mut key = entry.key.clone();
        key.span = key.span.over();
        Entry { key, node: entry.node.clone().over() }
    };
    Some(Variant {
        name: name.text()?.to_owned(),
        at: Some(name.span),
        key,
        agent: agent.map(over).collect(),
        env: environment(node.get("env").or_else(|| node.get("environment"))),
        guard: super::guard::of(node),
    })
}
