//! The builder: everything that can be said about a child before it runs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backend::{Backend, Way};
use crate::capture::Captured;
use crate::driver::{Driver, Limits, Running};
use crate::env::EnvPlan;
use crate::error::SpawnError;
use crate::gate::Outside;
use crate::limits::ResourceLimits;
use crate::lines::{Lines, Queue, Splitter};
use crate::logfile::LogFile;
use crate::pause::{Held, PauseSwitch};
use crate::plan::{Start, unique_id};
use crate::program;
use crate::pump::{Pump, Worker};
use crate::quota::Quota;
use crate::redact::{MIN_SECRET, Redactor, Secrets};
use crate::report::{Means, Report, Warning};
#[cfg(target_os = "linux")]
use crate::sandbox::SandboxKind;
#[cfg(target_os = "linux")]
use crate::sandbox::StartedBy;
use crate::sandbox::{Network, Sandbox};
use crate::sink::{Keep, Sink, Tail};
use crate::stdin::{Stdin, StdinWriter};
use crate::tap::tap;

/// What `Capture` keeps in memory by default, of both pipes together.
pub const CAPTURE_LIMIT: usize = 10_485_760;
/// The longest line of a `Stream` by default.
pub const LINE_LIMIT: usize = 64 << 20;
/// The ceiling of a log file by default.
pub const LOG_CEILING: u64 = 1 << 30;
/// Between SIGTERM and SIGKILL by default.
pub const GRACE: Duration = Duration::from_secs(2);

/// How a child is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Launch {
    /// Contained if a shim is available, else direct; the report says which.
    #[default]
    Auto,
    /// Below a shim, or not at all.
    Contained,
    /// By the host itself: best effort, for programs that can't call [`shim_main`](crate::shim_main).
    Direct,
}

/// What happens to a child's output. stderr is always drained.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputMode {
    /// Both pipes are drained for ever; the beginning is kept in memory.
    Capture {
        /// Bytes kept, of both pipes together.
        limit: usize,
    },
    /// stdout goes to one consumer, line by line and without loss; the child waits when the consumer does.
    Stream {
        /// The longest line; a longer one ends the stream.
        line_limit: usize,
        /// A file that gets the same bytes.
        tee: Option<PathBuf>,
    },
}

impl OutputMode {
    /// `Stream` with the default line limit and no tee.
    pub fn stream() -> Self {
        Self::Stream { line_limit: LINE_LIMIT, tee: None }
    }
}

/// One child process to be run: program and arguments as they are, never through a shell.
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
    launch: Launch,
    means: Option<Means>,
    shim: Option<PathBuf>,
    quotas: Vec<Quota>,
    tap: bool,
    sandbox: Option<Sandbox>,
    resources: ResourceLimits,
}

/// Arguments and environment may hold secrets; only their number is shown.
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
    /// A program, by path or to be found in the child's PATH.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            cwd: None,
            env: EnvPlan::default(),
            stdin: Stdin::None,
            deadline: Duration::ZERO,
            grace: GRACE,
            output: OutputMode::Capture { limit: CAPTURE_LIMIT },
            log: None,
            log_ceiling: LOG_CEILING,
            secrets: Vec::new(),
            cancel: CancellationToken::new(),
            pause: PauseSwitch::new(),
            launch: Launch::Auto,
            means: None,
            shim: None,
            quotas: Vec::new(),
            tap: false,
            sandbox: None,
            resources: ResourceLimits::new(),
        }
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// The child's working directory; by default the host's.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.cwd = Some(directory.as_ref().to_owned());
        self
    }

    /// Sets a variable. By default a child gets PATH, LANG, `LC_*`, TERM and TZ, and nothing else.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.set(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Sets several variables.
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(mut self, vars: impl IntoIterator<Item = (K, V)>) -> Self {
        for (name, value) in vars {
            self = self.env(name, value);
        }
        self
    }

    /// Removes a variable.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.remove(name.as_ref().to_owned());
        self
    }

    /// Passes on the host's whole environment.
    pub fn inherit_env(mut self) -> Self {
        self.env.inherit();
        self
    }

    /// What the child reads; by default nothing.
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// How long the child may run; zero is for ever.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long after SIGTERM everything is killed.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What happens to the output.
    pub fn output(mut self, output: OutputMode) -> Self {
        self.output = output;
        self
    }

    /// A file that gets both pipes as they arrive. Its directory must exist.
    pub fn log_file(mut self, path: impl AsRef<Path>) -> Self {
        self.log = Some(path.as_ref().to_owned());
        self
    }

    /// How large the log file, and the tee of a stream, may become.
    pub fn log_ceiling(mut self, bytes: u64) -> Self {
        self.log_ceiling = bytes;
        self
    }

    /// A value that appears as `[REDACTED:NAME]` wherever output goes.
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.secrets.push((name.into(), value.into()));
        self
    }

    /// Ends the child when this token is cancelled.
    pub fn cancel_on(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// Holds the child, and its deadline, while this switch is on; one that was not started yet waits before it is.
    pub fn pause_on(mut self, switch: PauseSwitch) -> Self {
        self.pause = switch;
        self
    }

    /// How the child is started.
    pub fn launch(mut self, launch: Launch) -> Self {
        self.launch = launch;
        self
    }

    /// Forces a means of containment instead of the strongest that works here.
    pub fn means(mut self, means: Means) -> Self {
        self.means = Some(means);
        self
    }

    /// The program that serves as the shim; by default the running one, if it called
    /// [`shim_main`](crate::shim_main).
    pub fn shim(mut self, program: impl AsRef<Path>) -> Self {
        self.shim = Some(program.as_ref().to_owned());
        self
    }

    /// Ends the child at once when a directory holds more than this many bytes.
    pub fn quota(mut self, directory: impl AsRef<Path>, bytes: u64) -> Self {
        self.quotas.push(Quota::new(directory.as_ref().to_owned(), bytes));
        self
    }

    /// Ends the child at once when directories together hold this many bytes more than before. How much that was is
    /// looked up while it begins, unless somebody knows ([`disk_usage`](crate::disk_usage)).
    pub fn growth(
        mut self,
        directories: impl IntoIterator<Item = impl AsRef<Path>>,
        before: Option<u64>,
        bytes: u64,
    ) -> Self {
        let directories = directories.into_iter().map(|directory| directory.as_ref().to_owned()).collect();
        self.quotas.push(Quota::growth(directories, before, bytes));
        self
    }

    /// Ends the child at once when its tree uses more than this. It must be contained.
    pub fn limits(mut self, limits: ResourceLimits) -> Self {
        self.resources = limits;
        self
    }

    /// Offers the output live through [`Running::tap`], as far as somebody takes it in time.
    pub fn tap(mut self) -> Self {
        self.tap = true;
        self
    }

    /// Lets the child see, write and reach no more than this. It must be contained; and an end by signal `n` is told as
    /// the exit code 128 + `n`, as a shell does.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// Runs the child to its end. A child that could not be started is a report too.
    pub async fn run(self) -> Report {
        match self.spawn().await {
            Ok(running) => running.wait().await,
            Err(error) => Report::spawn_failed(error),
        }
    }

    /// Starts the child. Must be called within a tokio runtime with I/O and time.
    pub async fn spawn(self) -> Result<Running, SpawnError> {
        let system = |what| move |source| SpawnError::System { what, source };
        let held = Held::until_it_may_start(self.pause.clone(), &self.cancel).await;
        let mut env = self.env.resolve(std::env::vars_os());
        let exits = self.sandbox.as_ref().filter(|sandbox| sandbox.network == Network::Exits);
        let outside = match exits {
            Some(sandbox) => Some(Outside::prepare(sandbox).map_err(system("listen for the sandbox"))?),
            None => None,
        };
        if let Some(outside) = &outside {
            outside.proxy(&mut env);
        }
        program::check_strings(&self.program, &self.args, &env)?;
        let cwd = match &self.cwd {
            Some(cwd) => std::path::absolute(cwd),
            None => std::env::current_dir(),
        };
        let cwd = cwd.map_err(system("find the working directory"))?;
        if !cwd.is_dir() {
            return Err(SpawnError::CwdMissing { path: cwd });
        }
        let program = program::resolve(&self.program, &env)?;
        let way = self.way()?;
        #[cfg(unix)]
        if matches!(way, Way::Direct) && !self.resources.are_none() {
            return Err(SpawnError::NoShim);
        }
        let wrapped = match &self.sandbox {
            Some(sandbox) => sandboxed(sandbox, &way, &program, &self.args, &cwd, &env, outside.as_ref())?,
            None => Wrapped::default(),
        };
        let (program, arg0, args) = wrapped.instead.unwrap_or((program, self.program, self.args));
        #[cfg(unix)]
        let sandboxed = wrapped.stands_between;
        #[cfg(windows)]
        let _ = arg0;
        let log = match &self.log {
            Some(path) => Some(LogFile::create(path, self.log_ceiling, true)?),
            None => None,
        };

        let mut warnings = Vec::new();
        let mut secrets = self.secrets;
        secrets.retain(|(name, value)| {
            let long_enough = value.len() >= MIN_SECRET;
            if !long_enough {
                warnings.push(Warning::SecretTooShort { name: name.clone() });
            }
            long_enough
        });
        let secrets = Secrets::new(&secrets);
        let (tap_sender, tap) = if self.tap { Some(tap()).unzip() } else { (None, None) };
        let worker = Worker::take().map_err(system("start a thread"))?;
        let (keep, queue) = match self.output {
            OutputMode::Capture { limit } => (Keep::Capture(Captured::with_limit(limit)), None),
            OutputMode::Stream { line_limit, tee } => {
                let tee = match tee {
                    Some(path) => Some(LogFile::create(&path, self.log_ceiling, false)?),
                    None => None,
                };
                let queue = Queue::new(worker.waker());
                let lines = Splitter::new(queue.clone(), line_limit);
                (Keep::Stream { lines, tee, stderr: Tail::default() }, Some(queue))
            }
        };
        let sink = Sink::new(|| Redactor::new(secrets.clone()), log, keep, tap_sender);

        #[cfg(unix)]
        let (gate, channel) = match outside.zip(self.sandbox) {
            Some((outside, sandbox)) => {
                let (gate, channel) =
                    outside.open(sandbox.exits, secrets).map_err(system("make a socket"))?;
                (Some(gate), channel)
            }
            None => (None, None),
        };
        #[cfg(windows)]
        let gate = None;
        let (stdout, stdout_writer) = std::io::pipe().map_err(system("make a pipe"))?;
        let (stderr, stderr_writer) = std::io::pipe().map_err(system("make a pipe"))?;
        let (stdin_reader, stdin_writer) = match &self.stdin {
            Stdin::None => (None, None),
            Stdin::Bytes(_) | Stdin::Interactive => {
                let (reader, writer) = std::io::pipe().map_err(system("make a pipe"))?;
                (Some(reader), Some(StdinWriter::new(writer).map_err(system("make a pipe"))?))
            }
        };
        let start = Start {
            program,
            #[cfg(unix)]
            arg0,
            args,
            cwd,
            env,
            #[cfg(unix)]
            sandboxed,
            #[cfg(unix)]
            rules: wrapped.rules,
            #[cfg(unix)]
            files: wrapped.files,
            #[cfg(unix)]
            limits: self.resources,
            #[cfg(unix)]
            channel,
            #[cfg(unix)]
            means: self.means,
            id: unique_id(),
            stdin: stdin_reader,
            stdout: stdout_writer,
            stderr: stderr_writer,
        };
        let backend = Backend::start(way, start).await?;
        let lines = queue.clone().map(|queue| Lines { queue });
        let pump = Pump::start(worker, stdout, stderr, sink, queue).map_err(system("start a thread"))?;
        let (feeder, stdin) = match (self.stdin, stdin_writer) {
            (Stdin::Bytes(bytes), Some(writer)) => (Some(tokio::spawn(writer.feed(bytes))), None),
            (_, writer) => (None, writer),
        };
        let limits = Limits { deadline: self.deadline, grace: self.grace, quotas: self.quotas };
        let driver = Driver::new(backend, pump, feeder, warnings, limits, held).with_gate(gate);
        Ok(Running::start(driver, &self.cancel, stdin, lines, tap))
    }

    #[cfg(unix)]
    fn way(&self) -> Result<Way, SpawnError> {
        let shim = self.shim.as_ref().or(crate::shim::own_shim());
        match (self.launch, shim) {
            (Launch::Direct, _) | (Launch::Auto, None) => Ok(Way::Direct),
            (Launch::Contained | Launch::Auto, Some(shim)) => Ok(Way::Contained { shim: shim.clone() }),
            (Launch::Contained, None) => Err(SpawnError::NoShim),
        }
    }

    #[cfg(windows)]
    fn way(&self) -> Result<Way, SpawnError> {
        Ok(Way::Job)
    }
}

/// What a sandbox makes of a program.
#[derive(Default)]
struct Wrapped {
    /// What is started instead, with its name and arguments: the program that makes the sandbox, which starts the other.
    instead: Option<(PathBuf, OsString, Vec<OsString>)>,
    /// Whether that one stays, and is the leader.
    #[cfg(unix)]
    stands_between: bool,
    /// What the child is to be restricted by.
    #[cfg(unix)]
    rules: Option<crate::wire::Rules>,
    /// What files of the sandbox have in them.
    #[cfg(unix)]
    files: Vec<crate::wire::Content>,
}

#[cfg(target_os = "linux")]
fn sandboxed(
    sandbox: &Sandbox,
    way: &Way,
    program: &Path,
    args: &[OsString],
    cwd: &Path,
    env: &BTreeMap<OsString, OsString>,
    outside: Option<&Outside>,
) -> Result<Wrapped, SpawnError> {
    // Its end follows the end of the thread that starts it, and only a shim has but one.
    if matches!(way, Way::Direct) {
        return Err(SpawnError::NoShim);
    }
    let search = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
    match sandbox.kind {
        SandboxKind::Bubblewrap => {
            let bwrap = crate::sandbox::bubblewrap().map_err(SpawnError::Sandbox)?;
            let mut files = Vec::new();
            let by = StartedBy::Shim { files: &mut files };
            let args = crate::sandbox::wrap(sandbox, program, args, cwd, search, by)?;
            let instead = Some((bwrap, "bwrap".into(), args));
            Ok(Wrapped { instead, stands_between: true, files, ..Wrapped::default() })
        }
        SandboxKind::Landlock => {
            SandboxKind::Landlock.probe().map_err(SpawnError::Sandbox)?;
            if sandbox.network != Network::Shared {
                SandboxKind::Landlock.probe_network().map_err(SpawnError::Sandbox)?;
            }
            let mut rules = crate::sandbox::rules(sandbox, program, cwd, search)?;
            if let (Some(ports), Some(port)) = (&mut rules.ports, outside.and_then(Outside::port)) {
                ports.push(port);
            }
            Ok(Wrapped { rules: Some(rules), ..Wrapped::default() })
        }
    }
}

#[cfg(target_os = "macos")]
fn sandboxed(
    sandbox: &Sandbox,
    _: &Way,
    program: &Path,
    args: &[OsString],
    _: &Path,
    env: &BTreeMap<OsString, OsString>,
    outside: Option<&Outside>,
) -> Result<Wrapped, SpawnError> {
    sandbox.kind.probe().map_err(SpawnError::Sandbox)?;
    let search = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
    let profile = crate::sandbox::profile(sandbox, program, search, outside.and_then(Outside::port));
    let mut all: Vec<OsString> = vec!["-p".into(), profile.into(), program.into()];
    all.extend(args.iter().cloned());
    // It becomes the program, so the leader is the child itself.
    let instead = Some((crate::sandbox::SANDBOX_EXEC.into(), "sandbox-exec".into(), all));
    Ok(Wrapped { instead, ..Wrapped::default() })
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn sandboxed(
    _: &Sandbox,
    _: &Way,
    _: &Path,
    _: &[OsString],
    _: &Path,
    _: &BTreeMap<OsString, OsString>,
    _: Option<&Outside>,
) -> Result<Wrapped, SpawnError> {
    Err(match Sandbox::probe() {
        Err(unavailable) => SpawnError::Sandbox(unavailable),
        Ok(()) => SpawnError::NoShim,
    })
}
