//! Errors of the model APIs: names, HTTP statuses and response bodies.

use serde_json::{Value, json};

/// An error kind of the Anthropic API; other protocols map from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiErrorKind {
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

/// Kind, name on the wire, HTTP status and default message.
const TABLE: [(ApiErrorKind, &str, u16, &str); 10] = [
    (ApiErrorKind::InvalidRequest, "invalid_request_error", 400, "invalid request"),
    (ApiErrorKind::Authentication, "authentication_error", 401, "invalid x-api-key"),
    (ApiErrorKind::Billing, "billing_error", 402, "the credit balance is too low"),
    (ApiErrorKind::Permission, "permission_error", 403, "this key may not use this resource"),
    (ApiErrorKind::NotFound, "not_found_error", 404, "not found"),
    (ApiErrorKind::RequestTooLarge, "request_too_large", 413, "request exceeds the maximum size"),
    (ApiErrorKind::RateLimit, "rate_limit_error", 429, "rate limit reached"),
    (ApiErrorKind::Api, "api_error", 500, "internal server error"),
    (ApiErrorKind::Timeout, "timeout_error", 504, "the request timed out"),
    (ApiErrorKind::Overloaded, "overloaded_error", 529, "Overloaded"),
];

impl ApiErrorKind {
    /// All names on the wire.
    pub(crate) const NAMES: [&'static str; 10] = {
        let mut names = [""; 10];
        let mut index = 0;
        while index < TABLE.len() {
            names[index] = TABLE[index].1;
            index += 1;
        }
        names
    };

    /// Returns the kind with this name, which must be one of [`ApiErrorKind::NAMES`].
    pub(crate) fn from_name(name: &str) -> Self {
        TABLE.iter().find(|row| row.1 == name).map_or(Self::Api, |row| row.0)
    }

    /// Returns the kind for an HTTP status.
    pub(crate) fn from_status(status: u16) -> Self {
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

    /// Returns the `type` of the error in the OpenAI APIs.
    pub(crate) fn openai_type(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit_error",
            Self::Billing => "insufficient_quota",
            Self::Api | Self::Timeout | Self::Overloaded => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// Returns the `code` of the error in the OpenAI APIs.
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

    /// Returns the body of an error response, which is also the data of an `error` event.
    pub(crate) fn envelope(self, message: &str, request_id: &str) -> Value {
        json!({
            "type": "error",
            "error": { "type": self.row().0, "message": message },
            "request_id": request_id,
        })
    }
}
