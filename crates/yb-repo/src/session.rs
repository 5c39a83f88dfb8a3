//! Gits that stay and are asked one thing after another: to start one takes longer than most of its answers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use yb_supervise::{Child, Lines, PauseSwitch, StdinWriter, StreamItem};

use super::call::{Call, answer, unusable};
use super::error::GitError;
use yb_model::nonce;

/// How many of a kind wait for the next question; more were only needed for a moment.
const WAITING: usize = 2;
/// How often it is looked whether time stands still.
const TICK: Duration = Duration::from_secs(1);

/// A git that waits for a question. Dropping it ends it.
#[derive(Debug)]
pub struct Session {
    name: &'static str,
    /// No other has it, and nobody could know it before.
    word: String,
    running: Child,
    stdin: StdinWriter,
    lines: Lines,
    /// What it is told before its input ends.
    last: &'static str,
    limit: Duration,
    pause: PauseSwitch,
}

impl Session {
    /// Starts one. It is told `last` when it is to end.
    pub(crate) async fn start(call: Call<'_>, last: &'static str) -> Result<Self, GitError> {
        let (name, limit, pause) = call.for_session();
        let mut running = call.spawn().await?;
        match (running.stdin(), running.lines()) {
            (Some(stdin), Some(lines)) => {
                Ok(Self { name, word: nonce(), running, stdin, lines, last, limit, pause })
            }
            _ => Err(unusable(name, "it has no input or output")),
        }
    }

    /// A word that no other session has, and that nobody could know before.
    pub(crate) fn word(&self) -> &str {
        &self.word
    }

    /// Asks what comes through the channel, and gives itself back with the answer: all that stands before `end`, with
    /// which a line ends. A longer answer than `most` is `None`, and the end of this git; so is a question that is given
    /// up.
    pub(crate) async fn ask(
        mut self,
        input: mpsc::Receiver<Vec<u8>>,
        end: &str,
        most: usize,
    ) -> Result<Option<(Self, Vec<u8>)>, GitError> {
        let heard = tokio::select! {
            (heard, ()) = async { tokio::join!(hear(&mut self.lines, end, most), feed(&mut self.stdin, input)) } => heard,
            () = overdue(self.limit, &self.pause) => {
                return Err(GitError::TimedOut { command: self.name.to_owned(), after: self.limit });
            }
        };
        match heard {
            Heard::All(answer) => Ok(Some((self, answer))),
            Heard::TooLong => Ok(None),
            Heard::End => {
                let name = self.name;
                Err(self.end().await.err().unwrap_or_else(|| unusable(name, "it ended in the middle")))
            }
        }
    }

    /// Whether it still waits: one that was killed meanwhile does not.
    async fn is_alive(&mut self) -> bool {
        tokio::select! {
            biased;
            // Nobody asked, so whatever it says is not an answer.
            _ = self.lines.next() => false,
            () = std::future::ready(()) => true,
        }
    }

    /// Lets it end by itself.
    pub(crate) async fn end(self) -> Result<(), GitError> {
        let Self { name, running, mut stdin, lines, last, .. } = self;
        let _ = stdin.write_all(last.as_bytes()).await;
        drop((stdin, lines));
        answer(name, running.wait().await).map(drop)
    }
}

enum Heard {
    All(Vec<u8>),
    TooLong,
    /// There is nothing more to hear.
    End,
}

async fn hear(lines: &mut Lines, end: &str, most: usize) -> Heard {
    let mut answer = Vec::new();
    loop {
        match lines.next().await {
            Some(StreamItem::Line(line)) => {
                if let Some(rest) = line.strip_suffix(end.as_bytes()) {
                    answer.extend_from_slice(rest);
                    return Heard::All(answer);
                }
                if answer.len() + line.len() > most {
                    return Heard::TooLong;
                }
                answer.extend_from_slice(&line);
                answer.push(b'\n');
            }
            Some(StreamItem::TooLong { .. }) => return Heard::TooLong,
            _ => return Heard::End,
        }
    }
}

/// A git that stops reading is found in its answer.
async fn feed(stdin: &mut StdinWriter, mut input: mpsc::Receiver<Vec<u8>>) {
    while let Some(piece) = input.recv().await {
        if stdin.write_all(&piece).await.is_err() {
            // Whoever fills the channel must not wait for ever.
            input.close();
        }
    }
    let _ = stdin.flush().await;
}

/// After so long, without the time that everything is held; zero is never.
async fn overdue(limit: Duration, pause: &PauseSwitch) {
    if limit.is_zero() {
        return std::future::pending().await;
    }
    let mut left = limit;
    while !left.is_zero() {
        let step = left.min(TICK);
        tokio::time::sleep(step).await;
        if !pause.is_paused() {
            left -= step;
        }
    }
}

/// Sessions of one kind that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Vec<Session>>);

impl Waiting {
    pub(crate) async fn take(&self) -> Option<Session> {
        loop {
            let mut session = self.waiting().pop()?;
            if session.is_alive().await {
                return Some(session);
            }
        }
    }

    pub(crate) async fn give_back(&self, session: Session) {
        let one_too_many = {
            let mut waiting = self.waiting();
            if waiting.len() < WAITING {
                waiting.push(session);
                None
            } else {
                Some(session)
            }
        };
        if let Some(session) = one_too_many {
            let _ = session.end().await;
        }
    }

    /// Lets all of them end.
    pub(crate) async fn close(&self) {
        let all = std::mem::take(&mut *self.waiting());
        for session in all {
            let _ = session.end().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
