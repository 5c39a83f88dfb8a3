//! Floods of every kind of frame, for every reader: what is kept is bounded, and what is counted is exact.

use serde_json::{Value, json};
use yb_model::log::Role;

use super::bounds::{Bounds, IDS, WARNINGS};
use super::recorded::reader;
use super::{Transcript, read_output};

const FRAMES: usize = 6000;
const BOUNDS: Bounds = Bounds { message: 2000, messages: 20_000, tool_calls: 20_000 };

/// One kind of frame, by its number in the flood.
type Kind = (&'static str, fn(usize) -> Value);

/// Kinds of frames of each agent; those named `call…` are one tool call each, those named `text…` one message each.
const FLOODS: &[(&str, &[Kind])] = &[
    (
        "claude-code",
        &[
            ("call", |n| {
                claude(
                    n,
                    &json!({"type": "tool_use", "id": format!("t{n}"), "name": "Bash", "input": {"n": n}}),
                )
            }),
            ("call of a server", |n| {
                claude(
                    n,
                    &json!({"type": "server_tool_use", "id": format!("t{n}"), "name": "web_search", "input": {}}),
                )
            }),
            ("text", |n| claude(n, &json!({"type": "text", "text": "Hm."}))),
            ("parts of one answer", |_| claude(0, &json!({"type": "text", "text": "x".repeat(1000)}))),
            ("thinking", |n| claude(n, &json!({"type": "thinking", "thinking": "Hm."}))),
            (
                "results without calls",
                |n| json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": format!("t{n}"), "content": "ok"}]}}),
            ),
            ("subagents", |n| {
                json!({"type": "assistant", "parent_tool_use_id": format!("p{n}"), "message": {"id": format!("m{n}"),
                    "model": format!("model-{n}"), "usage": {"input_tokens": 1}, "content": [{"type": "text", "text": "x"}]}})
            }),
            (
                "results",
                |n| json!({"type": "result", "subtype": "success", "result": "x".repeat(500), "usage": {"input_tokens": 1, "output_tokens": n}}),
            ),
            (
                "denials",
                |n| json!({"type": "system", "subtype": "permission_denied", "tool_name": "Bash", "tool_use_id": format!("t{n}")}),
            ),
            ("starts", |n| {
                json!({"type": "system", "subtype": "init", "session_id": format!("s{n}"),
                    "mcp_servers": [{"name": format!("m{n}"), "status": "failed"}]})
            }),
            ("retries", |n| json!({"type": "system", "subtype": "api_retry", "attempt": n})),
            ("pieces", |n| {
                json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": n,
                    "delta": {"type": "text_delta", "text": "x".repeat(100)}}})
            }),
            ("starts of answers", |n| {
                json!({"type": "stream_event", "parent_tool_use_id": format!("p{n}"), "event": {"type": "message_start",
                    "message": {"id": format!("m{n}"), "usage": {"input_tokens": 1}}}})
            }),
            ("unknown", |n| json!({"type": format!("new-{n}"), "x": "y".repeat(100)})),
        ],
    ),
    (
        "codex",
        &[
            (
                "call",
                |n| json!({"type": "item.started", "item": {"id": format!("i{n}"), "type": "command_execution", "command": "ls"}}),
            ),
            (
                "text",
                |n| json!({"type": "item.completed", "item": {"id": format!("i{n}"), "type": "agent_message", "text": "Hm."}}),
            ),
            (
                "errors",
                |n| json!({"type": "item.completed", "item": {"id": "e", "type": "error", "message": format!("e{n}")}}),
            ),
            ("retries", |n| json!({"type": "error", "message": format!("Reconnecting... {n} (timed out)")})),
        ],
    ),
    (
        "gemini",
        &[
            (
                "call",
                |n| json!({"type": "tool_use", "tool_id": format!("t{n}"), "tool_name": "read_file", "parameters": {"n": n}}),
            ),
            (
                "pieces",
                |_| json!({"type": "message", "role": "assistant", "delta": true, "content": "x".repeat(100)}),
            ),
            (
                "results without calls",
                |n| json!({"type": "tool_result", "tool_id": format!("t{n}"), "status": "success", "output": "ok"}),
            ),
        ],
    ),
    (
        "opencode",
        &[
            ("call", |n| {
                json!({"type": "tool_use", "part": {"callID": format!("c{n}"), "tool": "bash", "messageID": format!("m{n}"),
                    "state": {"status": "completed", "input": {"n": n}, "output": "ok", "metadata": {"exit": 0}}}})
            }),
            ("text", |n| json!({"type": "text", "part": {"messageID": format!("m{n}"), "text": "Hm."}})),
            (
                "steps",
                |_| json!({"type": "step_finish", "part": {"reason": "stop", "tokens": {"input": 1, "output": 1}}}),
            ),
            ("errors", |n| json!({"type": "error", "error": {"name": format!("E{n}")}})),
        ],
    ),
    (
        "copilot-cli",
        &[
            ("call", |n| {
                json!({"type": "assistant.message", "data": {"messageId": format!("m{n}"), "content": "",
                    "toolRequests": [{"toolCallId": format!("t{n}"), "name": "bash", "arguments": {"n": n}}]}})
            }),
            (
                "text",
                |n| json!({"type": "assistant.message", "data": {"messageId": format!("m{n}"), "content": "Hm."}}),
            ),
            ("denials", |n| {
                json!({"type": "tool.execution_complete", "data": {"toolCallId": format!("t{n}"), "success": false,
                    "error": {"code": "denied", "message": "no"}}})
            }),
            (
                "servers",
                |n| json!({"type": "session.mcp_server_status_changed", "data": {"serverName": format!("s{n}"), "status": "failed", "error": "x"}}),
            ),
            (
                "failures",
                |n| json!({"type": "model.call_failure", "data": {"statusCode": 500, "errorMessage": format!("{n}")}}),
            ),
        ],
    ),
    (
        "acp",
        &[
            ("call", |n| {
                update(&json!({"sessionUpdate": "tool_call", "toolCallId": format!("t{n}"), "kind": "read",
                    "status": "in_progress", "rawInput": {"n": n}}))
            }),
            ("pieces", |_| {
                update(
                    &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x".repeat(100)}}),
                )
            }),
            ("call with a question", |n| {
                json!({"jsonrpc": "2.0", "id": n, "method": "session/request_permission", "params": {
                    "toolCall": {"toolCallId": format!("t{n}"), "kind": "edit", "rawInput": {"n": n}}, "options": []}})
            }),
        ],
    ),
];

fn claude(number: usize, block: &Value) -> Value {
    json!({"type": "assistant", "message": {"id": format!("m{number}"), "model": "claude-opus-5", "content": [block],
        "usage": {"input_tokens": 1, "output_tokens": 1}}})
}

fn update(update: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
}

#[test]
fn flood_of_every_kind_of_frame_is_bounded_and_counted() {
    for (agent, kinds) in FLOODS {
        for (kind, frame) in *kinds {
            let mut reader = reader(agent).unwrap();
            let mut transcript = Transcript::new(BOUNDS);
            for number in 0..FRAMES {
                transcript.observe_with(reader.as_mut(), frame(number).to_string().as_bytes());
                reader.take_input();
                reader.mcp_failures();
            }
            reader.finish("").iter().for_each(|message| transcript.observe(message));
            transcript.finish();
            let summary = transcript.summary();
            let messages: usize =
                transcript.messages().iter().map(|message| message.content.len() + 256).sum();
            // Twice the limit for the two ends, and once more for an item that exceeds it alone.
            assert!(
                messages <= 3 * BOUNDS.messages + 400_000 * usize::from(*kind == "pieces"),
                "{agent} {kind}: {messages}"
            );
            assert!(summary.tools().len() * 256 <= 2 * BOUNDS.tool_calls, "{agent} {kind}");
            assert!(
                summary.results().len() < 1000 && summary.partial_text().len() <= 1 << 20,
                "{agent} {kind}"
            );
            assert!(transcript.kept_times() <= 2 * summary.tools().len() + 1024, "{agent} {kind}");
            assert!(transcript.meter().kept_calls() <= IDS, "{agent} {kind}");
            assert!(reader.warnings().len() <= WARNINGS + 1, "{agent} {kind}");
            let omitted = transcript.omitted(0).unwrap_or_default();
            if kind.starts_with("call") {
                assert_eq!(summary.tool_count(), FRAMES as u64, "{agent} {kind}");
                assert_eq!(
                    summary.tools().len() as u64 + omitted.tool_calls,
                    FRAMES as u64,
                    "{agent} {kind}"
                );
                assert!(omitted.tool_calls > 0, "{agent} {kind}");
            }
            if kind.starts_with("text") {
                assert_eq!(
                    transcript.messages().len() as u64 + omitted.messages,
                    FRAMES as u64,
                    "{agent} {kind}"
                );
            }
            if *kind == "denials" {
                assert_eq!(summary.permission_denial_count(), FRAMES as u64, "{agent} {kind}");
            }
        }
    }
}

#[test]
fn usage_of_a_flood_is_exact() {
    let mut transcript = Transcript::new(BOUNDS);
    let answers = 3 * IDS;
    for number in 0..answers {
        let line = claude(number, &json!({"type": "text", "text": "Hm."})).to_string();
        // Each answer has two parts, which count once.
        transcript.observe_line(line.as_bytes());
        transcript.observe_line(line.as_bytes());
    }
    let live = transcript.live();
    assert_eq!((live.turns as usize, live.input_tokens as usize), (answers, answers));
    let models = transcript.meter().by_model();
    assert_eq!(models.values().map(|model| model.used.output as usize).sum::<usize>(), answers);
    let whole: f64 = models.values().map(|model| model.usd).sum();
    assert!(live.agent_usd.is_some_and(|usd| (usd - whole).abs() < 1e-6), "{live:?} {whole}");
}

#[test]
fn answer_that_was_cut_off_is_in_the_log() {
    let piece = |text: &str| {
        json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}})
        .to_string()
    };
    let mut transcript = Transcript::default();
    for line in [
        piece("Said"),
        piece(" whole."),
        claude(1, &json!({"type": "text", "text": "Said whole."})).to_string(),
    ] {
        transcript.observe_line(line.as_bytes());
    }
    assert_eq!(transcript.partial_text(), None);
    transcript.observe_line(piece("Cut o").as_bytes());
    assert_eq!(transcript.partial_text(), Some("Cut o"));
    transcript.finish();
    let said: Vec<_> =
        transcript.messages().iter().map(|message| (message.role, message.content.as_str())).collect();
    assert_eq!(said, [(Role::Assistant, "Said whole."), (Role::Assistant, "Cut o")]);
    let again = read_output("claude-code", piece("Cut o").as_bytes(), "").unwrap();
    assert!(again.messages().is_empty(), "only the end of the output tells that it was cut off");
}
