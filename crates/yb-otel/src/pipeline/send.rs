//! Where requests go: a receiver that speaks OTLP, a file, or both.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;

use super::config::{ENDPOINT, PipelineError, Protocol, Settings, SignalSettings};
use super::encode::Request;
use super::file::{JsonLines, json};
use super::http::{HttpReceiver, Refused};

/// How long to wait before a request is sent again, each time.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// Who gets a kind of request.
enum Receiver {
    Http(Box<HttpReceiver>),
    #[cfg(feature = "grpc")]
    Grpc(Box<super::grpc::GrpcReceiver>),
}

/// A receiver of one kind of telemetry.
struct Destination {
    receiver: Receiver,
    /// Whether nobody said that it takes this kind: one address was given for everything, and many take traces only.
    presumed: bool,
}

/// Everybody who gets something.
pub(super) struct Destinations {
    traces: Option<Destination>,
    metrics: Option<Destination>,
    logs: Option<Destination>,
    file: Option<JsonLines>,
}

impl Destinations {
    pub(super) fn open(settings: &Settings) -> Result<Self, PipelineError> {
        let open = |of: &SignalSettings| {
            Ok(Destination { receiver: Receiver::new(of)?, presumed: of.variable == ENDPOINT })
        };
        let traces = settings.traces.as_ref().map(open).transpose()?;
        Ok(Self {
            traces: traces.map(|traces| Destination { presumed: false, ..traces }),
            metrics: settings.metrics.as_ref().map(open).transpose()?,
            logs: settings.logs.as_ref().map(open).transpose()?,
            file: settings.file.as_deref().map(JsonLines::open).transpose()?,
        })
    }

    /// Sends it to all; the error is that of the last who did not get it.
    pub(super) async fn send(&mut self, request: &Request) -> Result<(), String> {
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write(request));
        let to = match request {
            Request::Traces(_) => &mut self.traces,
            Request::Metrics(_) => &mut self.metrics,
            Request::Logs(_) => &mut self.logs,
        };
        let Some(Destination { receiver, presumed }) = to else { return written };
        let sent = match receiver.send(request).await {
            Err(Refused::Unknown(_)) if *presumed => {
                // It is not asked again, and nothing is lost that anybody counted on.
                *to = None;
                Ok(())
            }
            Err(Refused::Later(reason) | Refused::ForGood(reason) | Refused::Unknown(reason)) => Err(reason),
            Ok(()) => Ok(()),
        };
        written.and(sent)
    }
}

impl Receiver {
    fn new(settings: &SignalSettings) -> Result<Self, PipelineError> {
        match settings.protocol {
            #[cfg(feature = "grpc")]
            Protocol::Grpc => super::grpc::GrpcReceiver::new(settings).map(Box::new).map(Self::Grpc),
            #[cfg(not(feature = "grpc"))]
            Protocol::Grpc => Err(PipelineError::NoGrpc),
            Protocol::HttpProtobuf | Protocol::HttpJson => {
                HttpReceiver::new(settings).map(Box::new).map(Self::Http)
            }
        }
    }

    /// Sends it, and again when the receiver asks for that.
    async fn send(&mut self, request: &Request) -> Result<(), Refused> {
        let mut pauses = AGAIN_AFTER.into_iter();
        loop {
            let sent = match self {
                Self::Http(receiver) => {
                    let body = if receiver.wants_json() {
                        json(request).map_err(Refused::ForGood)?
                    } else {
                        protobuf(request)
                    };
                    receiver.send(Bytes::from(body)).await
                }
                #[cfg(feature = "grpc")]
                Self::Grpc(receiver) => receiver.send(request).await,
            };
            match (sent, pauses.next()) {
                (Ok(()), _) => return Ok(()),
                (Err(Refused::Later(_)), Some(pause)) => tokio::time::sleep(pause).await,
                (Err(refused), _) => return Err(refused),
            }
        }
    }
}

fn protobuf(request: &Request) -> Vec<u8> {
    match request {
        Request::Traces(request) => request.encode_to_vec(),
        Request::Logs(request) => request.encode_to_vec(),
        Request::Metrics(request) => request.encode_to_vec(),
    }
}
