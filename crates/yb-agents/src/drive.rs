//! Runs the command of one agent to its end and reads its output while it runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use yb_claude::Message;
use yb_claude::frame::SystemMessage;
use yb_supervise::{
    Child, Command, EgressRules, Launch, Lines, Output, OutputMode, Pipe, Report, Sandbox, StreamItem, Tap,
};

use super::artifacts::{self, Artifacts};
use super::bounds::{COMPRESS_FROM, LINE, push_warning};
use super::meter::Live;
use super::reader::{McpFailure, Reader};
use super::watchdog::Watchdog;
use super::wiring::Wiring;
use super::{AdapterError, ExecutionContext, Transcript, guard, view};

/// The most bytes of an agent's output in memory, stdout and stderr together; the log file has all of it.
pub const MAX_OUTPUT_SIZE: usize = 10_485_760;
/// The most bytes of stderr in an error.
const MAX_STDERR: usize = 4096;
/// The most refused connections that a warning names; the log has them all.
const MAX_REFUSED: usize = 5;

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
    /// The file of its frames.
    pub(super) frames: PathBuf,
    /// The end of stderr.
    pub(super) stderr: String,
    /// The API refused the credentials, and the agent was stopped because of that.
    pub(super) auth_refused: bool,
    /// The agent was stopped after so long, in which it only retried requests to its API.
    pub(super) given_up: Option<Duration>,
    /// The agent was done, and was stopped because it did not exit.
    pub(super) dismissed: bool,
    /// A required MCP server did not start, and the agent was stopped because of that.
    pub(super) mcp_failed: Option<String>,
    /// The add-ons of the case.
    pub(super) wiring: Wiring,
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
            (OutputMode::Stream { line_limit: LINE, tee: Some(artifacts.frames.clone()) }, Some(reader))
        }
        OutputFormat::Text => (OutputMode::Capture { limit: MAX_OUTPUT_SIZE }, None),
    };
    if reader.is_some() {
        command = command.json_lines().shorten_lines(context.bounds.line());
    }
    if let Some(prefix) = reader.as_ref().and_then(|reader| reader.partial_lines()) {
        command = command.omit_from_log(prefix);
    }
    if reader.as_ref().is_some_and(|reader| reader.reads_stderr()) {
        command = command.tap();
    }
    if let Some((role, recorder)) = &context.start_recorder {
        command = recorder.attach(*role, command);
    }
    let mut child = command.output(mode).spawn().await?;
    let mut messages = reader.map(|reader| MessageLoop::new(reader, context));
    let stderr = child.tap();
    if let Some((messages, lines)) = messages.as_mut().zip(child.lines()) {
        messages.run(&mut child, lines, stderr).await;
    }
    let mut report = child.wait().await;

    let stderr = stderr_end(&report);
    let mut warnings =
        messages.as_mut().map(|messages| std::mem::take(&mut messages.warnings)).unwrap_or_default();
    warnings.extend(warnings_of(&report));
    // Of an answer that was cut off, the terminal log has nothing yet.
    let partial = messages.as_ref().and_then(|messages| messages.transcript.partial_text());
    if let Some(text) = partial
        && let Err(error) = artifacts::append_line(&artifacts.terminal_log, text)
    {
        warnings.push(format!("failed to write the terminal log: {error}"));
    }
    let (output, truncated) = printed(&mut report, &artifacts.terminal_log, &mut warnings);
    let frames = match &messages {
        Some(_) => compressed(artifacts.frames.clone(), &mut warnings).await,
        None => artifacts.frames.clone(),
    };
    let mut run = AgentRun {
        report,
        transcript: None,
        output,
        truncated,
        frames,
        stderr,
        auth_refused: false,
        given_up: None,
        dismissed: false,
        mcp_failed: None,
        wiring: Wiring::declared(&context.config),
        warnings,
    };
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
        .pause_on(context.pause.clone())
        .own_pause(context.step_pause.clone());
    let mut changes = context.overlay.as_ref().map_or(&context.workspace, |overlay| &overlay.upper);
    if let Some(root) = context.root.as_ref().filter(|root| root.workdir.is_some()) {
        changes = &root.mount.overlay.upper;
    }
    let writable = [changes.as_path(), &context.private_dir];
    command = guard::limit(command, &context.limits, writable, context.disk_before);
    if let Some(kind) = context.isolation.kind() {
        let private = |source| AdapterError::PrivateNotWritable { path: context.private_dir.clone(), source };
        let mut view = extend_view(view::of(context).map_err(private)?).kind(kind);
        if let Some(root) = &context.root {
            view = root.for_program(view, Path::new(command.program()));
            // The case takes precedence over the image, but its programs are those of the image.
            let is_set =
                |name: &str| context.host.env.contains_key(std::ffi::OsStr::new(name)) && name != "PATH";
            command = command.envs(root.env.iter().filter(|(name, _)| *name != "HOME" && !is_set(name)));
        }
        if let Some(overlay) = context.overlay.as_ref().filter(|_| !context.is_in_root()) {
            view = view.overlay(overlay.clone());
        }
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
    mcp_failed: Option<String>,
    wiring: Wiring,
    warnings: Vec<String>,
}

impl<'a> MessageLoop<'a> {
    fn new(reader: Box<dyn Reader>, context: &'a ExecutionContext) -> Self {
        let watchdog = Watchdog::new(context.patience, reader.retry_behavior(), Instant::now());
        Self {
            reader,
            context,
            transcript: Transcript::in_workspace(&context.workspace, context.bounds),
            reported: Live::default(),
            watchdog,
            auth_refused: false,
            given_up: None,
            dismissed: false,
            mcp_failed: None,
            wiring: Wiring::declared(&context.config),
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
            self.watchdog.set_starting(!self.reader.is_prompted());
            if self.reader.is_done() && stdin.take().is_some() {
                self.watchdog.dismiss(Instant::now());
            }
            match self.next_event(&mut lines, &mut stderr).await {
                OutputEvent::End => return,
                OutputEvent::Stderr(piece) => self.on_stderr(&piece, child),
                OutputEvent::Deadline => self.on_deadline(child),
                OutputEvent::Item(StreamItem::Line(line) | StreamItem::Unterminated(line)) => {
                    self.on_line(&line, child);
                }
                OutputEvent::Item(StreamItem::Skipped { length }) => {
                    self.transcript.skip_line();
                    let warning = format!("a line of the output, {length} bytes long, was not read");
                    push_warning(&mut self.warnings, &warning);
                }
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
        if self.reader.lists_add_ons() {
            self.wiring.observe(&messages, &self.context.config);
            // Without its add-ons an agent would only cost.
            if self.wiring.missing().is_some() {
                child.cancel();
            }
        }
        self.check_servers(child);
        // Claude Code would retry the same credentials for three minutes. If nothing else confirms the refusal, its own exit has to.
        if self.context.api_observed && !self.auth_refused && messages.iter().any(is_refusal) {
            self.auth_refused = true;
            child.cancel();
        }
    }

    fn on_stderr(&mut self, piece: &[u8], child: &mut Child) {
        for message in self.reader.parse_stderr(piece) {
            self.transcript.observe(&message);
            self.watchdog.observe(&message, Instant::now());
        }
        self.report_progress();
        self.check_servers(child);
    }

    /// Reports MCP servers that did not start, and stops the agent if one of them is required.
    fn check_servers(&mut self, child: &mut Child) {
        for McpFailure { server, reason } in self.reader.mcp_failures() {
            let declared = &self.context.config.mcp_servers;
            let is_declared =
                server.as_ref().map_or(!declared.is_empty(), |name| declared.contains_key(name));
            let message = match server {
                Some(name) => format!("MCP server `{name}` did not start: {reason}"),
                None => format!("an MCP server did not start: {reason}"),
            };
            if self.context.config.mcp_required && is_declared {
                self.wiring.report_failed_server();
                self.mcp_failed.get_or_insert(message);
                child.cancel();
            } else if !self.warnings.contains(&message) {
                push_warning(&mut self.warnings, &message);
            }
        }
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
        self.transcript.finish();
        self.reader.failed_calls().iter().for_each(|id| self.transcript.mark_failed(id));
        run.warnings.extend(self.reader.warnings());
        run.transcript = Some(self.transcript);
        (run.auth_refused, run.given_up, run.dismissed) = (self.auth_refused, self.given_up, self.dismissed);
        run.mcp_failed = self.mcp_failed;
        run.wiring = self.wiring;
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
fn printed(report: &mut Report, log: &Path, warnings: &mut Vec<String>) -> (String, bool) {
    let (mut text, truncated) = match std::mem::replace(&mut report.output, Output::None) {
        Output::Captured(captured) => {
            let is_truncated = captured.dropped() > 0;
            (artifacts::into_text(captured.into_bytes()), is_truncated)
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

/// Compresses a large file of frames. Returns the file that has them.
async fn compressed(frames: PathBuf, warnings: &mut Vec<String>) -> PathBuf {
    let file = frames.clone();
    let done =
        tokio::task::spawn_blocking(move || yb_model::frames::compress_large(&file, COMPRESS_FROM)).await;
    done.map_err(std::io::Error::other).flatten().unwrap_or_else(|error| {
        warnings.push(format!("failed to compress the frames: {error}"));
        frames
    })
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
