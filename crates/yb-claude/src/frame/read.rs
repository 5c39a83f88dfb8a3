//! Parses complete outputs: every output format gives the same list of messages.

use serde_json::value::RawValue;

use super::framer::{Frame, Framer};
use super::message::Message;

/// Parses the output of `--output-format stream-json`: one message per line.
#[must_use]
pub fn read_stream(output: &[u8]) -> Vec<Frame> {
    let mut framer = Framer::new();
    framer.push(output);
    framer.end();
    framer.collect()
}

/// Parses the output of `--output-format json`: one message, or with `--verbose` a list of all messages.
///
/// Other lines around the JSON are skipped, and stream output is accepted, too.
#[must_use]
pub fn read_json(output: &[u8]) -> Vec<Frame> {
    if let Some(messages) = document(output) {
        return messages.into_iter().map(Frame::Message).collect();
    }
    let mut frames = Vec::new();
    let mut framer = Framer::new();
    for line in output.split_inclusive(|byte| *byte == b'\n') {
        if let Some(messages) = list(line) {
            frames.extend(messages.into_iter().map(Frame::Message));
            framer.push(b"\n");
        } else {
            framer.push(line);
        }
        frames.extend(framer.by_ref());
    }
    framer.end();
    frames.extend(framer);
    frames
}

/// Parses one JSON document, which may span several lines.
fn document(output: &[u8]) -> Option<Vec<Message>> {
    match output.trim_ascii_start().first()? {
        b'{' => Message::parse(output).ok().map(|message| vec![message]),
        b'[' => list(output),
        _ => None,
    }
}

/// Parses a list that contains only messages.
fn list(text: &[u8]) -> Option<Vec<Message>> {
    if text.trim_ascii_start().first() != Some(&b'[') {
        return None;
    }
    let elements: Vec<&RawValue> = serde_json::from_slice(text).ok()?;
    elements.into_iter().map(|element| Message::parse(element.get().as_bytes()).ok()).collect()
}
