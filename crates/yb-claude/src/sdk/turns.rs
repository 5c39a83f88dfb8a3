//! Assigns messages to the turns of a client. A prompt is sent only after the result of the previous turn, so that
//! results can't be mixed up.

use std::collections::VecDeque;

use super::Error;
use super::spool::SpoolWriter;
use crate::Message;
use crate::frame::SystemMessage;

/// The destination of a session's messages.
pub(super) enum Sink {
    /// A single consumer of all messages.
    Single(SpoolWriter),
    /// The current turn of a client.
    Turns(TurnQueue),
}

/// The queue of a client's turns.
#[derive(Default)]
pub(super) struct TurnQueue {
    current: Option<SpoolWriter>,
    waiting: VecDeque<(Vec<u8>, SpoolWriter)>,
    /// The consumer of messages that belong to no turn.
    unclaimed: Option<SpoolWriter>,
    /// Whether a message was sent outside of turns. It may have its own result, before the CLI becomes idle.
    message_sent: bool,
}

impl Sink {
    /// Routes a message and returns the prompt to send next.
    pub(super) fn push(&mut self, message: Message) -> Option<Vec<u8>> {
        match self {
            Self::Single(writer) => {
                if !message.is_internal() {
                    writer.push(message);
                }
                None
            }
            Self::Turns(turns) => turns.push(message),
        }
    }

    /// Returns the current consumer's writer, if it is full.
    pub(super) fn full(&self) -> Option<SpoolWriter> {
        let writer = match self {
            Self::Single(writer) => Some(writer),
            Self::Turns(turns) => turns.current.as_ref().or(turns.unclaimed.as_ref()),
        };
        writer.filter(|writer| writer.is_full()).cloned()
    }

    /// Ends all streams.
    pub(super) fn end(&mut self, error: Option<&Error>) {
        match self {
            Self::Single(writer) => writer.end(error.cloned()),
            Self::Turns(turns) => {
                let reason = error.cloned().unwrap_or(Error::Closed);
                let waiting = turns.waiting.drain(..).map(|(_, writer)| writer);
                turns
                    .current
                    .take()
                    .into_iter()
                    .chain(waiting)
                    .for_each(|open| open.end(Some(reason.clone())));
                if let Some(unclaimed) = turns.unclaimed.take() {
                    unclaimed.end(error.cloned());
                }
            }
        }
    }
}

impl TurnQueue {
    /// Queues a prompt and returns the prompt to send next.
    pub(super) fn begin(&mut self, line: Vec<u8>, writer: SpoolWriter) -> Option<Vec<u8>> {
        self.waiting.push_back((line, writer));
        self.next()
    }

    pub(super) fn note_message_sent(&mut self) {
        self.message_sent = true;
    }

    pub(super) fn set_unclaimed(&mut self, writer: SpoolWriter) {
        self.unclaimed = Some(writer);
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        while self.current.is_none() && !self.message_sent {
            let (line, writer) = self.waiting.pop_front()?;
            // A dropped turn is never sent.
            if !writer.is_abandoned() {
                self.current = Some(writer);
                return Some(line);
            }
        }
        None
    }

    fn push(&mut self, message: Message) -> Option<Vec<u8>> {
        let idle = matches!(&message, Message::System(SystemMessage::SessionStateChanged(state))
            if state.state.as_deref() == Some("idle"));
        if idle && self.current.is_none() {
            self.message_sent = false;
        }
        let own_result = matches!(&message, Message::Result(result) if result.origin.is_none());
        if !message.is_internal()
            && let Some(writer) = self.current.as_ref().or(self.unclaimed.as_ref())
        {
            writer.push(message);
        }
        if own_result && let Some(writer) = self.current.take() {
            writer.end(None);
        }
        self.next()
    }
}
