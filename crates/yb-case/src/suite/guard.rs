//! Lays what a suite or a variant says about isolation, network and limits over a case: the strictest holds.

use crate::{Isolation, NetworkMode};
use yb_yaml::{Entry, Node, Value};

/// The keys that are meant.
pub(super) const KEYS: [&str; 3] = ["isolation", "network", "limits"];

/// What a mapping says under these keys, marked as lying over a case.
pub(super) fn of(node: &Node) -> Vec<Entry> {
    let said = node.entries().iter().filter(|entry| KEYS.contains(&entry.key.name.as_str()));
    said.map(|entry| {
        let mut key = entry.key.clone();
        key.span = key.span.over();
        Entry { key, node: entry.node.clone().over() }
    })
    .collect()
}

/// Changes the case where this is stricter, or where the case says nothing.
pub(super) fn lay(case: &mut Node, over: &[Entry]) {
    let Value::Map(own) = &mut case.value else { return };
    for entry in over.iter().filter(|entry| entry.node.value != Value::Null) {
        let Some(known) = own.iter_mut().find(|known| known.key.name == entry.key.name) else {
            own.push(entry.clone());
            continue;
        };
        if known.node.value == Value::Null {
            *known = entry.clone();
        } else if entry.key.name == "limits" {
            lower(&mut known.node, &entry.node);
        } else if strictness(&entry.key.name, &entry.node) > strictness(&entry.key.name, &known.node) {
            *known = entry.clone();
        }
    }
}

/// Each limit by itself; zero is none at all.
fn lower(own: &mut Node, over: &Node) {
    let number = |node: &Node| match node.value {
        Value::Int(0) => Some(i64::MAX),
        Value::Int(number) => Some(number),
        _ => None,
    };
    let Value::Map(known) = &mut own.value else { return };
    for entry in over.entries() {
        match known.iter_mut().find(|known| known.key.name == entry.key.name) {
            Some(earlier) if number(&entry.node) < number(&earlier.node) => *earlier = entry.clone(),
            Some(_) => {}
            None => known.push(entry.clone()),
        }
    }
}

/// What can't be read is reported where it stands, so it is never taken.
fn strictness(key: &str, node: &Node) -> u8 {
    let word = node.text().or_else(|| node.get("mode").and_then(Node::text)).unwrap_or_default();
    if key == "network" {
        return NetworkMode::parse(word).map_or(0, |mode| mode as u8);
    }
    match Isolation::read(word) {
        Isolation::Bubblewrap => 3,
        Isolation::Landlock => 2,
        Isolation::Auto => 1,
        Isolation::None | Isolation::External => 0,
    }
}
