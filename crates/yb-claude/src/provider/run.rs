//! Runs the CLI once and collects its messages and exit status.

use std::time::Duration;

use yb_supervise::{CancellationToken, Command, End, ExitStatus, Output, OutputMode, Report, StreamItem};

use super::ProviderError;
use crate::{Message, RunSummary, read_json};

/// The maximum size of kept output that is not a message.
const UNPARSED_LIMIT: usize = 1 << 20;

/// A callback for messages as they arrive.
pub(super) type MessageObserver<'a> = &'a mut (dyn FnMut(&Message) + Send);

/// A finished run of the CLI.
#[derive(Debug)]
pub(super) struct CliRun {
    pub(super) summary: RunSummary,
    /// Output that is not a message.
    pub(super) unparsed: String,
    pub(super) stderr: String,
    pub(super) status: Option<ExitStatus>,
}

/// The limits of a run.
pub(super) struct RunLimits {
    pub(super) deadline: Duration,
    pub(super) cancel: CancellationToken,
    /// Whether the CLI prints one message per line, or one document at the end.
    pub(super) streams: bool,
}

impl CliRun {
    /// Runs the command to completion. Timeout, cancellation and spawn failure are errors.
    pub(super) async fn start(
        command: Command,
        limits: &RunLimits,
        observe: MessageObserver<'_>,
    ) -> Result<Self, ProviderError> {
        let command = command.deadline(limits.deadline).cancel_on(limits.cancel.clone());
        let run = if limits.streams {
            Self::stream(command.output(OutputMode::stream()), observe).await?
        } else {
            Self::document(command, observe).await
        };
        match run {
            (_, Report { end: End::SpawnFailed(error), .. }) => Err(ProviderError::not_started(&error)),
            (_, Report { end: End::Cancelled, .. }) => Err(ProviderError::Cancelled),
            (run, Report { end: End::TimedOut { after }, .. }) => {
                Err(ProviderError::TimedOut { after, partial: run.summary.partial_text().to_owned() })
            }
            (run, _) => Ok(run),
        }
    }

    async fn stream(command: Command, observe: MessageObserver<'_>) -> Result<(Self, Report), ProviderError> {
        let mut running = command.spawn().await.map_err(|error| ProviderError::not_started(&error))?;
        let (mut summary, mut unparsed) = (RunSummary::new(), Vec::new());
        if let Some(mut lines) = running.lines() {
            while let Some(item) = lines.next().await {
                let (StreamItem::Line(line) | StreamItem::Unterminated(line)) = item else { continue };
                match Message::parse(&line) {
                    Ok(message) => {
                        summary.observe(&message);
                        observe(&message);
                    }
                    Err(_) if unparsed.len() + line.len() < UNPARSED_LIMIT => {
                        unparsed.extend_from_slice(&line);
                        unparsed.push(b'\n');
                    }
                    Err(_) => {}
                }
            }
        }
        let report = running.wait().await;
        let stderr = match &report.output {
            Output::Streamed { stderr_tail, .. } => trimmed(stderr_tail),
            _ => String::new(),
        };
        Ok((Self { summary, unparsed: trimmed(&unparsed), stderr, status: report.status }, report))
    }

    async fn document(command: Command, observe: MessageObserver<'_>) -> (Self, Report) {
        let report = command.run().await;
        let (stdout, stderr) = report
            .output
            .captured()
            .map(|captured| (captured.stdout(), captured.stderr()))
            .unwrap_or_default();
        let mut summary = RunSummary::new();
        for message in read_json(&stdout).into_iter().filter_map(crate::Frame::into_message) {
            summary.observe(&message);
            observe(&message);
        }
        let unparsed = if summary.last_result().is_some() { String::new() } else { trimmed(&stdout) };
        (Self { summary, unparsed, stderr: trimmed(&stderr), status: report.status }, report)
    }

    /// Returns the exit status in the format of std.
    pub(super) fn status_text(&self) -> String {
        match self.status {
            #[cfg(unix)]
            Some(status) => {
                let raw = match status {
                    ExitStatus::Code(code) => code << 8,
                    ExitStatus::Signal(signal) => signal,
                };
                <std::process::ExitStatus as std::os::unix::process::ExitStatusExt>::from_raw(raw).to_string()
            }
            #[cfg(not(unix))]
            Some(ExitStatus::Code(code) | ExitStatus::Signal(code)) => format!("exit code: {code}"),
            None => "unknown status".to_owned(),
        }
    }

    pub(super) fn succeeded(&self) -> bool {
        self.status == Some(ExitStatus::Code(0))
    }
}

fn trimmed(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
