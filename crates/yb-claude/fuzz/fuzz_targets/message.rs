//! Any bytes as one line: no panic, and every JSON object is a message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use yb_claude::{UsageBaseline, Message, RunSummary};

fuzz_target!(|line: &[u8]| {
    let parsed = Message::parse(line);
    let tree = serde_json::from_slice::<Value>(line);
    if let Ok(Value::Object(object)) = &tree {
        let message = parsed.as_ref().expect("an object is a message");
        assert_eq!(message.raw().to_value().ok().as_ref(), tree.as_ref().ok());
        // Of duplicate keys, `Value` keeps the last and the type tag the first.
        if line.windows(6).filter(|window| *window == b"\"type\"").count() == 1 && !line.contains(&b'\\') {
            let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
            assert_eq!(message.kind(), kind);
        }
    }
    if let Ok(message) = parsed {
        let _ = format!("{message:?}");
        let summary: RunSummary = [&message, &message].into_iter().collect();
        for baseline in [UsageBaseline::NewSession, UsageBaseline::Unknown] {
            let _ = summary.usage(baseline);
        }
        if let Some(totals) = summary.session_totals() {
            let _ = summary.usage(UsageBaseline::Totals(&totals));
        }
        let _ = (summary.model(), summary.final_text(), summary.api_failure(), summary.pending_failure());
    }
});
