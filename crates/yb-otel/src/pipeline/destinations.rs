//! The destinations of OTLP requests: a receiver per signal, a file, or both.

use std::time::Duration;

use bytes::Bytes;

use super::config::{ENDPOINT, PipelineError, PipelineSettings, Protocol, SignalSettings};
use super::console::Console;
use super::encode::ExportRequest;
use super::file::JsonLines;
use super::grpc::GrpcExporter;
use super::http::{ExportError, HttpExporter};

/// The delays before the first and the second retry.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// An exporter for the configured protocol.
enum Exporter {
    Http(Box<HttpExporter>),
    Grpc(Box<GrpcExporter>),
}

/// The receiver of one signal.
struct Destination {
    exporter: Exporter,
    /// Whether the endpoint was configured for all signals. Many receivers accept traces only, so a 404 is not an error.
    optional: bool,
}

/// All destinations.
pub(super) struct Destinations {
    traces: Option<Destination>,
    metrics: Option<Destination>,
    logs: Option<Destination>,
    file: Option<JsonLines>,
    console: Option<Console>,
    /// Whether traces, metrics and logs are written to the console.
    on_console: [bool; 3],
}

impl Destinations {
    pub(super) fn open(
        settings: &PipelineSettings,
        console: Option<&Console>,
    ) -> Result<Self, PipelineError> {
        let open = |signal: &SignalSettings| {
            Ok(Destination { exporter: Exporter::new(signal)?, optional: signal.variable == ENDPOINT })
        };
        let traces = settings.traces.as_ref().map(open).transpose()?;
        Ok(Self {
            traces: traces.map(|traces| Destination { optional: false, ..traces }),
            metrics: settings.metrics.as_ref().map(open).transpose()?,
            logs: settings.logs.as_ref().map(open).transpose()?,
            file: settings.file.as_deref().map(JsonLines::open).transpose()?,
            console: console.cloned(),
            on_console: settings.on_console,
        })
    }

    /// Sends a request to all destinations. Returns the error of the file first, then that of the receiver.
    pub(super) async fn send(&mut self, request: &ExportRequest) -> Result<(), String> {
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write(request));
        let (destination, index) = match request {
            ExportRequest::Traces(_) => (&mut self.traces, 0),
            ExportRequest::Metrics(_) => (&mut self.metrics, 1),
            ExportRequest::Logs(_) => (&mut self.logs, 2),
        };
        let console = self.console.as_ref().filter(|_| self.on_console[index]);
        let written = written.and(console.map_or(Ok(()), |console| console.write(request)));
        let Some(Destination { exporter, optional }) = destination else { return written };
        let sent = match exporter.send(request).await {
            Err(ExportError::Unsupported(_)) if *optional => {
                // The signal is not sent again, and not counted as dropped.
                *destination = None;
                Ok(())
            }
            Err(
                ExportError::Retryable(reason)
                | ExportError::Permanent(reason)
                | ExportError::Unsupported(reason),
            ) => Err(reason),
            Ok(()) => Ok(()),
        };
        written.and(sent)
    }
}

impl Exporter {
    fn new(settings: &SignalSettings) -> Result<Self, PipelineError> {
        match settings.protocol {
            Protocol::Grpc => GrpcExporter::new(settings).map(Box::new).map(Self::Grpc),
            Protocol::HttpProtobuf | Protocol::HttpJson => {
                HttpExporter::new(settings).map(Box::new).map(Self::Http)
            }
        }
    }

    /// Sends a request, with retries after transient failures.
    async fn send(&mut self, request: &ExportRequest) -> Result<(), ExportError> {
        let mut delays = RETRY_DELAYS.into_iter();
        loop {
            let sent = match self {
                Self::Http(exporter) => {
                    let body = if exporter.wants_json() {
                        request.to_json().map_err(ExportError::Permanent)?
                    } else {
                        request.to_protobuf()
                    };
                    exporter.export(Bytes::from(body)).await
                }
                Self::Grpc(exporter) => exporter.export(request).await,
            };
            match (sent, delays.next()) {
                (Ok(()), _) => return Ok(()),
                (Err(ExportError::Retryable(_)), Some(delay)) => tokio::time::sleep(delay).await,
                (Err(error), _) => return Err(error),
            }
        }
    }
}
