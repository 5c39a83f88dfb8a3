//! Windows: the tree lives in a job object, which kills it when the last handle closes, also when the host
//! dies.

use std::io;
use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject};

use super::{TreeEvent, TreeOutcome, exec_error};
use crate::error::SpawnError;
use crate::plan::SpawnPlan;
use crate::record::{ProcessIdentity, TreeRecord};
use crate::report::{Containment, ContainmentMethod, ContainmentMode, ExitStatus, Usage};

/// A tree in a job object.
#[derive(Debug)]
pub(crate) struct JobTree {
    child: Box<dyn ChildWrapper>,
    pid: u32,
    id: String,
    pause_unconfirmed: bool,
}

impl JobTree {
    pub(crate) fn start(start: SpawnPlan) -> Result<Self, SpawnError> {
        let (program, cwd, id) = (start.program.clone(), start.cwd.clone(), start.id.clone());
        let mut command = CommandWrap::with_new(&start.program, |command| {
            command.args(&start.args).current_dir(&start.cwd).env_clear().envs(&start.env);
            command.env(crate::env::MARKER, &start.id).kill_on_drop(true);
            command.stdin(start.stdin.map_or_else(Stdio::null, Stdio::from));
            command.stdout(start.stdout).stderr(start.stderr);
        });
        let child = command.wrap(JobObject).spawn().map_err(|source| exec_error(source, program, cwd, 0))?;
        let pid = child.id().unwrap_or(0);
        Ok(Self { child, pid, id, pause_unconfirmed: false })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Windows kills a job with its last handle, so nothing survives a dead host.
    pub(crate) fn record(&self) -> TreeRecord {
        TreeRecord::new(self.id.clone(), ProcessIdentity { pid: self.pid, start: 0 })
    }

    pub(crate) fn containment(&self) -> Containment {
        Containment::new(ContainmentMode::Contained, ContainmentMethod::JobObject)
    }

    /// Suspends only the deadline: a job object can't suspend its processes.
    pub(crate) fn pause(&mut self) {
        self.pause_unconfirmed = true;
    }

    pub(crate) async fn next(&mut self) -> TreeEvent {
        if std::mem::take(&mut self.pause_unconfirmed) {
            return TreeEvent::Paused;
        }
        let status: io::Result<_> = self.child.wait().await;
        let status = status.ok().and_then(|status| status.code()).map(ExitStatus::Code);
        self.kill();
        TreeEvent::Finished(TreeOutcome {
            status,
            program_started: true,
            leaked: false,
            usage: Usage::default(),
            unkillable: Vec::new(),
        })
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.start_kill();
    }
}
