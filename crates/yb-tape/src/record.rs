//! Proxies to the real API: one that records the exchanges on a tape, and one that only observes failures.

mod tape_writer;
pub(crate) mod tee;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt as _, Either, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};

use self::tape_writer::TapeWriter;
use self::tee::{CapturedExchange, TeeBody};
use crate::api_error::ApiErrorKind;
use crate::error::Error;
use crate::format::VERSION;
use crate::format::record::{ResponseEnding, TapeHeader};
use crate::format::reduce::RequestRetention;
use crate::loopback::{self, LoopbackServer, RequestHandler};
use crate::paced_body::{ConnectionDropped, PacedBody};
use crate::request_hold::HeldRequests;
use crate::request_texts::RequestTexts;
use crate::secrets::Secrets;
use crate::tape::case;
use crate::traffic::{ApiCredentials, ApiTraffic, ObservedFailure, WaitingSince};
use crate::upstream::{Client, Upstream, end_to_end_headers};
use crate::usage::ObservedUsage;

/// Twice the request limit of the API.
pub(crate) const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// Options of a [`RecordingProxy`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordingOptions {
    /// The API to record.
    pub upstream: Upstream,
    /// The tape file to create; an existing file is never overwritten.
    pub tape: PathBuf,
    /// Values to redact on the tape.
    pub secrets: Secrets,
    /// Whether to record system prompts and tool definitions in full instead of only their hashes.
    pub full_requests: bool,
    /// Directories of the run by name (`workspace`, `home`, …), so that a replay can map them to others.
    pub directories: BTreeMap<String, String>,
    /// The texts of the case by name (`prompt`, `system_prompt`, …), which a replay compares verbatim.
    pub case: Option<BTreeMap<String, String>>,
    /// The loopback port; 0, the default, means any free port.
    pub port: u16,
    /// The credentials of the requests whose failures count.
    pub credentials: ApiCredentials,
}

impl RecordingOptions {
    /// Creates options that record `upstream` into the file `tape`.
    #[must_use]
    pub fn new(upstream: Upstream, tape: impl Into<PathBuf>) -> Self {
        Self {
            upstream,
            tape: tape.into(),
            secrets: Secrets::new(),
            full_requests: false,
            directories: BTreeMap::new(),
            case: None,
            port: 0,
            credentials: ApiCredentials::Any,
        }
    }

    /// Sets the values to redact on the tape.
    #[must_use]
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Sets whether to record system prompts and tool definitions in full.
    #[must_use]
    pub fn full_requests(mut self, full: bool) -> Self {
        self.full_requests = full;
        self
    }

    /// Adds a directory of the run, such as its `workspace` or `home`.
    #[must_use]
    pub fn directory(mut self, name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        self.directories.insert(name.into(), path.as_ref().display().to_string());
        self
    }

    /// Sets the credentials of the requests whose failures count.
    #[must_use]
    pub fn credentials(mut self, credentials: ApiCredentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Sets the texts of the case, which a replay compares verbatim.
    #[must_use]
    pub fn case(mut self, texts: BTreeMap<String, String>) -> Self {
        self.case = Some(texts);
        self
    }

    /// Sets the loopback port; 0 means any free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }
}

/// A recording in progress: a proxy on loopback that writes a tape. Dropping it without [`RecordingProxy::finish`] leaves
/// a tape that is marked as unfinished.
#[derive(Debug)]
pub struct RecordingProxy {
    /// Stopped first, so that exchanges in progress reach the writer as disconnected.
    server: Option<LoopbackServer>,
    writer: TapeWriter,
    tape: PathBuf,
}

/// Result of a finished recording.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordingSummary {
    /// The tape file.
    pub tape: PathBuf,
    /// Requests and tokens of the recorded traffic.
    pub observed: ObservedUsage,
    /// The last failure of a model request, unless a later request succeeded.
    pub api_failure: Option<ObservedFailure>,
}

impl RecordingProxy {
    /// Creates the tape and starts listening on 127.0.0.1.
    ///
    /// # Errors
    /// When the tape exists or can't be created, the port is in use, or TLS can't be set up.
    pub fn start(options: RecordingOptions) -> Result<Self, Error> {
        Self::start_on(loopback::bind(options.port)?, options)
    }

    /// Starts on a listener that is already bound to loopback.
    ///
    /// # Errors
    /// As [`RecordingProxy::start`].
    pub fn start_on(listener: TcpListener, options: RecordingOptions) -> Result<Self, Error> {
        let client = Client::new(options.upstream.clone())?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = TapeHeader {
            version: VERSION,
            made_by: concat!("yb-tape ", env!("CARGO_PKG_VERSION")).to_owned(),
            created_ms: u64::try_from(created.as_millis()).unwrap_or(u64::MAX),
            upstream: options.upstream.url().to_owned(),
            directories: options.directories,
            full_requests: options.full_requests,
            sealed: true,
        };
        let retention =
            if options.full_requests { RequestRetention::Full } else { RequestRetention::Conversation };
        let (sender, receiver) = mpsc::channel();
        let secrets = options.secrets.replacer();
        let case = options.case.as_ref().map(|texts| case::record(texts, &secrets));
        let writer = TapeWriter::start(&options.tape, header, case, retention, secrets, receiver)?;
        let handler =
            ProxyHandler { client, captured: Some(sender), next: AtomicU64::new(1), started: Instant::now() };
        let traffic = ApiTraffic::new(options.credentials);
        let server = LoopbackServer::start_multi_thread(listener, Arc::new(handler), traffic)?;
        Ok(Self { server: Some(server), writer, tape: options.tape })
    }

    /// Returns the address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.as_ref().map_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)), LoopbackServer::address)
    }

    /// Returns the base URL to configure in the agent.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.server.as_ref().map(LoopbackServer::base_url).unwrap_or_default()
    }

    /// Looks for texts in all model requests from now on.
    pub fn watch_texts(&self, texts: RequestTexts) {
        if let Some(server) = &self.server {
            server.traffic().watch(texts);
        }
    }

    /// Holds all model requests with tool results from now on, until the caller drops them.
    #[must_use]
    pub fn hold_requests(&self) -> Option<HeldRequests> {
        self.server.as_ref().map(|server| server.traffic().hold())
    }

    /// Returns requests and tokens so far; an exchange counts once it has ended.
    #[must_use]
    pub fn observed(&self) -> ObservedUsage {
        self.writer.observed()
    }

    /// Returns the first error while writing the tape, if any. Requests are forwarded regardless.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.writer.failure()
    }

    /// Ends the recording. Responses in progress are aborted; the tape is synced to disk when this returns.
    ///
    /// # Errors
    /// When any part of the tape could not be written.
    pub fn finish(mut self) -> Result<RecordingSummary, Error> {
        let traffic = self.server.as_ref().map(|server| Arc::clone(server.traffic()));
        // Drops the last sender, which ends the writer.
        self.server.take();
        let api_failure = traffic.and_then(|traffic| traffic.failure());
        let observed = self.writer.finish(&self.tape)?;
        Ok(RecordingSummary { tape: self.tape, observed, api_failure })
    }
}

/// A proxy on loopback that forwards everything, keeps nothing, and observes which model requests fail.
#[derive(Debug)]
pub struct ObservingProxy {
    server: LoopbackServer,
}

impl ObservingProxy {
    /// Starts listening on 127.0.0.1. Only failures of requests with these credentials count.
    ///
    /// # Errors
    /// When no port is free, or TLS can't be set up.
    pub fn start(upstream: Upstream, credentials: ApiCredentials) -> Result<Self, Error> {
        let client = Client::new(upstream)?;
        let handler =
            ProxyHandler { client, captured: None, next: AtomicU64::new(1), started: Instant::now() };
        let traffic = ApiTraffic::new(credentials);
        let server = LoopbackServer::start_multi_thread(loopback::bind(0)?, Arc::new(handler), traffic)?;
        Ok(Self { server })
    }

    /// Returns the base URL to configure in the agent.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// Looks for texts in all model requests from now on.
    pub fn watch_texts(&self, texts: RequestTexts) {
        self.server.traffic().watch(texts);
    }

    /// Holds all model requests with tool results from now on, until the caller drops them.
    #[must_use]
    pub fn hold_requests(&self) -> HeldRequests {
        self.server.traffic().hold()
    }

    /// Stops, and returns the last failure of a model request, unless a later request succeeded.
    pub async fn finish(self) -> Option<ObservedFailure> {
        let traffic = Arc::clone(self.server.traffic());
        self.server.shutdown().await;
        traffic.failure()
    }
}

struct ProxyHandler {
    client: Arc<Client>,
    /// The writer of the tape; `None` if nothing is recorded.
    captured: Option<mpsc::Sender<CapturedExchange>>,
    next: AtomicU64,
    started: Instant,
}

impl RequestHandler for ProxyHandler {
    type Body = Either<PacedBody, TeeBody>;

    async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Self::Body>, ConnectionDropped> {
        let received = Instant::now();
        let (parts, body) = request.into_parts();
        let body = match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => {
                let message = format!("request larger than {MAX_REQUEST_BYTES} bytes or incomplete");
                return Ok(error_response(
                    ApiErrorKind::RequestTooLarge,
                    StatusCode::PAYLOAD_TOO_LARGE,
                    &message,
                ));
            }
        };
        if let Some(waiting) = parts.extensions.get::<WaitingSince>() {
            waiting.read_request(&parts, &body).await;
            waiting.start();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let at = received.saturating_duration_since(self.started);
        let mut captured = CapturedExchange::new(number, at, &parts, body.clone());
        match self.client.send(&parts, body).await {
            Ok((response, sender)) => {
                let (head, incoming) = response.into_parts();
                captured.status = Some(head.status.as_u16());
                captured.response_headers = head.headers.clone();
                let tee = match self.captured.clone() {
                    Some(writer) => TeeBody::new(incoming, captured, received, move |captured| {
                        drop(writer.send(captured));
                    }),
                    None => TeeBody::forwarding(incoming),
                };
                let tee = tee.returning(Arc::clone(&self.client), sender);
                let mut forwarded = Response::new(Either::Right(tee));
                *forwarded.status_mut() = head.status;
                *forwarded.headers_mut() = end_to_end_headers(&head.headers);
                Ok(forwarded)
            }
            Err(reason) => {
                captured.end = ResponseEnding::Unreachable;
                if let Some(writer) = &self.captured {
                    let _ = writer.send(captured);
                }
                let message = format!("proxy failed to reach {}: {reason}", self.client.upstream().url());
                Ok(error_response(ApiErrorKind::Api, StatusCode::BAD_GATEWAY, &message))
            }
        }
    }
}

/// Creates an error response of this crate in the format of the Anthropic API.
pub(crate) fn error_response<T>(
    kind: ApiErrorKind,
    status: StatusCode,
    message: &str,
) -> Response<Either<PacedBody, T>> {
    let body = kind.envelope(message, "req_tape").to_string();
    let mut response = Response::new(Either::Left(PacedBody::whole(Bytes::from(body))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
