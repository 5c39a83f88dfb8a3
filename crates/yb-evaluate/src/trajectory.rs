//! `trajectory`: what an agent did on its way, by its own frames. It is marked as the agent's word; and an agent that told
//! nothing of its way passes nothing.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Assertion, Desk, Evaluator, GradeError, Need, Subject, Trust, Verdict};
use yb_case::Trajectory;
use yb_model::log::{ToolCallRecord, YouBenchaLog};

#[async_trait]
impl Evaluator for Trajectory {
    fn need(&self) -> Need {
        Need::Log
    }

    async fn evaluate(&self, subject: &Subject, _desk: &Desk) -> Result<Verdict, GradeError> {
        Ok(judge(self, &subject.log))
    }
}

fn judge(wanted: &Trajectory, log: &YouBenchaLog) -> Verdict {
    let calls = &log.tool_calls;
    let told = log.output.frames.is_some() || !calls.is_empty();
    let failed = calls.iter().filter(|call| call.is_error == Some(true)).count() as u64;
    let repeated = repeated(calls);
    let denials = log.execution.permission_denials;
    let turns = log.execution.num_turns;
    let mut checks = Vec::new();
    if !told {
        checks.push(
            Assertion::of("reported", false).because(|| "the agent told nothing of its way".to_owned()),
        );
    }
    checks.extend(tools(wanted, calls));
    let limits = [
        ("max_tool_calls", wanted.max_tool_calls, "tool calls", Some(calls.len() as u64)),
        ("max_failed_calls", wanted.max_failed_calls, "failed calls", Some(failed)),
        ("max_repeated_calls", wanted.max_repeated_calls, "repeated calls", Some(repeated)),
        ("max_denials", wanted.max_denials, "denials", Some(denials)),
        ("max_turns", wanted.max_turns, "turns", turns),
    ];
    for (name, limit, what, value) in limits {
        let Some(limit) = limit else { continue };
        let check = Assertion::of(name, value.is_some_and(|value| value <= limit)).found(value, limit);
        checks.push(check.because(|| match value {
            Some(value) => format!("{what} ({value}) exceed {name} ({limit})"),
            None => format!("{what} not reported"),
        }));
    }
    let mut by_tool: BTreeMap<&str, u64> = BTreeMap::new();
    for call in calls {
        *by_tool.entry(call.name.as_str()).or_default() += 1;
    }
    let mut verdict = Verdict::of(checks)
        .metric("tool_calls", calls.len())
        .metric("failed_calls", failed)
        .metric("repeated_calls", repeated)
        .metric("denials", denials)
        .metric("by_tool", json!(by_tool));
    if let Some(turns) = turns {
        verdict = verdict.metric("turns", turns);
    }
    verdict.trust = Some(Trust::SelfReported);
    verdict.saying(&format!("{} tool calls, {failed} failed (self-reported)", calls.len()))
}

fn tools(wanted: &Trajectory, calls: &[ToolCallRecord]) -> Vec<Assertion> {
    let count = |rule: &str| calls.iter().filter(|call| fits(rule, call)).count() as u64;
    let mut checks = Vec::new();
    for rule in &wanted.tools_used {
        let check = Assertion::of(format!("tools_used: {rule}"), count(rule) > 0);
        checks.push(check.because(|| format!("not called: `{rule}`")));
    }
    for rule in &wanted.tools_forbidden {
        let times = count(rule);
        let check = Assertion::of(format!("tools_forbidden: {rule}"), times == 0).found(times, 0);
        checks.push(check.because(|| format!("forbidden, and called {times} times: `{rule}`")));
    }
    if !wanted.order.is_empty() {
        let mut left = calls.iter();
        let missing = wanted.order.iter().find(|rule| !left.any(|call| fits(rule, call)));
        let check = Assertion::of("order", missing.is_none()).found(Value::Null, wanted.order.clone());
        checks.push(check.because(|| {
            let rule = missing.map(String::as_str).unwrap_or_default();
            format!("not in this order: {}; `{rule}` does not follow", wanted.order.join(", "))
        }));
    }
    for (rule, range) in &wanted.counts {
        let times = count(rule);
        let holds = range.min.is_none_or(|min| times >= min) && range.max.is_none_or(|max| times <= max);
        let limits = json!({ "min": range.min, "max": range.max });
        let check = Assertion::of(format!("counts: {rule}"), holds).found(times, limits);
        checks.push(check.because(|| format!("called {times} times: `{rule}`")));
    }
    checks
}

/// Calls that equal an earlier one.
fn repeated(calls: &[ToolCallRecord]) -> u64 {
    let mut seen = HashSet::new();
    calls.iter().filter(|call| !seen.insert((call.name.as_str(), call.arguments.as_str()))).count() as u64
}

/// `Bash`, `mcp__*`, or `Bash(git push*)`, whose second part is held against every text of the arguments.
fn fits(rule: &str, call: &ToolCallRecord) -> bool {
    let (name, inner) = match rule.split_once('(') {
        Some((name, rest)) if rest.ends_with(')') => (name, rest.get(..rest.len() - 1)),
        _ => (rule, None),
    };
    like(name, &call.name)
        && inner.is_none_or(|inner| match serde_json::from_str::<Value>(&call.arguments) {
            Ok(arguments) => any_text(&arguments, &|text| like(inner, text)),
            Err(_) => like(inner, &call.arguments),
        })
}

fn any_text(value: &Value, holds: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => holds(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, holds)),
        Value::Object(map) => map.values().any(|item| any_text(item, holds)),
        _ => false,
    }
}

/// Whether a text is like a pattern, in which `*` stands for anything.
fn like(pattern: &str, text: &str) -> bool {
    let Some((first, more)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let (middle, last) = more.rsplit_once('*').unwrap_or(("", more));
    // The earliest place of each part leaves the most for those that follow.
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
    use crate::samples::{call, log};
    use yb_case::CallCount;

    fn way() -> YouBenchaLog {
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
    fn patterns_are_read_as_people_write_them() {
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
            assert_eq!(like(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn tools_order_and_counts() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let wanted = Trajectory {
            tools_used: texts(&["Edit", "Bash(git *)"]),
            tools_forbidden: texts(&["Bash(git push*)", "WebFetch"]),
            order: texts(&["Read", "mcp__*", "Edit"]),
            counts: vec![("Bash".to_owned(), CallCount { min: Some(1), max: Some(2) })],
            max_failed_calls: Some(1),
            max_repeated_calls: Some(1),
            max_turns: Some(4),
            ..Trajectory::default()
        };
        let verdict = judge(&wanted, &way());
        assert_eq!(verdict.status, EvaluatorStatus::Passed, "{}", verdict.message);
        assert_eq!(verdict.trust, Some(Trust::SelfReported));
        assert_eq!(verdict.metrics["by_tool"]["Bash"], 2);
        let wanted = Trajectory {
            tools_forbidden: texts(&["Bash(git status)"]),
            order: texts(&["Edit", "Read"]),
            max_failed_calls: Some(0),
            ..Trajectory::default()
        };
        let verdict = judge(&wanted, &way());
        assert_eq!(
            verdict.message,
            "✗ 5 tool calls, 1 failed (self-reported) | forbidden, and called 2 times: `Bash(git status)`; \
             not in this order: Edit, Read; `Read` does not follow; failed calls (1) exceed max_failed_calls (0)"
        );
    }

    #[test]
    fn an_agent_that_told_nothing_passes_nothing() {
        let wanted = Trajectory { tools_forbidden: vec!["WebFetch".to_owned()], ..Trajectory::default() };
        assert_eq!(judge(&wanted, &log()).status, EvaluatorStatus::Failed);
        assert_eq!(judge(&wanted, &way()).status, EvaluatorStatus::Passed);
    }
}
