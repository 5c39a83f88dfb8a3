//! Every page over HTTP: what it shows, its filters, and its size.

use yb_testkit::RecordedRun;

use crate::client::get;
use crate::serve;

const RUN: &str = "/runs/nightly-2026-11-15-1794765306041";
const TRIAL: &str = "/runs/nightly-2026-11-15-1794765306041/trials/fix-login-redirect--opus--1";

#[test]
fn empty_project_says_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let page = get(&serve(root.path()), "/");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("No runs yet") && page.body.contains("yb run FILE"), "{}", page.body);
}

#[test]
fn runs_are_listed_and_filtered() {
    let root = tempfile::tempdir().unwrap();
    let _ = RecordedRun::example().write(root.path());
    let server = serve(root.path());
    let page = get(&server, "/").body;
    assert!(page.contains("<a class=\"go\" href=\"/runs/nightly-2026-11-15-1794765306041\""), "{page}");
    assert!(page.contains("15.4%–") || page.contains("%–"), "an interval: {page}");
    assert!(get(&server, "/?q=nightly%20claude-code").body.contains("class=\"go\""));
    assert!(get(&server, "/?q=weekly").body.contains("No run matches"));
    assert!(get(&server, "/?suite=other").body.contains("No run matches"));
}

#[test]
fn run_answers_first_and_links_every_figure() {
    let root = tempfile::tempdir().unwrap();
    let _ = RecordedRun::example().write(root.path());
    let server = serve(root.path());
    let page = get(&server, RUN).body;
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("`{text}` is missing: {page}"));
    assert!(place("<h2>Answer</h2>") < place("Pass rate</div>"));
    assert!(place("Cost of a pass: ") < place("Cost against pass rate"));
    assert!(page.contains(
        "href=\"/runs/nightly-2026-11-15-1794765306041?case=add-pagination&amp;variant=opus#trials\""
    ));
    assert!(page.contains("Flaky cases") && page.contains("Not counted"));
    assert_eq!(page.matches("<tr data-row>").count(), 45);
    let filtered = get(&server, &format!("{RUN}?outcome=failed&variant=opus")).body;
    let rows = filtered.matches("<tr data-row>").count();
    assert!(rows > 0 && rows < 45, "{rows}");
    assert!(filtered.contains("remove the filter opus"));
    let sorted = get(&server, &format!("{RUN}?sort=-time")).body;
    assert!(sorted.contains("aria-sort=\"descending\""));
    assert!(get(&server, &format!("{RUN}?q=disk%20went")).body.matches("<tr data-row>").count() == 1);
    assert!(get(&server, &format!("{RUN}?q=nothing-like-this")).body.contains("No trial matches"));
}

#[test]
fn failed_trial_says_why_first() {
    let root = tempfile::tempdir().unwrap();
    let _ = RecordedRun::example().write(root.path());
    let server = serve(root.path());
    let list = get(&server, &format!("{RUN}?outcome=failed")).body;
    let path = list.split("<a class=\"go\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let page = get(&server, path).body;
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("`{text}` is missing"));
    assert!(place("Why it failed") < place("Received: &quot;//evil.example&quot;"));
    assert!(place("Received: &quot;//evil.example&quot;") < place("Time by turn"));
    assert!(place("Time by turn") < place("Conversation"));
    assert!(place("Conversation") < place("Changes"));
    assert!(page.contains("yb show nightly-2026-11-15-1794765306041"));
    assert!(page.contains("yb run suite.yaml --filter case="));
    assert!(page.contains("/files/git-diff.patch\""));
    assert!(page.contains("<h2>Side by side</h2>"));
}

#[test]
fn trial_is_found_by_its_id_and_neighbors_are_linked() {
    let root = tempfile::tempdir().unwrap();
    let _ = RecordedRun::example().write(root.path());
    let server = serve(root.path());
    let page = get(&server, &format!("{RUN}/trials/0000000000000002")).body;
    assert!(page.contains("fix-login-redirect--opus--1"), "{page}");
    assert!(page.contains("rel=\"prev\"") && page.contains("rel=\"next\""));
    assert_eq!(get(&server, &format!("{RUN}/trials/none")).status, 404);
}

#[test]
fn files_are_sent_as_text() {
    let root = tempfile::tempdir().unwrap();
    let _ = RecordedRun::example().write(root.path());
    let server = serve(root.path());
    let file = get(&server, &format!("{TRIAL}/files/git-diff.patch"));
    assert_eq!(file.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(file.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    assert!(file.body.contains("diff --git a/src/login.ts"), "{}", file.body);
}

#[test]
fn trials_and_runs_are_compared() {
    let root = tempfile::tempdir().unwrap();
    let first = RecordedRun::example().write(root.path());
    let second = first.with_file_name("nightly-2026-11-16-1794851706041");
    copy(&first, &second);
    let server = serve(root.path());
    let id = "nightly-2026-11-15-1794765306041";
    let page = get(&server, &format!("/trials?a={id}/csv-export--opus--1&b={id}/csv-export--sonnet--1")).body;
    assert!(page.contains("The conversations are equal") || page.contains("first difference"), "{page}");
    assert_eq!(page.matches("<h2>Changes</h2>").count(), 2);
    let page = get(&server, &format!("/compare?a={id}&b=nightly-2026-11-16-1794851706041"));
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("id=\"comparison\""), "{}", page.body);
    let run = get(&server, RUN).body;
    assert!(run.contains("<option value=\"nightly-2026-11-16-1794851706041\""), "{run}");
    let list = get(&server, "/").body;
    assert!(list.contains("class=\"scatter trend\""), "a trend of two runs: {list}");
    assert_eq!(get(&server, "/compare?a=x&b=y").status, 404);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["plan.json", "journal.jsonl"] {
        let text = std::fs::read_to_string(from.join(name)).unwrap();
        std::fs::write(to.join(name), text).unwrap();
    }
}

#[test]
fn many_trials_fit_on_small_pages() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun {
        cases: (0..150).map(|number| format!("case-{number}")).collect(),
        variants: vec!["sonnet".to_owned(), "opus".to_owned()],
        repeats: 1,
        ..RecordedRun::example()
    };
    let _ = run.write(root.path());
    let server = serve(root.path());
    for path in ["/", RUN, &format!("{RUN}?page=3"), &format!("{RUN}/review")] {
        let page = get(&server, path);
        assert_eq!(page.status, 200);
        assert!(page.body.len() < 300_000, "{path}: {} bytes", page.body.len());
    }
    let page = get(&server, &format!("{RUN}?page=3")).body;
    assert_eq!(page.matches("<tr data-row>").count(), 100);
    assert!(page.contains("page 3 of 3"), "{page}");
    assert_eq!(get(&server, &format!("{RUN}?page=999")).status, 200);
}
