//! Table of changed requests: each either matches the tape or diverges with the expected kind.

use std::time::Duration;

use serde_json::{Value, json};
use yb_tape::DivergenceKind as Kind;
use yb_tape::{RecordingProxy, ReplayOptions, ReplayServer, Tape};

use crate::client::{post, start};
use crate::recording::TapeDir;

const SCRIPT: &str = "
tape: 1
lanes:
  main:
    - think: Hm.
      say: I look.
      tools: [{ Bash: { command: ls } }, { Read: { file_path: a } }]
    - say: Well.
  counter:
    match: Count
    replies: [{ say: Three. }]
";

const OUTPUT: &str = "at 12:00:01 in /w/old, pid 17, took 3 ms, 3 passed";

fn first() -> Value {
    json!({ "model": "m", "max_tokens": 100, "stream": true, "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "Fix /w/old/a please." }] },
    ] })
}

fn second() -> Value {
    let mut body = first();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": [
        { "type": "thinking", "thinking": "Hm.", "signature": "c2NyaXB0ZWQ=" },
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "id": "toolu_main_1_3", "name": "Bash", "input": { "command": "ls" } },
        { "type": "tool_use", "id": "toolu_main_1_4", "name": "Read", "input": { "file_path": "a" } },
    ] }));
    messages.push(json!({ "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": "toolu_main_1_3", "content": OUTPUT },
        { "type": "tool_result", "tool_use_id": "toolu_main_1_4", "content": [{ "type": "text", "text": "file" }] },
    ] }));
    body
}

fn counter() -> Value {
    let mut body = first();
    body["messages"][0]["content"] = json!("Count the words.");
    body
}

fn tape(tape_dir: &TapeDir) -> Tape {
    let model = start(SCRIPT);
    let proxy = RecordingProxy::start(tape_dir.options(&model).directory("workspace", "/w/old")).unwrap();
    for body in [first(), second(), counter(), counter()] {
        assert_eq!(post(&proxy, &body).status, Some(200));
    }
    proxy.finish().unwrap();
    Tape::open(tape_dir.path()).unwrap()
}

/// A change to the second request, and the expected divergence, if any.
type Row = (&'static str, fn(&mut Value), Option<Kind>);

fn results(body: &mut Value) -> &mut Vec<Value> {
    body["messages"][2]["content"].as_array_mut().unwrap()
}

fn model_blocks(body: &mut Value) -> &mut Vec<Value> {
    body["messages"][1]["content"].as_array_mut().unwrap()
}

fn output(body: &mut Value, from: &str, to: &str) {
    assert!(OUTPUT.contains(from));
    results(body)[0]["content"] = json!(OUTPUT.replace(from, to));
}

fn add(body: &mut Value, message: Value) {
    body["messages"].as_array_mut().unwrap().push(message);
}

const ROWS: [Row; 36] = [
    // Matches the tape.
    ("unchanged", |_| {}, None),
    ("another time", |b| output(b, "12:00:01", "23:59:59"), None),
    ("another pid", |b| output(b, "pid 17", "pid 4711"), None),
    ("another duration", |b| output(b, "3 ms", "1.5 s"), None),
    ("results in another order", |b| results(b).reverse(), None),
    (
        "a reminder in a result",
        |b| output(b, "3 passed", "3 passed\n<system-reminder>x</system-reminder>"),
        None,
    ),
    (
        "a reminder after the results",
        |b| results(b).push(json!({ "type": "text", "text": "<system-reminder>x</system-reminder>" })),
        None,
    ),
    (
        "a reminder as a message",
        |b| add(b, json!({ "role": "user", "content": "<system-reminder>x</system-reminder>" })),
        None,
    ),
    ("a system message", |b| add(b, json!({ "role": "system", "content": "env" })), None),
    (
        "results in two messages",
        |b| {
            let last = results(b).pop().unwrap();
            add(b, json!({ "role": "user", "content": [last] }));
        },
        None,
    ),
    ("thinking left out", |b| drop(model_blocks(b).remove(0)), None),
    (
        "model output in two messages",
        |b| {
            let last = model_blocks(b).pop().unwrap();
            b["messages"]
                .as_array_mut()
                .unwrap()
                .insert(2, json!({ "role": "assistant", "content": [last] }));
        },
        None,
    ),
    ("a cache mark", |b| results(b)[1]["cache_control"] = json!({ "type": "ephemeral" }), None),
    ("a text as a list", |b| results(b)[0]["content"] = json!([{ "type": "text", "text": OUTPUT }]), None),
    ("changed tool input", |b| model_blocks(b)[2]["input"] = json!({ "command": "ls", "timeout": 1 }), None),
    ("another model", |b| b["model"] = json!("n"), None),
    ("another limit", |b| b["max_tokens"] = json!(7), None),
    (
        "another system prompt and other tools",
        |b| {
            b["system"] = json!("new");
            b["tools"] = json!([{ "name": "New" }]);
        },
        None,
    ),
    ("an empty text", |b| results(b).push(json!({ "type": "text", "text": "" })), None),
    // Diverges.
    ("another number", |b| output(b, "3 passed", "2 passed"), Some(Kind::ToolResult)),
    ("a line more", |b| output(b, "3 passed", "3 passed\nbye"), Some(Kind::ToolResult)),
    ("nothing printed", |b| results(b)[0]["content"] = json!(""), Some(Kind::ToolResult)),
    ("a failure", |b| results(b)[0]["is_error"] = json!(true), Some(Kind::ToolResult)),
    ("a result missing", |b| drop(results(b).pop()), Some(Kind::ToolResult)),
    ("a result of another call", |b| results(b)[0]["tool_use_id"] = json!("toolu_x"), Some(Kind::ToolResult)),
    (
        "results swapped",
        |b| {
            let id = results(b)[0]["tool_use_id"].take();
            results(b)[0]["tool_use_id"] = results(b)[1]["tool_use_id"].take();
            results(b)[1]["tool_use_id"] = id;
        },
        Some(Kind::ToolResult),
    ),
    (
        "a picture",
        |b| results(b).push(json!({ "type": "image", "source": { "data": "AA==" } })),
        Some(Kind::UserMessage),
    ),
    (
        "additional user message",
        |b| add(b, json!({ "role": "user", "content": "Faster!" })),
        Some(Kind::UserMessage),
    ),
    ("another prompt", |b| b["messages"][0]["content"] = json!("Break it."), Some(Kind::UnknownConversation)),
    (
        "a summary instead of the prompt",
        |b| b["messages"][0]["content"] = json!("This session is continued: …"),
        Some(Kind::UnknownConversation),
    ),
    ("changed model text", |b| model_blocks(b)[1]["text"] = json!("I think."), Some(Kind::ModelOutput)),
    ("a call of another id", |b| model_blocks(b)[2]["id"] = json!("toolu_x"), Some(Kind::ModelOutput)),
    ("a call of another tool", |b| model_blocks(b)[2]["name"] = json!("Sh"), Some(Kind::ModelOutput)),
    ("missing model text", |b| drop(model_blocks(b).remove(1)), Some(Kind::ModelOutput)),
    ("one message instead of a stream", |b| b["stream"] = json!(false), Some(Kind::StreamMode)),
    ("no conversation", |b| b["messages"] = json!("x"), Some(Kind::UnknownRequest)),
];

#[test]
fn changed_requests_match_or_diverge_as_expected() {
    let tape_dir = TapeDir::new();
    let tape = tape(&tape_dir);
    assert_eq!(tape.lanes().len(), 3, "{:#?}", tape.lanes());
    for (name, change, expected) in ROWS {
        let replayer = ReplayServer::start(&tape, ReplayOptions::default()).unwrap();
        assert_eq!(post(&replayer, &first()).body, tape.exchanges()[0].response_body(), "{name}");
        let mut body = second();
        change(&mut body);
        let response = post(&replayer, &body);
        let divergence = replayer.outcome().divergence;
        match expected {
            None => {
                assert!(divergence.is_none(), "{name}: {}", divergence.unwrap());
                assert_eq!(response.body, tape.exchanges()[1].response_body(), "{name}");
            }
            Some(kind) => {
                let divergence = divergence.unwrap_or_else(|| panic!("{name} matched: {}", response.text()));
                assert_eq!(divergence.kind, kind, "{name}: {divergence}");
                assert_eq!(response.status, Some(400), "{name}");
                assert!(!divergence.hint().is_empty() && !divergence.part.is_empty(), "{name}: {divergence}");
            }
        }
    }
}

#[test]
fn extra_and_missing_turns_and_conversations_are_detected() {
    let tape_dir = TapeDir::new();
    let tape = tape(&tape_dir);
    let mut third = second();
    add(&mut third, json!({ "role": "assistant", "content": "Well." }));
    add(&mut third, json!({ "role": "user", "content": "And?" }));
    let check = |name: &str, bodies: &[Value], expected: Option<Kind>, left: u64| {
        let replayer =
            ReplayServer::start(&tape, ReplayOptions::default().order_timeout(Duration::from_millis(20)))
                .unwrap();
        for body in bodies {
            post(&replayer, body);
        }
        let outcome = replayer.outcome();
        assert_eq!(outcome.divergence.map(|divergence| divergence.kind), expected, "{name}");
        assert_eq!(outcome.remaining, left, "{name}");
    };
    check("all in another order", &[counter(), first(), counter(), second()], None, 0);
    check("an equal conversation less", &[first(), second(), counter()], None, 1);
    check("an equal conversation more", &[counter(), counter(), counter()], Some(Kind::RepeatedRequest), 2);
    check("a turn more", &[first(), second(), third], Some(Kind::ExtraTurn), 2);
    // Turns match independently of each other.
    check("a turn left out", &[second()], None, 3);
    check("a turn twice", &[first(), second(), second()], Some(Kind::RepeatedRequest), 2);
}
