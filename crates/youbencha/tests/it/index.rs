//! The index of all runs: queries, removal and rebuilding.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::YB;
use crate::suites::{BAD, GOOD, World, suite};

const QUESTION: &str = "select case_name, variant, repeat, outcome from trials order by trial";

fn yb(world: &World, args: &[&str]) -> yb_testkit::Outcome {
    world.context.run(YB, args)
}

fn index(world: &World) -> std::path::PathBuf {
    world.path(".youbencha-workspace/index.sqlite")
}

#[test]
fn finished_runs_are_indexed() {
    let world = World::with(&suite(&["one"], &[("good", GOOD), ("bad", BAD)], "gates: { min_pass_rate: 1 }"));
    world.suite(&["--quiet"]).run();
    assert!(index(&world).is_file());
    assert_snapshot!(yb(&world, &["index", "query", QUESTION]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    case_name  variant  repeat  outcome
    one        bad      1       failed
    one        good     1       passed
    ----- stderr -----
    ");
    let verdicts = "select trial, evaluator, status from verdicts where status <> 'passed'";
    let failed = yb(&world, &["index", "query", verdicts]).stdout;
    assert!(failed.contains("one--bad--1") && failed.contains("failed"), "{failed}");
    world.suite(&["--quiet"]).run();
    let question = "select name, planned, done, passed, finished, gates from runs";
    let printed: Value =
        serde_json::from_str(&yb(&world, &["index", "query", question, "--json"]).stdout).unwrap();
    let row =
        json!({ "name": "nightly", "planned": 2, "done": 2, "passed": 1, "finished": 1, "gates": "failed" });
    assert_eq!(printed["rows"], json!([row, row]));
    assert_eq!(yb(&world, &["clean", "latest", "--yes"]).code, Some(0));
    let left = yb(&world, &["index", "query", "select count(*) as runs from runs"]);
    assert_eq!(left.stdout, "runs\n1\n", "{}", left.stderr);
}

#[test]
fn missing_or_damaged_index_is_rebuilt() {
    let world = World::with(&suite(&["one"], &[("good", GOOD)], ""));
    world.suite(&["--quiet"]).run();
    let before = yb(&world, &["index", "query", QUESTION]).stdout;
    std::fs::remove_file(index(&world)).unwrap();
    assert_eq!(yb(&world, &["index", "query", QUESTION]).stdout, before);
    std::fs::write(index(&world), "no database at all, but long enough to look like one").unwrap();
    // The run does not fail because of the index.
    assert_eq!(world.suite(&["--quiet"]).run().code, Some(0));
    let printed = yb(&world, &["index", "query", "select count(*) as runs from runs"]);
    assert_eq!(printed.stdout, "runs\n2\n", "{}", printed.stderr);
    std::fs::write(index(&world), "broken").unwrap();
    assert_snapshot!(yb(&world, &["index", "rebuild"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    2 runs in .youbencha-workspace/index.sqlite
    ----- stderr -----
    ");
}

#[test]
fn unwritable_index_does_not_fail_the_run() {
    let world = World::with(&suite(&["one"], &[("good", GOOD)], ""));
    std::fs::create_dir_all(index(&world)).unwrap();
    let printed = world.suite(&["--quiet"]).run();
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
}

#[test]
fn query_is_read_only_and_reports_errors() {
    let world = World::with(&suite(&["one"], &[("good", GOOD)], ""));
    assert_snapshot!(yb(&world, &["index", "query", "select 1"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no runs in `.youbencha-workspace`
    hint: create one: `yb run FILE`
    ");
    world.suite(&["--quiet"]).run();
    assert_snapshot!(yb(&world, &["index", "query", "delete from runs"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to use the index `[TEMP]/work/.youbencha-workspace/index.sqlite`: attempt to write a readonly database
    hint: list the tables: `yb help runs`
    ");
    assert_snapshot!(yb(&world, &["index", "query", "selct"]).snapshot(), @r#"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to use the index `[TEMP]/work/.youbencha-workspace/index.sqlite`: near "selct": syntax error in selct at offset 0
    hint: list the tables: `yb help runs`
    "#);
}
