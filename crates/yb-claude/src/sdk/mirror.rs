//! Copies transcript entries to a session store, in order and outside of the session's task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::store::{SessionKey, SessionStore, StoreFlush};
use crate::RawJson;
use crate::frame::lenient::{from_raw, lenient_struct};

/// Entries and bytes that are appended without waiting for the end of the turn.
const MAX_PENDING: usize = 500;
const MAX_PENDING_BYTES: usize = 1024 * 1024;
/// Attempts to append, and the waits between them.
const RETRY_WAITS: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];
/// The maximum duration of an attempt. A timeout is not retried: the call may still succeed.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) type FlushReceiver = oneshot::Receiver<Vec<MirrorError>>;

/// Entries that could not be stored.
#[derive(Debug, Clone)]
pub(super) struct MirrorError {
    key: SessionKey,
    pub(super) reason: String,
}

impl MirrorError {
    /// Returns a message in the format of the official SDKs.
    pub(super) fn to_line(&self) -> String {
        let SessionKey { project, session, subpath } = &self.key;
        let mut key = json!({"project_key": project, "session_id": session});
        if let Some(subpath) = subpath {
            key["subpath"] = json!(subpath);
        }
        json!({"type": "system", "subtype": "mirror_error", "error": self.reason, "key": key,
            "session_id": session})
        .to_string()
    }
}

lenient_struct! {
    /// A `transcript_mirror` message.
    struct TranscriptMirror {
        /// The path of the transcript.
        file_path: String = "filePath",
        /// The new lines.
        entries: Vec<RawJson> = "entries",
    }
}

enum MirrorCommand {
    Append(RawJson),
    Flush(oneshot::Sender<Vec<MirrorError>>),
}

/// Sends entries to the task that appends them.
pub(super) struct Mirror(mpsc::UnboundedSender<MirrorCommand>);

impl Mirror {
    pub(super) fn start(store: Arc<dyn SessionStore>, flush: StoreFlush) -> Self {
        let (sender, commands) = mpsc::unbounded_channel();
        tokio::spawn(run(store, flush, commands));
        Self(sender)
    }

    /// Queues the entries of a `transcript_mirror` message.
    pub(super) fn append(&self, message: &RawJson) {
        let _ = self.0.send(MirrorCommand::Append(message.detached()));
    }

    /// Appends all queued entries; the receiver gets the errors.
    pub(super) fn flush(&self) -> FlushReceiver {
        let (sender, receiver) = oneshot::channel();
        let _ = self.0.send(MirrorCommand::Flush(sender));
        receiver
    }

    pub(super) async fn close(self) -> Vec<MirrorError> {
        self.flush().await.unwrap_or_default()
    }
}

async fn run(
    store: Arc<dyn SessionStore>,
    flush: StoreFlush,
    mut commands: mpsc::UnboundedReceiver<MirrorCommand>,
) {
    let mut pending: BTreeMap<SessionKey, Vec<Value>> = BTreeMap::new();
    let mut bytes = 0;
    let mut errors = Vec::new();
    while let Some(command) = commands.recv().await {
        match command {
            MirrorCommand::Append(message) => {
                let Some(mirror) = from_raw::<TranscriptMirror>(&message) else { continue };
                let Some(key) = SessionKey::from_transcript(&mirror.file_path) else {
                    tracing::warn!(
                        path = mirror.file_path,
                        "a transcript is outside of the projects directory"
                    );
                    continue;
                };
                let entries = mirror.entries.iter().filter_map(|entry| entry.to_value().ok());
                pending.entry(key).or_default().extend(entries);
                bytes += message.as_str().len();
                // Entries that arrived during an append are appended together.
                let eager = flush == StoreFlush::Eager && commands.is_empty();
                let full = bytes >= MAX_PENDING_BYTES
                    || pending.values().map(Vec::len).sum::<usize>() >= MAX_PENDING;
                if eager || full {
                    append_all(&*store, &mut pending, &mut errors).await;
                    bytes = 0;
                }
            }
            MirrorCommand::Flush(done) => {
                append_all(&*store, &mut pending, &mut errors).await;
                // Without a receiver, the next flush reports the errors.
                errors = done.send(std::mem::take(&mut errors)).err().unwrap_or_default();
            }
        }
    }
    // The session was dropped.
    append_all(&*store, &mut pending, &mut errors).await;
}

async fn append_all(
    store: &dyn SessionStore,
    pending: &mut BTreeMap<SessionKey, Vec<Value>>,
    errors: &mut Vec<MirrorError>,
) {
    for (key, entries) in std::mem::take(pending) {
        if entries.is_empty() {
            continue;
        }
        if let Err(reason) = append(store, &key, &entries).await {
            errors.push(MirrorError { key, reason });
        }
    }
}

async fn append(store: &dyn SessionStore, key: &SessionKey, entries: &[Value]) -> Result<(), String> {
    let mut waits = RETRY_WAITS.into_iter();
    loop {
        let reason = match tokio::time::timeout(TIMEOUT, store.append(key, entries)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => return Err(format!("the store did not respond within {} s", TIMEOUT.as_secs())),
        };
        let Some(wait) = waits.next() else { return Err(reason) };
        tokio::time::sleep(wait).await;
    }
}
