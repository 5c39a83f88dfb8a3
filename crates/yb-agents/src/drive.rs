//! Runs the command of one agent to its end and reads its output while it runs.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use yb_claude::Message;
use yb_claude::frame::SystemMessage;
use yb_supervise::{
    Child, Command, EgressRules, Launch, Lines, Output, OutputMode, Pipe, Report, Sandbox, StreamItem, Tap,
};

use super::artifacts::{self, Artifacts};
use super::meter::Live;
use super::reader::Reader;
use super::watchdog::Watchdog;
use super::{AdapterError, ExecutionContext, Transcript, guard, view};

/// The most bytes of an agent's output in memory, stdout and stderr together; the log file has all of it.
pub const MAX_OUTPUT_SIZE: usize = 10_485_760;
/// The most bytes of stderr in an error.
const MAX_STDERR: usize = 4096;
/// The most refused connections that a warning names; the log has them all.
const MAX_REFUSED: usize = 5;
/// The longest line of messages.
const LINE_LIMIT: usize = 64 << 20;

/// The format of an agent's stdout.
pub(super) enum OutputFormat {
    /// Messages, one JSON object per line, for this reader.
    Messages(Box<dyn Reader>),
    /// Text.
    Text,
}

/// A finished execution.
#[derive(Debug)]
pub(super) struct AgentRun {
    pub(super) report: Report,
    pub(super) transcript: Option<Transcript>,
    pub(super) output: String,
    pub(super) truncated: bool,
    /// The end of stderr.
    pub(super) stderr: String,
    /// The API refused the credentials, and the agent was stopped because of that.
    pub(super) auth_refused: bool,
    /// The agent was stopped after so long, in which it only retried requests to its API.
    pub(super) given_up: Option<Duration>,
    /// The agent was done, and was stopped because it did not exit.
    pub(super) dismissed: bool,
    pub(super) warnings: Vec<String>,
}

/// Runs the command; an error means that it was not started. `extend_view` adds what this agent needs to see in a sandbox.
pub(super) async fn drive(
    command: Command,
    format: OutputFormat,
    artifacts: &Artifacts,
    context: &ExecutionContext,
    exits: Option<EgressRules>,
    extend_view: impl FnOnce(Sandbox) -> Sandbox,
) -> Result<AgentRun, AdapterError> {
    let mut command = contained(command, artifacts, context, exits, extend_view)?;
    let (mode, reader) = match format {
        OutputFormat::Messages(reader) => {
            (OutputMode::Stream { line_limit: LINE_LIMIT, tee: Some(artifacts.frames.clone()) }, Some(reader))
        }
        OutputFormat::Text => (OutputMode::Capture { limit: MAX_OUTPUT_SIZE }, None),
    };
    if reader.is_some() {
        command = command.json_lines();
    }
    if reader.as_ref().is_some_and(|reader| reader.reads_stderr()) {
        command = command.tap();
    }
    if let Some(observer) = context.observer.clone() {
        command = command.before_start(move |record| observer.starting(record));
    }
    let mut child = command.output(mode).spawn().await?;
    let mut messages = reader.map(|reader| MessageLoop::new(reader, context));
    let stderr = child.tap();
    if let Some((messages, lines)) = messages.as_mut().zip(child.lines()) {
        messages.run(&mut child, lines, stderr).await;
    }
    let report = child.wait().await;

    let stderr = stderr_end(&report);
    let mut run = AgentRun {
        report,
        transcript: None,
        output: String::new(),
        truncated: false,
        stderr,
        auth_refused: false,
        given_up: None,
        dismissed: false,
        warnings: Vec::new(),
    };
    if let Some(messages) = &mut messages {
        run.warnings.append(&mut messages.warnings);
    }
    run.warnings.extend(warnings_of(&run.report));
    (run.output, run.truncated) = printed(&run.report, &artifacts.terminal_log, &mut run.warnings);
    if run.truncated {
        note_truncation(&artifacts.terminal_log, &mut run.warnings);
    }
    if let Some(messages) = messages {
        messages.finish(&mut run);
    }
    Ok(run)
}

/// The command with its directory, deadline, log, limits and sandbox.
fn contained(
    command: Command,
    artifacts: &Artifacts,
    context: &ExecutionContext,
    exits: Option<EgressRules>,
    extend_view: impl FnOnce(Sandbox) -> Sandbox,
) -> Result<Command, AdapterError> {
    let mut command = command
        .launch(Launch::Contained)
        .current_dir(&context.workspace)
        .deadline(context.timeout)
        .log_file(&artifacts.terminal_log)
        .cancel_on(context.cancellation.clone())
        .pause_on(context.pause.clone());
    let writable = [context.workspace.as_path(), &context.private_dir];
    command = guard::limit(command, &context.limits, writable, context.disk_before);
    if let Some(kind) = context.isolation.kind() {
        let private = |source| AdapterError::PrivateNotWritable { path: context.private_dir.clone(), source };
        let view = extend_view(view::of(context).map_err(private)?).kind(kind);
        command = command.sandbox(guard::connect(view, &context.network, exits));
    }
    if let Some(shim) = &context.host.shim {
        command = command.shim(shim);
    }
    Ok(command)
}

/// Reads the messages of a running agent: folds them, reports progress, and stops an agent that gets nowhere.
struct MessageLoop<'a> {
    reader: Box<dyn Reader>,
    context: &'a ExecutionContext,
    transcript: Transcript,
    /// The progress that was last reported to the observer.
    reported: Live,
    watchdog: Watchdog,
    auth_refused: bool,
    given_up: Option<Duration>,
    dismissed: bool,
    warnings: Vec<String>,
}

impl<'a> MessageLoop<'a> {
    fn new(reader: Box<dyn Reader>, context: &'a ExecutionContext) -> Self {
        let watchdog = Watchdog::new(context.patience, reader.retry_behavior(), Instant::now());
        Self {
            reader,
            context,
            transcript: Transcript::default(),
            reported: Live::default(),
            watchdog,
            auth_refused: false,
            given_up: None,
            dismissed: false,
            warnings: Vec::new(),
        }
    }

    /// Reads until the output ends.
    async fn run(&mut self, child: &mut Child, mut lines: Lines, mut stderr: Option<Tap>) {
        let mut stdin = child.stdin();
        loop {
            // An agent that no longer reads is about to exit, and its exit status is more informative than an error here.
            if let Some(stdin) = &mut stdin {
                let _ = stdin.write_all(&self.reader.take_input()).await;
            }
            if self.reader.is_done() && stdin.take().is_some() {
                self.watchdog.dismiss(Instant::now());
            }
            match self.next_event(&mut lines, &mut stderr).await {
                OutputEvent::End => return,
                OutputEvent::Stderr(piece) => self.on_stderr(&piece),
                OutputEvent::Deadline => self.on_deadline(child),
                OutputEvent::Item(StreamItem::Line(line) | StreamItem::Unterminated(line)) => {
                    self.on_line(&line, child);
                }
                OutputEvent::Item(StreamItem::TooLong { limit }) => self.warnings.push(format!(
                    "a line of the output is longer than {limit} bytes; what followed was not read"
                )),
                OutputEvent::Item(_) => {}
            }
        }
    }

    async fn next_event(&mut self, lines: &mut Lines, stderr: &mut Option<Tap>) -> OutputEvent {
        loop {
            let deadline = self.watchdog.deadline();
            let expired = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                item = lines.next() => return item.map_or(OutputEvent::End, OutputEvent::Item),
                piece = next_stderr(stderr) => match piece {
                    Some(piece) => return OutputEvent::Stderr(piece),
                    None => *stderr = None,
                },
                // A suspended agent can't make progress.
                () = expired => if self.context.pause.is_paused() {
                    self.watchdog.suspended(Instant::now());
                } else {
                    return OutputEvent::Deadline;
                },
            }
        }
    }

    fn on_line(&mut self, line: &[u8], child: &mut Child) {
        let messages = self.transcript.observe_with(self.reader.as_mut(), line);
        let now = Instant::now();
        self.watchdog.output(now);
        messages.iter().for_each(|message| self.watchdog.observe(message, now));
        self.report_progress();
        if let Some(trace) = &self.context.trace {
            messages.iter().for_each(|message| trace.message(message));
        }
        // Claude Code would retry the same credentials for three minutes. If nothing else confirms the refusal, its own exit has to.
        if self.context.api_observed && !self.auth_refused && messages.iter().any(is_refusal) {
            self.auth_refused = true;
            child.cancel();
        }
    }

    fn on_stderr(&mut self, piece: &[u8]) {
        for message in self.reader.parse_stderr(piece) {
            self.transcript.observe(&message);
            self.watchdog.observe(&message, Instant::now());
        }
        self.report_progress();
    }

    /// The agent is done and did not exit, or it got no answer from its API for too long.
    fn on_deadline(&mut self, child: &mut Child) {
        self.dismissed = self.reader.is_done();
        self.given_up = (!self.dismissed).then(|| self.watchdog.waited(Instant::now()));
        self.watchdog.stop();
        child.cancel();
    }

    fn report_progress(&mut self) {
        let progress = self.transcript.live();
        if let Some(observer) = self.context.observer.as_deref().filter(|_| *progress != self.reported) {
            self.reported.clone_from(progress);
            observer.changed(&self.reported);
        }
    }

    /// Adds what was read to the finished execution.
    fn finish(mut self, run: &mut AgentRun) {
        self.reader.finish(&run.stderr).iter().for_each(|message| self.transcript.observe(message));
        run.warnings.extend(self.reader.warnings());
        run.transcript = Some(self.transcript);
        (run.auth_refused, run.given_up, run.dismissed) = (self.auth_refused, self.given_up, self.dismissed);
    }
}

/// The next event of a running agent.
enum OutputEvent {
    /// A line of stdout, or a line that is too long.
    Item(StreamItem),
    /// A piece of stderr.
    Stderr(Bytes),
    /// The deadline of the watchdog passed.
    Deadline,
    /// The output ended.
    End,
}

/// The next piece of stderr; never returns without a tap.
async fn next_stderr(tap: &mut Option<Tap>) -> Option<Bytes> {
    let Some(tap) = tap else { return std::future::pending().await };
    loop {
        let item = tap.next().await?;
        if item.pipe == Pipe::Stderr {
            return Some(item.bytes);
        }
    }
}

fn is_refusal(message: &Message) -> bool {
    matches!(message, Message::System(SystemMessage::ApiRetry(retry)) if matches!(retry.error_status, Some(401 | 403)))
}

/// Warnings about the process itself.
fn warnings_of(report: &Report) -> Vec<String> {
    let mut warnings: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    if report.leaked {
        warnings.push("processes that the agent had started outlived it and were ended".to_owned());
    }
    if !report.refused.is_empty() {
        let all: u64 = report.refused.iter().map(|one| one.times).sum();
        let shown = report.refused.iter().take(MAX_REFUSED).map(|one| format!("`{}`", one.target));
        let more = if report.refused.len() > MAX_REFUSED { ", …" } else { "" };
        let shown = shown.collect::<Vec<_>>().join(", ");
        warnings.push(format!("connections were refused, {all} in all: {shown}{more}"));
    }
    if report.log.not_logged > 0 {
        warnings.push(format!("{} bytes of the output are not in the terminal log", report.log.not_logged));
    }
    warnings
}

/// The printed output: from memory, or from the log when stdout was streamed, because the log has both pipes in order.
fn printed(report: &Report, log: &Path, warnings: &mut Vec<String>) -> (String, bool) {
    let (mut text, truncated) = match &report.output {
        Output::Captured(captured) => {
            let text = String::from_utf8_lossy(captured.bytes()).into_owned();
            (text, captured.dropped() > 0)
        }
        Output::Streamed { .. } => artifacts::beginning(log, MAX_OUTPUT_SIZE).unwrap_or_else(|error| {
            warnings.push(format!("failed to read the terminal log: {error}"));
            Default::default()
        }),
        _ => Default::default(),
    };
    if truncated {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(TRUNCATED);
    }
    (text, truncated)
}

/// Marks the place where output was cut off.
const TRUNCATED: &str = "[OUTPUT TRUNCATED: exceeded the 10MB limit of 10485760 bytes]";

fn note_truncation(log: &Path, warnings: &mut Vec<String>) {
    let line = "[OUTPUT TRUNCATED: exceeded the 10MB limit of 10485760 bytes; this file has what followed]";
    if let Err(error) = artifacts::append_line(log, line) {
        warnings.push(format!("failed to write the terminal log: {error}"));
    }
}

fn stderr_end(report: &Report) -> String {
    let bytes = match &report.output {
        Output::Captured(captured) => captured.stderr(),
        Output::Streamed { stderr_tail, .. } => stderr_tail.clone(),
        _ => Vec::new(),
    };
    let text = String::from_utf8_lossy(&bytes);
    let clean = yb_claude::strip_ansi(&text);
    let start = clean.ceil_char_boundary(clean.len().saturating_sub(MAX_STDERR));
    clean[start..].trim().to_owned()
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
