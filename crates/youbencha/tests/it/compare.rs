//! `yb compare`: pairs, figures, the answer and its exit code.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::YB;
use crate::suites::{BAD, GOOD, World, refused, suite, variant};

fn yb(world: &World, args: &[&str]) -> yb_testkit::Outcome {
    world.context.run(YB, args)
}

/// A run of a suite, whatever it comes to.
fn ran(world: &World, text: &str) -> String {
    world.context.write("suite.yaml", text);
    world.suite(&["--quiet", "--retries", "0"]).run();
    world.runs().last().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

fn json(world: &World, args: &[&str]) -> Value {
    let told = yb(world, args);
    serde_json::from_str(&told.stdout).unwrap_or_else(|_| panic!("{} {}", told.stdout, told.stderr))
}

#[test]
fn a_run_that_got_worse_is_told_case_by_case() {
    let mut world = World::new();
    world.context.filter(r"(?m)^time  .*$", "time  [FIGURES]");
    let before = ran(&world, &suite(&["one", "two"], &[("v", GOOD)], "repeats: 8"));
    let half = format!("{GOOD}; d=${{PWD%/attempt-*}}; case ${{d##*/}} in one--*) {BAD};; esac");
    ran(&world, &suite(&["one", "two"], &[("v", &half)], "repeats: 8"));
    assert_snapshot!(yb(&world, &["compare", &before]).snapshot(), @r"
    exit code: 1
    ----- stdout -----
    before: [RUN], nightly
    now:    [RUN], nightly

    case  variant  before  now  points  time before  now
    one   v        8/8     0/8  -100.0  [TIME]        [TIME]
    two   v        8/8     8/8  =       [TIME]        [TIME]

    all cases  before   now     difference    95 % bounds       p        p (Holm)
    pass rate  100.0 %  50.0 %  -50.0 points  -63.7 to -28.1    < 0.001  < 0.001
    pass@5     100.0 %  50.0 %
    pass^5     100.0 %  50.0 %
    time  [FIGURES]

    regressed: the pass rate is lower by more than 5 points: 100.0 % → 50.0 %, -50.0 points (95 % bounds -63.7 and -28.1)
    ----- stderr -----
    ");
    let told = json(&world, &["compare", &before, "latest", "--json"]);
    assert_eq!(told["decision"], "regressed");
    assert_eq!(told["cases"][0]["a"]["passed"], 8);
    assert_eq!(told["cases"][0]["b"]["passed"], 0);
    assert_eq!(told["b"]["pass_at_k"]["5"], 0.5);
    assert_eq!(told["pass_rate"]["estimate"], -0.5);
    assert_eq!(told["pass_rate"]["method"], "exact");
}

#[test]
fn the_three_exit_codes() {
    let world = World::new();
    ran(&world, &suite(&["one"], &[("good", GOOD), ("bad", BAD)], "repeats: 3"));
    let code = |args: &[&str]| yb(&world, &[&["compare", "latest"], args].concat()).code;
    assert_eq!(code(&["latest", "--variant", "bad"]), Some(5));
    assert_eq!(code(&["--variant", "good=bad"]), Some(1));
    assert_eq!(code(&["--variant", "bad=good"]), Some(0));
    assert_eq!(code(&["--variant", "good", "--tolerance", "0.7"]), Some(0));
    assert_eq!(code(&["--variant", "good=bad", "--estimand", "new-cases"]), Some(5));
    assert_eq!(code(&["--variant", "good=bad", "--tolerance", "5"]), Some(2));
    assert_snapshot!(yb(&world, &["compare", "latest", "--variant", "good", "--variant", "bad=best"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[RUN]` has no variant `best`
    hint: available: `bad`, `good`
    ");
}

#[test]
fn what_does_not_belong_together_is_said() {
    let world = World::new();
    let one = ran(&world, &suite(&["one", "two"], &[("a", GOOD), ("b", GOOD)], ""));
    let other = ran(&world, &suite(&["one", "three"], &[("c", GOOD), ("d", GOOD)], ""));
    assert_snapshot!(yb(&world, &["compare", &one, &other]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[RUN]` and `[RUN]` have no variant in common
    hint: available: `a`, `b` and `c`, `d`
    hint: map the variants: `--variant a=c`
    ");
    let told = json(&world, &["compare", &one, &other, "--variant", "a=c", "--json"]);
    assert_eq!(told["cases"].as_array().unwrap().len(), 1);
    assert_eq!((&told["only_in_a"], &told["only_in_b"]), (&json!(["two / a"]), &json!(["three / c"])));
    let nothing = ran(&world, &suite(&["three"], &[("a", GOOD)], ""));
    assert_snapshot!(yb(&world, &["compare", &one, &nothing]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[RUN]` and `[RUN]` have no case in common
    hint: cases are paired by name
    ");
    assert_snapshot!(yb(&world, &["compare", "main"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no baseline or run named `main`
    hint: create a baseline from a run: `yb baseline set main RUN`
    ");
}

#[test]
fn a_single_variant_on_each_side_needs_no_name() {
    let world = World::new();
    let one = ran(&world, &suite(&["one"], &[("old", GOOD)], ""));
    let two = ran(&world, &suite(&["one"], &[("new", GOOD)], ""));
    let told = json(&world, &["compare", &one, &two, "--json"]);
    assert_eq!(told["cases"][0]["variant_a"], "old");
    assert_eq!(told["cases"][0]["variant_b"], "new");
}

#[test]
fn too_many_lost_trials_leave_no_answer() {
    let world = World::new();
    let flaky = format!("{}test ${{PWD#*--3/}} = $PWD || {{ {}; }}; {GOOD}", "", refused(500));
    let text = format!(
        "youbencha: 1\nname: n\ncases: {}\nvariants: {}\nrepeats: 3",
        json!([crate::suites::case("one")]),
        json!([variant("v", &flaky, "claude-stream-json")])
    );
    ran(&world, &text);
    let told = json(&world, &["compare", "latest", "--json"]);
    assert_eq!(told["decision"], "cannot_tell");
    assert_eq!(told["b"]["lost"], 1, "{told:#}");
    let reason = told["reason"].as_str().unwrap();
    assert!(reason.contains("2 of 6 trials were lost, more than 5.0 %"), "{reason}");
}

#[test]
fn results_and_baselines_are_files_that_can_be_carried() {
    let world = World::new();
    let run = ran(&world, &suite(&["one"], &[("v", GOOD)], "repeats: 2"));
    let path = world.only_run().join("results.json");
    let told = json(&world, &["compare", path.to_str().unwrap(), "latest", "--json"]);
    assert_eq!(told["a"]["run"], run.as_str());
    yb(&world, &["baseline", "set", "main"]);
    let file = world.path(".youbencha-workspace/baselines/main.json");
    let carried = world.path("carried.json");
    std::fs::rename(&file, &carried).unwrap();
    let told = json(&world, &["compare", "carried.json", "--json"]);
    assert_eq!(told["a"]["baseline"], "main");
    let newer = std::fs::read_to_string(&carried).unwrap().replacen("\"version\": 1", "\"version\": 9", 1);
    std::fs::write(&file, newer).unwrap();
    assert_snapshot!(yb(&world, &["compare", "main"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to read the baseline `[TEMP]/work/.youbencha-workspace/baselines/main.json`: it has version 9; this version reads up to 1
    ");
}

#[test]
fn the_schema_describes_what_is_printed() {
    let world = World::new();
    ran(&world, &suite(&["one"], &[("v", GOOD)], "repeats: 2\ngates: { min_pass_rate: 1 }"));
    for (name, document) in [
        ("comparison", json(&world, &["compare", "latest", "--json"])),
        (
            "run-results",
            serde_json::from_str(&std::fs::read_to_string(world.only_run().join("results.json")).unwrap())
                .unwrap(),
        ),
    ] {
        let schema = json(&world, &["schema", name]);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
        assert!(!validator.is_valid(&json!({ "version": 1 })), "{name}");
    }
}
