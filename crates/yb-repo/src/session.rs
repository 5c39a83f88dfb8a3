//! Long-running git processes that handle one request after another: starting git takes longer than most requests.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use yb_supervise::{Child, Lines, PauseSwitch, StdinWriter, StreamItem};

use super::error::GitError;
use super::git_command::{GitCommand, bad_output, stdout_of};
use yb_model::nonce;

/// The most idle sessions of one kind that are kept.
const MAX_IDLE: usize = 2;
/// How often the pause switch is checked.
const TICK: Duration = Duration::from_secs(1);

/// A git process that reads requests from stdin. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct GitSession {
    name: &'static str,
    /// Unique and unpredictable.
    nonce: String,
    child: Child,
    stdin: StdinWriter,
    lines: Lines,
    /// The input that ends the process.
    quit_command: &'static str,
    timeout: Duration,
    pause: PauseSwitch,
    /// The number of requests so far.
    requests: usize,
}

impl GitSession {
    /// Starts a session. `quit_command` is written to stdin before it is closed.
    pub(crate) async fn start(command: GitCommand<'_>, quit_command: &'static str) -> Result<Self, GitError> {
        let (name, timeout, pause) = command.session_settings();
        let mut child = command.spawn().await?;
        match (child.stdin(), child.lines()) {
            (Some(stdin), Some(lines)) => {
                let nonce = nonce();
                Ok(Self { name, nonce, child, stdin, lines, quit_command, timeout, pause, requests: 0 })
            }
            _ => Err(bad_output(name, "no stdin or stdout")),
        }
    }

    /// A text that is unique to the session and unpredictable.
    pub(crate) fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The number of requests that the session was sent.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// Sends the input and returns the session with the response: all output before `end`, which is the end of a line. Returns `None`
    /// if the response is longer than `limit`. In that case, and if the future is dropped, the process is killed.
    pub(crate) async fn request(
        mut self,
        input: mpsc::Receiver<Vec<u8>>,
        end: &str,
        limit: usize,
    ) -> Result<Option<(Self, Vec<u8>)>, GitError> {
        self.requests += 1;
        let exchange = async {
            tokio::join!(read_response(&mut self.lines, end, limit), write_input(&mut self.stdin, input)).0
        };
        let response = tokio::select! {
            response = exchange => response,
            () = wait_for_timeout(self.timeout, &self.pause) => {
                return Err(GitError::TimedOut { command: self.name.to_owned(), after: self.timeout });
            }
        };
        match response {
            Response::Complete(response) => Ok(Some((self, response))),
            Response::TooLong => Ok(None),
            Response::EndOfOutput => {
                let name = self.name;
                Err(self.end().await.err().unwrap_or_else(|| bad_output(name, "incomplete response")))
            }
        }
    }

    /// Whether the process is still running and has printed nothing unexpected.
    async fn is_alive(&mut self) -> bool {
        tokio::select! {
            biased;
            // Without a request there must be no output.
            _ = self.lines.next() => false,
            () = std::future::ready(()) => true,
        }
    }

    /// Ends the process gracefully.
    pub(crate) async fn end(self) -> Result<(), GitError> {
        let Self { name, child, mut stdin, lines, quit_command, .. } = self;
        let _ = stdin.write_all(quit_command.as_bytes()).await;
        drop((stdin, lines));
        stdout_of(name, child.wait().await).map(drop)
    }
}

enum Response {
    Complete(Vec<u8>),
    TooLong,
    EndOfOutput,
}

async fn read_response(lines: &mut Lines, end: &str, limit: usize) -> Response {
    let mut response = Vec::new();
    loop {
        match lines.next().await {
            Some(StreamItem::Line(line)) => {
                if let Some(rest) = line.strip_suffix(end.as_bytes()) {
                    response.extend_from_slice(rest);
                    return Response::Complete(response);
                }
                if response.len() + line.len() > limit {
                    return Response::TooLong;
                }
                response.extend_from_slice(&line);
                response.push(b'\n');
            }
            Some(StreamItem::TooLong { .. }) => return Response::TooLong,
            _ => return Response::EndOfOutput,
        }
    }
}

/// Writes the input. A write error is not reported here, because it also shows in the response.
async fn write_input(stdin: &mut StdinWriter, mut input: mpsc::Receiver<Vec<u8>>) {
    while let Some(chunk) = input.recv().await {
        if stdin.write_all(&chunk).await.is_err() {
            // The sender must not block.
            input.close();
        }
    }
    let _ = stdin.flush().await;
}

/// Waits for the timeout, without the time that everything is paused; zero means no limit.
async fn wait_for_timeout(timeout: Duration, pause: &PauseSwitch) {
    if timeout.is_zero() {
        return std::future::pending().await;
    }
    let mut left = timeout;
    while !left.is_zero() {
        let step = left.min(TICK);
        tokio::time::sleep(step).await;
        if !pause.is_paused() {
            left -= step;
        }
    }
}

/// A pool of idle sessions of one kind.
#[derive(Debug, Default)]
pub(crate) struct IdleSessions(Mutex<Vec<GitSession>>);

impl IdleSessions {
    /// Takes a session whose process is still running.
    pub(crate) async fn take(&self) -> Option<GitSession> {
        loop {
            let mut session = self.sessions().pop()?;
            if session.is_alive().await {
                return Some(session);
            }
        }
    }

    /// Returns a session to the pool, or ends it if the pool is full.
    pub(crate) async fn give_back(&self, session: GitSession) {
        let surplus = {
            let mut sessions = self.sessions();
            if sessions.len() < MAX_IDLE {
                sessions.push(session);
                None
            } else {
                Some(session)
            }
        };
        if let Some(session) = surplus {
            let _ = session.end().await;
        }
    }

    /// Ends all sessions.
    pub(crate) async fn close(&self) {
        let all = std::mem::take(&mut *self.sessions());
        for session in all {
            let _ = session.end().await;
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<GitSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
