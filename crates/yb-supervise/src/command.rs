//! The `Command` builder.

mod spawn;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::env::EnvPlan;
use crate::limits::ResourceLimits;
use crate::pause::PauseSwitch;
use crate::plan::StartHook;
use crate::quota::Quota;
use crate::record::TreeRecord;
use crate::report::{ContainmentMethod, Report};
use crate::sandbox::Sandbox;
use crate::shorten::LineLimits;
use crate::stdin::Stdin;

/// Default number of bytes that [`OutputMode::Capture`] keeps in memory, of both pipes together.
pub const DEFAULT_CAPTURE_LIMIT: usize = 10_485_760;
/// Default length limit of a line in [`OutputMode::Stream`].
pub const DEFAULT_LINE_LIMIT: usize = 64 << 20;
/// Default size limit of a log file.
pub const DEFAULT_LOG_CEILING: u64 = 1 << 30;
/// Default time between SIGTERM and SIGKILL.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(2);

/// How a child is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Launch {
    /// Contained if a shim is available, direct otherwise. [`Report::containment`] has the actual mode.
    #[default]
    Auto,
    /// Below a shim. Spawning fails if no shim is available.
    Contained,
    /// By the host itself: best effort, for programs that can't call [`shim_main`](crate::shim_main).
    Direct,
}

/// How a child's output is handled. Both pipes are always drained until EOF.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputMode {
    /// Keeps the beginning of both pipes in memory.
    Capture {
        /// Maximum number of bytes kept, of both pipes together.
        limit: usize,
    },
    /// Streams stdout losslessly, line by line, to one consumer with backpressure: the child blocks while the
    /// consumer lags.
    Stream {
        /// Maximum length of a line; a longer line ends the stream, or is shortened with [`Command::shorten_lines`].
        line_limit: usize,
        /// A file that receives the same bytes.
        tee: Option<PathBuf>,
    },
}

impl OutputMode {
    /// Returns `Stream` with the default line limit and no tee.
    pub fn stream() -> Self {
        Self::Stream { line_limit: DEFAULT_LINE_LIMIT, tee: None }
    }
}

/// A child process to run. Program and arguments are passed as they are, never through a shell.
///
/// ```no_run
/// # async fn example() {
/// use std::time::Duration;
/// let report = yb_supervise::Command::new("git")
///     .args(["status", "--porcelain"])
///     .deadline(Duration::from_secs(10))
///     .run()
///     .await;
/// println!("{}: {:?}", report.end, report.duration);
/// # }
/// ```
#[must_use]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
    env: EnvPlan,
    stdin: Stdin,
    deadline: Duration,
    grace: Duration,
    output: OutputMode,
    log: Option<PathBuf>,
    log_ceiling: u64,
    secrets: Vec<(String, Vec<u8>)>,
    cancel: CancellationToken,
    pause: PauseSwitch,
    own_pause: PauseSwitch,
    launch: Launch,
    method: Option<ContainmentMethod>,
    shim: Option<PathBuf>,
    quotas: Vec<Quota>,
    tap: bool,
    json_lines: bool,
    line_limits: Option<LineLimits>,
    omitted_lines: Option<Vec<u8>>,
    sandbox: Option<Sandbox>,
    resources: ResourceLimits,
    start_hook: Option<StartHook>,
}

/// Arguments and environment may contain secrets, so their values are omitted.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("cwd", &self.cwd)
            .field("deadline", &self.deadline)
            .field("output", &self.output)
            .field("launch", &self.launch)
            .finish_non_exhaustive()
    }
}

impl Command {
    /// Creates a command for a program, given as a path or as a name to look up in the child's `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            cwd: None,
            env: EnvPlan::default(),
            stdin: Stdin::None,
            deadline: Duration::ZERO,
            grace: DEFAULT_GRACE,
            output: OutputMode::Capture { limit: DEFAULT_CAPTURE_LIMIT },
            log: None,
            log_ceiling: DEFAULT_LOG_CEILING,
            secrets: Vec::new(),
            cancel: CancellationToken::new(),
            pause: PauseSwitch::new(),
            own_pause: PauseSwitch::new(),
            launch: Launch::Auto,
            method: None,
            shim: None,
            quotas: Vec::new(),
            tap: false,
            json_lines: false,
            line_limits: None,
            omitted_lines: None,
            sandbox: None,
            resources: ResourceLimits::new(),
            start_hook: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets the working directory. Default: that of the host.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.cwd = Some(directory.as_ref().to_owned());
        self
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Sets an environment variable. By default the child inherits only `PATH`, `LANG`, `LC_*`, `TERM` and
    /// `TZ`.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.set(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Sets environment variables.
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(mut self, vars: impl IntoIterator<Item = (K, V)>) -> Self {
        for (name, value) in vars {
            self = self.env(name, value);
        }
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.remove(name.as_ref().to_owned());
        self
    }

    /// Inherits the whole environment of the host.
    pub fn inherit_env(mut self) -> Self {
        self.env.inherit();
        self
    }

    /// Sets the child's stdin. Default: empty.
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets the deadline, counted from the start. Default: zero, which means no limit.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the time between SIGTERM and SIGKILL.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how the output is handled.
    pub fn output(mut self, output: OutputMode) -> Self {
        self.output = output;
        self
    }

    /// Logs both pipes to a file, in order of arrival. The parent directory must exist.
    pub fn log_file(mut self, path: impl AsRef<Path>) -> Self {
        self.log = Some(path.as_ref().to_owned());
        self
    }

    /// Limits the size of the log file and of the tee of a stream.
    pub fn log_ceiling(mut self, bytes: u64) -> Self {
        self.log_ceiling = bytes;
        self
    }

    /// Redacts a value: it becomes `[REDACTED:NAME]` in the captured output, stream, log, tee and tap, also in the usual
    /// encodings (see [`yb_redact`]).
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.secrets.push((name.into(), value.into()));
        self
    }

    /// Declares that stdout is JSON lines. Secrets are then also found in texts that arrive in pieces, one per line, as those
    /// of a model do; a line may be delayed until the next piece.
    pub fn json_lines(mut self) -> Self {
        self.json_lines = true;
        self
    }

    /// Shortens JSON lines of a stream that are longer than its limit instead of ending the stream. Log and tee have them whole.
    pub fn shorten_lines(mut self, limits: LineLimits) -> Self {
        self.line_limits = Some(limits);
        self
    }

    /// Keeps lines of stdout that begin with this text out of the log file. Tee, stream and tap have them.
    pub fn omit_from_log(mut self, prefix: impl Into<Vec<u8>>) -> Self {
        self.omitted_lines = Some(prefix.into());
        self
    }

    /// Terminates the child when the token is cancelled.
    pub fn cancel_on(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// Suspends the child and its deadline while the switch is on. A child that has not started yet waits.
    pub fn pause_on(mut self, switch: PauseSwitch) -> Self {
        self.pause = switch;
        self
    }

    /// Suspends the child also while this switch is on, which belongs to this child alone. It is the one that
    /// [`Child::pause`](crate::Child::pause) sets.
    pub fn own_pause(mut self, switch: PauseSwitch) -> Self {
        self.own_pause = switch;
        self
    }

    /// Sets how the child is started.
    pub fn launch(mut self, launch: Launch) -> Self {
        self.launch = launch;
        self
    }

    /// Forces a containment method. Default: the strongest that works on this machine.
    pub fn containment_method(mut self, method: ContainmentMethod) -> Self {
        self.method = Some(method);
        self
    }

    /// Sets the program that acts as the shim. Default: the running program, if it called
    /// [`shim_main`](crate::shim_main).
    pub fn shim(mut self, program: impl AsRef<Path>) -> Self {
        self.shim = Some(program.as_ref().to_owned());
        self
    }

    /// Kills the child when a directory holds more than this many bytes.
    pub fn quota(mut self, directory: impl AsRef<Path>, bytes: u64) -> Self {
        self.quotas.push(Quota::new(directory.as_ref().to_owned(), bytes));
        self
    }

    /// Kills the child when the directories together have grown by more than this many bytes. `before` is
    /// their size at the start; `None` measures it when the child starts (see
    /// [`disk_usage`](crate::disk_usage)).
    pub fn growth_quota(
        mut self,
        directories: impl IntoIterator<Item = impl AsRef<Path>>,
        before: Option<u64>,
        bytes: u64,
    ) -> Self {
        let directories = directories.into_iter().map(|directory| directory.as_ref().to_owned()).collect();
        self.quotas.push(Quota::growth(directories, before, bytes));
        self
    }

    /// Sets resource limits for the whole tree. The tree is killed when it exceeds one. Requires containment.
    pub fn limits(mut self, limits: ResourceLimits) -> Self {
        self.resources = limits;
        self
    }

    /// Enables [`Child::tap`](crate::Child::tap), a lossy live view of the output.
    pub fn tap(mut self) -> Self {
        self.tap = true;
        self
    }

    /// Calls a function with the record of the tree before the program runs, and waits for the future that it
    /// returns. A tree whose record was persisted there can always be found with [`reap`](crate::reap). If the
    /// future fails, the program is not run. Without a shim the program already runs, and a failure is ignored.
    pub fn before_start<F>(mut self, hook: impl FnOnce(TreeRecord) -> F + Send + 'static) -> Self
    where
        F: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        self.start_hook = Some(Box::new(move |record| Box::pin(hook(record))));
        self
    }

    /// Runs the child in a sandbox. Requires containment. Under bubblewrap, death by signal `n` is reported
    /// as exit code 128 + `n`, as a shell does.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// Runs the child to completion. A failure to start is reported as
    /// [`End::SpawnFailed`](crate::End::SpawnFailed).
    pub async fn run(self) -> Report {
        match self.spawn().await {
            Ok(child) => child.wait().await,
            Err(error) => Report::spawn_failed(error),
        }
    }
}
