//! The time of a trial by turn: how long the model and how long each tool took.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use yb_figures::{duration_ms, plural};

use super::markup::Markup;
use crate::text::{one_line, shorten};

/// The maximum number of rows; the rest is counted.
const ROWS: usize = 120;
/// Rows beyond this many are folded.
const OPEN: usize = 24;

/// One turn of the main agent. Times are milliseconds since the start.
#[derive(Debug, Default, PartialEq)]
struct Turn {
    label: String,
    model: (i64, i64),
    tools: Vec<ToolTime>,
}

#[derive(Debug, PartialEq)]
struct ToolTime {
    name: String,
    from: i64,
    to: i64,
    failed: bool,
}

impl Turn {
    fn end(&self) -> i64 {
        self.tools.iter().map(|tool| tool.to).fold(self.model.1, i64::max)
    }
}

pub(super) fn write(body: &mut Markup, log: &Value) {
    let turns = turns(log);
    let whole = turns.iter().map(Turn::end).max().unwrap_or(0);
    if turns.len() < 2 || whole <= 0 {
        return;
    }
    let model: i64 = turns.iter().map(|turn| turn.model.1 - turn.model.0).sum();
    let tools: i64 = turns.iter().flat_map(|turn| &turn.tools).map(|tool| tool.to - tool.from).sum();
    body.raw("<section class=\"card chart waterfall\"><h2>Time by turn</h2><p class=\"hint\"><i class=\"dot k-agent\"></i>model ");
    body.text(&shown(model)).raw(" <i class=\"dot k-judge\"></i>tools ").text(&shown(tools)).raw("</p>");
    for (at, turn) in turns.iter().enumerate().take(ROWS) {
        if at == OPEN {
            body.raw("<details><summary>").text(&plural(turns.len() - OPEN, "more turn")).raw("</summary>");
        }
        row(body, at + 1, turn, whole);
    }
    if turns.len() > OPEN {
        body.raw("</details>");
    }
    super::chart::axis(body, 0, "0 ms", &shown(whole));
    if turns.len() > ROWS {
        body.element("p", "hint", &format!("and {} more", turns.len() - ROWS));
    }
    body.raw("</section>");
}

fn row(body: &mut Markup, number: usize, turn: &Turn, whole: i64) {
    let took = turn.end() - turn.model.0;
    let label = format!("turn {number}, {}: {}", turn.label, shown(took));
    body.raw("<div class=\"strip\"><span class=\"name\"").attr("title", &turn.label).raw(">");
    body.element("span", "soft", &number.to_string()).raw(" ").text(&turn.label).raw("</span>");
    body.raw("<svg viewBox=\"0 0 1000 28\" preserveAspectRatio=\"none\" role=\"img\"")
        .attr("aria-label", &label);
    body.raw("><rect class=\"ground\" x=\"0\" y=\"6\" width=\"1000\" height=\"16\"/>");
    let mut bar = |class: &'static str, name: &str, from: i64, to: i64| {
        let x = |ms: i64| ms as f64 / whole as f64 * 1000.0;
        body.raw("<rect y=\"6\" height=\"16\" class=\"").raw(class).raw("\"");
        body.attr("x", &format!("{:.1}", x(from)))
            .attr("width", &format!("{:.1}", (x(to) - x(from)).max(2.0)));
        body.raw("><title>").text(&format!("{name}: {}", shown(to - from))).raw("</title></rect>");
    };
    bar("k-agent", "model", turn.model.0, turn.model.1);
    for tool in &turn.tools {
        bar(if tool.failed { "f-fail" } else { "k-judge" }, &tool.name, tool.from, tool.to);
    }
    body.raw("</svg>").element("span", "num", &shown(took)).raw("</div>");
}

fn shown(ms: i64) -> String {
    duration_ms(u64::try_from(ms).unwrap_or(0))
}

/// Groups the messages of the main agent into turns: everything that the model wrote up to the next result of a tool.
fn turns(log: &Value) -> Vec<Turn> {
    let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok().map(|at| at.as_millisecond());
    let list = |name: &str| log[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(start) = time(&log["execution"]["started_at"])
        .or_else(|| list("messages").first().and_then(|message| time(&message["timestamp"])))
    else {
        return Vec::new();
    };
    let records: BTreeMap<&str, &Value> =
        list("tool_calls").iter().filter_map(|record| Some((record["id"].as_str()?, record))).collect();
    let mut turns: Vec<Turn> = Vec::new();
    let mut cursor = 0;
    let mut writing = false;
    for message in list("messages").iter().filter(|message| !message["parent_tool_call_id"].is_string()) {
        let Some(at) = time(&message["timestamp"]).map(|at| (at - start).max(cursor)) else { continue };
        if message["role"] != "assistant" {
            writing = false;
            cursor = at;
            continue;
        }
        if !writing {
            turns.push(Turn { model: (cursor, at), ..Turn::default() });
        }
        writing = true;
        let Some(turn) = turns.last_mut() else { continue };
        turn.model.1 = at;
        cursor = at;
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let name = call["function"]["name"].as_str().unwrap_or("tool");
            let record = call["id"].as_str().and_then(|id| records.get(id)).copied().unwrap_or(&Value::Null);
            let from = time(&record["started_at"]).map_or(at, |from| (from - start).max(0));
            let to = time(&record["completed_at"]).map_or(from, |to| (to - start).max(from));
            let failed = record["is_error"].as_bool().unwrap_or(false);
            turn.tools.push(ToolTime { name: name.to_owned(), from, to, failed });
        }
        if turn.label.is_empty() {
            turn.label = one_line(&shorten(message["content"].as_str().unwrap_or_default(), 60));
        }
    }
    for turn in &mut turns {
        let names: Vec<&str> = turn.tools.iter().map(|tool| tool.name.as_str()).collect();
        if !names.is_empty() {
            turn.label = shorten(&names.join(", "), 60);
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn turns_have_model_and_tool_times() {
        let at = |second: u32| format!("2026-11-15T00:00:{second:02}Z");
        let call = |id: &str, name: &str| json!([{"id": id, "function": {"name": name, "arguments": "{}"}}]);
        let log = json!({
            "execution": {"started_at": at(0)},
            "messages": [
                {"role": "user", "timestamp": at(1), "content": "go"},
                {"role": "assistant", "timestamp": at(3), "content": "reading"},
                {"role": "assistant", "timestamp": at(4), "content": "", "tool_calls": call("1", "Read")},
                {"role": "assistant", "timestamp": at(5), "content": "inside", "parent_tool_call_id": "1"},
                {"role": "tool", "timestamp": at(6), "content": "x", "tool_call_id": "1"},
                {"role": "assistant", "timestamp": at(9), "content": "done"},
            ],
            "tool_calls": [{"id": "1", "started_at": at(4), "completed_at": at(6), "is_error": true}],
        });
        let tool = ToolTime { name: "Read".to_owned(), from: 4_000, to: 6_000, failed: true };
        assert_eq!(
            turns(&log),
            [
                Turn { label: "Read".to_owned(), model: (1_000, 4_000), tools: vec![tool] },
                Turn { label: "done".to_owned(), model: (6_000, 9_000), tools: Vec::new() },
            ]
        );
        assert_eq!(turns(&json!({"messages": [{"role": "assistant"}]})), []);
    }
}
