//! Runs command-line programs in a hermetic environment, with a timeout.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::filters::Filters;

/// Default timeout of a program.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the pipes may stay open after the program has exited.
const PIPE_TIMEOUT: Duration = Duration::from_secs(2);

/// A temporary environment for one command-line test: a working directory, a HOME and a TMPDIR.
#[derive(Debug)]
pub struct TestContext {
    root: TempDir,
    filters: Filters,
}

impl Default for TestContext {
    fn default() -> Self {
        Self::new()
    }
}

impl TestContext {
    /// Creates an empty environment.
    ///
    /// # Panics
    /// Panics if no temporary directory can be created.
    #[must_use]
    pub fn new() -> Self {
        let root = TempDir::with_prefix("yb-test-").unwrap_or_else(|error| panic!("temp dir: {error}"));
        for name in ["work", "home", "tmp"] {
            fs::create_dir(root.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let filters = Filters::standard(root.path());
        Self { root, filters }
    }

    /// Returns the root directory; `[TEMP]` in snapshots.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the working directory of the programs, `[TEMP]/work`.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Returns the HOME of the programs, `[TEMP]/home`.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Writes a file below the working directory, creating parent directories, and returns its path.
    ///
    /// # Panics
    /// Panics if it can't be written.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir().join(path);
        let written =
            path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content));
        written.unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        path
    }

    /// Reads a text file below the working directory.
    ///
    /// # Panics
    /// Panics if it can't be read as UTF-8.
    #[must_use]
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.dir().join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
    }

    /// Adds a snapshot filter, after the standard ones.
    ///
    /// # Panics
    /// Panics if the pattern is not a valid regular expression.
    pub fn filter(&mut self, pattern: &str, replacement: &str) -> &mut Self {
        self.filters.add(pattern, replacement);
        self
    }

    /// Applies the snapshot filters to a text.
    #[must_use]
    pub fn filtered(&self, text: &str) -> String {
        self.filters.apply(text)
    }

    /// Runs a program with arguments.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<Path>,
        args: impl IntoIterator<Item = A>,
    ) -> Outcome {
        self.command(program).args(args).run()
    }

    /// Prepares a program to run with further options.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Invocation {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.dir()).env_clear();
        // Without it, an instrumented program would write its profile into the working directory.
        for name in ["PATH", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("LANG", "C.UTF-8").env("TERM", "dumb");
        command.env("HOME", self.home()).env("TMPDIR", self.root.path().join("tmp"));
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Invocation { command, stdin: Vec::new(), timeout: TIMEOUT, filters: self.filters.clone() }
    }
}

/// A program to run.
#[derive(Debug)]
pub struct Invocation {
    command: Command,
    stdin: Vec<u8>,
    timeout: Duration,
    filters: Filters,
}

impl Invocation {
    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets several environment variables.
    #[must_use]
    pub fn envs(mut self, variables: impl IntoIterator<Item = (String, OsString)>) -> Self {
        self.command.envs(variables);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Sets the bytes on stdin. Default: empty.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets the timeout. Default: one minute.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs the program to completion.
    ///
    /// # Panics
    /// Panics, with its output, if the program can't be started, times out, or leaves a process that holds
    /// its pipes.
    #[track_caller]
    pub fn run(mut self) -> Outcome {
        let start = Instant::now();
        let what = self.command.get_program().to_string_lossy().into_owned();
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            self.command.spawn().unwrap_or_else(|error| panic!("failed to start {what}: {error}"));
        let stdout = PipeReader::spawn(child.stdout.take());
        let stderr = PipeReader::spawn(child.stderr.take());
        if let Some(mut pipe) = child.stdin.take() {
            let bytes = std::mem::take(&mut self.stdin);
            // A program need not read its stdin, so a broken pipe is fine.
            std::thread::spawn(move || pipe.write_all(&bytes));
        }
        let status = wait(&mut child, start + self.timeout);
        let pipes_end = Instant::now() + PIPE_TIMEOUT;
        let closed = status.is_some() && stdout.ends_by(pipes_end) && stderr.ends_by(pipes_end);
        let (stdout, stderr) = (stdout.text(), stderr.text());
        let Some(status) = status.filter(|_| closed) else {
            kill_group(&mut child);
            let why = if status.is_some() { "left a process that holds its pipes" } else { "hung" };
            panic!("{what} {why}\n----- stdout -----\n{stdout}\n----- stderr -----\n{stderr}");
        };
        Outcome { code: status.code(), signal: signal(status), stdout, stderr, filters: self.filters }
    }
}

/// The exit status and output of a program.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The exit code, unless killed by a signal.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// stdout, decoded lossily.
    pub stdout: String,
    /// stderr, decoded lossily.
    pub stderr: String,
    filters: Filters,
}

impl Outcome {
    /// Returns whether the exit code is 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// Returns exit code, stdout and stderr as one filtered text for an inline snapshot.
    #[must_use]
    pub fn snapshot(&self) -> String {
        let code = match (self.code, self.signal) {
            (Some(code), _) => code.to_string(),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown".to_owned(),
        };
        let text = format!(
            "exit code: {code}\n----- stdout -----\n{}----- stderr -----\n{}",
            self.stdout, self.stderr
        );
        self.filters.apply(&text)
    }
}

/// Drains a pipe on a thread; the bytes so far are available at any time.
struct PipeReader {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl PipeReader {
    fn spawn(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        let thread = pipe.map(|mut pipe| {
            std::thread::spawn(move || {
                let mut chunk = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..count]);
                }
            })
        });
        Self { bytes, thread }
    }

    fn ends_by(&self, end: Instant) -> bool {
        self.thread.as_ref().is_none_or(|thread| {
            while !thread.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            thread.is_finished()
        })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

fn wait(child: &mut Child, end: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            _ => return None,
        }
    }
}

fn kill_group(child: &mut Child) {
    #[cfg(unix)]
    let _ = rustix::process::kill_process_group(
        rustix::process::Pid::from_child(child),
        rustix::process::Signal::KILL,
    );
    let _ = child.kill();
    let _ = child.wait();
}

fn signal(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    {
        let _ = status;
        None
    }
}
