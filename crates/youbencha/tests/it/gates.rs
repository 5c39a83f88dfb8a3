//! Gates in suites, on the command line and for recorded runs.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::YB;
use crate::suites::{BAD, GOOD, World, case, refused, suite, variant};

fn yb(world: &World, args: &[&str]) -> yb_testkit::Outcome {
    world.context.run(YB, args)
}

#[test]
fn gates_decide_the_exit_code_of_a_run() {
    let both = [("good", GOOD), ("bad", BAD)];
    let world =
        World::with(&suite(&["one"], &both, "repeats: 2\ngates: { min_pass_rate: 0.5, max_lost: 0 }"));
    let printed = world.suite(&["--jobs", "1", "--quiet"]).run();
    assert_snapshot!(printed.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    case  variant  passed  median time
    one   good     2/2     [TIME]
    one   bad      0/2     [TIME]

    variant  passed  pass rate  95% interval
    good     2/2     100.0%     34.2% to 100.0%
    bad      0/2     0.0%       0.0% to 65.8%
    cannot tell whether `bad` is better than `good`: 100.0% → 0.0%, -100.0 pp (95% bounds -100.0 to +9.8 pp, p = 0.333)


    ✗ one / bad: failed (2 times): git-diff: 2 files changed (+2/-0 lines): `b`, `c` | Violations: files_changed (2) exceeds max_files_changed (1)

    4 of 4 trials: 2 passed, 2 failed in [TIME]; isolation: none
    gates: passed
      min_pass_rate  passed  50.0% (minimum 50.0%), 2 of 4 trials
      max_lost       passed  0.0% (maximum 0.0%), 0 of 4 trials
    ----- stderr -----
    hint: inspect a trial: yb show latest one--bad--1
    hint: write an HTML report: yb report --format html
    ");
    let written: Value =
        serde_json::from_slice(&std::fs::read(world.only_run().join("results.json")).unwrap()).unwrap();
    assert_eq!(written["gates"]["answer"], "held");
    assert_eq!(written["gates"]["gates"][0]["value"], 0.5);
    let printed = yb(&world, &["gate", "latest", "--gate", "min_pass_rate=0.75"]);
    assert_snapshot!(printed.snapshot(), @r"
    exit code: 1
    ----- stdout -----
    gates: failed
      min_pass_rate  failed  50.0% (minimum 75.0%), 2 of 4 trials
      max_lost       passed  0.0% (maximum 0.0%), 0 of 4 trials
    ----- stderr -----
    ");
    assert_eq!(yb(&world, &["gate"]).code, Some(0));
    assert_eq!(world.suite(&["--quiet", "--gate", "min_pass_rate=0.75"]).run().code, Some(1));
}

#[test]
fn gates_event_is_a_line_of_json() {
    let world = World::with(&suite(&["one"], &[("bad", BAD)], "gates: { min_pass_rate: 1 }"));
    let printed = world.suite(&["--json"]).run();
    assert_eq!(printed.code, Some(1));
    let lines: Vec<Value> = printed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [.., gates, summary] = lines.as_slice() else { panic!("{}", printed.stdout) };
    assert_eq!((&gates["event"], &gates["answer"]), (&json!("gates"), &json!("failed")));
    assert_eq!(gates["gates"][0]["gate"], "min_pass_rate");
    assert_eq!((&summary["event"], &summary["gates"]), (&json!("summary"), &json!("failed")));
    let again: Value = serde_json::from_str(&yb(&world, &["gate", "--json"]).stdout).unwrap();
    assert_eq!((&again["gates"], &again["exit_code"]), (&gates["gates"], &json!(1)));
}

#[test]
fn gates_report_a_reason() {
    let mut cases = [case("one"), case("two")];
    cases[1]["tags"] = json!(["slow"]);
    let spends = r#"echo more >> a.txt; echo '{"type":"result","subtype":"success","is_error":false,"result":"x","total_cost_usd":0.5,"num_turns":1,"usage":{"input_tokens":1,"output_tokens":1}}'"#;
    let text = format!(
        "youbencha: 1\nname: n\ncases: {}\nvariants: {}",
        json!(cases),
        json!([variant("v", spends, "claude-stream-json")])
    );
    let world = World::with(&text);
    world.suite(&["--quiet"]).run();
    let gates = [
        "max_cost_usd=0.9",
        "tags.slow.max_cost_usd=0.9",
        "isolation=bubblewrap",
        "tags.fast.min_pass_rate=1",
    ];
    let args: Vec<&str> =
        ["gate", "latest"].into_iter().chain(gates.iter().flat_map(|gate| ["--gate", gate])).collect();
    assert_snapshot!(yb(&world, &args).snapshot(), @r"
    exit code: 1
    ----- stdout -----
    gates: failed
      max_cost_usd             failed        $1.00 (maximum $0.90)
      isolation                failed        2 trials ran with `none` (minimum `bubblewrap`)
      tags.fast.min_pass_rate  inconclusive  no trial has the tag
      tags.slow.max_cost_usd   passed        $0.50 (maximum $0.90)
    ----- stderr -----
    ");
}

#[test]
fn evaluator_gates_count_the_verdicts_of_one_evaluator() {
    // `git-diff` passes for the good agent only, `files-here` of one case for both.
    let mut cases = [case("one"), case("two")];
    cases[0]["evaluators"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "files-here", "config": { "assertions": { "exists": ["a.txt"] } } }));
    let text = format!(
        "youbencha: 1\nname: n\ncases: {}\nvariants: {}\ngates: {}",
        json!(cases),
        json!([variant("good", GOOD, "text"), variant("bad", BAD, "text")]),
        json!({ "evaluators": { "files-here": { "min_pass_rate": 1 } } })
    );
    let world = World::with(&text);
    let printed = world.suite(&["--jobs", "1", "--quiet"]).run();
    assert_eq!(printed.code, Some(0), "{}", printed.stdout);
    let gates = ["evaluators.git-diff.min_pass_rate=0.6", "evaluators.none.min_pass_rate=1"];
    let args: Vec<&str> =
        ["gate", "latest"].into_iter().chain(gates.iter().flat_map(|gate| ["--gate", gate])).collect();
    assert_snapshot!(yb(&world, &args).snapshot(), @r"
    exit code: 1
    ----- stdout -----
    gates: failed
      evaluators.files-here.min_pass_rate  passed        100.0% (minimum 100.0%), 2 of 2 trials
      evaluators.git-diff.min_pass_rate    failed        50.0% (minimum 60.0%), 2 of 4 trials
      evaluators.none.min_pass_rate        inconclusive  no trial has the evaluator
    ----- stderr -----
    ");
    world.context.write("suite.yaml", text.replace("files-here\":{\"min", "files-her\":{\"min"));
    let validated = yb(&world, &["validate", "suite.yaml"]);
    assert_eq!(validated.code, Some(2));
    for line in [
        "error: no case with this evaluator: `files-her`",
        "key: `gates.evaluators.files-her`",
        "did you mean `files-here`?",
    ] {
        assert!(validated.stdout.contains(line), "{}", validated.stdout);
    }
}

#[test]
fn excluded_trials_are_inconclusive_unless_the_others_decide() {
    let infra = refused(500);
    let of = |variants: Vec<Value>| {
        let text = format!(
            "youbencha: 1\nname: n\ncases: {}\nvariants: {}\nretries: 0\ngates: {{ min_pass_rate: 0.5 }}",
            json!([case("one")]),
            json!(variants)
        );
        let world = World::with(&text);
        let printed = world.suite(&["--quiet"]).run();
        (printed.code, printed.stdout.lines().last().unwrap().trim().to_owned())
    };
    let lost = || variant("lost", &infra, "claude-stream-json");
    let (good, bad) = (|name| variant(name, GOOD, "text"), |name| variant(name, BAD, "text"));
    assert_eq!(of(vec![lost(), good("a")]).0, Some(0));
    let (code, said) = of(vec![lost(), good("a"), bad("b")]);
    assert_eq!(code, Some(5));
    assert_eq!(
        said,
        "min_pass_rate  inconclusive  50.0% (minimum 50.0%), 1 of 2 trials; 1 trial excluded by infrastructure failures"
    );
    assert_eq!(of(vec![lost(), bad("a"), bad("b")]).0, Some(1));
    // If no trial counted, the outcomes determine the exit code.
    assert_eq!(of(vec![lost()]).0, Some(4));
}

#[test]
fn no_regression_compares_with_a_baseline() {
    let gates = "repeats: 6\ngates: { no_regression: { against: main } }";
    let world = World::with(&suite(&["one"], &[("v", GOOD)], gates));
    assert_snapshot!(world.suite(&["--quiet"]).run().snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no baseline or run named `main`
    hint: create a baseline from a run: `yb baseline set main RUN`
    ");
    // The first run becomes the baseline.
    let first = world.suite(&["--quiet", "--gate", "no_regression.on_inconclusive=pass"]).run();
    assert_eq!(first.code, Some(0), "{}", first.stdout);
    assert!(first.stdout.contains("counts as passed"), "{}", first.stdout);
    assert_eq!(yb(&world, &["baseline", "set", "main"]).code, Some(0));
    let same = world.suite(&["--quiet"]).run();
    assert_eq!(same.code, Some(5), "{}", same.stdout);
    assert!(same.stdout.contains("more repeats of each case"), "{}", same.stdout);
    let fail = yb(&world, &["gate", "latest", "--gate", "no_regression.on_inconclusive=fail"]);
    assert_eq!(fail.code, Some(1));
    let loose = yb(&world, &["gate", "latest", "--gate", "no_regression.tolerance=0.5"]);
    assert_eq!(loose.code, Some(0), "{}", loose.stdout);
    world.context.write("suite.yaml", suite(&["one"], &[("v", BAD)], gates));
    let worse = world.suite(&["--quiet"]).run();
    assert_eq!(worse.code, Some(1), "{}", worse.stdout);
    // `latest` is the previous run.
    let latest = yb(&world, &["gate", "latest", "--gate", "no_regression=latest"]);
    assert!(latest.code == Some(1) && latest.stdout.contains("regressed"), "{}", latest.stdout);
}

#[test]
fn gate_errors_have_a_location() {
    let text = suite(
        &["one"],
        &[("v", GOOD)],
        "gates:
  min_pass_rate: 90
  isolation: none
  no_regresion: { against: main }
  no_regression: { tolerance: 5 }
  tags: { slow: { min_pass_rate: 1 } }
",
    );
    let world = World::with(&text);
    assert_snapshot!(yb(&world, &["validate", "suite.yaml"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    error: wrong value: `90`
     --> suite.yaml:6:18
    6 |   min_pass_rate: 90
      |                  ^^
      = key: `gates.min_pass_rate`
      = expected: a number from 0 to 1

    error: wrong value: `none`
     --> suite.yaml:7:14
    7 |   isolation: none
      |              ^^^^
      = key: `gates.isolation`
      = expected: one of `bubblewrap`, `landlock`, `external`

    error: unknown key: `no_regresion`
     --> suite.yaml:8:3
    8 |   no_regresion: { against: main }
      |   ^^^^^^^^^^^^
      = key: `gates.no_regresion`
    hint: did you mean `no_regression`?

    error: missing key: `against`
     --> suite.yaml:9:20
    9 |   no_regression: { tolerance: 5 }
      |                    ^^^^^^^^^
      = key: `gates.no_regression.against`
      = expected: a string of 1 to 200 characters

    error: wrong value: `5`
     --> suite.yaml:9:31
    9 |   no_regression: { tolerance: 5 }
      |                               ^
      = key: `gates.no_regression.tolerance`
      = expected: a number from 0 to 1

    error: no case with this tag: `slow`
      --> suite.yaml:10:11
    10 |   tags: { slow: { min_pass_rate: 1 } }
       |           ^^^^
       = key: `gates.tags.slow`

    invalid: 1 file, 6 errors
    ----- stderr -----
    ");
    world.context.write("suite.yaml", suite(&["one"], &[("v", GOOD)], ""));
    assert_snapshot!(world.suite(&["--gate", "min_pass_rate=90"]).run().snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'min_pass_rate=90' for '--gate <KEY=VALUE>': expected a number from 0 to 1

    For more information, try '--help'.
    ");
    assert_snapshot!(world.suite(&["--gate", "no_regression.alpha=0.1"]).run().snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no run to compare with: add `--gate no_regression=BASELINE`
    ");
    world.suite(&["--quiet"]).run();
    assert_snapshot!(yb(&world, &["gate"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: run `[RUN]` has no gates
    hint: pass one, such as `--gate min_pass_rate=0.9`, or a suite with `gates`: `-c FILE`
    ");
}

#[test]
fn resumed_run_keeps_its_gates() {
    let world = World::with(&suite(&["one"], &[("v", GOOD)], "repeats: 3\ngates: { min_pass_rate: 1 }"));
    world.suite(&["--quiet", "--jobs", "1"]).run();
    let run = world.only_run();
    // Simulates a kill after the first trial.
    let text = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let cut = lines.iter().position(|line| line.contains("attempt_finished")).unwrap() + 1;
    std::fs::write(run.join("journal.jsonl"), lines[..cut].join("\n") + "\n").unwrap();
    std::fs::remove_file(run.join("results.json")).unwrap();
    let early = yb(&world, &["gate"]);
    assert_eq!(early.code, Some(5), "{}", early.stdout);
    let resumed = world.run(&["--resume", "latest", "--quiet"]).run();
    assert_eq!(resumed.code, Some(0), "{}{}", resumed.stdout, resumed.stderr);
    assert!(resumed.stdout.contains(", 3 of 3 trials"), "{}", resumed.stdout);
}

/// A suite of ten cases with three repeats, of which the agent breaks the last one once there is a file `broken`.
fn ten_cases(gates: &str) -> World {
    let names: Vec<String> = (0..10).map(|number| format!("case-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::new();
    let marker = world.path("broken");
    let agent = format!(
        "{}echo more >> a.txt; case $trial in case-9*) if test -e {marker}; then echo 1 > b; fi;; esac",
        crate::suites::WHO,
        marker = marker.display()
    );
    world
        .context
        .write("suite.yaml", suite(&names, &[("v", &agent)], &format!("repeats: 3\ngates: {gates}")));
    world
}

#[test]
fn dead_case_of_ten_fails_the_gate_and_names_the_case() {
    let world = ten_cases(
        "{ min_pass_rate: 0.8, no_regression: { against: main, on_inconclusive: pass },
           no_case_dies: { against: main, if_missing: pass },
           per_case: { against: main, max_drop: 0.9, if_missing: pass } }",
    );
    let first = world.suite(&["--quiet"]).run();
    assert_eq!(first.code, Some(0), "{}{}", first.stdout, first.stderr);
    assert!(first.stdout.contains("no baseline or run named `main`; counts as passed"), "{}", first.stdout);
    assert_eq!(yb(&world, &["baseline", "set", "main"]).code, Some(0));
    let same = world.suite(&["--quiet"]).run();
    assert_eq!(same.code, Some(0), "{}{}", same.stdout, same.stderr);
    world.context.write("broken", "");
    let broken = world.suite(&["--quiet"]).run();
    assert_eq!(broken.code, Some(1), "{}{}", broken.stdout, broken.stderr);
    let line = |name: &str| {
        let lines = broken.stdout.lines().map(str::trim);
        lines.filter(|line| line.starts_with(name)).collect::<Vec<_>>().join("\n")
    };
    // The older gates accept it.
    assert!(line("min_pass_rate").contains("passed"), "{}", broken.stdout);
    assert!(line("no_regression").contains("counts as passed"), "{}", broken.stdout);
    let dead = line("no_case_dies");
    assert!(dead.contains("failed") && dead.contains("`case-9 / v` 3/3 → 0/3: no longer passes"), "{dead}");
    assert!(dead.contains("(p = 0.050, error rate 5% over 10 cases, against main"), "{dead}");
    let runs = world.runs();
    let written: Value =
        serde_json::from_slice(&std::fs::read(runs.last().unwrap().join("results.json")).unwrap()).unwrap();
    let gates = written["gates"]["gates"].as_array().unwrap();
    let dead = gates.iter().find(|gate| gate["gate"] == "no_case_dies").unwrap();
    assert_eq!(dead["cases"], json!(["case-9 / v"]));
}

#[test]
fn case_gates_are_inconclusive_with_too_few_repeats_or_results() {
    let world = World::with(&suite(&["one", "two"], &[("v", GOOD)], ""));
    world.suite(&["--quiet"]).run();
    assert_eq!(yb(&world, &["baseline", "set", "main"]).code, Some(0));
    world.context.write("suite.yaml", suite(&["one", "two"], &[("v", BAD)], ""));
    world.suite(&["--quiet"]).run();
    for (args, code, words) in [
        (
            vec!["no_case_dies=main"],
            5,
            "`one / v` 1/1 → 0/1, `two / v` 1/1 → 0/1: no longer passes, but that could be chance",
        ),
        (vec!["no_case_dies=main", "no_case_dies.on_inconclusive=fail"], 1, "counts as failed"),
        (vec!["per_case=main", "per_case.max_drop=0.5"], 5, "more repeats are needed"),
        (vec!["per_case=main", "per_case.max_drop=1"], 0, "no case dropped by more than 100.0%"),
    ] {
        let args = args.iter().flat_map(|gate| ["--gate", gate]);
        let args: Vec<&str> = ["gate", "latest"].into_iter().chain(args).collect();
        let printed = yb(&world, &args);
        assert_eq!(printed.code, Some(code), "{args:?} {}{}", printed.stdout, printed.stderr);
        assert!(printed.stdout.contains(words), "{args:?} {}", printed.stdout);
    }
    let missing = world.suite(&["--gate", "no_case_dies=other"]).run();
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(missing.stderr.contains("no baseline or run named `other`"), "{}", missing.stderr);
}

#[test]
fn comment_and_page_of_two_runs_show_the_comparison_and_the_gate() {
    let world = ten_cases("{ min_pass_rate: 0.8, no_case_dies: { against: main, if_missing: pass } }");
    world.suite(&["--quiet"]).run();
    assert_eq!(yb(&world, &["baseline", "set", "main"]).code, Some(0));
    world.context.write("broken", "");
    // The dead case fails the gate; without that gate, nine of ten cases are enough.
    for (gate, run_mark, case_mark) in
        [("no_case_dies.alpha=0.05", "❌", "❌"), ("no_case_dies.on_inconclusive=pass", "✅", "")]
    {
        let alpha = if run_mark == "✅" { "no_case_dies.alpha=0.01" } else { gate };
        world.suite(&["--quiet", "--gate", gate, "--gate", alpha]).run();
        let comment = yb(&world, &["report", "--against", "main", "--format", "github", "-o", "-"]);
        assert_eq!(comment.code, Some(0), "{}", comment.stderr);
        let text = &comment.stdout;
        assert!(text.starts_with(&format!("### {run_mark} nightly: 100.0% → 90.0% (-10.0 pp)\n")), "{text}");
        let row = text.lines().find(|line| line.contains("case-9 |")).unwrap();
        assert!(row.starts_with(&format!("| {case_mark} | case-9 | v | 3/3 | 0/3 | -100.0 pp |")), "{row}");
        assert!(text.contains("| case-0 | v | 3/3 | 3/3 | = |"), "{text}");
        assert_eq!(text.matches("###").count(), 1, "{text}");
        assert!(text.contains("against `main (run-"), "{text}");
    }
    let runs: Vec<String> =
        world.runs().iter().map(|run| run.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let two = ["report", "--from", &runs[0], "--from", &runs[1], "-o", "-", "--format"];
    let of = |format: &str| yb(&world, &[two.as_slice(), &[format]].concat()).stdout;
    let comment = of("github");
    assert!(comment.contains("100.0% → 90.0%") && comment.matches("###").count() == 1, "{comment}");
    let page = of("markdown");
    assert!(
        page.contains("## Comparison") && page.contains("| case-9 | v | 3/3 | 0/3 | -100.0 pp |"),
        "{page}"
    );
    let json: Value = serde_json::from_str(&of("json")).unwrap();
    assert_eq!(json["comparison"]["cases"].as_array().unwrap().len(), 10);
    let written = yb(&world, &["report", "--against", "main", "--format", "html", "-o", "page.html"]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let page = world.context.read("page.html");
    let comparison = page.find("id=\"comparison\"").unwrap();
    assert!(comparison < page.find("class=\"run\"").unwrap());
    assert!(page[comparison..].contains("<td>3/3</td><td>0/3</td><td>-100.0 pp</td>"), "{page}");
    let refused = yb(&world, &["report", "--against", "main", "--from", "latest", "--from", "latest"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}
