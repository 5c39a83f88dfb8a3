//! `yb baseline`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::YB;
use crate::suites::{BAD, GOOD, World, suite};

fn yb(world: &World, args: &[&str]) -> yb_testkit::Outcome {
    world.context.run(YB, args)
}

#[test]
fn baseline_is_set_listed_and_removed() {
    let mut world = World::with(&suite(&["one"], &[("good", GOOD), ("bad", BAD)], ""));
    world.context.filter(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "[WHEN]");
    assert_snapshot!(yb(&world, &["baseline", "list"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    ----- stderr -----
    no baselines; hint: create one with: yb baseline set NAME RUN
    ");
    world.suite(&["--quiet"]).run();
    assert_snapshot!(yb(&world, &["baseline", "set", "main"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    main: [RUN], 1 of 2 trials passed
    ----- stderr -----
    ");
    assert_snapshot!(yb(&world, &["baseline", "list"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    baseline  set                   suite    run                           results
    main      [TIMESTAMP]  nightly  [RUN]  1 of 2 trials passed
    ----- stderr -----
    ");
    let listed: Value = serde_json::from_str(&yb(&world, &["baseline", "list", "--json"]).stdout).unwrap();
    assert_eq!(listed["baselines"][0]["outcomes"]["passed"], 1);
    // The baseline outlives its run.
    assert_eq!(yb(&world, &["clean", "--all", "--yes"]).code, Some(0));
    assert!(world.runs().is_empty());
    world.suite(&["--quiet"]).run();
    assert_eq!(yb(&world, &["compare", "main"]).code, Some(5));
    assert_eq!(yb(&world, &["baseline", "remove", "main"]).code, Some(0));
    assert_snapshot!(yb(&world, &["baseline", "remove", "main"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no baseline or run named `main`
    hint: create a baseline from a run: `yb baseline set main RUN`
    ");
    assert_snapshot!(yb(&world, &["baseline", "set", "../x"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid baseline name: `../x`
    hint: expected 1 to 100 letters, digits, `.`, `_` and `-`, starting with a letter or digit, and not `latest`
    ");
}

#[test]
fn unfinished_run_is_rejected_as_baseline() {
    let world = World::with(&suite(&["one"], &[("v", GOOD)], "repeats: 2"));
    world.suite(&["--quiet", "--jobs", "1"]).run();
    let journal = world.only_run().join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let cut = lines.iter().position(|line| line.contains("attempt_finished")).unwrap() + 1;
    std::fs::write(&journal, lines[..cut].join("\n") + "\n").unwrap();
    // A killed run has none; they name the last line of the journal.
    std::fs::remove_file(journal.with_file_name("results.json")).unwrap();
    assert_snapshot!(yb(&world, &["baseline", "set", "main"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: run `[RUN]` is incomplete, pending trials: 1
    hint: finish it first: `yb run --resume [RUN]`
    ");
}
