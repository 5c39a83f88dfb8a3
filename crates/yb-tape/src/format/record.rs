//! The lines of a tape, as they stand in the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Id;
use crate::usage::TokenUsage;

/// One line. A kind that a later minor version adds is skipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// The first line.
    Tape(Head),
    /// A body, or a part of one; it stands before whatever refers to it.
    Blob(Blob),
    Exchange(Box<Exchange>),
    /// The last line of a tape that was finished.
    End(End),
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) version: u32,
    pub(crate) made_by: String,
    /// Milliseconds since 1970.
    pub(crate) created_ms: u64,
    pub(crate) upstream: String,
    /// Directories by what they are, so that a replay in others can tell.
    #[serde(default)]
    pub(crate) places: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) full_requests: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Blob {
    pub(crate) id: Id,
    #[serde(flatten)]
    pub(crate) content: Content,
}

/// Bytes as a text where they are one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Content {
    Text(String),
    Hex(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    /// The order of arrival, from 1.
    pub(crate) number: u64,
    /// Milliseconds since the tape began.
    pub(crate) at_ms: u64,
    pub(crate) request: Request,
    pub(crate) response: Response,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<TokenUsage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Who asked, as far as the whole request tells: `loop`, `subagent` or `side`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) nature: String,
    pub(crate) body: Body,
}

/// A request's body, taken apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Body {
    None,
    /// Not JSON.
    Blob(Id),
    Json(Json),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Json {
    /// Kept as they are.
    pub(crate) fields: Map<String, Value>,
    /// Kept as blobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) blobs: BTreeMap<String, Id>,
    /// Not kept, only known by their hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) hashed: BTreeMap<String, Id>,
    /// The conversation: its messages, each kept once for all requests that hold it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) lists: BTreeMap<String, Vec<Item>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Item {
    Blob(Id),
    /// A message of the agent's own, of this role.
    Hashed {
        role: String,
        id: Id,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Response {
    /// Absent when nothing came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(default)]
    pub(crate) headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<Id>,
    /// For each piece: microseconds since the one before (or since the request), and its length in bytes.
    #[serde(default)]
    pub(crate) pieces: Vec<(u64, u64)>,
    pub(crate) end: Ending,
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    Complete,
    /// The upstream broke off.
    Cut,
    /// The agent went away.
    Left,
    /// The upstream could not be reached.
    Unreachable,
    /// There was more than a tape takes.
    TooLarge,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) exchanges: u64,
}
