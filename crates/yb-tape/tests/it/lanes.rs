//! Lane and turn are derived from the request alone, ignoring injected content.

use serde_json::{Value, json};
use yb_tape::MockServer;

use crate::client::{after, post, post_as, start};

const SCRIPT: &str = "
tape: 1
lanes:
  main:
    - say: main 1
    - say: main 2
    - say: main 3
  reviewer:
    match: Review the change
    replies:
      - say: reviewer 1
      - say: reviewer 2
  planner:
    match: { system: YOU-ARE-THE-PLANNER }
    replies:
      - say: planner 1
  strict:
    match: { prompt: plan it, system: YOU-ARE-STRICT }
    replies:
      - say: strict 1
";

const REMINDER: &str = "<system-reminder>\n# gitStatus\nReview the change\n</system-reminder>";
const SUBAGENT: (&str, &str) = ("x-claude-code-agent-id", "a1b2");

fn check(server: &MockServer, messages: &Value, expected: &str) {
    let body = json!({ "model": "m", "messages": messages });
    assert_eq!(post(server, &body).reply_text(), expected, "{body}");
}

#[test]
fn turn_is_the_number_of_replies_so_far() {
    let server = start(SCRIPT);
    for turn in [0, 1, 2, 1, 0] {
        assert_eq!(post(&server, &after(turn)).reply_text(), format!("main {}", turn + 1));
    }
}

#[test]
fn injected_messages_do_not_affect_lane_and_turn() {
    let server = start(SCRIPT);
    let opening = json!({ "role": "user", "content": [
        { "type": "text", "text": REMINDER },
        { "type": "text", "text": "<system-reminder>more</system-reminder>\n" },
        { "type": "text", "text": "go", "cache_control": { "type": "ephemeral" } },
    ] });
    let environment = json!({ "role": "system", "content": [{ "type": "text", "text": "# Environment" }] });
    check(&server, &json!([opening, environment]), "main 1");

    let call = json!({ "role": "assistant", "content": [
        { "type": "thinking", "thinking": "", "signature": "" },
        { "type": "tool_use", "id": "t1", "name": "Bash", "input": {} },
    ] });
    let result = json!({ "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": "t1", "content": "Review the change" },
        { "type": "text", "text": REMINDER },
    ] });
    let note = json!({ "role": "system", "content": "the file was changed by a linter" });
    let split = json!({ "role": "assistant", "content": [{ "type": "text", "text": "one more thing" }] });
    check(&server, &json!([opening, environment, call, result, note]), "main 2");
    check(&server, &json!([opening, environment, split, call, result, note]), "main 2");
    let again = json!({ "role": "user", "content": "Review the change" });
    check(&server, &json!([opening, environment, call, result, note, split, again, again]), "main 3");
}

#[test]
fn lane_matches_prompt_or_system_prompt() {
    let server = start(SCRIPT);
    let review = json!({ "role": "user", "content": [
        { "type": "text", "text": "<system-reminder>x</system-reminder>" },
        { "type": "text", "text": "Please: Review the change, all of it." },
    ] });
    check(&server, &json!([review]), "reviewer 1");
    check(&server, &json!([review, { "role": "assistant", "content": "ok" }, review]), "reviewer 2");

    let body = |system: &str, prompt: &str| json!({ "system": [{ "type": "text", "text": system }], "messages": [{ "role": "user", "content": prompt }] });
    assert_eq!(post(&server, &body("… YOU-ARE-THE-PLANNER …", "go")).reply_text(), "planner 1");
    assert_eq!(post(&server, &body("YOU-ARE-STRICT", "plan it")).reply_text(), "strict 1");
    assert_eq!(post(&server, &body("YOU-ARE-STRICT", "go")).reply_text(), "main 1");
    assert_eq!(
        post(&server, &body("Review the change", "go")).reply_text(),
        "main 1",
        "a plain match applies to the prompt only"
    );
}

#[test]
fn first_matching_lane_wins() {
    let server = start(
        "{ tape: 1, lanes: { main: { match: go, replies: [ { say: main } ] }, other: { match: go and ask, replies: [ { say: other } ] } } }",
    );
    check(&server, &json!([{ "role": "user", "content": "go and ask" }]), "main");
    let server = start(
        "{ tape: 1, lanes: { other: { match: go and ask, replies: [ { say: other } ] }, main: { match: go, replies: [ { say: main } ] } } }",
    );
    check(&server, &json!([{ "role": "user", "content": "go and ask" }]), "other");
    check(&server, &json!([{ "role": "user", "content": "go" }]), "main");
}

#[test]
fn unknown_subagent_never_gets_replies_of_main() {
    let with_match = SCRIPT.replace("  main:\n", "  main:\n   match: go\n   replies:\n");
    for script in [SCRIPT, &with_match] {
        let server = start(script);
        let body = json!({ "messages": [{ "role": "user", "content": "go somewhere" }] });
        let response = post_as(&server, &[SUBAGENT], &body);
        assert_eq!(response.status, Some(400));
        assert_eq!(
            response.json()["error"]["message"],
            "no lane of the script matches this subagent, turn 1; its prompt starts with: `go somewhere`"
        );
        // Older versions mark a subagent in the first block of the system prompt only.
        let body = json!({
            "system": [{ "type": "text", "text": "x-anthropic-billing-header: cc_version=2; cc_is_subagent=true;" }],
            "messages": [{ "role": "user", "content": "go somewhere" }],
        });
        assert_eq!(post(&server, &body).status, Some(400));
        let body = json!({ "messages": [{ "role": "user", "content": "Review the change" }] });
        assert_eq!(post_as(&server, &[SUBAGENT], &body).reply_text(), "reviewer 1");
        assert_eq!(server.unscripted().len(), 2);
    }
}

#[test]
fn retries_get_the_same_turn() {
    let server = start(SCRIPT);
    for _ in 0..5 {
        assert_eq!(post(&server, &after(1)).reply_text(), "main 2");
    }
    let turns: Vec<_> = server.requests().iter().map(|logged| (logged.turn, logged.attempt)).collect();
    assert_eq!(turns, [(Some(2), 1), (Some(2), 2), (Some(2), 3), (Some(2), 4), (Some(2), 5)]);
}
