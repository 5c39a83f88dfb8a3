//! The task that owns the CLI's stdin. Lines are always written completely, because a partial line would kill the CLI.

use tokio::sync::{mpsc, oneshot};

use super::Error;
use super::transport::TransportInput;

/// A queued line.
pub(super) struct PendingLine {
    bytes: Vec<u8>,
    written: Option<oneshot::Sender<Result<(), Error>>>,
}

/// Sends lines to the task. Dropping it closes stdin after all queued lines.
pub(super) struct Writer(mpsc::UnboundedSender<PendingLine>);

impl Writer {
    /// Starts the task. Lines are written in order, even if the caller stops waiting.
    pub(super) fn start(mut input: Box<dyn TransportInput>) -> Self {
        let (sender, mut lines) = mpsc::unbounded_channel::<PendingLine>();
        tokio::spawn(async move {
            let mut alive = true;
            while let Some(line) = lines.recv().await {
                alive = alive && input.write(&line.bytes).await.is_ok();
                if let Some(written) = line.written {
                    let _ = written.send(if alive { Ok(()) } else { Err(Error::Closed) });
                }
            }
        });
        Self(sender)
    }

    /// Queues a line; `written` is notified when it was written.
    pub(super) fn write(&self, mut bytes: Vec<u8>, written: Option<oneshot::Sender<Result<(), Error>>>) {
        if bytes.last() != Some(&b'\n') {
            bytes.push(b'\n');
        }
        // The task outlives this sender, unless its runtime was shut down.
        let _ = self.0.send(PendingLine { bytes, written });
    }
}
