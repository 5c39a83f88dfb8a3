//! For a terminal: a line for each running trial and one for all of them, drawn over as they come further.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use owo_colors::OwoColorize as _;
use yb_engine::run::{Plan, Progress, RunEvent, RunState, RunnerEvent};
use yb_engine::trial::TrialStep;

use super::{Names, Plain, Reporter, dollars, duration};
use crate::printer::{Printer, fit};
use crate::workspace::harmless;

/// Events come faster than anybody reads.
const SHORTEST: Duration = Duration::from_millis(50);
/// The widest bar.
const BAR: usize = 30;
/// The widest name of a tool.
const TOOL: usize = 16;

/// A trial that runs.
struct Active {
    began: Instant,
    /// When the agent began, which is what its time is counted from.
    acting: Option<Instant>,
    doing: String,
    turns: u32,
    usd: Option<f64>,
}

/// A line for each running trial, and one for all of them.
pub(crate) struct Live {
    plain: Plain,
    names: Names,
    /// How long each trial's agent may take; zero is for ever.
    timeouts: HashMap<String, u64>,
    state: RunState,
    jobs: usize,
    /// In the order in which they began.
    active: Vec<(String, Active)>,
    drawn: Option<Instant>,
}

impl Live {
    /// Goes on from what is done already.
    pub(crate) fn new(plan: &Plan, state: &RunState) -> Self {
        Self {
            plain: Plain::new(plan, state.tally().done),
            names: Names::of(plan),
            timeouts: plan.trials.iter().map(|trial| (trial.folder.clone(), trial.timeout_ms)).collect(),
            state: state.clone(),
            jobs: 1,
            active: Vec::new(),
            drawn: None,
        }
    }

    fn get(&mut self, folder: &str) -> Option<&mut Active> {
        self.active.iter_mut().find(|(known, _)| known == folder).map(|(_, active)| active)
    }

    /// What opening the run recorded was folded then, and is told again.
    fn knows(&self, event: &RunEvent) -> bool {
        match event {
            RunEvent::RunStarted { .. } | RunEvent::RunResumed { .. } => true,
            RunEvent::AttemptFinished(record) => self
                .state
                .get(&record.trial)
                .is_some_and(|trial| trial.attempts.iter().any(|known| known.attempt == record.attempt)),
            _ => false,
        }
    }

    fn event(&mut self, event: &RunEvent, now: Instant) {
        match event {
            RunEvent::RunStarted { jobs, .. } | RunEvent::RunResumed { jobs, .. } => self.jobs = *jobs,
            RunEvent::AttemptStarted { trial, .. } => {
                let doing = "preparing".to_owned();
                let active = Active { began: now, acting: None, doing, turns: 0, usd: None };
                self.active.push((trial.clone(), active));
            }
            RunEvent::AttemptFinished(record) => self.active.retain(|(folder, _)| *folder != record.trial),
            _ => {}
        }
    }

    fn progress(&mut self, progress: &Progress, now: Instant) {
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

    /// What stands at the bottom now.
    fn lines(&self, (columns, rows): (usize, usize), now: Instant) -> Vec<String> {
        // The summary and the line that the cursor is on need room too.
        let room = rows.saturating_sub(2).max(1);
        let shown = if self.active.len() > room { room - 1 } else { self.active.len() };
        let cells: Vec<[String; 4]> = self.active[..shown]
            .iter()
            .map(|(folder, active)| active.cells(self.timeouts.get(folder).copied().unwrap_or(0), now))
            .collect();
        // What nobody has takes no room.
        let widths: [usize; 4] = std::array::from_fn(|column| {
            cells.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0)
        });
        let rest: usize = widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum();
        let names: Vec<String> =
            self.active[..shown].iter().map(|(folder, _)| harmless(self.names.get(folder))).collect();
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let widest = longest.min(columns.saturating_sub(rest + 3)).max(8);
        let mut lines: Vec<String> = names
            .iter()
            .zip(&cells)
            .map(|(name, [doing, turns, cost, time])| {
                let mut line = format!("  {:widest$}", fit(name, widest));
                line.push_str(&format!("  {}", format!("{doing:0$}", widths[0]).cyan()));
                for (cell, width) in [turns, cost, time].into_iter().zip(&widths[1..]) {
                    if *width > 0 {
                        line.push_str(&format!("  {cell:>width$}"));
                    }
                }
                line
            })
            .collect();
        if shown < self.active.len() {
            lines.push(format!("  and {} more", self.active.len() - shown).dimmed().to_string());
        }
        lines.push(self.total(columns, now));
        lines
    }

    /// How far all of it is, what it came to and cost, and how long it may still take.
    fn total(&self, columns: usize, now: Instant) -> String {
        let tally = self.state.tally();
        let width = (columns / 4).min(BAR);
        let filled = (tally.done * width).checked_div(tally.planned).unwrap_or(0);
        let mut parts = vec![format!("{}/{}", tally.done, tally.planned)];
        for (count, word) in
            [(tally.passed(), "passed"), (tally.failed(), "failed"), (tally.excluded(), "left out")]
        {
            let text = format!("{count} {word}");
            match (count, word) {
                (0, _) => {}
                (_, "passed") => parts.push(text.green().to_string()),
                (_, "failed") => parts.push(text.red().to_string()),
                _ => parts.push(text.yellow().to_string()),
            }
        }
        let running = self.active.iter().filter_map(|(_, active)| active.usd);
        let spent = running.chain(tally.spend.total()).reduce(|one, two| one + two);
        parts.extend(spent.map(dollars));
        parts.extend(self.remaining(tally.pending(), now).map(|left| format!("about {left} left")));
        format!("{}{} {}", "━".repeat(filled).green(), "─".repeat(width - filled).dimmed(), parts.join("  "))
    }

    /// From what trials took so far: those that run need the rest of that, the others all of it, `jobs` at a time.
    fn remaining(&self, pending: usize, now: Instant) -> Option<String> {
        let took: Vec<u64> = self
            .state
            .trials()
            .filter_map(|(_, trial)| trial.result().map(|record| record.duration_ms))
            .collect();
        let usual = took.iter().sum::<u64>().checked_div(took.len() as u64)?;
        let running = self.active.iter().map(|(_, active)| usual.saturating_sub(millis(now - active.began)));
        let waiting = pending.saturating_sub(self.active.len()) as u64;
        let work = running.sum::<u64>() + waiting * usual;
        let at_once = self.jobs.min(pending).max(1) as u64;
        (pending > 0).then(|| duration(work / at_once))
    }

    fn draw(&mut self, printer: &mut Printer) {
        let now = Instant::now();
        self.drawn = Some(now);
        printer.keep_below(self.lines(printer.size(), now));
    }
}

impl Active {
    /// What it does, its turns, its cost, its time.
    fn cells(&self, timeout_ms: u64, now: Instant) -> [String; 4] {
        let doing = fit(&harmless(&self.doing).replace(['\n', '\t'], " "), TOOL);
        let turns = match self.turns {
            0 => String::new(),
            1 => "1 turn".to_owned(),
            turns => format!("{turns} turns"),
        };
        let cost = self.usd.map(dollars).unwrap_or_default();
        let time = match self.acting {
            Some(acting) if timeout_ms > 0 => {
                format!("{}/{}", clock(millis(now - acting)), clock(timeout_ms))
            }
            Some(acting) => clock(millis(now - acting)),
            None => clock(millis(now - self.began)),
        };
        [doing, turns, cost, time]
    }
}

/// `1:23`, `1:02:03`.
fn clock(ms: u64) -> String {
    let seconds = ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 { format!("{minutes}:{seconds:02}") } else { format!("{hours}:{minutes:02}:{seconds:02}") }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Reporter for Live {
    fn told(&mut self, told: &RunnerEvent<'_>, printer: &mut Printer) {
        let now = Instant::now();
        match told {
            RunnerEvent::Event(entry) => {
                if !self.knows(&entry.event) {
                    self.state.apply(entry);
                }
                self.event(&entry.event, now);
                self.plain.told(told, printer);
            }
            RunnerEvent::Progress(progress) => {
                self.progress(progress, now);
                if !matches!(progress, Progress::Step { .. } | Progress::Live { .. }) {
                    self.plain.told(told, printer);
                }
            }
            _ => {}
        }
        if self.drawn.is_none_or(|drawn| now - drawn >= SHORTEST) {
            self.draw(printer);
        }
    }

    fn tick(&mut self, printer: &mut Printer) {
        self.draw(printer);
    }
}

#[cfg(test)]
mod tests;
