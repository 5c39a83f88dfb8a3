//! Server-sent events of model APIs: parsed, metered and redacted.

use serde_json::Value;
use yb_tape::sse::split_events;
use yb_tape::{ObservedUsage, Secrets};

use super::{Probe, Target, magnitude, require};
use crate::corpus::Seeds;

const SECRET: &str = "sk-ant-fuzz-0123456789";

pub(super) const TARGET: Target = Target {
    name: "sse",
    about: "server-sent events: split without loss, metered, and redacted across deltas",
    seeds: || Seeds::new().files("fuzz/seeds/sse", ".sse")?.files("fuzz/seeds/sse", ".json"),
    check,
};

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let events = split_events(input);
    let joined: Vec<u8> = events.iter().flat_map(|event| event.raw().iter().copied()).collect();
    require(joined == input, "events add up to the body", || format!("{} of {}", joined.len(), input.len()))?;
    for event in &events {
        let kind = event.data().and_then(|data| serde_json::from_str::<Value>(&data).ok());
        probe.saw(&kind.as_ref().and_then(|value| value["type"].as_str()));
    }
    probe.saw(&magnitude(events.len()));
    let usage = ObservedUsage::of_response(input);
    probe.saw(&(usage.models.len(), usage.total().input.min(1), usage.total().output.min(1)));
    let secrets = Secrets::new().with("KEY", SECRET).with("OTHER", "0123456789").with("WORD", "toolu_0");
    let redacted = secrets.redact_response(input);
    probe.saw(&(redacted == input));
    let again = secrets.redact_response(&redacted);
    require(again == redacted, "redaction is idempotent", || {
        format!("{:?} then {:?}", String::from_utf8_lossy(&redacted), String::from_utf8_lossy(&again))
    })?;
    for event in split_events(&redacted) {
        let is_json = event.data().is_some_and(|data| serde_json::from_str::<Value>(&data).is_ok());
        let is_left = event.raw().windows(SECRET.len()).any(|text| text == SECRET.as_bytes());
        require(is_json || !is_left, "no secret is left in text", || {
            String::from_utf8_lossy(&redacted).into_owned()
        })?;
    }
    let texts: String = split_events(&redacted).iter().filter_map(|event| event.data()).collect();
    let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    // An escaped character hides a secret from a search in the text.
    if !texts.contains('\\')
        && split_events(&redacted).iter().filter_map(|event| event.data()).all(|data| is_json(&data))
    {
        require(!texts.contains(SECRET), "no secret is left in a redacted response", || texts.clone())?;
    }
    Ok(())
}
