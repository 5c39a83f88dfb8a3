//! The lines of a tape file, as serialized.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::BlobId;
use crate::usage::TokenUsage;

/// One line. Unknown kinds are skipped, so that minor versions can add some.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum TapeLine {
    /// The first line.
    #[serde(rename = "tape")]
    Header(TapeHeader),
    /// A body or a part of one; precedes all lines that refer to it.
    Blob(BlobRecord),
    /// The texts of the case; after the header, if the recorder knew them.
    Case(CaseRecord),
    Exchange(Box<ExchangeRecord>),
    /// The last line of each frame of a sealed tape.
    Seal(SealRecord),
    /// Part of the last frame of a finished tape.
    #[serde(rename = "end")]
    Footer(TapeFooter),
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TapeHeader {
    pub(crate) version: u32,
    pub(crate) made_by: String,
    /// Milliseconds since the Unix epoch.
    pub(crate) created_ms: u64,
    pub(crate) upstream: String,
    /// Directories of the run by name, which a replay maps to its own.
    #[serde(default, rename = "places")]
    pub(crate) directories: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) full_requests: bool,
    /// Whether each frame ends with a seal; older versions wrote none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) sealed: bool,
}

/// The texts of the case, with secrets replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CaseRecord {
    pub(crate) fields: BTreeMap<String, CaseText>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CaseText {
    /// BLAKE3 of the whole text, in hex.
    pub(crate) digest: String,
    /// The beginning, for messages.
    pub(crate) text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlobRecord {
    pub(crate) id: BlobId,
    #[serde(flatten)]
    pub(crate) content: BlobContent,
}

/// Bytes as text if they are UTF-8, else in hex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BlobContent {
    Text(String),
    Hex(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExchangeRecord {
    /// Position in order of arrival, from 1.
    pub(crate) number: u64,
    /// Milliseconds since the start of the recording.
    pub(crate) at_ms: u64,
    pub(crate) request: RequestRecord,
    pub(crate) response: ResponseRecord,
    /// The model that the response reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<TokenUsage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestRecord {
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Origin of the request: `loop`, `subagent` or `side`.
    #[serde(default, rename = "nature", skip_serializing_if = "String::is_empty")]
    pub(crate) origin: String,
    pub(crate) body: RequestBody,
}

/// A request body, split into its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestBody {
    None,
    /// Not JSON.
    Blob(BlobId),
    Json(JsonBody),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JsonBody {
    /// Fields recorded inline.
    pub(crate) fields: Map<String, Value>,
    /// Fields recorded as blobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) blobs: BTreeMap<String, BlobId>,
    /// Fields of which only the hash is recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) hashed: BTreeMap<String, BlobId>,
    /// Messages of the conversation; each blob is shared by all requests that contain it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) lists: BTreeMap<String, Vec<ListItem>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListItem {
    Blob(BlobId),
    /// A message of the agent itself, such as a system prompt.
    Hashed {
        role: String,
        id: BlobId,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResponseRecord {
    /// Absent when there was no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(default)]
    pub(crate) headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<BlobId>,
    /// For each chunk: microseconds since the previous one (or since the request), and its length in bytes.
    #[serde(default, rename = "pieces")]
    pub(crate) chunks: Vec<(u64, u64)>,
    pub(crate) end: ResponseEnding,
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResponseEnding {
    Complete,
    /// The upstream closed the connection early.
    #[serde(rename = "cut")]
    UpstreamClosed,
    /// The client disconnected, or the recording ended.
    #[serde(rename = "left")]
    ClientDisconnected,
    /// The upstream could not be reached.
    Unreachable,
    /// The response exceeded the size limit.
    TooLarge,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TapeFooter {
    pub(crate) exchanges: u64,
}

/// The digest of all lines before this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealRecord {
    pub(crate) digest: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(line: &TapeLine, expected: &Value) {
        assert_eq!(serde_json::to_value(line).unwrap(), *expected);
        assert_eq!(serde_json::from_value::<TapeLine>(expected.clone()).unwrap(), *line);
    }

    #[test]
    fn tape_lines_keep_their_serialized_names() {
        let id = BlobId::from_bytes(b"x");
        check(
            &TapeLine::Header(TapeHeader {
                version: 1,
                made_by: "yb-tape".to_owned(),
                created_ms: 2,
                upstream: "http://x".to_owned(),
                directories: BTreeMap::from([("workspace".to_owned(), "/w".to_owned())]),
                full_requests: true,
                sealed: true,
            }),
            &json!({
                "kind": "tape", "version": 1, "made_by": "yb-tape", "created_ms": 2, "upstream": "http://x",
                "places": { "workspace": "/w" }, "full_requests": true, "sealed": true,
            }),
        );
        check(
            &TapeLine::Seal(SealRecord { digest: "d".to_owned() }),
            &json!({ "kind": "seal", "digest": "d" }),
        );
        check(
            &TapeLine::Blob(BlobRecord { id: id.clone(), content: BlobContent::Text("x".to_owned()) }),
            &json!({ "kind": "blob", "id": id, "text": "x" }),
        );
        let prompt = CaseText { digest: "00".to_owned(), text: "p".to_owned() };
        check(
            &TapeLine::Case(CaseRecord { fields: BTreeMap::from([("prompt".to_owned(), prompt)]) }),
            &json!({ "kind": "case", "fields": { "prompt": { "digest": "00", "text": "p" } } }),
        );
        let message = ListItem::Hashed { role: "system".to_owned(), id: id.clone() };
        let body = JsonBody {
            fields: Map::from_iter([("model".to_owned(), json!("m"))]),
            blobs: BTreeMap::from([("input".to_owned(), id.clone())]),
            hashed: BTreeMap::from([("system".to_owned(), id.clone())]),
            lists: BTreeMap::from([("messages".to_owned(), vec![ListItem::Blob(id.clone()), message])]),
        };
        for (end, name) in [
            (ResponseEnding::Complete, "complete"),
            (ResponseEnding::UpstreamClosed, "cut"),
            (ResponseEnding::ClientDisconnected, "left"),
            (ResponseEnding::Unreachable, "unreachable"),
            (ResponseEnding::TooLarge, "too_large"),
        ] {
            let request = RequestRecord {
                method: "POST".to_owned(),
                path: "/p".to_owned(),
                query: "q".to_owned(),
                headers: vec![("a".to_owned(), "b".to_owned())],
                origin: "loop".to_owned(),
                body: RequestBody::Json(body.clone()),
            };
            let response = ResponseRecord {
                status: Some(200),
                headers: Vec::new(),
                body: Some(id.clone()),
                chunks: vec![(3, 4)],
                end,
            };
            let record = ExchangeRecord { number: 1, at_ms: 5, request, response, model: None, usage: None };
            check(
                &TapeLine::Exchange(Box::new(record)),
                &json!({
                    "kind": "exchange", "number": 1, "at_ms": 5,
                    "request": {
                        "method": "POST", "path": "/p", "query": "q", "headers": [["a", "b"]], "nature": "loop",
                        "body": { "json": {
                            "fields": { "model": "m" }, "blobs": { "input": id }, "hashed": { "system": id },
                            "lists": { "messages": [
                                { "blob": id }, { "hashed": { "role": "system", "id": id } },
                            ] },
                        } },
                    },
                    "response": { "status": 200, "headers": [], "body": id, "pieces": [[3, 4]], "end": name },
                }),
            );
        }
        check(&TapeLine::Footer(TapeFooter { exchanges: 6 }), &json!({ "kind": "end", "exchanges": 6 }));
    }
}
