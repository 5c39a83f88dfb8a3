//! The one task that owns a session: it reads what the CLI prints, routes it, answers it and sees it to its end.
//!
//! Handlers run as tasks of their own and answer through the writer, never through a consumer's queue.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use yb_supervise::StreamItem;

use super::calls::{Answered, Calls};
use super::handlers::Handlers;
use super::questions::Questions;
use super::run_end::RunEnd;
use super::spool::Filler;
use super::transport::{Connection, Output};
use super::turns::Sink;
use super::writer::Writer;
use super::{Error, Exit};
use crate::frame::{FrameError, Init, System, excerpt};
use crate::{Message, ResultMessage, Version};

/// How long the CLI has to leave by itself once its input has ended and it was asked to close.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// Of a line that can't be read.
const EXCERPT: usize = 200;

/// What a handle asks of the session.
pub(super) enum Command {
    /// A question to the CLI.
    Call { body: Value, patience: Duration, answer: Answered },
    /// The only prompt of a query; the input ends with it, or with the run.
    Prompt { line: Vec<u8>, stays_open: bool },
    /// A turn of a client.
    Turn { line: Vec<u8>, filler: Filler },
    /// A message beside the turns.
    Send { line: Vec<u8>, written: oneshot::Sender<Result<(), Error>> },
    /// Somebody hears what belongs to no turn.
    Unclaimed(Filler),
    /// The graceful end.
    Close(oneshot::Sender<Exit>),
}

/// When a run is over, and how long the CLI may take to leave then; none is for ever.
pub(super) struct Limits {
    pub(super) end: RunEnd,
    pub(super) linger: Option<Duration>,
}

/// Where others learn of a session: its span, and how it ended.
pub(super) struct Known {
    pub(super) span: tracing::Span,
    pub(super) exit: Arc<OnceLock<Exit>>,
}

/// One session.
pub(super) struct Actor {
    output: Box<dyn Output>,
    /// None when the input has ended.
    writer: Option<Writer>,
    commands: mpsc::UnboundedReceiver<Command>,
    has_handles: bool,
    sink: Sink,
    questions: Questions,
    calls: Calls,
    lines: u64,
    limits: Limits,
    /// The input ends when the run is over.
    ends_with_run: bool,
    looked_at: bool,
    last_result: Option<Box<ResultMessage>>,
    leave_by: Option<Instant>,
    terminated: bool,
    closed: bool,
    failure: Option<Error>,
    waiters: Vec<oneshot::Sender<Exit>>,
    known: Known,
}

impl Actor {
    pub(super) fn new(
        connection: Connection,
        commands: mpsc::UnboundedReceiver<Command>,
        handlers: Arc<Handlers>,
        sink: Sink,
        limits: Limits,
        known: Known,
    ) -> Self {
        Self {
            output: connection.output,
            writer: Some(Writer::start(connection.input)),
            commands,
            has_handles: true,
            sink,
            questions: Questions::new(handlers),
            calls: Calls::default(),
            lines: 0,
            limits,
            ends_with_run: false,
            looked_at: false,
            last_result: None,
            leave_by: None,
            terminated: false,
            closed: false,
            failure: None,
            waiters: Vec::new(),
            known,
        }
    }

    /// Sees the session to its end.
    pub(super) async fn run(mut self) {
        let mut printing = true;
        let exit = loop {
            let full = self.sink.full();
            let deadline = self.deadline();
            tokio::select! {
                biased;
                answer = self.questions.answered() => {
                    if let Some(line) = answer {
                        self.write(line, None);
                    }
                }
                command = self.commands.recv(), if self.has_handles => match command {
                    Some(command) => self.obey(command),
                    None => self.abandoned(),
                },
                event = heard(&mut *self.output, printing), if !printing || full.is_none() => match event {
                    Event::Printed(item) => self.read(item),
                    Event::Silent => {
                        printing = false;
                        self.leave_within(CLOSE_GRACE);
                    }
                    Event::Gone(exit) => break exit,
                },
                () = room(full.as_ref()), if full.is_some() => {}
                () = at(deadline) => self.expire(),
            }
        };
        self.finish(&exit);
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Call { body, patience, answer } => self.call(&body, patience, answer),
            Command::Prompt { line, stays_open } => {
                self.write(line, None);
                if stays_open {
                    self.ends_with_run = true;
                } else {
                    self.writer = None;
                }
            }
            Command::Turn { line, filler } => {
                if let Sink::Turns(turns) = &mut self.sink
                    && let Some(line) = turns.begin(line, filler)
                {
                    self.write(line, None);
                }
            }
            Command::Send { line, written } => {
                if let Sink::Turns(turns) = &mut self.sink {
                    turns.steer();
                }
                self.write(line, Some(written));
            }
            Command::Unclaimed(filler) => {
                if let Sink::Turns(turns) = &mut self.sink {
                    turns.hear_unclaimed(filler);
                }
            }
            Command::Close(waiter) => {
                self.waiters.push(waiter);
                self.closed = true;
                self.writer = None;
                self.leave_within(CLOSE_GRACE);
            }
        }
    }

    fn call(&mut self, body: &Value, patience: Duration, answer: Answered) {
        if self.writer.is_none() || self.failure.is_some() {
            let _ = answer.send(Err(self.failure.clone().unwrap_or(Error::Closed)));
            return;
        }
        let line = self.calls.begin(body, patience, answer);
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

    /// Nobody holds a handle any more: the CLI ends, unless it is on its way out already.
    fn abandoned(&mut self) {
        self.has_handles = false;
        if !self.closed {
            self.terminate();
        }
    }

    fn terminate(&mut self) {
        self.terminated = true;
        self.leave_by = None;
        self.writer = None;
        self.output.terminate();
    }

    fn leave_within(&mut self, time: Duration) {
        if !self.terminated {
            let by = Instant::now() + time;
            self.leave_by = Some(self.leave_by.map_or(by, |set| set.min(by)));
        }
    }

    fn read(&mut self, item: StreamItem) {
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
            tracing::debug!(line = %excerpt(line, EXCERPT), "the CLI printed what is no message");
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
            Message::ControlRequest(request) => self.questions.ask(*request),
            Message::ControlResponse(response) => self.calls.complete(response.response),
            Message::ControlCancel(cancel) => self.questions.take_back(&cancel.request_id),
            message => {
                self.limits.end.observe(&message, Instant::now());
                match &message {
                    Message::Result(result) => {
                        self.record(result);
                        self.last_result = Some(result.clone());
                    }
                    Message::System(System::Init(init)) => self.look_at(init),
                    _ => {}
                }
                if let Some(prompt) = self.sink.push(message) {
                    self.write(prompt, None);
                }
                let is_query = matches!(self.sink, Sink::Whole(_));
                if is_query && self.limits.end.is_over() {
                    self.run_is_over();
                }
            }
        }
    }

    /// The first message of a turn says which CLI this is.
    fn look_at(&mut self, init: &Init) {
        if std::mem::replace(&mut self.looked_at, true) {
            return;
        }
        if let Some(session) = &init.session_id {
            self.known.span.record("session_id", session.as_str());
        }
        let version = init.claude_code_version.as_deref().and_then(|text| text.parse::<Version>().ok());
        if let Some(version) = version.filter(|version| *version < Version::CONTROL_PROTOCOL) {
            tracing::warn!(%version, "this CLI is older than the protocol that is spoken to it");
        }
    }

    fn record(&self, result: &ResultMessage) {
        let span = &self.known.span;
        span.record("subtype", result.subtype.as_str());
        if let Some(session) = &result.session_id {
            span.record("session_id", session.as_str());
        }
        if let Some(cost) = result.total_cost_usd {
            span.record("cost_usd", cost);
        }
    }

    fn run_is_over(&mut self) {
        self.writer = None;
        if let Some(linger) = self.limits.linger {
            self.leave_within(linger);
        }
    }

    fn fail(&mut self, error: FrameError) {
        if self.failure.is_none() {
            let error = Error::from(error);
            self.calls.fail(&error);
            self.sink.end(Some(&error));
            self.failure = Some(error);
            self.writer = None;
            self.leave_within(CLOSE_GRACE);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let calls = self.calls.deadline();
        let background =
            if self.ends_with_run && self.writer.is_some() { self.limits.end.deadline() } else { None };
        [calls, self.leave_by, background].into_iter().flatten().min()
    }

    /// Something took too long.
    fn expire(&mut self) {
        let now = Instant::now();
        for line in self.calls.expire(now) {
            self.write(line, None);
        }
        if self.leave_by.is_some_and(|by| by <= now) {
            self.terminate();
        }
        if self.ends_with_run
            && self.writer.is_some()
            && self.limits.end.deadline().is_some_and(|at| at <= now)
        {
            tracing::warn!("background work took longer than the host waits for it");
            self.run_is_over();
        }
    }

    fn finish(mut self, exit: &Exit) {
        let _ = self.known.exit.set(exit.clone());
        let error = self.failure.take().or_else(|| self.ending(exit));
        let gone = error.clone().unwrap_or(Error::Closed);
        self.calls.fail(&gone);
        self.sink.end(error.as_ref());
        for waiter in self.waiters.drain(..) {
            let _ = waiter.send(exit.clone());
        }
    }

    /// What the end means: an error result says more than an exit code.
    fn ending(&mut self, exit: &Exit) -> Option<Error> {
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

/// Whether a turn did not succeed; API errors come as a success that is an error.
pub(super) fn is_failure(result: &ResultMessage) -> bool {
    result.is_error || result.subtype.as_str().starts_with("error")
}

/// What comes from the CLI.
enum Event {
    Printed(StreamItem),
    /// Nothing more will be printed.
    Silent,
    Gone(Exit),
}

async fn heard(output: &mut dyn Output, printing: bool) -> Event {
    if !printing {
        return Event::Gone(output.wait().await);
    }
    output.next().await.map_or(Event::Silent, Event::Printed)
}

async fn room(full: Option<&Filler>) {
    match full {
        Some(filler) => filler.room().await,
        None => std::future::pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
