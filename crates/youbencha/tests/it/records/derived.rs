//! Records that are made from a run: gates in its results, gradings, baselines.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use yb_testkit::TestContext;

use super::{assert_problem, edit, ran, ssh_keygen, yb};

/// A run with one grading, and the directory of the grading.
fn graded() -> (TestContext, PathBuf, PathBuf) {
    let (context, run) = ran();
    let grading = grade(&context, &run);
    (context, run, grading)
}

/// Grades the run once more; returns the directory of the grading.
fn grade(context: &TestContext, run: &Path) -> PathBuf {
    let graded = yb(context, &["eval", "--from", "latest", "-c", "suite.yaml", "--quiet"]);
    assert_eq!(graded.code, Some(1), "{}", graded.stderr);
    let gradings = fs::read_dir(run.join("gradings")).unwrap().map(|entry| entry.unwrap().path());
    gradings.filter(|path| path.is_dir()).max().unwrap()
}

/// Removes a field of a JSON file.
fn remove_field(path: &Path, name: &str) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    value.as_object_mut().unwrap().remove(name).unwrap();
    fs::write(path, format!("{value:#}\n")).unwrap();
}

#[test]
fn edited_gates_are_refused() {
    let (context, run) = ran();
    let gated = yb(&context, &["run", "-c", "suite.yaml", "--quiet", "--gate", "min_pass_rate=0.9"]);
    assert_eq!(gated.code, Some(1), "{}", gated.stderr);
    let runs = fs::read_dir(run.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let results = runs.max().unwrap().join("results.json");
    assert_eq!(yb(&context, &["verify"]).code, Some(0));
    let written = fs::read_to_string(&results).unwrap();
    let mut values = vec![written.replacen("\"answer\": \"failed\"", "\"answer\": \"held\"", 2)];
    let mut without: Value = serde_json::from_str(&written).unwrap();
    without.as_object_mut().unwrap().remove("gates").unwrap();
    values.push(without.to_string());
    for forged in values {
        assert_ne!(written, forged);
        fs::write(&results, forged).unwrap();
        for format in ["html", "json", "github"] {
            let reported = yb(&context, &["report", "--format", format]);
            assert_eq!(reported.code, Some(4), "{format}: {}{}", reported.stdout, reported.stderr);
        }
        let compared = yb(&context, &["compare", results.to_str().unwrap(), "latest"]);
        assert_eq!(compared.code, Some(4), "{}{}", compared.stdout, compared.stderr);
        assert_problem(&context, "results.json: differs from the journal");
    }
}

/// A report shows fields that it does not know; not those that somebody added to a chained run.
#[test]
fn added_field_of_results_is_not_reported() {
    let (context, run) = ran();
    edit(&run.join("results.json"), "{\n", "{\n  \"approved_by\": \"nobody-at-all\",\n");
    for format in ["json", "markdown", "github", "html"] {
        let file = format!("report.{format}");
        let reported = yb(&context, &["report", "--format", format, "--output", &file]);
        assert_eq!(reported.code, Some(0), "{}", reported.stderr);
        let report = context.read(&file);
        assert!(!report.contains("nobody-at-all"), "{format}: {report}");
    }
}

#[test]
fn grading_is_bound_to_the_journal() {
    let (context, run, _) = graded();
    grade(&context, &run);
    let verified = yb(&context, &["verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stdout.contains(" and 2 gradings\n"), "{}", verified.stdout);
    assert_eq!(yb(&context, &["show", "--grading", "latest"]).code, Some(0));
    assert_eq!(yb(&context, &["show", "--grading", "1"]).code, Some(0));
    // The grading of another run is not one of this run.
    let journal = run.join("gradings/journal.jsonl");
    let written = fs::read_to_string(&journal).unwrap();
    let line: Value = serde_json::from_str(written.lines().next().unwrap()).unwrap();
    let head = line["journal"].as_str().unwrap().to_owned();
    assert!(fs::read_to_string(run.join("results.json")).unwrap().contains(&head));
    let lines: Vec<&str> = written.lines().collect();
    fs::write(&journal, format!("{}\n", lines[0].replace(&head, &"0".repeat(64)))).unwrap();
    let verified = yb(&context, &["verify"]).stdout;
    assert!(verified.contains("not a grading of this journal"), "{verified}");
    assert!(verified.contains("grading.json: not in the journal of gradings"), "{verified}");
}

#[test]
fn edited_grading_is_refused() {
    type Edit = fn(&Path);
    let edits: [(&str, Edit); 7] = [
        ("grading.json", |grading| edit(&grading.join("grading.json"), "\"failed\"", "\"passed\"")),
        ("results.json", |grading| edit(&grading.join("results.json"), "\"failed\": 1", "\"failed\": 0")),
        ("trials/greeting--two--1/results.json", |grading| {
            edit(&grading.join("trials/greeting--two--1/results.json"), "\"failed\"", "\"passed\"");
        }),
        ("trials/greeting--two--1/evaluators/1-git-diff/verdict.json", |grading| {
            let verdict = "trials/greeting--two--1/evaluators/1-git-diff/verdict.json";
            edit(&grading.join(verdict), "failed", "passed");
        }),
        ("added.json", |grading| fs::write(grading.join("added.json"), "{}").unwrap()),
        ("timings.json", |grading| fs::remove_file(grading.join("timings.json")).unwrap()),
        ("grading.json", |grading| fs::remove_file(grading.join("../journal.jsonl")).unwrap()),
    ];
    for (place, change) in edits {
        let (context, _, grading) = graded();
        change(&grading);
        for args in [&["show", "--grading", "latest"][..], &["show", "greeting--two--1", "--grading", "1"]] {
            let shown = yb(&context, args);
            assert_eq!(shown.code, Some(4), "{place}: {}{}", shown.stdout, shown.stderr);
            assert!(shown.stderr.contains("changed since it was recorded: `"), "{}", shown.stderr);
            assert!(shown.stderr.contains(place) && shown.stdout.is_empty(), "{}", shown.stderr);
        }
        let id = grading.file_name().unwrap().to_str().unwrap();
        assert_problem(&context, &format!("gradings/{id}/{place}"));
        // The results of the run are not affected.
        assert_eq!(yb(&context, &["show"]).code, Some(0));
    }
}

#[test]
fn edited_journal_of_gradings_is_refused() {
    let (context, run, _) = graded();
    grade(&context, &run);
    edit(&run.join("gradings/journal.jsonl"), "\"at\":\"2", "\"at\":\"1");
    let shown = yb(&context, &["show", "--grading", "latest"]);
    assert_eq!(shown.code, Some(4), "{}{}", shown.stdout, shown.stderr);
    assert_problem(&context, "gradings/journal.jsonl");
    let graded = yb(&context, &["eval", "--from", "latest", "-c", "suite.yaml", "--quiet"]);
    assert_eq!(graded.code, Some(4), "nothing is appended to it: {}", graded.stderr);
    let dirs =
        fs::read_dir(run.join("gradings")).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert_eq!(dirs.count(), 2, "the grading that could not be recorded is removed");
}

#[test]
fn grading_of_an_older_version_is_shown_with_a_note_of_verify() {
    let (context, run, grading) = graded();
    fs::remove_file(run.join("gradings/journal.jsonl")).unwrap();
    remove_field(&grading.join("grading.json"), "recorded");
    assert_eq!(yb(&context, &["show", "--grading", "latest"]).code, Some(0));
    let verified = yb(&context, &["verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stderr.contains("was not checked: an older version wrote it"), "{}", verified.stderr);
}

#[test]
fn signature_covers_gradings_and_survives_newer_ones() {
    let (context, run, grading) = graded();
    assert!(ssh_keygen(&context, &["-q", "-t", "ed25519", "-N", "", "-f", "id"], Path::new("/dev/null")));
    assert_eq!(yb(&context, &["verify", "--sign", "id"]).code, Some(0));
    assert!(fs::read_to_string(run.join("record.txt")).unwrap().contains("\ngradings "));
    grade(&context, &run);
    let checked = yb(&context, &["verify", "--verify-with", "id.pub"]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stderr.contains("the signature does not cover 1 grading"), "{}", checked.stderr);
    // All gradings removed, with their records: only the signature tells.
    fs::remove_dir_all(grading.parent().unwrap()).unwrap();
    assert_eq!(yb(&context, &["verify"]).code, Some(0));
    assert_eq!(yb(&context, &["verify", "--verify-with", "id.pub"]).code, Some(1));
}

#[test]
fn edited_baseline_is_refused() {
    let (context, _) = ran();
    assert_eq!(yb(&context, &["baseline", "set", "main", "latest"]).code, Some(0));
    let path = context.dir().join(".youbencha-workspace/baselines/main.json");
    let verified = yb(&context, &["verify"]);
    assert!(verified.stdout.contains(" and 1 baseline\n"), "{}", verified.stdout);
    let against = ["gate", "latest", "--gate", "no_regression=main"];
    assert_eq!(yb(&context, &["compare", "main", "latest"]).code, Some(5), "inconclusive");
    let set = fs::read_to_string(&path).unwrap();
    for forge in [
        (|path: &Path| edit(path, "\"outcome\": \"passed\"", "\"outcome\": \"failed\"")) as fn(&Path),
        |path| edit(path, "\"set_at\": \"2", "\"set_at\": \"1"),
        |path| remove_field(path, "digest"),
    ] {
        forge(&path);
        let file = path.to_str().unwrap();
        for args in [&["compare", "main", "latest"][..], &["compare", file, "latest"], &against] {
            let outcome = yb(&context, args);
            let all = format!("{}{}", outcome.stdout, outcome.stderr);
            assert_ne!(outcome.code, Some(0), "{args:?}: {all}");
            assert!(all.contains("baseline changed since it was set: `"), "{args:?}: {all}");
        }
        let listed = yb(&context, &["baseline", "list"]).stdout;
        assert!(listed.contains("unreadable: baseline changed since it was set"), "{listed}");
        assert_problem(&context, "baseline `main`: baseline changed since it was set");
        fs::write(&path, &set).unwrap();
    }
}

#[test]
fn baseline_that_differs_from_its_run_is_a_problem() {
    let (context, _) = ran();
    assert_eq!(yb(&context, &["baseline", "set", "main", "latest"]).code, Some(0));
    let path = context.dir().join(".youbencha-workspace/baselines/main.json");
    // A forger who computes the digest anew.
    edit(&path, "\"outcome\": \"passed\"", "\"outcome\": \"failed\"");
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("digest").unwrap();
    let digest = blake3::hash(value.to_string().as_bytes()).to_hex().to_string();
    value["digest"] = Value::from(digest);
    fs::write(&path, value.to_string()).unwrap();
    assert_eq!(yb(&context, &["baseline", "list"]).code, Some(0));
    assert_problem(&context, "baseline `main`: differs from the run");
}

#[test]
fn baseline_of_an_older_version_is_used_with_a_note_of_verify() {
    let (context, _) = ran();
    assert_eq!(yb(&context, &["baseline", "set", "main", "latest"]).code, Some(0));
    let path = context.dir().join(".youbencha-workspace/baselines/main.json");
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("digest").unwrap();
    value["results"].as_object_mut().unwrap().remove("journal_head").unwrap();
    fs::write(&path, value.to_string()).unwrap();
    assert_eq!(yb(&context, &["compare", "main", "latest"]).code, Some(5), "inconclusive");
    let verified = yb(&context, &["verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stderr.contains("baseline `main` was not checked"), "{}", verified.stderr);
}
