//! Replaces texts in a recorded response, including texts that span stream events, and preserves chunk boundaries.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::replace::TextReplacer;
use crate::sse;

/// For each chunk of a body: the pause before it in microseconds, and its length in bytes.
pub(crate) type ChunkLayout = Vec<(u64, u64)>;

/// Returns body and chunk layout with the texts replaced, or `None` when nothing changes.
pub(crate) fn rewrite(
    body: &[u8],
    chunks: &ChunkLayout,
    replacer: &TextReplacer,
) -> Option<(Vec<u8>, ChunkLayout)> {
    if replacer.is_empty() {
        return None;
    }
    // Of a key that occurs twice, a parsed value has only the last; the text of the others is dropped with them.
    let is_in_text = |raw: &[u8]| matches!(replacer.replace(&String::from_utf8_lossy(raw)), Cow::Owned(_));
    if let Ok(mut whole) = serde_json::from_slice::<Value>(body) {
        if !replacer.replace_in_value(&mut whole) && !is_in_text(body) {
            return None;
        }
        let changed = whole.to_string().into_bytes();
        let chunks = resize_chunks(chunks, &[(body.len(), changed.len())]);
        return Some((changed, chunks));
    }
    let events = sse::split_events(body);
    let mut values: Vec<Option<Value>> =
        events.iter().map(|event| serde_json::from_str(&event.data()?).ok()).collect();
    let mut changed = replace_in_events(&mut values, replacer);
    for ((event, value), changed) in events.iter().zip(&values).zip(&mut changed) {
        *changed |= value.is_some() && is_in_text(event.raw());
    }
    // An error page, a response that was cut: no JSON, so its text is replaced as it is.
    let texts: Vec<Option<String>> = events
        .iter()
        .zip(&values)
        .map(|(event, value)| match replacer.replace(&String::from_utf8_lossy(event.raw())) {
            Cow::Owned(text) if value.is_none() => Some(text),
            _ => None,
        })
        .collect();
    if !changed.contains(&true) && texts.iter().all(Option::is_none) {
        return None;
    }
    let mut out = Vec::with_capacity(body.len());
    let mut lengths = Vec::with_capacity(events.len());
    for (((event, value), text), changed) in events.iter().zip(&values).zip(texts).zip(changed) {
        let before = out.len();
        match (value, text) {
            (Some(value), _) if changed => out.extend_from_slice(&event.with_data(&value.to_string())),
            (_, Some(text)) => out.extend_from_slice(text.as_bytes()),
            _ => out.extend_from_slice(event.raw()),
        }
        lengths.push((event.raw().len(), out.len() - before));
    }
    let chunks = resize_chunks(chunks, &lengths);
    Some((out, chunks))
}

/// Returns for each event whether it changed.
fn replace_in_events(values: &mut [Option<Value>], replacer: &TextReplacer) -> Vec<bool> {
    let mut changed = vec![false; values.len()];
    let mut channels: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for (index, value) in values.iter().enumerate() {
        if let Some((channel, pointer)) = value.as_ref().and_then(delta) {
            channels.entry(channel).or_default().push((index, pointer));
        }
    }
    let mut deltas: BTreeMap<usize, (String, String)> = BTreeMap::new();
    for members in channels.into_values() {
        let mut texts: Vec<String> = members
            .iter()
            .map(|(index, pointer)| {
                let text = values[*index].as_mut().and_then(|value| value.pointer_mut(pointer));
                // Taken out, so that replacements are not searched again.
                match text {
                    Some(Value::String(text)) => std::mem::take(text),
                    _ => String::new(),
                }
            })
            .collect();
        let before = texts.clone();
        replacer.replace_in_chunks(&mut texts);
        for (((index, pointer), text), before) in members.into_iter().zip(texts).zip(before) {
            changed[index] |= text != before;
            deltas.insert(index, (pointer, text));
        }
    }
    for (index, value) in values.iter_mut().enumerate() {
        let Some(value) = value else { continue };
        changed[index] |= replacer.replace_in_value(value);
        if let Some((pointer, text)) = deltas.remove(&index)
            && let Some(slot) = value.pointer_mut(&pointer)
        {
            *slot = Value::String(text);
        }
    }
    changed
}

/// Returns the channel of a delta event and the JSON pointer of its text. Deltas of one channel form one text.
fn delta(event: &Value) -> Option<(String, String)> {
    let here = |pointer: &str| event.pointer(pointer).is_some_and(Value::is_string);
    let text = |pointer: &str| event.pointer(pointer).map(Value::to_string).unwrap_or_default();
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "content_block_delta" {
        let field = ["text", "partial_json", "thinking"]
            .into_iter()
            .map(|field| format!("/delta/{field}"))
            .find(|pointer| here(pointer))?;
        return Some((format!("{} {field}", text("/index")), field));
    }
    if kind.ends_with(".delta") && here("/delta") {
        let channel =
            format!("{kind} {} {} {}", text("/item_id"), text("/output_index"), text("/content_index"));
        return Some((channel, "/delta".to_owned()));
    }
    let arguments = "/choices/0/delta/tool_calls/0/function/arguments";
    if here(arguments) {
        return Some((format!("call {}", text("/choices/0/delta/tool_calls/0/index")), arguments.to_owned()));
    }
    ["/choices/0/delta/content", "/candidates/0/content/parts/0/text"]
        .into_iter()
        .find(|pointer| here(pointer))
        .map(|pointer| (pointer.to_owned(), pointer.to_owned()))
}

/// Adjusts chunk lengths after parts of the body changed from an old to a new length.
fn resize_chunks(chunks: &ChunkLayout, parts: &[(usize, usize)]) -> ChunkLayout {
    let mut ends = chunks.iter().scan(0_usize, |end, (wait, length)| {
        *end = end.saturating_add(usize::try_from(*length).unwrap_or(usize::MAX));
        Some((*wait, *end))
    });
    let mut out = Vec::with_capacity(chunks.len());
    let (mut old_start, mut new_start, mut sent) = (0, 0, 0);
    let mut next = ends.next();
    for &(old, new) in parts {
        while let Some((wait, end)) = next.filter(|(_, end)| *end <= old_start + old) {
            let within = end - old_start;
            let boundary = new_start + if within == old { new } else { within.min(new) };
            out.push((wait, u64::try_from(boundary - sent).unwrap_or(u64::MAX)));
            sent = boundary;
            next = ends.next();
        }
        old_start += old;
        new_start += new;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replace::MatchBoundary;

    fn directories() -> TextReplacer {
        TextReplacer::new([("/old/place".to_owned(), "/new".to_owned())], MatchBoundary::FileName)
    }

    fn event(json: &str) -> String {
        format!("event: e\ndata: {json}\n\n")
    }

    #[test]
    fn rewrite_replaces_paths_split_across_events_and_keeps_chunk_boundaries() {
        let delta = |text: &str| {
            event(&format!(
                r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":{}}}}}"#,
                Value::from(text)
            ))
        };
        let events =
            [event("{\"type\":\"ping\"}"), delta(r#"{"file":"/ol"#), delta(r#"d/place/a"}"#), event("{}")];
        let chunks: ChunkLayout = events.iter().map(|event| (5, event.len() as u64)).collect();
        let (body, resized) = rewrite(events.concat().as_bytes(), &chunks, &directories()).unwrap();
        let expected =
            [event("{\"type\":\"ping\"}"), delta(r#"{"file":"/new"#), delta(r#"/a"}"#), event("{}")];
        let data = |body: &[u8]| -> Vec<Value> {
            sse::split_events(body)
                .iter()
                .map(|e| serde_json::from_str(&e.data().unwrap()).unwrap())
                .collect()
        };
        assert_eq!(data(&body), data(expected.concat().as_bytes()));
        assert_eq!(resized.iter().map(|(_, length)| *length).sum::<u64>(), body.len() as u64);
        let lengths: Vec<u64> =
            sse::split_events(&body).iter().map(|event| event.raw().len() as u64).collect();
        assert_eq!(resized.iter().map(|(_, length)| *length).collect::<Vec<_>>(), lengths);
        assert!(body.starts_with(events[0].as_bytes()), "unchanged events stay byte for byte");
    }

    /// A secret in an error page or in a response that was cut is on no tape.
    #[test]
    fn rewrite_replaces_text_that_is_not_json() {
        for (body, expected) in [
            ("no key at /old/place.", "no key at /new."),
            (r#"{"text":"in /old/place"#, r#"{"text":"in /new"#),
            ("data: {}\n\ndata: {\"text\":\"/old/place\n\n", "data: {}\n\ndata: {\"text\":\"/new\n\n"),
            (": /old/place\n\ndata: [DONE]\n\n", ": /new\n\ndata: [DONE]\n\n"),
        ] {
            let (changed, chunks) =
                rewrite(body.as_bytes(), &vec![(0, body.len() as u64)], &directories()).unwrap();
            assert_eq!(String::from_utf8_lossy(&changed), expected);
            assert_eq!(chunks, [(0, expected.len() as u64)]);
        }
    }

    #[test]
    fn rewrite_replaces_values_of_repeated_keys() {
        let body = r#"{"a":"/old/place","a":1}"#;
        let (changed, _) = rewrite(body.as_bytes(), &Vec::new(), &directories()).unwrap();
        assert_eq!(String::from_utf8_lossy(&changed), r#"{"a":1}"#);
        let body = format!("data: {body}\n\n");
        let (changed, _) = rewrite(body.as_bytes(), &Vec::new(), &directories()).unwrap();
        assert_eq!(String::from_utf8_lossy(&changed), "data: {\"a\":1}\n\n");
    }

    #[test]
    fn rewrite_leaves_no_part_of_a_secret_that_is_cut_anywhere() {
        let key = "sk-ant-api03-Zq7Xw2Lm9Rt4";
        let replacer = TextReplacer::of_secrets(yb_redact::Secrets::new([("KEY", key)]));
        let text = format!("it is {} ok", key.replace("Xw2", "Xw2\n"));
        for (first, second) in
            (0..text.len()).flat_map(|first| (first..text.len()).map(move |second| (first, second)))
        {
            let pieces = [&text[..first], &text[first..second], &text[second..]];
            for field in ["text", "thinking", "partial_json"] {
                let events = pieces.map(|piece| {
                    event(&format!(
                        r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"x","{field}":{}}}}}"#,
                        Value::from(piece)
                    ))
                });
                let chunks: ChunkLayout = events.iter().map(|event| (5, event.len() as u64)).collect();
                let (body, _) = rewrite(events.concat().as_bytes(), &chunks, &replacer).unwrap();
                let body = String::from_utf8(body).unwrap();
                let leak =
                    key.as_bytes().windows(8).find(|part| body.contains(&*String::from_utf8_lossy(part)));
                assert!(leak.is_none() && body.contains("[REDACTED:KEY]"), "{first} {second}: {body}");
            }
        }
    }

    #[test]
    fn rewrite_returns_none_without_replacements() {
        assert_eq!(rewrite(b"data: {}\n\n", &vec![(0, 10)], &directories()), None);
        assert_eq!(rewrite(b"{\"a\":\"/old/places\"}", &vec![(0, 20)], &directories()), None);
    }

    #[test]
    fn rewrite_keeps_the_number_of_chunks() {
        let body = br#"{"text":"in /old/place now"}"#;
        let (changed, chunks) = rewrite(body, &vec![(1, 10), (2, 18)], &directories()).unwrap();
        assert_eq!(changed, br#"{"text":"in /new now"}"#);
        assert_eq!(chunks, [(1, 10), (2, 12)]);
    }
}
