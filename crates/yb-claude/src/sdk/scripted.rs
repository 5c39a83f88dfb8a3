//! A CLI that plays a script, for tests: what it expects on its stdin, what it prints, and how it ends.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use yb_supervise::{CancellationToken, StreamItem};

use super::transport::{Connection, Input, Output, Transport};
use super::{Error, Exit};
use crate::{EnvChange, Invocation};

/// One step of a script.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// Waits for a line on stdin that has at least these values; others are passed over. Kept under a name.
    Await(String, Value),
    /// Waits for the end of stdin.
    AwaitEnd,
    /// Prints a line. A string `{{name./pointer}}` in it is the value there of the line that was kept as `name`.
    Line(Value),
    /// Prints bytes as they are.
    Bytes(Vec<u8>),
    /// Does nothing for a while.
    Sleep(Duration),
    /// Ends at once, so. A script that has no such step waits for the end of stdin and exits with 0.
    Exit(Exit),
}

/// What a scripted CLI was started with and told.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Heard {
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that were set, and those that were removed.
    pub env: BTreeMap<String, Option<String>>,
    /// The lines on its stdin.
    pub lines: Vec<Value>,
    /// How many lines had come when stdin ended.
    pub ended_after: Option<usize>,
    /// How many steps of the script were played when stdin ended.
    pub ended_at_step: Option<usize>,
    /// Lines that were no JSON.
    pub torn: Vec<String>,
}

/// A transport that plays a script instead of starting a process.
///
/// ```
/// use serde_json::json;
/// use yb_claude::Options;
/// use yb_claude::sdk::{Host, ScriptedCli, Step};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), yb_claude::sdk::Error> {
/// let cli = ScriptedCli::new([
///     Step::Await("init".into(), json!({"request": {"subtype": "initialize"}})),
///     Step::Line(json!({"type": "control_response", "response":
///         {"subtype": "success", "request_id": "{{init./request_id}}", "response": {}}})),
///     Step::Await("prompt".into(), json!({"type": "user"})),
///     Step::Line(json!({"type": "result", "subtype": "success", "result": "Hello."})),
/// ]);
/// let host = Host::new(Options::default()).with_transport(cli.clone());
/// assert_eq!(host.query("hi").text().await?, "Hello.");
/// assert_eq!(cli.heard()[0].lines[1]["message"]["content"], "hi");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ScriptedCli {
    steps: Arc<[Step]>,
    sessions: Arc<Mutex<Vec<Arc<Mutex<Heard>>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScriptedCli {
    /// Every session plays these steps from the beginning.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), sessions: Arc::default() }
    }

    /// What each session was told so far.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        lock(&self.sessions).iter().map(|heard| lock(heard).clone()).collect()
    }
}

#[async_trait]
impl Transport for ScriptedCli {
    async fn open(&self, invocation: &Invocation) -> Result<Connection, Error> {
        let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        let heard = Heard {
            args: invocation.args.iter().map(|arg| text(arg)).collect(),
            env: (invocation.env.iter())
                .map(|(name, change)| match change {
                    EnvChange::Set(value) => (text(name), Some(text(value))),
                    EnvChange::Remove => (text(name), None),
                })
                .collect(),
            ..Heard::default()
        };
        let heard = Arc::new(Mutex::new(heard));
        lock(&self.sessions).push(Arc::clone(&heard));
        let (lines, stdin) = mpsc::unbounded_channel();
        let (stdout, items) = mpsc::channel(16);
        let (exit, exited) = watch::channel(None);
        let killed = CancellationToken::new();
        let player = Player { stdin, stdout, heard, kept: BTreeMap::new(), played: 0, partial: Vec::new() };
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
impl Input for ScriptInput {
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
impl Output for ScriptOutput {
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

struct Player {
    stdin: mpsc::UnboundedReceiver<Vec<u8>>,
    stdout: mpsc::Sender<StreamItem>,
    heard: Arc<Mutex<Heard>>,
    kept: BTreeMap<String, Value>,
    played: usize,
    partial: Vec<u8>,
}

impl Player {
    async fn play(mut self, steps: &[Step]) -> Exit {
        for step in steps {
            match step {
                Step::Await(name, pattern) => {
                    let line = loop {
                        let Some(line) = self.hear().await else { return Exit::with_code(0) };
                        if fits(&line, pattern) {
                            break line;
                        }
                    };
                    self.kept.insert(name.clone(), line);
                }
                Step::AwaitEnd => while self.hear().await.is_some() {},
                Step::Line(value) => {
                    let mut line = filled(value, &self.kept).to_string().into_bytes();
                    line.push(b'\n');
                    self.print(&line).await;
                }
                Step::Bytes(bytes) => self.print(bytes).await,
                Step::Sleep(time) => tokio::time::sleep(*time).await,
                Step::Exit(exit) => {
                    self.flush().await;
                    // What was written by then was still heard.
                    tokio::task::yield_now().await;
                    while let Ok(line) = self.stdin.try_recv() {
                        self.note(&line);
                    }
                    return exit.clone();
                }
            }
            self.played += 1;
        }
        while self.hear().await.is_some() {}
        self.flush().await;
        Exit::with_code(0)
    }

    async fn hear(&mut self) -> Option<Value> {
        loop {
            let Some(line) = self.stdin.recv().await else {
                let mut heard = lock(&self.heard);
                if heard.ended_after.is_none() {
                    heard.ended_after = Some(heard.lines.len());
                    heard.ended_at_step = Some(self.played);
                }
                return None;
            };
            if let Some(value) = self.note(&line) {
                return Some(value);
            }
        }
    }

    fn note(&self, line: &[u8]) -> Option<Value> {
        let mut heard = lock(&self.heard);
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => {
                heard.lines.push(value.clone());
                Some(value)
            }
            Err(_) => {
                heard.torn.push(String::from_utf8_lossy(line).into_owned());
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

/// Whether a value has at least what a pattern has.
fn fits(value: &Value, pattern: &Value) -> bool {
    match (value, pattern) {
        (Value::Object(value), Value::Object(pattern)) => {
            pattern.iter().all(|(key, pattern)| value.get(key).is_some_and(|value| fits(value, pattern)))
        }
        (Value::Array(value), Value::Array(pattern)) => {
            value.len() == pattern.len() && value.iter().zip(pattern).all(|(value, one)| fits(value, one))
        }
        _ => value == pattern,
    }
}

/// A value with what was kept in place of its names.
fn filled(value: &Value, kept: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let inner = text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
            let found = inner
                .and_then(|inner| inner.split_once('.'))
                .and_then(|(name, pointer)| kept.get(name)?.pointer(pointer));
            found.unwrap_or(value).clone()
        }
        Value::Array(items) => items.iter().map(|item| filled(item, kept)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), filled(value, kept))).collect(),
        other => other.clone(),
    }
}
