//! Control requests from the host to the CLI. Each request ends with a response, an error or a timeout.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Error, control};
use crate::RawJson;
use crate::frame::ControlResponseBody;

/// The receiver of a response.
pub(super) type ResponseSender = oneshot::Sender<Result<RawJson, Error>>;

struct PendingRequest {
    subtype: String,
    timeout: Duration,
    deadline: Instant,
    response: ResponseSender,
}

/// The pending requests.
#[derive(Default)]
pub(super) struct OutgoingRequests {
    pending: BTreeMap<String, PendingRequest>,
    last_id: u64,
}

impl OutgoingRequests {
    /// Registers a request and returns the line to write.
    pub(super) fn begin(&mut self, body: &Value, timeout: Duration, response: ResponseSender) -> Vec<u8> {
        self.last_id += 1;
        let id = format!("req_{}", self.last_id);
        let subtype = body["subtype"].as_str().unwrap_or_default().to_owned();
        let line = control::request(&id, body);
        self.pending
            .insert(id, PendingRequest { subtype, timeout, deadline: Instant::now() + timeout, response });
        line
    }

    /// Completes a request with the CLI's response; the receiver may be gone.
    pub(super) fn complete(&mut self, response: ControlResponseBody) {
        let Some(request) = self.pending.remove(&response.request_id) else { return };
        let outcome = if response.subtype == "success" {
            Ok(response.response.map(|response| response.detached()).unwrap_or_default())
        } else {
            let message = response.error.unwrap_or_else(|| "no reason given".to_owned());
            Err(Error::Control { subtype: request.subtype, message, code: response.error_code })
        };
        let _ = request.response.send(outcome);
    }

    /// Fails all pending requests.
    pub(super) fn fail(&mut self, error: &Error) {
        for request in std::mem::take(&mut self.pending).into_values() {
            let _ = request.response.send(Err(error.clone()));
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending.values().map(|request| request.deadline).min()
    }

    /// Times out expired requests and returns their cancellation lines.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let expired = self.pending.extract_if(.., |_, request| request.deadline <= now);
        expired
            .map(|(id, request)| {
                let _ = request
                    .response
                    .send(Err(Error::Timeout { subtype: request.subtype, after: request.timeout }));
                control::cancel(&id)
            })
            .collect()
    }
}
