//! `trajectory`: asserts which tools the agent called. The data is self-reported, which the verdict records; an agent
//! that reports nothing fails.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Assertion, Evaluator, EvaluatorContext, GradeError, Subject, Trust, Verdict, into_config};
use yb_case::config_reader::count;
use yb_case::format::Format;
use yb_case::shape::{COUNT, Field, Kind, Object, TEXT};
use yb_case::{ConfigReader, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_model::log::{ToolCallRecord, YouBenchaLog};

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "trajectory",
    summary: "which tools the agent called, how often, in which order, and which calls failed",
    input: EvaluatorInput::Log,
    config: &CONFIG,
    read,
};

static CONFIG: Object = Object {
    name: "trajectory",
    fields: &[Field::new("assertions", Kind::Object(&ASSERTIONS), "Assertions.")],
};

const TOOLS: Kind = Kind::List { of: &TEXT, min: 0 };

static ASSERTIONS: Object = Object {
    name: "trajectoryAssertions",
    fields: &[
        Field::new("tools_used", TOOLS, "Tools that must be called, such as `Edit` or `Bash(cargo test*)`."),
        Field::new("tools_forbidden", TOOLS, "Tools that must not be called."),
        Field::new("order", TOOLS, "Tools that must be called in this order, with any others between."),
        Field::new(
            "counts",
            Kind::Map { names: Format::Any, of: &Kind::Object(&CALL_COUNT) },
            "Number of calls by tool.",
        ),
        Field::new("max_tool_calls", COUNT, "Maximum number of tool calls."),
        Field::new("max_failed_calls", COUNT, "Maximum number of failed tool calls."),
        Field::new("max_repeated_calls", COUNT, "Maximum number of repeated tool calls."),
        Field::new("max_denials", COUNT, "Maximum number of denied tool calls."),
        Field::new("max_turns", COUNT, "Maximum number of turns."),
    ],
};

static CALL_COUNT: Object = Object {
    name: "callCount",
    fields: &[
        Field::new("min", COUNT, "Minimum number of calls."),
        Field::new("max", COUNT, "Maximum number of calls."),
    ],
};

/// Assertions about the tool calls of an agent.
#[derive(Debug, Clone, PartialEq, Default)]
struct TrajectoryCheck {
    tools_used: Vec<String>,
    tools_forbidden: Vec<String>,
    /// Tools in the order in which they must be called; other calls may come between.
    order: Vec<String>,
    counts: Vec<(String, CallCount)>,
    max_tool_calls: Option<u64>,
    max_failed_calls: Option<u64>,
    /// The limit for calls with the same arguments as an earlier one.
    max_repeated_calls: Option<u64>,
    max_denials: Option<u64>,
    max_turns: Option<u64>,
}

/// How often a tool may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CallCount {
    min: Option<u64>,
    max: Option<u64>,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let counts = reader.entries("assertions.counts").iter().map(|entry| {
        let limit = |key: &str| entry.node.get(key).and_then(count);
        (entry.key.name.clone(), CallCount { min: limit("min"), max: limit("max") })
    });
    Some(into_config(TrajectoryCheck {
        tools_used: reader.texts("assertions.tools_used"),
        tools_forbidden: reader.texts("assertions.tools_forbidden"),
        order: reader.texts("assertions.order"),
        counts: counts.collect(),
        max_tool_calls: reader.count("assertions.max_tool_calls"),
        max_failed_calls: reader.count("assertions.max_failed_calls"),
        max_repeated_calls: reader.count("assertions.max_repeated_calls"),
        max_denials: reader.count("assertions.max_denials"),
        max_turns: reader.count("assertions.max_turns"),
    }))
}

#[async_trait]
impl Evaluator for TrajectoryCheck {
    fn is_vacuous(&self) -> bool {
        *self == Self::default()
    }

    async fn evaluate(&self, subject: &Subject, _context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        Ok(grade(self, &subject.log))
    }
}

fn grade(wanted: &TrajectoryCheck, log: &YouBenchaLog) -> Verdict {
    let calls = &log.tool_calls;
    let reported = log.output.frames.is_some() || !calls.is_empty();
    let failed = calls.iter().filter(|call| call.is_error == Some(true)).count() as u64;
    let repeated = repeated(calls);
    let denials = log.execution.permission_denials;
    let turns = log.execution.num_turns;
    let mut checks = Vec::new();
    if !reported {
        checks.push(
            Assertion::new("reported", false).with_message(|| "the agent reported no tool calls".to_owned()),
        );
    }
    checks.extend(check_tools(wanted, calls));
    let limits = [
        ("max_tool_calls", wanted.max_tool_calls, "tool calls", Some(calls.len() as u64)),
        ("max_failed_calls", wanted.max_failed_calls, "failed calls", Some(failed)),
        ("max_repeated_calls", wanted.max_repeated_calls, "repeated calls", Some(repeated)),
        ("max_denials", wanted.max_denials, "denials", Some(denials)),
        ("max_turns", wanted.max_turns, "turns", turns),
    ];
    for (name, limit, what, value) in limits {
        let Some(limit) = limit else { continue };
        let check = Assertion::new(name, value.is_some_and(|value| value <= limit)).with_values(value, limit);
        checks.push(check.with_message(|| match value {
            Some(value) => format!("{what} ({value}) exceed {name} ({limit})"),
            None => format!("{what} not reported"),
        }));
    }
    let mut by_tool: BTreeMap<&str, u64> = BTreeMap::new();
    for call in calls {
        *by_tool.entry(call.name.as_str()).or_default() += 1;
    }
    let mut verdict = Verdict::from_checks(checks)
        .metric("tool_calls", calls.len())
        .metric("failed_calls", failed)
        .metric("repeated_calls", repeated)
        .metric("denials", denials)
        .metric("by_tool", json!(by_tool));
    if let Some(turns) = turns {
        verdict = verdict.metric("turns", turns);
    }
    verdict.trust = Some(Trust::SelfReported);
    verdict.with_summary(&format!("{} tool calls, {failed} failed (self-reported)", calls.len()))
}

fn check_tools(wanted: &TrajectoryCheck, calls: &[ToolCallRecord]) -> Vec<Assertion> {
    let count = |rule: &str| calls.iter().filter(|call| matches_rule(rule, call)).count() as u64;
    let mut checks = Vec::new();
    for rule in &wanted.tools_used {
        let check = Assertion::new(format!("tools_used: {rule}"), count(rule) > 0);
        checks.push(check.with_message(|| format!("not called: `{rule}`")));
    }
    for rule in &wanted.tools_forbidden {
        let times = count(rule);
        let check = Assertion::new(format!("tools_forbidden: {rule}"), times == 0).with_values(times, 0);
        checks.push(check.with_message(|| format!("forbidden tool called {}: `{rule}`", times_text(times))));
    }
    if !wanted.order.is_empty() {
        let mut left = calls.iter();
        let missing = wanted.order.iter().find(|rule| !left.any(|call| matches_rule(rule, call)));
        let check = Assertion::new("order", missing.is_none()).with_values(Value::Null, wanted.order.clone());
        checks.push(check.with_message(|| {
            let rule = missing.map(String::as_str).unwrap_or_default();
            format!("wrong order: expected {}, found no later call of `{rule}`", wanted.order.join(", "))
        }));
    }
    for (rule, range) in &wanted.counts {
        let times = count(rule);
        let passed = range.min.is_none_or(|min| times >= min) && range.max.is_none_or(|max| times <= max);
        let limits = json!({ "min": range.min, "max": range.max });
        let check = Assertion::new(format!("counts: {rule}"), passed).with_values(times, limits);
        checks.push(check.with_message(|| format!("called {}: `{rule}`", times_text(times))));
    }
    checks
}

fn times_text(times: u64) -> String {
    if times == 1 { "once".to_owned() } else { format!("{times} times") }
}

/// Counts the calls with the same tool and arguments as an earlier one.
fn repeated(calls: &[ToolCallRecord]) -> u64 {
    let mut seen = HashSet::new();
    calls.iter().filter(|call| !seen.insert((call.name.as_str(), call.arguments.as_str()))).count() as u64
}

/// Returns whether a call matches a rule: `Bash`, `mcp__*`, or `Bash(git push*)`, whose second part must match any string in
/// the arguments.
fn matches_rule(rule: &str, call: &ToolCallRecord) -> bool {
    let (name, inner) = match rule.split_once('(') {
        Some((name, rest)) if rest.ends_with(')') => (name, rest.get(..rest.len() - 1)),
        _ => (rule, None),
    };
    matches_wildcard(name, &call.name)
        && inner.is_none_or(|inner| match serde_json::from_str::<Value>(&call.arguments) {
            Ok(arguments) => any_text(&arguments, &|text| matches_wildcard(inner, text)),
            Err(_) => matches_wildcard(inner, &call.arguments),
        })
}

fn any_text(value: &Value, predicate: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => predicate(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, predicate)),
        Value::Object(map) => map.values().any(|item| any_text(item, predicate)),
        _ => false,
    }
}

/// Returns whether a text matches a pattern, in which `*` matches anything.
fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let Some((first, more)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let (middle, last) = more.rsplit_once('*').unwrap_or(("", more));
    // The earliest match of each part leaves the most text for the next ones.
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvaluatorStatus;
    use crate::fixtures::{call, log};

    fn log_with_calls() -> YouBenchaLog {
        let mut log = log();
        log.output.frames = Some("frames.jsonl".to_owned());
        log.tool_calls = vec![
            call("Read", r#"{"file_path":"a"}"#, Some(false)),
            call("Bash", r#"{"command":"git status"}"#, Some(false)),
            call("Bash", r#"{"command":"git status"}"#, Some(true)),
            call("mcp__db__query", "{}", None),
            call("Edit", r#"{"file_path":"a"}"#, Some(false)),
        ];
        log.execution.num_turns = Some(4);
        log
    }

    #[test]
    fn wildcard_patterns_match() {
        for (pattern, text, expected) in [
            ("Bash", "Bash", true),
            ("Bash", "BashOutput", false),
            ("mcp__*", "mcp__db__query", true),
            ("*", "", true),
            ("git *push*", "git -C x push --force", true),
            ("git *push", "git push x", false),
            ("a*a", "a", false),
            ("*a*b*", "xaxbx", true),
            ("*b*a*", "xaxbx", false),
        ] {
            assert_eq!(matches_wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn tools_order_and_counts_are_checked() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let wanted = TrajectoryCheck {
            tools_used: texts(&["Edit", "Bash(git *)"]),
            tools_forbidden: texts(&["Bash(git push*)", "WebFetch"]),
            order: texts(&["Read", "mcp__*", "Edit"]),
            counts: vec![("Bash".to_owned(), CallCount { min: Some(1), max: Some(2) })],
            max_failed_calls: Some(1),
            max_repeated_calls: Some(1),
            max_turns: Some(4),
            ..TrajectoryCheck::default()
        };
        let verdict = grade(&wanted, &log_with_calls());
        assert_eq!(verdict.status, EvaluatorStatus::Passed, "{}", verdict.message);
        assert_eq!(verdict.trust, Some(Trust::SelfReported));
        assert_eq!(verdict.metrics["by_tool"]["Bash"], 2);
        let wanted = TrajectoryCheck {
            tools_forbidden: texts(&["Bash(git status)"]),
            order: texts(&["Edit", "Read"]),
            max_failed_calls: Some(0),
            ..TrajectoryCheck::default()
        };
        let verdict = grade(&wanted, &log_with_calls());
        assert_eq!(
            verdict.message,
            "✗ 5 tool calls, 1 failed (self-reported) | forbidden tool called 2 times: `Bash(git status)`; \
             wrong order: expected Edit, Read, found no later call of `Read`; failed calls (1) exceed max_failed_calls (0)"
        );
    }

    #[test]
    fn agent_that_reports_nothing_fails() {
        let wanted =
            TrajectoryCheck { tools_forbidden: vec!["WebFetch".to_owned()], ..TrajectoryCheck::default() };
        assert_eq!(grade(&wanted, &log()).status, EvaluatorStatus::Failed);
        assert_eq!(grade(&wanted, &log_with_calls()).status, EvaluatorStatus::Passed);
    }
}
