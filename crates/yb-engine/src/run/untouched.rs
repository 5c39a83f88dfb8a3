//! Beside a run: which of its cases would an agent pass that does nothing? Costs one grading per case, which is cached.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::resume::ActiveRun;
use crate::check::UntouchedCheck;
use crate::processes::ProcessLog;

/// How long a run waits at its end for checks that are still running.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The checks of a run, one at a time, so that they take little from its trials.
pub(super) struct UntouchedChecks {
    seen: HashSet<String>,
    tasks: JoinSet<Option<String>>,
    permit: Arc<Semaphore>,
    /// Their processes. They may outlive the attempts of the journal.
    processes: Option<Arc<ProcessLog>>,
}

impl UntouchedChecks {
    pub(super) fn new() -> Self {
        Self {
            seen: HashSet::new(),
            tasks: JoinSet::new(),
            permit: Arc::new(Semaphore::new(1)),
            processes: None,
        }
    }

    /// Begins the check of a trial's case, whose start tree is recorded, unless it has begun before.
    pub(super) fn begin(&mut self, active: &ActiveRun, unit: usize, tree: String) {
        let unit = &active.units[unit];
        if !self.seen.insert(unit.trial.case.clone()) {
            return;
        }
        if self.processes.is_none() {
            self.processes = ProcessLog::create(active.run.root()).ok();
        }
        // What can't be recorded is not started.
        let Some(processes) = &self.processes else { return };
        let mut runner = unit.runner.clone();
        runner.start_recorder = Some(processes.recorder());
        let check = UntouchedCheck {
            runner,
            case: unit.case.clone(),
            start: unit.start.clone(),
            run: active.run.clone(),
            objects: active.store.clone(),
            cache: active.cache.clone(),
            tree,
        };
        let (permit, case) = (Arc::clone(&self.permit), unit.trial.case.clone());
        self.tasks.spawn(async move {
            let _permit = permit.acquire().await;
            (check.passes().await == Some(true)).then(|| {
                format!("case `{case}` passes an agent that does nothing; prove its graders: `yb check FILE`")
            })
        });
    }

    /// Returns the next warning; `None` if no check is running.
    pub(super) async fn next(&mut self) -> Option<String> {
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok(Some(warning)) = ended {
                return Some(warning);
            }
        }
        None
    }

    /// Returns the warnings of the checks that end soon, and aborts the others.
    pub(super) async fn finish(mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        let wait = async {
            while let Some(warning) = self.next().await {
                warnings.push(warning);
            }
        };
        let _ = tokio::time::timeout(LAST_WAIT, wait).await;
        self.tasks.shutdown().await;
        warnings
    }
}
