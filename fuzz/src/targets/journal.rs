//! Journals of runs, and reports that are folded from them.

use std::fs;

use yb_engine::run::{Journal, RunDir, RunEvent, RunResults, RunState, read_journal};

use super::{Probe, Target, magnitude, require, results};
use crate::corpus::Seeds;

/// The plan of the seeds.
const PLAN: &str = include_str!("../../seeds/journal/plan.json");

pub(super) const TARGET: Target = Target {
    name: "journal",
    about: "journals: any prefix is read and folded, what was appended is read back, reports are written",
    seeds: || Seeds::new().files("fuzz/seeds/journal", ".jsonl")?.schema("run-results.schema.json"),
    check,
};

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let run = RunDir::at(probe.path("run"));
    fs::create_dir_all(run.path()).map_err(|error| format!("fuzzer can't create a directory: {error}"))?;
    probe.write("run/plan.json", PLAN.as_bytes())?;
    probe.write("run/journal.jsonl", input)?;
    match read_journal(&run.journal()) {
        Ok(found) => {
            let state = RunState::of(&found.entries);
            let torn = usize::try_from(found.torn).unwrap_or(usize::MAX);
            require(torn <= input.len(), "an incomplete line lies in the file", || format!("{torn}"))?;
            probe.saw(&(magnitude(found.entries.len()), torn == 0));
            fold(probe, &state);
        }
        Err(error) => probe.saw_message(error.to_string().split("`").last().unwrap_or_default()),
    }
    report(probe, &run)?;
    appended(probe, &run, input)
}

fn fold(probe: &mut Probe, state: &RunState) {
    for (_, trial) in state.trials() {
        let (next, retries) = (trial.next_attempt(), trial.consecutive_retries());
        probe.saw(&(trial.result().map(|record| record.outcome), next.min(5), retries.min(5)));
    }
    let tally = state.tally();
    probe.saw(&(
        tally.pending().min(4),
        tally.passed().min(4),
        tally.failed().min(4),
        tally.excluded().min(4),
    ));
}

/// Appends the events of the input as a run would, and reads them back, whole and cut at any point.
fn appended(probe: &mut Probe, run: &RunDir, input: &[u8]) -> Result<(), String> {
    let parsed = |line: &[u8]| serde_json::from_slice::<RunEvent>(line).ok();
    let events: Vec<RunEvent> = input.split(|byte| *byte == b'\n').filter_map(parsed).take(200).collect();
    if events.is_empty() {
        return Ok(());
    }
    let path = run.journal();
    let _ = fs::remove_file(&path);
    let failed = |error| format!("a journal can be written: {error}");
    let mut journal = Journal::create(&path).map_err(failed)?;
    journal.append(events.iter().cloned()).map_err(failed)?;
    let bytes = fs::read(&path).map_err(|error| format!("a journal can be read: {error}"))?;
    let Ok(found) = read_journal(&path) else {
        // An event may state that it is from a newer version.
        return Ok(());
    };
    let read: Vec<RunEvent> = found.entries.into_iter().map(|entry| entry.event).collect();
    require(read == events, "events that were appended are read back", || format!("{read:?} {events:?}"))?;
    report(probe, run)?;
    for share in 1..8 {
        let cut = &bytes[..bytes.len() * share / 8];
        probe.write("run/journal.jsonl", cut)?;
        let found = read_journal(&path).map_err(|error| format!("a prefix of a journal is read: {error}"))?;
        fold(probe, &RunState::of(&found.entries));
        let complete = cut.iter().filter(|byte| **byte == b'\n').count();
        require(found.entries.len() == complete, "a prefix has all complete entries", || {
            format!("{} of {complete}", found.entries.len())
        })?;
    }
    Ok(())
}

fn report(probe: &mut Probe, run: &RunDir) -> Result<(), String> {
    let Ok(info) = yb_engine::run::RunInfo::read(run.clone()) else { return Ok(()) };
    let folded = RunResults::of(&info.plan, &info.state);
    results::stable(probe, &folded)?;
    match yb_report::read_run(run.clone()) {
        Ok(run) => results::render(probe, run),
        // Artifacts that the journal names with another digest are refused.
        Err(error) if error.to_string().contains("changed since it was recorded") => Ok(()),
        Err(error) => Err(format!("a readable run has a report: {error}")),
    }
}
