//! Extracts texts and tool calls from recorded responses.

use std::collections::BTreeMap;

use serde_json::Value;
use yb_figures::bytes;
use yb_tape::sse;

/// Returns the parts of a Messages API response, complete or streamed; for other APIs, the size.
pub(super) fn parts(body: &[u8]) -> Vec<String> {
    let found = match serde_json::from_slice::<Value>(body) {
        Ok(whole) => whole["content"].as_array().into_iter().flatten().filter_map(block).collect(),
        Err(_) => streamed(body),
    };
    match found {
        found if found.is_empty() && !body.is_empty() => vec![bytes(body.len() as u64)],
        found => found,
    }
}

fn block(block: &Value) -> Option<String> {
    let text = |key: &str| block[key].as_str();
    match text("type")? {
        "text" => text("text").map(|text| format!("text: {text}")),
        "thinking" => text("thinking").map(|thought| format!("thinking: {thought}")),
        "tool_use" => Some(format!("{} {}", text("name").unwrap_or("?"), block["input"])),
        other => Some(other.to_owned()),
    }
}

/// Assembles streamed content blocks.
fn streamed(body: &[u8]) -> Vec<String> {
    let mut blocks: BTreeMap<u64, (Value, String)> = BTreeMap::new();
    for data in sse::split_events(body).iter().filter_map(sse::SseEvent::data) {
        let Ok(event) = serde_json::from_str::<Value>(&data) else { continue };
        let Some(index) = event["index"].as_u64() else { continue };
        match event["type"].as_str() {
            Some("content_block_start") => {
                blocks.insert(index, (event["content_block"].clone(), String::new()));
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                let piece = ["text", "thinking", "partial_json"].iter().find_map(|key| delta[*key].as_str());
                if let (Some((_, all)), Some(piece)) = (blocks.get_mut(&index), piece) {
                    all.push_str(piece);
                }
            }
            _ => {}
        }
    }
    let whole = blocks.into_values().map(|(mut start, all)| {
        match start["type"].as_str() {
            Some("tool_use") if !all.is_empty() => {
                start["input"] = serde_json::from_str(&all).unwrap_or(all.into());
            }
            Some("text") if !all.is_empty() => start["text"] = all.into(),
            Some("thinking") if !all.is_empty() => start["thinking"] = all.into(),
            _ => {}
        }
        start
    });
    whole.filter_map(|whole| block(&whole)).collect()
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn parts_are_equal_for_complete_and_streamed_responses() {
        let whole = r#"{"content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t","name":"Read","input":{"a":1}}]}"#;
        let stream = r#"event: x
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I "}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"look."}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"Read","input":{}}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}

data: {"type":"message_stop"}
"#;
        let expected = ["text: I look.", r#"Read {"a":1}"#];
        assert_eq!(parts(whole.as_bytes()), expected);
        assert_eq!(parts(stream.as_bytes()), expected);
        assert_eq!(parts(b"{\"candidates\":[]}"), ["17 B"]);
        assert!(parts(b"").is_empty());
    }
}
