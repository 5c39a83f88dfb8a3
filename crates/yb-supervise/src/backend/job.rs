//! Windows: the tree lives in a job object that ends it when the last handle closes, also when the host dies.

use std::io;
use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject};

use super::{Done, Event, exec_error};
use crate::error::SpawnError;
use crate::plan::Start;
use crate::record::{Identity, TreeRecord};
use crate::report::{Containment, ExitStatus, Means, Mode, Usage};

/// A tree in a job object.
#[derive(Debug)]
pub(crate) struct Job {
    child: Box<dyn ChildWrapper>,
    pid: u32,
    id: String,
    paused_unsaid: bool,
}

impl Job {
    pub(crate) fn start(start: Start) -> Result<Self, SpawnError> {
        let (program, cwd, id) = (start.program.clone(), start.cwd.clone(), start.id.clone());
        let mut command = CommandWrap::with_new(&start.program, |command| {
            command.args(&start.args).current_dir(&start.cwd).env_clear().envs(&start.env);
            command.env(crate::env::MARKER, &start.id).kill_on_drop(true);
            command.stdin(start.stdin.map_or_else(Stdio::null, Stdio::from));
            command.stdout(start.stdout).stderr(start.stderr);
        });
        let child = command.wrap(JobObject).spawn().map_err(|source| exec_error(source, program, cwd, 0))?;
        let pid = child.id().unwrap_or(0);
        Ok(Self { child, pid, id, paused_unsaid: false })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The system ends a job with its last handle, so that a host that died leaves nothing to be found.
    pub(crate) fn record(&self) -> TreeRecord {
        TreeRecord::new(self.id.clone(), Identity { pid: self.pid, start: 0 })
    }

    pub(crate) fn containment(&self) -> Containment {
        Containment::new(Mode::Contained, Means::JobObject)
    }

    /// The processes go on: a job object can't hold them. The host's clocks do stand still.
    pub(crate) fn pause(&mut self) {
        self.paused_unsaid = true;
    }

    pub(crate) async fn next(&mut self) -> Event {
        if std::mem::take(&mut self.paused_unsaid) {
            return Event::Paused;
        }
        let status: io::Result<_> = self.child.wait().await;
        let status = status.ok().and_then(|status| status.code()).map(ExitStatus::Code);
        self.kill();
        Event::Done(Done {
            status,
            began: true,
            leaked: false,
            usage: Usage::default(),
            unkillable: Vec::new(),
        })
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.start_kill();
    }
}
