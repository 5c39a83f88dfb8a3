//! From a `Command` to a running child: resolves and validates everything, opens files and pipes, and starts
//! the backend.

#[cfg(unix)]
use super::Launch;
use std::path::Path;
use std::pin::Pin;

use super::{Command, OutputMode};
use crate::backend::{Backend, BackendKind};
use crate::capture::CapturedOutput;
use crate::driver::{Child, Driver, DriverLimits};
use crate::egress_proxy::EgressProxySetup;
use crate::error::SpawnError;
use crate::lines::{LineQueue, LineSplitter, Lines};
use crate::logfile::LogFile;
use crate::pause::PauseState;
use crate::plan::{SpawnPlan, unique_id};
use crate::program;
use crate::pump::{Pump, PumpThread};
use crate::report::Warning;
use crate::sandbox::{Network, SandboxPlan, plan_sandbox};
use crate::sink::{OutputRedactor, OutputTarget, Sink, TailBuffer};
use crate::stdin::{Stdin, StdinWriter};
use crate::tap::tap;

impl Command {
    /// Starts the child. Must be called within a tokio runtime that has I/O and time enabled.
    ///
    /// # Errors
    /// Returns why the child could not be started; [`SpawnError::hint`] suggests a fix.
    pub async fn spawn(self) -> Result<Child, SpawnError> {
        self.boxed_spawn().await
    }

    /// Boxed, so that the body is compiled here and not again in each caller, as bodies of async functions are: they were 0.9 MB.
    fn boxed_spawn(self) -> Pin<Box<dyn Future<Output = Result<Child, SpawnError>> + Send>> {
        Box::pin(self.spawn_now())
    }

    async fn spawn_now(self) -> Result<Child, SpawnError> {
        let system = |what| move |source| SpawnError::System { what, source };
        let pause_state =
            PauseState::wait_to_start(self.pause.clone(), self.own_pause.clone(), &self.cancel).await;
        let mut env = self.env.resolve(std::env::vars_os());
        let egress = self.sandbox.as_ref().filter(|sandbox| sandbox.network == Network::Filtered);
        let proxy_setup = match egress {
            Some(sandbox) => {
                Some(EgressProxySetup::prepare(sandbox).map_err(system("bind the egress proxy"))?)
            }
            None => None,
        };
        if let Some(proxy_setup) = &proxy_setup {
            proxy_setup.set_proxy_env(&mut env);
        }
        program::check_strings(&self.program, &self.args, &env)?;
        let cwd = match &self.cwd {
            Some(cwd) => std::path::absolute(cwd),
            None => std::env::current_dir(),
        };
        let cwd = cwd.map_err(system("resolve the working directory"))?;
        #[cfg(unix)]
        let overlays: Vec<_> =
            self.sandbox.as_ref().map(|sandbox| sandbox.overlays().cloned().collect()).unwrap_or_default();
        let locate = |path: &Path| self.sandbox.as_ref().and_then(|sandbox| sandbox.locate(path));
        let other_root = self.sandbox.as_ref().filter(|sandbox| sandbox.root.is_some());
        let cwd_on_host = locate(&cwd).or_else(|| other_root.is_none().then(|| cwd.clone()));
        if !cwd_on_host.is_some_and(|cwd| cwd.is_dir()) {
            return Err(SpawnError::CwdMissing { path: cwd });
        }
        let program = match other_root {
            Some(sandbox) if !sandbox.host_program => sandbox.find_program(&self.program, &cwd, &env)?,
            Some(_) => program::resolve(&self.program, &env)?,
            None => match locate(Path::new(&self.program)) {
                Some(in_layer) => {
                    program::resolve(in_layer.as_os_str(), &env)?;
                    self.program.clone().into()
                }
                None => program::resolve(&self.program, &env)?,
            },
        };
        let backend_kind = self.backend_kind()?;
        #[cfg(unix)]
        if matches!(backend_kind, BackendKind::Direct) && !self.resources.is_empty() {
            return Err(SpawnError::NoShim);
        }
        let is_other_root = other_root.is_some();
        let plan = match &self.sandbox {
            Some(sandbox) => {
                plan_sandbox(sandbox, &backend_kind, &program, &self.args, &cwd, &env, proxy_setup.as_ref())?
            }
            None => SandboxPlan::default(),
        };
        let (program, arg0, args) = plan.wrapper.unwrap_or((program, self.program, self.args));
        #[cfg(unix)]
        let sandboxed = plan.wrapper_is_leader;
        #[cfg(windows)]
        let _ = arg0;
        let log = match &self.log {
            Some(path) => Some(LogFile::create(path, self.log_ceiling, true)?),
            None => None,
        };

        let mut warnings = Vec::new();
        let mut secrets = self.secrets;
        secrets.retain(|(name, value)| {
            let long_enough = value.len() >= yb_redact::MIN_LENGTH;
            if !long_enough {
                warnings.push(Warning::SecretTooShort { name: name.clone() });
            }
            long_enough
        });
        let secrets = yb_redact::Secrets::new(secrets);
        let (tap_sender, tap) = if self.tap { Some(tap()).unzip() } else { (None, None) };
        let thread = PumpThread::take().map_err(system("start a thread"))?;
        let (target, queue) = match self.output {
            OutputMode::Capture { limit } => (OutputTarget::Capture(CapturedOutput::with_limit(limit)), None),
            OutputMode::Stream { line_limit, tee } => {
                let tee = match tee {
                    Some(path) => Some(LogFile::create(&path, self.log_ceiling, false)?),
                    None => None,
                };
                let queue = LineQueue::new(thread.waker());
                let lines = LineSplitter::new(queue.clone(), line_limit, self.line_limits);
                (OutputTarget::Stream { lines, tee, stderr: TailBuffer::default() }, Some(queue))
            }
        };
        let stdout = if self.json_lines {
            OutputRedactor::json_lines(&secrets)
        } else {
            OutputRedactor::text(&secrets)
        };
        let sink = Sink::new([stdout, OutputRedactor::text(&secrets)], log, target, tap_sender)
            .omit_from_log(self.omitted_lines);

        #[cfg(unix)]
        let (egress_proxy, channel) = match proxy_setup.zip(self.sandbox) {
            Some((proxy_setup, sandbox)) => {
                let (egress_proxy, channel) =
                    proxy_setup.open(sandbox.egress, secrets).map_err(system("create a socket"))?;
                (Some(egress_proxy), channel)
            }
            None => (None, None),
        };
        #[cfg(windows)]
        let egress_proxy = None;
        let (stdout, stdout_writer) = std::io::pipe().map_err(system("create a pipe"))?;
        let (stderr, stderr_writer) = std::io::pipe().map_err(system("create a pipe"))?;
        let (stdin_reader, stdin_writer) = match &self.stdin {
            Stdin::None => (None, None),
            Stdin::Bytes(_) | Stdin::Interactive => {
                let (reader, writer) = std::io::pipe().map_err(system("create a pipe"))?;
                (Some(reader), Some(StdinWriter::new(writer).map_err(system("create a pipe"))?))
            }
        };
        let start = SpawnPlan {
            program,
            #[cfg(unix)]
            arg0,
            args,
            // The directory may exist in the other root only.
            cwd: if is_other_root { "/".into() } else { cwd },
            env,
            #[cfg(unix)]
            sandboxed,
            #[cfg(unix)]
            rules: plan.rules,
            #[cfg(unix)]
            files: plan.files,
            #[cfg(unix)]
            overlays,
            #[cfg(unix)]
            limits: self.resources,
            #[cfg(unix)]
            channel,
            #[cfg(unix)]
            method: self.method,
            id: unique_id(),
            stdin: stdin_reader,
            stdout: stdout_writer,
            stderr: stderr_writer,
        };
        let backend = Backend::start(backend_kind, start, self.start_hook).await?;
        let lines = queue.clone().map(|queue| Lines { queue });
        let pump = Pump::start(thread, stdout, stderr, sink, queue).map_err(system("start a thread"))?;
        let (feeder, stdin) = match (self.stdin, stdin_writer) {
            (Stdin::Bytes(bytes), Some(writer)) => (Some(tokio::spawn(writer.feed(bytes))), None),
            (_, writer) => (None, writer),
        };
        let limits = DriverLimits { deadline: self.deadline, grace: self.grace, quotas: self.quotas };
        let driver =
            Driver::new(backend, pump, feeder, warnings, limits, pause_state).with_egress_proxy(egress_proxy);
        Ok(Child::start(driver, &self.cancel, stdin, lines, tap))
    }

    #[cfg(unix)]
    fn backend_kind(&self) -> Result<BackendKind, SpawnError> {
        let shim = self.shim.as_ref().or(crate::shim::own_shim());
        match (self.launch, shim) {
            (Launch::Direct, _) | (Launch::Auto, None) => Ok(BackendKind::Direct),
            (Launch::Contained | Launch::Auto, Some(shim)) => {
                Ok(BackendKind::Contained { shim: shim.clone() })
            }
            (Launch::Contained, None) => Err(SpawnError::NoShim),
        }
    }

    #[cfg(windows)]
    fn backend_kind(&self) -> Result<BackendKind, SpawnError> {
        Ok(BackendKind::Job)
    }
}
