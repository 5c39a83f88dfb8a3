//! The suite file: validation and scalar settings.

use std::collections::BTreeMap;

use super::DEFAULT_RETRIES;
use super::fields::SUITE;
use super::gates;
use crate::check::{Checker, Mode, join};
use crate::gates::Gates;
use crate::{LoadOptions, variables};
use yb_yaml::diagnostic::{Diagnostics, quoted};
use yb_yaml::{Node, Value};

/// The settings of a suite other than cases and variants.
pub(super) struct SuiteSettings {
    pub(super) name: Option<String>,
    pub(super) repeats: u32,
    pub(super) concurrency: BTreeMap<String, u32>,
    pub(super) retries: u32,
    pub(super) max_cost_usd: Option<f64>,
    pub(super) gates: Gates,
    pub(super) vary: Vec<String>,
}

/// Validates the keys and expands the variables; `None` for an unsupported version.
pub(super) fn read(
    root: &mut Node,
    options: &LoadOptions,
    found: &mut Diagnostics<'_>,
) -> Option<SuiteSettings> {
    crate::mode(root, found)?;
    variables::substitute(root, &options.variables, found);
    let mut checker = Checker { mode: Mode::Strict, agents: &options.agents, found };
    checker.object(root, &SUITE, "");
    let mut concurrency = BTreeMap::new();
    for entry in root.get("concurrency").map(Node::entries).unwrap_or_default() {
        let name = &entry.key.name;
        if options.agents.contains(name) {
            concurrency.insert(name.clone(), count(&entry.node).unwrap_or(1));
        } else {
            let message = format!("unknown agent: {}", quoted(name));
            let error = checker.found.error(entry.key.span, join("concurrency", name), message);
            error.expected(format!("one of {}", crate::shape::list_of(options.agents.names())));
            error.did_you_mean(name, options.agents.names());
        }
    }
    Some(SuiteSettings {
        name: root.get("name").and_then(Node::text).map(str::to_owned),
        repeats: root.get("repeats").and_then(count).unwrap_or(1),
        concurrency,
        retries: root.get("retries").and_then(count).unwrap_or(DEFAULT_RETRIES),
        max_cost_usd: root.get("max_cost_usd").and_then(number),
        gates: root.get("gates").map(gates::read).unwrap_or_default(),
        vary: crate::hook::texts(root.get("vary")),
    })
}

pub(super) fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Int(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

fn count(node: &Node) -> Option<u32> {
    if let Value::Int(number) = node.value { u32::try_from(number).ok() } else { None }
}
