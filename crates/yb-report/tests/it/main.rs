//! Reports of recorded runs: the output of each format, and properties of all.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails its test")]

mod bounds;
mod bundles;
mod formats;
mod junit;

use yb_engine::run::RunDir;
use yb_report::Report;
use yb_testkit::RecordedRun;

/// Writes a recorded run and reads it as a report.
fn report(run: &RecordedRun) -> (tempfile::TempDir, Report) {
    let root = tempfile::tempdir().unwrap();
    let written = run.write(root.path());
    let report = Report::of(vec![yb_report::read_run(RunDir::at(written)).unwrap()]);
    (root, report)
}

/// One case, two variants: one that passed and one that failed.
fn small() -> RecordedRun {
    RecordedRun {
        cases: vec!["fix-login-redirect".to_owned()],
        variants: vec!["opus-no-tests".to_owned(), "sonnet".to_owned()],
        repeats: 1,
        hostile: String::new(),
        extra_messages: 0,
    }
}

/// An injection attempt, as it could occur in a name, prompt, diff or tool result.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>|`\"'*_]]>=cmd\u{1b}[31m\u{202e}@all";

fn hostile() -> RecordedRun {
    RecordedRun { hostile: HOSTILE.to_owned(), repeats: 1, ..RecordedRun::example() }
}
