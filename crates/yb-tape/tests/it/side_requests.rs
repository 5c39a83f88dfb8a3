//! Side requests of agents get placeholder responses and use no turn.

use serde_json::{Value, json};
use yb_tape::{MockServer, ResponseKind};

use crate::client::{Response, post, post_as, request, serve, start};

const CLI: (&str, &str) = ("user-agent", "claude-cli/2.1.325 (external, sdk-cli)");

fn post_as_cli(server: &MockServer, body: &Value) -> Response {
    post_as(server, &[CLI], body)
}

fn web_page() -> Value {
    json!({ "tools": [], "messages": [{ "role": "user", "content": "Web page content: …" }] })
}

fn web_search() -> Value {
    json!({
        "system": "You run a web search", "tools": [{ "type": "web_search_20250305", "name": "web_search" }],
        "messages": [{ "role": "user", "content": "Perform a web search" }],
    })
}

/// The request of a prompt hook contains the whole conversation.
fn hook() -> Value {
    json!({
        "tools": [],
        "output_config": { "format": { "type": "json_schema", "schema": {
            "type": "object",
            "properties": { "ok": { "type": "boolean" }, "reason": { "type": "string" } },
            "required": ["ok", "reason"],
        } } },
        "messages": [
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": "done" },
            { "role": "user", "content": "Is it all done?" },
        ],
    })
}

fn probe() -> Value {
    json!({ "max_tokens": 1, "messages": [{ "role": "user", "content": "quota" }] })
}

#[test]
fn side_requests_get_placeholders_outside_of_all_lanes() {
    for script in ["- say: main 1", "- say: main 1\n- say: main 2"] {
        let server = serve(script);
        for body in [web_page(), web_search(), probe()] {
            assert_eq!(post_as_cli(&server, &body).reply_text(), "ok", "{body}");
        }
        let verdict: Value = serde_json::from_str(&post_as_cli(&server, &hook()).reply_text()).unwrap();
        assert_eq!(verdict, json!({ "ok": true, "reason": "ok" }));
        assert!(
            server
                .requests()
                .iter()
                .all(|logged| logged.response == ResponseKind::SideReply && logged.lane.is_none())
        );
        assert!(server.unscripted().is_empty());
    }
}

#[test]
fn lane_can_match_a_side_request() {
    let server = start(
        "
tape: 1
lanes:
  main: { match: go, replies: [ { say: main 1 } ] }
  page: { match: Web page content, replies: [ { say: a page about tapes } ] }
  search: { match: { system: You run a web search }, replies: [ { say: found } ] }
  hook: { match: 'Is it all done?', replies: [ { say: '{ \"ok\": false, \"reason\": \"no\" }' } ] }
",
    );
    assert_eq!(post_as_cli(&server, &web_page()).reply_text(), "a page about tapes");
    assert_eq!(post_as_cli(&server, &web_search()).reply_text(), "found");
    assert_eq!(post_as_cli(&server, &hook()).reply_text(), "{ \"ok\": false, \"reason\": \"no\" }");
}

#[test]
fn agent_without_tools_gets_replies_of_main() {
    let server = serve("- say: main 1");
    let mut body = json!({ "tools": [], "thinking": {}, "messages": [{ "role": "user", "content": "go" }] });
    assert_eq!(post_as_cli(&server, &body).reply_text(), "main 1");
    // Without thinking it looks like a side request, unless the script matches the prompt of `main`.
    body.as_object_mut().unwrap().remove("thinking");
    assert_eq!(post_as_cli(&server, &body).reply_text(), "ok");
    assert_eq!(post(&server, &body).reply_text(), "main 1", "only Claude Code sends side requests");
    let server = start("{ tape: 1, lanes: { main: { match: go, replies: [ { say: main 1 } ] } } }");
    assert_eq!(post_as_cli(&server, &body).reply_text(), "main 1");
}

#[test]
fn other_requests_get_placeholders_or_errors() {
    let server = serve("- say: a");
    let get = |path| request(&server, "GET", path, &[], b"");
    let hello = request(&server, "HEAD", "/api/hello", &[], b"");
    assert_eq!((hello.status, hello.body.len()), (Some(200), 0));
    assert_eq!(get("/v1/models?limit=1").json()["data"], json!([]));
    assert_eq!(get("/v1/models/claude-x").json()["id"], "claude-x");
    assert_eq!(get("/api/anything").json(), json!({}));

    let unknown = request(&server, "POST", "/api/event_logging/batch", &[], b"{}");
    assert_eq!(unknown.status, Some(404));
    assert_eq!(
        unknown.json(),
        json!({
            "type": "error",
            "error": { "type": "not_found_error", "message": "no such endpoint: `POST /api/event_logging/batch`" },
            "request_id": "req_tape_5",
        })
    );
    assert_eq!(unknown.header("request-id"), Some("req_tape_5"));
    assert_eq!(request(&server, "DELETE", "/v1/files/1", &[], b"").status, Some(400));
}
