//! One HTTP request to an address that somebody else has chosen: no look-up, no redirects, no connection that is kept.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::tls::Tls;

/// How much of an answer is read.
const MAX_ANSWER: usize = 8 * 1024;

/// Where a request goes. It is never shown whole: its path and its query may hold a token.
pub(crate) struct Target {
    /// Whether it goes through TLS.
    pub(crate) secure: bool,
    /// The name or address, without the brackets of IPv6.
    pub(crate) host: String,
    pub(crate) port: u16,
    authority: HeaderValue,
    path: Uri,
}

impl Target {
    /// Scheme, host and port: what may be shown of it.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.authority.to_str().unwrap_or_default())
    }

    /// Path and query, in which many services have their token.
    pub(crate) fn path(&self) -> (&str, Option<&str>) {
        (self.path.path(), self.path.query())
    }

    /// Reads an `http` or `https` URL; the error says what is wrong and does not repeat the text.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.split('#').next().unwrap_or(text);
        let uri: Uri = text.parse().map_err(|_| "not a URL")?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("only http and https are spoken"),
        };
        let authority = uri.authority().ok_or("the host is missing")?;
        if authority.as_str().contains('@') {
            return Err("credentials in the URL");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err("the host is missing");
        }
        let port = match (authority.port(), authority.as_str().ends_with(']')) {
            (Some(port), _) => port.as_u16(),
            // `host:` and `host:port` have a port that is none.
            (None, false) if authority.as_str() != authority.host() => {
                return Err("the port is not a number");
            }
            (None, _) => {
                if secure {
                    443
                } else {
                    80
                }
            }
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            secure,
            host,
            port,
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| "not a URL")?,
            path: path.parse().map_err(|_| "not a URL")?,
        })
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    /// The connection was not made, or was lost.
    #[error("{0}")]
    Connection(String),
    /// The other side could not be trusted, or this one can't check it.
    #[error("{0}")]
    Tls(String),
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The beginning of its body.
    pub(crate) body: Vec<u8>,
}

/// Sends one request to the first of these addresses that can be reached, and reads the answer. Connecting may take
/// this long in all.
pub(crate) async fn exchange(
    target: &Target,
    addresses: &[SocketAddr],
    tls: Option<&Tls>,
    message: (Method, HeaderMap, Bytes),
    patience: Duration,
) -> Result<Answer, SendError> {
    let stream = connect(addresses, patience).await?;
    let (method, headers, body) = message;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = target.path.clone();
    *request.headers_mut() = headers;
    request.headers_mut().insert(header::HOST, target.authority.clone());
    request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    match tls {
        Some(tls) => talk(tls.connect(&target.host, stream).await?, request).await,
        None => talk(stream, request).await,
    }
}

/// One after the other, each with its share of the time: an address that swallows everything must not use up all of it.
async fn connect(addresses: &[SocketAddr], patience: Duration) -> Result<TcpStream, SendError> {
    let share = patience / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut failed = "no address".to_owned();
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = format!("failed to connect to {address}: {error}"),
            Err(_) => failed = format!("failed to connect to {address}: no answer"),
        }
    }
    Err(SendError::Connection(failed))
}

async fn talk<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Answer, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let lost = |error: hyper::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        SendError::Connection(format!("{error}{cause}"))
    };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(lost)?;
        Ok(read(response).await)
    };
    // The connection moves the bytes. When it ends, the answer is there or says why not.
    let moving = async {
        drop(connection.await);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        answer = answer => answer,
        () = moving => Err(SendError::Connection("the connection ended".to_owned())),
    }
}

async fn read(response: Response<Incoming>) -> Answer {
    let (head, mut incoming) = response.into_parts();
    let mut body = Vec::new();
    while body.len() < MAX_ANSWER && !incoming.is_end_stream() {
        match incoming.frame().await {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                body.extend_from_slice(&data[..data.len().min(MAX_ANSWER - body.len())]);
            }
            // The status has arrived; half a body takes nothing away from it.
            Some(Err(_)) | None => break,
        }
    }
    Answer { status: head.status, headers: head.headers, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_are_spoken() {
        for (text, secure, host, port, path) in [
            ("https://host.example", true, "host.example", 443, "/"),
            ("http://host.example:8080/a?b=c#d", false, "host.example", 8080, "/a?b=c"),
            ("https://[2001:db8::1]/x", true, "2001:db8::1", 443, "/x"),
            ("https://[2001:db8::1]:8443/x", true, "2001:db8::1", 8443, "/x"),
            ("HTTP://host.example/", false, "host.example", 80, "/"),
        ] {
            let target = Target::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let found = (target.secure, target.host.as_str(), target.port, target.path.to_string());
            assert_eq!(found, (secure, host, port, path.to_owned()), "{text}");
        }
    }

    #[test]
    fn urls_that_are_not() {
        for text in [
            "ftp://host/x",
            "/x",
            "host",
            "https://",
            "https:///x",
            "https://me:word@host/x",
            "https://host\\@evil/x",
            "https://ho st/x",
            "https://host:port/x",
            "https://host:/x",
            "file:///etc/passwd",
            "https://host/\r\nX: y",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
