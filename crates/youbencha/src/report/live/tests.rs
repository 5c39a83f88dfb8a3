use serde_json::json;
use yb_engine::adapter;
use yb_engine::run::JournalEntry;

use super::*;
use crate::report::tests::{followed, plan};

fn entry(event: &serde_json::Value) -> JournalEntry {
    let mut line = json!({"seq": 1, "at": "2026-11-15T00:00:00Z"});
    line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
    serde_json::from_value(line).unwrap()
}

/// Returns the status lines without color.
fn plain_lines(live: &LiveReporter, size: (usize, usize), now: Instant) -> Vec<String> {
    let lines = live.status_lines(size, now);
    lines.iter().map(|line| line.render(false).trim_end().to_owned()).collect()
}

fn started(live: &mut LiveReporter, trial: &str, now: Instant) {
    let entry = entry(&json!({"event": "attempt_started", "trial": trial, "attempt": 1}));
    live.state.apply(&entry);
    live.apply_event(&entry.event, now);
}

fn live(cases: &[&str]) -> (LiveReporter, Instant) {
    let plan = plan(cases);
    let begun = entry(&json!({"event": "run_started", "version": 1, "run": "run-1", "youbencha": "0.1.0",
        "trials": cases.len(), "jobs": 2}));
    let mut live = LiveReporter::new(&plan, &RunState::of([&begun]), followed());
    let now = live.began;
    live.apply_event(&begun.event, now);
    (live, now)
}

#[test]
fn running_trials_have_a_line_each_and_a_progress_line() {
    let (mut live, now) = live(&["fix-login", "b", "c", "d"]);
    started(&mut live, "fix-login--default--1", now);
    started(&mut live, "b--default--1", now);
    let trial = "fix-login--default--1".to_owned();
    live.apply_progress(
        &Progress::Step { trial: trial.clone(), step: TrialStep::Acting { agent: "claude-code" } },
        now,
    );
    let mut known = adapter::Live::default();
    (known.turns, known.last_tool, known.agent_usd) = (12, Some("Bash".to_owned()), Some(0.125));
    live.apply_progress(&Progress::Live { trial, live: known }, now);
    let finished = entry(&json!({"event": "attempt_finished", "trial": "c--default--1", "attempt": 1,
        "outcome": "failed", "then": "done", "started_at": "", "duration_ms": 100_000,
        "spend": {"agent_usd": 0.5}}));
    live.state.apply(&finished);
    let lines = plain_lines(&live, (100, 24), now + Duration::from_secs(83));
    // Three are left: each of the running two needs 17 s, the third 100 s, two at a time.
    insta::assert_snapshot!(lines.join("\n"), @r"
      fix-login  Bash       12 turns  $0.12  1:23/5:00
      b          preparing                        1:23
    ━━━━━━━━━━────────────────────────────── 1/4  1 failed  $0.62  1:23 elapsed  about 1m 07s remaining
    ");
}

#[test]
fn trials_beyond_the_rows_are_counted() {
    let names: Vec<String> = (0..30).map(|n| format!("case-{n}")).collect();
    let (mut live, now) = live(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names {
        started(&mut live, &format!("{name}--default--1"), now);
    }
    let lines = plain_lines(&live, (40, 6), now);
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[3], "  and 27 more");
    assert!(lines[4].contains("0/30"));
    assert_eq!(plain_lines(&live, (40, 1), now).len(), 2, "the printer shows as many as there are rows for");
}

#[test]
fn repeated_events_count_once() {
    let finished = entry(&json!({"event": "attempt_finished", "trial": "a--default--1", "attempt": 1,
        "outcome": "cancelled", "then": "done", "started_at": "", "duration_ms": 0}));
    let mut live = LiveReporter::new(&plan(&["a"]), &RunState::of([&finished]), followed());
    assert!(live.is_known(&finished.event));
    live.state = RunState::default();
    assert!(!live.is_known(&finished.event));
}
