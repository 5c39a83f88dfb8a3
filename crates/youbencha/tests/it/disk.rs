//! Full and unwritable disks: reported with exit code 4, and recorded data is kept.

use std::fs;

use yb_testkit::Outcome;

use crate::YB;
use crate::suites::{GOOD, Journal, World, assert_complete, suite};

/// Runs a shell script in a private mount namespace; `$YB` and `$WS` are the program and the
/// workspace directory.
#[track_caller]
fn in_namespace(world: &World, script: &str) -> Outcome {
    let can = |flags: &[&str]| world.context.command("unshare").args(flags).arg("true").run();
    let (as_root, as_user) = (can(&["-m"]), can(&["-rm"]));
    let flags = match (as_root.success(), as_user.success()) {
        (true, _) => "-m",
        (_, true) => "-rm",
        _ => panic!(
            "this test mounts a small disk and may not: `unshare -m true`: {}; `unshare -rm true`: {}; run it as root, or allow user namespaces",
            as_root.stderr, as_user.stderr
        ),
    };
    let workspace = world.path(".youbencha-workspace");
    fs::create_dir_all(&workspace).unwrap();
    let outcome = world
        .context
        .command("unshare")
        .args([flags, "sh", "-euc", script])
        .env("YB", YB)
        .env("WS", &workspace)
        .run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    outcome
}

/// The agent of the second trial fills the disk while the file `full` exists.
fn filling() -> World {
    let world = World::new();
    let full = world.context.write("full", "").display().to_string();
    let agent = format!(
        "case $PWD in *two--*) [ ! -e {full} ] || cat /dev/zero > fill || true;; esac; {GOOD} || true"
    );
    world.context.write("suite.yaml", suite(&["one", "two", "three"], &[("v", &agent)], ""));
    world
}

/// Fills the disk, checks the run, frees space and resumes.
const FILL: &str = r#"
mount -t tmpfs -o size=8m none "$WS"
"$YB" run -c suite.yaml --jobs 1 > first.out 2>&1 && code=0 || code=$?
echo "$code" > first.code
cp "$WS"/runs/*/journal.jsonl first.jsonl
"$YB" run --resume --jobs 1 > still-full.out 2>&1 && code=0 || code=$?
echo "$code" > still-full.code
rm -f full "$WS"/runs/*/trials/*/*/src-modified/fill
"$YB" run --resume --jobs 1 > second.out 2>&1 && code=0 || code=$?
echo "$code" > second.code
mkdir kept
cp -R "$WS"/runs/*/. kept/
"#;

#[test]
fn full_disk_stops_the_run_and_resume_continues_it() {
    let world = filling();
    in_namespace(&world, FILL);
    let read = |name: &str| world.context.read(name);
    for (name, code) in [("first", "4\n"), ("still-full", "4\n"), ("second", "0\n")] {
        assert_eq!(read(&format!("{name}.code")), code, "{name}: {}", read(&format!("{name}.out")));
    }
    let said = read("first.out");
    assert!(said.contains("No space left on device") && said.contains("hint: free disk space"), "{said}");
    // Complete lines, including the first trial.
    fs::create_dir(world.path("before")).unwrap();
    fs::copy(world.path("first.jsonl"), world.path("before/journal.jsonl")).unwrap();
    assert!(read("first.jsonl").ends_with('\n'));
    let before = Journal::of(&world.path("before"));
    assert_eq!(before.results().get("one--v--1").map(String::as_str), Some("passed"));
    assert!(!before.results().contains_key("two--v--1"), "it is not decided: {:?}", before.results());
    assert_complete(&world.path("kept"), 3);
    let journal = Journal::of(&world.path("kept"));
    assert_eq!(journal.started().iter().filter(|trial| **trial == "one--v--1").count(), 1);
    world.assert_nothing_runs();
}

#[test]
fn unwritable_workspace_directory_is_reported() {
    let world = World::with(&suite(&["one"], &[("v", GOOD)], ""));
    let script = r#"
mount --bind "$WS" "$WS"
mount -o remount,ro,bind "$WS"
"$YB" run -c suite.yaml > out 2>&1 && code=0 || code=$?
echo "$code" >> out
"#;
    in_namespace(&world, script);
    let said = world.context.read("out");
    assert!(said.contains("Read-only file system") && said.contains(".youbencha-workspace"), "{said}");
    assert!(said.ends_with("\n4\n"), "{said}");
}

#[test]
fn file_at_the_workspace_directory_is_reported() {
    let world = World::with(&suite(&["one"], &[("v", GOOD)], ""));
    world.context.write(".youbencha-workspace", "");
    let outcome = world.suite(&[]).run();
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(".youbencha-workspace"), "{}", outcome.stderr);
}
