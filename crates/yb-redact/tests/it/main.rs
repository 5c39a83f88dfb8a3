//! Random secrets, cut at random places, through every wire: no run of 8 characters of them is left.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};
use yb_redact::{JsonLinesRedactor, MIN_LENGTH, Secrets};

/// A message with a piece of a text, and the message after the last one.
struct Wire {
    name: &'static str,
    piece: fn(&str) -> Value,
    end: fn() -> Value,
}

const WIRES: [Wire; 9] = [
    Wire { name: "claude text", piece: |text| claude("text", text), end: stop },
    Wire { name: "claude thinking", piece: |text| claude("thinking", text), end: stop },
    Wire { name: "claude tool input", piece: |text| claude("partial_json", text), end: stop },
    Wire {
        name: "gemini",
        piece: |text| json!({"type": "message", "role": "assistant", "content": text, "delta": true}),
        end: || json!({"type": "result", "status": "success"}),
    },
    Wire {
        name: "acp",
        piece: |text| acp("agent_message_chunk", text),
        end: || json!({"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}),
    },
    Wire {
        name: "acp thoughts",
        piece: |text| acp("agent_thought_chunk", text),
        end: || json!({"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}),
    },
    Wire {
        name: "copilot",
        piece: |text| json!({"type": "assistant.message_delta", "data": {"messageId": "m", "deltaContent": text}}),
        end: || json!({"type": "result"}),
    },
    Wire {
        name: "responses API",
        piece: |text| json!({"type": "response.output_text.delta", "item_id": "i", "delta": text}),
        end: || json!({"type": "response.completed"}),
    },
    Wire {
        name: "chat API",
        piece: |text| json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
        end: || json!({"choices": [{"index": 0, "finish_reason": "stop"}]}),
    },
];

type Snapshot = fn(&str) -> Value;

/// Messages that hold a whole text.
const SNAPSHOTS: [(&str, Snapshot); 5] = [
    ("opencode text", |text| {
        opencode("text", &json!({"type": "text", "text": text, "time": {"start": 1, "end": 2}}))
    }),
    ("opencode reasoning", |text| opencode("reasoning", &json!({"type": "reasoning", "text": text}))),
    ("opencode tool", |text| {
        let state = json!({"status": "completed", "input": {"command": text}, "output": text, "title": text,
            "metadata": {"output": text, "exit": 0}});
        opencode("tool_use", &json!({"type": "tool", "callID": "c", "tool": "bash", "state": state}))
    }),
    ("opencode error", |text| {
        json!({"type": "error", "timestamp": 1, "sessionID": "s",
            "error": {"name": "APIError", "data": {"message": text, "responseBody": text}}})
    }),
    (
        "codex item",
        |text| json!({"type": "item.updated", "item": {"id": "1", "type": "command_execution", "aggregated_output": text}}),
    ),
];

fn opencode(kind: &str, part: &Value) -> Value {
    json!({"type": kind, "timestamp": 1, "sessionID": "s", "part": part})
}

fn claude(field: &str, text: &str) -> Value {
    json!({"type": "stream_event", "session_id": "s", "parent_tool_use_id": null, "uuid": text.len(),
        "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "x_delta", (field): text}}})
}

fn stop() -> Value {
    json!({"type": "stream_event", "event": {"type": "content_block_stop", "index": 0}})
}

fn acp(kind: &str, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s",
        "update": {"sessionUpdate": kind, "content": {"type": "text", "text": text}}}})
}

/// How a text says a secret.
#[derive(Debug, Clone)]
enum Form {
    Literal,
    Folded(usize),
    /// As a JSON string, with some characters as `\uXXXX`.
    Escaped(Vec<bool>),
    Hex,
    Percent,
}

impl Form {
    fn apply(&self, secret: &str) -> String {
        match self {
            Self::Literal => secret.to_owned(),
            Self::Folded(width) => {
                let letters: Vec<char> = secret.chars().collect();
                let lines: Vec<String> = letters.chunks(*width).map(|line| line.iter().collect()).collect();
                lines.join("\n")
            }
            Self::Escaped(which) => {
                let one = |(letter, escaped): (char, &bool)| {
                    if *escaped {
                        format!("\\u{:04x}", u32::from(letter))
                    } else {
                        json!(letter.to_string()).as_str().map_or_else(String::new, escape)
                    }
                };
                secret.chars().zip(which.iter().cycle()).map(one).collect()
            }
            Self::Hex => secret.bytes().map(|byte| format!("{byte:02x}")).collect(),
            Self::Percent => {
                secret
                    .bytes()
                    .map(|b| {
                        if b.is_ascii_alphanumeric() {
                            char::from(b).to_string()
                        } else {
                            format!("%{b:02X}")
                        }
                    })
                    .collect()
            }
        }
    }
}

/// Escapes a text as in a JSON string, without the quotes.
fn escape(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![
        Just(Form::Literal),
        (1_usize..12).prop_map(Form::Folded),
        proptest::collection::vec(any::<bool>(), 1..6).prop_map(Form::Escaped),
        Just(Form::Hex),
        Just(Form::Percent),
    ]
}

fn secret() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_/+=.-]{12,60}"
}

fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (letters.len() + 1)).collect();
    cuts.extend([0, letters.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| letters[pair[0]..pair[1]].iter().collect()).collect()
}

/// Returns a run of 8 characters of the secret in a text.
fn leak<'s>(text: &str, secret: &'s str) -> Option<&'s str> {
    let starts = 0..=secret.len() - MIN_LENGTH;
    starts.map(|at| &secret[at..at + MIN_LENGTH]).find(|part| text.contains(part))
}

fn run_lines(secrets: &Secrets, text: &str, chunk: usize) -> String {
    let mut out = Vec::new();
    let mut redactor = JsonLinesRedactor::new(secrets.clone());
    for chunk in text.as_bytes().chunks(chunk) {
        redactor.push(chunk, &mut |part| out.extend_from_slice(part));
    }
    redactor.finish(&mut |part| out.extend_from_slice(part));
    String::from_utf8_lossy(&out).into_owned()
}

proptest! {
    #![proptest_config(Config { cases: 200, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..Config::default() })]

    #[test]
    fn secret_in_pieces_is_on_no_wire(
        secret in secret(),
        form in form(),
        wire in 0..WIRES.len(),
        cuts in proptest::collection::vec(0_usize..200, 0..12),
        interrupted in any::<bool>(),
        chunk in 1_usize..300,
    ) {
        let secrets = Secrets::new([("KEY", secret.as_str())]);
        let wire = &WIRES[wire];
        let said = form.apply(&secret);
        let pieces = pieces(&format!("the key is {said} as you know"), &cuts);
        let mut lines: Vec<Value> = pieces.iter().map(|piece| (wire.piece)(piece)).collect();
        if interrupted {
            // A message in between forces everything before it out.
            lines.insert(lines.len() / 2, json!({"type": "system", "subtype": "status"}));
        }
        lines.push((wire.end)());
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let clean = run_lines(&secrets, &text, chunk);
        prop_assert_eq!(clean.lines().count(), lines.len());
        // What a reader of the frames puts together again.
        let joined: String = clean
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|message| strings(&message))
            .collect();
        for (what, text) in [("lines", &clean), ("text", &joined)] {
            // Up to 7 characters may be out before an interruption, in more bytes if they are escaped.
            if !interrupted {
                prop_assert_eq!(leak(text, &said), None, "{} {}: {}", wire.name, what, text);
            }
            prop_assert_eq!(leak(text, &secret), None, "{} {}: {}", wire.name, what, text);
            prop_assert!(text.contains("[REDACTED:KEY]"), "{} {}: {}", wire.name, what, text);
        }
    }

    /// Each message has the whole text, or all of it so far, which may end within the secret.
    #[test]
    fn secret_in_snapshots_is_on_no_wire(
        secret in secret(),
        folded in proptest::option::of(1_usize..12),
        wire in 0..SNAPSHOTS.len(),
        cuts in proptest::collection::vec(0_usize..200, 0..12),
        chunk in 1_usize..300,
    ) {
        let secrets = Secrets::new([("KEY", secret.as_str())]);
        let (name, snapshot) = SNAPSHOTS[wire];
        let said = folded.map_or(Form::Literal, Form::Folded).apply(&secret);
        let whole = format!("the key is {said} as you know");
        let mut so_far = String::new();
        let snapshots = pieces(&whole, &cuts).into_iter().map(|piece| {
            so_far.push_str(&piece);
            format!("{}\n", snapshot(&so_far))
        });
        let clean = run_lines(&secrets, &snapshots.collect::<String>(), chunk);
        let texts: Vec<String> =
            clean.lines().map(|line| all_strings(&serde_json::from_str::<Value>(line).unwrap())).collect();
        for text in texts.iter().chain([&clean]) {
            let unfolded = text.replace(char::is_whitespace, "");
            prop_assert_eq!(leak(text, &secret).or(leak(&unfolded, &secret)), None, "{}: {}", name, text);
        }
        prop_assert!(texts.last().unwrap().contains("[REDACTED:KEY]"), "{}: {:?}", name, texts.last());
    }

    #[test]
    fn secret_in_chunks_of_text_is_replaced(
        secret in secret(),
        form in form(),
        cuts in proptest::collection::vec(0_usize..200, 0..12),
    ) {
        let secrets = Secrets::new([("KEY", secret.as_str())]);
        let said = form.apply(&secret);
        let mut out = Vec::new();
        let mut redactor = secrets.stream();
        for piece in pieces(&format!("the key is {said} as you know\n"), &cuts) {
            redactor.push(piece.as_bytes(), &mut |part| out.extend_from_slice(part));
        }
        redactor.finish(&mut |part| out.extend_from_slice(part));
        let text = String::from_utf8(out).unwrap();
        prop_assert_eq!(leak(&text, &said), None, "{}", text);
        prop_assert_eq!(leak(&text, &secret), None, "{}", text);
        prop_assert!(text.starts_with("the key is ") && text.ends_with(" as you know\n"), "{}", text);
    }

    #[test]
    fn base64_of_a_text_with_a_secret_has_no_part_of_it(
        secret in secret(),
        before in "[a-z]{0,5}",
        after in "[a-z]{0,5}",
    ) {
        let secrets = Secrets::new([("KEY", secret.as_str())]);
        let said = base64(format!("{before}{secret}{after}").as_bytes());
        let text = secrets.redact(&said).into_owned();
        prop_assert!(text.contains("[REDACTED:KEY]"), "{} {}", said, text);
        let kept: String = text.replace("[REDACTED:KEY]", "");
        // The digits around it also hold bits of their neighbors.
        prop_assert!(kept.len() <= before.len() * 4 / 3 + after.len() * 4 / 3 + 8, "{} {}", said, text);
    }
}

/// Joins all strings of a message that may hold a piece.
fn all_strings(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(all_strings).collect(),
        Value::Object(fields) => fields.values().map(all_strings).collect(),
        _ => String::new(),
    }
}

fn strings(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(strings).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| {
                [
                    "text",
                    "thinking",
                    "partial_json",
                    "content",
                    "deltaContent",
                    "delta",
                    "data",
                    "event",
                    "params",
                    "update",
                    "choices",
                ]
                .contains(&name.as_str())
            })
            .map(|(_, field)| strings(field))
            .collect(),
        _ => String::new(),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            out.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    out
}
