//! Replaces texts in a recorded answer, also where a stream has divided them, and keeps the borders of its pieces.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::sse;
use crate::swap::Swap;

/// For each piece: microseconds before it, and its length.
pub(crate) type Pieces = Vec<(u64, u64)>;

/// The body and its pieces with the texts replaced; nothing when there is nothing to replace.
pub(crate) fn rewrite(body: &[u8], pieces: &Pieces, swap: &Swap) -> Option<(Vec<u8>, Pieces)> {
    if swap.is_empty() {
        return None;
    }
    if let Ok(mut whole) = serde_json::from_slice::<Value>(body) {
        if !swap.value(&mut whole) {
            return None;
        }
        let changed = whole.to_string().into_bytes();
        let pieces = moved(pieces, &[(body.len(), changed.len())]);
        return Some((changed, pieces));
    }
    let events = sse::split(body);
    let mut values: Vec<Option<Value>> =
        events.iter().map(|event| serde_json::from_str(&event.data()?).ok()).collect();
    let changed = swap_events(&mut values, swap);
    if !changed.contains(&true) {
        return None;
    }
    let mut out = Vec::with_capacity(body.len());
    let mut lengths = Vec::with_capacity(events.len());
    for ((event, value), changed) in events.iter().zip(&values).zip(changed) {
        let before = out.len();
        match value {
            Some(value) if changed => out.extend_from_slice(&event.with_data(&value.to_string())),
            _ => out.extend_from_slice(event.raw),
        }
        lengths.push((event.raw.len(), out.len() - before));
    }
    let pieces = moved(pieces, &lengths);
    Some((out, pieces))
}

/// Says for each event whether it changed.
fn swap_events(values: &mut [Option<Value>], swap: &Swap) -> Vec<bool> {
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
                // Taken out, so that what is put in is not looked at again.
                match text {
                    Some(Value::String(text)) => std::mem::take(text),
                    _ => String::new(),
                }
            })
            .collect();
        let before = texts.clone();
        swap.pieces(&mut texts);
        for (((index, pointer), text), before) in members.into_iter().zip(texts).zip(before) {
            changed[index] |= text != before;
            deltas.insert(index, (pointer, text));
        }
    }
    for (index, value) in values.iter_mut().enumerate() {
        let Some(value) = value else { continue };
        changed[index] |= swap.value(value);
        if let Some((pointer, text)) = deltas.remove(&index)
            && let Some(place) = value.pointer_mut(&pointer)
        {
            *place = Value::String(text);
        }
    }
    changed
}

/// The part of a longer text that an event carries: which text, and where in the event.
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

/// Where the borders of the pieces are when parts of the body have other lengths.
fn moved(pieces: &Pieces, parts: &[(usize, usize)]) -> Pieces {
    let mut ends = pieces.iter().scan(0_usize, |end, (wait, length)| {
        *end = end.saturating_add(usize::try_from(*length).unwrap_or(usize::MAX));
        Some((*wait, *end))
    });
    let mut out = Vec::with_capacity(pieces.len());
    let (mut old_start, mut new_start, mut sent) = (0, 0, 0);
    let mut next = ends.next();
    for &(old, new) in parts {
        while let Some((wait, end)) = next.filter(|(_, end)| *end <= old_start + old) {
            let within = end - old_start;
            let border = new_start + if within == old { new } else { within.min(new) };
            out.push((wait, u64::try_from(border - sent).unwrap_or(u64::MAX)));
            sent = border;
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
    use crate::swap::Ends;

    fn places() -> Swap {
        Swap::new([("/old/place".to_owned(), "/new".to_owned())], Ends::Names)
    }

    fn event(json: &str) -> String {
        format!("event: e\ndata: {json}\n\n")
    }

    #[test]
    fn a_path_that_a_stream_divides_is_found_and_borders_stay_where_they_were() {
        let delta = |text: &str| {
            event(&format!(
                r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":{}}}}}"#,
                Value::from(text)
            ))
        };
        let events =
            [event("{\"type\":\"ping\"}"), delta(r#"{"file":"/ol"#), delta(r#"d/place/a"}"#), event("{}")];
        let pieces: Pieces = events.iter().map(|event| (5, event.len() as u64)).collect();
        let (body, moved) = rewrite(events.concat().as_bytes(), &pieces, &places()).unwrap();
        let expected =
            [event("{\"type\":\"ping\"}"), delta(r#"{"file":"/new"#), delta(r#"/a"}"#), event("{}")];
        let data = |body: &[u8]| -> Vec<Value> {
            sse::split(body).iter().map(|e| serde_json::from_str(&e.data().unwrap()).unwrap()).collect()
        };
        assert_eq!(data(&body), data(expected.concat().as_bytes()));
        assert_eq!(moved.iter().map(|(_, length)| *length).sum::<u64>(), body.len() as u64);
        let lengths: Vec<u64> = sse::split(&body).iter().map(|event| event.raw.len() as u64).collect();
        assert_eq!(moved.iter().map(|(_, length)| *length).collect::<Vec<_>>(), lengths);
        assert!(body.starts_with(events[0].as_bytes()), "what has nothing to replace stays byte for byte");
    }

    #[test]
    fn nothing_to_replace_is_nothing() {
        assert_eq!(rewrite(b"data: {}\n\n", &vec![(0, 10)], &places()), None);
        assert_eq!(rewrite(b"{\"a\":\"/old/places\"}", &vec![(0, 20)], &places()), None);
    }

    #[test]
    fn one_message_in_several_pieces_keeps_as_many() {
        let body = br#"{"text":"in /old/place now"}"#;
        let (changed, pieces) = rewrite(body, &vec![(1, 10), (2, 18)], &places()).unwrap();
        assert_eq!(changed, br#"{"text":"in /new now"}"#);
        assert_eq!(pieces, [(1, 10), (2, 12)]);
    }
}
