//! Reads the validated `gates` of a suite file.

use std::collections::BTreeSet;

use super::Combination;
use super::cases::CaseSource;
use super::read::number;
use super::variant::Variant;
use crate::Isolation;
use crate::check::join;
use crate::gates::{
    CaseComparison, EvaluatorLimits, GateLimits, Gates, IfMissing, MinLift, NoRegression, OnInconclusive,
    PerCase,
};
use yb_stats::{Estimand, RegressionCriteria};
use yb_yaml::Node;
use yb_yaml::diagnostic::{Diagnostics, quoted};

pub(super) fn read(node: &Node) -> Gates {
    let entries = |key: &str| node.get(key).map(Node::entries).unwrap_or_default();
    Gates {
        limits: limits(node),
        no_regression: node.get("no_regression").and_then(no_regression),
        no_case_dies: node.get("no_case_dies").and_then(case_comparison),
        per_case: node.get("per_case").and_then(|node| {
            Some(PerCase {
                max_drop: node.get("max_drop").and_then(number)?,
                comparison: case_comparison(node)?,
            })
        }),
        min_lift: node.get("min_lift").and_then(min_lift),
        tags: entries("tags").iter().map(|entry| (entry.key.name.clone(), limits(&entry.node))).collect(),
        variants: entries("variants")
            .iter()
            .map(|entry| (entry.key.name.clone(), limits(&entry.node)))
            .collect(),
        evaluators: entries("evaluators")
            .iter()
            .filter_map(|entry| {
                let min_pass_rate = entry.node.get("min_pass_rate").and_then(number)?;
                Some((entry.key.name.clone(), EvaluatorLimits { min_pass_rate }))
            })
            .collect(),
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
        if_missing: IfMissing::read(word("if_missing")).unwrap_or_default(),
    })
}

fn case_comparison(node: &Node) -> Option<CaseComparison> {
    let word = |key: &str| node.get(key).and_then(Node::text).unwrap_or_default();
    let default = CaseComparison::default();
    Some(CaseComparison {
        against: node.get("against")?.text()?.to_owned(),
        alpha: node.get("alpha").and_then(number).unwrap_or(default.alpha),
        on_inconclusive: OnInconclusive::read(word("on_inconclusive")).unwrap_or_default(),
        if_missing: IfMissing::read(word("if_missing")).unwrap_or_default(),
    })
}

fn min_lift(node: &Node) -> Option<MinLift> {
    let word = |key: &str| node.get(key).and_then(Node::text).unwrap_or_default();
    let value = |key: &str, default: f64| node.get(key).and_then(number).unwrap_or(default);
    Some(MinLift {
        of: node.get("of")?.text()?.to_owned(),
        over: node.get("over")?.text()?.to_owned(),
        points: value("points", 0.0),
        alpha: value("alpha", RegressionCriteria::default().alpha),
        on_inconclusive: OnInconclusive::read(word("on_inconclusive")).unwrap_or_default(),
    })
}

/// Reports a gate for a variant that does not exist.
pub(super) fn check_variants(root: &Node, variants: &[Variant], found: &mut Diagnostics<'_>) {
    let known: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    let limited = root.get("gates").and_then(|gates| gates.get("variants"));
    for entry in limited.map(Node::entries).unwrap_or_default() {
        let name = entry.key.name.as_str();
        if !known.contains(&name) {
            let message = format!("no such variant: {}", quoted(name));
            let error = found.error(entry.key.span, join("gates.variants", name), message);
            error.did_you_mean(name, known.clone());
        }
    }
    let Some(gate) = root.get("gates").and_then(|gates| gates.get("min_lift")) else { return };
    for key in ["of", "over"] {
        let Some(node) = gate.get(key) else { continue };
        let name = node.text().unwrap_or_default();
        if !known.contains(&name) {
            let message = format!("no such variant: {}", quoted(name));
            let error = found.error(node.span, format!("gates.min_lift.{key}"), message);
            error.did_you_mean(name, known.clone());
        }
    }
    if let (Some(of), Some(over)) = (gate.get("of"), gate.get("over"))
        && of.text() == over.text()
    {
        found.error(over.span, "gates.min_lift.over", "`of` and `over` are the same variant");
    }
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

/// Reports gates for evaluators that no case has.
pub(super) fn check_evaluators(root: &Node, made: &[Combination], found: &mut Diagnostics<'_>) {
    let Some(gates) = root.get("gates").and_then(|gates| gates.get("evaluators")) else { return };
    let cases = made.iter().flat_map(|combination| &combination.case.evaluators);
    let known: BTreeSet<&str> = cases.map(|evaluator| evaluator.name.as_str()).collect();
    for entry in gates.entries() {
        let name = entry.key.name.as_str();
        if !known.contains(name) {
            let message = format!("no case with this evaluator: {}", quoted(name));
            found
                .error(entry.key.span, join("gates.evaluators", name), message)
                .did_you_mean(name, known.clone());
        }
    }
}
