//! The default transport: the CLI as a supervised child process.

use std::ffi::OsString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;
use yb_supervise::{
    CancellationToken, DEFAULT_LINE_LIMIT, End, ExitStatus, Lines, OutputMode, Pipe, Report, Stdin,
    StdinWriter, StreamItem, Tap,
};

use super::transport::{Connection, Transport, TransportInput, TransportOutput};
use super::user::SystemUser;
use super::{Error, Exit};
use crate::Invocation;
use crate::launcher::Launcher;

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// The maximum length of a stderr line; longer lines are split.
const STDERR_LINE: usize = 64 * 1024;

type OnStderr = Arc<dyn Fn(&str) + Send + Sync>;

/// A transport that runs the CLI as a supervised process.
#[derive(Clone)]
#[must_use]
pub struct Subprocess {
    launcher: Launcher,
    line_limit: usize,
    on_stderr: Option<OnStderr>,
    user: Option<String>,
}

impl Default for Subprocess {
    fn default() -> Self {
        Self::new()
    }
}

impl Subprocess {
    /// Uses the installed CLI, with the environment of this process.
    pub fn new() -> Self {
        Self { launcher: Launcher::default(), line_limit: DEFAULT_LINE_LIMIT, on_stderr: None, user: None }
    }

    /// Sets the program, instead of searching for one.
    pub fn with_program(mut self, path: impl Into<PathBuf>) -> Self {
        self.launcher.program = Some(path.into());
        self
    }

    /// Sets the shim program; by default the current executable, if it calls [`shim_main`](crate::shim_main).
    pub fn with_shim(mut self, path: impl Into<PathBuf>) -> Self {
        self.launcher.shim = Some(path.into());
        self
    }

    /// Sets the complete environment of the CLI, instead of the host's own.
    pub fn with_environment(
        mut self,
        env: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Self {
        self.launcher.env = Some(env.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// Sets the maximum line length, 64 MiB by default. A longer line ends the session.
    pub fn with_line_limit(mut self, bytes: usize) -> Self {
        self.line_limit = bytes;
        self
    }

    /// Runs the CLI as another user of this machine. Requires root and `setpriv` from util-linux. The environment, with its
    /// `HOME`, stays that of the host, unless it is changed.
    pub fn with_user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }

    /// Sets a callback for lines of the CLI's stderr. It must not block; lines that arrive too fast are dropped. A callback
    /// that panics is not called again.
    pub fn with_stderr(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(callback));
        self
    }
}

#[async_trait]
impl Transport for Subprocess {
    fn prepare(&self, directory: &Path) -> Result<(), Error> {
        match &self.user {
            None => Ok(()),
            Some(name) => SystemUser::find(name)?.own(directory).map_err(Error::spawn),
        }
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        match &self.launcher.env {
            None => std::env::var_os(name),
            Some(env) => env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()),
        }
    }

    async fn open(&self, invocation: &Invocation) -> Result<Connection, Error> {
        let program = self.launcher.find()?;
        let token = CancellationToken::new();
        let command = match &self.user {
            None => invocation.command(&program),
            Some(name) => {
                let (program, invocation) = SystemUser::find(name)?.wrap(&program, invocation);
                invocation.command(&program)
            }
        };
        let mut command = self
            .launcher
            .in_environment(command, &invocation.env)
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
            return Err(Error::spawn("no stdin or stdout pipe"));
        };
        if let (Some(tap), Some(callback)) = (running.tap(), &self.on_stderr) {
            tokio::spawn(forward_stderr(tap, Arc::clone(callback)));
        }
        let report = tokio::spawn(running.wait());
        let output = ProcessOutput { lines, report, exit: None, token };
        Ok(Connection { input: Box::new(ProcessInput(stdin)), output: Box::new(output) })
    }
}

struct ProcessInput(StdinWriter);

#[async_trait]
impl TransportInput for ProcessInput {
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
impl TransportOutput for ProcessOutput {
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

/// Splits stderr into lines and calls the callback, until it panics.
async fn forward_stderr(mut tap: Tap, callback: OnStderr) {
    let (mut partial, mut alive) = (Vec::new(), true);
    let mut emit = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        alive = alive && catch_unwind(AssertUnwindSafe(|| callback(&line))).is_ok();
    };
    while let Some(item) = tap.next().await {
        if item.pipe != Pipe::Stderr {
            continue;
        }
        for piece in item.bytes.split_inclusive(|byte| *byte == b'\n') {
            partial.extend_from_slice(piece.strip_suffix(b"\n").unwrap_or(piece));
            if piece.ends_with(b"\n") || partial.len() >= STDERR_LINE {
                emit(&partial);
                partial.clear();
            }
        }
    }
    if !partial.is_empty() {
        emit(&partial);
    }
}
