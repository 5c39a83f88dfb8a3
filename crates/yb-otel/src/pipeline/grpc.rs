//! A receiver that is reached by gRPC, without TLS: the collector on this machine or in this cluster.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tonic::metadata::{MetadataKey, MetadataMap};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::config::{PipelineError, SignalSettings};
use super::encode::Request;
use super::http::Refused;

/// A receiver.
pub(super) struct GrpcReceiver {
    endpoint: Endpoint,
    /// Connected by the thread that sends, when it first does.
    channel: Option<Channel>,
    headers: MetadataMap,
    origin: String,
    timeout: Duration,
}

impl GrpcReceiver {
    pub(super) fn new(settings: &SignalSettings) -> Result<Self, PipelineError> {
        let invalid = |reason: &str| PipelineError::Endpoint {
            variable: settings.variable.clone(),
            reason: reason.to_owned(),
        };
        if settings.endpoint.starts_with("https:") {
            return Err(invalid("gRPC is spoken without TLS only: use http/protobuf"));
        }
        let endpoint = Endpoint::from_shared(settings.endpoint.clone()).map_err(|_| invalid("not a URL"))?;
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

    pub(super) async fn send(&mut self, request: &Request) -> Result<(), Refused> {
        let channel = self.channel.get_or_insert_with(|| self.endpoint.connect_lazy()).clone();
        let origin = self.origin.clone();
        let exchange = async {
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
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) => Err(refused(&status, &origin)),
            Err(_) => Err(Refused::ForGood(format!("{origin}: no answer in time"))),
        }
    }

    fn with_headers<T>(&self, body: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(body);
        *request.metadata_mut() = self.headers.clone();
        request
    }
}

fn refused(status: &Status, origin: &str) -> Refused {
    let reason = format!("{origin}: it answered {}", status.code());
    match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss
        | Code::ResourceExhausted => Refused::Later(reason),
        Code::Unimplemented => Refused::Unknown(reason),
        _ => Refused::ForGood(reason),
    }
}
