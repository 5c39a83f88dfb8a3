//! Runs one agent's command to its end, and gathers what it says on the way.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use yb_claude::Message;
use yb_claude::frame::SystemMessage;
use yb_supervise::{
    Command, EgressRules, Launch, Lines, Output, OutputMode, Pipe, Report, Sandbox, StreamItem, Tap,
};

use super::artifacts::{self, Artifacts};
use super::meter::{Live, Observer};
use super::reader::Reader;
use super::watchdog::Watchdog;
use super::{AdapterError, ExecutionContext, Transcript, guard, view};

/// How much of an agent's output is kept in memory, of both pipes together; the log file has all of it.
pub const MAX_OUTPUT_SIZE: usize = 10_485_760;
/// How much of stderr is told of in an error.
const STDERR_TOLD: usize = 4096;
/// How many refused connections are named in a warning; the log has them all.
const REFUSED_TOLD: usize = 5;
/// The longest line of messages.
const LINE_LIMIT: usize = 64 << 20;

/// What an agent's stdout is.
pub(super) enum Stdout {
    /// Messages, a line of JSON each, that this reader understands.
    Frames(Box<dyn Reader>),
    /// Anything.
    Text,
}

/// An execution that is over.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) report: Report,
    pub(super) transcript: Option<Transcript>,
    pub(super) output: String,
    pub(super) truncated: bool,
    pub(super) stderr: String,
    /// The API refused the credentials, and the agent was stopped because of it.
    pub(super) auth_refused: bool,
    /// It was stopped after so long, in which it did nothing but ask an API again that does not answer.
    pub(super) given_up: Option<Duration>,
    /// It had said all, and was ended because it did not leave by itself.
    pub(super) dismissed: bool,
    pub(super) warnings: Vec<String>,
}

/// Runs the command; an error means that it was not started. What the agent needs to see beside what all do is `more`.
pub(super) async fn drive(
    command: Command,
    stdout: Stdout,
    artifacts: &Artifacts,
    context: &ExecutionContext,
    exits: Option<EgressRules>,
    more: impl FnOnce(Sandbox) -> Sandbox,
) -> Result<Driven, AdapterError> {
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
        let view = more(view::of(context).map_err(private)?).kind(kind);
        command = command.sandbox(guard::connect(view, &context.network, exits));
    }
    if let Some(shim) = &context.host.shim {
        command = command.shim(shim);
    }
    let (output, mut reader) = match stdout {
        Stdout::Frames(reader) => {
            (OutputMode::Stream { line_limit: LINE_LIMIT, tee: Some(artifacts.frames.clone()) }, Some(reader))
        }
        Stdout::Text => (OutputMode::Capture { limit: MAX_OUTPUT_SIZE }, None),
    };
    if reader.as_ref().is_some_and(|reader| reader.listens_to_stderr()) {
        command = command.tap();
    }
    let mut running = command.output(output).spawn().await?;
    let mut stderr = running.tap();
    let observer = context.observer.as_deref();
    if let Some(observer) = observer {
        observer.started(running.record());
    }
    let (mut transcript, mut auth_refused, mut given_up, mut warnings) = (None, false, None, Vec::new());
    let mut dismissed = false;
    if let Some((mut lines, reader)) = running.lines().zip(reader.as_deref_mut()) {
        let folded = transcript.insert(Transcript::default());
        let mut told = Live::default();
        let mut watchdog = Watchdog::new(context.patience, reader.retries(), Instant::now());
        let mut stdin = running.stdin();
        loop {
            // Whoever does not read any more ends, and its end tells more than this does.
            if let Some(stdin) = &mut stdin {
                let _ = stdin.write_all(&reader.say()).await;
            }
            if reader.is_done() && stdin.take().is_some() {
                watchdog.dismiss(Instant::now());
            }
            let line = match next(&mut lines, &mut stderr, &mut watchdog, context).await {
                Next::Nothing => break,
                Next::Aside(piece) => {
                    for message in reader.stderr(&piece) {
                        folded.observe(&message);
                        watchdog.observe(&message, Instant::now());
                    }
                    tell(observer, folded, &mut told);
                    continue;
                }
                Next::TooLate => {
                    dismissed = reader.is_done();
                    given_up = (!dismissed).then(|| watchdog.waited(Instant::now()));
                    watchdog.rest();
                    running.cancel();
                    continue;
                }
                Next::Item(item) => item,
            };
            let line = match line {
                StreamItem::Line(line) | StreamItem::Unterminated(line) => line,
                StreamItem::TooLong { limit } => {
                    warnings.push(format!(
                        "a line of the output is longer than {limit} bytes; what followed was not read"
                    ));
                    continue;
                }
                _ => continue,
            };
            let messages = folded.observe_with(reader, &line);
            let now = Instant::now();
            watchdog.heard(now);
            messages.iter().for_each(|message| watchdog.observe(message, now));
            tell(observer, folded, &mut told);
            if let Some(trace) = &context.trace {
                messages.iter().for_each(|message| trace.message(message));
            }
            // The CLI itself would try the same credentials again for three minutes.
            if !auth_refused && messages.iter().any(is_refusal) {
                auth_refused = true;
                running.cancel();
            }
        }
    }
    let report = running.wait().await;
    warnings.extend(report.warnings.iter().map(ToString::to_string));
    if report.leaked {
        warnings.push("processes that the agent had started outlived it and were ended".to_owned());
    }
    if !report.refused.is_empty() {
        let all: u64 = report.refused.iter().map(|one| one.times).sum();
        let shown = report.refused.iter().take(REFUSED_TOLD).map(|one| format!("`{}`", one.target));
        let more = if report.refused.len() > REFUSED_TOLD { ", …" } else { "" };
        let shown = shown.collect::<Vec<_>>().join(", ");
        warnings.push(format!("connections were refused, {all} in all: {shown}{more}"));
    }
    if report.log.not_logged > 0 {
        warnings.push(format!("{} bytes of the output are not in the terminal log", report.log.not_logged));
    }
    let (output, truncated) = printed(&report, &artifacts.terminal_log, &mut warnings);
    if truncated {
        note_truncation(&artifacts.terminal_log, &mut warnings);
    }
    let stderr = stderr_end(&report);
    if let Some((reader, transcript)) = reader.as_deref_mut().zip(transcript.as_mut()) {
        reader.end(&stderr).iter().for_each(|message| transcript.observe(message));
        warnings.extend(reader.warnings());
    }
    Ok(Driven { report, transcript, output, truncated, stderr, auth_refused, given_up, dismissed, warnings })
}

/// Tells the observer what is new.
fn tell(observer: Option<&dyn Observer>, transcript: &Transcript, told: &mut Live) {
    if let Some(observer) = observer.filter(|_| transcript.live() != told) {
        told.clone_from(transcript.live());
        observer.changed(told);
    }
}

/// What comes next out of an agent.
enum Next {
    Item(StreamItem),
    /// A piece of stderr.
    Aside(Bytes),
    /// Nothing came for as long as anybody would wait.
    TooLate,
    /// The output has ended.
    Nothing,
}

async fn next(
    lines: &mut Lines,
    stderr: &mut Option<Tap>,
    watchdog: &mut Watchdog,
    context: &ExecutionContext,
) -> Next {
    loop {
        let deadline = watchdog.deadline();
        let late = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            item = lines.next() => return item.map_or(Next::Nothing, Next::Item),
            piece = aside(stderr) => match piece {
                Some(piece) => return Next::Aside(piece),
                None => *stderr = None,
            },
            // Whoever is held can't get anywhere.
            () = late => if context.pause.is_paused() {
                watchdog.held(Instant::now());
            } else {
                return Next::TooLate;
            },
        }
    }
}

/// The next piece of stderr; never, if nobody listens to it.
async fn aside(tap: &mut Option<Tap>) -> Option<Bytes> {
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

/// What was printed: from memory or, when stdout was streamed, from the log, where both pipes are in order.
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

/// Stands where output was cut off.
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
    let start = clean.ceil_char_boundary(clean.len().saturating_sub(STDERR_TOLD));
    clean[start..].trim().to_owned()
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
