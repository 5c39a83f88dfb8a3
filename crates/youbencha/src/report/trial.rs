//! Terminal output of one trial: brief at the end of a run, detailed for `yb show`.

use std::path::Path;

use serde_json::Value;
use yb_engine::case::NetworkMode;
use yb_engine::log::{ExecutionStatus, UsageSource, YouBenchaLog};
use yb_engine::run::{AttemptRecord, PlannedTrial, RunDir, RunInfo, RunState, Spend};
use yb_engine::tape::{TapeHow, TapeUse};
use yb_engine::wiring::{AddOnKind, WiringStatus};
use yb_figures::{duration_ms, money, plural, timestamp};

use super::TrialNames;
use super::reasons::{self, GradedResult, one_line};
use crate::printer::{Printer, StyledText};
use crate::workspace::display_path;

/// Prints the only trial of a run.
pub(crate) fn brief(run: &RunDir, trial: &PlannedTrial, state: &RunState, printer: &mut Printer) {
    let Some(last) = state.get(&trial.folder).and_then(|state| state.attempts.last()) else { return };
    for warning in &last.warnings {
        printer.note(format_args!("warning: {warning}"));
    }
    let line = StyledText::new().text(format_args!("{}: ", trial.case));
    printer.line(line.styled(reasons::style(last.outcome), last.outcome));
    let artifacts = run.artifacts(&trial.folder, last.attempt);
    match YouBenchaLog::read(&artifacts.join(yb_engine::log::FILE_NAME)) {
        Ok(log) => agent(&log, last.tape.as_deref(), printer),
        Err(_) => {
            if let Some(error) = &last.error {
                printer.line(format_args!("  error: {error}"));
            }
        }
    }
    show_evaluators(&artifacts, printer);
    printer.line(format_args!("  artifacts: {}", display_path(&artifacts)));
}

fn agent(log: &YouBenchaLog, tape: Option<&TapeUse>, printer: &mut Printer) {
    let status = match log.execution.status {
        ExecutionStatus::Success => "succeeded",
        ExecutionStatus::Failed => "failed",
        ExecutionStatus::Timeout => "timed out",
    };
    // Unreported usage is zero in the log and not shown.
    let used = match log.usage.source {
        UsageSource::Unreported => String::new(),
        _ => {
            // The cost in a script is fictional.
            let reported = log.usage.estimated_cost_usd.filter(|_| tape.is_none_or(|tape| !is_script(tape)));
            let when = if tape.is_some_and(|tape| tape.how.is_replay()) { " when recorded" } else { "" };
            let cost = reported.map(|cost| format!(", {}{when}", money(cost))).unwrap_or_default();
            format!(", model {}, {}{cost}", log.model_info.name, plural(log.usage.total_tokens, "token"))
        }
    };
    let time = duration_ms(log.execution.duration_ms);
    printer.line(format_args!("  agent: {} {status} after {time}{used}", log.agent_info.name));
    let network = match log.execution.network {
        NetworkMode::Open => String::new(),
        mode => format!(", network: {mode}"),
    };
    let filter = match log.execution.syscall_filter {
        Some(false) => ", system calls not filtered",
        _ => "",
    };
    printer.line(format_args!("  isolation: {}{filter}{network}", log.execution.isolation));
    for add_on in &log.add_ons {
        let status = match add_on.status {
            WiringStatus::Proven => "loaded",
            WiringStatus::Missing => "not loaded",
            WiringStatus::Unproven => "unproven",
        };
        let reason = add_on.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let uses = match (add_on.kind, add_on.uses) {
            (AddOnKind::Instructions, _) | (_, None) => String::new(),
            (_, Some(uses)) => format!(", {}", plural(uses, "use")),
        };
        printer.line(format_args!("  {}: {status}{reason}{uses}", add_on.label()));
    }
    if let Some(tape) = tape {
        printer.line(format_args!("  tape: {}", tape_line(tape)));
    }
    for error in &log.errors {
        printer.line(format_args!("  error: {}", error.message));
        let hints = error.context.get("hints").and_then(Value::as_array).into_iter().flatten();
        // The hints of an agent that did not start are printed with the error of the run.
        for hint in hints.filter(|_| error.code.as_deref() == Some("TAPE_DIVERGED")).filter_map(Value::as_str)
        {
            printer.line(format_args!("  hint: {hint}"));
        }
    }
}

fn is_script(tape: &TapeUse) -> bool {
    matches!(tape.how, TapeHow::Scripted | TapeHow::RecordedScript)
}

/// Describes how a tape was used.
fn tape_line(tape: &TapeUse) -> String {
    let how = match tape.how {
        TapeHow::Recorded => "recorded",
        TapeHow::Replayed => "replayed",
        TapeHow::Forked => "replayed and forked",
        TapeHow::RecordedScript => "recorded from a script",
        _ => "scripted",
    };
    let mut text =
        format!("{how}, {}: {}", plural(tape.exchanges, "exchange"), display_path(Path::new(&tape.file)));
    if tape.tolerated > 0 {
        text.push_str(&format!(", {} tolerated", plural(tape.tolerated, "differing tool result")));
    }
    if !tape.normalized.is_empty() {
        let kinds = tape.normalized.iter().map(|(kind, count)| plural(*count, kind));
        text.push_str(&format!(", normalized: {}", kinds.collect::<Vec<_>>().join(", ")));
    }
    if tape.forwarded > 0 {
        text.push_str(&format!(", {} to a live model", plural(tape.forwarded, "request")));
    }
    text
}

/// Prints the result of each evaluator, with what its runner printed about failures.
fn show_evaluators(artifacts: &Path, printer: &mut Printer) {
    let lines = GradedResult::read(artifacts).into_iter().flat_map(|one| one.lines());
    lines.for_each(|line| printer.line(line));
}

/// A trial and one of its attempts: the requested one, or the last that ended.
pub(crate) struct TrialView<'a> {
    pub(crate) info: &'a RunInfo,
    pub(crate) trial: &'a PlannedTrial,
    pub(crate) record: Option<&'a AttemptRecord>,
    /// The trial's folder in the selected grading.
    pub(crate) grading: Option<std::path::PathBuf>,
}

impl TrialView<'_> {
    pub(crate) fn artifacts(&self) -> Option<std::path::PathBuf> {
        Some(self.info.run.artifacts(&self.trial.folder, self.record?.attempt))
    }

    /// Prints all details.
    pub(crate) fn show(&self, printer: &mut Printer) {
        let state = self.info.state.get(&self.trial.folder);
        let names = TrialNames::of(&self.info.plan);
        let line = StyledText::new().text(format_args!("{}: ", names.get(&self.trial.folder)));
        printer.line(match (self.record, state.and_then(|state| state.in_flight.as_ref())) {
            (Some(record), None) => line.styled(reasons::style(record.outcome), record.outcome),
            (_, Some(_)) if self.info.active => line.text("running"),
            (_, Some(_)) => line.text("running when the run was killed"),
            (None, None) => line.text("pending"),
        });
        printer.line(format_args!(
            "  trial: {}, id {}, of {}",
            self.trial.folder,
            self.trial.id,
            self.info.run.id()
        ));
        let attempts = state.map(|state| state.attempts.as_slice()).unwrap_or_default();
        if attempts.len() > 1 || self.record.is_none_or(|record| record.attempt != attempts[0].attempt) {
            for one in attempts {
                let prefix = StyledText::new().text(format_args!("  attempt {}: ", one.attempt));
                printer.line(one_line(prefix, one));
            }
        }
        let Some((record, artifacts)) = self.record.zip(self.artifacts()) else { return };
        printer.line(format_args!("  started: {}", timestamp(&record.started_at)));
        match YouBenchaLog::read(&artifacts.join(yb_engine::log::FILE_NAME)) {
            Ok(log) => {
                agent(&log, record.tape.as_deref(), printer);
                facts(&log, record, printer);
            }
            Err(_) => {
                if let Some(error) = &record.error {
                    printer.line(format_args!("  error: {error}"));
                }
            }
        }
        show_evaluators(self.grading.as_ref().unwrap_or(&artifacts), printer);
        for warning in &record.warnings {
            printer.line(format_args!("  warning: {warning}"));
        }
        self.print_paths(&artifacts, printer);
    }

    /// Prints the existing directories and files.
    fn print_paths(&self, artifacts: &Path, printer: &mut Printer) {
        let workspace = artifacts.with_file_name("src-modified");
        let layer = artifacts.with_file_name(yb_engine::trial::WORKSPACE_LAYER);
        let changed = yb_repo::changed_files(&layer).filter(|_| !workspace.exists());
        let changed = changed.map(|path| ("changed files", path));
        let named = [("workspace", workspace), ("artifacts", artifacts.to_owned())];
        for (name, path) in named.iter().chain(&changed).filter(|(_, path)| path.exists()) {
            printer.line(format_args!("  {name}: {}", display_path(path)));
        }
        let mut files: Vec<String> = std::fs::read_dir(artifacts)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) { format!("{name}/") } else { name }
            })
            .collect();
        files.sort_unstable();
        if !files.is_empty() {
            printer.line(format_args!("    {}", files.join("  ")));
        }
    }
}

/// Prints version, exit code, turns, session and cost.
fn facts(log: &YouBenchaLog, record: &AttemptRecord, printer: &mut Printer) {
    let mut facts = Vec::new();
    if log.agent_info.version != "unknown" {
        facts.push(format!("version {}", log.agent_info.version));
    }
    facts.push(format!("exit code {}", log.execution.exit_code));
    if let Some(turns) = log.execution.num_turns {
        facts.push(plural(turns, "turn"));
    }
    if !log.tool_calls.is_empty() {
        facts.push(plural(log.tool_calls.len(), "tool call"));
    }
    if let Some(session) = &log.execution.session_id {
        facts.push(format!("session {session}"));
    }
    printer.line(format_args!("    {}", facts.join(", ")));
    if let Some(cost) = cost(&record.spend) {
        printer.line(format_args!("  cost: {cost}"));
    }
}

/// Formats the cost, by spender if there are several.
fn cost(spend: &Spend) -> Option<String> {
    let total = money(spend.total()?);
    let parts: Vec<String> =
        [("agent", spend.agent_usd), ("subagents", spend.subagents_usd), ("judge", spend.judge_usd)]
            .into_iter()
            .filter_map(|(who, usd)| Some(format!("{who} {}", money(usd?))))
            .collect();
    Some(if parts.len() > 1 { format!("{total} ({})", parts.join(", ")) } else { total })
}
