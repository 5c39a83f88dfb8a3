//! `yb show --transcript`: the conversation with shortened tool results.

use std::collections::HashMap;
use std::fmt::Arguments;
use std::path::Path;

use serde_json::Value;
use yb_engine::adapter::OmittedItem;
use yb_engine::edit::{EditLine, FileEdit, relative_paths};
use yb_engine::log::{LogMessage, Role, YouBenchaLog};
use yb_figures::{counted, plural};

use crate::printer::{Printer, Style, StyledText};

/// The maximum number of lines of a tool result.
const LINES: usize = 8;
/// The maximum number of lines of an edit.
const EDIT_LINES: usize = 40;
/// The maximum length of a line of a tool call or result.
const WIDTH: usize = 160;
/// The indentation of subagents.
const INDENT: &str = "    ";

/// Prints a conversation. Messages that the log leaves out are read from the frames while they are printed.
pub(super) fn show(log: &YouBenchaLog, artifacts: &Path, printer: &mut Printer) {
    let failed: HashMap<&str, bool> =
        log.tool_calls.iter().filter_map(|call| Some((call.id.as_deref()?, call.is_error?))).collect();
    let mut conversation =
        Conversation { workspace: &log.environment.working_directory, failed: &failed, last: None };
    let omitted = log.omitted.as_ref().filter(|omitted| omitted.messages > 0);
    let before = omitted.map_or(u64::MAX, |omitted| omitted.messages_before);
    let before = usize::try_from(before).unwrap_or(usize::MAX).min(log.messages.len());
    let (first, last) = log.messages.split_at(before);
    first.iter().for_each(|message| conversation.show(message, printer));
    if let Some(omitted) = omitted
        && let Err(reason) = show_omitted(log, artifacts, &mut conversation, printer)
    {
        printer.line("");
        printer.note(format_args!("{} omitted: {reason}", plural(omitted.messages, "message")));
        conversation.last = None;
    }
    last.iter().for_each(|message| conversation.show(message, printer));
    if log.messages.is_empty() {
        printer.note("no messages");
    }
    for error in &log.errors {
        printer.line("");
        printer.line(StyledText::new().styled(Style::BoldRed, "error:").text(" ").text(&error.message));
    }
}

/// Prints the messages that the log leaves out.
fn show_omitted(
    log: &YouBenchaLog,
    artifacts: &Path,
    conversation: &mut Conversation<'_>,
    printer: &mut Printer,
) -> Result<(), String> {
    let name = log.output.frames.as_ref().ok_or("there are no frames")?;
    let path = artifacts.join(name);
    let failed = |error: std::io::Error| format!("failed to read `{}`: {error}", path.display());
    let mut frames = yb_engine::frames::open(&path).map_err(failed)?;
    yb_engine::adapter::for_each_omitted(log, &mut frames, &mut |item| {
        if let OmittedItem::Message(message) = item {
            conversation.show(&message, printer);
        }
    })
    .map_err(failed)
}

/// A conversation that is printed message by message.
struct Conversation<'a> {
    workspace: &'a str,
    /// Whether a call failed, by id.
    failed: &'a HashMap<&'a str, bool>,
    /// The speaker of the last message.
    last: Option<(Role, Option<String>)>,
}

impl Conversation<'_> {
    fn show(&mut self, message: &LogMessage, printer: &mut Printer) {
        let indent = if message.parent_tool_call_id.is_some() { INDENT } else { "" };
        if message.role == Role::Tool {
            let bad = message.tool_call_id.as_deref().is_some_and(|id| self.failed.get(id) == Some(&true));
            let mark = if bad { "✗" } else { "←" };
            result(&relative_paths(&message.content, self.workspace), mark, indent, printer);
            self.last = None;
            return;
        }
        // One heading for consecutive messages of a role.
        let heading = (message.role, message.parent_tool_call_id.clone());
        if self.last.as_ref() != Some(&heading) {
            printer.line("");
            printer.line(StyledText::new().text(indent).styled(Style::Bold, speaker(message)));
            self.last = Some(heading);
        }
        show_message(message, self.workspace, indent, printer);
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

fn show_message(message: &LogMessage, workspace: &str, indent: &str, printer: &mut Printer) {
    for (at, line) in message.thinking.trim().lines().enumerate() {
        let mark = if at == 0 { "thinking: " } else { "" };
        printer.line(dimmed(format_args!("{indent}  "), &format!("{mark}{line}")));
    }
    for line in relative_paths(message.content.trim(), workspace).lines() {
        printer.line(format_args!("{indent}  {line}"));
    }
    for call in &message.tool_calls {
        let given = relative_paths(&call.function.arguments, workspace);
        let line = StyledText::new().text(indent).text("  ").styled(Style::Cyan, "→ ");
        let line = line.styled(Style::Cyan, &call.function.name).text(" ");
        match FileEdit::from_arguments(&given) {
            Some(edit) => {
                printer.line(line.text(&edit.path));
                show_edit(&edit, indent, printer);
            }
            None => printer.line(line.text(arguments(&given))),
        }
    }
}

/// Prints an edit as a difference.
fn show_edit(edit: &FileEdit, indent: &str, printer: &mut Printer) {
    for line in edit.lines.iter().take(EDIT_LINES) {
        let style = match line {
            EditLine::Added(_) => Style::Green,
            EditLine::Removed(_) => Style::Red,
            EditLine::Note(_) => Style::Cyan,
            EditLine::Context(_) => Style::Plain,
        };
        printer.line(StyledText::new().text(indent).text("    ").styled(style, short(&line.to_diff())));
    }
    if let more @ 1.. = edit.lines.len().saturating_sub(EDIT_LINES) {
        let more = format!("… {}", counted(more, "more line", "more lines"));
        printer.line(dimmed(format_args!("{indent}    "), &more));
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
