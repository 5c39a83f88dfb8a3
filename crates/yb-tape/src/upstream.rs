//! HTTP client for the real API, with a pool of idle connections.

use std::net::ToSocketAddrs as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use yb_net::{Roots, Tls};

use crate::error::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of idle connections.
const MAX_IDLE: usize = 32;
/// Headers that apply to a single connection.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// The URL of a model API, with its trusted root certificates.
#[derive(Clone, PartialEq, Eq)]
pub struct Upstream {
    url: String,
    secure: bool,
    host: String,
    port: u16,
    authority: HeaderValue,
    /// Prefix of every path.
    prefix: String,
    roots: Roots,
}

impl Upstream {
    /// Parses a URL such as `https://api.example.org` or `http://127.0.0.1:4000/v1`.
    ///
    /// # Errors
    /// When the URL is invalid, or contains credentials or a query.
    pub fn new(url: &str) -> Result<Self, Error> {
        let invalid = |reason| Error::InvalidUpstream { url: without_userinfo(url), reason };
        let uri: Uri = url.parse().map_err(|_| invalid("not a URL"))?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("scheme is neither http nor https")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("missing host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("contains credentials"));
        }
        if uri.query().is_some() {
            return Err(invalid("contains a query"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || authority.as_str().ends_with(':') {
            return Err(invalid("missing host or port"));
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            secure,
            host,
            port,
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| invalid("not a URL"))?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            roots: Roots::System,
        })
    }

    /// Sets the trusted root certificates; by default those of the system.
    #[must_use]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }

    /// Returns the URL without a trailing slash.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn without_userinfo(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}{}", &url[..scheme + 3], &url[at + 1..]),
        _ => url.to_owned(),
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upstream").field(&self.url).finish()
    }
}

pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Client for one upstream.
pub(crate) struct Client {
    upstream: Upstream,
    tls: Option<Tls>,
    idle: Mutex<Vec<Sender>>,
}

impl Client {
    pub(crate) fn new(upstream: Upstream) -> Result<Arc<Self>, Error> {
        let tls = upstream.secure.then(|| Tls::new(&upstream.roots)).transpose();
        let tls = tls.map_err(|error| Error::Tls(error.to_string()))?;
        Ok(Arc::new(Self { upstream, tls, idle: Mutex::default() }))
    }

    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Forwards a request. The response is read from the returned connection.
    pub(crate) async fn send(
        &self,
        parts: &Parts,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Sender), String> {
        // An idle connection may be closed; if the request was not sent, try the next one.
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_ok() {
                match sender.try_send_request(self.request(parts, body.clone())?).await {
                    Ok(response) => return Ok((response, sender)),
                    Err(mut failed) => {
                        if failed.take_message().is_none() {
                            return Err(with_cause(&failed.into_error()));
                        }
                    }
                }
            }
        }
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.connect());
        let mut sender = match connecting.await {
            Ok(connected) => connected?,
            Err(_) => {
                return Err(format!(
                    "connection to {} timed out after {CONNECT_TIMEOUT:?}",
                    self.upstream.url
                ));
            }
        };
        let response = sender.send_request(self.request(parts, body)?).await;
        let response = response.map_err(|error| with_cause(&error))?;
        Ok((response, sender))
    }

    /// Returns a connection to the pool, after its response was read completely.
    pub(crate) fn recycle(&self, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE && !sender.is_closed() {
            idle.push(sender);
        }
    }

    fn take_idle(&self) -> Option<Sender> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn request(&self, parts: &Parts, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let target: Uri =
            format!("{}{path}", self.upstream.prefix).parse().map_err(|_| "invalid path".to_owned())?;
        *request.uri_mut() = target;
        let mut headers = end_to_end_headers(&parts.headers);
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::HOST, self.upstream.authority.clone());
        // Tapes contain uncompressed bodies.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn connect(&self) -> Result<Sender, String> {
        let Upstream { host, port, url, .. } = &self.upstream;
        let addresses =
            resolve(host, *port).await.map_err(|error| format!("failed to resolve `{host}`: {error}"))?;
        let mut failed = format!("no address found for `{host}`");
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return match &self.tls {
                        None => handshake(stream).await,
                        Some(tls) => {
                            let stream = tls.connect(host, stream).await;
                            handshake(stream.map_err(|error| format!("{url}: {error}"))?).await
                        }
                    };
                }
                Err(error) => failed = format!("failed to connect to {address}: {error}"),
            }
        }
        Err(failed)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.upstream.url).finish()
    }
}

/// Removes the hop-by-hop headers.
pub(crate) fn end_to_end_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    // The `connection` header may list further hop-by-hop headers.
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        kept.remove(name);
    }
    kept
}

async fn handshake<S>(stream: S) -> Result<Sender, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(|error| with_cause(&error))?;
    // Drives the connection; its errors are also reported by the pending request.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

fn with_cause(error: &hyper::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// Resolves a host in a separate thread: shutting down a runtime waits for blocking tasks, and this one can't be canceled.
async fn resolve(host: &str, port: u16) -> io::Result<Vec<std::net::SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![std::net::SocketAddr::new(address, port)]);
    }
    let host = host.to_owned();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("resolve".to_owned()).spawn(move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // The receiver may be gone.
        drop(sender.send(found));
    })?;
    receiver.await.unwrap_or_else(|_| Err(io::Error::other("resolver thread ended without a result")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_parses_urls_and_hides_credentials() {
        for (url, secure, host, port, prefix) in [
            ("https://api.example.org", true, "api.example.org", 443, ""),
            ("https://api.example.org/", true, "api.example.org", 443, ""),
            ("http://127.0.0.1:4000/v1/", false, "127.0.0.1", 4000, "/v1"),
            ("http://[::1]:8080", false, "::1", 8080, ""),
        ] {
            let found = Upstream::new(url).unwrap();
            assert_eq!(
                (found.secure, found.host.as_str(), found.port, found.prefix.as_str()),
                (secure, host, port, prefix)
            );
        }
        for url in ["", "api.example.org", "ftp://x", "https://", "https://x/?key=1", "https://me:word@x/"] {
            let error = Upstream::new(url).unwrap_err();
            assert!(!error.to_string().contains("word"), "{error}");
        }
    }
}
