use serde_json::json;
use yb_engine::adapter;
use yb_engine::run::JournalEntry;

use super::*;
use crate::report::tests::plan;

fn entry(event: &serde_json::Value) -> JournalEntry {
    let mut line = json!({"seq": 1, "at": "2026-11-15T00:00:00Z"});
    line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
    serde_json::from_value(line).unwrap()
}

/// What the lines say without colours.
fn said(live: &Live, size: (usize, usize), now: Instant) -> Vec<String> {
    let lines = live.lines(size, now);
    lines.iter().map(|line| anstream::adapter::strip_str(line).to_string().trim_end().to_owned()).collect()
}

fn started(live: &mut Live, trial: &str, now: Instant) {
    let entry = entry(&json!({"event": "attempt_started", "trial": trial, "attempt": 1}));
    live.state.apply(&entry);
    live.event(&entry.event, now);
}

fn live(cases: &[&str]) -> (Live, Instant) {
    let plan = plan(cases);
    let begun = entry(&json!({"event": "run_started", "version": 1, "run": "run-1", "youbencha": "0.1.0",
        "trials": cases.len(), "jobs": 2}));
    let mut live = Live::new(&plan, &RunState::of([&begun]));
    let now = Instant::now();
    live.event(&begun.event, now);
    (live, now)
}

#[test]
fn each_running_trial_has_a_line_and_all_have_one() {
    let (mut live, now) = live(&["fix-login", "b", "c", "d"]);
    started(&mut live, "fix-login--default--1", now);
    started(&mut live, "b--default--1", now);
    let trial = "fix-login--default--1".to_owned();
    live.progress(
        &Progress::Step { trial: trial.clone(), step: TrialStep::Acting { agent: "claude-code" } },
        now,
    );
    let mut known = adapter::Live::default();
    (known.turns, known.last_tool, known.agent_usd) = (12, Some("Bash".to_owned()), Some(0.125));
    live.progress(&Progress::Live { trial, live: known }, now);
    let finished = entry(&json!({"event": "attempt_finished", "trial": "c--default--1", "attempt": 1,
        "outcome": "failed", "then": "done", "started_at": "", "duration_ms": 100_000,
        "spend": {"agent_usd": 0.5}}));
    live.state.apply(&finished);
    let lines = said(&live, (100, 24), now + Duration::from_secs(83));
    // Three are left: each of the running two needs 17 s, the third 100 s, two at a time.
    insta::assert_snapshot!(lines.join("\n"), @r"
      fix-login  Bash       12 turns  $0.1250  1:23/5:00
      b          preparing                          1:23
    ━━━━━━─────────────────── 1/4  1 failed  $0.6250  about 1 min 7 s left
    ");
}

#[test]
fn more_trials_than_rows_are_counted() {
    let names: Vec<String> = (0..30).map(|n| format!("case-{n}")).collect();
    let (mut live, now) = live(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names {
        started(&mut live, &format!("{name}--default--1"), now);
    }
    let lines = said(&live, (40, 6), now);
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[3], "  and 27 more");
    assert!(lines[4].contains("0/30"));
    assert_eq!(said(&live, (40, 1), now).len(), 2, "the printer shows as many as there are rows for");
}

#[test]
fn what_is_told_twice_counts_once() {
    let finished = entry(&json!({"event": "attempt_finished", "trial": "a--default--1", "attempt": 1,
        "outcome": "cancelled", "then": "done", "started_at": "", "duration_ms": 0}));
    let mut live = Live::new(&plan(&["a"]), &RunState::of([&finished]));
    assert!(live.knows(&finished.event));
    live.state = RunState::default();
    assert!(!live.knows(&finished.event));
}

#[test]
fn clocks_look_like_clocks() {
    assert_eq!([5_000, 83_000, 3_723_000].map(clock), ["0:05", "1:23", "1:02:03"]);
}
