//! The API's errors: their names, their statuses and the envelope in which they travel.

use serde_json::{Value, json};

/// The kinds of error that the API has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    InvalidRequest,
    Authentication,
    Billing,
    Permission,
    NotFound,
    RequestTooLarge,
    RateLimit,
    Api,
    Timeout,
    Overloaded,
}

/// Kind, name on the wire, status, and what it says when a script gives no message.
const TABLE: [(Kind, &str, u16, &str); 10] = [
    (Kind::InvalidRequest, "invalid_request_error", 400, "invalid request"),
    (Kind::Authentication, "authentication_error", 401, "invalid x-api-key"),
    (Kind::Billing, "billing_error", 402, "the credit balance is too low"),
    (Kind::Permission, "permission_error", 403, "this key may not use this resource"),
    (Kind::NotFound, "not_found_error", 404, "not found"),
    (Kind::RequestTooLarge, "request_too_large", 413, "request exceeds the maximum size"),
    (Kind::RateLimit, "rate_limit_error", 429, "rate limit reached"),
    (Kind::Api, "api_error", 500, "internal server error"),
    (Kind::Timeout, "timeout_error", 504, "the request timed out"),
    (Kind::Overloaded, "overloaded_error", 529, "Overloaded"),
];

impl Kind {
    /// The names on the wire.
    pub(crate) const NAMES: [&'static str; 10] = {
        let mut names = [""; 10];
        let mut index = 0;
        while index < TABLE.len() {
            names[index] = TABLE[index].1;
            index += 1;
        }
        names
    };

    /// The kind with this name; one of [`Kind::NAMES`].
    pub(crate) fn named(name: &str) -> Self {
        TABLE.iter().find(|row| row.1 == name).map_or(Self::Api, |row| row.0)
    }

    /// The kind that goes with a status.
    pub(crate) fn of_status(status: u16) -> Self {
        match TABLE.iter().find(|row| row.2 == status) {
            Some(row) => row.0,
            None if status < 500 => Self::InvalidRequest,
            None => Self::Api,
        }
    }

    fn row(self) -> (&'static str, u16, &'static str) {
        TABLE.iter().find(|row| row.0 == self).map_or(("api_error", 500, ""), |row| (row.1, row.2, row.3))
    }

    pub(crate) fn status(self) -> u16 {
        self.row().1
    }

    pub(crate) fn default_message(self) -> &'static str {
        self.row().2
    }

    /// The kind as OpenAI calls it.
    pub(crate) fn openai_type(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit_error",
            Self::Billing => "insufficient_quota",
            Self::Api | Self::Timeout | Self::Overloaded => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The code that goes with it.
    pub(crate) fn openai_code(self) -> Option<&'static str> {
        match self {
            Self::Authentication => Some("invalid_api_key"),
            Self::Billing => Some("insufficient_quota"),
            Self::NotFound => Some("model_not_found"),
            Self::RequestTooLarge => Some("context_length_exceeded"),
            Self::RateLimit => Some("rate_limit_exceeded"),
            Self::Overloaded => Some("server_is_overloaded"),
            Self::Api | Self::Timeout => Some("server_error"),
            Self::InvalidRequest | Self::Permission => None,
        }
    }

    /// The body of an error response, and the data of an `error` event.
    pub(crate) fn envelope(self, message: &str, request_id: &str) -> Value {
        json!({
            "type": "error",
            "error": { "type": self.row().0, "message": message },
            "request_id": request_id,
        })
    }
}
