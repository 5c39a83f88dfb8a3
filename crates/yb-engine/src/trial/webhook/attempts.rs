//! Up to three attempts at one request: what is worth another, and how long to wait for it.

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Request, StatusCode};
use jiff::Timestamp;
use yb_supervise::CancellationToken;

use super::Prepared;
use yb_case::Webhook;
use yb_net::http::{HttpConnector, HttpError, read_body};
use yb_net::policy::{HostError, HostPolicy, Resolver, resolve_host};
use yb_net::tls::{Roots, Tls, TlsError};

/// The waits before the second and the third attempt.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// The longest wait that a server may ask for; one that asks for more is not asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How much of a response body is read.
const MAX_RESPONSE_BYTES: usize = 8 * 1024;

/// Who waits.
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

/// What sending needs beside the request.
pub(super) struct Sender<'a> {
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

/// How it went.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) succeeded: bool,
    pub(super) message: String,
    /// The beginning of what was answered.
    pub(super) body: Vec<u8>,
}

/// An attempt that did not succeed.
struct Failure {
    message: String,
    body: Vec<u8>,
    again: Again,
}

/// Whether another attempt may do better.
enum Again {
    Never,
    /// After the usual time, or after what the server asks for if that is longer.
    After(Option<Duration>),
}

/// What the attempts share: a host is resolved and checked once, and the roots are read once.
#[derive(Default)]
struct Way {
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
}

impl Sender<'_> {
    /// Sends until it succeeds, or until another attempt would be no better; at once no longer when cancelled.
    pub(super) async fn send(&self, prepared: &Prepared, hook: &Webhook, body: String) -> Sent {
        tokio::select! {
            biased;
            () = self.cancellation.cancelled() => {
                Sent { succeeded: false, message: "cancelled".to_owned(), body: Vec::new() }
            }
            sent = self.attempts(prepared, hook, Bytes::from(body)) => sent,
        }
    }

    async fn attempts(&self, prepared: &Prepared, hook: &Webhook, body: Bytes) -> Sent {
        let mut way = Way::default();
        let mut waits = WAITS.iter().take(if hook.retry_on_failure { WAITS.len() } else { 0 });
        let mut attempt = 1;
        loop {
            let tried = self.attempt(prepared, &mut way, hook.timeout, body.clone());
            let failure = match tokio::time::timeout(hook.timeout, tried).await {
                Ok(Ok(answer)) => {
                    let message = format!("HTTP {}{}", answer.status, after(attempt));
                    return Sent { succeeded: true, message, body: answer.body };
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::transient(format!("no answer within {:?}", hook.timeout)),
            };
            let Failure { message, body, again } = failure;
            let failed = |why: &str| Sent {
                succeeded: false,
                message: format!("{message}{why}{}", after(attempt)),
                body,
            };
            let (Again::After(asked), Some(wait)) = (again, waits.next()) else { return failed("") };
            let wait = asked.unwrap_or_default().max(*wait);
            if wait > LONGEST_WAIT {
                return failed(&format!(", and the server asks to wait {wait:.0?}"));
            }
            self.clock.sleep(wait).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        prepared: &Prepared,
        way: &mut Way,
        timeout: Duration,
        body: Bytes,
    ) -> Result<HookResponse, Failure> {
        let url = &prepared.url;
        if way.addresses.is_empty() {
            way.addresses = resolve_host(url.host(), url.port(), self.hosts, self.resolver).await?;
        }
        if url.is_https() && way.tls.is_none() {
            way.tls = Some(Tls::new(&self.roots)?);
        }
        let mut connector = HttpConnector::new(self.hosts, timeout);
        if let Some(tls) = &way.tls {
            connector = connector.with_tls(tls.clone());
        }
        let mut connection = connector.connect_to(url, &way.addresses).await?;
        let mut request = Request::new(body);
        *request.method_mut() = prepared.method.clone();
        *request.uri_mut() = url.path_and_query().clone();
        *request.headers_mut() = prepared.headers.clone();
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let (head, body) = connection.send(request).await?.into_parts();
        let body = read_body(body, MAX_RESPONSE_BYTES).await;
        let response = HookResponse { status: head.status, headers: head.headers, body };
        if response.status.is_success() { Ok(response) } else { Err(Failure::of(response)) }
    }
}

impl Failure {
    fn transient(message: String) -> Self {
        Self { message, body: Vec::new(), again: Again::After(None) }
    }

    fn of(response: HookResponse) -> Self {
        let status = response.status;
        let mut message = format!("HTTP {status}");
        if status.is_redirection() {
            message.push_str(": redirects are not followed; name the address that it leads to");
        }
        let again = if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            Again::After(asked(&response.headers, Timestamp::now()))
        } else {
            Again::Never
        };
        Self { message, body: response.body, again }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Private { .. } => Self {
                message: format!("{error} (use `--allow-private-hosts` if this host is meant)"),
                body: Vec::new(),
                again: Again::Never,
            },
            HostError::Unresolved { .. } => Self::transient(error.to_string()),
        }
    }
}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Host(error) => error.into(),
            HttpError::Tls(message) => Self { message, body: Vec::new(), again: Again::Never },
            error => Self::transient(error.to_string()),
        }
    }
}

impl From<TlsError> for Failure {
    fn from(error: TlsError) -> Self {
        HttpError::from(error).into()
    }
}

/// What `Retry-After` says: seconds, or a date.
fn asked(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}

fn after(attempt: usize) -> String {
    if attempt == 1 { String::new() } else { format!(", after {attempt} attempts") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_to_wait_until() {
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
            assert_eq!(asked(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(asked(&HeaderMap::new(), now), None);
    }
}
