//! Parsing of single messages: known, unknown and damaged.

use yb_claude::frame::{ApiEvent, Delta, SystemMessage};
use yb_claude::{Block, Message, MessageContent, ResultSubtype};

use crate::frames::Case;

fn message(line: &str) -> Message {
    Message::parse(line.as_bytes()).unwrap()
}

#[test]
fn unknown_types_and_fields_are_accepted() {
    let unknown = message(r#"{"new":1,"type":"brand_new","x":[{}]}"#);
    assert!(
        matches!(&unknown, Message::Unknown { kind, raw } if kind == "brand_new" && raw.as_str().contains("\"x\""))
    );
    assert!(matches!(message("{}"), Message::Unknown { kind, .. } if kind.is_empty()));
    assert!(matches!(message(r#"{"type":7}"#), Message::Unknown { .. }));
    let system = message(r#"{"subtype":"brand_new","a":1,"type":"system"}"#);
    assert!(matches!(&system, Message::System(SystemMessage::Other(other)) if other.subtype == "brand_new"));
    let result = message(
        r#"{"type":"result","subtype":"error_new","usage":7,"modelUsage":[],"errors":"x","is_error":"y"}"#,
    );
    assert!(
        matches!(&result, Message::Result(result) if result.subtype == ResultSubtype::Other("error_new".into()))
    );
    let Message::Assistant(assistant) = message(
        r#"{"type":"assistant","message":{"content":[{"type":"hologram","x":1},{"type":"text","text":"t","new":[]},"odd",
            {"content":[{"type":"y"}],"tool_use_id":"w","type":"web_search_tool_result"}]}}"#,
    ) else {
        panic!()
    };
    let [
        Block::Unknown { kind, raw },
        Block::Text(text),
        Block::Unknown { .. },
        Block::ServerToolResult(server),
    ] = &assistant.message.content[..]
    else {
        panic!("{assistant:?}")
    };
    assert_eq!((&**kind, raw.as_str(), &*text.text), ("hologram", r#"{"type":"hologram","x":1}"#, "t"));
    assert_eq!((&*server.kind, &*server.tool_use_id), ("web_search_tool_result", "w"));
}

#[test]
fn message_with_lone_surrogate_is_parsed() {
    let line =
        r#"{"type":"result","subtype":"success","result":"cut \ud83d","structured_output":{"x":"\udc00"}}"#;
    let Message::Result(result) = message(line) else { panic!() };
    assert_eq!(result.result.as_deref(), Some("cut \u{fffd}"));
    assert_eq!(result.raw().as_str(), line);
    assert_eq!(result.raw().to_value().unwrap()["result"], "cut \u{fffd}");
    assert_eq!(result.structured_output.as_ref().unwrap().to_value().unwrap()["x"], "\u{fffd}");
}

#[test]
fn deeply_nested_values_are_kept_raw() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let line = format!(
        r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"a","input":{{"x":{deep}}}}}]}}}}"#
    );
    let Message::Assistant(assistant) = message(&line) else { panic!() };
    let Block::ToolUse(call) = &assistant.message.content[0] else { panic!() };
    assert!(call.input.to_value().is_err(), "too deep for a tree, and still there as text");
    assert!(call.input.as_str().len() > 200_000);
    let nested = r#"{"type":"tool_result","content":["#.repeat(5000) + &"]}".repeat(5000);
    let line = format!(r#"{{"type":"user","message":{{"content":[{nested}]}}}}"#);
    assert!(matches!(message(&line), Message::User(_)));
}

#[test]
fn partial_messages_reassemble_to_response() {
    let messages = Case::named("claude", "sj-partial").messages();
    let (mut streamed, mut whole) = (String::new(), String::new());
    for message in &messages {
        match message {
            Message::StreamEvent(event) => streamed.push_str(event.text().unwrap_or_default()),
            Message::Assistant(assistant) => whole.push_str(&assistant.text()),
            _ => {}
        }
    }
    assert!(!whole.is_empty());
    assert_eq!(streamed, whole);
    let events: Vec<_> = messages
        .iter()
        .filter_map(|message| if let Message::StreamEvent(event) = message { Some(event) } else { None })
        .collect();
    let any = |wanted: fn(&ApiEvent) -> bool| events.iter().any(|event| wanted(&event.event));
    assert!(any(|event| matches!(event, ApiEvent::MessageStart(message) if message.model.is_some())));
    assert!(any(|event| matches!(event, ApiEvent::BlockStart { block: Block::ToolUse(_), .. })));
    assert!(any(|event| matches!(event, ApiEvent::BlockDelta { delta: Delta::InputJson(_), .. })));
    assert!(any(|event| matches!(event, ApiEvent::BlockDelta { delta: Delta::Thinking(_), .. })));
    assert!(any(|event| matches!(event, ApiEvent::MessageDelta { stop_reason: Some(_), usage: Some(_) })));
    assert!(!any(|event| matches!(event, ApiEvent::Unknown { .. })));
}

#[test]
fn control_frames_are_internal_and_keep_their_body() {
    let asked = message(
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","input":{}}}"#,
    );
    let Message::ControlRequest(request) = &asked else { panic!() };
    assert_eq!((&*request.request_id, &*request.request.subtype), ("r", "can_use_tool"));
    assert_eq!(request.request.body.as_str(), r#"{"subtype":"can_use_tool","input":{}}"#);
    let answer = message(
        r#"{"type":"control_response","response":{"subtype":"error","request_id":"r","error":"no","error_code":"c"}}"#,
    );
    let Message::ControlResponse(response) = &answer else { panic!() };
    assert_eq!(response.response.error.as_deref(), Some("no"));
    let state =
        message(r#"{"type":"system","subtype":"session_state_changed","state":"idle","sdk_host_only":true}"#);
    for internal in
        [&asked, &answer, &state, &message(r#"{"type":"control_cancel_request","request_id":"r"}"#)]
    {
        assert!(internal.is_internal());
    }
    assert!(!message(r#"{"type":"assistant"}"#).is_internal());
}

#[test]
fn user_content_is_text_or_blocks() {
    let Message::User(user) =
        message(r#"{"type":"user","message":{"role":"user","content":"plain"},"isReplay":true}"#)
    else {
        panic!()
    };
    assert_eq!((&user.message.content, user.is_replay), (&MessageContent::Text("plain".into()), true));
    assert_eq!(user.message.content.text(), "plain");
}
