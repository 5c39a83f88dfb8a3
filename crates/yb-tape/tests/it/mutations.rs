//! Requests that changed since the recording, as data: each gets its recorded answer by the rules, or is named.

use std::time::Duration;

use serde_json::{Value, json};
use yb_tape::DivergenceKind as Kind;
use yb_tape::{Recorder, ReplayOptions, Replayer, Tape};

use crate::client::{post, start};
use crate::recording::Shelf;

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

fn tape(shelf: &Shelf) -> Tape {
    let model = start(SCRIPT);
    let recorder = Recorder::start(shelf.options(&model).place("workspace", "/w/old")).unwrap();
    for body in [first(), second(), counter(), counter()] {
        assert_eq!(post(&recorder, &body).status, Some(200));
    }
    recorder.finish().unwrap();
    Tape::open(shelf.path()).unwrap()
}

/// A change to the second request, and what it is called; nothing when it is the same by the rules.
type Row = (&'static str, fn(&mut Value), Option<Kind>);

fn results(body: &mut Value) -> &mut Vec<Value> {
    body["messages"][2]["content"].as_array_mut().unwrap()
}

fn spoken(body: &mut Value) -> &mut Vec<Value> {
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
    // The same by the rules.
    ("as it was", |_| {}, None),
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
    ("thinking left out", |b| drop(spoken(b).remove(0)), None),
    (
        "answers in two messages",
        |b| {
            let last = spoken(b).pop().unwrap();
            b["messages"]
                .as_array_mut()
                .unwrap()
                .insert(2, json!({ "role": "assistant", "content": [last] }));
        },
        None,
    ),
    ("a cache mark", |b| results(b)[1]["cache_control"] = json!({ "type": "ephemeral" }), None),
    ("a text as a list", |b| results(b)[0]["content"] = json!([{ "type": "text", "text": OUTPUT }]), None),
    (
        "the input of a call in other words",
        |b| spoken(b)[2]["input"] = json!({ "command": "ls", "timeout": 1 }),
        None,
    ),
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
    // Something else.
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
        Some(Kind::UserPart),
    ),
    ("a word of the user", |b| add(b, json!({ "role": "user", "content": "Faster!" })), Some(Kind::UserPart)),
    ("another prompt", |b| b["messages"][0]["content"] = json!("Break it."), Some(Kind::UnknownConversation)),
    (
        "a summary instead of the prompt",
        |b| b["messages"][0]["content"] = json!("This session is continued: …"),
        Some(Kind::UnknownConversation),
    ),
    ("another answer", |b| spoken(b)[1]["text"] = json!("I think."), Some(Kind::OtherAnswers)),
    ("a call of another id", |b| spoken(b)[2]["id"] = json!("toolu_x"), Some(Kind::OtherAnswers)),
    ("a call of another tool", |b| spoken(b)[2]["name"] = json!("Sh"), Some(Kind::OtherAnswers)),
    ("an answer left out", |b| drop(spoken(b).remove(1)), Some(Kind::OtherAnswers)),
    ("one message instead of a stream", |b| b["stream"] = json!(false), Some(Kind::OtherForm)),
    ("no conversation", |b| b["messages"] = json!("x"), Some(Kind::UnknownRequest)),
];

#[test]
fn each_changed_request_gets_its_answer_by_the_rules_or_is_named() {
    let shelf = Shelf::new();
    let tape = tape(&shelf);
    assert_eq!(tape.lanes().len(), 3, "{:#?}", tape.lanes());
    for (name, change, named) in ROWS {
        let replayer = Replayer::start(&tape, ReplayOptions::default()).unwrap();
        assert_eq!(post(&replayer, &first()).body, tape.exchanges()[0].response_body(), "{name}");
        let mut body = second();
        change(&mut body);
        let answer = post(&replayer, &body);
        let divergence = replayer.outcome().divergence;
        match named {
            None => {
                assert!(divergence.is_none(), "{name}: {}", divergence.unwrap());
                assert_eq!(answer.body, tape.exchanges()[1].response_body(), "{name}");
            }
            Some(kind) => {
                let divergence =
                    divergence.unwrap_or_else(|| panic!("{name} is answered: {}", answer.text()));
                assert_eq!(divergence.kind, kind, "{name}: {divergence}");
                assert_eq!(answer.status, Some(400), "{name}");
                assert!(!divergence.hint().is_empty() && !divergence.part.is_empty(), "{name}: {divergence}");
            }
        }
    }
}

#[test]
fn a_conversation_more_a_turn_more_and_a_turn_left_out_are_noticed() {
    let shelf = Shelf::new();
    let tape = tape(&shelf);
    let mut third = second();
    add(&mut third, json!({ "role": "assistant", "content": "Well." }));
    add(&mut third, json!({ "role": "user", "content": "And?" }));
    let check = |name: &str, bodies: &[Value], named: Option<Kind>, left: u64| {
        let replayer =
            Replayer::start(&tape, ReplayOptions::default().patience(Duration::from_millis(20))).unwrap();
        for body in bodies {
            post(&replayer, body);
        }
        let outcome = replayer.outcome();
        assert_eq!(outcome.divergence.map(|divergence| divergence.kind), named, "{name}");
        assert_eq!(outcome.left, left, "{name}");
    };
    check("all in another order", &[counter(), first(), counter(), second()], None, 0);
    check("an equal conversation less", &[first(), second(), counter()], None, 1);
    check("an equal conversation more", &[counter(), counter(), counter()], Some(Kind::AskedAgain), 2);
    check("a turn more", &[first(), second(), third], Some(Kind::ExtraTurn), 2);
    // It is on the tape, whoever may have answered the first.
    check("a turn left out", &[second()], None, 3);
    check("a turn twice", &[first(), second(), second()], Some(Kind::AskedAgain), 2);
}
