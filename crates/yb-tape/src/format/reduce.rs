//! Splits request bodies for recording: user messages and tool results are stored, system prompts and tool definitions
//! are only hashed.

use serde_json::{Map, Value};

use super::BlobId;
use super::record::{JsonBody, ListItem, RequestBody};
use crate::conversation::hash_reminders;
use crate::replace::TextReplacer;

/// Fields that contain the conversation, in all supported APIs.
const LISTS: [&str; 3] = ["messages", "input", "contents"];
/// Top-level settings without personal data. Any other field may be a prompt, a name or a token.
const SETTINGS: [&str; 28] = [
    "candidateCount",
    "context_management",
    "generationConfig",
    "include",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "model",
    "n",
    "output_config",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "service_tier",
    "speed",
    "stop",
    "stop_sequences",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "thinking",
    "tool_choice",
    "top_k",
    "top_p",
];
/// Roles of messages written by the agent vendor.
const SYSTEM_ROLES: [&str; 2] = ["system", "developer"];

/// Stores blobs.
pub(crate) trait BlobStore {
    fn put(&mut self, bytes: &[u8]) -> BlobId;
}

/// How much of a request is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestRetention {
    /// User messages and tool results.
    Conversation,
    /// Everything except secrets.
    Full,
}

pub(crate) fn reduce(
    body: &[u8],
    retention: RequestRetention,
    secrets: &TextReplacer,
    store: &mut impl BlobStore,
) -> RequestBody {
    if body.is_empty() {
        return RequestBody::None;
    }
    let Ok(Value::Object(all)) = serde_json::from_slice::<Value>(body) else {
        let text = String::from_utf8_lossy(body);
        return RequestBody::Blob(store.put(secrets.replace(&text).as_bytes()));
    };
    let mut json = JsonBody::default();
    for (name, mut value) in all {
        secrets.replace_in_value(&mut value);
        match value {
            Value::Array(items) if LISTS.contains(&name.as_str()) => {
                let items = items.into_iter().map(|item| record_item(item, retention, store)).collect();
                json.lists.insert(name, items);
            }
            value if SETTINGS.contains(&name.as_str()) => {
                json.fields.insert(name, value);
            }
            // A string instead of a list of messages.
            value if LISTS.contains(&name.as_str()) || retention == RequestRetention::Full => {
                json.blobs.insert(name, store.put(value.to_string().as_bytes()));
            }
            value => {
                json.hashed.insert(name, BlobId::from_bytes(value.to_string().as_bytes()));
            }
        }
    }
    RequestBody::Json(json)
}

fn record_item(mut item: Value, retention: RequestRetention, store: &mut impl BlobStore) -> ListItem {
    if retention == RequestRetention::Conversation {
        let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
        if SYSTEM_ROLES.contains(&role) {
            return ListItem::Hashed {
                role: role.to_owned(),
                id: BlobId::from_bytes(item.to_string().as_bytes()),
            };
        }
        for_each_text(&mut item, &mut |text| hash_reminders(text));
    }
    ListItem::Blob(store.put(item.to_string().as_bytes()))
}

fn for_each_text(value: &mut Value, change: &mut impl FnMut(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(changed) = change(text) {
                *text = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_text(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| for_each_text(field, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Reassembles a body, with `[blake3:…]` in place of hashed parts.
pub(crate) fn restore(body: &RequestBody, get: &impl Fn(&BlobId) -> Option<Value>) -> Value {
    let hashed = |id: &BlobId| Value::from(format!("[blake3:{id}]"));
    match body {
        RequestBody::None => Value::Null,
        RequestBody::Blob(id) => get(id).unwrap_or(Value::Null),
        RequestBody::Json(json) => {
            let mut all: Map<String, Value> = json.fields.clone();
            all.extend(json.hashed.iter().map(|(name, id)| (name.clone(), hashed(id))));
            all.extend(json.blobs.iter().filter_map(|(name, id)| Some((name.clone(), get(id)?))));
            for (name, items) in &json.lists {
                let items = items.iter().map(|item| match item {
                    ListItem::Blob(id) => get(id).unwrap_or(Value::Null),
                    ListItem::Hashed { role, id } => {
                        Value::from_iter([("role", Value::from(role.as_str())), ("content", hashed(id))])
                    }
                });
                all.insert(name.clone(), items.collect());
            }
            Value::Object(all)
        }
    }
}

/// Returns the blobs that a body refers to.
pub(crate) fn referenced_blobs(body: &RequestBody) -> Vec<&BlobId> {
    match body {
        RequestBody::None => Vec::new(),
        RequestBody::Blob(id) => vec![id],
        RequestBody::Json(json) => {
            let items = json.lists.values().flatten().filter_map(|item| match item {
                ListItem::Blob(id) => Some(id),
                ListItem::Hashed { .. } => None,
            });
            json.blobs.values().chain(items).collect()
        }
    }
}
