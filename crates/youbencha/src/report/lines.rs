//! Line-based progress for logs, pipes and CI jobs.

use std::time::{Duration, Instant};

use yb_engine::outcome::Outcome;
use yb_engine::run::{AttemptRecord, Plan, Progress, RetryDecision, RunEvent, RunnerEvent, StopReason};
use yb_engine::trial::TrialStep;
use yb_figures::{duration, plural};

use super::{FollowedRun, Reporter, TrialNames, one_line, reasons};
use crate::printer::{Printer, StyledText};

/// The interval of heartbeat lines.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// Prints a line for each relevant event.
pub(crate) struct LineReporter {
    run: FollowedRun,
    names: TrialNames,
    planned: usize,
    done: usize,
    single: bool,
    /// Running trials with their start times.
    running: Vec<(String, Instant)>,
    /// Time of the last line.
    last_output: Instant,
}

impl LineReporter {
    /// `done` trials of the plan have a result already.
    pub(crate) fn new(plan: &Plan, done: usize, run: FollowedRun) -> Self {
        Self {
            last_output: run.now(),
            run,
            names: TrialNames::of(plan),
            planned: plan.trials.len(),
            done,
            single: plan.trials.len() == 1,
            running: Vec::new(),
        }
    }

    /// Returns a line about running trials if nothing was printed for long.
    fn heartbeat(&mut self, now: Instant) -> Option<String> {
        let ((folder, began), others) = self.running.split_first()?;
        if now.saturating_duration_since(self.last_output) < HEARTBEAT {
            return None;
        }
        self.last_output = now;
        let mut line = format!("still running: {} for {}", self.names.get(folder), duration(now - *began));
        if !others.is_empty() {
            line.push_str(&format!(" and {}", plural(others.len(), "other")));
        }
        if !self.single {
            line.push_str(&format!("; {} of {} done", self.done, self.planned));
        }
        Some(line)
    }

    fn finished(&mut self, record: &AttemptRecord, printer: &mut Printer) {
        let name = self.names.get(&record.trial);
        if record.then == RetryDecision::Retry {
            let why = record.error.as_deref().unwrap_or_default();
            printer.note(format_args!("{name}: {}, retrying: {why}", record.outcome));
            return;
        }
        if record.outcome != Outcome::Cancelled {
            self.done += 1;
        }
        // The results of a single trial follow at once.
        if !self.single {
            let place = format!("[{}/{}] {name}: ", self.done, self.planned);
            printer.note(one_line(StyledText::new().text(place), record));
            reasons::excerpt(&self.run.dir, record).into_iter().for_each(|line| printer.note(line));
        }
    }
}

impl Reporter for LineReporter {
    fn handle(&mut self, event: &RunnerEvent<'_>, printer: &mut Printer) {
        // Live updates print nothing, so they do not delay the heartbeat.
        if !matches!(event, RunnerEvent::Progress(Progress::Live { .. })) {
            self.last_output = self.run.now();
        }
        match event {
            RunnerEvent::Event(entry) => match &entry.event {
                RunEvent::AttemptStarted { trial, .. } => self.running.push((trial.clone(), self.run.now())),
                RunEvent::RunStarted { run, trials, jobs, .. } if !self.single => {
                    printer.note(format_args!("run {run}: {}, {jobs} at once", plural(*trials, "trial")));
                }
                RunEvent::RunResumed { pending, jobs, .. } => {
                    printer.note(format_args!(
                        "resuming: {} pending, {jobs} at once",
                        plural(*pending, "trial")
                    ));
                }
                RunEvent::AttemptFinished(record) => {
                    self.running.retain(|(folder, _)| *folder != record.trial);
                    self.finished(record, printer);
                }
                _ => {}
            },
            RunnerEvent::Progress(Progress::Step { trial, step }) => {
                let text = match step {
                    TrialStep::Prepared { workspace } if self.single => {
                        format!("workspace {}", workspace.display())
                    }
                    TrialStep::Hook { command } => format!("pre-execution: {command}"),
                    TrialStep::Acting { agent } => format!("running agent `{agent}`"),
                    TrialStep::Captured if self.single => "captured the end tree".to_owned(),
                    _ => return,
                };
                if self.single {
                    printer.note(text);
                } else {
                    printer.note(format_args!("{}: {text}", self.names.get(trial)));
                }
            }
            RunnerEvent::Progress(progress) => {
                if let Some(text) = describe_progress(progress) {
                    printer.note(text);
                }
            }
            _ => {}
        }
    }

    fn tick(&mut self, printer: &mut Printer) {
        if let Some(line) = self.heartbeat(self.run.now()) {
            printer.note(line);
        }
    }
}

/// Describes progress of the whole run.
pub(crate) fn describe_progress(progress: &Progress) -> Option<String> {
    Some(match progress {
        Progress::Holding { agent, for_ } => {
            format!("{agent}: rate limited by the API; starting no trials for {}", duration(*for_))
        }
        Progress::Draining { reason, running } => match reason {
            StopReason::Interrupted => format!(
                "stopping: waiting for {}; press Ctrl-C again to kill",
                plural(*running, "running trial")
            ),
            StopReason::Budget => {
                format!("budget exhausted: stopping {}", plural(*running, "running trial"))
            }
            _ => "stopping: the disk is full or not writable".to_owned(),
        },
        Progress::Warning { message } => format!("warning: {message}"),
        Progress::Killing { running } => format!("killing {}", plural(*running, "running trial")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_is_printed_once_a_minute() {
        let plan = super::super::tests::plan(&["a", "b"]);
        let mut reporter = LineReporter::new(&plan, 0, super::super::tests::followed());
        let start = reporter.last_output;
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(reporter.heartbeat(at(100)), None, "nothing runs");
        reporter.running = vec![("a--default--1".to_owned(), start), ("b--default--1".to_owned(), start)];
        assert_eq!(reporter.heartbeat(at(59)), None);
        let expected = "still running: a for 1m 30s and 1 other; 0 of 2 done";
        assert_eq!(reporter.heartbeat(at(90)).as_deref(), Some(expected));
        assert_eq!(reporter.heartbeat(at(149)), None);
        assert!(reporter.heartbeat(at(150)).is_some());
    }
}
