//! `yb show --transcript`: what was said and done, short enough to read; the log has all of it.

use std::collections::HashMap;

use owo_colors::OwoColorize as _;
use serde_json::Value;
use yb_engine::log::{LogMessage, Role, YouBenchaLog};

use crate::printer::Printer;
use crate::workspace::harmless;

/// How much of what a tool gave is shown.
const LINES: usize = 8;
/// The longest line of a call or its result.
const WIDTH: usize = 160;
/// What subagents say stands further right.
const INDENT: &str = "    ";

pub(super) fn show(log: &YouBenchaLog, printer: &mut Printer) {
    let failed: HashMap<&str, bool> =
        log.tool_calls.iter().filter_map(|call| Some((call.id.as_deref()?, call.is_error?))).collect();
    let mut last = None;
    for message in &log.messages {
        let indent = if message.parent_tool_call_id.is_some() { INDENT } else { "" };
        if message.role == Role::Tool {
            let bad = message.tool_call_id.as_deref().is_some_and(|id| failed.get(id) == Some(&true));
            result(&message.content, if bad { "✗" } else { "←" }, indent, printer);
            last = None;
            continue;
        }
        // One heading for all that somebody says in a row.
        let heading = (message.role, &message.parent_tool_call_id);
        if last != Some(heading) {
            printer.line("");
            printer.line(format_args!("{indent}{}", who(message).bold()));
            last = Some(heading);
        }
        said(message, indent, printer);
    }
    if log.messages.is_empty() {
        printer.note("nothing was said");
    }
    for error in &log.errors {
        printer.line(format_args!("\n{} {}", "error:".red().bold(), harmless(&error.message)));
    }
}

fn who(message: &LogMessage) -> &'static str {
    match (message.role, message.parent_tool_call_id.is_some()) {
        (Role::User, _) => "user",
        (Role::System, _) => "system",
        (_, true) => "subagent",
        _ => "agent",
    }
}

fn said(message: &LogMessage, indent: &str, printer: &mut Printer) {
    for line in harmless(&message.content).trim().lines() {
        printer.line(format_args!("{indent}  {line}"));
    }
    for call in &message.tool_calls {
        let arguments = arguments(&call.function.arguments);
        printer.line(format_args!("{indent}  {} {} {arguments}", "→".cyan(), call.function.name.cyan()));
    }
}

fn result(text: &str, mark: &str, indent: &str, printer: &mut Printer) {
    let text = harmless(text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    for (number, line) in lines.iter().take(LINES).enumerate() {
        let mark = if number == 0 { mark } else { " " };
        printer.line(format_args!("{indent}  {mark} {}", short(line).dimmed()));
    }
    if lines.is_empty() {
        printer.line(format_args!("{indent}  {mark} {}", "(nothing)".dimmed()));
    }
    if lines.len() > LINES {
        printer
            .line(format_args!("{indent}    {}", format!("… {} more lines", lines.len() - LINES).dimmed()));
    }
}

/// `key: value, …` instead of JSON, on one line.
fn arguments(text: &str) -> String {
    let flat = |text: &str| short(&harmless(text).split_whitespace().collect::<Vec<_>>().join(" "));
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => {
            let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let all: Vec<String> = map.iter().map(|(key, one)| format!("{key}: {}", value(one))).collect();
            flat(&all.join(", "))
        }
        _ => flat(text),
    }
}

fn short(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    line.chars().take(WIDTH - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::{arguments, short};

    #[test]
    fn calls_fit_on_a_line() {
        assert_eq!(arguments(r#"{"command": "ls\n-l", "n": 3}"#), "command: ls -l, n: 3");
        assert_eq!(arguments("not json"), "not json");
        assert_eq!(short(&"ü".repeat(200)).chars().count(), 160);
    }
}
