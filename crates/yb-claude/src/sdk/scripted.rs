//! A scripted CLI for tests: expected stdin, output and exit.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use yb_supervise::{CancellationToken, StreamItem};

use super::transport::{Connection, Transport, TransportInput, TransportOutput};
use super::{Error, Exit};
use crate::{EnvChange, Invocation};

/// A step of a [`ScriptedCli`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ScriptStep {
    /// Waits for a line on stdin that contains these values, and stores it under a name. Other lines are skipped.
    Await(String, Value),
    /// Waits until stdin is closed.
    AwaitEnd,
    /// Prints a line. A string `{{name./pointer}}` is replaced by the value at the JSON pointer in the stored line `name`.
    Line(Value),
    /// Prints raw bytes.
    Bytes(Vec<u8>),
    /// Waits.
    Sleep(Duration),
    /// Exits. A script without this step waits until stdin is closed and exits with 0.
    Exit(Exit),
}

/// The recorded input of a session with a [`ScriptedCli`].
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ScriptedSession {
    /// The arguments.
    pub args: Vec<String>,
    /// Variables that were set, or removed (`None`).
    pub env: BTreeMap<String, Option<String>>,
    /// The lines on stdin.
    pub lines: Vec<Value>,
    /// The number of lines before stdin was closed.
    pub lines_before_eof: Option<usize>,
    /// The number of completed steps before stdin was closed.
    pub steps_before_eof: Option<usize>,
    /// Lines that are not JSON.
    pub malformed: Vec<String>,
}

/// A transport that plays a script instead of starting a process, for tests.
///
/// ```
/// use serde_json::json;
/// use yb_claude::Options;
/// use yb_claude::sdk::{Host, ScriptedCli, ScriptStep};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), yb_claude::sdk::Error> {
/// let cli = ScriptedCli::new([
///     ScriptStep::Await("init".into(), json!({"request": {"subtype": "initialize"}})),
///     ScriptStep::Line(json!({"type": "control_response", "response":
///         {"subtype": "success", "request_id": "{{init./request_id}}", "response": {}}})),
///     ScriptStep::Await("prompt".into(), json!({"type": "user"})),
///     ScriptStep::Line(json!({"type": "result", "subtype": "success", "result": "Hello."})),
/// ]);
/// let host = Host::new(Options::default()).with_transport(cli.clone());
/// assert_eq!(host.query("hi").text().await?, "Hello.");
/// assert_eq!(cli.sessions()[0].lines[1]["message"]["content"], "hi");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ScriptedCli {
    steps: Arc<[ScriptStep]>,
    sessions: Arc<Mutex<Vec<Arc<Mutex<ScriptedSession>>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScriptedCli {
    /// Creates a scripted CLI. Every session plays all steps.
    pub fn new(steps: impl IntoIterator<Item = ScriptStep>) -> Self {
        Self { steps: steps.into_iter().collect(), sessions: Arc::default() }
    }

    /// Returns the recorded input of each session.
    #[must_use]
    pub fn sessions(&self) -> Vec<ScriptedSession> {
        lock(&self.sessions).iter().map(|session| lock(session).clone()).collect()
    }
}

#[async_trait]
impl Transport for ScriptedCli {
    async fn open(&self, invocation: &Invocation) -> Result<Connection, Error> {
        let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        let session = ScriptedSession {
            args: invocation.args.iter().map(|arg| text(arg)).collect(),
            env: (invocation.env.iter())
                .map(|(name, change)| match change {
                    EnvChange::Set(value) => (text(name), Some(text(value))),
                    EnvChange::Remove => (text(name), None),
                })
                .collect(),
            ..ScriptedSession::default()
        };
        let session = Arc::new(Mutex::new(session));
        lock(&self.sessions).push(Arc::clone(&session));
        let (lines, stdin) = mpsc::unbounded_channel();
        let (stdout, items) = mpsc::channel(16);
        let (exit, exited) = watch::channel(None);
        let killed = CancellationToken::new();
        let player =
            ScriptPlayer { stdin, stdout, session, stored: BTreeMap::new(), played: 0, partial: Vec::new() };
        let (steps, token) = (Arc::clone(&self.steps), killed.clone());
        tokio::spawn(async move {
            let end = tokio::select! {
                end = player.play(&steps) => end,
                () = token.cancelled() => Exit::with_code(143),
            };
            let _ = exit.send(Some(end));
        });
        Ok(Connection {
            input: Box::new(ScriptInput { lines, partial: Vec::new() }),
            output: Box::new(ScriptOutput { items, exited, killed }),
        })
    }
}

struct ScriptInput {
    lines: mpsc::UnboundedSender<Vec<u8>>,
    partial: Vec<u8>,
}

#[async_trait]
impl TransportInput for ScriptInput {
    async fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.partial.extend_from_slice(lines);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line = self.partial.drain(..=end).collect();
            self.lines.send(line).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        }
        Ok(())
    }
}

struct ScriptOutput {
    items: mpsc::Receiver<StreamItem>,
    exited: watch::Receiver<Option<Exit>>,
    killed: CancellationToken,
}

#[async_trait]
impl TransportOutput for ScriptOutput {
    async fn next(&mut self) -> Option<StreamItem> {
        self.items.recv().await
    }

    fn terminate(&mut self) {
        self.killed.cancel();
    }

    async fn wait(&mut self) -> Exit {
        match self.exited.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => Exit::default(),
        }
    }
}

impl Drop for ScriptOutput {
    fn drop(&mut self) {
        self.killed.cancel();
    }
}

struct ScriptPlayer {
    stdin: mpsc::UnboundedReceiver<Vec<u8>>,
    stdout: mpsc::Sender<StreamItem>,
    session: Arc<Mutex<ScriptedSession>>,
    stored: BTreeMap<String, Value>,
    played: usize,
    partial: Vec<u8>,
}

impl ScriptPlayer {
    async fn play(mut self, steps: &[ScriptStep]) -> Exit {
        for step in steps {
            match step {
                ScriptStep::Await(name, pattern) => {
                    let line = loop {
                        let Some(line) = self.read_line().await else { return Exit::with_code(0) };
                        if matches_pattern(&line, pattern) {
                            break line;
                        }
                    };
                    self.stored.insert(name.clone(), line);
                }
                ScriptStep::AwaitEnd => while self.read_line().await.is_some() {},
                ScriptStep::Line(value) => {
                    let mut line = substitute(value, &self.stored).to_string().into_bytes();
                    line.push(b'\n');
                    self.print(&line).await;
                }
                ScriptStep::Bytes(bytes) => self.print(bytes).await,
                ScriptStep::Sleep(time) => tokio::time::sleep(*time).await,
                ScriptStep::Exit(exit) => {
                    self.flush().await;
                    // Record lines that were written before the exit.
                    tokio::task::yield_now().await;
                    while let Ok(line) = self.stdin.try_recv() {
                        self.record(&line);
                    }
                    return exit.clone();
                }
            }
            self.played += 1;
        }
        while self.read_line().await.is_some() {}
        self.flush().await;
        Exit::with_code(0)
    }

    async fn read_line(&mut self) -> Option<Value> {
        loop {
            let Some(line) = self.stdin.recv().await else {
                let mut session = lock(&self.session);
                if session.lines_before_eof.is_none() {
                    session.lines_before_eof = Some(session.lines.len());
                    session.steps_before_eof = Some(self.played);
                }
                return None;
            };
            if let Some(value) = self.record(&line) {
                return Some(value);
            }
        }
    }

    fn record(&self, line: &[u8]) -> Option<Value> {
        let mut session = lock(&self.session);
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => {
                session.lines.push(value.clone());
                Some(value)
            }
            Err(_) => {
                session.malformed.push(String::from_utf8_lossy(line).into_owned());
                None
            }
        }
    }

    async fn print(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(piece.strip_suffix(b"\n").unwrap_or(piece));
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                let _ = self.stdout.send(StreamItem::Line(line)).await;
            }
        }
    }

    async fn flush(&mut self) {
        if !self.partial.is_empty() {
            let rest = std::mem::take(&mut self.partial);
            let _ = self.stdout.send(StreamItem::Unterminated(rest)).await;
        }
    }
}

/// Whether a value contains all values of a pattern.
fn matches_pattern(value: &Value, pattern: &Value) -> bool {
    match (value, pattern) {
        (Value::Object(value), Value::Object(pattern)) => pattern
            .iter()
            .all(|(key, pattern)| value.get(key).is_some_and(|value| matches_pattern(value, pattern))),
        (Value::Array(value), Value::Array(pattern)) => {
            value.len() == pattern.len()
                && value.iter().zip(pattern).all(|(value, one)| matches_pattern(value, one))
        }
        _ => value == pattern,
    }
}

/// Replaces the placeholders of a value.
fn substitute(value: &Value, stored: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let inner = text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
            let found = inner
                .and_then(|inner| inner.split_once('.'))
                .and_then(|(name, pointer)| stored.get(name)?.pointer(pointer));
            found.unwrap_or(value).clone()
        }
        Value::Array(items) => items.iter().map(|item| substitute(item, stored)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), substitute(value, stored))).collect()
        }
        other => other.clone(),
    }
}
