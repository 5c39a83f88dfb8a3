//! Starts a child without a shim, for hosts that can't be their own shim: a new session and a sweep. Best
//! effort.
//!
//! Limitations: a descendant that left the session *and* cleared its environment is not found. If the host is
//! killed, only the leader dies with it (Linux only).

use std::io;
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::sync::oneshot;

use super::{TreeEvent, TreeOutcome, exec_error};
use crate::error::SpawnError;
use crate::plan::SpawnPlan;
use crate::process_table::{self, ProcessTree};
use crate::record::{ProcessIdentity, TreeRecord};
use crate::report::{Containment, ContainmentMethod, ContainmentMode, ExitStatus, Usage};
use crate::{KILL_TIMEOUT, SETTLE_TIME, env, program, suspend, sys};

const TICK: Duration = Duration::from_millis(5);

/// A tree whose leader is a child of the host.
#[derive(Debug)]
pub(crate) struct DirectTree {
    leader: ProcessIdentity,
    pid: Pid,
    tree: ProcessTree,
    id: String,
    ended: oneshot::Receiver<Option<ExitStatus>>,
    leader_ended: Option<(Option<ExitStatus>, Instant)>,
    announced: bool,
    terminating: bool,
    killing_since: Option<Instant>,
    leaked: bool,
    finished: bool,
    /// Processes that were stopped and must be resumed.
    paused: Option<Vec<ProcessIdentity>>,
    pause_unconfirmed: bool,
}

impl DirectTree {
    pub(crate) async fn start(start: SpawnPlan) -> Result<Self, SpawnError> {
        let total = program::total_size(&start.args, &start.env);
        let (program, cwd, id) = (start.program.clone(), start.cwd.clone(), start.id.clone());
        let born = Instant::now();
        let (pid, ended) =
            spawn_on_spawner(start).await.map_err(|source| exec_error(source, program, cwd, total))?;
        // The pid can't be reused before it is reaped, and only this process reaps it.
        let number = pid.as_raw_pid() as u32;
        let leader = ProcessIdentity { pid: number, start: process_table::start_time(number).unwrap_or(0) };
        let tree = ProcessTree {
            born: Some(born),
            below: None,
            leader: Some(leader),
            marker: Some(env::marker(&id)),
        };
        Ok(Self {
            leader,
            pid,
            tree,
            id,
            ended,
            leader_ended: None,
            announced: false,
            terminating: false,
            killing_since: None,
            leaked: false,
            finished: false,
            paused: None,
            pause_unconfirmed: false,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.leader.pid
    }

    pub(crate) fn record(&self) -> TreeRecord {
        TreeRecord::new(self.id.clone(), self.leader)
    }

    pub(crate) fn containment(&self) -> Containment {
        Containment::new(ContainmentMode::Direct, ContainmentMethod::Sweep)
    }

    pub(crate) async fn next(&mut self) -> TreeEvent {
        loop {
            if std::mem::take(&mut self.pause_unconfirmed) {
                return TreeEvent::Paused;
            }
            if self.leader_ended.is_none() {
                let tick = async {
                    match self.killing_since {
                        Some(_) => tokio::time::sleep(TICK).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    status = &mut self.ended => self.leader_ended = Some((status.ok().flatten(), Instant::now())),
                    () = tick => {}
                }
            }
            let living = if self.killing_since.is_some() { self.tree.kill() } else { self.living() };
            if let Some((status, at)) = self.leader_ended {
                if living.is_empty() {
                    return TreeEvent::Finished(self.finish(status, Vec::new()));
                }
                if !self.announced {
                    self.announced = true;
                    return TreeEvent::LeaderEnded;
                }
                if self.killing_since.is_none()
                    && !self.terminating
                    && self.paused.is_none()
                    && at.elapsed() >= SETTLE_TIME
                {
                    self.leaked = true;
                    self.kill();
                }
                tokio::time::sleep(TICK).await;
            }
            if self.killing_since.is_some_and(|since| since.elapsed() > KILL_TIMEOUT) {
                let status = self.leader_ended.and_then(|(status, _)| status);
                return TreeEvent::Finished(self.finish(status, self.unkillable()));
            }
        }
    }

    fn living(&self) -> Vec<ProcessIdentity> {
        if self.leader_ended.is_some() { self.tree.living() } else { Vec::new() }
    }

    fn finish(&mut self, status: Option<ExitStatus>, unkillable: Vec<u32>) -> TreeOutcome {
        let usage = if self.leader_ended.is_some() { sys::reap_with_usage(self.pid) } else { None };
        self.finished = true;
        let usage = usage.unwrap_or_default();
        let usage = Usage {
            user: usage.user,
            system: usage.system,
            peak_rss_of_largest_process: usage.peak_rss_bytes,
        };
        TreeOutcome { status, program_started: true, leaked: self.leaked, usage, unkillable }
    }

    pub(crate) fn terminate(&mut self) {
        self.terminating = true;
        // The leader is reaped last, so its group id can't be reused.
        let _ = kill_process_group(self.pid, Signal::TERM);
        let _ = kill_process_group(self.pid, Signal::CONT);
        self.resume();
    }

    /// Scanning the process table takes a while, so it runs on another thread.
    pub(crate) async fn pause(&mut self) {
        if self.paused.is_none() {
            let tree = self.tree.clone();
            let stopped = tokio::task::spawn_blocking(move || suspend::suspend(&tree)).await;
            self.paused = Some(stopped.unwrap_or_default());
        }
        self.pause_unconfirmed = true;
    }

    pub(crate) fn resume(&mut self) {
        suspend::resume(self.paused.take().unwrap_or_default());
    }

    pub(crate) fn kill(&mut self) {
        self.killing_since.get_or_insert_with(Instant::now);
        self.tree.kill();
    }

    pub(crate) fn unkillable(&self) -> Vec<u32> {
        self.tree.living().into_iter().map(|process| process.pid).collect()
    }
}

impl Drop for DirectTree {
    /// The driver was dropped before the end, for instance because its runtime was shut down.
    fn drop(&mut self) {
        if !self.finished {
            for _ in 0..10 {
                if self.tree.kill().is_empty() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if self.leader_ended.is_some() && !self.finished {
            let _ = sys::reap_with_usage(self.pid);
        }
    }
}

type SpawnResult = io::Result<(Pid, oneshot::Receiver<Option<ExitStatus>>)>;
type SpawnerRequest = (SpawnPlan, oneshot::Sender<SpawnResult>);

/// Spawns on a thread that never ends: on Linux a child dies with the thread that spawned it.
async fn spawn_on_spawner(start: SpawnPlan) -> SpawnResult {
    static SPAWNER: OnceLock<Option<mpsc::Sender<SpawnerRequest>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<SpawnerRequest>();
        let thread = std::thread::Builder::new().name("yb-spawner".to_owned());
        thread
            .spawn(move || {
                for (start, answer) in requests {
                    let _ = answer.send(spawn(start));
                }
            })
            .ok()
            .map(|_| sender)
    });
    let lost = || io::Error::other("failed to start the spawner thread");
    let (sender, answer) = oneshot::channel();
    spawner.as_ref().ok_or_else(lost)?.send((start, sender)).map_err(|_| lost())?;
    answer.await.map_err(|_| lost())?
}

fn spawn(start: SpawnPlan) -> SpawnResult {
    let exec = env::build_exec(&start.program, &start.arg0, &start.args, start.env.iter(), &start.id)?;
    let mut command = Command::new(&start.program);
    command.current_dir(&start.cwd);
    command
        .stdin(start.stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(start.stdout)
        .stderr(start.stderr);
    sys::exec_in_new_session(&mut command, exec);
    #[expect(clippy::disallowed_methods, reason = "the only place that spawns children directly")]
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new().name("yb-waiter".to_owned()).spawn(move || {
        // Not reaped here, so that pid and group stay reserved until the tree is dead.
        let status = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let status = status.ok().flatten().and_then(|ended| {
            let code = ended.exit_status().map(ExitStatus::Code);
            code.or_else(|| ended.terminating_signal().map(ExitStatus::Signal))
        });
        if sender.send(status).is_err() {
            let _ = sys::reap_with_usage(pid);
        }
    })?;
    Ok((pid, ended))
}
