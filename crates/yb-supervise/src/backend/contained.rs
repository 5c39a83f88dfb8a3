//! The host's side of a shim: starts it, gives it orders and believes what it reports.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};

use super::control::{Control, Unsent};
use super::{Done, Event};
#[cfg(target_os = "linux")]
use crate::cgroup::Cgroup;
use crate::env;
use crate::error::SpawnError;
use crate::plan::Start;
use crate::program;
use crate::record::{Identity, TreeRecord};
use crate::report::{Containment, Means, Mode};
use crate::shim::SHIM_ARGUMENT;
use crate::table::Tree;
use crate::wire::{Launch, News, Order, Stage};

/// How long a shim may take to start its child.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How often a shim that has not answered yet is continued.
const NUDGE: Duration = Duration::from_millis(100);
/// How long the host's own sweep goes on.
const SWEEP_LIMIT: Duration = Duration::from_secs(1);
/// How long a shim may take to exit after its last word.
const EXIT_LIMIT: Duration = Duration::from_millis(500);

/// A tree below a shim.
#[derive(Debug)]
pub(crate) struct Contained {
    /// Until its last word.
    control: Option<Control>,
    shim: Child,
    /// The shim, as a later process can recognise it, and its child: known once the shim has answered.
    shim_id: Option<Identity>,
    leader: Option<Identity>,
    born: std::time::Instant,
    id: String,
    means: Means,
    cgroup: Option<PathBuf>,
}

impl Contained {
    pub(crate) async fn start(shim: PathBuf, start: Start) -> Result<Self, SpawnError> {
        let total = program::total_size(&start.args, &start.env);
        let (program, cwd, forced) = (start.program.clone(), start.cwd.clone(), start.means);
        let failed = |source| SpawnError::Shim { path: shim.clone(), source };
        let mut tree = Self::order_launch(&shim, start).await.map_err(failed)?;
        let mut answer = tree.answer().await;
        if let Ok(News::Forked { pid, start, shim_start, means, cgroup }) = answer {
            tree.leader = Some(Identity { pid, start });
            tree.shim_id = tree.shim.id().map(|pid| Identity { pid, start: shim_start });
            tree.means = means;
            tree.cgroup = cgroup;
            answer = match tree.answer().await {
                // The child ran and its shim is gone: that is an end of the child, not a failure to start it.
                Err(error) if error.kind() != io::ErrorKind::TimedOut => Ok(News::Started),
                answer => answer,
            };
        }
        match answer {
            Ok(News::Started) => Ok(tree),
            Ok(News::Failed { stage, errno }) => {
                let _ = timeout(EXIT_LIMIT, tree.shim.wait()).await;
                let source = io::Error::from_raw_os_error(errno);
                Err(match (stage, forced) {
                    (Stage::Contain | Stage::Fork, Some(means)) => {
                        SpawnError::MeansUnavailable { means, source }
                    }
                    (Stage::Contain, None) => SpawnError::System { what: "contain the child", source },
                    (Stage::Fork, None) => SpawnError::System { what: "fork", source },
                    (Stage::Restrict, _) => {
                        SpawnError::System { what: "give up what the sandbox takes away", source }
                    }
                    (Stage::Exec, _) => super::exec_error(source, program, cwd, total),
                })
            }
            Ok(
                News::Forked { .. }
                | News::LeaderEnded(_)
                | News::Paused
                | News::OverLimit(_)
                | News::Done { .. },
            ) => Err(failed(io::ErrorKind::InvalidData.into())),
            Err(error) => {
                tree.sweep().await;
                Err(failed(error))
            }
        }
    }

    async fn order_launch(shim: &PathBuf, start: Start) -> io::Result<Self> {
        let born = std::time::Instant::now();
        let id = start.id.clone();
        let order = Order::Launch(Box::new(Launch {
            program: start.program,
            arg0: start.arg0,
            args: start.args,
            cwd: start.cwd,
            env: start.env.into_iter().collect(),
            means: start.means,
            sandboxed: start.sandboxed,
            rules: start.rules,
            files: start.files,
            limits: start.limits,
            id: start.id,
            stdin: start.stdin.is_some(),
            channel: start.channel.is_some(),
        }));
        let given: Vec<OwnedFd> =
            start.stdin.map(OwnedFd::from).into_iter().chain(start.channel.map(OwnedFd::from)).collect();
        let (unsent, theirs) = Unsent::new(&order, &given)?;
        drop(given);
        let mut command = tokio::process::Command::new(shim);
        command.arg(SHIM_ARGUMENT).env_clear().current_dir("/").process_group(0);
        command.stdin(OwnedFd::from(theirs)).stdout(start.stdout).stderr(start.stderr);
        #[expect(clippy::disallowed_methods, reason = "this is the one place that starts shims")]
        let shim = command.spawn()?;
        // The command holds the other ends of socket and pipes; they would never close.
        drop(command);
        let control = Some(unsent.send().await?);
        let (shim_id, leader, means, cgroup) = (None, None, Means::Sweep, None);
        Ok(Self { control, shim, shim_id, leader, born, id, means, cgroup })
    }

    /// The shim's next word. A child may run, and stop its shim, before that was said.
    async fn answer(&mut self) -> io::Result<News> {
        let limit = Instant::now() + START_LIMIT;
        while Instant::now() < limit {
            match timeout(NUDGE, self.news()).await {
                Ok(news) => return news,
                Err(_) => self.nudge(),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The next word, of however many pieces. Cancel-safe.
    async fn news(&mut self) -> io::Result<News> {
        match &mut self.control {
            Some(control) => control.next().await,
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Continues a shim that was stopped.
    fn nudge(&self) {
        if let Some(pid) = self.shim.id().and_then(|pid| Pid::from_raw(pid as i32)) {
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.leader.map_or(0, |leader| leader.pid)
    }

    pub(crate) fn record(&self) -> TreeRecord {
        let leader = self.leader.unwrap_or(Identity { pid: 0, start: 0 });
        let cgroup = self.cgroup.as_ref().and_then(|path| path.to_str()).map(str::to_owned);
        TreeRecord { shim: self.shim_id, cgroup, ..TreeRecord::new(self.id.clone(), leader) }
    }

    pub(crate) fn containment(&self) -> Containment {
        Containment::new(Mode::Contained, self.means)
    }

    pub(crate) async fn next(&mut self) -> Event {
        match self.news().await {
            Ok(News::LeaderEnded(_)) => Event::LeaderEnded,
            Ok(News::Paused) => Event::Paused,
            Ok(News::OverLimit(over)) => Event::OverLimit(over),
            Ok(News::Done { status, began, leaked, usage, unkillable }) => {
                // That it hangs up is no news.
                self.control = None;
                Event::Done(Done { status, began, leaked, usage, unkillable })
            }
            Ok(News::Forked { .. } | News::Started | News::Failed { .. }) | Err(_) => Event::Lost,
        }
    }

    /// Waits for the shim to go, after its last word.
    pub(crate) async fn close(&mut self) {
        if timeout(EXIT_LIMIT, self.shim.wait()).await.is_err() {
            let _ = self.shim.start_kill();
            let _ = timeout(EXIT_LIMIT, self.shim.wait()).await;
        }
    }

    pub(crate) fn terminate(&mut self) {
        self.order(&Order::Terminate);
    }

    pub(crate) fn pause(&mut self) {
        self.order(&Order::Pause);
    }

    pub(crate) fn resume(&mut self) {
        self.order(&Order::Resume);
    }

    pub(crate) fn kill(&mut self) {
        self.order(&Order::Kill);
    }

    fn order(&self, order: &Order) {
        if let Some(control) = &self.control {
            control.order(order);
        }
        // A shim that an agent has stopped must hear it.
        self.nudge();
    }

    pub(crate) async fn sweep(&mut self) -> Vec<u32> {
        let _ = self.shim.start_kill();
        let _ = timeout(EXIT_LIMIT, self.shim.wait()).await;
        let marker = Some(env::marker(&self.id));
        let tree = Tree { born: Some(self.born), below: None, leader: self.leader, marker };
        #[cfg(target_os = "linux")]
        let cgroup = self.cgroup.as_deref().and_then(|path| Cgroup::adopt(path).ok());
        let limit = Instant::now() + SWEEP_LIMIT;
        let left = loop {
            #[cfg(target_os = "linux")]
            if let Some(cgroup) = &cgroup {
                cgroup.kill();
            }
            let left: Vec<u32> = tree.kill().into_iter().map(|process| process.pid).collect();
            #[cfg(target_os = "linux")]
            let left = if let Some(cgroup) = &cgroup { [left, cgroup.members()].concat() } else { left };
            if left.is_empty() || Instant::now() > limit {
                break left;
            }
            sleep(Duration::from_millis(10)).await;
        };
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = &cgroup {
            cgroup.remove();
        }
        left
    }
}
