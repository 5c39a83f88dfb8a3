//! Forms that control a run, and the queue of reviewers.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use yb_testkit::RecordedRun;
use yb_view::{Activity, Controls, RunAction, ViewOptions, ViewServer};

use crate::client::{get, known, send};
use crate::live::{hold, unfinished};
use crate::serve;

const ID: &str = "nightly-2026-11-15-1794765306041";

/// Records requests.
#[derive(Default)]
struct Recorded {
    actions: Mutex<Vec<RunAction>>,
}

impl Controls for Recorded {
    fn executes(&self, run: &str) -> bool {
        run == ID
    }

    fn request(&self, _run: &str, action: RunAction) -> Result<(), String> {
        self.actions.lock().unwrap().push(action);
        Ok(())
    }

    fn activity(&self, _run: &str) -> Activity {
        let now = "turn 3 · Bash: cargo test <b>".to_owned();
        Activity { version: 1, trials: BTreeMap::from([("add-pagination--sonnet--1".to_owned(), now)]) }
    }

    fn start(&self, _arguments: &[String]) -> Result<(), String> {
        Err("not here".to_owned())
    }
}

fn form_of(page: &str) -> String {
    page.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

fn post(server: &ViewServer, path: &str, body: &str) -> crate::client::Response {
    let own = format!("\nOrigin: http://127.0.0.1:{}", server.address().port());
    send(server, &format!("POST {path} HTTP/1.1\n{}{own}", known(server)), body)
}

#[test]
fn own_run_is_controlled_and_other_runs_are_not() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun::example().write(root.path());
    let other = run.with_file_name("nightly-2026-11-14-1794678906041");
    fs::create_dir(&other).unwrap();
    for name in ["plan.json", "journal.jsonl"] {
        fs::copy(run.join(name), other.join(name)).unwrap();
    }
    let _ = unfinished(&run, 8);
    let lock = hold(&run);
    let controls = Arc::new(Recorded::default());
    let mut options = ViewOptions::new(root.path().to_owned());
    options.controls = Some(controls.clone());
    let server = ViewServer::start(&options).unwrap();
    let path = format!("/runs/{ID}");
    let page = get(&server, &path).body;
    assert!(page.contains("Stop now") && page.contains("Let running trials finish"), "{page}");
    let form = form_of(&page);
    for (action, status) in [("finish", 303), ("stop", 303), ("rerun-lost", 303), ("explode", 400)] {
        let body = format!("form={form}&action={action}");
        assert_eq!(post(&server, &format!("{path}/control"), &body).status, status, "{action}");
    }
    let sent = controls.actions.lock().unwrap().clone();
    assert_eq!(sent, [RunAction::LetFinish, RunAction::Stop, RunAction::RerunLost]);
    // Without the token of the form, from elsewhere, or for a run of another process, nothing happens.
    assert_eq!(post(&server, &format!("{path}/control"), "action=stop").status, 403);
    let foreign = format!("POST {path}/control HTTP/1.1\n{}\nOrigin: http://evil.example", known(&server));
    assert_eq!(send(&server, &foreign, &format!("form={form}&action=stop")).status, 403);
    let elsewhere = "/runs/nightly-2026-11-14-1794678906041";
    assert!(!get(&server, elsewhere).body.contains("class=\"controls\""));
    assert_eq!(
        post(&server, &format!("{elsewhere}/control"), &format!("form={form}&action=stop")).status,
        400
    );
    assert_eq!(controls.actions.lock().unwrap().len(), 3);
    drop(lock);
    // A run that ended can only repeat what was lost.
    let page = get(&server, &path).body;
    assert!(!page.contains("Stop now"), "{page}");
}

#[test]
fn running_trials_say_what_they_do() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun::example().write(root.path());
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    let at = journal
        .lines()
        .position(|line| line.contains("attempt_started") && line.contains("add-pagination--sonnet--1"));
    let _ = unfinished(&run, at.unwrap() + 1);
    let lock = hold(&run);
    let mut options = ViewOptions::new(root.path().to_owned());
    options.controls = Some(Arc::new(Recorded::default()));
    let server = ViewServer::start(&options).unwrap();
    let page = get(&server, &format!("/runs/{ID}")).body;
    assert!(page.contains("turn 3 · Bash: cargo test &lt;b&gt;"), "{page}");
    drop(lock);
}

#[test]
fn queue_leads_from_label_to_label() {
    let root = tempfile::tempdir().unwrap();
    let _ = RecordedRun { repeats: 1, ..RecordedRun::example() }.write(root.path());
    let server = serve(root.path());
    let queue = get(&server, &format!("/runs/{ID}/review")).body;
    let mut path = queue.split("class=\"go\" href=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let mut seen = Vec::new();
    for _ in 0..15 {
        let page = get(&server, path.split('#').next().unwrap()).body;
        assert!(page.contains("name=\"queue\""), "{path}");
        let trial = path.split('?').next().unwrap().to_owned();
        seen.push(trial.clone());
        let saved =
            post(&server, &format!("{trial}/review"), &format!("form={}&label=pass&queue=1", form_of(&page)));
        assert_eq!(saved.status, 303);
        path = saved.header("location").unwrap().to_owned();
    }
    assert_eq!(path, format!("/runs/{ID}/review"), "the queue is empty");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 15, "every trial once");
}

#[test]
fn trend_shows_cases_versions_and_commits() {
    let root = tempfile::tempdir().unwrap();
    let first = RecordedRun::example().write(root.path());
    for (day, version) in [(16, "2.1.301"), (17, "2.1.301")] {
        let next = first.with_file_name(format!("nightly-2026-11-{day}-17948517060{day}"));
        fs::create_dir_all(&next).unwrap();
        for name in ["plan.json", "journal.jsonl"] {
            let text = fs::read_to_string(first.join(name)).unwrap();
            fs::write(next.join(name), text.replace("2.1.300", version)).unwrap();
        }
    }
    let server = serve(root.path());
    let page = get(&server, "/").body;
    assert!(page.contains("Cases over runs") && page.contains("/?case=csv-export"), "{page}");
    assert!(
        page.contains("class=\"changed\"") && page.contains("claude-code, 2.1.301")
            || page.contains("2.1.301, claude-code"),
        "{page}"
    );
    let case = get(&server, "/?case=csv-export").body;
    assert!(
        case.contains("remove the filter csv-export") && case.contains("class=\"scatter trend\""),
        "{case}"
    );
}
