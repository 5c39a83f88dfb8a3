//! The framer: independent of chunk boundaries, with bounded memory.

use proptest::prelude::*;
use yb_claude::frame::{SkipReason, SkippedLine};
use yb_claude::{Frame, FrameError, Framer, Message, read_json, read_stream};

fn in_chunks(bytes: &[u8], sizes: &[usize], limit: usize) -> Vec<Frame> {
    let mut framer = Framer::with_limit(limit);
    let mut frames = Vec::new();
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at((*size).min(rest.len()));
        framer.push(chunk);
        frames.extend(framer.by_ref());
        rest = after;
    }
    framer.end();
    frames.extend(framer);
    frames
}

fn show(frames: &[Frame]) -> Vec<String> {
    let show = |frame: &Frame| match frame {
        Frame::Message(message) => format!("message {}", message.kind()),
        Frame::Skipped(SkippedLine { line, bytes, excerpt, reason, .. }) => {
            format!("{reason:?} {line} ({bytes}) {excerpt}")
        }
        Frame::Failed(error) => error.to_string(),
        frame => format!("{frame:?}"),
    };
    frames.iter().map(show).collect()
}

fn check(output: &str, expected: &[&str]) {
    assert_eq!(show(&read_stream(output.as_bytes())), expected, "{output:?}");
    for size in 1..6 {
        assert_eq!(show(&in_chunks(output.as_bytes(), &[size], 1 << 20)), expected, "{output:?} by {size}");
    }
}

#[test]
fn framer_accepts_lf_and_crlf_and_ignores_blank_lines() {
    check("", &[]);
    check("\n\r\n  \n", &[]);
    check("{\"type\":\"user\"}\n\n{\"type\":\"result\"}\r\n", &["message user", "message result"]);
    check(" {\"type\":\"user\"} \n", &["message user"]);
}

#[test]
fn non_json_lines_are_skipped_and_counted() {
    check(
        "[SandboxDebug] x\n{\"type\":\"user\"}\nwarning: ü\n\"text\"\n5\n",
        &[
            "NotJson 1 (16) [SandboxDebug] x",
            "message user",
            "NotJson 3 (11) warning: ü",
            "NotJson 4 (6) \"text\"",
            "NotJson 5 (1) 5",
        ],
    );
}

#[test]
fn malformed_object_is_an_error_and_stream_continues() {
    check(
        "{\"type\":\"user\"\n{\"type\":\"result\"}\n{bad}\n",
        &[
            "line 1 of the output is malformed (EOF while parsing an object at line 1 column 14): `{\"type\":\"user\"`",
            "message result",
            "line 3 of the output is malformed (key must be a string at line 1 column 2): `{bad}`",
        ],
    );
}

#[test]
fn trailing_characters_and_bad_utf8_are_malformed() {
    let frames = read_stream(b"{\"type\":\"user\"}x\n{\"type\":\"us\xff\"}\n");
    assert!(
        frames.iter().all(|frame| matches!(frame, Frame::Failed(FrameError::Malformed { .. }))),
        "{frames:?}"
    );
    assert_eq!(frames.len(), 2);
}

#[test]
fn complete_last_line_needs_no_newline() {
    check("{\"type\":\"user\"}\n{\"type\":\"result\"}", &["message user", "message result"]);
    check("{\"type\":\"user\"}\n{\"type\":\"res", &["message user", "Truncated 2 (12) {\"type\":\"res"]);
    check("bye", &["NotJson 1 (3) bye"]);
}

#[test]
fn line_limit_applies_per_line() {
    let long = format!("{{\"type\":\"user\",\"x\":\"{}\"}}\n", "ä".repeat(100));
    let output = format!(
        "{{\"type\":\"user\"}}\n{long}{{\"type\":\"result\"}}\n{}\n{{\"type\":\"keep_alive\"}}",
        "z".repeat(90)
    );
    for sizes in [&[1][..], &[7], &[1000], &[3, 50]] {
        let frames = show(&in_chunks(output.as_bytes(), sizes, 40));
        assert_eq!(
            frames,
            [
                "message user",
                "line 2 of the output is longer than the limit of 40 bytes: `{\"type\":\"user\",\"x\":\"ääääääääää`",
                "message result",
                &format!("NotJson 4 (90) {}", "z".repeat(40)),
                "message keep_alive",
            ]
        );
    }
}

#[test]
fn line_of_limit_length_is_accepted() {
    let line = "{\"type\":\"user\"}";
    let exact = in_chunks(format!("{line}\n").as_bytes(), &[4], line.len());
    assert_eq!(show(&exact), ["message user"]);
    let short = in_chunks(format!("{line}\n").as_bytes(), &[4], line.len() - 1);
    assert!(
        matches!(short[..], [Frame::Failed(FrameError::TooLong { line: 1, limit: 14, .. })]),
        "{short:?}"
    );
}

#[test]
fn endless_line_uses_bounded_memory() {
    let mut framer = Framer::with_limit(1 << 16);
    let mut frames = Vec::new();
    for chunk in [b'{', b'x'] {
        for _ in 0..200 {
            framer.push(&[chunk; 1 << 16]);
            frames.extend(framer.by_ref());
            assert!(
                format!("{framer:?}").len() < 1 << 21,
                "the buffer holds one chunk and the limit at most"
            );
        }
        framer.push(b"\n");
        frames.extend(framer.by_ref());
    }
    let [Frame::Failed(FrameError::TooLong { .. }), Frame::Skipped(skipped)] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert_eq!((skipped.bytes, skipped.reason, skipped.excerpt.len()), (200 << 16, SkipReason::NotJson, 200));
    assert_eq!(framer.lines(), 2);
}

#[test]
fn json_output_is_parsed_in_all_layouts() {
    let check = |output: &str, expected: &[&str]| {
        assert_eq!(show(&read_json(output.as_bytes())), expected, "{output:?}");
    };
    check("", &[]);
    check("{\"type\":\"result\"}\n", &["message result"]);
    check("{\n  \"type\": \"result\"\n}\n", &["message result"]);
    check("[{\"type\":\"system\"},{\"type\":\"result\"}]\n", &["message system", "message result"]);
    check("[\n {\"type\":\"system\"},\n {\"type\":\"result\"}\n]", &["message system", "message result"]);
    check(
        "note\n[{\"type\":\"system\"}]\n{\"type\":\"result\"}",
        &["NotJson 1 (4) note", "message system", "message result"],
    );
    check("[debug] x\n{\"type\":\"result\"}\n", &["NotJson 1 (9) [debug] x", "message result"]);
    check("[1,2]\n", &["NotJson 1 (5) [1,2]"]);
    check("{\"type\":\"res", &["Truncated 1 (12) {\"type\":\"res"]);
}

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"{\"type\":\"user\",\"message\":{\"content\":\"\xc3\xa4\xf0\x9f\x98\x80\"}}".to_vec()),
        Just(b"{\"subtype\":\"success\",\"type\":\"result\"}\r".to_vec()),
        Just(b"{\"cut\":".to_vec()),
        Just(b"[SandboxDebug] \xe2\x82\xac".to_vec()),
        Just(Vec::new()),
        proptest::collection::vec(any::<u8>(), 0..60),
        "[{}\\[\\]\",:a-c0-9\\\\ \n]{0,40}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn chunk_boundaries_do_not_change_frames(
        lines in proptest::collection::vec(any_line(), 0..12),
        ended in any::<bool>(),
        sizes in proptest::collection::vec(1usize..40, 1..8),
        limit in prop_oneof![Just(1usize << 20), 1usize..80],
    ) {
        let mut bytes = lines.join(&b'\n');
        if ended {
            bytes.push(b'\n');
        }
        let whole = in_chunks(&bytes, &[usize::MAX], limit);
        prop_assert_eq!(&whole, &in_chunks(&bytes, &sizes, limit));
        prop_assert_eq!(&whole, &in_chunks(&bytes, &[1], limit));
    }

    #[test]
    fn any_json_object_is_a_message(json in any_object()) {
        let message = Message::parse(json.as_bytes());
        prop_assert!(message.is_ok(), "{json}: {message:?}");
        let message = message.unwrap();
        prop_assert_eq!(message.raw().as_str(), json.as_str());
        let mut summary = yb_claude::RunSummary::new();
        summary.observe(&message);
    }
}

/// Objects with the keys of the protocol and values of every type.
fn any_object() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        Just("type"),
        Just("subtype"),
        Just("message"),
        Just("content"),
        Just("usage"),
        Just("modelUsage"),
        Just("result"),
        Just("is_error"),
        Just("id"),
        Just("name"),
        Just("input"),
        Just("tool_use_id"),
        Just("event"),
        Just("delta"),
        Just("num_turns"),
        Just("errors"),
        Just("text"),
        Just("request"),
        Just("x"),
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-1".to_owned()),
        Just("1.5e300".to_owned()),
        Just("18446744073709551616".to_owned()),
        Just("\"\\ud83d\"".to_owned()),
        Just("1e999".to_owned()),
        prop_oneof![
            Just("assistant"),
            Just("user"),
            Just("result"),
            Just("system"),
            Just("init"),
            Just("text"),
            Just("tool_use"),
            Just("tool_result"),
            Just("stream_event"),
            Just("content_block_delta"),
            Just("text_delta"),
            Just("success"),
            Just("control_request"),
            Just("control_response"),
            Just("api_retry"),
            Just("web_search_tool_result"),
        ]
        .prop_map(|word| format!("\"{word}\"")),
    ];
    let value = leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((key.clone(), inner), 0..5).prop_map(object),
        ]
    });
    let types = prop_oneof![
        Just("assistant"),
        Just("user"),
        Just("result"),
        Just("system"),
        Just("stream_event"),
        Just("control_request"),
    ];
    (
        types,
        proptest::collection::vec(
            (
                prop_oneof![
                    Just("message"),
                    Just("content"),
                    Just("event"),
                    Just("subtype"),
                    Just("modelUsage"),
                    Just("usage"),
                    Just("request"),
                    Just("result")
                ],
                value,
            ),
            0..5,
        ),
        any::<bool>(),
    )
        .prop_map(|(kind, mut fields, first)| {
            let at = if first { 0 } else { fields.len() };
            fields.insert(at, ("type", format!("\"{kind}\"")));
            object(fields)
        })
}

fn object(fields: Vec<(&'static str, String)>) -> String {
    let fields: Vec<_> = fields.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}
