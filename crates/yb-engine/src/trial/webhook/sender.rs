//! Sends a webhook request with up to two retries.

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Request, StatusCode};
use jiff::Timestamp;
use yb_supervise::CancellationToken;

use super::WebhookRequest;
use yb_case::Webhook;
use yb_net::http::{HttpConnector, HttpError, read_body};
use yb_net::policy::{HostError, HostPolicy, Resolver, resolve_host};
use yb_net::tls::{Roots, Tls, TlsError};

/// The delays before the retries.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// The longest `Retry-After` that is honored. A longer one ends the retries.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// How much of a response body is read.
const MAX_RESPONSE_BYTES: usize = 8 * 1024;

/// Sleeps; replaced in tests.
#[async_trait]
pub(super) trait Clock: Send + Sync {
    async fn sleep(&self, time: Duration);
}

pub(super) struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Sends requests: policy, name resolution, TLS roots and cancellation.
pub(super) struct WebhookSender<'a> {
    pub(super) hosts: HostPolicy,
    pub(super) resolver: &'a dyn Resolver,
    pub(super) roots: Roots,
    pub(super) clock: &'a dyn Clock,
    pub(super) cancellation: CancellationToken,
}

/// A response whose body was read up to a limit.
struct HookResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// The outcome of sending a request.
#[derive(Debug)]
pub(super) struct SendOutcome {
    pub(super) succeeded: bool,
    pub(super) message: String,
    /// The beginning of the response body.
    pub(super) body: Vec<u8>,
}

/// A failed attempt.
struct AttemptFailure {
    message: String,
    body: Vec<u8>,
    again: RetryAdvice,
}

/// Whether to retry after a failed attempt.
enum RetryAdvice {
    GiveUp,
    /// Retry after the usual delay, or after the one that the server asks for if that is longer.
    RetryAfter(Option<Duration>),
}

/// State shared by the attempts: the host is resolved and checked once, and the roots are read once.
#[derive(Default)]
struct ConnectionState {
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
}

impl WebhookSender<'_> {
    /// Sends the request with retries. Cancellation ends this at once.
    pub(super) async fn send(&self, prepared: &WebhookRequest, hook: &Webhook, body: String) -> SendOutcome {
        tokio::select! {
            biased;
            () = self.cancellation.cancelled() => {
                SendOutcome { succeeded: false, message: "cancelled".to_owned(), body: Vec::new() }
            }
            sent = self.attempts(prepared, hook, Bytes::from(body)) => sent,
        }
    }

    async fn attempts(&self, prepared: &WebhookRequest, hook: &Webhook, body: Bytes) -> SendOutcome {
        let mut state = ConnectionState::default();
        let mut waits = RETRY_DELAYS.iter().take(if hook.retry_on_failure { RETRY_DELAYS.len() } else { 0 });
        let mut attempt = 1;
        loop {
            let tried = self.attempt(prepared, &mut state, hook.timeout, body.clone());
            let failure = match tokio::time::timeout(hook.timeout, tried).await {
                Ok(Ok(response)) => {
                    let message = format!("HTTP {}{}", response.status, attempts_suffix(attempt));
                    return SendOutcome { succeeded: true, message, body: response.body };
                }
                Ok(Err(failure)) => failure,
                Err(_) => AttemptFailure::transient(format!("no response within {:?}", hook.timeout)),
            };
            let AttemptFailure { message, body, again } = failure;
            let failed = |why: &str| SendOutcome {
                succeeded: false,
                message: format!("{message}{why}{}", attempts_suffix(attempt)),
                body,
            };
            let (RetryAdvice::RetryAfter(asked), Some(wait)) = (again, waits.next()) else {
                return failed("");
            };
            let wait = asked.unwrap_or_default().max(*wait);
            if wait > MAX_RETRY_DELAY {
                return failed(&format!("; retry-after is too long: {wait:.0?}"));
            }
            self.clock.sleep(wait).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        prepared: &WebhookRequest,
        state: &mut ConnectionState,
        timeout: Duration,
        body: Bytes,
    ) -> Result<HookResponse, AttemptFailure> {
        let url = &prepared.url;
        if state.addresses.is_empty() {
            state.addresses = resolve_host(url.host(), url.port(), self.hosts, self.resolver).await?;
        }
        if url.is_https() && state.tls.is_none() {
            state.tls = Some(Tls::new(&self.roots)?);
        }
        let mut connector = HttpConnector::new(self.hosts, timeout);
        if let Some(tls) = &state.tls {
            connector = connector.with_tls(tls.clone());
        }
        let mut connection = connector.connect_to(url, &state.addresses).await?;
        let mut request = Request::new(body);
        *request.method_mut() = prepared.method.clone();
        *request.uri_mut() = url.path_and_query();
        *request.headers_mut() = prepared.headers.clone();
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let (head, body) = connection.send(request).await?.into_parts();
        let body = read_body(body, MAX_RESPONSE_BYTES).await;
        let response = HookResponse { status: head.status, headers: head.headers, body };
        if response.status.is_success() { Ok(response) } else { Err(AttemptFailure::of(response)) }
    }
}

impl AttemptFailure {
    fn transient(message: String) -> Self {
        Self { message, body: Vec::new(), again: RetryAdvice::RetryAfter(None) }
    }

    fn of(response: HookResponse) -> Self {
        let status = response.status;
        let mut message = format!("HTTP {status}");
        if status.is_redirection() {
            message.push_str(": redirects are not followed; use the target URL");
        }
        let again = if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            RetryAdvice::RetryAfter(retry_after(&response.headers, Timestamp::now()))
        } else {
            RetryAdvice::GiveUp
        };
        Self { message, body: response.body, again }
    }
}

impl From<HostError> for AttemptFailure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Private { .. } => Self {
                message: format!("{error} (use `--allow-private-hosts` if this host is meant)"),
                body: Vec::new(),
                again: RetryAdvice::GiveUp,
            },
            HostError::Unresolved { .. } => Self::transient(error.to_string()),
        }
    }
}

impl From<HttpError> for AttemptFailure {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Host(error) => error.into(),
            HttpError::Tls(message) => Self { message, body: Vec::new(), again: RetryAdvice::GiveUp },
            error => Self::transient(error.to_string()),
        }
    }
}

impl From<TlsError> for AttemptFailure {
    fn from(error: TlsError) -> Self {
        HttpError::from(error).into()
    }
}

/// Parses `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}

fn attempts_suffix(attempt: usize) -> String {
    if attempt == 1 { String::new() } else { format!(", after {attempt} attempts") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_accepts_seconds_and_dates() {
        let now: Timestamp = "2026-11-15T08:00:00Z".parse().unwrap();
        for (text, seconds) in [
            ("5", Some(5)),
            (" 5 ", Some(5)),
            ("Sun, 15 Nov 2026 08:00:20 GMT", Some(20)),
            ("Sun, 15 Nov 2026 07:59:00 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
        ] {
            let headers = [(RETRY_AFTER, text.parse().unwrap())].into_iter().collect();
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
