//! HTTP connections: connect, send a request, stream the response. HTTP/1.1, and HTTP/2 for gRPC.
//!
//! An [`HttpConnector`] opens an [`HttpConnection`] to the origin of an [`HttpUrl`]. Requests and responses are those
//! of [`hyper`]; a response body is read frame by frame, or with [`read_body`]. Redirects are never followed.

mod http2;
mod url;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::client::TlsStream;

pub use self::http2::{Http2Connection, read_trailers};
pub use self::url::{HttpUrl, UrlError};
use crate::policy::{HostError, HostPolicy, SystemResolver, resolve_host};
use crate::tls::{Tls, TlsError};

/// A request without a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The host can't be resolved, or the policy forbids it.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The connection could not be made, or was lost. A retry may succeed.
    #[error("{0}")]
    Connection(String),
    /// The connect timeout expired. A retry may succeed.
    #[error("{0}")]
    Timeout(String),
    /// The server could not be authenticated. Permanent.
    #[error("{0}")]
    Tls(String),
}

impl From<TlsError> for HttpError {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::Connection(message) => Self::Connection(message),
            TlsError::Refused(message) => Self::Tls(message),
        }
    }
}

impl From<hyper::Error> for HttpError {
    fn from(error: hyper::Error) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Self::Connection(format!("{error}{cause}"))
    }
}

/// Opens connections under a host policy and a timeout.
#[derive(Debug, Clone)]
pub struct HttpConnector {
    policy: HostPolicy,
    connect_timeout: Duration,
    tls: Option<Tls>,
}

impl HttpConnector {
    /// Creates a connector for plain HTTP. The timeout bounds one call of [`connect`](Self::connect) or
    /// [`connect_to`](Self::connect_to): name resolution, TCP and TLS.
    #[must_use]
    pub fn new(policy: HostPolicy, connect_timeout: Duration) -> Self {
        Self { policy, connect_timeout, tls: None }
    }

    /// Sets the TLS configuration, which `https` URLs need.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Resolves the host with the system's resolver, checks it against the policy, and connects.
    ///
    /// # Errors
    /// Fails if the host is unknown, forbidden or unreachable, or if the TLS handshake fails.
    pub async fn connect(&self, url: &HttpUrl) -> Result<HttpConnection, HttpError> {
        match self.open(url).await? {
            Stream::Plain(stream) => HttpConnection::open(url, stream).await,
            Stream::Tls(stream) => HttpConnection::open(url, stream).await,
        }
    }

    /// As [`connect`](Self::connect), with HTTP/2. An `https` URL needs [`Tls::for_http2`].
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_http2(&self, url: &HttpUrl) -> Result<Http2Connection, HttpError> {
        match self.open(url).await? {
            Stream::Plain(stream) => Http2Connection::open(url, stream).await,
            Stream::Tls(stream) => Http2Connection::open(url, stream).await,
        }
    }

    async fn open(&self, url: &HttpUrl) -> Result<Stream, HttpError> {
        let deadline = Instant::now() + self.connect_timeout;
        let resolving = resolve_host(url.host(), url.port(), self.policy, &SystemResolver);
        let addresses = timeout_at(deadline, resolving)
            .await
            .map_err(|_| HttpError::Timeout(format!("timed out resolving host: `{}`", url.host())))??;
        self.connect_before(url, &addresses, deadline).await
    }

    /// Connects to the first reachable of these addresses, without a lookup and without a policy check: for addresses
    /// pinned with [`resolve_host`].
    ///
    /// # Errors
    /// Fails if no address is reachable, or if the TLS handshake fails.
    pub async fn connect_to(
        &self,
        url: &HttpUrl,
        addresses: &[SocketAddr],
    ) -> Result<HttpConnection, HttpError> {
        match self.connect_before(url, addresses, Instant::now() + self.connect_timeout).await? {
            Stream::Plain(stream) => HttpConnection::open(url, stream).await,
            Stream::Tls(stream) => HttpConnection::open(url, stream).await,
        }
    }

    async fn connect_before(
        &self,
        url: &HttpUrl,
        addresses: &[SocketAddr],
        deadline: Instant,
    ) -> Result<Stream, HttpError> {
        let tls = match (&self.tls, url.is_https()) {
            (_, false) => None,
            (Some(tls), true) => Some(tls),
            (None, true) => return Err(HttpError::Tls("TLS is not configured".to_owned())),
        };
        let stream = connect_tcp(addresses, deadline.saturating_duration_since(Instant::now())).await?;
        // Requests are written whole. Failing to set the option only costs latency.
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls else { return Ok(Stream::Plain(stream)) };
        let stream = timeout_at(deadline, tls.connect(url.host(), stream))
            .await
            .map_err(|_| HttpError::Timeout(format!("TLS handshake timed out: `{}`", url.host())))??;
        Ok(Stream::Tls(Box::new(stream)))
    }
}

/// A connected stream.
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Tries the addresses in order, each with an equal share of the time, so that one that drops packets does not use up
/// all of it.
async fn connect_tcp(addresses: &[SocketAddr], budget: Duration) -> Result<TcpStream, HttpError> {
    let share = budget / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut failure = HttpError::Connection("no address to connect to".to_owned());
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => {
                failure = HttpError::Connection(format!("failed to connect to {address}: {error}"));
            }
            Err(_) => failure = HttpError::Timeout(format!("failed to connect to {address}: timed out")),
        }
    }
    Err(failure)
}

/// An open connection to one origin. Dropping it closes it, even while a response body is being read.
#[derive(Debug)]
pub struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
    host: HeaderValue,
}

impl HttpConnection {
    async fn open<S>(url: &HttpUrl, stream: S) -> Result<Self, HttpError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // The task moves the bytes. Its errors also reach the pending request or body.
        let driver = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { sender, driver, host: url.authority().clone() })
    }

    /// Sends a request and waits for the head of the response. The request's URI is a path and query; the `Host` header
    /// is set to the origin's. The body has to be read before the connection is dropped or used again.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub async fn send(&mut self, request: Request<Bytes>) -> Result<Response<Incoming>, HttpError> {
        Ok(self.sender.send_request(self.prepare(request)).await?)
    }

    /// Sends a request on a connection that was idle, which the server may have closed meanwhile. Returns `None` if no
    /// part of the request was sent; it is then safe to send it on another connection.
    ///
    /// # Errors
    /// Fails if the connection is lost after a part of the request was sent.
    pub async fn send_on_idle(
        &mut self,
        request: Request<Bytes>,
    ) -> Result<Option<Response<Incoming>>, HttpError> {
        if self.sender.ready().await.is_err() {
            return Ok(None);
        }
        match self.sender.try_send_request(self.prepare(request)).await {
            Ok(response) => Ok(Some(response)),
            Err(mut failed) => match failed.take_message() {
                Some(_unsent) => Ok(None),
                None => Err(failed.into_error().into()),
            },
        }
    }

    /// Returns whether the connection is known to be closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    fn prepare(&self, request: Request<Bytes>) -> Request<Full<Bytes>> {
        let mut request = request.map(Full::new);
        request.headers_mut().insert(header::HOST, self.host.clone());
        request
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Reads at most `limit` bytes of a body. A body that breaks off is returned as far as it arrived.
pub async fn read_body(mut body: Incoming, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < limit && !body.is_end_stream() {
        let Some(Ok(frame)) = body.frame().await else { break };
        let data = frame.into_data().unwrap_or_default();
        bytes.extend_from_slice(&data[..data.len().min(limit - bytes.len())]);
    }
    bytes
}

/// Reads a body to its end and discards it, so that the server sees no broken connection.
pub async fn discard_body(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

#[cfg(test)]
mod tests;
