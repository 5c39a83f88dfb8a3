//! What must stay small: pages of 10,000 trials, a transcript of 100 MB, many open pages.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use yb_testkit::RecordedRun;

use crate::client::{events, get, next_event};
use crate::live::{hold, unfinished};
use crate::serve;

const RUN: &str = "/runs/nightly-2026-11-15-1794765306041";

/// Tests are built without optimization; the benchmark `view` has the limits of a release.
const SLOW_BUILD: u32 = 20;

fn many() -> RecordedRun {
    RecordedRun {
        cases: (0..500).map(|number| format!("case-{number}")).collect(),
        variants: ["sonnet", "opus", "haiku", "other"].map(str::to_owned).to_vec(),
        repeats: 5,
        ..RecordedRun::example()
    }
}

#[test]
fn ten_thousand_trials_fit_on_small_pages() {
    let root = tempfile::tempdir().unwrap();
    let _ = many().write(root.path());
    let server = serve(root.path());
    for path in [
        "/".to_owned(),
        RUN.to_owned(),
        format!("{RUN}?page=100&sort=-cost"),
        format!("{RUN}?q=case-499&outcome=failed"),
        format!("{RUN}/review"),
        format!("{RUN}/trials/case-7--opus--1"),
    ] {
        let _ = get(&server, &path);
        let began = Instant::now();
        let page = get(&server, &path);
        let took = began.elapsed();
        assert_eq!(page.status, 200, "{path}");
        assert!(page.body.len() < 300_000, "{path}: {} bytes", page.body.len());
        assert!(took < Duration::from_millis(100) * SLOW_BUILD, "{path}: {took:?}");
    }
    assert!(get(&server, RUN).body.contains("page 1 of 100"));
}

#[test]
fn huge_transcript_opens_at_once_and_is_sent_as_a_file() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun { repeats: 1, ..RecordedRun::example() }.write(root.path());
    let log = run.join("trials/csv-export--opus--1/attempt-1/artifacts/youbencha-log.json");
    let mut file = fs::File::create(&log).unwrap();
    let part = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        file.write_all(&part).unwrap();
    }
    drop(file);
    let server = serve(root.path());
    let _ = get(&server, RUN);
    let began = Instant::now();
    let page = get(&server, &format!("{RUN}/trials/csv-export--opus--1")).body;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(page.contains("too large for a page") && page.contains("files/youbencha-log.json"), "{page}");
    let sent = get(&server, &format!("{RUN}/trials/csv-export--opus--1/files/youbencha-log.json"));
    assert_eq!(sent.body.len() / (1 << 20), 100);
}

#[test]
fn twenty_pages_follow_a_hundred_events_per_second() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun { repeats: 8, ..RecordedRun::example() }.write(root.path());
    let rest = unfinished(&run, 1);
    let lock = hold(&run);
    let server = serve(root.path());
    let mut streams: Vec<_> = (0..20).map(|_| events(&server, &format!("{RUN}/events"))).collect();
    for stream in &mut streams {
        assert_eq!(next_event(stream).unwrap()["active"], true);
    }
    let mut journal = fs::File::options().append(true).open(run.join("journal.jsonl")).unwrap();
    let (lines, last) = rest.split_at(200);
    let _ = last;
    let began = Instant::now();
    for (at, line) in lines.iter().enumerate() {
        journal.write_all(line.as_bytes()).unwrap();
        let due = Duration::from_millis(10) * u32::try_from(at + 1).unwrap();
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    let written = Instant::now();
    for stream in &mut streams {
        loop {
            let event = next_event(stream).unwrap();
            // Every page has the newest state, not all states in between.
            if event["html"].as_str().unwrap().contains("100 of 120 trials") {
                break;
            }
        }
    }
    assert!(written.elapsed() < Duration::from_millis(200) * 5, "{:?}", written.elapsed());
    drop(lock);
}
