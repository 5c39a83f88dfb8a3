//! A line for everything that counts: for logs, pipes and CI jobs.

use std::time::{Duration, Instant};

use yb_engine::evaluate::EvaluatorStatus;
use yb_engine::outcome::Outcome;
use yb_engine::run::{AttemptRecord, Plan, Progress, RetryDecision, RunEvent, RunnerEvent, StopReason};
use yb_engine::trial::TrialStep;

use super::{Names, Reporter, dollars, duration};
use crate::printer::{Printer, plural};

/// Whoever reads a log wants to know that it still goes on.
const SILENCE: Duration = Duration::from_secs(60);

/// A line for everything that counts.
pub(crate) struct Plain {
    names: Names,
    planned: usize,
    done: usize,
    single: bool,
    /// What runs, and since when.
    running: Vec<(String, Instant)>,
    /// When something was last said.
    said: Instant,
}

impl Plain {
    /// `done` trials of the plan have a result already.
    pub(crate) fn new(plan: &Plan, done: usize) -> Self {
        Self {
            names: Names::of(plan),
            planned: plan.trials.len(),
            done,
            single: plan.trials.len() == 1,
            running: Vec::new(),
            said: Instant::now(),
        }
    }

    /// What runs, if nothing was said for long.
    fn heartbeat(&mut self, now: Instant) -> Option<String> {
        let ((folder, began), others) = self.running.split_first()?;
        if now.saturating_duration_since(self.said) < SILENCE {
            return None;
        }
        self.said = now;
        let since = u64::try_from((now - *began).as_millis()).unwrap_or(u64::MAX);
        let mut line = format!("still running: {} for {}", self.names.get(folder), duration(since));
        if !others.is_empty() {
            line.push_str(&format!(" and {}", plural(others.len() as u64, "other")));
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
            printer.note(format_args!("{name}: {}, will be tried again: {why}", record.outcome));
            return;
        }
        if record.outcome != Outcome::Cancelled {
            self.done += 1;
        }
        // Of a single trial, the results follow at once.
        if !self.single {
            printer.note(format_args!("[{}/{}] {name}: {}", self.done, self.planned, one_line(record)));
        }
    }
}

/// An attempt in a few words.
pub(crate) fn one_line(record: &AttemptRecord) -> String {
    let mut line = format!("{} in {}", record.outcome, duration(record.duration_ms));
    if let Some(usd) = record.spend.total() {
        line.push_str(&format!(", {}", dollars(usd)));
    }
    // Of what could not be graded, those are named that could not look.
    let wanted = match record.outcome {
        Outcome::GraderError => EvaluatorStatus::Skipped,
        _ => EvaluatorStatus::Failed,
    };
    let failed: Vec<&str> = record
        .evaluators
        .iter()
        .filter(|graded| graded.status == wanted)
        .map(|graded| graded.name.as_str())
        .collect();
    if let Some(error) = record.error.as_deref().filter(|_| record.outcome != Outcome::Passed) {
        line.push_str(&format!(": {}", error.lines().next().unwrap_or_default()));
    } else if !failed.is_empty() {
        line.push_str(&format!(": {}", failed.join(", ")));
    }
    line
}

impl Reporter for Plain {
    fn told(&mut self, told: &RunnerEvent<'_>, printer: &mut Printer) {
        // What a running agent tells is no line; whatever else happens is one, or soon is.
        if !matches!(told, RunnerEvent::Progress(Progress::Live { .. })) {
            self.said = Instant::now();
        }
        match told {
            RunnerEvent::Event(entry) => match &entry.event {
                RunEvent::AttemptStarted { trial, .. } => self.running.push((trial.clone(), Instant::now())),
                RunEvent::RunStarted { run, trials, jobs, .. } if !self.single => {
                    printer
                        .note(format_args!("run {run}: {}, {jobs} at once", plural(*trials as u64, "trial")));
                }
                RunEvent::RunResumed { pending, jobs, .. } => {
                    printer.note(format_args!(
                        "goes on: {} to do, {jobs} at once",
                        plural(*pending as u64, "trial")
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
                    TrialStep::Acting { agent } => format!("{agent} is working"),
                    TrialStep::Captured if self.single => "captured what it left".to_owned(),
                    _ => return,
                };
                if self.single {
                    printer.note(text);
                } else {
                    printer.note(format_args!("{}: {text}", self.names.get(trial)));
                }
            }
            RunnerEvent::Progress(progress) => {
                if let Some(text) = remark(progress) {
                    printer.note(text);
                }
            }
            _ => {}
        }
    }

    fn tick(&mut self, printer: &mut Printer) {
        if let Some(line) = self.heartbeat(Instant::now()) {
            printer.note(line);
        }
    }
}

/// What concerns the whole run, in words.
pub(crate) fn remark(progress: &Progress) -> Option<String> {
    Some(match progress {
        Progress::Holding { agent, for_ } => format!(
            "{agent}: the API is at its limit; nothing new starts for {}",
            duration(u64::try_from(for_.as_millis()).unwrap_or(u64::MAX))
        ),
        Progress::Draining { reason, running } => match reason {
            StopReason::Interrupted => format!(
                "stopping: {} may end; Ctrl-C again ends them now",
                plural(*running as u64, "running trial")
            ),
            StopReason::Budget => {
                format!("the budget is spent: stopping {}", plural(*running as u64, "running trial"))
            }
            _ => "stopping: nothing more can be written".to_owned(),
        },
        Progress::Killing { running } => format!("ending {}", plural(*running as u64, "running trial")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_silence_is_broken_once_a_minute() {
        let plan = super::super::tests::plan(&["a", "b"]);
        let mut plain = Plain::new(&plan, 0);
        let start = plain.said;
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(plain.heartbeat(at(100)), None, "nothing runs");
        plain.running = vec![("a--default--1".to_owned(), start), ("b--default--1".to_owned(), start)];
        assert_eq!(plain.heartbeat(at(59)), None);
        let expected = "still running: a for 1 min 30 s and 1 other; 0 of 2 done";
        assert_eq!(plain.heartbeat(at(90)).as_deref(), Some(expected));
        assert_eq!(plain.heartbeat(at(149)), None);
        assert!(plain.heartbeat(at(150)).is_some());
    }
}
