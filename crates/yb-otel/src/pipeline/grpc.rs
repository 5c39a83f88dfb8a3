//! The OTLP/gRPC exporter, without TLS: for a collector on the same machine or in the same cluster.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tonic::metadata::{MetadataKey, MetadataMap};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::config::{PipelineError, SignalSettings};
use super::encode::Request;
use super::http::ExportError;

/// A receiver of one signal over gRPC.
pub(super) struct GrpcExporter {
    endpoint: Endpoint,
    /// Connected on the exporter thread by the first request.
    channel: Option<Channel>,
    headers: MetadataMap,
    origin: String,
    timeout: Duration,
}

impl GrpcExporter {
    pub(super) fn new(settings: &SignalSettings) -> Result<Self, PipelineError> {
        let invalid = |reason: &str| PipelineError::Endpoint {
            variable: settings.variable.clone(),
            reason: reason.to_owned(),
        };
        if settings.endpoint.starts_with("https:") {
            return Err(invalid("gRPC over TLS is not supported: use `http/protobuf`"));
        }
        let endpoint =
            Endpoint::from_shared(settings.endpoint.clone()).map_err(|_| invalid("not a valid URL"))?;
        let mut headers = MetadataMap::new();
        for (name, value) in &settings.headers {
            let header = (MetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes()), value.parse());
            let (Ok(name), Ok(value)) = header else {
                return Err(PipelineError::Header { name: name.clone() });
            };
            headers.insert(name, value);
        }
        Ok(Self {
            endpoint: endpoint.connect_timeout(settings.timeout),
            channel: None,
            headers,
            origin: settings.endpoint.clone(),
            timeout: settings.timeout,
        })
    }

    pub(super) async fn export(&mut self, request: &Request) -> Result<(), ExportError> {
        let channel = self.channel.get_or_insert_with(|| self.endpoint.connect_lazy()).clone();
        let origin = self.origin.clone();
        let call = async {
            match request {
                Request::Traces(body) => {
                    TraceServiceClient::new(channel).export(self.with_headers(body.clone())).await.map(drop)
                }
                Request::Metrics(body) => {
                    MetricsServiceClient::new(channel).export(self.with_headers(body.clone())).await.map(drop)
                }
                Request::Logs(body) => {
                    LogsServiceClient::new(channel).export(self.with_headers(body.clone())).await.map(drop)
                }
            }
        };
        match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) => Err(export_error(&status, &origin)),
            Err(_) => Err(ExportError::Permanent(format!("{origin}: no response within {:?}", self.timeout))),
        }
    }

    fn with_headers<T>(&self, body: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(body);
        *request.metadata_mut() = self.headers.clone();
        request
    }
}

fn export_error(status: &Status, origin: &str) -> ExportError {
    let reason = format!("{origin}: gRPC status {}", status.code());
    match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss
        | Code::ResourceExhausted => ExportError::Retryable(reason),
        Code::Unimplemented => ExportError::Unsupported(reason),
        _ => ExportError::Permanent(reason),
    }
}
