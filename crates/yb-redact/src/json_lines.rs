//! Redacts JSON lines as what they mean: strings are searched without their escapes, and texts that arrive in pieces, one per
//! line, are searched as a whole.
//!
//! A line is held back while its end may be the beginning of a secret: until the next piece decides it, or until a line that is
//! no piece arrives. Lines keep their number and order, and stay byte for byte if they hold no secret.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use crate::delta::{is_delta, is_label, may_be_delta, pieces};
use crate::scanner::Scanner;
use crate::secrets::{Data, Secrets, replace};
use crate::stream::StreamRedactor;

/// The longest line that is parsed; longer ones are searched as text.
const MAX_LINE: usize = if cfg!(test) { 1 << 17 } else { 1 << 20 };
/// The most bytes of lines that are held back.
const MAX_HELD: usize = 256 << 10;
/// The channel of lines that are no JSON.
const TEXT: &str = "text";

/// The redactor of a stream of JSON lines. Without secrets it passes everything through.
#[derive(Debug, Default)]
pub struct JsonLinesRedactor {
    secrets: Secrets,
    /// The line without its end.
    line: Vec<u8>,
    /// Redacts a line that is too long to be parsed.
    long_line: Option<StreamRedactor>,
    held: VecDeque<HeldLine>,
    held_bytes: usize,
    channels: HashMap<String, Scanner>,
}

/// A line that waits for the next piece.
#[derive(Debug)]
struct HeldLine {
    /// The bytes, with the line break.
    raw: Vec<u8>,
    /// `None` for text.
    message: Option<Value>,
    is_changed: bool,
    pieces: Vec<HeldPiece>,
}

#[derive(Debug)]
struct HeldPiece {
    channel: String,
    pointer: String,
    /// Its place in the text of the channel.
    from: u64,
    to: u64,
}

impl JsonLinesRedactor {
    /// Creates a redactor.
    #[must_use]
    pub fn new(secrets: Secrets) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Emits whole lines, except for those that depend on what follows.
    pub fn push(&mut self, mut chunk: &[u8], emit: &mut dyn FnMut(&[u8])) {
        if self.secrets.is_empty() {
            return emit(chunk);
        }
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            let (rest_of_line, rest) = chunk.split_at(end + 1);
            chunk = rest;
            if let Some(mut long) = self.long_line.take() {
                long.push(rest_of_line, emit);
                long.finish(emit);
                continue;
            }
            if self.line.is_empty() {
                self.take_line(rest_of_line, emit);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(rest_of_line);
                self.take_line(&line, emit);
            }
        }
        if let Some(long) = &mut self.long_line {
            return long.push(chunk, emit);
        }
        self.line.extend_from_slice(chunk);
        if self.line.len() > MAX_LINE {
            self.release_all(emit);
            let mut long = self.secrets.stream();
            long.push(&std::mem::take(&mut self.line), emit);
            self.long_line = Some(long);
        }
    }

    /// Emits everything that is held back, at the end of the stream.
    pub fn finish(&mut self, emit: &mut dyn FnMut(&[u8])) {
        if let Some(mut long) = self.long_line.take() {
            long.finish(emit);
        }
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, emit);
        }
        self.release_all(emit);
    }

    fn take_line(&mut self, line: &[u8], emit: &mut dyn FnMut(&[u8])) {
        let Some(data) = self.secrets.data().cloned() else { return emit(line) };
        let is_object = line.trim_ascii_start().starts_with(b"{");
        if is_object && !may_be_delta(line) {
            return self.whole_message(&data, line, emit);
        }
        match is_object.then(|| serde_json::from_slice::<Value>(line)) {
            Some(Ok(message)) if is_delta(&message) => self.hold_message(&data, line.to_vec(), message),
            Some(Ok(_)) => return self.whole_message(&data, line, emit),
            _ => self.hold_text(&data, line.to_vec()),
        }
        self.release_decided(&data, emit);
        if self.held_bytes > MAX_HELD {
            self.release_all(emit);
        }
    }

    /// A message without pieces. It may need an answer, so nothing before it is held back any longer.
    fn whole_message(&mut self, data: &Data, line: &[u8], emit: &mut dyn FnMut(&[u8])) {
        self.release_all(emit);
        let mut scanner = Scanner::default();
        scanner.scan(&data.automaton, line);
        if !scanner.is_touched {
            return emit(line);
        }
        match serde_json::from_slice::<Value>(line) {
            Ok(mut message) => {
                if self.secrets.redact_value(&mut message) {
                    emit(&with_line_break(message.to_string(), line));
                } else {
                    emit(line);
                }
            }
            Err(_) => emit(&self.secrets.redact_bytes(line)),
        }
    }

    fn hold_message(&mut self, data: &Data, raw: Vec<u8>, mut message: Value) {
        let is_changed = self.redact_labels(&mut message);
        let mut held = Vec::new();
        for piece in pieces(&message) {
            let text = message.pointer(&piece.pointer).and_then(Value::as_str).unwrap_or_default();
            let (from, to) = self.scan(data, &piece.channel, text.as_bytes());
            held.push(HeldPiece { channel: piece.channel, pointer: piece.pointer, from, to });
        }
        self.held_bytes += raw.len();
        self.held.push_back(HeldLine { raw, message: Some(message), is_changed, pieces: held });
    }

    /// Redacts the names of fields, and labels, which are no pieces.
    fn redact_labels(&self, value: &mut Value) -> bool {
        match value {
            Value::Object(fields) => {
                let inner = fields.iter_mut().fold(false, |any, (name, field)| match field {
                    Value::String(_) if is_label(name) => self.secrets.redact_value(field) | any,
                    field => self.redact_labels(field) | any,
                });
                self.secrets.redact_keys(fields) | inner
            }
            Value::Array(items) => items.iter_mut().fold(false, |any, item| self.redact_labels(item) | any),
            _ => false,
        }
    }

    fn hold_text(&mut self, data: &Data, raw: Vec<u8>) {
        let (from, to) = self.scan(data, TEXT, &raw);
        let piece = HeldPiece { channel: TEXT.to_owned(), pointer: String::new(), from, to };
        self.held_bytes += raw.len();
        self.held.push_back(HeldLine { raw, message: None, is_changed: false, pieces: vec![piece] });
    }

    /// Scans a piece and returns its place in the text of the channel.
    fn scan(&mut self, data: &Data, channel: &str, text: &[u8]) -> (u64, u64) {
        if !self.channels.contains_key(channel) {
            self.channels.insert(channel.to_owned(), Scanner::default());
        }
        let Some(scanner) = self.channels.get_mut(channel) else { return (0, 0) };
        let from = scanner.position;
        scanner.scan(&data.automaton, text);
        (from, scanner.position)
    }

    /// Emits the first lines that later ones can't change.
    fn release_decided(&mut self, data: &Data, emit: &mut dyn FnMut(&[u8])) {
        while let Some(line) = self.held.front() {
            let is_decided = line.pieces.iter().all(|piece| {
                self.channels.get(&piece.channel).is_none_or(|scanner| piece.to <= scanner.open_from())
            });
            if !is_decided {
                return;
            }
            self.release_first(data, emit);
        }
        self.forget_decided();
    }

    /// Emits all lines. What may still become a secret is replaced if it is long enough to be worth it.
    fn release_all(&mut self, emit: &mut dyn FnMut(&[u8])) {
        let Some(data) = self.secrets.data().cloned() else { return };
        if self.held.is_empty() {
            return;
        }
        for scanner in self.channels.values_mut() {
            scanner.add_beginnings(&data.automaton);
        }
        while !self.held.is_empty() {
            self.release_first(&data, emit);
        }
        self.forget_decided();
    }

    fn release_first(&mut self, data: &Data, emit: &mut dyn FnMut(&[u8])) {
        let Some(mut line) = self.held.pop_front() else { return };
        self.held_bytes -= line.raw.len();
        for piece in &line.pieces {
            let Some(scanner) = self.channels.get_mut(&piece.channel) else { continue };
            let is_hit =
                scanner.groups.iter().any(|group| group.from() < piece.to && group.to() > piece.from);
            if !is_hit {
                continue;
            }
            let mut out = Vec::new();
            let mut collect = |part: &[u8]| out.extend_from_slice(part);
            match &mut line.message {
                None => {
                    replace(data, &mut scanner.groups, &line.raw, piece.from, &mut collect);
                    line.raw = out;
                }
                Some(message) => {
                    if let Some(Value::String(text)) = message.pointer_mut(&piece.pointer) {
                        replace(data, &mut scanner.groups, text.as_bytes(), piece.from, &mut collect);
                        *text = String::from_utf8_lossy(&out).into_owned();
                        line.is_changed = true;
                    }
                }
            }
        }
        match line.message {
            Some(message) if line.is_changed => emit(&with_line_break(message.to_string(), &line.raw)),
            _ => emit(&line.raw),
        }
    }

    /// Drops what no later piece can refer to, when nothing is held back.
    fn forget_decided(&mut self) {
        self.channels.retain(|_, scanner| {
            let open = scanner.open_from();
            scanner.groups.retain(|group| group.to() > open);
            !scanner.is_at_rest()
        });
    }
}

/// Returns a rewritten line with the line break of the old one.
fn with_line_break(mut text: String, old: &[u8]) -> Vec<u8> {
    if old.ends_with(b"\n") {
        text.push('\n');
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "sk-ant-api03-AbCdEfGhIjKl";

    fn redactor() -> JsonLinesRedactor {
        JsonLinesRedactor::new(Secrets::new([("KEY", KEY)]))
    }

    fn run(lines: &[Value]) -> Vec<Value> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut out = Vec::new();
        let mut redactor = redactor();
        redactor.push(text.as_bytes(), &mut |part| out.extend_from_slice(part));
        redactor.finish(&mut |part| out.extend_from_slice(part));
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out.lines().count(), lines.len(), "{out}");
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn delta(index: u64, field: &str, text: &str) -> Value {
        json!({"type": "stream_event", "uuid": text.len(), "event": {"type": "content_block_delta", "index": index,
            "delta": {"type": format!("{field}_delta"), (field): text}}})
    }

    #[track_caller]
    fn check(lines: &[Value], expected: &[Value]) {
        let got = run(lines);
        for (got, expected) in got.iter().zip(expected) {
            assert_eq!(got.pointer("/event/delta"), expected.pointer("/event/delta"), "{got}");
        }
    }

    #[test]
    fn secret_across_deltas_is_replaced_where_it_begins() {
        check(
            &[
                delta(0, "text", "the key is sk-ant-"),
                delta(0, "text", "api03-AbCdEf"),
                delta(0, "text", "GhIjKl, ok"),
            ],
            &[delta(0, "text", "the key is [REDACTED:KEY]"), delta(0, "text", ""), delta(0, "text", ", ok")],
        );
    }

    #[test]
    fn interleaved_blocks_are_joined_separately() {
        check(
            &[
                delta(0, "thinking", "sk-ant-"),
                delta(1, "partial_json", r#"{"command":"echo \u0073k-ant-"#),
                delta(0, "thinking", "api03-AbCdEfGhIjKl!"),
                delta(1, "partial_json", r#"api03-AbCdEf\nGhIjKl"}"#),
            ],
            &[
                delta(0, "thinking", "[REDACTED:KEY]"),
                delta(1, "partial_json", r#"{"command":"echo [REDACTED:KEY]"#),
                delta(0, "thinking", "!"),
                delta(1, "partial_json", r#"\n"}"#),
            ],
        );
    }

    #[test]
    fn lines_without_secrets_are_kept_byte_for_byte_and_in_order() {
        let text = "{ \"b\": 1, \"a\": \"s\" }\nplain s\n{\"type\":\"x_delta\",\"delta\":\"sk-ant\"}\n\n{\"type\":\"y\"}\nend s";
        for size in 1..text.len() {
            let mut out = Vec::new();
            let mut redactor = redactor();
            for chunk in text.as_bytes().chunks(size) {
                redactor.push(chunk, &mut |part| out.extend_from_slice(part));
            }
            redactor.finish(&mut |part| out.extend_from_slice(part));
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn message_without_pieces_is_never_held_back() {
        let mut out = Vec::new();
        let mut redactor = redactor();
        let mut push = |line: &Value| {
            redactor.push(format!("{line}\n").as_bytes(), &mut |part| out.extend_from_slice(part));
            String::from_utf8_lossy(&out).into_owned()
        };
        assert_eq!(push(&delta(0, "text", "it is sk-ant-api03-AbCd")), "");
        let request = json!({"type": "control_request", "request_id": "1"});
        let seen = push(&request);
        assert!(seen.contains("it is [REDACTED:KEY]") && seen.contains("control_request"), "{seen}");
        let seen = push(&delta(0, "text", "EfGhIjKl, ok"));
        assert!(!seen.contains("EfGhIjKl") && seen.contains(", ok"), "{seen}");
        // A beginning that is too short to be worth it is emitted, and the rest is still found.
        push(&delta(1, "text", "sk-a"));
        let seen = push(&request);
        assert!(seen.contains("sk-a\""), "{seen}");
        let seen = push(&delta(1, "text", "nt-api03-AbCdEfGhIjKl."));
        assert!(!seen.contains("AbCdEfGh") && seen.contains("[REDACTED:KEY]."), "{seen}");
    }

    #[test]
    fn strings_keys_labels_and_ends_of_snapshots_are_redacted() {
        let got = run(&[
            json!({"type": "item", "text": format!("a {KEY}"), (KEY): 1}),
            json!({"type": "item.updated", "output": "so far: sk-ant-api03-AbC"}),
            json!({"type": "x_delta", "id": KEY, "delta": "x", (KEY): "y"}),
            json!({"type": "item", "text": "c2stYW50LWFwaTAzLUFiQ2RFZkdoSWpLbA=="}),
        ]);
        assert_eq!(got[0], json!({"type": "item", "text": "a [REDACTED:KEY]", "[REDACTED:KEY]": 1}));
        assert_eq!(got[1]["output"], "so far: [REDACTED:KEY]");
        assert_eq!(
            got[2],
            json!({"type": "x_delta", "id": "[REDACTED:KEY]", "delta": "x", "[REDACTED:KEY]": "y"})
        );
        assert_eq!(got[3]["text"], "[REDACTED:KEY]A==");
    }

    #[test]
    fn long_line_is_searched_as_text() {
        let line = format!("{{\"a\":\"{}{KEY}\"}}\n{{\"b\":\"{KEY}\"}}\n", "x".repeat(MAX_LINE));
        let mut out = Vec::new();
        let mut redactor = redactor();
        for chunk in line.as_bytes().chunks(1 << 14) {
            redactor.push(chunk, &mut |part| out.extend_from_slice(part));
        }
        redactor.finish(&mut |part| out.extend_from_slice(part));
        assert!(out.ends_with(b"x[REDACTED:KEY]\"}\n{\"b\":\"[REDACTED:KEY]\"}\n"));
    }
}
