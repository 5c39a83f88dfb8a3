//! The real thing: the CLI as a child of `yb-supervise`, which alone starts processes.

use std::ffi::OsString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;
use yb_supervise::{
    CancellationToken, DEFAULT_LINE_LIMIT, End, ExitStatus, Lines, OutputMode, Pipe, Report, Stdin,
    StdinWriter, StreamItem, Tap,
};

use super::transport::{Connection, Input, Output, Transport};
use super::{Error, Exit};
use crate::Invocation;
use crate::launcher::Launcher;

/// How long the CLI has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// How much of a line on stderr is kept until its end comes.
const STDERR_LINE: usize = 64 * 1024;

type OnStderr = Arc<dyn Fn(&str) + Send + Sync>;

/// Runs the CLI as a supervised process.
#[derive(Clone)]
#[must_use]
pub struct Subprocess {
    launcher: Launcher,
    line_limit: usize,
    on_stderr: Option<OnStderr>,
}

impl Default for Subprocess {
    fn default() -> Self {
        Self::new()
    }
}

impl Subprocess {
    /// The CLI that is installed, with the environment of this process.
    pub fn new() -> Self {
        Self { launcher: Launcher::default(), line_limit: DEFAULT_LINE_LIMIT, on_stderr: None }
    }

    /// This program, and no other.
    pub fn with_program(mut self, path: impl Into<PathBuf>) -> Self {
        self.launcher.program = Some(path.into());
        self
    }

    /// The program that contains the agent; by default the running one, if it called `yb_supervise::shim_main`.
    pub fn with_shim(mut self, path: impl Into<PathBuf>) -> Self {
        self.launcher.shim = Some(path.into());
        self
    }

    /// Exactly these variables for the agent, instead of the host's own.
    pub fn with_environment(
        mut self,
        env: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Self {
        self.launcher.env = Some(env.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// The longest line that is accepted, 64 MiB unless told. A longer one ends the session.
    pub fn with_line_limit(mut self, bytes: usize) -> Self {
        self.line_limit = bytes;
        self
    }

    /// Hears the lines of the CLI's stderr as they come. It must not block; lines that come faster than it takes
    /// them are left out, and one that panics is not called again.
    pub fn with_stderr(mut self, heard: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(heard));
        self
    }
}

#[async_trait]
impl Transport for Subprocess {
    async fn open(&self, invocation: &Invocation) -> Result<Connection, Error> {
        let program = self.launcher.find()?;
        let token = CancellationToken::new();
        let mut command = self
            .launcher
            .in_environment(invocation.command(&program), &invocation.env)
            .stdin(Stdin::Interactive)
            .output(OutputMode::Stream { line_limit: self.line_limit, tee: None })
            .grace(GRACE)
            .cancel_on(token.clone());
        if self.on_stderr.is_some() {
            command = command.tap();
        }
        let mut running = command.spawn().await.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            Error::Spawn {
                reason: format!("{error}{}", cause.unwrap_or_default()),
                hints: error.hint().into_iter().collect(),
            }
        })?;
        let (Some(stdin), Some(lines)) = (running.stdin(), running.lines()) else {
            return Err(Error::spawn("it has no pipes"));
        };
        if let (Some(tap), Some(heard)) = (running.tap(), &self.on_stderr) {
            tokio::spawn(tell(tap, Arc::clone(heard)));
        }
        let report = tokio::spawn(running.wait());
        let output = ProcessOutput { lines, report, exit: None, token };
        Ok(Connection { input: Box::new(ProcessInput(stdin)), output: Box::new(output) })
    }
}

struct ProcessInput(StdinWriter);

#[async_trait]
impl Input for ProcessInput {
    async fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.0.write_all(lines).await?;
        self.0.flush().await
    }
}

struct ProcessOutput {
    lines: Lines,
    report: JoinHandle<Report>,
    exit: Option<Exit>,
    token: CancellationToken,
}

#[async_trait]
impl Output for ProcessOutput {
    async fn next(&mut self) -> Option<StreamItem> {
        self.lines.next().await
    }

    fn terminate(&mut self) {
        self.token.cancel();
    }

    async fn wait(&mut self) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        let exit = (&mut self.report).await.map(|report| exit(&report)).unwrap_or_default();
        self.exit.insert(exit).clone()
    }
}

impl Drop for ProcessOutput {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

fn exit(report: &Report) -> Exit {
    let (code, signal) = match report.status {
        Some(ExitStatus::Code(code)) => (Some(code), None),
        Some(ExitStatus::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    let stderr_tail = match (&report.output, &report.end) {
        (_, End::SpawnFailed(error)) => error.to_string(),
        (yb_supervise::Output::Streamed { stderr_tail, .. }, _) => {
            String::from_utf8_lossy(stderr_tail).trim().to_owned()
        }
        _ => String::new(),
    };
    Exit { code, signal, stderr_tail }
}

/// Cuts what is tapped from stderr into lines; a callback that panics is not called again.
async fn tell(mut tap: Tap, heard: OnStderr) {
    let (mut partial, mut alive) = (Vec::new(), true);
    let mut say = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        alive = alive && catch_unwind(AssertUnwindSafe(|| heard(&line))).is_ok();
    };
    while let Some(item) = tap.next().await {
        if item.pipe != Pipe::Stderr {
            continue;
        }
        for piece in item.bytes.split_inclusive(|byte| *byte == b'\n') {
            partial.extend_from_slice(piece.strip_suffix(b"\n").unwrap_or(piece));
            if piece.ends_with(b"\n") || partial.len() >= STDERR_LINE {
                say(&partial);
                partial.clear();
            }
        }
    }
    if !partial.is_empty() {
        say(&partial);
    }
}
