//! Starting a child without a shim, for hosts that can't be their own: a session of its own and a sweep. Best effort.
//!
//! What this can't promise: a descendant that left the session *and* cleaned its environment is not found; and when
//! the host itself is killed, only the leader dies with it (Linux), not its descendants.

use std::io;
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::sync::oneshot;

use super::{Done, Event, exec_error};
use crate::error::SpawnError;
use crate::plan::Start;
use crate::record::{Identity, TreeRecord};
use crate::report::{Containment, ExitStatus, Means, Mode, Usage};
use crate::table::{self, Tree};
use crate::{KILL_LIMIT, SETTLE, env, program, stop, sys};

const TICK: Duration = Duration::from_millis(5);

/// A tree below the host itself.
#[derive(Debug)]
pub(crate) struct Direct {
    leader: Identity,
    pid: Pid,
    tree: Tree,
    id: String,
    ended: oneshot::Receiver<Option<ExitStatus>>,
    leader_ended: Option<(Option<ExitStatus>, Instant)>,
    announced: bool,
    terminating: bool,
    killing_since: Option<Instant>,
    leaked: bool,
    finished: bool,
    /// What was stopped, and has to be continued.
    paused: Option<Vec<Identity>>,
    paused_unsaid: bool,
}

impl Direct {
    pub(crate) async fn start(start: Start) -> Result<Self, SpawnError> {
        let total = program::total_size(&start.args, &start.env);
        let (program, cwd, id) = (start.program.clone(), start.cwd.clone(), start.id.clone());
        let born = Instant::now();
        let (pid, ended) =
            spawn_on_spawner(start).await.map_err(|source| exec_error(source, program, cwd, total))?;
        // Until it is reaped, and only we reap it, the pid is the child's.
        let number = pid.as_raw_pid() as u32;
        let leader = Identity { pid: number, start: table::start_time(number).unwrap_or(0) };
        let tree =
            Tree { born: Some(born), below: None, leader: Some(leader), marker: Some(env::marker(&id)) };
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
            paused_unsaid: false,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.leader.pid
    }

    pub(crate) fn record(&self) -> TreeRecord {
        TreeRecord::new(self.id.clone(), self.leader)
    }

    pub(crate) fn containment(&self) -> Containment {
        Containment::new(Mode::Direct, Means::Sweep)
    }

    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if std::mem::take(&mut self.paused_unsaid) {
                return Event::Paused;
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
                    return Event::Done(self.finish(status, Vec::new()));
                }
                if !self.announced {
                    self.announced = true;
                    return Event::LeaderEnded;
                }
                if self.killing_since.is_none()
                    && !self.terminating
                    && self.paused.is_none()
                    && at.elapsed() >= SETTLE
                {
                    self.leaked = true;
                    self.kill();
                }
                tokio::time::sleep(TICK).await;
            }
            if self.killing_since.is_some_and(|since| since.elapsed() > KILL_LIMIT) {
                let status = self.leader_ended.and_then(|(status, _)| status);
                return Event::Done(self.finish(status, self.unkillable()));
            }
        }
    }

    fn living(&self) -> Vec<Identity> {
        if self.leader_ended.is_some() { self.tree.living() } else { Vec::new() }
    }

    fn finish(&mut self, status: Option<ExitStatus>, unkillable: Vec<u32>) -> Done {
        let usage = if self.leader_ended.is_some() { sys::reap_with_usage(self.pid) } else { None };
        self.finished = true;
        let usage = usage.unwrap_or_default();
        let usage = Usage {
            user: usage.user,
            system: usage.system,
            peak_rss_of_largest_process: usage.peak_rss_bytes,
        };
        Done { status, began: true, leaked: self.leaked, usage, unkillable }
    }

    pub(crate) fn terminate(&mut self) {
        self.terminating = true;
        // The leader is not reaped before the end, so its group can't be another's.
        let _ = kill_process_group(self.pid, Signal::TERM);
        let _ = kill_process_group(self.pid, Signal::CONT);
        self.resume();
    }

    /// Looking at the table takes a while, so another thread does it.
    pub(crate) async fn pause(&mut self) {
        if self.paused.is_none() {
            let tree = self.tree.clone();
            let stopped = tokio::task::spawn_blocking(move || stop::stop(&tree)).await;
            self.paused = Some(stopped.unwrap_or_default());
        }
        self.paused_unsaid = true;
    }

    pub(crate) fn resume(&mut self) {
        stop::go_on(self.paused.take().unwrap_or_default());
    }

    pub(crate) fn kill(&mut self) {
        self.killing_since.get_or_insert_with(Instant::now);
        self.tree.kill();
    }

    pub(crate) fn unkillable(&self) -> Vec<u32> {
        self.tree.living().into_iter().map(|process| process.pid).collect()
    }
}

impl Drop for Direct {
    /// The driver went away before the end, for instance because its runtime was shut down.
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

type Answer = io::Result<(Pid, oneshot::Receiver<Option<ExitStatus>>)>;
type Request = (Start, oneshot::Sender<Answer>);

/// Spawns on the one thread that never ends: on Linux a child dies with the thread that spawned it.
async fn spawn_on_spawner(start: Start) -> Answer {
    static SPAWNER: OnceLock<Option<mpsc::Sender<Request>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
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
    let lost = || io::Error::other("the spawner thread could not be started");
    let (sender, answer) = oneshot::channel();
    spawner.as_ref().ok_or_else(lost)?.send((start, sender)).map_err(|_| lost())?;
    answer.await.map_err(|_| lost())?
}

fn spawn(start: Start) -> Answer {
    let exec = env::exec(&start.program, &start.arg0, &start.args, start.env.iter(), &start.id)?;
    let mut command = Command::new(&start.program);
    command.current_dir(&start.cwd);
    command
        .stdin(start.stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(start.stdout)
        .stderr(start.stderr);
    sys::execute_in_own_session(&mut command, exec);
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts children directly")]
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new().name("yb-waiter".to_owned()).spawn(move || {
        // Left unreaped, so that pid and group stay the child's until the tree is dead.
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
