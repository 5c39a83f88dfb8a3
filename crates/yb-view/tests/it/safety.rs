//! Who may see what: tokens, hosts, origins, paths, hostile texts, damaged runs.

use std::fs;

use yb_testkit::RecordedRun;

use crate::client::{get, known, send};
use crate::serve;

const RUN: &str = "nightly-2026-11-15-1794765306041";
/// Placed in every untrusted text.
const HOSTILE: &str = "</script></title></style><img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>' onfocus='window.hacked=1";

#[test]
fn token_is_needed_and_becomes_a_cookie() {
    let root = tempfile::tempdir().unwrap();
    let server = serve(root.path());
    let host = format!("Host: 127.0.0.1:{}", server.address().port());
    assert!(server.address().ip().is_loopback());
    let without = send(&server, &format!("GET / HTTP/1.1\n{host}"), "");
    assert_eq!(without.status, 403);
    assert!(without.body.contains("Token needed") && without.header("set-cookie").is_none());
    let url = server.url(None);
    let query = url.split_once('?').unwrap().1;
    let with = send(&server, &format!("GET /?{query} HTTP/1.1\n{host}"), "");
    assert_eq!(with.status, 200);
    let cookie = with.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let foreign = send(&server, &format!("GET /?{query} HTTP/1.1\nHost: evil.example"), "");
    assert_eq!((foreign.status, foreign.header("set-cookie")), (403, None));
}

#[test]
fn every_response_is_guarded() {
    let root = tempfile::tempdir().unwrap();
    let server = serve(root.path());
    for path in ["/", "/none", "/assets/view.js", "/runs/none", "/runs/../../etc/passwd"] {
        let page = get(&server, path);
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
    }
    assert_eq!(send(&server, &format!("DELETE / HTTP/1.1\n{}", known(&server)), "").status, 405);
}

#[test]
fn labels_need_a_form_of_our_own() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun::example().write(root.path());
    let server = serve(root.path());
    let path = format!("/runs/{RUN}/trials/csv-export--opus--1");
    let page = get(&server, &path).body;
    let form = page.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let port = server.address().port();
    let post = |origin: &str, body: &str| {
        let head = format!("POST {path}/review HTTP/1.1\n{}{origin}", known(&server));
        send(&server, &head, body).status
    };
    let own = format!("\nOrigin: http://127.0.0.1:{port}");
    let label = format!("form={form}&label=fail&category=wrong+file&note=%3Cb%3E&evaluator=command");
    assert_eq!(post("", &label), 403, "no origin");
    assert_eq!(post("\nOrigin: http://evil.example", &label), 403);
    assert_eq!(post(&own, "label=fail"), 403, "no form token");
    assert_eq!(post(&own, &format!("form={form}&label=great")), 400);
    assert_eq!(post(&own, &format!("form={form}&label=fail&evaluator=none")), 400);
    assert!(!run.join("reviews.jsonl").exists());
    assert_eq!(post(&own, &label), 303);
    let line = fs::read_to_string(run.join("reviews.jsonl")).unwrap();
    assert!(line.contains("\"label\":\"fail\",\"category\":\"wrong file\",\"note\":\"<b>\""), "{line}");
    assert!(get(&server, &path).body.contains(" · wrong file · &lt;b&gt;"));
    assert_eq!(post(&own, &format!("form={form}&label=pass")), 303);
    let queue = get(&server, &format!("/runs/{RUN}/review")).body;
    assert!(queue.contains("fail (wrong file), pass"), "{queue}");
}

#[cfg(unix)]
#[test]
fn files_outside_of_the_artifacts_are_not_sent() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun::example().write(root.path());
    fs::write(root.path().join("secret.txt"), "secret").unwrap();
    let artifacts = run.join("trials/csv-export--opus--1/attempt-1/artifacts");
    std::os::unix::fs::symlink(root.path().join("secret.txt"), artifacts.join("link.txt")).unwrap();
    std::os::unix::fs::symlink(root.path(), artifacts.join("folder")).unwrap();
    // A whole run elsewhere, and a trial whose artifacts are elsewhere.
    std::os::unix::fs::symlink(&run, run.with_file_name("link-2026-11-15-1")).unwrap();
    let other = run.join("trials/csv-export--sonnet--1/attempt-1/artifacts");
    fs::remove_dir_all(&other).unwrap();
    std::os::unix::fs::symlink(root.path(), &other).unwrap();
    let server = serve(root.path());
    let files = format!("/runs/{RUN}/trials/csv-export--opus--1/files");
    for path in [
        format!("{files}/link.txt"),
        format!("{files}/folder/secret.txt"),
        format!("{files}/..%2f..%2fplan.json"),
        format!("{files}/../../../../secret.txt"),
        format!("{files}/%2e%2e/%2e%2e/log"),
        format!("/runs/{RUN}/trials/csv-export--sonnet--1/files/secret.txt"),
        "/runs/link-2026-11-15-1".to_owned(),
        "/runs/..".to_owned(),
    ] {
        let page = get(&server, &path);
        assert!(page.status == 404 && !page.body.contains("secret</"), "{path}: {}", page.status);
    }
    assert!(!get(&server, "/").body.contains("link-2026"));
    let page = get(&server, &format!("/runs/{RUN}/trials/csv-export--sonnet--1")).body;
    assert!(page.contains("are outside of its run"), "{page}");
}

#[test]
fn text_of_agents_is_never_markup() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun { hostile: HOSTILE.to_owned(), ..RecordedRun::example() };
    let folder = run.write(root.path());
    fs::write(folder.join("reviews.jsonl"), format!("{}\n", serde_json::json!({
        "v": 1, "at": "2026-11-15T00:00:00Z", "trial": "csv-export--opus--1", "label": "fail", "note": HOSTILE, "category": HOSTILE,
    }))).unwrap();
    let server = serve(root.path());
    for path in [
        "/".to_owned(),
        format!("/runs/{RUN}"),
        format!("/runs/{RUN}?q=%3Cscript%3E&case={}&sort=%22%3E", "%3Cimg%20src=x%3E"),
        format!("/runs/{RUN}/trials/csv-export--opus--1"),
        format!("/runs/{RUN}/review"),
        format!("/trials?a={RUN}/csv-export--opus--1&b={RUN}/csv-export--sonnet--1"),
        "/runs/%3Cscript%3E".to_owned(),
    ] {
        let page = get(&server, &path).body;
        assert!(
            !page.contains("<img") && !page.contains("<script>") && !page.contains("' onfocus"),
            "{path}"
        );
        assert!(page.matches("</title>").count() == page.matches("<title>").count(), "{path}");
    }
}

#[test]
fn damaged_and_unreadable_runs_are_shown_as_far_as_they_go() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun::example().write(root.path());
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    let mut lines: Vec<&str> = journal.lines().collect();
    lines[21] = "nonsense";
    fs::write(run.join("journal.jsonl"), lines.join("\n")).unwrap();
    let broken = run.with_file_name("broken-2026-11-15-2");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("plan.json"), "{").unwrap();
    let server = serve(root.path());
    let list = get(&server, "/").body;
    assert!(list.contains("damaged") && list.contains("unreadable: "), "{list}");
    let page = get(&server, &format!("/runs/{RUN}")).body;
    assert!(
        page.contains("is damaged in line 22") && page.contains("Shown as far as it can be read"),
        "{page}"
    );
    assert!(page.contains("10 of ") || page.contains("pending"), "{page}");
    let page = get(&server, "/runs/broken-2026-11-15-2");
    assert!(page.status == 404 && page.body.contains("Can&#39;t be shown"), "{}", page.body);
}

#[test]
fn plan_can_not_name_other_directories() {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun::example().write(root.path());
    let elsewhere = root.path().join("elsewhere/attempt-1/artifacts");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("results.json"), "{\"test_case\":{\"description\":\"a secret\"}}").unwrap();
    for file in ["plan.json", "journal.jsonl"] {
        let text = fs::read_to_string(run.join(file)).unwrap();
        fs::write(run.join(file), text.replace("csv-export--opus--1", "../../../elsewhere")).unwrap();
    }
    let server = serve(root.path());
    // By its id, because its name is no segment of a path.
    let list = get(&server, &format!("/runs/{RUN}?case=csv-export&variant=opus")).body;
    assert!(list.contains("elsewhere"), "the trial is listed: {list}");
    let id = (1..=45)
        .map(|number| format!("/runs/{RUN}/trials/{number:016x}"))
        .find(|path| get(&server, path).body.contains("elsewhere"));
    let page = get(&server, &id.unwrap()).body;
    assert!(!page.contains("a secret"), "{page}");
}
