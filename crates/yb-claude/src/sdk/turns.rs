//! Which messages belong to which turn of a client. A prompt waits until the turn before it has its result, so a
//! result is never taken for that of another turn.

use std::collections::VecDeque;

use super::Error;
use super::spool::Filler;
use crate::Message;
use crate::frame::System;

/// Where the messages of a session go.
pub(super) enum Sink {
    /// All of them to one consumer.
    Whole(Filler),
    /// To the turn that is on.
    Turns(Turns),
}

/// The turns of a client.
#[derive(Default)]
pub(super) struct Turns {
    current: Option<Filler>,
    waiting: VecDeque<(Vec<u8>, Filler)>,
    /// Who hears what belongs to no turn.
    unclaimed: Option<Filler>,
    /// A message went out beside the turns: it may have a result of its own, which comes before the CLI is idle.
    steered: bool,
}

impl Sink {
    /// Takes a message; gives the prompt that is due after it.
    pub(super) fn push(&mut self, message: Message) -> Option<Vec<u8>> {
        match self {
            Self::Whole(filler) => {
                if !message.is_internal() {
                    filler.push(message);
                }
                None
            }
            Self::Turns(turns) => turns.push(message),
        }
    }

    /// Whether the consumer has to catch up before anything else is read.
    pub(super) fn full(&self) -> Option<Filler> {
        let filler = match self {
            Self::Whole(filler) => Some(filler),
            Self::Turns(turns) => turns.current.as_ref().or(turns.unclaimed.as_ref()),
        };
        filler.filter(|filler| filler.is_full()).cloned()
    }

    /// Says to everybody that nothing more comes.
    pub(super) fn end(&mut self, error: Option<&Error>) {
        match self {
            Self::Whole(filler) => filler.end(error.cloned()),
            Self::Turns(turns) => {
                let gone = error.cloned().unwrap_or(Error::Closed);
                let waiting = turns.waiting.drain(..).map(|(_, filler)| filler);
                turns.current.take().into_iter().chain(waiting).for_each(|open| open.end(Some(gone.clone())));
                if let Some(unclaimed) = turns.unclaimed.take() {
                    unclaimed.end(error.cloned());
                }
            }
        }
    }
}

impl Turns {
    /// Queues a prompt; gives it back at once when it is its turn.
    pub(super) fn begin(&mut self, line: Vec<u8>, filler: Filler) -> Option<Vec<u8>> {
        self.waiting.push_back((line, filler));
        self.next()
    }

    pub(super) fn steer(&mut self) {
        self.steered = true;
    }

    pub(super) fn hear_unclaimed(&mut self, filler: Filler) {
        self.unclaimed = Some(filler);
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        while self.current.is_none() && !self.steered {
            let (line, filler) = self.waiting.pop_front()?;
            // Nobody waits for the answer any more, so nobody asks.
            if !filler.is_abandoned() {
                self.current = Some(filler);
                return Some(line);
            }
        }
        None
    }

    fn push(&mut self, message: Message) -> Option<Vec<u8>> {
        let idle = matches!(&message, Message::System(System::SessionStateChanged(state))
            if state.state.as_deref() == Some("idle"));
        if idle && self.current.is_none() {
            self.steered = false;
        }
        let own_result = matches!(&message, Message::Result(result) if result.origin.is_none());
        if !message.is_internal()
            && let Some(filler) = self.current.as_ref().or(self.unclaimed.as_ref())
        {
            filler.push(message);
        }
        if own_result && let Some(filler) = self.current.take() {
            filler.end(None);
        }
        self.next()
    }
}
