//! The task that owns a session: reads the CLI's output, routes messages, and shuts the session down.
//!
//! Handlers run in separate tasks and respond through the writer, independent of consumers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use yb_supervise::StreamItem;

use super::incoming::IncomingRequests;
use super::mirror::{FlushReceiver, Mirror, MirrorError};
use super::outgoing::{OutgoingRequests, ResponseSender};
use super::run_end::RunEndDetector;
use super::spool::SpoolWriter;
use super::transport::{Connection, TransportOutput};
use super::turns::Sink;
use super::writer::Writer;
use super::{Error, Exit};
use crate::frame::{FrameError, InitMessage, SystemMessage, excerpt};
use crate::{Message, ResultMessage, Version};

/// The time for the CLI to exit after its stdin was closed.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// The maximum length of an excerpt of an invalid line.
const EXCERPT: usize = 200;
/// The number of messages behind a held result, above which the CLI is not read.
const MAX_HELD: usize = 1024;

/// A command from a handle to the session.
pub(super) enum SessionCommand {
    /// A control request to the CLI.
    Request { body: Value, timeout: Duration, response: ResponseSender },
    /// A prompt of a query.
    Prompt { line: Vec<u8> },
    /// A query has no more prompts. stdin is closed now, or at the end of the run.
    EndPrompts { waits_for_run: bool },
    /// A turn of a client.
    Turn { line: Vec<u8>, writer: SpoolWriter },
    /// A message outside of turns.
    Send { line: Vec<u8>, written: oneshot::Sender<Result<(), Error>> },
    /// Subscribes to messages that belong to no turn.
    Unclaimed(SpoolWriter),
    /// Closes the session gracefully.
    Close(oneshot::Sender<Exit>),
}

/// When a run is over, and how long the CLI may take to exit then; `None` means no limit.
pub(super) struct ShutdownPolicy {
    pub(super) end: RunEndDetector,
    pub(super) linger: Option<Duration>,
}

/// The externally visible state of a session: its span and its exit.
pub(super) struct SessionMonitor {
    pub(super) span: tracing::Span,
    pub(super) exit: Arc<OnceLock<Exit>>,
}

/// Messages that wait for the session store.
struct HeldMessages {
    messages: Vec<Message>,
    flush: FlushReceiver,
}

/// The owner of one session.
pub(super) struct Actor {
    output: Box<dyn TransportOutput>,
    /// `None` when stdin is closed.
    writer: Option<Writer>,
    commands: mpsc::UnboundedReceiver<SessionCommand>,
    has_handles: bool,
    sink: Sink,
    incoming: IncomingRequests,
    outgoing: OutgoingRequests,
    lines: u64,
    shutdown: ShutdownPolicy,
    /// Whether a query has no more prompts, so that the session ends with the run.
    ends_with_run: bool,
    /// Copies transcripts to the store.
    mirror: Option<Mirror>,
    /// A result that is held back until the store has its transcript, and the messages after it.
    held: Option<HeldMessages>,
    init_seen: bool,
    last_result: Option<Box<ResultMessage>>,
    exit_deadline: Option<Instant>,
    terminated: bool,
    closed: bool,
    failure: Option<Error>,
    waiters: Vec<oneshot::Sender<Exit>>,
    monitor: SessionMonitor,
}

impl Actor {
    pub(super) fn new(
        connection: Connection,
        commands: mpsc::UnboundedReceiver<SessionCommand>,
        incoming: IncomingRequests,
        sink: Sink,
        shutdown: ShutdownPolicy,
        monitor: SessionMonitor,
        mirror: Option<Mirror>,
    ) -> Self {
        Self {
            output: connection.output,
            writer: Some(Writer::start(connection.input)),
            commands,
            has_handles: true,
            sink,
            incoming,
            outgoing: OutgoingRequests::default(),
            lines: 0,
            shutdown,
            ends_with_run: false,
            mirror,
            held: None,
            init_seen: false,
            last_result: None,
            exit_deadline: None,
            terminated: false,
            closed: false,
            failure: None,
            waiters: Vec::new(),
            monitor,
        }
    }

    /// Runs the session to its end.
    pub(super) async fn run(mut self) {
        let mut output_open = true;
        let exit = loop {
            let full = self.sink.full();
            let deadline = self.deadline();
            tokio::select! {
                biased;
                answer = self.incoming.next_response() => {
                    if let Some(line) = answer {
                        self.write(line, None);
                    }
                }
                command = self.commands.recv(), if self.has_handles => match command {
                    Some(command) => self.handle_command(command),
                    None => self.all_handles_dropped(),
                },
                errors = flushed(self.held.as_mut()) => self.release(&errors),
                event = next_cli_event(&mut *self.output, output_open),
                    if !output_open || full.is_none() && !self.holds_too_much() => match event {
                    CliEvent::Item(item) => self.handle_item(item),
                    CliEvent::OutputEnded => {
                        output_open = false;
                        self.exit_within(CLOSE_GRACE);
                    }
                    CliEvent::Exited(exit) => break exit,
                },
                () = wait_for_room(full.as_ref()), if full.is_some() => {}
                () = sleep_until_deadline(deadline) => self.expire(),
            }
        };
        if let Some(mirror) = self.mirror.take() {
            let errors = mirror.close().await;
            self.release(&errors);
        }
        self.finish(&exit);
    }

    fn handle_command(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::Request { body, timeout, response } => {
                self.send_request(&body, timeout, response);
            }
            SessionCommand::Prompt { line } => {
                self.shutdown.end.note_prompt();
                self.write(line, None);
            }
            SessionCommand::EndPrompts { waits_for_run } => {
                self.ends_with_run = true;
                if !waits_for_run {
                    self.writer = None;
                }
                if self.shutdown.end.is_over() {
                    self.end_input();
                }
            }
            SessionCommand::Turn { line, writer } => {
                if let Sink::Turns(turns) = &mut self.sink
                    && let Some(line) = turns.begin(line, writer)
                {
                    self.write(line, None);
                }
            }
            SessionCommand::Send { line, written } => {
                if let Sink::Turns(turns) = &mut self.sink {
                    turns.note_message_sent();
                }
                self.write(line, Some(written));
            }
            SessionCommand::Unclaimed(writer) => {
                if let Sink::Turns(turns) = &mut self.sink {
                    turns.set_unclaimed(writer);
                }
            }
            SessionCommand::Close(waiter) => {
                self.waiters.push(waiter);
                self.closed = true;
                self.writer = None;
                self.exit_within(CLOSE_GRACE);
            }
        }
    }

    fn send_request(&mut self, body: &Value, timeout: Duration, response: ResponseSender) {
        if self.writer.is_none() || self.failure.is_some() {
            let _ = response.send(Err(self.failure.clone().unwrap_or(Error::Closed)));
            return;
        }
        let line = self.outgoing.begin(body, timeout, response);
        self.write(line, None);
    }

    fn write(&self, line: Vec<u8>, written: Option<oneshot::Sender<Result<(), Error>>>) {
        match (&self.writer, written) {
            (Some(writer), written) => writer.write(line, written),
            (None, Some(written)) => {
                let _ = written.send(Err(Error::Closed));
            }
            (None, None) => {}
        }
    }

    /// Handles the drop of the last handle: terminates the CLI, unless it is closing already.
    fn all_handles_dropped(&mut self) {
        self.has_handles = false;
        if !self.closed {
            self.terminate();
        }
    }

    fn terminate(&mut self) {
        self.terminated = true;
        self.exit_deadline = None;
        self.writer = None;
        self.output.terminate();
    }

    fn exit_within(&mut self, time: Duration) {
        if !self.terminated {
            let by = Instant::now() + time;
            self.exit_deadline = Some(self.exit_deadline.map_or(by, |set| set.min(by)));
        }
    }

    fn handle_item(&mut self, item: StreamItem) {
        self.lines += 1;
        let (line, whole) = match item {
            StreamItem::Line(line) => (line, true),
            StreamItem::Unterminated(line) => (line, false),
            StreamItem::TooLong { limit } => {
                let (line, excerpt) = (self.lines, String::new());
                return self.fail(FrameError::TooLong { line, limit, excerpt });
            }
            _ => return,
        };
        let line = line.trim_ascii();
        if self.failure.is_some() || line.is_empty() {
            return;
        }
        if line.first() != Some(&b'{') {
            tracing::debug!(line = %excerpt(line, EXCERPT), "the CLI printed a line that is not a message");
            return;
        }
        match Message::parse(line) {
            Ok(message) => self.route(message),
            Err(_) if !whole => {}
            Err(error) => {
                let (number, excerpt) = (self.lines, excerpt(line, EXCERPT));
                self.fail(FrameError::Malformed { line: number, reason: error.reason, excerpt });
            }
        }
    }

    fn route(&mut self, message: Message) {
        match message {
            Message::ControlRequest(request) => self.incoming.start(*request),
            Message::ControlResponse(response) => self.outgoing.complete(response.response),
            Message::ControlCancel(cancel) => self.incoming.cancel(&cancel.request_id),
            Message::Other(other) if &*other.kind == "transcript_mirror" => {
                if let Some(mirror) = &self.mirror {
                    mirror.append(other.raw());
                }
            }
            message => {
                self.shutdown.end.observe(&message, Instant::now());
                match &message {
                    Message::Result(result) => {
                        self.record(result);
                        self.last_result = Some(result.clone());
                    }
                    Message::System(SystemMessage::Init(init)) => self.record_init(init),
                    _ => {}
                }
                // A consumer that has the result can rely on the store.
                let flush = match (&message, &self.mirror) {
                    (Message::Result(_), Some(mirror)) => Some(mirror.flush()),
                    _ => None,
                };
                match (&mut self.held, flush) {
                    (None, None) => self.deliver(message),
                    (None, Some(flush)) => self.held = Some(HeldMessages { messages: vec![message], flush }),
                    (Some(held), flush) => {
                        held.messages.push(message);
                        // A later flush includes the earlier one.
                        if let Some(flush) = flush {
                            held.flush = flush;
                        }
                    }
                }
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        if let Some(prompt) = self.sink.push(message) {
            self.write(prompt, None);
        }
        if self.ends_with_run && self.shutdown.end.is_over() {
            self.end_input();
        }
    }

    /// Whether so many messages are held back that the CLI has to wait.
    fn holds_too_much(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.messages.len() >= MAX_HELD)
    }

    /// Delivers the errors of the store, as `mirror_error` messages, and the messages that were held back.
    fn release(&mut self, errors: &[MirrorError]) {
        for error in errors {
            tracing::warn!(error = %error.reason, "the session store failed");
            if let Ok(message) = Message::parse(error.to_line().as_bytes()) {
                self.deliver(message);
            }
        }
        for message in self.held.take().into_iter().flat_map(|held| held.messages) {
            self.deliver(message);
        }
    }

    /// Records the session ID and checks the version, once.
    fn record_init(&mut self, init: &InitMessage) {
        if std::mem::replace(&mut self.init_seen, true) {
            return;
        }
        if let Some(session) = &init.session_id {
            self.monitor.span.record("session_id", session.as_str());
        }
        let version = init.claude_code_version.as_deref().and_then(|text| text.parse::<Version>().ok());
        if let Some(version) = version.filter(|version| *version < Version::CONTROL_PROTOCOL) {
            tracing::warn!(%version, "the CLI is older than the control protocol");
        }
    }

    fn record(&self, result: &ResultMessage) {
        let span = &self.monitor.span;
        span.record("subtype", result.subtype.as_str());
        if let Some(session) = &result.session_id {
            span.record("session_id", session.as_str());
        }
        if let Some(cost) = result.total_cost_usd {
            span.record("cost_usd", cost);
        }
    }

    fn end_input(&mut self) {
        self.writer = None;
        if let Some(linger) = self.shutdown.linger {
            self.exit_within(linger);
        }
    }

    fn fail(&mut self, error: FrameError) {
        if self.failure.is_none() {
            let error = Error::from(error);
            self.outgoing.fail(&error);
            self.sink.end(Some(&error));
            self.failure = Some(error);
            self.writer = None;
            self.exit_within(CLOSE_GRACE);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let calls = self.outgoing.deadline();
        let background =
            if self.ends_with_run && self.writer.is_some() { self.shutdown.end.deadline() } else { None };
        [calls, self.exit_deadline, background].into_iter().flatten().min()
    }

    /// Handles expired deadlines.
    fn expire(&mut self) {
        let now = Instant::now();
        for line in self.outgoing.expire(now) {
            self.write(line, None);
        }
        if self.exit_deadline.is_some_and(|by| by <= now) {
            self.terminate();
        }
        if self.ends_with_run
            && self.writer.is_some()
            && self.shutdown.end.deadline().is_some_and(|at| at <= now)
        {
            tracing::warn!("background work exceeded the wait limit");
            self.end_input();
        }
    }

    fn finish(mut self, exit: &Exit) {
        let _ = self.monitor.exit.set(exit.clone());
        let reason = self.failure.take().or_else(|| self.exit_error(exit));
        self.outgoing.fail(reason.as_ref().unwrap_or(&Error::Closed));
        self.sink.end(reason.as_ref());
        for waiter in self.waiters.drain(..) {
            let _ = waiter.send(exit.clone());
        }
    }

    /// Returns the error of an exit; an error result takes precedence over an exit code.
    fn exit_error(&mut self, exit: &Exit) -> Option<Error> {
        if self.closed {
            return None;
        }
        match self.last_result.take() {
            Some(_) if exit.success() => None,
            Some(result) if is_failure(&result) => Some(Error::Result(result)),
            _ => Some(Error::Exited(exit.clone())),
        }
    }
}

/// Whether a turn failed; API errors are reported as `success` with `is_error`.
pub(super) fn is_failure(result: &ResultMessage) -> bool {
    result.is_error || result.subtype.as_str().starts_with("error")
}

/// An event from the CLI.
enum CliEvent {
    Item(StreamItem),
    /// stdout was closed.
    OutputEnded,
    Exited(Exit),
}

async fn next_cli_event(output: &mut dyn TransportOutput, output_open: bool) -> CliEvent {
    if !output_open {
        return CliEvent::Exited(output.wait().await);
    }
    output.next().await.map_or(CliEvent::OutputEnded, CliEvent::Item)
}

/// Waits until the store has the transcript of the held result.
async fn flushed(held: Option<&mut HeldMessages>) -> Vec<MirrorError> {
    match held {
        Some(held) => (&mut held.flush).await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

async fn wait_for_room(full: Option<&SpoolWriter>) {
    match full {
        Some(writer) => writer.room().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until_deadline(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
