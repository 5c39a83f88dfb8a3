//! `yb show --transcript`: the conversation with shortened tool results.

use std::collections::HashMap;
use std::fmt::Arguments;

use serde_json::Value;
use yb_engine::log::{LogMessage, Role, YouBenchaLog};
use yb_figures::counted;

use crate::printer::{Printer, Style, StyledText};

/// The maximum number of lines of a tool result.
const LINES: usize = 8;
/// The maximum length of a line of a tool call or result.
const WIDTH: usize = 160;
/// The indentation of subagents.
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
        // One heading for consecutive messages of a role.
        let heading = (message.role, &message.parent_tool_call_id);
        if last != Some(heading) {
            printer.line("");
            printer.line(StyledText::new().text(indent).styled(Style::Bold, speaker(message)));
            last = Some(heading);
        }
        show_message(message, indent, printer);
    }
    if log.messages.is_empty() {
        printer.note("no messages");
    }
    for error in &log.errors {
        printer.line("");
        printer.line(StyledText::new().styled(Style::BoldRed, "error:").text(" ").text(&error.message));
    }
}

fn speaker(message: &LogMessage) -> &'static str {
    match (message.role, message.parent_tool_call_id.is_some()) {
        (Role::User, _) => "user",
        (Role::System, _) => "system",
        (_, true) => "subagent",
        _ => "agent",
    }
}

fn show_message(message: &LogMessage, indent: &str, printer: &mut Printer) {
    for line in message.content.trim().lines() {
        printer.line(format_args!("{indent}  {line}"));
    }
    for call in &message.tool_calls {
        let (name, arguments) = (&call.function.name, arguments(&call.function.arguments));
        let call = StyledText::new().text(indent).text("  ").styled(Style::Cyan, "→ ");
        printer.line(call.styled(Style::Cyan, name).text(" ").text(arguments));
    }
}

fn result(text: &str, mark: &str, indent: &str, printer: &mut Printer) {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    for (number, line) in lines.iter().take(LINES).enumerate() {
        let mark = if number == 0 { mark } else { " " };
        printer.line(dimmed(format_args!("{indent}  {mark} "), &short(line)));
    }
    if lines.is_empty() {
        printer.line(dimmed(format_args!("{indent}  {mark} "), "(empty)"));
    }
    if lines.len() > LINES {
        let more = format!("… {}", counted(lines.len() - LINES, "more line", "more lines"));
        printer.line(dimmed(format_args!("{indent}    "), &more));
    }
}

fn dimmed(before: Arguments<'_>, text: &str) -> StyledText {
    StyledText::new().text(before).styled(Style::Dim, text)
}

/// Formats JSON arguments as `key: value, …` on one line.
fn arguments(text: &str) -> String {
    let flat = |text: &str| short(&text.split_whitespace().collect::<Vec<_>>().join(" "));
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
    fn arguments_fit_on_a_line() {
        assert_eq!(arguments(r#"{"command": "ls\n-l", "n": 3}"#), "command: ls -l, n: 3");
        assert_eq!(arguments("not json"), "not json");
        assert_eq!(short(&"ü".repeat(200)).chars().count(), 160);
    }
}
