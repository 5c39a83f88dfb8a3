//! A receiver that is reached by http or https: one connection for one request, and no proxy, redirect or cookie.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use yb_net::tls::{Roots, Tls};

use super::config::{PipelineError, Protocol, SignalSettings};

/// A request that did not arrive.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another time it may.
    Later(String),
    /// It never will.
    ForGood(String),
    /// Nobody there takes this kind of telemetry.
    Unknown(String),
}

/// A receiver.
pub(super) struct HttpReceiver {
    host: String,
    port: u16,
    path: Uri,
    /// What may be shown of its address.
    origin: String,
    headers: HeaderMap,
    tls: Option<Tls>,
    timeout: Duration,
    json: bool,
}

impl HttpReceiver {
    pub(super) fn new(settings: &SignalSettings) -> Result<Self, PipelineError> {
        let invalid = |reason: &str| PipelineError::Endpoint {
            variable: settings.variable.clone(),
            reason: reason.to_owned(),
        };
        let uri: Uri = settings.endpoint.parse().map_err(|_| invalid("not a URL"))?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("only http and https are spoken")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("the host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("credentials in the URL: use OTEL_EXPORTER_OTLP_HEADERS"));
        }
        let json = settings.protocol == Protocol::HttpJson;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let header = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
            let (Ok(name), Ok(mut value)) = header else {
                return Err(PipelineError::Header { name: name.clone() });
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let kind = if json { "application/json" } else { "application/x-protobuf" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("yb-otel/", env!("CARGO_PKG_VERSION"))),
        );
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        let host_header = HeaderValue::from_str(authority.as_str()).map_err(|_| invalid("not a URL"))?;
        headers.insert(header::HOST, host_header);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            path: path.parse().map_err(|_| invalid("not a URL"))?,
            origin: format!("{}://{authority}", if secure { "https" } else { "http" }),
            headers,
            tls: secure.then(|| tls(settings.certificate.as_deref())).transpose()?,
            timeout: settings.timeout,
            json,
        })
    }

    pub(super) fn wants_json(&self) -> bool {
        self.json
    }

    pub(super) async fn send(&self, body: Bytes) -> Result<(), Refused> {
        let sent = tokio::time::timeout(self.timeout, self.exchange(body)).await;
        let status = match sent {
            Ok(Ok(status)) => status,
            Ok(Err(reason)) => return Err(Refused::Later(format!("{}: {reason}", self.origin))),
            // What took this long once is not tried again: the queue would only fill.
            Err(_) => return Err(Refused::ForGood(format!("{}: no answer in time", self.origin))),
        };
        let reason = || format!("{}: it answered {status}", self.origin);
        match status.as_u16() {
            200..300 => Ok(()),
            429 | 502 | 503 | 504 => Err(Refused::Later(reason())),
            404 | 405 => Err(Refused::Unknown(reason())),
            _ => Err(Refused::ForGood(reason())),
        }
    }

    async fn exchange(&self, body: Bytes) -> Result<StatusCode, String> {
        let stream =
            TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| error.to_string())?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = self.headers.clone();
        match &self.tls {
            Some(tls) => {
                let stream = tls.connect(&self.host, stream).await.map_err(|error| error.to_string())?;
                talk(stream, request).await
            }
            None => talk(stream, request).await,
        }
    }
}

/// With the roots of a file, or the system's.
fn tls(certificate: Option<&Path>) -> Result<Tls, PipelineError> {
    let roots =
        certificate.map_or(Roots::System, |file| Roots::Named { file: Some(file.to_owned()), dir: None });
    Tls::new(&roots).map_err(|error| PipelineError::Tls(error.to_string()))
}

async fn talk<S>(stream: S, request: Request<Full<Bytes>>) -> Result<StatusCode, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let said = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(said)?;
    let answer = async {
        let mut response = sender.send_request(request).await.map_err(said)?;
        // Read to its end, so that the receiver sees no broken connection; what it says does not matter.
        while let Some(Ok(_)) = response.body_mut().frame().await {}
        Ok(response.status())
    };
    let moving = async {
        drop(connection.await);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        answer = answer => answer,
        () = moving => Err("the connection ended".to_owned()),
    }
}
