//! A run that another process writes: its progress as events.

use std::fs;
use std::io::Write as _;

use yb_engine::run::{LockAttempt, RunLock};
use yb_testkit::RecordedRun;

use crate::client::{events, get, next_event};
use crate::serve;

const RUN: &str = "/runs/nightly-2026-11-15-1794765306041";

/// Keeps the first lines of the journal and returns the others.
pub(crate) fn unfinished(run: &std::path::Path, keep: usize) -> Vec<String> {
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    let lines: Vec<String> = journal.lines().map(|line| format!("{line}\n")).collect();
    fs::write(run.join("journal.jsonl"), lines[..keep].concat()).unwrap();
    lines[keep..].to_vec()
}

/// Locks a run as the process does that executes it.
pub(crate) fn hold(run: &std::path::Path) -> RunLock {
    match RunLock::try_acquire(&run.join("run.lock")).unwrap() {
        LockAttempt::Acquired(lock) => lock,
        other => panic!("{other:?}"),
    }
}

#[test]
fn progress_is_sent_until_the_run_ends() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun::example().write(root.path());
    let rest = unfinished(&run, 4);
    let lock = hold(&run);
    let server = serve(root.path());
    let page = get(&server, RUN).body;
    assert!(page.contains("data-events=\"/runs/nightly-2026-11-15-1794765306041/events\""), "{page}");
    assert!(page.contains("1 of 45 trials") && page.contains("class=\"since\""), "{page}");
    let mut stream = events(&server, &format!("{RUN}/events"));
    let first = next_event(&mut stream).unwrap();
    assert_eq!(first["active"], true);
    let mut journal = fs::File::options().append(true).open(run.join("journal.jsonl")).unwrap();
    journal.write_all(rest[0].as_bytes()).unwrap();
    let second = next_event(&mut stream).unwrap();
    assert!(second["html"].as_str().unwrap().contains("2 of 45 trials"), "{second}");
    assert_ne!(first["key"], second["key"]);
    journal.write_all(rest[1..].concat().as_bytes()).unwrap();
    let mut last = next_event(&mut stream).unwrap();
    drop(lock);
    while last["active"] == true {
        last = next_event(&mut stream).unwrap();
    }
    assert!(last["html"].as_str().unwrap().contains("45 of 45 trials"), "{last}");
    assert_eq!(next_event(&mut stream), None, "the stream ends with the run");
    let page = get(&server, RUN).body;
    assert!(!page.contains("data-events") && page.contains("finished"));
}

#[test]
fn killed_run_says_how_to_continue() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun::example().write(root.path());
    let _ = unfinished(&run, 4);
    let server = serve(root.path());
    let page = get(&server, RUN).body;
    assert!(page.contains("was killed") && page.contains("yb run --resume nightly"), "{page}");
    assert!(!page.contains("data-events"));
}

#[test]
fn list_is_told_about_changes() {
    let root = tempfile::tempdir().unwrap();
    let server = serve(root.path());
    let mut stream = events(&server, "/events");
    // The first look is before the run is there.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let _ = RecordedRun::example().write(root.path());
    assert!(next_event(&mut stream).unwrap()["key"].is_u64());
}
