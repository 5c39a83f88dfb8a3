//! The one task that owns the CLI's stdin. Half a line would kill the CLI, so a line that was begun is always finished.

use tokio::sync::{mpsc, oneshot};

use super::Error;
use super::transport::Input;

/// Lines on their way to the CLI.
pub(super) struct Line {
    bytes: Vec<u8>,
    written: Option<oneshot::Sender<Result<(), Error>>>,
}

/// Hands lines to the task. Dropping it is the end of the input, after everything that was handed over.
pub(super) struct Writer(mpsc::UnboundedSender<Line>);

impl Writer {
    /// Takes the input; what is handed over from now on is written in order, whoever waits for it or not.
    pub(super) fn start(mut input: Box<dyn Input>) -> Self {
        let (sender, mut lines) = mpsc::unbounded_channel::<Line>();
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

    /// Writes a line; `written` hears when it is on its way.
    pub(super) fn write(&self, mut bytes: Vec<u8>, written: Option<oneshot::Sender<Result<(), Error>>>) {
        if bytes.last() != Some(&b'\n') {
            bytes.push(b'\n');
        }
        // The task lives as long as this sender does; if its runtime is gone, so are we.
        let _ = self.0.send(Line { bytes, written });
    }
}
