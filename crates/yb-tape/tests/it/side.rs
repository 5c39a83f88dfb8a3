//! What an agent asks for itself gets a polite answer and uses up no turn.

use serde_json::{Value, json};
use yb_tape::{Answer, Server};

use crate::client::{Response, post, post_as, request, serve, start};

const CLI: (&str, &str) = ("user-agent", "claude-cli/2.1.325 (external, sdk-cli)");

fn ask(server: &Server, body: &Value) -> Response {
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

/// A hook's question carries the whole conversation that it is about.
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
fn side_questions_get_an_answer_outside_of_all_lanes() {
    for script in ["- say: main 1", "- say: main 1\n- say: main 2"] {
        let server = serve(script);
        for body in [web_page(), web_search(), probe()] {
            assert_eq!(ask(&server, &body).said(), "ok", "{body}");
        }
        let verdict: Value = serde_json::from_str(&ask(&server, &hook()).said()).unwrap();
        assert_eq!(verdict, json!({ "ok": true, "reason": "ok" }));
        assert!(server.requests().iter().all(|seen| seen.answer == Answer::Side && seen.lane.is_none()));
        assert!(server.unscripted().is_empty());
    }
}

#[test]
fn a_lane_may_answer_a_side_question_by_its_own_words() {
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
    assert_eq!(ask(&server, &web_page()).said(), "a page about tapes");
    assert_eq!(ask(&server, &web_search()).said(), "found");
    assert_eq!(ask(&server, &hook()).said(), "{ \"ok\": false, \"reason\": \"no\" }");
}

#[test]
fn an_agent_without_tools_is_still_the_agent() {
    let server = serve("- say: main 1");
    let mut body = json!({ "tools": [], "thinking": {}, "messages": [{ "role": "user", "content": "go" }] });
    assert_eq!(ask(&server, &body).said(), "main 1");
    // Without thinking it can't be told from a side question, unless the script says what main's prompt is.
    body.as_object_mut().unwrap().remove("thinking");
    assert_eq!(ask(&server, &body).said(), "ok");
    assert_eq!(post(&server, &body).said(), "main 1", "only Claude Code asks side questions");
    let server = start("{ tape: 1, lanes: { main: { match: go, replies: [ { say: main 1 } ] } } }");
    assert_eq!(ask(&server, &body).said(), "main 1");
}

#[test]
fn everything_else_is_answered_politely() {
    let server = serve("- say: a");
    let get = |path| request(&server, "GET", path, &[], b"");
    let hello = request(&server, "HEAD", "/api/hello", &[], b"");
    assert_eq!((hello.status, hello.body.len()), (Some(200), 0));
    assert_eq!(get("/v1/models?limit=1").json()["data"], json!([]));
    assert_eq!(get("/v1/models/claude-x").json()["id"], "claude-x");
    assert_eq!(get("/api/anything").json(), json!({}));

    let lost = request(&server, "POST", "/api/event_logging/batch", &[], b"{}");
    assert_eq!(lost.status, Some(404));
    assert_eq!(
        lost.json(),
        json!({
            "type": "error",
            "error": { "type": "not_found_error", "message": "no such endpoint: `POST /api/event_logging/batch`" },
            "request_id": "req_tape_5",
        })
    );
    assert_eq!(lost.header("request-id"), Some("req_tape_5"));
    assert_eq!(request(&server, "DELETE", "/v1/files/1", &[], b"").status, Some(400));
}
