//! `yb run --watch`: an edit reruns the trials that it affects, as a new run; Ctrl-C ends.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::suites::{GOOD, Journal, World, Yb, case, variant, wait_until};

/// Starts `yb run suite.yaml --watch`, and waits for the end of its first run.
fn watch(world: &World) -> Yb {
    let yb = world.start(&["suite.yaml", "--watch", "--no-check", "--jobs", "1"]);
    wait_for(&yb, 1);
    yb
}

/// Waits until it watches for the given time.
#[track_caller]
fn wait_for(yb: &Yb, times: usize) {
    wait_until(&format!("{times} × watching: {}", yb.stderr()), || {
        yb.stderr().matches("note: watching").count() >= times
    });
}

fn started(run: &Path) -> Vec<String> {
    Journal::of(run).started().into_iter().map(str::to_owned).collect()
}

fn rerun_of(run: &Path) -> Value {
    let plan: Value = serde_json::from_slice(&fs::read(run.join("plan.json")).unwrap()).unwrap();
    plan["rerun_of"].clone()
}

fn id(run: &Path) -> Value {
    run.file_name().unwrap().to_str().unwrap().into()
}

/// Case `one` has a prompt file, case `two` a hidden test.
fn suite(agent: &str) -> String {
    let (mut one, mut two) = (case("one"), case("two"));
    one["agent"]["config"] = json!({ "prompt_file": "one.md" });
    two["evaluators"] = json!([{ "name": "command",
        "config": { "argv": ["sh", "test.sh"], "hidden": { "test.sh": "hidden/test.sh" } } }]);
    let variants = [variant("v", agent, "text")];
    json!({ "youbencha": 1, "name": "nightly", "cases": [one, two], "variants": variants }).to_string()
}

#[test]
fn watch_reruns_what_an_edit_affects_until_interrupted() {
    let world = World::with(&suite(GOOD));
    world.context.write("one.md", "Change one file.");
    world.context.write("hidden/test.sh", "grep -q more a.txt");
    let yb = watch(&world);
    assert_eq!(started(&world.only_run()), ["one--v--1", "two--v--1"]);

    world.context.write("one.md", "Change one file, please.");
    wait_for(&yb, 2);
    let runs = world.runs();
    assert_eq!((started(&runs[1]), rerun_of(&runs[1])), (vec!["one--v--1".to_owned()], id(&runs[0])));
    let note = "note: changed: `one.md`; rerunning 1 trial of `one`";
    assert!(yb.stderr().contains(note), "{}", yb.stderr());

    world.context.write("hidden/test.sh", "grep -q more a.txt # really");
    wait_for(&yb, 3);
    let runs = world.runs();
    assert_eq!((started(&runs[2]), rerun_of(&runs[2])), (vec!["two--v--1".to_owned()], id(&runs[1])));

    // An invalid file is reported; the next edit is noticed.
    world.context.write("suite.yaml", "youbencha: 1\ncases: [");
    wait_for(&yb, 4);
    assert!(yb.stderr().contains("suite.yaml:"), "{}", yb.stderr());
    world.context.write("suite.yaml", suite(GOOD));
    wait_for(&yb, 5);
    assert!(yb.stderr().contains("note: changed: `suite.yaml`; no trial is affected"), "{}", yb.stderr());
    assert_eq!(world.runs().len(), 3);

    world.context.write("suite.yaml", suite("true"));
    wait_for(&yb, 6);
    assert_eq!(started(&world.runs()[3]), ["one--v--1", "two--v--1"]);

    yb.signal(Signal::INT);
    let end = yb.wait();
    assert_eq!(end.code, Some(1), "that of the last run: {}", end.stderr);
    assert_eq!(world.runs().len(), 4);
    world.assert_nothing_runs();
}

#[test]
fn watch_reruns_after_a_commit_and_after_edits_of_scripts_and_start_directories() {
    let world = World::new();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"];
        let outcome = world.context.command("git").args(["-C", "repo"]).args(identity).args(args).run();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    };
    world.context.write("repo/a.txt", "start\n");
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "one"]);
    let (mut from_repo, mut with_hook) = (case("repo"), case("hook"));
    let remove = |case: &mut Value| case.as_object_mut().unwrap().remove("directory");
    remove(&mut from_repo);
    from_repo["repo"] = json!("repo");
    // It writes beside the case, which must not count as an edit.
    let hook = "sh \"$YB_CASE_DIR\"/setup.sh";
    with_hook["pre_execution"] = json!([{ "name": "script", "config": { "command": hook } }]);
    with_hook["post_evaluation"] =
        json!([{ "name": "database", "config": { "type": "json-file", "output_path": "results.jsonl" } }]);
    let suite = json!({ "youbencha": 1, "name": "nightly", "cases": [from_repo, with_hook],
        "variants": [variant("v", GOOD, "text")] });
    world.context.write("suite.yaml", suite.to_string());
    world.context.write("setup.sh", "true");
    let yb = watch(&world);

    world.context.write("setup.sh", "true # changed");
    wait_for(&yb, 2);
    assert_eq!(started(&world.runs()[1]), ["hook--v--1"]);
    assert!(
        yb.stderr().contains("note: changed: `setup.sh`; rerunning 1 trial of `hook`"),
        "{}",
        yb.stderr()
    );

    world.context.write("repo/a.txt", "other\n");
    git(&["commit", "-qam", "two"]);
    wait_for(&yb, 3);
    assert_eq!(started(&world.runs()[2]), ["repo--v--1"]);

    world.context.write("tree/b.txt", "new\n");
    wait_for(&yb, 4);
    assert_eq!(started(&world.runs()[3]), ["hook--v--1"]);
    assert!(yb.stderr().contains("note: changed: `tree`; rerunning 1 trial of `hook`"), "{}", yb.stderr());
    assert!(yb.stderr().contains("note: changed: `repo/.git/refs/heads/main`; "), "{}", yb.stderr());

    yb.signal(Signal::TERM);
    assert_eq!(yb.wait().code, Some(0));
    assert_eq!(world.runs().len(), 4);
}

#[test]
fn watch_waits_for_a_file_that_is_invalid_at_first() {
    let world = World::with("youbencha: 1\ncases: [broken.yaml]\nvariants: [");
    let yb = watch(&world);
    assert!(world.runs().is_empty());
    world.context.write("suite.yaml", crate::suites::suite(&["one"], &[("v", GOOD)], ""));
    wait_for(&yb, 2);
    assert_eq!(started(&world.only_run()), ["one--v--1"]);
    assert_eq!(rerun_of(&world.only_run()), Value::Null);
    yb.signal(Signal::INT);
    assert_eq!(yb.wait().code, Some(0));

    let world = World::with("youbencha: 1\ncases: [");
    let yb = watch(&world);
    yb.signal(Signal::INT);
    assert_eq!(yb.wait().code, Some(2), "nothing ran");
}

#[test]
fn watch_ends_with_a_run_that_is_interrupted() {
    let world = World::with(&crate::suites::suite(&["one"], &[("v", "touch ../up; exec sleep 60")], ""));
    let yb = world.start(&["suite.yaml", "--watch", "--no-check"]);
    world.wait_for("agent_started", 1);
    yb.signal(Signal::INT);
    yb.signal(Signal::TERM);
    let end = yb.wait();
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    assert!(!end.stderr.contains("note: watching"), "{}", end.stderr);
}

#[test]
fn watch_conflicts_with_resume_rerun_dry_run_and_record() {
    let world = World::with(&crate::suites::suite(&["one"], &[("v", GOOD)], ""));
    for args in [
        &["--resume", "--watch"][..],
        &["--rerun", "failed", "latest", "--watch"],
        &["suite.yaml", "--dry-run", "--watch"],
        &["suite.yaml", "--record", "tapes", "--watch"],
    ] {
        let outcome = world.run(args).run();
        assert_eq!(outcome.code, Some(2), "{args:?}");
        assert!(outcome.stderr.contains("cannot be used with"), "{args:?}: {}", outcome.stderr);
    }
}
