//! What the tape remembers of a request, for assertions: everything but the secrets.

use std::fmt;

use hyper::HeaderMap;
use serde_json::Value;

/// Stands where a secret header's value was.
pub const REDACTED: &str = "[REDACTED]";

const SECRET_HEADERS: [&str; 5] =
    ["authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key"];
const SECRET_ENDINGS: [&str; 5] = ["-key", "-token", "-secret", "-password", "-authorization"];

/// One request that the tape saw, and what it did with it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Seen {
    /// The position in the order of arrival, from 1.
    pub number: u64,
    /// The HTTP method.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The query, without its `?`; empty when there is none.
    pub query: String,
    /// The headers in lower case, in order; a secret's value is [`REDACTED`].
    pub headers: Vec<(String, String)>,
    /// The parsed body; a text when it is not JSON, null when there is none.
    pub body: Value,
    /// The lane that was chosen.
    pub lane: Option<String>,
    /// The turn within the lane, from 1.
    pub turn: Option<usize>,
    /// How often this turn was asked for so far, from 1; 0 when no lane answered.
    pub attempt: u64,
    /// The status that was answered; nothing when the script left the client without one.
    pub status: Option<u16>,
    /// What kind of answer it was.
    pub answer: Answer,
}

impl Seen {
    /// The value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What kind of answer a request got.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// A scripted reply, whole.
    Reply,
    /// A scripted fault.
    Fault,
    /// A polite answer to something that the agent asked for itself, outside of all lanes.
    Side,
    /// An estimated token count.
    TokenCount,
    /// A polite answer to anything else.
    Courtesy,
    /// An error, since the script has no reply for it; the text is the error's message.
    Unscripted(String),
    /// An error, since the request itself was wrong; the text is the error's message.
    Refused(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply => f.write_str("reply"),
            Self::Fault => f.write_str("fault"),
            Self::Side => f.write_str("side question"),
            Self::TokenCount => f.write_str("token count"),
            Self::Courtesy => f.write_str("courtesy"),
            Self::Unscripted(message) => write!(f, "unscripted: {message}"),
            Self::Refused(message) => write!(f, "refused: {message}"),
        }
    }
}

/// The headers as they may be kept.
pub(crate) fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let kept = headers.iter().map(|(name, value)| {
        let name = name.as_str();
        let value = if is_secret(name) {
            REDACTED.to_owned()
        } else {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        (name.to_owned(), value)
    });
    kept.collect()
}

fn is_secret(name: &str) -> bool {
    SECRET_HEADERS.contains(&name) || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}
