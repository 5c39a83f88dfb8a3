//! The OTLP/HTTP exporter: one connection per request, without proxies, redirects or cookies.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use yb_net::http::{HttpConnector, HttpError, HttpUrl, UrlError, discard_body};
use yb_net::policy::HostPolicy;
use yb_net::tls::{Roots, Tls};

use super::compression::gzip;
use super::config::{PipelineError, Protocol, SignalSettings};

/// A request that was not accepted.
#[derive(Debug)]
pub(super) enum ExportError {
    /// A retry may succeed.
    Retryable(String),
    /// A retry would fail again.
    Permanent(String),
    /// The receiver does not accept this signal.
    Unsupported(String),
}

/// A receiver of one signal over HTTP.
pub(super) struct HttpExporter {
    url: HttpUrl,
    headers: HeaderMap,
    connector: HttpConnector,
    timeout: Duration,
    json: bool,
    gzip: bool,
}

impl HttpExporter {
    pub(super) fn new(settings: &SignalSettings) -> Result<Self, PipelineError> {
        let url = endpoint_url(settings)?;
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
        let content_type = if json { "application/json" } else { "application/x-protobuf" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("yb-otel/", env!("CARGO_PKG_VERSION"))),
        );
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        // Collectors usually run on the same machine.
        let mut connector = HttpConnector::new(HostPolicy::AllowPrivate, settings.timeout);
        if url.is_https() {
            connector = connector.with_tls(load_tls(settings.certificate.as_deref(), false)?);
        }
        if settings.gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Ok(Self { url, headers, connector, timeout: settings.timeout, json, gzip: settings.gzip })
    }

    pub(super) fn wants_json(&self) -> bool {
        self.json
    }

    pub(super) async fn export(&self, body: Bytes) -> Result<(), ExportError> {
        let origin = self.url.origin();
        let status = match tokio::time::timeout(self.timeout, self.post(body)).await {
            Ok(Ok(status)) => status,
            // Retrying after a timeout would only fill the queue.
            Ok(Err(error @ HttpError::Timeout(_))) => {
                return Err(ExportError::Permanent(format!("{origin}: {error}")));
            }
            Ok(Err(error)) => return Err(ExportError::Retryable(format!("{origin}: {error}"))),
            Err(_) => {
                return Err(ExportError::Permanent(format!(
                    "{origin}: no response within {:?}",
                    self.timeout
                )));
            }
        };
        let reason = || format!("{origin}: HTTP {status}");
        match status.as_u16() {
            200..300 => Ok(()),
            429 | 502 | 503 | 504 => Err(ExportError::Retryable(reason())),
            404 | 405 => Err(ExportError::Unsupported(reason())),
            _ => Err(ExportError::Permanent(reason())),
        }
    }

    async fn post(&self, body: Bytes) -> Result<StatusCode, HttpError> {
        let body = if self.gzip { Bytes::from(gzip(&body)) } else { body };
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.path_and_query();
        *request.headers_mut() = self.headers.clone();
        let mut connection = self.connector.connect(&self.url).await?;
        let (head, body) = connection.send(request).await?.into_parts();
        discard_body(body).await;
        Ok(head.status)
    }
}

/// Parses the endpoint of a signal.
pub(super) fn endpoint_url(settings: &SignalSettings) -> Result<HttpUrl, PipelineError> {
    settings.endpoint.parse().map_err(|error| PipelineError::Endpoint {
        variable: settings.variable.clone(),
        reason: match error {
            UrlError::Credentials => format!("{error}: use `OTEL_EXPORTER_OTLP_HEADERS`"),
            error => error.to_string(),
        },
    })
}

/// Loads the roots of a PEM file, or the system's.
pub(super) fn load_tls(certificate: Option<&Path>, http2: bool) -> Result<Tls, PipelineError> {
    let roots =
        certificate.map_or(Roots::System, |file| Roots::Named { file: Some(file.to_owned()), dir: None });
    let tls = if http2 { Tls::for_http2(&roots) } else { Tls::new(&roots) };
    tls.map_err(|error| PipelineError::Tls(error.to_string()))
}
