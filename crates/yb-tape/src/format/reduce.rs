//! Takes a request's body apart: what its user and its tools say is kept, what the agent's maker says is only hashed.

use serde_json::{Map, Value};

use super::Id;
use super::record::{Body, Item, Json};
use crate::conversation::conceal_reminders;
use crate::swap::Swap;

/// Where the conversation is, in each API that is known.
const LISTS: [&str; 3] = ["messages", "input", "contents"];
/// Settings that say nothing about anybody. Everything else at the top may be a prompt, a name or a token.
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
/// Roles in which the agent speaks for its maker.
const OWN_ROLES: [&str; 2] = ["system", "developer"];

/// Keeps bodies.
pub(crate) trait Store {
    fn put(&mut self, bytes: &[u8]) -> Id;
}

/// How much of a request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// What the user and the tools say.
    Conversation,
    /// All of it but secrets.
    Everything,
}

pub(crate) fn reduce(body: &[u8], keep: Keep, secrets: &Swap, store: &mut impl Store) -> Body {
    if body.is_empty() {
        return Body::None;
    }
    let Ok(Value::Object(all)) = serde_json::from_slice::<Value>(body) else {
        let text = String::from_utf8_lossy(body);
        return Body::Blob(store.put(secrets.text(&text).as_bytes()));
    };
    let mut json = Json::default();
    for (name, mut value) in all {
        secrets.value(&mut value);
        match value {
            Value::Array(items) if LISTS.contains(&name.as_str()) => {
                let items = items.into_iter().map(|item| part(item, keep, store)).collect();
                json.lists.insert(name, items);
            }
            value if SETTINGS.contains(&name.as_str()) => {
                json.fields.insert(name, value);
            }
            // A text instead of a list of messages.
            value if LISTS.contains(&name.as_str()) || keep == Keep::Everything => {
                json.blobs.insert(name, store.put(value.to_string().as_bytes()));
            }
            value => {
                json.hashed.insert(name, Id::of(value.to_string().as_bytes()));
            }
        }
    }
    Body::Json(json)
}

fn part(mut item: Value, keep: Keep, store: &mut impl Store) -> Item {
    if keep == Keep::Conversation {
        let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
        if OWN_ROLES.contains(&role) {
            return Item::Hashed { role: role.to_owned(), id: Id::of(item.to_string().as_bytes()) };
        }
        each_text(&mut item, &mut |text| conceal_reminders(text));
    }
    Item::Blob(store.put(item.to_string().as_bytes()))
}

fn each_text(value: &mut Value, change: &mut impl FnMut(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(changed) = change(text) {
                *text = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_text(field, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Puts a body together again, with a note where something is only hashed.
pub(crate) fn restore(body: &Body, get: &impl Fn(&Id) -> Option<Value>) -> Value {
    let hashed = |id: &Id| Value::from(format!("[blake3:{id}]"));
    match body {
        Body::None => Value::Null,
        Body::Blob(id) => get(id).unwrap_or(Value::Null),
        Body::Json(json) => {
            let mut all: Map<String, Value> = json.fields.clone();
            all.extend(json.hashed.iter().map(|(name, id)| (name.clone(), hashed(id))));
            all.extend(json.blobs.iter().filter_map(|(name, id)| Some((name.clone(), get(id)?))));
            for (name, items) in &json.lists {
                let items = items.iter().map(|item| match item {
                    Item::Blob(id) => get(id).unwrap_or(Value::Null),
                    Item::Hashed { role, id } => {
                        Value::from_iter([("role", Value::from(role.as_str())), ("content", hashed(id))])
                    }
                });
                all.insert(name.clone(), items.collect());
            }
            Value::Object(all)
        }
    }
}

/// Everything that a body refers to.
pub(crate) fn refers_to(body: &Body) -> Vec<&Id> {
    match body {
        Body::None => Vec::new(),
        Body::Blob(id) => vec![id],
        Body::Json(json) => {
            let items = json.lists.values().flatten().filter_map(|item| match item {
                Item::Blob(id) => Some(id),
                Item::Hashed { .. } => None,
            });
            json.blobs.values().chain(items).collect()
        }
    }
}
