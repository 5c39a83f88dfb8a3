//! What the host asks of the CLI: each call has one outcome, an answer, a refusal, or the end of its patience.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Error, control};
use crate::RawJson;
use crate::frame::ControlAnswer;

/// Who waits for an answer.
pub(super) type Answered = oneshot::Sender<Result<RawJson, Error>>;

struct Call {
    subtype: String,
    patience: Duration,
    deadline: Instant,
    answer: Answered,
}

/// The calls that have no outcome yet.
#[derive(Default)]
pub(super) struct Calls {
    open: BTreeMap<String, Call>,
    numbered: u64,
}

impl Calls {
    /// A further call; gives the line to write.
    pub(super) fn begin(&mut self, body: &Value, patience: Duration, answer: Answered) -> Vec<u8> {
        self.numbered += 1;
        let id = format!("req_{}", self.numbered);
        let subtype = body["subtype"].as_str().unwrap_or_default().to_owned();
        let line = control::request(&id, body);
        self.open.insert(id, Call { subtype, patience, deadline: Instant::now() + patience, answer });
        line
    }

    /// The CLI answers; nobody may be waiting any more.
    pub(super) fn complete(&mut self, answer: ControlAnswer) {
        let Some(call) = self.open.remove(&answer.request_id) else { return };
        let outcome = if answer.subtype == "success" {
            Ok(answer.response.map(|response| response.detached()).unwrap_or_default())
        } else {
            let message = answer.error.unwrap_or_else(|| "without a reason".to_owned());
            Err(Error::Control { subtype: call.subtype, message, code: answer.error_code })
        };
        let _ = call.answer.send(outcome);
    }

    /// No answer will come.
    pub(super) fn fail(&mut self, error: &Error) {
        for call in std::mem::take(&mut self.open).into_values() {
            let _ = call.answer.send(Err(error.clone()));
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.values().map(|call| call.deadline).min()
    }

    /// Gives up calls that took too long; gives the lines that say so to the CLI.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let late = self.open.extract_if(.., |_, call| call.deadline <= now);
        late.map(|(id, call)| {
            let _ = call.answer.send(Err(Error::Timeout { subtype: call.subtype, after: call.patience }));
            control::cancel(&id)
        })
        .collect()
    }
}
