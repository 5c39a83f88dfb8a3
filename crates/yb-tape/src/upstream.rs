//! HTTP client for the real API, with a pool of idle connections.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, Uri};
use yb_net::http::{HttpConnection, HttpConnector, HttpUrl, UrlError};
use yb_net::policy::HostPolicy;
use yb_net::tls::{Roots, Tls};

use crate::error::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle connections kept for the next request.
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
    /// As given, without a trailing slash.
    text: String,
    url: HttpUrl,
    /// Prepended to every path.
    prefix: String,
    roots: Roots,
}

impl Upstream {
    /// Parses a base URL such as `https://api.example.org` or `http://127.0.0.1:4000/v1`.
    ///
    /// # Errors
    /// Fails if the URL is invalid, or has credentials or a query.
    pub fn new(url: &str) -> Result<Self, Error> {
        let invalid = |reason| Error::InvalidUpstream { url: without_userinfo(url), reason };
        let parsed: HttpUrl = url.parse().map_err(|error: UrlError| invalid(error.reason()))?;
        if parsed.query().is_some() {
            return Err(invalid("a query is not allowed in the URL"));
        }
        Ok(Self {
            text: url.trim_end_matches('/').to_owned(),
            prefix: parsed.path().trim_end_matches('/').to_owned(),
            url: parsed,
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
        &self.text
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
        f.debug_tuple("Upstream").field(&self.text).finish()
    }
}

pub(crate) type Sender = HttpConnection;

/// Client for one upstream.
pub(crate) struct Client {
    upstream: Upstream,
    connector: HttpConnector,
    idle: Mutex<Vec<Sender>>,
}

impl Client {
    pub(crate) fn new(upstream: Upstream) -> Result<Arc<Self>, Error> {
        // An upstream may well be on this machine or in a private network.
        let mut connector = HttpConnector::new(HostPolicy::AllowPrivate, CONNECT_TIMEOUT);
        if upstream.url.is_https() {
            let tls = Tls::new(&upstream.roots).map_err(|error| Error::Tls(error.to_string()))?;
            connector = connector.with_tls(tls);
        }
        Ok(Arc::new(Self { upstream, connector, idle: Mutex::default() }))
    }

    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Forwards a request. The returned connection has to be kept until the response body is read.
    pub(crate) async fn send(
        &self,
        parts: &Parts,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Sender), String> {
        let request = self.request(parts, body)?;
        // The server may have closed an idle connection. If nothing was sent on it, the next one is tried.
        while let Some(mut connection) = self.take_idle() {
            let sent = connection.send_on_idle(request.clone()).await;
            if let Some(response) = sent.map_err(|error| error.to_string())? {
                return Ok((response, connection));
            }
        }
        let mut connection =
            self.connector.connect(&self.upstream.url).await.map_err(|error| error.to_string())?;
        let response = connection.send(request).await.map_err(|error| error.to_string())?;
        Ok((response, connection))
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

    fn request(&self, parts: &Parts, body: Bytes) -> Result<Request<Bytes>, String> {
        let mut request = Request::new(body);
        *request.method_mut() = parts.method.clone();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let target: Uri =
            format!("{}{path}", self.upstream.prefix).parse().map_err(|_| "invalid path".to_owned())?;
        *request.uri_mut() = target;
        let mut headers = end_to_end_headers(&parts.headers);
        headers.remove(header::CONTENT_LENGTH);
        // A tape holds what was said, not how it was packed.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        *request.headers_mut() = headers;
        Ok(request)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.upstream.text).finish()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_urls_are_parsed_or_refused_without_credentials() {
        for (url, secure, host, port, prefix) in [
            ("https://api.example.org", true, "api.example.org", 443, ""),
            ("https://api.example.org/", true, "api.example.org", 443, ""),
            ("http://127.0.0.1:4000/v1/", false, "127.0.0.1", 4000, "/v1"),
            ("http://[::1]:8080", false, "::1", 8080, ""),
        ] {
            let found = Upstream::new(url).unwrap();
            assert_eq!(
                (found.url.is_https(), found.url.host(), found.url.port(), found.prefix.as_str()),
                (secure, host, port, prefix)
            );
        }
        for url in ["", "api.example.org", "ftp://x", "https://", "https://x/?key=1", "https://me:word@x/"] {
            let error = Upstream::new(url).unwrap_err();
            assert!(!error.to_string().contains("word"), "{error}");
        }
    }
}
