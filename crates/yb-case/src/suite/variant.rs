//! Variants: agent configurations that override those of cases.

use crate::{EnvVar, environment};
use yb_yaml::diagnostic::Diagnostics;
use yb_yaml::{Entry, Node, Span, Value};

/// One agent configuration.
pub(super) struct Variant {
    pub(super) name: String,
    /// The position in the suite file; none for the default variant.
    pub(super) at: Option<Span>,
    /// The key in the suite file.
    pub(super) key: String,
    /// The entries to merge over `agent` of the case.
    pub(super) agent: Vec<Entry>,
    pub(super) env: Vec<EnvVar>,
    /// The nodes with `files` and `remove`.
    pub(super) overlay: Vec<Node>,
    /// The entries for isolation, network and limits.
    pub(super) guard: Vec<Entry>,
}

impl Variant {
    /// Creates the default variant, which changes nothing.
    pub(super) fn default() -> Self {
        let name = super::DEFAULT_VARIANT.to_owned();
        Self {
            name,
            at: None,
            key: String::new(),
            agent: Vec::new(),
            env: Vec::new(),
            overlay: Vec::new(),
            guard: Vec::new(),
        }
    }
}

impl Variant {
    /// Adds the entries of a fragment. The keys of different factors differ, apart from `config`.
    pub(super) fn append(&mut self, fragment: Self) {
        for entry in fragment.agent {
            let Some(known) = self.agent.iter_mut().find(|known| known.key.name == entry.key.name) else {
                self.agent.push(entry);
                continue;
            };
            if let Value::Map(own) = &mut known.node.value {
                own.extend(entry.node.entries().iter().cloned());
            }
        }
        self.at = self.at.or(fragment.at);
        self.env.extend(fragment.env);
        self.overlay.extend(fragment.overlay);
        self.guard.extend(fragment.guard);
    }
}

/// Reads the validated `variants`.
pub(super) fn read(node: Option<&Node>, found: &mut Diagnostics<'_>) -> Vec<Variant> {
    let Some(node) = node else { return vec![Variant::default()] };
    let items = node.items().iter().enumerate();
    items.filter_map(|(at, item)| one(item, format!("variants[{at}]"), found)).collect()
}

fn one(node: &Node, key: String, found: &mut Diagnostics<'_>) -> Option<Variant> {
    let name = node.get("name")?;
    let variant = fragment(node, name.span, &key, found);
    Some(Variant { name: name.text()?.to_owned(), key, ..variant })
}

/// Reads a variant without its name.
pub(super) fn fragment(node: &Node, at: Span, key: &str, found: &mut Diagnostics<'_>) -> Variant {
    if let (Some(_), Some(second)) = (node.entry("env"), node.entry("environment")) {
        found
            .error(second.key.span, format!("{key}.environment"), "both `env` and `environment` given")
            .hint("use only one of them");
    }
    let agent = node.entries().iter().filter(|entry| {
        ["type", "version", "model", "agent_name", "config"].contains(&entry.key.name.as_str())
            && node.get(&entry.key.name).is_some()
    });
    let over = |entry: &Entry| {
        let mut key = entry.key.clone();
        key.span = key.span.into_overlay();
        Entry { key, node: entry.node.clone().into_overlay() }
    };
    Variant {
        name: String::new(),
        at: Some(at),
        key: key.to_owned(),
        agent: agent.map(over).collect(),
        env: environment(node.get("env").or_else(|| node.get("environment"))),
        overlay: vec![node.clone().into_overlay()],
        guard: super::guard::of(node),
    }
}
