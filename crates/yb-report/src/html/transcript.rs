//! The conversation: messages in order, each tool call with its result, limited in size.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use yb_engine::edit::{EditLine, FileEdit, relative_paths};
use yb_figures::{bytes, plural};

use super::markup::Markup;
use crate::model::Trial;
use crate::text::{one_line, shorten};

/// The maximum length of a message in bytes.
const TEXT: usize = 20_000;
/// The maximum length of tool arguments or of a tool result in bytes.
const TOOL: usize = 6_000;

pub(super) fn write(body: &mut Markup, trial: &Trial, log: &Value, room: usize) {
    let steps = steps(log);
    if steps.is_empty() {
        return;
    }
    body.raw("<section class=\"card talk\"><div class=\"row\"><h2>Conversation</h2>");
    body.raw("<button type=\"button\" class=\"chip unfold\" hidden>expand all tool calls</button></div>");
    let gap = gap(&steps, room);
    let workspace = log["environment"]["working_directory"].as_str().unwrap_or_default();
    for (at, step) in steps.iter().enumerate() {
        match &gap {
            Some(gap) if gap.contains(&at) => {
                if at == gap.start {
                    write_gap(body, trial, &steps[gap.clone()], log);
                }
            }
            _ => write_step(body, step, workspace),
        }
    }
    if let Some(path) = trial.log_path() {
        body.raw("<p class=\"hint\">full log: <span class=\"mono\">").text(&path.display().to_string());
        body.raw("</span></p>");
    }
    body.raw("</section>");
}

/// A message or a tool call.
pub(super) enum Step<'a> {
    Message {
        role: &'a str,
        text: &'a str,
        below: bool,
    },
    Thinking {
        text: &'a str,
        below: bool,
    },
    Call {
        name: &'a str,
        arguments: &'a str,
        result: Option<&'a str>,
        whole: Option<u64>,
        failed: bool,
        below: bool,
    },
}

impl Step<'_> {
    /// Returns the approximate size on the page.
    fn size(&self) -> usize {
        match self {
            Self::Message { text, .. } | Self::Thinking { text, .. } => text.len().min(TEXT) + 100,
            Self::Call { arguments, result, .. } => {
                arguments.len().min(TOOL) + result.map_or(0, str::len).min(TOOL) + 300
            }
        }
    }
}

pub(super) fn steps(log: &Value) -> Vec<Step<'_>> {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &'static str| log[value].as_array().map(Vec::as_slice).unwrap_or_default();
    let records: BTreeMap<String, &Value> = list("tool_calls")
        .iter()
        .map(|record| (text(&record["id"]), record))
        .filter(|(id, _)| !id.is_empty())
        .collect();
    let answers: BTreeMap<String, &Value> = list("messages")
        .iter()
        .map(|message| (text(&message["tool_call_id"]), message))
        .filter(|(id, _)| !id.is_empty())
        .collect();
    let mut steps = Vec::new();
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for message in list("messages") {
        let below = message["parent_tool_call_id"].is_string();
        let id = text(&message["tool_call_id"]);
        if shown.contains(&id) {
            continue;
        }
        let role = message["role"].as_str().unwrap_or("unknown");
        let content = message["content"].as_str().unwrap_or_default();
        let thinking = message["thinking"].as_str().unwrap_or_default();
        if !thinking.trim().is_empty() {
            steps.push(Step::Thinking { text: thinking, below });
        }
        if !content.trim().is_empty() {
            steps.push(Step::Message { role, text: content, below });
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = text(&call["id"]);
            let record = records.get(&id).copied().unwrap_or(&Value::Null);
            let answer = answers.get(&id).copied().unwrap_or(&Value::Null);
            steps.push(Step::Call {
                name: call["function"]["name"].as_str().unwrap_or("tool"),
                arguments: call["function"]["arguments"].as_str().unwrap_or_default(),
                result: record["result"].as_str().or_else(|| answer["content"].as_str()),
                whole: record["result_bytes"].as_u64(),
                failed: record["is_error"].as_bool().unwrap_or(false),
                below,
            });
            shown.insert(id);
        }
    }
    // Calls without a message, as recorded for agents with plain text output.
    for record in list("tool_calls").iter().filter(|record| !shown.contains(&text(&record["id"]))) {
        steps.push(Step::Call {
            name: record["name"].as_str().unwrap_or("tool"),
            arguments: record["arguments"].as_str().unwrap_or_default(),
            result: record["result"].as_str(),
            whole: record["result_bytes"].as_u64(),
            failed: record["is_error"].as_bool().unwrap_or(false),
            below: record["parent_tool_call_id"].is_string(),
        });
    }
    steps
}

/// Returns the steps to omit: the middle, because the task is at the beginning and the answer at the end.
fn gap(steps: &[Step<'_>], room: usize) -> Option<std::ops::Range<usize>> {
    let sizes: Vec<usize> = steps.iter().map(Step::size).collect();
    if sizes.iter().sum::<usize>() <= room {
        return None;
    }
    let fitting = |sizes: &mut dyn Iterator<Item = &usize>, room: usize| {
        let mut taken = 0;
        let fits = |size: &&usize| {
            taken += **size;
            taken <= room
        };
        sizes.take_while(fits).count().max(1)
    };
    let start = fitting(&mut sizes.iter(), room / 3 * 2);
    let end = steps.len() - fitting(&mut sizes.iter().rev(), room / 3);
    (start < end).then_some(start..end)
}

fn write_gap(body: &mut Markup, trial: &Trial, steps: &[Step<'_>], log: &Value) {
    let size: usize = steps.iter().map(Step::size).sum();
    let whole = trial.log_path().map(|path| path.display().to_string()).unwrap_or_default();
    body.raw("<p class=\"gap\">").text(&format!(
        "{} ({}) omitted; full log: ",
        plural(steps.len(), "step"),
        bytes(size as u64)
    ));
    body.element("span", "mono", &whole);
    // What the log leaves out is only in the frames.
    if let Some(omitted @ 1..) = log["omitted"]["messages"].as_u64() {
        let frames = log["output"]["frames"].as_str().unwrap_or_default();
        body.text(&format!("; {} more in ", plural(omitted, "message"))).element("span", "mono", frames);
    }
    body.raw("</p>");
}

pub(super) fn write_step(body: &mut Markup, step: &Step<'_>, workspace: &str) {
    match step {
        Step::Thinking { text, below } => {
            let text = &relative_paths(text, workspace);
            body.raw("<details class=\"tool thought").raw(if *below { " below\">" } else { "\">" });
            body.raw("<summary><b>thinking</b>").element("code", "", &shorten(&one_line(text), 120));
            body.raw("</summary><div class=\"inside\"><div class=\"words clip\">").text(cut(text, TEXT));
            more(body, text.len(), TEXT);
            body.raw("</div></div></details>");
        }
        Step::Message { role, text, below } => {
            body.raw("<div class=\"said-by r-").raw(role_class(role));
            body.raw(if *below { " below\">" } else { "\">" }).element("span", "role", role);
            let text = relative_paths(text, workspace);
            if *role == "assistant" {
                body.raw("<div class=\"words prose clip\">");
                super::prose::write(body, cut(&text, TEXT));
            } else {
                body.raw("<div class=\"words clip\">").text(cut(&text, TEXT));
            }
            more(body, text.len(), TEXT);
            body.raw("</div></div>");
        }
        Step::Call { name, arguments, result, whole, failed, below } => {
            body.raw("<details class=\"tool");
            body.raw(if *below { " below" } else { "" }).raw(if *failed { " bad\">" } else { "\">" });
            let arguments = &relative_paths(arguments, workspace);
            body.raw("<summary>").element("b", "", name).element("code", "", &summarize_arguments(arguments));
            if *failed {
                body.raw("<span class=\"badge c-fail\">failed</span>");
            } else if result.is_none() {
                body.raw("<span class=\"badge c-todo\">no result</span>");
            }
            body.raw("</summary><div class=\"inside\">");
            match FileEdit::from_arguments(arguments) {
                Some(edit) => write_edit(body, &edit),
                None => {
                    body.raw("<div class=\"label\">arguments</div><pre class=\"clip\">");
                    let pretty = pretty(arguments);
                    body.text(cut(&pretty, TOOL));
                    more(body, pretty.len(), TOOL);
                    body.raw("</pre>");
                }
            }
            if let Some(result) = result {
                let result = &relative_paths(result, workspace);
                body.raw("<div class=\"label\">result</div><pre class=\"clip\">").text(cut(result, TOOL));
                let whole = whole.map_or(result.len(), |whole| usize::try_from(whole).unwrap_or(usize::MAX));
                more(body, whole.max(result.len()), TOOL.min(result.len()));
                body.raw("</pre>");
            }
            body.raw("</div></details>");
        }
    }
}

/// Writes an edit as a difference.
fn write_edit(body: &mut Markup, edit: &FileEdit) {
    let path = if edit.path.is_empty() { "patch" } else { &edit.path };
    body.element("div", "label", path).raw("<pre class=\"diff clip\" tabindex=\"0\">");
    let mut room = TOOL;
    for (at, line) in edit.lines.iter().enumerate() {
        let text = line.to_diff();
        if text.len() > room {
            let left: usize = edit.lines[at..].iter().map(|line| line.to_diff().len() + 1).sum();
            more(body, left, 0);
            break;
        }
        room -= text.len() + usize::from(text.len() < room);
        body.raw(match line {
            EditLine::Added(_) => "<span class=\"a\">",
            EditLine::Removed(_) => "<span class=\"d\">",
            EditLine::Note(_) => "<span class=\"at\">",
            EditLine::Context(_) => "<span>",
        });
        body.text(&text).raw("</span>");
    }
    body.raw("</pre>");
}

/// Writes how much of a text was cut off, if any.
fn more(body: &mut Markup, all: usize, shown: usize) {
    if all > shown {
        body.raw("<span class=\"cut\">")
            .text(&format!("… {} more", bytes((all - shown) as u64)))
            .raw("</span>");
    }
}

/// Returns at most `max_bytes` of a text, cut at a character boundary.
fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

fn role_class(role: &str) -> &'static str {
    match role {
        "user" => "user",
        "assistant" => "assistant",
        "tool" => "tool",
        _ => "system",
    }
}

/// Returns name and most telling argument of each tool call, by its id.
pub(crate) fn call_labels(log: &Value) -> BTreeMap<String, String> {
    let workspace = log["environment"]["working_directory"].as_str().unwrap_or_default();
    let calls = log["tool_calls"].as_array().into_iter().flatten();
    calls
        .filter_map(|call| {
            let name = call["name"].as_str().unwrap_or("tool");
            let arguments = relative_paths(call["arguments"].as_str().unwrap_or_default(), workspace);
            let arguments = summarize_arguments(&arguments);
            Some((call["id"].as_str()?.to_owned(), format!("{name}: {arguments}")))
        })
        .collect()
}

/// Returns the most telling argument of a tool call: its command, file or pattern.
fn summarize_arguments(arguments: &str) -> String {
    let parsed: Value = serde_json::from_str(arguments).unwrap_or_default();
    let keys = [
        "command",
        "file_path",
        "filePath",
        "pattern",
        "query",
        "url",
        "path",
        "description",
        "prompt",
        "input",
    ];
    let text = keys.iter().find_map(|key| parsed[key].as_str()).unwrap_or(arguments);
    shorten(&one_line(text), 120)
}

fn pretty(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(fields)) if fields.values().all(Value::is_string) => {
            // Line breaks in a text are easier to read than their escapes.
            let lines = fields.iter().map(|(name, value)| {
                let text = value.as_str().unwrap_or_default();
                if text.contains('\n') { format!("{name}:\n{text}") } else { format!("{name}: {text}") }
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_default(),
        Err(_) => arguments.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tool_call_is_shown_once_with_its_result() {
        let log = json!({
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"id": "1", "function": {"name": "Bash", "arguments": "{\"command\":\"ls\"}"}}]},
                {"role": "tool", "content": "a b", "tool_call_id": "1"},
                {"role": "assistant", "content": "done", "thinking": "hm"},
            ],
            "tool_calls": [{"id": "1", "name": "Bash", "result": "a", "is_error": true}, {"name": "Free", "arguments": "x"}],
        });
        let steps = steps(&log);
        let names: Vec<String> = steps
            .iter()
            .map(|step| match step {
                Step::Message { role, text, .. } => format!("{role}: {text}"),
                Step::Thinking { text, .. } => format!("thinking: {text}"),
                Step::Call { name, result, failed, .. } => format!("{name} {result:?} {failed}"),
            })
            .collect();
        assert_eq!(
            names,
            ["user: go", "Bash Some(\"a\") true", "thinking: hm", "assistant: done", "Free None false"]
        );
    }

    #[test]
    fn edit_is_a_difference_with_a_relative_path() {
        let arguments =
            json!({"file_path": "/w/x/a.rs", "old_string": "same\nold", "new_string": "same\n<new>"})
                .to_string();
        let step = Step::Call {
            name: "Edit",
            arguments: &arguments,
            result: Some("/w/x/a.rs updated"),
            whole: None,
            failed: false,
            below: false,
        };
        let mut body = Markup::default();
        write_step(&mut body, &step, "/w/x");
        let html = body.into_string();
        assert!(html.contains("<code>a.rs</code>"), "{html}");
        assert!(
            html.contains(
                "<span> same</span><span class=\"d\">-old</span><span class=\"a\">+&lt;new&gt;</span>"
            ),
            "{html}"
        );
        assert!(
            html.contains(">a.rs updated") && !html.contains("old_string") && !html.contains("/w/x"),
            "{html}"
        );
    }

    #[test]
    fn gap_omits_the_middle() {
        let text = "x".repeat(900);
        let steps: Vec<Step<'_>> =
            (0..10).map(|_| Step::Message { role: "user", text: &text, below: false }).collect();
        assert_eq!(gap(&steps, 10_000), None);
        assert_eq!(gap(&steps, 6_000), Some(4..8));
        assert_eq!(gap(&steps[..2], 100), None, "the first and the last always stay");
    }
}
