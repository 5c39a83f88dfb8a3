//! Applies isolation, network and limits of a suite or variant to a case; the strictest value wins.

use crate::{Isolation, NetworkMode};
use yb_yaml::{Entry, Node, Value};

/// The keys to apply.
pub(super) const KEYS: [&str; 3] = ["isolation", "network", "limits"];

/// Returns the entries of these keys, as overlay.
pub(super) fn of(node: &Node) -> Vec<Entry> {
    let entries = node.entries().iter().filter(|entry| KEYS.contains(&entry.key.name.as_str()));
    entries
        .map(|entry| {
            let mut key = entry.key.clone();
            key.span = key.span.into_overlay();
            Entry { key, node: entry.node.clone().into_overlay() }
        })
        .collect()
}

/// Sets the entries in a case that does not have them or is less strict.
pub(super) fn apply(case: &mut Node, over: &[Entry]) {
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

/// Takes the lower value of each limit; zero means no limit.
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

/// Returns the strictness of a value; 0 for an invalid one, which is reported by the validation.
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
