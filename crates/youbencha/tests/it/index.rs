//! The index over all runs: derived, asked, thrown away and made again.

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
fn every_run_is_in_the_index_when_it_ends() {
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
    world.suite(&["--quiet"]).run();
    let question = "select name, planned, done, passed, finished, gates from runs";
    let told: Value =
        serde_json::from_str(&yb(&world, &["index", "query", question, "--json"]).stdout).unwrap();
    let row =
        json!({ "name": "nightly", "planned": 2, "done": 2, "passed": 1, "finished": 1, "gates": "failed" });
    assert_eq!(told["rows"], json!([row, row]));
    assert_eq!(yb(&world, &["clean", "latest", "--yes"]).code, Some(0));
    let left = yb(&world, &["index", "query", "select count(*) as runs from runs"]);
    assert_eq!(left.stdout, "runs\n1\n", "{}", left.stderr);
}

#[test]
fn an_index_that_is_lost_or_broken_is_made_again() {
    let world = World::with(&suite(&["one"], &[("good", GOOD)], ""));
    world.suite(&["--quiet"]).run();
    let before = yb(&world, &["index", "query", QUESTION]).stdout;
    std::fs::remove_file(index(&world)).unwrap();
    assert_eq!(yb(&world, &["index", "query", QUESTION]).stdout, before);
    std::fs::write(index(&world), "no database at all, but long enough to look like one").unwrap();
    // A run never fails because of it.
    assert_eq!(world.suite(&["--quiet"]).run().code, Some(0));
    let told = yb(&world, &["index", "query", "select count(*) as runs from runs"]);
    assert_eq!(told.stdout, "runs\n2\n", "{}", told.stderr);
    std::fs::write(index(&world), "broken").unwrap();
    assert_snapshot!(yb(&world, &["index", "rebuild"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    2 runs in .youbencha-workspace/index.sqlite
    ----- stderr -----
    ");
}

#[test]
fn where_no_index_can_be_the_run_is_fine() {
    let world = World::with(&suite(&["one"], &[("good", GOOD)], ""));
    std::fs::create_dir_all(index(&world)).unwrap();
    let told = world.suite(&["--quiet"]).run();
    assert_eq!(told.code, Some(0), "{}", told.stderr);
}

#[test]
fn asking_changes_nothing_and_mistakes_are_said() {
    let world = World::with(&suite(&["one"], &[("good", GOOD)], ""));
    assert_snapshot!(yb(&world, &["index", "query", "select 1"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no run yet in `.youbencha-workspace`
    hint: `yb run -c FILE` makes one
    ");
    world.suite(&["--quiet"]).run();
    assert_snapshot!(yb(&world, &["index", "query", "delete from runs"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to use the index `[TEMP]/work/.youbencha-workspace/index.sqlite`: attempt to write a readonly database
    hint: `docs/reference/commands.md` has the tables
    ");
    assert_snapshot!(yb(&world, &["index", "query", "selct"]).snapshot(), @r#"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to use the index `[TEMP]/work/.youbencha-workspace/index.sqlite`: near "selct": syntax error in selct at offset 0
    hint: `docs/reference/commands.md` has the tables
    "#);
}
