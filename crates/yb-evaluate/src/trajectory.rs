//! `trajectory`: asserts which tools the agent called. The data is self-reported, which the verdict records; an agent
//! that reports nothing fails.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::recorded_calls::for_each_call;
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
        let (wanted, log, frames) = (self.clone(), Arc::clone(&subject.log), subject.frames.clone());
        if log.omitted.is_none() {
            return grade(&wanted, &log, None);
        }
        let graded = tokio::task::spawn_blocking(move || grade(&wanted, &log, frames.as_deref()));
        graded.await.map_err(|error| GradeError::other(error.to_string()))?
    }
}

/// The most names of tools in the metrics.
const MAX_TOOLS: usize = 1000;
/// The most different calls among which repeated ones are found.
const MAX_DIFFERENT: usize = 1 << 18;

/// What the assertions are about, counted call by call.
#[derive(Debug, Default)]
struct Tally {
    total: u64,
    failed: u64,
    repeated: u64,
    by_tool: BTreeMap<String, u64>,
    /// Hashes of different calls.
    different: HashSet<u64>,
    /// The number of calls that match each rule.
    matches: BTreeMap<String, u64>,
    /// How many rules of `order` were matched.
    in_order: usize,
}

impl Tally {
    fn new(wanted: &TrajectoryCheck) -> Self {
        let counted = wanted.counts.iter().map(|(rule, _)| rule);
        let rules = wanted.tools_used.iter().chain(&wanted.tools_forbidden).chain(counted);
        Self { matches: rules.map(|rule| (rule.clone(), 0)).collect(), ..Self::default() }
    }

    fn add(&mut self, wanted: &TrajectoryCheck, call: &ToolCallRecord) {
        self.total += 1;
        self.failed += u64::from(call.is_error == Some(true));
        let mut hasher = DefaultHasher::new();
        (&call.name, &call.arguments).hash(&mut hasher);
        let hash = hasher.finish();
        if self.different.contains(&hash) {
            self.repeated += 1;
        } else if self.different.len() < MAX_DIFFERENT {
            self.different.insert(hash);
        }
        if let Some(count) = self.by_tool.get_mut(&call.name) {
            *count += 1;
        } else if self.by_tool.len() < MAX_TOOLS {
            self.by_tool.insert(call.name.clone(), 1);
        }
        for (rule, count) in &mut self.matches {
            *count += u64::from(matches_rule(rule, call));
        }
        if wanted.order.get(self.in_order).is_some_and(|rule| matches_rule(rule, call)) {
            self.in_order += 1;
        }
    }

    fn count(&self, rule: &str) -> u64 {
        self.matches.get(rule).copied().unwrap_or_default()
    }
}

fn grade(wanted: &TrajectoryCheck, log: &YouBenchaLog, frames: Option<&Path>) -> Result<Verdict, GradeError> {
    let mut tally = Tally::new(wanted);
    for_each_call(log, frames, &mut |call| tally.add(wanted, call))?;
    let reported = log.output.frames.is_some() || tally.total > 0;
    let failed = log.omitted.as_ref().map_or(tally.failed, |omitted| omitted.failed_tool_calls);
    let (total, repeated) = (tally.total, tally.repeated);
    let denials = log.execution.permission_denials;
    let turns = log.execution.num_turns;
    let mut checks = Vec::new();
    if !reported {
        checks.push(
            Assertion::new("reported", false).with_message(|| "the agent reported no tool calls".to_owned()),
        );
    }
    if let Some(skipped @ 1..) = log.omitted.as_ref().map(|omitted| omitted.skipped_lines) {
        checks.push(Assertion::new("readable", false).with_message(|| {
            format!("{skipped} lines of the agent's output are too long to be read, and may have tool calls")
        }));
    }
    checks.extend(check_tools(wanted, &tally));
    let limits = [
        ("max_tool_calls", wanted.max_tool_calls, "tool calls", Some(total)),
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
    let mut verdict = Verdict::from_checks(checks)
        .metric("tool_calls", total)
        .metric("failed_calls", failed)
        .metric("repeated_calls", repeated)
        .metric("denials", denials)
        .metric("by_tool", json!(tally.by_tool));
    if let Some(turns) = turns {
        verdict = verdict.metric("turns", turns);
    }
    verdict.trust = Some(Trust::SelfReported);
    Ok(verdict.with_summary(&format!("{total} tool calls, {failed} failed (self-reported)")))
}

fn check_tools(wanted: &TrajectoryCheck, tally: &Tally) -> Vec<Assertion> {
    let count = |rule: &str| tally.count(rule);
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
        let missing = wanted.order.get(tally.in_order);
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
    use yb_model::log::Omitted;

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
        let verdict = grade(&wanted, &log_with_calls(), None).unwrap();
        assert_eq!(verdict.status, EvaluatorStatus::Passed, "{}", verdict.message);
        assert_eq!(verdict.trust, Some(Trust::SelfReported));
        assert_eq!(verdict.metrics["by_tool"]["Bash"], 2);
        let wanted = TrajectoryCheck {
            tools_forbidden: texts(&["Bash(git status)"]),
            order: texts(&["Edit", "Read"]),
            max_failed_calls: Some(0),
            ..TrajectoryCheck::default()
        };
        let verdict = grade(&wanted, &log_with_calls(), None).unwrap();
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
        assert_eq!(grade(&wanted, &log(), None).unwrap().status, EvaluatorStatus::Failed);
        assert_eq!(grade(&wanted, &log_with_calls(), None).unwrap().status, EvaluatorStatus::Passed);
    }

    #[test]
    fn calls_that_the_log_leaves_out_are_graded_from_the_frames() {
        let dir = tempfile::tempdir().unwrap();
        let frames = dir.path().join("frames.jsonl");
        let name = |n: usize| if n == 2500 { "Forbidden" } else { "Bash" };
        let lines = (0..5000).map(|n| {
            let call = json!({"type": "tool_use", "id": format!("t{n}"), "name": name(n), "input": {"command": format!("step {n}")}});
            format!("{}\n", json!({"type": "assistant", "message": {"id": format!("m{n}"), "content": [call]}}))
        });
        std::fs::write(&frames, lines.collect::<String>()).unwrap();
        let mut log = log();
        log.agent.name = "claude-code".to_owned();
        log.output.frames = Some("frames.jsonl".to_owned());
        let kept = (0..10).chain(4990..5000);
        log.tool_calls =
            kept.map(|n| call(name(n), &json!({"command": format!("step {n}")}).to_string(), None)).collect();
        let wanted = TrajectoryCheck {
            tools_forbidden: vec!["Forbidden".to_owned()],
            order: vec!["Bash(step 3)".to_owned(), "Forbidden".to_owned(), "Bash(step 4999)".to_owned()],
            counts: vec![("Bash".to_owned(), CallCount { min: Some(4999), max: Some(4999) })],
            max_repeated_calls: Some(0),
            ..TrajectoryCheck::default()
        };
        let failed = |log: &YouBenchaLog| {
            let verdict = grade(&wanted, log, Some(&frames)).unwrap();
            verdict
                .checks
                .iter()
                .filter(|check| !check.passed)
                .map(|check| check.name.clone())
                .collect::<Vec<_>>()
        };
        log.omitted = Some(Omitted { tool_calls: 4980, tool_calls_before: 10, ..Omitted::default() });
        assert_eq!(failed(&log), ["tools_forbidden: Forbidden"]);
        assert!(grade(&wanted, &log, None).is_err(), "without frames nothing is known");
        log.omitted = Some(Omitted { tool_calls: 4981, tool_calls_before: 10, ..Omitted::default() });
        assert!(grade(&wanted, &log, Some(&dir.path().join("none"))).is_err());
        // What can't be read may be anything.
        log.omitted =
            Some(Omitted { tool_calls: 4980, tool_calls_before: 10, skipped_lines: 1, ..Omitted::default() });
        assert_eq!(failed(&log), ["readable", "tools_forbidden: Forbidden"]);
    }
}
