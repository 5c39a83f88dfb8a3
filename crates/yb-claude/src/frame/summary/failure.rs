//! API errors, which the CLI reports as a `success` result with an error message.

use std::fmt;

use crate::frame::message::AssistantMessage;
use crate::frame::result::{ResultMessage, ResultSubtype};
use crate::frame::system::ApiRetry;

/// The kind of an API error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApiFailureKind {
    /// Missing or rejected credentials (401, 403).
    Unauthenticated,
    /// No credit (402, or 400 with such a message).
    Billing,
    /// Rate limit or quota exceeded (429).
    RateLimited,
    /// The API is overloaded (529).
    Overloaded,
    /// Server error (5xx).
    ServerError,
    /// Invalid request (400 and other 4xx).
    InvalidRequest,
    /// The model does not exist or is not available to the account (404).
    ModelNotFound,
    /// The prompt or the request is too large (413, or 400 with such a message).
    TooLarge,
    /// The API was not reachable, or timed out.
    Network,
    /// Anything else.
    Other,
}

impl ApiFailureKind {
    /// Returns whether a retry may succeed.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Overloaded | Self::ServerError | Self::Network)
    }
}

/// An API error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiFailure {
    /// The kind of error.
    pub kind: ApiFailureKind,
    /// The HTTP status, if the API responded.
    pub status: Option<u16>,
    /// The message from the CLI.
    pub message: String,
    /// Whether a retry may succeed.
    pub retryable: bool,
}

impl fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl ApiFailure {
    /// Parses an API error message as printed by `--output-format text`.
    ///
    /// Meaningful only for a failed run: a model may answer with the same text.
    #[must_use]
    pub fn from_text(output: &str) -> Option<Self> {
        let text = output.trim();
        let prefixes = ["API Error", "Request timed out", "Request too large", "Failed to authenticate"];
        let kind = by_message(text);
        let known = prefixes.iter().any(|prefix| text.starts_with(prefix))
            || (kind.is_some() && text.lines().count() == 1);
        known.then(|| {
            let status = status_in(text);
            Self::new(kind.or_else(|| by_status(status?)).unwrap_or(ApiFailureKind::Other), status, text)
        })
    }

    fn new(kind: ApiFailureKind, status: Option<u16>, message: &str) -> Self {
        Self { kind, status, message: message.to_owned(), retryable: kind.is_retryable() }
    }
}

/// The API error fields of an assistant message, which hold more detail than the result.
#[derive(Debug, Clone)]
pub(super) struct AssistantError {
    error: Option<String>,
    status: Option<u16>,
    message: String,
}

impl AssistantError {
    /// Returns `None` if the message does not report an error.
    pub(super) fn from_message(assistant: &AssistantMessage) -> Option<Self> {
        (assistant.error.is_some() || assistant.is_api_error_message).then(|| Self {
            error: assistant.error.clone(),
            status: assistant.api_error_status,
            message: assistant.text(),
        })
    }
}

/// Returns the API error that ended the run; `fault` comes from the last assistant message.
pub(super) fn of_run(result: Option<&ResultMessage>, fault: Option<&AssistantError>) -> Option<ApiFailure> {
    let name = fault.and_then(|fault| fault.error.as_deref());
    let Some(result) = result else {
        // The output ended between the error and the result.
        let fault = fault?;
        let kind = classify(fault.status, name, None, &fault.message);
        return Some(ApiFailure::new(kind, fault.status, &fault.message));
    };
    let text = result.result.as_deref().unwrap_or_default();
    let is_api_error = result.is_error
        && (result.subtype == ResultSubtype::Success
            || result.api_error_status.is_some()
            || result.api_error.is_some()
            || result.terminal_reason.as_deref() == Some("api_error")
            || text.starts_with(NOT_LOGGED_IN));
    if !is_api_error {
        return None;
    }
    let errors = result.errors.join("\n");
    let message = [text, &errors, fault.map(|fault| &*fault.message).unwrap_or_default()]
        .into_iter()
        .find(|message| !message.is_empty())
        .unwrap_or("API error without a message");
    let code = result.api_error_type.as_deref().or(result.api_error.as_deref());
    let status = result.api_error_status.or_else(|| status_in(message));
    let kind = match result.terminal_reason.as_deref() {
        Some("prompt_too_long") => ApiFailureKind::TooLarge,
        _ => classify(status, name, code, message),
    };
    Some(ApiFailure::new(kind, status, message))
}

/// Returns the API error that the CLI is retrying.
pub(super) fn of_retry(retry: &ApiRetry) -> ApiFailure {
    let name = retry.error.as_deref();
    let status = retry.error_status;
    let shown = name.unwrap_or("unknown error");
    let message = match status {
        Some(status) => format!("API request failed with status {status}: {shown}"),
        None => format!("API is unreachable: {shown}"),
    };
    let kind = match status {
        Some(_) => classify(status, name, None, ""),
        None => ApiFailureKind::Network,
    };
    ApiFailure::new(kind, status, &message)
}

const NOT_LOGGED_IN: &str = "Not logged in";

/// The message takes precedence over the status, because status 400 is ambiguous.
fn classify(status: Option<u16>, name: Option<&str>, code: Option<&str>, message: &str) -> ApiFailureKind {
    let named = |name: Option<&str>| {
        Some(match name? {
            "authentication_failed" | "authentication_error" | "oauth_org_not_allowed" => {
                ApiFailureKind::Unauthenticated
            }
            "billing_error" => ApiFailureKind::Billing,
            "rate_limit" | "rate_limit_error" => ApiFailureKind::RateLimited,
            "overloaded" | "overloaded_error" => ApiFailureKind::Overloaded,
            "model_not_found" => ApiFailureKind::ModelNotFound,
            "request_too_large" => ApiFailureKind::TooLarge,
            "connection_failed" => ApiFailureKind::Network,
            _ => return None,
        })
    };
    let vague = || match name {
        Some("server_error") => Some(ApiFailureKind::ServerError),
        Some("invalid_request") => Some(ApiFailureKind::InvalidRequest),
        _ => None,
    };
    named(code)
        .or_else(|| by_message(message))
        .or_else(|| named(name))
        .or_else(|| by_status(status?))
        .or_else(vague)
        .unwrap_or(ApiFailureKind::Other)
}

fn by_status(status: u16) -> Option<ApiFailureKind> {
    Some(match status {
        401 | 403 => ApiFailureKind::Unauthenticated,
        402 => ApiFailureKind::Billing,
        404 => ApiFailureKind::ModelNotFound,
        408 => ApiFailureKind::Network,
        413 => ApiFailureKind::TooLarge,
        429 => ApiFailureKind::RateLimited,
        529 => ApiFailureKind::Overloaded,
        500..=599 => ApiFailureKind::ServerError,
        400..=499 => ApiFailureKind::InvalidRequest,
        _ => return None,
    })
}

/// Classifies by the prefix of the CLI's message.
fn by_message(message: &str) -> Option<ApiFailureKind> {
    const PREFIXES: [(&str, ApiFailureKind); 14] = [
        (NOT_LOGGED_IN, ApiFailureKind::Unauthenticated),
        ("Invalid API key", ApiFailureKind::Unauthenticated),
        ("Failed to authenticate", ApiFailureKind::Unauthenticated),
        ("OAuth token", ApiFailureKind::Unauthenticated),
        ("Please run /login", ApiFailureKind::Unauthenticated),
        ("Credit balance is too low", ApiFailureKind::Billing),
        ("Claude AI usage limit reached", ApiFailureKind::RateLimited),
        ("You've hit your", ApiFailureKind::RateLimited),
        ("Prompt is too long", ApiFailureKind::TooLarge),
        ("Request too large", ApiFailureKind::TooLarge),
        ("There's an issue with the selected model", ApiFailureKind::ModelNotFound),
        ("Request timed out", ApiFailureKind::Network),
        ("API Error: Connection", ApiFailureKind::Network),
        ("API Error: Unable to connect", ApiFailureKind::Network),
    ];
    let message = message.trim_start();
    PREFIXES.into_iter().find(|(prefix, _)| message.starts_with(prefix)).map(|(_, kind)| kind)
}

/// Parses the status in `API Error: 500 …` or `API Error: Request rejected (429) …`.
fn status_in(message: &str) -> Option<u16> {
    let (_, after) = message.split_once("API Error: ")?;
    let after = after.strip_prefix("Request rejected (").unwrap_or(after);
    let digits = after.get(..3)?;
    let ends = after.get(3..)?.chars().next().is_none_or(|next| !next.is_alphanumeric());
    (ends && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}
