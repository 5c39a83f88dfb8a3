//! Requests received by a mock server, for assertions, without secrets.

use std::fmt;

use hyper::HeaderMap;
use serde_json::Value;

/// Replacement for the value of a secret header.
pub const REDACTED: &str = "[REDACTED]";

const SECRET_HEADERS: [&str; 5] =
    ["authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key"];
const SECRET_ENDINGS: [&str; 5] = ["-key", "-token", "-secret", "-password", "-authorization"];

/// A request received by a [`MockServer`](crate::MockServer), and how it was handled.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LoggedRequest {
    /// Position in order of arrival, from 1.
    pub number: u64,
    /// The HTTP method.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The query without `?`; empty if there is none.
    pub query: String,
    /// The headers with lower-case names, in order; secret values are [`REDACTED`].
    pub headers: Vec<(String, String)>,
    /// The parsed body: a string if it is not JSON, null if it is empty.
    pub body: Value,
    /// The selected lane.
    pub lane: Option<String>,
    /// The turn within the lane, from 1.
    pub turn: Option<usize>,
    /// Number of requests for this turn so far, from 1; 0 if no lane matched.
    pub attempt: u64,
    /// The response status; `None` if a fault prevented a response.
    pub status: Option<u16>,
    /// The kind of response.
    pub response: ResponseKind,
}

impl LoggedRequest {
    /// Returns the value of a header by its lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// How a mock server responded to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseKind {
    /// A complete scripted reply.
    Reply,
    /// A scripted fault.
    Fault,
    /// A placeholder reply to a side request, outside of all lanes.
    SideReply,
    /// An estimated token count.
    TokenCount,
    /// A placeholder response to any other request.
    Placeholder,
    /// An error because the script has no reply, with its message.
    Unscripted(String),
    /// An error because the request is invalid, with its message.
    Rejected(String),
}

impl fmt::Display for ResponseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply => f.write_str("reply"),
            Self::Fault => f.write_str("fault"),
            Self::SideReply => f.write_str("side request"),
            Self::TokenCount => f.write_str("token count"),
            Self::Placeholder => f.write_str("placeholder"),
            Self::Unscripted(message) => write!(f, "unscripted: {message}"),
            Self::Rejected(message) => write!(f, "rejected: {message}"),
        }
    }
}

/// Returns the headers with secret values redacted.
pub(crate) fn redacted_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let redacted = headers.iter().map(|(name, value)| {
        let name = name.as_str();
        let value = if is_secret(name) {
            REDACTED.to_owned()
        } else {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        (name.to_owned(), value)
    });
    redacted.collect()
}

fn is_secret(name: &str) -> bool {
    SECRET_HEADERS.contains(&name) || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}
