//! Observes which model requests failed, on the wire. An agent's own report about its API proves nothing: a tool of the agent can
//! write to the same output.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use hyper::{Method, Request};

use crate::protocol::Endpoint;
use crate::request_hold::{HeldRequests, RequestHold};
use crate::request_texts::RequestTexts;

/// How long a request must have waited for its API, without any answer, to count as failed when the agent ends.
const NO_ANSWER: Duration = Duration::from_secs(60);
/// How much of an error is read to classify it.
const MAX_ERROR_BYTES: usize = 4096;
/// How much of a line is needed to recognize an error in a stream.
const MAX_LINE_BYTES: usize = 64;

/// Headers with credentials of the model APIs.
const CREDENTIAL_HEADERS: [&str; 4] = ["x-api-key", "authorization", "x-goog-api-key", "api-key"];
/// Lines with which an error starts in a stream. Text of a model is within a JSON string, so it can't start a line.
const ERROR_LINES: [&[u8]; 5] = [
    b"event: error",
    b"event: response.failed",
    b"data: {\"type\":\"error\"",
    b"data: {\"error\":",
    b"data: {\"type\":\"response.failed\"",
];
/// Names of errors in the bodies of all supported APIs. An escaped quote in a message does not match.
const NAMES: [(&str, ObservedFailureKind); 17] = [
    ("\"authentication_error\"", ObservedFailureKind::Unauthenticated),
    ("\"permission_error\"", ObservedFailureKind::Unauthenticated),
    ("\"invalid_api_key\"", ObservedFailureKind::Unauthenticated),
    ("\"UNAUTHENTICATED\"", ObservedFailureKind::Unauthenticated),
    ("\"PERMISSION_DENIED\"", ObservedFailureKind::Unauthenticated),
    ("\"billing_error\"", ObservedFailureKind::Billing),
    ("\"insufficient_quota\"", ObservedFailureKind::Billing),
    ("\"rate_limit_error\"", ObservedFailureKind::RateLimited),
    ("\"rate_limit_exceeded\"", ObservedFailureKind::RateLimited),
    ("\"RESOURCE_EXHAUSTED\"", ObservedFailureKind::RateLimited),
    ("\"overloaded_error\"", ObservedFailureKind::Overloaded),
    ("\"server_is_overloaded\"", ObservedFailureKind::Overloaded),
    ("\"api_error\"", ObservedFailureKind::ServerError),
    ("\"timeout_error\"", ObservedFailureKind::ServerError),
    ("\"server_error\"", ObservedFailureKind::ServerError),
    ("\"UNAVAILABLE\"", ObservedFailureKind::ServerError),
    ("\"INTERNAL\"", ObservedFailureKind::ServerError),
];
/// The beginning of the message about an account without credit, which has status 400.
const NO_CREDIT: &str = "\"message\":\"Your credit balance is too low";

/// The kind of an observed failure of a model API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObservedFailureKind {
    /// The credentials were rejected.
    Unauthenticated,
    /// The account has no credit.
    Billing,
    /// The rate limit was exceeded.
    RateLimited,
    /// The API is overloaded.
    Overloaded,
    /// The API failed.
    ServerError,
    /// The API was not reachable, did not answer, or closed the connection.
    Unreachable,
}

/// A failure of a model API that was seen on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedFailure {
    /// The kind.
    pub kind: ObservedFailureKind,
    /// The HTTP status; `None` without an answer.
    pub status: Option<u16>,
}

/// The credentials of the requests that count. Requests of an agent's tools with other ones prove nothing about the agent's API.
#[derive(Clone, Default)]
pub enum ApiCredentials {
    /// Any: the model is simulated.
    #[default]
    Any,
    /// Those of the first request, which the agent sends before any of its tools runs.
    OfFirstRequest,
    /// One of these values.
    OneOf(Vec<String>),
}

/// Debug output without the values.
impl std::fmt::Debug for ApiCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Any => "Any",
            Self::OfFirstRequest => "OfFirstRequest",
            Self::OneOf(_) => "OneOf(…)",
        })
    }
}

/// The observed traffic of one server.
#[derive(Debug, Default)]
pub(crate) struct ApiTraffic {
    credentials: ApiCredentials,
    first: OnceLock<blake3::Hash>,
    /// The texts that are looked for in requests.
    watched: OnceLock<RequestTexts>,
    /// Holds requests with tool results.
    hold: OnceLock<RequestHold>,
    /// The last failure and its time, unless a request that began later succeeded.
    failure: Mutex<Option<(Instant, ObservedFailure)>>,
}

impl ApiTraffic {
    pub(crate) fn new(credentials: ApiCredentials) -> Arc<Self> {
        Arc::new(Self { credentials, ..Self::default() })
    }

    /// Returns the last failure, unless a request that began later succeeded.
    pub(crate) fn failure(&self) -> Option<ObservedFailure> {
        self.lock().map(|(_, failure)| failure)
    }

    /// Looks for texts in all requests from now on. Only the first call has an effect.
    pub(crate) fn watch(&self, texts: RequestTexts) {
        let _ = self.watched.set(texts);
    }

    /// Holds all requests with tool results from now on. Only the first call has an effect.
    pub(crate) fn hold(&self) -> HeldRequests {
        let (hold, receiver) = RequestHold::new();
        let _ = self.hold.set(hold);
        receiver
    }

    /// Starts observing a request.
    pub(crate) fn begin<B>(self: &Arc<Self>, request: &Request<B>) -> ObservedExchange {
        let uri = request.uri();
        let endpoint = Endpoint::from_path(uri.path(), uri.query().unwrap_or_default());
        let counts = request.method() == Method::POST
            && matches!(endpoint, Some(Endpoint::Generate(_)))
            && self.has_credentials(request.headers(), uri.query().unwrap_or_default());
        ObservedExchange {
            traffic: counts.then(|| Arc::clone(self)),
            began: Instant::now(),
            waiting: WaitingSince {
                texts: counts.then(|| self.watched.get().cloned()).flatten(),
                hold: counts.then(|| self.hold.get().cloned()).flatten(),
                ..WaitingSince::default()
            },
            status: None,
            line: Vec::new(),
            error: Vec::new(),
            in_error: false,
        }
    }

    fn has_credentials(&self, headers: &HeaderMap, query: &str) -> bool {
        let values = || CREDENTIAL_HEADERS.iter().flat_map(|name| headers.get_all(*name));
        match &self.credentials {
            ApiCredentials::Any => true,
            ApiCredentials::OneOf(expected) => expected.iter().any(|secret| {
                let in_header = |value: &[u8]| {
                    let value = value.strip_prefix(b"Bearer ").unwrap_or(value);
                    value == secret.as_bytes()
                };
                values().any(|value| in_header(value.as_bytes()))
                    || query.split('&').any(|part| part.strip_prefix("key=") == Some(secret.as_str()))
            }),
            ApiCredentials::OfFirstRequest => {
                let mut hasher = blake3::Hasher::new();
                for value in values() {
                    hasher.update(value.as_bytes()).update(b"\n");
                }
                let found = hasher.finalize();
                *self.first.get_or_init(|| found) == found
            }
        }
    }

    fn succeeded(&self, began: Instant) {
        let mut failure = self.lock();
        if failure.is_some_and(|(at, _)| began >= at) {
            *failure = None;
        }
    }

    fn failed(&self, failure: ObservedFailure) {
        *self.lock() = Some((Instant::now(), failure));
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Instant, ObservedFailure)>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time since a request waits for its API. A handler sets it when it has read the request completely: an agent can send a request
/// slowly.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingSince {
    since: Arc<Mutex<Option<Instant>>>,
    /// The texts that are looked for, if the request counts.
    texts: Option<RequestTexts>,
    hold: Option<RequestHold>,
}

impl WaitingSince {
    /// Looks for texts in the complete request, and waits while it is held.
    pub(crate) async fn read_request(&self, parts: &Parts, body: &[u8]) {
        if let Some(texts) = &self.texts {
            texts.read(body);
        }
        if let Some(hold) = &self.hold {
            hold.wait(parts, body).await;
        }
    }

    pub(crate) fn start(&self) {
        *self.lock() = Some(Instant::now());
    }

    fn continue_waiting(&self) {
        self.lock().get_or_insert_with(Instant::now);
    }

    fn stop(&self) {
        *self.lock() = None;
    }

    fn elapsed(&self) -> Duration {
        self.lock().map(|since| since.elapsed()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An exchange that is being observed. Dropping it means that the client disconnected.
pub(crate) struct ObservedExchange {
    /// `None` if the exchange does not count, or has ended.
    traffic: Option<Arc<ApiTraffic>>,
    began: Instant,
    waiting: WaitingSince,
    status: Option<u16>,
    /// The beginning of the current line of a stream.
    line: Vec<u8>,
    /// The body of an error, or an error in a stream.
    error: Vec<u8>,
    in_error: bool,
}

impl ObservedExchange {
    pub(crate) fn waiting(&self) -> WaitingSince {
        self.waiting.clone()
    }

    pub(crate) fn answered(&mut self, status: u16) {
        self.status = Some(status);
        self.in_error = !(200..300).contains(&status);
        self.waiting.stop();
    }

    fn read(&mut self, data: &[u8]) {
        if self.traffic.is_none() {
            return;
        }
        if self.in_error {
            let room = MAX_ERROR_BYTES.saturating_sub(self.error.len());
            self.error.extend_from_slice(&data[..data.len().min(room)]);
            return;
        }
        let mut rest = data;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (piece, next) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if ERROR_LINES.iter().any(|start| self.line.starts_with(start)) {
                self.in_error = true;
                self.read(rest);
                return;
            }
            if end.is_some() {
                self.line.clear();
            }
            rest = next;
        }
    }

    /// The response was sent completely.
    fn complete(&mut self) {
        let Some(traffic) = self.traffic.take() else { return };
        if !self.in_error {
            traffic.succeeded(self.began);
        } else if let Some(kind) = classify(self.status, &self.error) {
            traffic.failed(ObservedFailure { kind, status: self.status });
        }
    }

    /// The API did not answer, or closed the connection.
    pub(crate) fn unreachable(&mut self) {
        if let Some(traffic) = self.traffic.take() {
            traffic.failed(ObservedFailure { kind: ObservedFailureKind::Unreachable, status: self.status });
        }
    }
}

impl Drop for ObservedExchange {
    fn drop(&mut self) {
        if self.waiting.elapsed() >= NO_ANSWER {
            self.unreachable();
        } else if self.in_error {
            // The client need not read an error to its end.
            self.complete();
        }
    }
}

/// Returns the kind of a failure; `None` if the request itself was wrong.
fn classify(status: Option<u16>, body: &[u8]) -> Option<ObservedFailureKind> {
    let text = String::from_utf8_lossy(body);
    let named = || NAMES.iter().find(|(name, _)| text.contains(name)).map(|(_, kind)| *kind);
    match status? {
        200..=299 => named(),
        401 | 403 => Some(ObservedFailureKind::Unauthenticated),
        402 => Some(ObservedFailureKind::Billing),
        429 if text.contains("\"insufficient_quota\"") => Some(ObservedFailureKind::Billing),
        429 => Some(ObservedFailureKind::RateLimited),
        529 => Some(ObservedFailureKind::Overloaded),
        408 | 500..=599 => Some(ObservedFailureKind::ServerError),
        400 if text.contains(NO_CREDIT) => Some(ObservedFailureKind::Billing),
        _ => None,
    }
}

/// A response body that is observed while it is sent.
pub(crate) struct ObservedBody<B> {
    body: Pin<Box<B>>,
    exchange: ObservedExchange,
}

impl<B: Body> ObservedBody<B> {
    pub(crate) fn new(body: B, exchange: ObservedExchange) -> Self {
        let mut observed = Self { body: Box::pin(body), exchange };
        observed.end_if_complete();
        observed
    }

    /// With a known length, a body is not polled again after its last byte.
    fn end_if_complete(&mut self) {
        if self.body.is_end_stream() {
            self.exchange.complete();
        }
    }
}

impl<B: Body<Data = Bytes>> Body for ObservedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = self.body.as_mut().poll_frame(context);
        match &polled {
            // A client that does not read does not let its API wait: then this is not polled.
            Poll::Pending => self.exchange.waiting.continue_waiting(),
            Poll::Ready(None) => self.exchange.complete(),
            Poll::Ready(Some(Err(_))) => self.exchange.unreachable(),
            Poll::Ready(Some(Ok(frame))) => {
                self.exchange.waiting.stop();
                if let Some(data) = frame.data_ref() {
                    self.exchange.read(data);
                }
                self.end_if_complete();
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "/v1/messages?beta=true";

    fn exchange(traffic: &Arc<ApiTraffic>, path: &str, key: &str) -> ObservedExchange {
        let request = Request::post(path).header("x-api-key", key).body(()).unwrap();
        traffic.begin(&request)
    }

    fn answer(traffic: &Arc<ApiTraffic>, status: u16, body: &[&str]) {
        let mut exchange = exchange(traffic, MODEL, "key");
        exchange.answered(status);
        body.iter().for_each(|piece| exchange.read(piece.as_bytes()));
        exchange.complete();
    }

    fn kind(status: u16, body: &[&str]) -> Option<ObservedFailureKind> {
        let traffic = ApiTraffic::new(ApiCredentials::Any);
        answer(&traffic, status, body);
        traffic.failure().map(|failure| failure.kind)
    }

    #[test]
    fn failures_are_classified_by_status_and_error() {
        use ObservedFailureKind::{Billing, Overloaded, RateLimited, ServerError, Unauthenticated};
        assert_eq!(kind(200, &["event: message_start\ndata: {}\n\n"]), None);
        assert_eq!(
            kind(400, &[r#"{"error":{"type":"invalid_request_error","message":"\"rate_limit_error\""}}"#]),
            None
        );
        assert_eq!(
            kind(400, &[r#"{"error":{"message":"Your credit balance is too low to …"}}"#]),
            Some(Billing)
        );
        assert_eq!(kind(401, &[""]), Some(Unauthenticated));
        assert_eq!(kind(429, &["{}"]), Some(RateLimited));
        assert_eq!(kind(503, &["<html>"]), Some(ServerError));
        let cut = [
            "event: message_start\ndata: {}\n\nevent: er",
            "ror\ndata: {\"type\":\"error\",\"error\":",
            "{\"type\":\"overloaded_error\"}}\n\n",
        ];
        assert_eq!(kind(200, &cut), Some(Overloaded));
        // What a model says is within a JSON string.
        let said =
            [r#"data: {"delta":{"text":"\nevent: error\ndata: {\"type\":\"overloaded_error\"}"}}"#, "\n\n"];
        assert_eq!(kind(200, &said), None);
    }

    #[test]
    fn later_success_recovers_and_earlier_one_does_not() {
        let traffic = ApiTraffic::new(ApiCredentials::Any);
        let mut early = exchange(&traffic, MODEL, "key");
        early.answered(200);
        answer(&traffic, 529, &[]);
        early.complete();
        assert!(traffic.failure().is_some(), "it began before the failure");
        answer(&traffic, 400, &[]);
        assert!(traffic.failure().is_some(), "a wrong request is no success");
        answer(&traffic, 200, &[]);
        assert_eq!(traffic.failure(), None);
    }

    #[test]
    fn only_model_requests_with_the_agents_credentials_count() {
        let known = ApiTraffic::new(ApiCredentials::OneOf(vec!["key".to_owned()]));
        let first = ApiTraffic::new(ApiCredentials::OfFirstRequest);
        drop(exchange(&first, MODEL, "key"));
        for traffic in [&known, &first] {
            for (path, key) in
                [(MODEL, "other"), (MODEL, ""), ("/v1/files", "key"), ("/v1/messages/count_tokens", "key")]
            {
                let mut exchange = exchange(traffic, path, key);
                exchange.answered(401);
                exchange.complete();
                assert_eq!(traffic.failure(), None, "{path} {key}");
            }
            answer(traffic, 401, &[]);
            assert!(traffic.failure().is_some());
        }
        let bearer = Request::post(MODEL).header("authorization", "Bearer key").body(()).unwrap();
        let mut exchange = known.begin(&bearer);
        exchange.answered(200);
        exchange.complete();
        assert_eq!(known.failure(), None);
    }

    #[test]
    fn disconnected_client_is_no_failure_of_the_api() {
        let traffic = ApiTraffic::new(ApiCredentials::Any);
        let waiting = exchange(&traffic, MODEL, "key");
        waiting.waiting().start();
        drop(waiting);
        assert_eq!(traffic.failure(), None);
        let mut closed = exchange(&traffic, MODEL, "key");
        closed.unreachable();
        assert_eq!(traffic.failure().map(|failure| failure.kind), Some(ObservedFailureKind::Unreachable));
    }
}
