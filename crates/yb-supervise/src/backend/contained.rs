//! The host's side of a shim: spawns it, sends it requests and handles its events.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep, timeout};

use super::control::{ControlSocket, PendingControl};
use super::shim_process::{ShimProcess, ShimStdio};
use super::{TreeEvent, TreeOutcome};
#[cfg(target_os = "linux")]
use crate::cgroup::Cgroup;
use crate::env;
use crate::error::SpawnError;
use crate::open_files;
use crate::plan::{SpawnPlan, StartHook};
use crate::process_table::ProcessTree;
use crate::program;
use crate::record::{ProcessIdentity, TreeRecord};
use crate::report::{Containment, ContainmentMethod, ContainmentMode};
use crate::wire::{ShimEvent, ShimRequest, SpawnRequest, SpawnStage};

/// How long a shim may take to start its child.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often SIGCONT is sent to a shim that has not responded yet.
const CONTINUE_INTERVAL: Duration = Duration::from_millis(100);
/// How long the host's own sweep may take.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a shim may take to exit after its final event.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// A tree below a shim.
#[derive(Debug)]
pub(crate) struct ContainedTree {
    /// `None` after the final event.
    control: Option<ControlSocket>,
    shim: ShimProcess,
    /// Identities of the shim and the leader; known after the first event of the shim.
    shim_id: Option<ProcessIdentity>,
    leader: Option<ProcessIdentity>,
    born: std::time::Instant,
    id: String,
    method: ContainmentMethod,
    cgroup: Option<PathBuf>,
}

impl ContainedTree {
    pub(crate) async fn start(
        shim: PathBuf,
        start: SpawnPlan,
        hook: Option<StartHook>,
    ) -> Result<Self, SpawnError> {
        let total = program::total_size(&start.args, &start.env);
        let (program, cwd, forced) = (start.program.clone(), start.cwd.clone(), start.method);
        let failed = |source| SpawnError::Shim { path: shim.clone(), source };
        let mut tree = Self::spawn_shim(&shim, start).await.map_err(failed)?;
        let mut event = tree.wait_for_event().await;
        if let Ok(ShimEvent::Forked { pid, start, shim_start, method, cgroup }) = event {
            tree.leader = Some(ProcessIdentity { pid, start });
            tree.shim_id = tree.shim.id().map(|pid| ProcessIdentity { pid, start: shim_start });
            tree.method = method;
            tree.cgroup = cgroup;
            // Until the child is released it does not run its program, and dies with its shim.
            if let Some(hook) = hook
                && let Err(source) = hook(tree.record()).await
            {
                tree.control = None;
                tree.sweep().await;
                return Err(SpawnError::System { what: "record the process tree", source });
            }
            tree.send(&ShimRequest::Release);
            event = match tree.wait_for_event().await {
                // The child ran and its shim is gone: the child has ended, spawning did not fail.
                Err(error) if error.kind() != io::ErrorKind::TimedOut => Ok(ShimEvent::Started),
                event => event,
            };
        }
        match event {
            Ok(ShimEvent::Started) => Ok(tree),
            Ok(ShimEvent::Failed { stage, errno }) => {
                let _ = timeout(EXIT_TIMEOUT, tree.shim.wait()).await;
                let source = io::Error::from_raw_os_error(errno);
                Err(match (stage, forced) {
                    (SpawnStage::Contain | SpawnStage::Fork, Some(method)) => {
                        SpawnError::ContainmentUnavailable { method, source }
                    }
                    (SpawnStage::Contain, None) => SpawnError::System { what: "contain the child", source },
                    (SpawnStage::Fork, None) => SpawnError::System { what: "fork", source },
                    (SpawnStage::Restrict, _) => {
                        SpawnError::System { what: "drop privileges for the sandbox", source }
                    }
                    (SpawnStage::Mount, _) => {
                        SpawnError::System { what: "mount the overlay of the sandbox", source }
                    }
                    (SpawnStage::Exec, _) => super::exec_error(source, program, cwd, total),
                })
            }
            Ok(
                ShimEvent::Forked { .. }
                | ShimEvent::LeaderEnded(_)
                | ShimEvent::Paused
                | ShimEvent::OverLimit(_)
                | ShimEvent::Finished { .. },
            ) => Err(failed(io::ErrorKind::InvalidData.into())),
            Err(error) => {
                tree.sweep().await;
                Err(failed(error))
            }
        }
    }

    async fn spawn_shim(shim: &Path, start: SpawnPlan) -> io::Result<Self> {
        let born = std::time::Instant::now();
        let id = start.id.clone();
        let request = ShimRequest::Spawn(Box::new(SpawnRequest {
            program: start.program,
            arg0: start.arg0,
            args: start.args,
            cwd: start.cwd,
            env: start.env.into_iter().collect(),
            method: start.method,
            sandboxed: start.sandboxed,
            rules: start.rules,
            files: start.files,
            overlays: start.overlays,
            limits: start.limits,
            open_files: open_files::limit_of_children(),
            id: start.id,
            stdin: start.stdin.is_some(),
            channel: start.channel.is_some(),
        }));
        let descriptors: Vec<OwnedFd> =
            start.stdin.map(OwnedFd::from).into_iter().chain(start.channel.map(OwnedFd::from)).collect();
        let (mut pending, control) = PendingControl::new(&request, &descriptors)?;
        let mut stdio = ShimStdio { control, stdout: start.stdout.into(), stderr: start.stderr.into() };
        let shim = match ShimProcess::fork(shim, &stdio) {
            Ok(Some(shim)) => {
                drop(stdio);
                shim
            }
            Ok(None) => ShimProcess::spawn(shim, stdio)?,
            Err(_) => {
                // A new socket: the lost keeper may have forked a shim that reads from this one. That shim never
                // gets the release of its child.
                (pending, stdio.control) = PendingControl::new(&request, &descriptors)?;
                ShimProcess::spawn(shim, stdio)?
            }
        };
        drop(descriptors);
        let control = Some(pending.send().await?);
        let (shim_id, leader, method, cgroup) = (None, None, ContainmentMethod::Sweep, None);
        Ok(Self { control, shim, shim_id, leader, born, id, method, cgroup })
    }

    /// Waits for the next event, resuming the shim if it is stopped: the child may stop its shim before the
    /// event is sent.
    async fn wait_for_event(&mut self) -> io::Result<ShimEvent> {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            match timeout(CONTINUE_INTERVAL, self.next_event()).await {
                Ok(event) => return event,
                Err(_) => self.continue_shim(),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Waits for the next event. Cancel-safe.
    async fn next_event(&mut self) -> io::Result<ShimEvent> {
        match &mut self.control {
            Some(control) => control.next().await,
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Sends SIGCONT to the shim, in case it was stopped.
    fn continue_shim(&self) {
        if let Some(pid) = self.shim.id().and_then(|pid| Pid::from_raw(pid as i32)) {
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.leader.map_or(0, |leader| leader.pid)
    }

    pub(crate) fn record(&self) -> TreeRecord {
        let leader = self.leader.unwrap_or(ProcessIdentity { pid: 0, start: 0 });
        let cgroup = self.cgroup.as_ref().and_then(|path| path.to_str()).map(str::to_owned);
        TreeRecord { shim: self.shim_id, cgroup, ..TreeRecord::new(self.id.clone(), leader) }
    }

    pub(crate) fn containment(&self) -> Containment {
        Containment::new(ContainmentMode::Contained, self.method)
    }

    pub(crate) async fn next(&mut self) -> TreeEvent {
        match self.next_event().await {
            Ok(ShimEvent::LeaderEnded(_)) => TreeEvent::LeaderEnded,
            Ok(ShimEvent::Paused) => TreeEvent::Paused,
            Ok(ShimEvent::OverLimit(over)) => TreeEvent::OverLimit(over),
            Ok(ShimEvent::Finished { status, program_started, leaked, usage, unkillable }) => {
                // The shim closes the socket next; that must not count as a loss.
                self.control = None;
                TreeEvent::Finished(TreeOutcome { status, program_started, leaked, usage, unkillable })
            }
            Ok(ShimEvent::Forked { .. } | ShimEvent::Started | ShimEvent::Failed { .. }) | Err(_) => {
                TreeEvent::ShimLost
            }
        }
    }

    /// Waits for the shim to exit after its final event.
    pub(crate) async fn close(&mut self) {
        if timeout(EXIT_TIMEOUT, self.shim.wait()).await.is_err() {
            let _ = self.shim.start_kill();
            let _ = timeout(EXIT_TIMEOUT, self.shim.wait()).await;
        }
    }

    pub(crate) fn terminate(&mut self) {
        self.send(&ShimRequest::Terminate);
    }

    pub(crate) fn pause(&mut self) {
        self.send(&ShimRequest::Pause);
    }

    pub(crate) fn resume(&mut self) {
        self.send(&ShimRequest::Resume);
    }

    pub(crate) fn kill(&mut self) {
        self.send(&ShimRequest::Kill);
    }

    fn send(&self, request: &ShimRequest) {
        if let Some(control) = &self.control {
            control.send(request);
        }
        // The child may have stopped the shim.
        self.continue_shim();
    }

    pub(crate) async fn sweep(&mut self) -> Vec<u32> {
        let _ = self.shim.start_kill();
        let _ = timeout(EXIT_TIMEOUT, self.shim.wait()).await;
        let marker = Some(env::marker(&self.id));
        let tree = ProcessTree { born: Some(self.born), below: None, leader: self.leader, marker };
        #[cfg(target_os = "linux")]
        let cgroup = self.cgroup.as_deref().and_then(|path| Cgroup::adopt(path).ok());
        let deadline = Instant::now() + SWEEP_TIMEOUT;
        let remaining = loop {
            #[cfg(target_os = "linux")]
            if let Some(cgroup) = &cgroup {
                cgroup.kill();
            }
            let remaining: Vec<u32> = tree.kill().into_iter().map(|process| process.pid).collect();
            #[cfg(target_os = "linux")]
            let remaining =
                if let Some(cgroup) = &cgroup { [remaining, cgroup.members()].concat() } else { remaining };
            if remaining.is_empty() || Instant::now() > deadline {
                break remaining;
            }
            sleep(Duration::from_millis(10)).await;
        };
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = &cgroup {
            cgroup.remove();
        }
        remaining
    }
}
