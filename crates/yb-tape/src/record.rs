//! A proxy that records: the agent's base URL points at it, it passes everything on, and keeps what came back.

mod scribe;
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

use self::scribe::Scribe;
use self::tee::{Heard, Tee};
use crate::api_error::Kind;
use crate::error::Error;
use crate::format::VERSION;
use crate::format::record::{Ending, Head};
use crate::format::reduce::Keep;
use crate::host::{self, Handler, Host};
use crate::reel::{Cut, Reel};
use crate::secrets::Secrets;
use crate::upstream::{Client, Upstream, end_to_end};
use crate::usage::Observed;

/// Twice what the API itself accepts.
pub(crate) const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// How a recording is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecorderOptions {
    /// The API that is recorded.
    pub upstream: Upstream,
    /// The file that is made; one that is there is never written over.
    pub tape: PathBuf,
    /// Texts that must not be on the tape.
    pub secrets: Secrets,
    /// Whether the agent's own prompts and tools are kept as well, and not only their hashes.
    pub full_requests: bool,
    /// The directories of the run by what they are, so that it can be replayed in others: `workspace`, `home`, …
    pub places: BTreeMap<String, String>,
    /// The loopback port; 0, the default, takes any free one.
    pub port: u16,
}

impl RecorderOptions {
    /// Records this API into this file.
    #[must_use]
    pub fn new(upstream: Upstream, tape: impl Into<PathBuf>) -> Self {
        Self {
            upstream,
            tape: tape.into(),
            secrets: Secrets::new(),
            full_requests: false,
            places: BTreeMap::new(),
            port: 0,
        }
    }

    /// The same, with texts that must not be on the tape.
    #[must_use]
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// The same, keeping the agent's own prompts and tools.
    #[must_use]
    pub fn full_requests(mut self, full: bool) -> Self {
        self.full_requests = full;
        self
    }

    /// The same with one more directory of the run: its `workspace`, its `home` and so on.
    #[must_use]
    pub fn place(mut self, name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        self.places.insert(name.into(), path.as_ref().display().to_string());
        self
    }
}

/// A recording under way. Dropping it without [`Recorder::finish`] leaves a tape that says it is not finished.
#[derive(Debug)]
pub struct Recorder {
    /// Stops first: what is under way then goes to the scribe as left.
    host: Option<Host>,
    scribe: Scribe,
    tape: PathBuf,
}

/// A recording that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// The tape.
    pub tape: PathBuf,
    /// What passed by.
    pub observed: Observed,
}

impl Recorder {
    /// Makes the tape and starts to answer on 127.0.0.1.
    ///
    /// # Errors
    /// When the tape exists or can't be made, the port is taken, or TLS can't be set up.
    pub fn start(options: RecorderOptions) -> Result<Self, Error> {
        Self::start_on(host::bind(options.port)?, options)
    }

    /// The same on a listener that is bound to loopback already.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub fn start_on(listener: TcpListener, options: RecorderOptions) -> Result<Self, Error> {
        let client = Client::new(options.upstream.clone())?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let head = Head {
            version: VERSION,
            made_by: concat!("yb-tape ", env!("CARGO_PKG_VERSION")).to_owned(),
            created_ms: u64::try_from(created.as_millis()).unwrap_or(u64::MAX),
            upstream: options.upstream.url().to_owned(),
            places: options.places,
            full_requests: options.full_requests,
        };
        let keep = if options.full_requests { Keep::Everything } else { Keep::Conversation };
        let (heard, hears) = mpsc::channel();
        let scribe = Scribe::start(&options.tape, head, keep, options.secrets.swap(), hears)?;
        let proxy = Proxy { client, heard, next: AtomicU64::new(1), began: Instant::now() };
        let host = Host::start_wide(listener, Arc::new(proxy))?;
        Ok(Self { host: Some(host), scribe, tape: options.tape })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.host.as_ref().map_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)), Host::address)
    }

    /// What an agent takes as its API's base URL.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.host.as_ref().map(Host::base_url).unwrap_or_default()
    }

    /// What passed by so far; an answer counts once it is over.
    #[must_use]
    pub fn observed(&self) -> Observed {
        self.scribe.observed()
    }

    /// Why the tape could not be written, as soon as that is known. The agent is answered all the same.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.scribe.failure()
    }

    /// Ends the recording: answers that are under way are cut, and the tape is complete on disk when this returns.
    ///
    /// # Errors
    /// When any part of the tape could not be written.
    pub fn finish(mut self) -> Result<Recorded, Error> {
        // The last sender goes with the server, so the scribe comes to an end.
        self.host.take();
        let observed = self.scribe.finish(&self.tape)?;
        Ok(Recorded { tape: self.tape, observed })
    }
}

struct Proxy {
    client: Arc<Client>,
    heard: mpsc::Sender<Heard>,
    next: AtomicU64,
    began: Instant,
}

impl Handler for Proxy {
    type Body = Either<Reel, Tee>;

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Self::Body>, Cut> {
        let asked = Instant::now();
        let (parts, body) = request.into_parts();
        let body = match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => {
                let message = format!("the request is larger than {MAX_REQUEST_BYTES} bytes or broke off");
                return Ok(refusal(Kind::RequestTooLarge, StatusCode::PAYLOAD_TOO_LARGE, &message));
            }
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let at = asked.saturating_duration_since(self.began);
        let mut heard = Heard::new(number, at, &parts, body.clone());
        match self.client.send(&parts, body).await {
            Ok((response, sender)) => {
                let (head, incoming) = response.into_parts();
                heard.status = Some(head.status.as_u16());
                heard.response_headers = head.headers.clone();
                let listener = self.heard.clone();
                let tee = Tee::new(incoming, heard, asked, move |heard| drop(listener.send(heard)));
                let tee = tee.returning(Arc::clone(&self.client), sender);
                let mut answer = Response::new(Either::Right(tee));
                *answer.status_mut() = head.status;
                *answer.headers_mut() = end_to_end(&head.headers);
                Ok(answer)
            }
            Err(reason) => {
                heard.end = Ending::Unreachable;
                let _ = self.heard.send(heard);
                let message = format!("the recorder can't reach {}: {reason}", self.client.upstream().url());
                Ok(refusal(Kind::Api, StatusCode::BAD_GATEWAY, &message))
            }
        }
    }
}

/// An error of our own, in the API's envelope.
pub(crate) fn refusal<T>(kind: Kind, status: StatusCode, message: &str) -> Response<Either<Reel, T>> {
    let body = kind.envelope(message, "req_tape").to_string();
    let mut answer = Response::new(Either::Left(Reel::whole(Bytes::from(body))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
