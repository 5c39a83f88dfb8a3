//! The OTLP/gRPC exporter: a unary call is one HTTP/2 request with a framed message, and its status is in the trailers.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request};
use yb_net::http::{HttpConnector, HttpError, HttpUrl, read_trailers};
use yb_net::policy::HostPolicy;

use super::compression::gzip;
use super::config::{PipelineError, SignalSettings};
use super::encode::ExportRequest;
use super::http::{ExportError, endpoint_url, load_tls};

/// The names of the gRPC status codes.
const STATUS_NAMES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid argument",
    "deadline exceeded",
    "not found",
    "already exists",
    "permission denied",
    "resource exhausted",
    "failed precondition",
    "aborted",
    "out of range",
    "unimplemented",
    "internal",
    "unavailable",
    "data loss",
    "unauthenticated",
];
const UNIMPLEMENTED: u16 = 12;
/// The codes after which the specification of OTLP allows a retry.
const RETRYABLE: [u16; 7] = [1, 4, 8, 10, 11, 14, 15];

/// A receiver of one signal over gRPC.
pub(super) struct GrpcExporter {
    url: HttpUrl,
    headers: HeaderMap,
    connector: HttpConnector,
    timeout: Duration,
    gzip: bool,
}

impl GrpcExporter {
    pub(super) fn new(settings: &SignalSettings) -> Result<Self, PipelineError> {
        let url = endpoint_url(settings)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let name_bytes = name.to_ascii_lowercase();
            let header = (HeaderName::from_bytes(name_bytes.as_bytes()), HeaderValue::from_str(value));
            let (Ok(name), Ok(mut value)) = header else {
                return Err(PipelineError::Header { name: name.clone() });
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("yb-otel/", env!("CARGO_PKG_VERSION"))),
        );
        if settings.gzip {
            headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
        }
        let mut connector = HttpConnector::new(HostPolicy::AllowPrivate, settings.timeout);
        if url.is_https() {
            connector = connector.with_tls(load_tls(settings.certificate.as_deref(), true)?);
        }
        Ok(Self { url, headers, connector, timeout: settings.timeout, gzip: settings.gzip })
    }

    pub(super) async fn export(&self, request: &ExportRequest) -> Result<(), ExportError> {
        let origin = self.url.origin();
        let lost = |error: HttpError| match error {
            // Retrying after a timeout would only fill the queue.
            HttpError::Timeout(_) => ExportError::Permanent(format!("{origin}: {error}")),
            error => ExportError::Retryable(format!("{origin}: {error}")),
        };
        match tokio::time::timeout(self.timeout, self.call(request)).await {
            Ok(Ok(0)) => Ok(()),
            Ok(Ok(code)) => Err(export_error(code, &origin)),
            Ok(Err(error)) => Err(lost(error)),
            Err(_) => Err(ExportError::Permanent(format!("{origin}: no response within {:?}", self.timeout))),
        }
    }

    /// Calls the service and returns the status code.
    async fn call(&self, request: &ExportRequest) -> Result<u16, HttpError> {
        let service = match request {
            ExportRequest::Traces(_) => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            ExportRequest::Metrics(_) => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            ExportRequest::Logs(_) => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        };
        let mut call = Request::new(frame(&request.to_protobuf(), self.gzip));
        *call.method_mut() = Method::POST;
        *call.headers_mut() = self.headers.clone();
        let mut connection = self.connector.connect_http2(&self.url).await?;
        let (head, body) = connection.send(PathAndQuery::from_static(service), call).await?.into_parts();
        // A call that fails at once has its status in the headers.
        let code = match status_of(&head.headers) {
            Some(code) => code,
            None => match read_trailers(body).await?.as_ref().and_then(status_of) {
                Some(code) => code,
                None => status_of_http(head.status.as_u16()),
            },
        };
        Ok(code)
    }
}

/// Frames a message: whether it is compressed, its length, the message.
fn frame(message: &[u8], compress: bool) -> Bytes {
    let compressed = compress.then(|| gzip(message));
    let message = compressed.as_deref().unwrap_or(message);
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(u8::from(compress));
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

fn status_of(headers: &HeaderMap) -> Option<u16> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

/// Maps the HTTP status of a response without a gRPC status, as gRPC's specification does.
fn status_of_http(status: u16) -> u16 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => UNIMPLEMENTED,
        429 | 502..=504 => 14,
        _ => 2,
    }
}

fn export_error(code: u16, origin: &str) -> ExportError {
    let name = STATUS_NAMES.get(usize::from(code)).copied().unwrap_or("unknown");
    let reason = format!("{origin}: gRPC status {code} ({name})");
    match code {
        UNIMPLEMENTED => ExportError::Unsupported(reason),
        code if RETRYABLE.contains(&code) => ExportError::Retryable(reason),
        _ => ExportError::Permanent(reason),
    }
}
