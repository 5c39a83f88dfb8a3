//! The live display of a terminal: a line for each running trial and a progress line, redrawn in place.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use yb_engine::run::{Plan, Progress, RunEvent, RunState, RunnerEvent};
use yb_engine::trial::TrialStep;
use yb_figures::{clock_ms, money, pad_end, pad_start, plural, visible_line, width};

use super::{FollowedRun, LineReporter, Reporter, TrialNames};
use crate::printer::{Printer, Style, StyledText, fit};

/// The minimum interval between redraws on events.
const REDRAW_INTERVAL: Duration = Duration::from_millis(50);
/// The minimum width of the progress bar.
const BAR_WIDTH: usize = 10;
/// The maximum width of names while activities need the space.
const NAME_WIDTH: usize = 40;
/// The minimum width of an activity.
const ACTIVITY_WIDTH: usize = 16;

/// A running trial.
struct RunningTrial {
    began: Instant,
    /// Start of the agent, from which its timeout counts.
    acting: Option<Instant>,
    doing: String,
    turns: u32,
    usd: Option<f64>,
}

/// Shows a line for each running trial and a progress line.
pub(crate) struct LiveReporter {
    run: FollowedRun,
    began: Instant,
    lines: LineReporter,
    names: TrialNames,
    /// The timeout of each trial; 0 means no limit.
    timeouts: HashMap<String, u64>,
    state: RunState,
    jobs: usize,
    /// In start order.
    active: Vec<(String, RunningTrial)>,
    drawn: Option<Instant>,
}

impl LiveReporter {
    /// Creates a reporter for a new or resumed run.
    pub(crate) fn new(plan: &Plan, state: &RunState, run: FollowedRun) -> Self {
        Self {
            began: run.now(),
            lines: LineReporter::new(plan, state.tally().done, run.clone()),
            run,
            names: TrialNames::of(plan),
            timeouts: plan.trials.iter().map(|trial| (trial.folder.clone(), trial.timeout_ms)).collect(),
            state: state.clone(),
            jobs: 1,
            active: Vec::new(),
            drawn: None,
        }
    }

    fn get(&mut self, folder: &str) -> Option<&mut RunningTrial> {
        self.active.iter_mut().find(|(known, _)| known == folder).map(|(_, active)| active)
    }

    /// Returns whether an event is already part of the state: events of opening the run are sent again.
    fn is_known(&self, event: &RunEvent) -> bool {
        match event {
            RunEvent::RunStarted { .. } | RunEvent::RunResumed { .. } => true,
            RunEvent::AttemptFinished(record) => self
                .state
                .get(&record.trial)
                .is_some_and(|trial| trial.attempts.iter().any(|known| known.attempt == record.attempt)),
            _ => false,
        }
    }

    fn apply_event(&mut self, event: &RunEvent, now: Instant) {
        match event {
            RunEvent::RunStarted { jobs, .. } | RunEvent::RunResumed { jobs, .. } => self.jobs = *jobs,
            RunEvent::AttemptStarted { trial, .. } => {
                let doing = "preparing".to_owned();
                let active = RunningTrial { began: now, acting: None, doing, turns: 0, usd: None };
                self.active.push((trial.clone(), active));
            }
            RunEvent::AttemptFinished(record) => self.active.retain(|(folder, _)| *folder != record.trial),
            _ => {}
        }
    }

    fn apply_progress(&mut self, progress: &Progress, now: Instant) {
        match progress {
            Progress::Step { trial, step } => {
                let Some(active) = self.get(trial) else { return };
                match step {
                    TrialStep::Hook { command } => active.doing = command.clone(),
                    TrialStep::Acting { agent } => {
                        active.acting = Some(now);
                        active.doing = (*agent).to_owned();
                    }
                    TrialStep::Captured => active.doing = "grading".to_owned(),
                    _ => {}
                }
            }
            Progress::Live { trial, live } => {
                let Some(active) = self.get(trial) else { return };
                active.turns = live.turns;
                if let Some(tool) = &live.last_tool {
                    active.doing.clone_from(tool);
                }
                active.usd = match (live.agent_usd, live.subagents_usd) {
                    (None, None) => None,
                    (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
                };
            }
            _ => {}
        }
    }

    /// Renders the status lines.
    fn status_lines(&self, (columns, rows): (usize, usize), now: Instant) -> Vec<StyledText> {
        // The progress line and the cursor line need space too.
        let room = rows.saturating_sub(2).max(1);
        let shown = if self.active.len() > room { room - 1 } else { self.active.len() };
        let cells: Vec<[String; 4]> = self.active[..shown]
            .iter()
            .map(|(folder, active)| active.cells(self.timeouts.get(folder).copied().unwrap_or(0), now))
            .collect();
        // Empty columns take no space.
        let mut widths: [usize; 4] =
            std::array::from_fn(|column| cells.iter().map(|cells| width(&cells[column])).max().unwrap_or(0));
        let names: Vec<String> = self.active[..shown]
            .iter()
            .map(|(folder, _)| visible_line(self.names.get(folder)).into_owned())
            .collect();
        let longest = names.iter().map(|name| width(name)).max().unwrap_or(0);
        // The activity gets the space that the other columns leave.
        let numbers: usize = widths[1..].iter().filter(|width| **width > 0).map(|width| width + 2).sum();
        let left = columns.saturating_sub(numbers + longest.min(NAME_WIDTH) + 5);
        widths[0] = widths[0].min(left.max(ACTIVITY_WIDTH));
        let rest = numbers + widths[0] + 2;
        let widest = longest.min(columns.saturating_sub(rest + 3)).max(8);
        let mut lines: Vec<StyledText> = names
            .iter()
            .zip(&cells)
            .map(|(name, [doing, turns, cost, time])| {
                let mut line = StyledText::new().text("  ").text(pad_end(&fit(name, widest), widest));
                line = line.text("  ").styled(Style::Cyan, pad_end(&fit(doing, widths[0]), widths[0]));
                for (cell, width) in [turns, cost, time].into_iter().zip(&widths[1..]) {
                    if *width > 0 {
                        line = line.text("  ").text(pad_start(cell, *width));
                    }
                }
                line
            })
            .collect();
        if shown < self.active.len() {
            let more = format!("  and {} more", self.active.len() - shown);
            lines.push(StyledText::new().styled(Style::Dim, more));
        }
        lines.push(self.progress_line(columns, now));
        lines
    }

    /// Renders the progress line: done, outcomes, cost, elapsed and estimated remaining time; the bar takes the rest of the width.
    fn progress_line(&self, columns: usize, now: Instant) -> StyledText {
        let tally = self.state.tally();
        let counts = [
            (tally.passed(), "passed", Style::Green),
            (tally.failed(), "failed", Style::BoldRed),
            (tally.excluded(), "excluded", Style::Yellow),
        ];
        let mut parts: Vec<(Style, String)> =
            vec![(Style::Plain, format!(" {}/{}", tally.done, tally.planned))];
        for (count, word, style) in counts.into_iter().filter(|(count, ..)| *count > 0) {
            parts.push((style, format!("{count} {word}")));
        }
        let running = self.active.iter().filter_map(|(_, active)| active.usd);
        let spent = running.chain(tally.spend.total()).reduce(|one, two| one + two);
        parts.extend(spent.map(|spent| (Style::Plain, money(spent))));
        parts.push((Style::Plain, format!("{} elapsed", clock_ms(millis(now - self.began)))));
        if let Some(left) = self.remaining(tally.pending(), now) {
            parts.push((Style::Plain, format!("about {left} remaining")));
        }
        let texts: usize = parts.iter().map(|(_, text)| width(text) + 2).sum();
        // The first part has no space before it, and the last column stays free.
        let bar = (columns + 1).saturating_sub(texts).max(BAR_WIDTH);
        let filled = (tally.done * bar).checked_div(tally.planned).unwrap_or(0);
        let line = StyledText::new()
            .styled(Style::Green, "━".repeat(filled))
            .styled(Style::Dim, "─".repeat(bar - filled));
        parts.into_iter().enumerate().fold(line, |line, (at, (style, text))| {
            line.text(if at == 0 { "" } else { "  " }).styled(style, text)
        })
    }

    /// Estimates the remaining time from the mean duration of finished trials, with `jobs` trials at once.
    fn remaining(&self, pending: usize, now: Instant) -> Option<String> {
        let took: Vec<u64> = self
            .state
            .trials()
            .filter_map(|(_, trial)| trial.result().map(|record| record.duration_ms))
            .collect();
        let mean = took.iter().sum::<u64>().checked_div(took.len() as u64)?;
        let running = self.active.iter().map(|(_, active)| mean.saturating_sub(millis(now - active.began)));
        let waiting = pending.saturating_sub(self.active.len()) as u64;
        let work = running.sum::<u64>() + waiting * mean;
        let at_once = self.jobs.min(pending).max(1) as u64;
        (pending > 0).then(|| yb_figures::duration_ms(work / at_once))
    }

    fn draw(&mut self, printer: &mut Printer) {
        let now = self.run.now();
        self.drawn = Some(now);
        printer.set_status_lines(self.status_lines(printer.size(), now));
    }
}

impl RunningTrial {
    /// Returns the cells: activity, turns, cost, time.
    fn cells(&self, timeout_ms: u64, now: Instant) -> [String; 4] {
        let doing = visible_line(&self.doing).replace('\t', " ");
        let turns = if self.turns == 0 { String::new() } else { plural(self.turns, "turn") };
        let cost = self.usd.map(money).unwrap_or_default();
        let time = match self.acting {
            Some(acting) if timeout_ms > 0 => {
                format!("{}/{}", clock_ms(millis(now - acting)), clock_ms(timeout_ms))
            }
            Some(acting) => clock_ms(millis(now - acting)),
            None => clock_ms(millis(now - self.began)),
        };
        [doing, turns, cost, time]
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Reporter for LiveReporter {
    fn handle(&mut self, event: &RunnerEvent<'_>, printer: &mut Printer) {
        let now = self.run.now();
        match event {
            RunnerEvent::Event(entry) => {
                if !self.is_known(&entry.event) {
                    self.state.apply(entry);
                }
                self.apply_event(&entry.event, now);
                self.lines.handle(event, printer);
            }
            RunnerEvent::Progress(progress) => {
                self.apply_progress(progress, now);
                if !matches!(progress, Progress::Step { .. } | Progress::Live { .. }) {
                    self.lines.handle(event, printer);
                }
            }
            _ => {}
        }
        if self.drawn.is_none_or(|drawn| now - drawn >= REDRAW_INTERVAL) {
            self.draw(printer);
        }
    }

    fn tick(&mut self, printer: &mut Printer) {
        self.draw(printer);
    }
}

#[cfg(test)]
mod tests;
