//! Requests without a scripted reply get an error.

use serde_json::json;
use yb_tape::ResponseKind;

use crate::client::{after, post, request, serve, start};

#[test]
fn extra_turn_error_names_lane_and_turn() {
    let server = serve("- say: a\n- say: b\n- say: c");
    let response = post(&server, &after(3));
    assert_eq!(response.status, Some(400));
    let message = "no reply scripted for lane `main`, turn 4 (the script has 3)";
    assert_eq!(
        response.json(),
        json!({
            "type": "error",
            "error": { "type": "invalid_request_error", "message": message },
            "request_id": "req_tape_1",
        })
    );
    post(&server, &after(0));
    let unscripted = server.unscripted();
    assert_eq!(unscripted.len(), 1);
    assert_eq!(unscripted[0].lane.as_deref(), Some("main"));
    assert_eq!(unscripted[0].turn, Some(4));
    assert_eq!(unscripted[0].status, Some(400));
    assert_eq!(unscripted[0].response, ResponseKind::Unscripted(message.into()));
}

#[test]
fn unknown_conversation_error_quotes_the_prompt() {
    let server = start("{ tape: 1, lanes: { main: { match: go, replies: [ { say: a } ] } } }");
    let long = format!("stop\nit {}", "x".repeat(100));
    let response = post(&server, &json!({ "messages": [{ "role": "user", "content": long }] }));
    assert_eq!(response.status, Some(400));
    assert_eq!(
        response.json()["error"]["message"],
        format!(
            "no lane of the script matches this conversation, turn 1; its prompt starts with: `stop it {}…`",
            "x".repeat(52)
        )
    );
    assert_eq!(server.unscripted().len(), 1);
}

#[test]
fn body_without_conversation_is_rejected() {
    let server = serve("- say: a");
    for body in ["", "{", "[]", "{}", "{\"messages\": 1}", "\u{0}\u{1}"] {
        let response = request(&server, "POST", "/v1/messages", &[], body.as_bytes());
        assert_eq!(response.status, Some(400), "{body}");
        assert_eq!(response.json()["error"]["type"], "invalid_request_error");
    }
    for messages in [json!([]), json!([1, null, {}]), json!([{ "role": 1, "content": { "a": 1 } }])] {
        assert_eq!(post(&server, &json!({ "messages": messages })).status, Some(200), "{messages}");
    }
    assert!(server.unscripted().is_empty());
}
