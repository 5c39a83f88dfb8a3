//! `yb compare`: pairing, metrics, decision and exit code.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::YB;
use crate::suites::{BAD, GOOD, World, refused, suite, variant};

fn yb(world: &World, args: &[&str]) -> yb_testkit::Outcome {
    world.context.run(YB, args)
}

/// Runs a suite with any outcome.
fn ran(world: &World, text: &str) -> String {
    world.context.write("suite.yaml", text);
    world.suite(&["--quiet", "--retries", "0"]).run();
    world.runs().last().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

fn json(world: &World, args: &[&str]) -> Value {
    let printed = yb(world, args);
    serde_json::from_str(&printed.stdout).unwrap_or_else(|_| panic!("{} {}", printed.stdout, printed.stderr))
}

#[test]
fn compare_reports_a_regression_by_case() {
    let mut world = World::new();
    world.context.filter(r"(?m)^time  .*$", "time  [FIGURES]").filter(r"(\S) {2,}", "$1  ");
    let before = ran(&world, &suite(&["one", "two"], &[("v", GOOD)], "repeats: 8"));
    let half = format!("{GOOD}; d=${{PWD%/attempt-*}}; case ${{d##*/}} in one--*) {BAD};; esac");
    ran(&world, &suite(&["one", "two"], &[("v", &half)], "repeats: 8"));
    assert_snapshot!(yb(&world, &["compare", &before]).snapshot(), @r"
    exit code: 1
    ----- stdout -----
    before: [RUN], nightly
    now:  [RUN], nightly

    case  variant  before  now  change  time before  now
    one  v  8/8  0/8  -100.0 pp  [TIME]  [TIME]
    two  v  8/8  8/8  =  [TIME]  [TIME]

    all cases  before  now  difference  95% bounds  p  p (Holm)
    pass rate  100.0%  50.0%  -50.0 pp  -63.7 to -28.1 pp  < 0.001  < 0.001
    pass@5  100.0%  50.0%
    pass^5  100.0%  50.0%
    time  [FIGURES]

    worse: `[RUN]` passes less often than `[RUN]`: 100.0% → 50.0%, -50.0 pp (95% bounds -63.7 to -28.1 pp, p < 0.001)
    regressed: pass rate dropped by more than 5 pp: 100.0% → 50.0%, -50.0 pp (95% bounds -63.7 to -28.1 pp)
    ----- stderr -----
    ");
    let printed = json(&world, &["compare", &before, "latest", "--json"]);
    assert_eq!(printed["decision"], "regressed");
    assert_eq!(printed["cases"][0]["a"]["passed"], 8);
    assert_eq!(printed["cases"][0]["b"]["passed"], 0);
    assert_eq!(printed["b"]["pass_at_k"]["5"], 0.5);
    assert_eq!(printed["pass_rate"]["estimate"], -0.5);
    assert_eq!(printed["pass_rate"]["method"], "exact");
}

#[test]
fn compare_has_three_exit_codes() {
    let world = World::new();
    ran(&world, &suite(&["one"], &[("good", GOOD), ("bad", BAD)], "repeats: 3"));
    let code = |args: &[&str]| yb(&world, &[&["compare", "latest"], args].concat()).code;
    assert_eq!(code(&["latest", "--variant", "bad"]), Some(5));
    assert_eq!(code(&["--variant", "good=bad"]), Some(1));
    assert_eq!(code(&["--variant", "bad=good"]), Some(0));
    assert_eq!(code(&["latest", "--variant", "good", "--tolerance", "0.7"]), Some(0));
    assert_eq!(code(&["--variant", "good=bad", "--estimand", "new-cases"]), Some(5));
    assert_eq!(code(&["--variant", "good=bad", "--tolerance", "5"]), Some(2));
    assert_snapshot!(yb(&world, &["compare", "latest", "latest", "--variant", "good", "--variant", "bad=best"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[RUN]` has no variant `best`
    hint: available: `bad`, `good`
    ");
}

#[test]
fn compare_rejects_runs_without_common_cases() {
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
    let printed = json(&world, &["compare", &one, &other, "--variant", "a=c", "--json"]);
    assert_eq!(printed["cases"].as_array().unwrap().len(), 1);
    assert_eq!((&printed["only_in_a"], &printed["only_in_b"]), (&json!(["two / a"]), &json!(["three / c"])));
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
fn single_variants_are_paired_without_names() {
    let world = World::new();
    let one = ran(&world, &suite(&["one"], &[("old", GOOD)], ""));
    let two = ran(&world, &suite(&["one"], &[("new", GOOD)], ""));
    let printed = json(&world, &["compare", &one, &two, "--json"]);
    assert_eq!(printed["cases"][0]["variant_a"], "old");
    assert_eq!(printed["cases"][0]["variant_b"], "new");
}

#[test]
fn too_many_excluded_trials_are_inconclusive() {
    let world = World::new();
    let flaky = format!("{}test ${{PWD#*--3/}} = $PWD || {{ {}; }}; {GOOD}", "", refused(500));
    let text = format!(
        "youbencha: 1\nname: n\ncases: {}\nvariants: {}\nrepeats: 3",
        json!([crate::suites::case("one")]),
        json!([variant("v", &flaky, "claude-stream-json")])
    );
    ran(&world, &text);
    let printed = json(&world, &["compare", "latest", "latest", "--json"]);
    assert_eq!(printed["decision"], "cannot_tell");
    assert_eq!(printed["b"]["lost"], 1, "{printed:#}");
    let reason = printed["reason"].as_str().unwrap();
    assert!(reason.contains("2 of 6 trials excluded by infrastructure failures (maximum 5.0%)"), "{reason}");
}

#[test]
fn compare_reads_results_and_baseline_files() {
    let world = World::new();
    let run = ran(&world, &suite(&["one"], &[("v", GOOD)], "repeats: 2"));
    let path = world.only_run().join("results.json");
    let printed = json(&world, &["compare", path.to_str().unwrap(), "latest", "--json"]);
    assert_eq!(printed["a"]["run"], run.as_str());
    yb(&world, &["baseline", "set", "main"]);
    let file = world.path(".youbencha-workspace/baselines/main.json");
    let carried = world.path("carried.json");
    std::fs::rename(&file, &carried).unwrap();
    let printed = json(&world, &["compare", "carried.json", "--json"]);
    assert_eq!(printed["a"]["baseline"], "main");
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
fn json_output_matches_its_schema() {
    let world = World::new();
    ran(&world, &suite(&["one"], &[("v", GOOD)], "repeats: 2\ngates: { min_pass_rate: 1 }"));
    for (name, document) in [
        ("comparison", json(&world, &["compare", "latest", "latest", "--json"])),
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

#[test]
fn compare_rejects_a_variant_in_two_pairs() {
    let world = World::new();
    ran(&world, &suite(&["one"], &[("a", GOOD), ("b", BAD), ("x", GOOD)], "repeats: 2"));
    for pairs in [["a=x", "b=x"], ["x=a", "x=b"], ["x", "x"]] {
        let args = ["compare", "latest", "latest", "--variant", pairs[0], "--variant", pairs[1]];
        let refused = yb(&world, &args);
        let expected = "error: variant `x` is in more than one pair\nhint: run one comparison for each pair";
        assert!(refused.code == Some(2) && refused.stderr.starts_with(expected), "{}", refused.stderr);
    }
    let printed = json(&world, &["compare", "latest", "--variant", "a=x", "--variant", "x=a", "--json"]);
    assert_eq!(printed["cases"].as_array().unwrap().len(), 2, "{printed:#}");
}

#[test]
fn latest_with_a_number_names_an_earlier_run() {
    let world = World::new();
    let first = ran(&world, &suite(&["one"], &[("v", BAD)], ""));
    let second = ran(&world, &suite(&["one"], &[("v", GOOD)], ""));
    let third = ran(&world, &suite(&["one"], &[("v", GOOD), ("w", BAD)], ""));
    let runs = |args: &[&str]| {
        let printed = json(&world, &[&["compare", "--json"], args].concat());
        ["a", "b"].map(|side| printed[side]["run"].as_str().unwrap().to_owned())
    };
    assert_eq!(runs(&["latest"]), [second.clone(), third.clone()]);
    assert_eq!(runs(&["latest", "--variant", "v"]), [second.clone(), third.clone()]);
    assert_eq!(runs(&["latest", "--variant", "v=w"]), [third.clone(), third.clone()]);
    assert_eq!(runs(&["latest~2"]), [first.clone(), third]);
    assert_eq!(runs(&["latest~1", "latest~2"]), [second.clone(), first.clone()]);
    assert_eq!(json(&world, &["show", "latest~1", "--json"])["run"], second.as_str());
    assert_eq!(
        json(&world, &["gate", "latest~2", "--gate", "min_pass_rate=1", "--json"])["run"],
        first.as_str()
    );
    // In a gate, `latest` and `latest~1` are the run before, `latest~2` is the one before that.
    let against = |name: &str| {
        let gate = format!("no_regression={name}");
        let args = ["gate", "latest", "--gate", &gate, "--gate", "no_regression.tolerance=0.99", "--json"];
        json(&world, &args).to_string()
    };
    assert!(against("latest~1").contains(&second) && against("latest").contains(&second));
    assert!(against("latest~2").contains(&first));
    assert_snapshot!(yb(&world, &["compare", "latest~3"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no run matches `latest~3` in `[TEMP]/work/.youbencha-workspace/runs`
    hint: `yb list runs` shows all runs
    ");
}
