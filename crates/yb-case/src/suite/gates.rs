//! Reads the validated `gates` of a suite file.

use super::cases::CaseSource;
use super::read::number;
use crate::Isolation;
use crate::check::join;
use crate::gates::{GateLimits, Gates, NoRegression, OnInconclusive};
use yb_stats::{Estimand, RegressionCriteria};
use yb_yaml::Node;
use yb_yaml::diagnostic::{Diagnostics, quoted};

pub(super) fn read(node: &Node) -> Gates {
    let tags = node.get("tags").map(Node::entries).unwrap_or_default();
    Gates {
        limits: limits(node),
        no_regression: node.get("no_regression").and_then(no_regression),
        tags: tags.iter().map(|entry| (entry.key.name.clone(), limits(&entry.node))).collect(),
    }
}

fn limits(node: &Node) -> GateLimits {
    let value = |key: &str| node.get(key).and_then(number);
    GateLimits {
        min_pass_rate: value("min_pass_rate"),
        max_cost_usd: value("max_cost_usd"),
        max_lost: value("max_lost"),
        isolation: node.get("isolation").and_then(Node::text).map(Isolation::read),
    }
}

fn no_regression(node: &Node) -> Option<NoRegression> {
    let word = |key: &str| node.get(key).and_then(Node::text).unwrap_or_default();
    let default = RegressionCriteria::default();
    let value = |key: &str, default: f64| node.get(key).and_then(number).unwrap_or(default);
    Some(NoRegression {
        against: node.get("against")?.text()?.to_owned(),
        tolerance: value("tolerance", default.tolerance),
        alpha: value("alpha", default.alpha),
        estimand: Estimand::parse(word("estimand")).unwrap_or_default(),
        on_inconclusive: OnInconclusive::read(word("on_inconclusive")).unwrap_or_default(),
    })
}

/// Reports gates for tags that no case has.
pub(super) fn check_tags(root: &Node, cases: &[CaseSource], complete: bool, found: &mut Diagnostics<'_>) {
    let Some(tags) = root.get("gates").and_then(|gates| gates.get("tags")) else { return };
    let known: Vec<&str> = cases.iter().flat_map(|case| case.tags.iter().map(String::as_str)).collect();
    for entry in tags.entries().iter().filter(|_| complete) {
        let name = entry.key.name.as_str();
        if !known.contains(&name) {
            let message = format!("no case with this tag: {}", quoted(name));
            found.error(entry.key.span, join("gates.tags", name), message).did_you_mean(name, known.clone());
        }
    }
}
