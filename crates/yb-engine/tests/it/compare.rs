//! Comparisons and gates over constructed results: trials that could not be graded, or with a cost.

use serde_json::{Value, json};
use yb_engine::baseline::RecordedRun;
use yb_engine::compare::{CompareOptions, Metric, VariantSummary, compare};
use yb_engine::gates::{GateOverride, GateStatus, Gates};
use yb_engine::run::RunResults;
use yb_stats::{Answer, Decision, Estimand};

/// Returns the results of a run with these outcomes by case. `usd` is the cost of a trial.
fn run(cases: &[(&str, &[&str])], usd: f64) -> RunResults {
    let trials: Vec<Value> = cases
        .iter()
        .flat_map(|(case, outcomes)| {
            outcomes.iter().enumerate().map(move |(at, outcome)| {
                let attempt = json!({ "trial": "x", "attempt": 1, "outcome": outcome, "then": "done", "started_at": "",
                    "duration_ms": 1000 + at, "spend": { "agent_usd": usd + at as f64 / 100.0 }, "tokens": 10, "isolation": "bubblewrap" });
                json!({ "id": "x", "trial": format!("{case}--default--{at}"), "case": case, "variant": "default",
                    "repeat": at + 1, "outcome": outcome, "attempts": [attempt] })
            })
        })
        .collect();
    serde_json::from_value(json!({ "version": "1.0.0", "run": "run", "name": "n", "started_at": null, "last_at": null,
        "finished": true, "planned": trials.len(), "done": trials.len(), "outcomes": {}, "spend": {}, "unpriced": 0,
        "trials": trials }))
    .unwrap()
}

fn recorded(results: &RunResults) -> RecordedRun {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    std::fs::write(&path, serde_json::to_vec(results).unwrap()).unwrap();
    RecordedRun::find(dir.path(), path.to_str().unwrap()).unwrap()
}

fn some<'a>(outcome: &'a str, count: usize, rest: &[&'a str]) -> Vec<&'a str> {
    [vec![outcome; count], rest.to_vec()].concat()
}

#[test]
fn ungraded_trials_count_both_ways_in_a_comparison() {
    let all = some("passed", 100, &[]);
    let before = recorded(&run(&[("one", &all)], 0.1));
    // Two of a hundred are enough to make the answer unsure, one of two hundred is not.
    let few = some("passed", 98, &["grader_error"; 2]);
    let found = compare(&before, &recorded(&run(&[("one", &few)], 0.1)), &CompareOptions::default()).unwrap();
    assert_eq!(found.decision, Decision::Inconclusive, "{}", found.reason);
    let one = some("passed", 199, &["grader_error"]);
    let found = compare(&before, &recorded(&run(&[("one", &one)], 0.1)), &CompareOptions::default()).unwrap();
    assert_eq!(found.decision, Decision::Ok, "{}", found.reason);
    let many = some("passed", 70, &["grader_error"; 30]);
    let found =
        compare(&before, &recorded(&run(&[("one", &many)], 0.1)), &CompareOptions::default()).unwrap();
    assert_eq!(found.decision, Decision::Inconclusive);
    assert!(
        found.reason.ends_with("; 30 trials could not be graded, which could change the result"),
        "{}",
        found.reason
    );
    let worse = some("failed", 60, &["grader_error"; 10]);
    let found =
        compare(&before, &recorded(&run(&[("one", &worse)], 0.1)), &CompareOptions::default()).unwrap();
    assert_eq!(found.decision, Decision::Regressed, "{}", found.reason);
}

#[test]
fn ungraded_trials_count_both_ways_in_a_gate() {
    let dir = tempfile::tempdir().unwrap();
    let answer = |outcomes: &[&str], least: &str| {
        let gates = Gates::default().with(&[GateOverride::parse(least).unwrap()]).unwrap();
        yb_engine::gates::evaluate(&gates, &run(&[("one", outcomes)], 0.1), dir.path())
            .unwrap()
            .gates
            .remove(0)
    };
    let outcomes = ["passed", "passed", "grader_error", "failed"];
    assert_eq!(answer(&outcomes, "min_pass_rate=0.5").status, GateStatus::Passed);
    assert_eq!(answer(&outcomes, "min_pass_rate=0.8").status, GateStatus::Failed);
    let unsure = answer(&outcomes, "min_pass_rate=0.75");
    assert_eq!(unsure.status, GateStatus::Inconclusive);
    assert_eq!(unsure.reason, "66.7% (minimum 75.0%), 2 of 3 trials; 1 trial could not be graded");
    assert_eq!(answer(&outcomes, "max_cost_usd=0.46").status, GateStatus::Passed);
    assert_eq!(answer(&outcomes, "max_cost_usd=0.45").status, GateStatus::Failed);
    assert_eq!(answer(&outcomes, "isolation=landlock").status, GateStatus::Passed);
    assert_eq!(answer(&outcomes, "isolation=external").status, GateStatus::Failed);
    let mut unfiltered = run(&[("one", &outcomes)], 0.1);
    unfiltered.trials[1].attempts[0].syscall_filter = Some(false);
    let gates = Gates::default().with(&[GateOverride::parse("isolation=landlock").unwrap()]).unwrap();
    let refused = yb_engine::gates::evaluate(&gates, &unfiltered, dir.path()).unwrap().gates.remove(0);
    assert_eq!(refused.status, GateStatus::Failed);
    assert_eq!(
        refused.reason,
        "1 trial ran with `bubblewrap without a system call filter` (minimum `landlock`)"
    );
    let mut untold = run(&[("one", &outcomes)], 0.1);
    untold.trials[0].attempts[0].spend = serde_json::from_value(json!({})).unwrap();
    let gates = Gates::default().with(&[GateOverride::parse("max_cost_usd=9").unwrap()]).unwrap();
    let told = yb_engine::gates::evaluate(&gates, &untold, dir.path()).unwrap();
    assert_eq!(told.status, GateStatus::Inconclusive, "unreported usage is not a pass");
}

#[test]
fn metrics_have_differences_with_bounds_and_holm_correction() {
    let outcomes = some("passed", 3, &["failed", "failed"]);
    let cases = [("one", &outcomes[..]), ("two", &outcomes[..]), ("three", &outcomes[..])];
    let (a, b) = (recorded(&run(&cases, 0.1)), recorded(&run(&cases, 0.3)));
    let found = compare(&a, &b, &CompareOptions::default()).unwrap();
    let cost = found.metrics.iter().find(|one| one.metric == Metric::CostUsd).unwrap();
    assert!((cost.estimate - 0.2).abs() < 1e-9 && cost.p_value < 0.001 && cost.p_holm >= cost.p_value);
    let bounds = cost.interval.unwrap();
    assert!(bounds.lower > 0.15 && bounds.upper < 0.25, "{bounds:?}");
    assert!(!found.metrics.iter().any(|one| one.metric == Metric::Turns), "turns were not reported");
    assert_eq!(found.b.flaky, ["one", "two", "three"]);
    assert_eq!(found.b.pass_at_k[&5], 1.0);
    assert_eq!(found.b.pass_hat_k[&5], 0.0);
    assert!((found.pass_rate.unwrap().p_value.unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn new_cases_estimand_is_decided_across_cases() {
    let names: Vec<String> = (0..8).map(|case| format!("case-{case}")).collect();
    let of = |outcomes: &'static [&'static str]| -> Vec<(&str, &'static [&'static str])> {
        names.iter().map(|name| (name.as_str(), outcomes)).collect()
    };
    let a = recorded(&run(&of(&["passed", "passed"]), 0.1));
    let b = recorded(&run(&of(&["failed", "passed"]), 0.1));
    let mut options = CompareOptions::default();
    options.estimand = Estimand::NewCases;
    let found = compare(&a, &b, &options).unwrap();
    assert_eq!(found.decision, Decision::Regressed, "{}", found.reason);
    assert!(found.reason.starts_with("regressed: pass rate of new cases dropped"), "{}", found.reason);
    let found = compare(&a, &a, &options).unwrap();
    assert_eq!(found.decision, Decision::Inconclusive);
    assert!(found.reason.ends_with("at least 5 more cases with a difference needed"), "{}", found.reason);
}

#[test]
fn results_of_a_newer_major_version_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    std::fs::write(&path, r#"{ "version": "2.0.0" }"#).unwrap();
    let error = RunResults::read(&path).unwrap_err().to_string();
    assert!(error.contains("it has version \"2.0.0\"; this version reads up to 1.1.0"), "{error}");
}

#[test]
fn committed_schemas_match_the_types() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    for (name, schema) in
        [("run-results", RunResults::schema()), ("comparison", yb_engine::compare::Comparison::schema())]
    {
        let committed = folder.join(format!("{name}.schema.json"));
        if std::env::var_os("YB_UPDATE_SCHEMAS").is_some() {
            std::fs::write(&committed, &schema).unwrap();
        }
        let committed = std::fs::read_to_string(committed).unwrap_or_default();
        assert!(committed == schema, "the schema drifted; hint: run this test with `YB_UPDATE_SCHEMAS=1`");
    }
}

/// Returns the results of one case with these passes of ten trials by variant, with a design of these levels.
fn designed(variants: &[(&str, usize, f64)], design: &Value) -> RunResults {
    let trials: Vec<Value> = variants
        .iter()
        .flat_map(|(variant, passed, usd)| {
            (0..10).map(move |at| {
                let outcome = if at < *passed { "passed" } else { "failed" };
                let attempt = json!({ "trial": "x", "attempt": 1, "outcome": outcome, "then": "done", "started_at": "",
                    "duration_ms": 1000 + at, "spend": { "agent_usd": usd + at as f64 / 1000.0 }, "tokens": 10 });
                json!({ "id": "x", "trial": format!("one--{variant}--{at}"), "case": "one", "variant": variant,
                    "repeat": at + 1, "outcome": outcome, "attempts": [attempt] })
            })
        })
        .collect();
    let mut results = json!({ "version": "1.0.0", "run": "run", "name": "n", "started_at": null, "last_at": null,
        "finished": true, "planned": trials.len(), "done": trials.len(), "outcomes": {}, "spend": {}, "unpriced": 0,
        "trials": trials });
    if !design.is_null() {
        results["design"] = design.clone();
    }
    serde_json::from_value(results).unwrap()
}

#[test]
fn comparison_names_the_winner() {
    let before = recorded(&run(&[("one", &some("passed", 50, &["failed"; 50]))], 0.1));
    let after = recorded(&run(&[("one", &some("passed", 82, &["failed"; 18]))], 0.1));
    let options = CompareOptions::default();
    let better = compare(&before, &after, &options).unwrap();
    assert_eq!((better.decision, better.answer), (Decision::Ok, Answer::Better));
    let sentence = "better: `run` passes more often than `run`: 50.0% → 82.0%, +32.0 pp (95% bounds ";
    assert!(better.answer_reason.starts_with(sentence), "{}", better.answer_reason);
    assert!(better.answer_reason.ends_with("p < 0.001)"), "{}", better.answer_reason);
    let worse = compare(&after, &before, &options).unwrap();
    assert_eq!((worse.decision, worse.answer), (Decision::Regressed, Answer::Worse));
    let same = compare(&before, &before, &options).unwrap();
    assert_eq!((same.decision, same.answer), (Decision::Inconclusive, Answer::CannotTell));
    // Trials that could not be graded may be the difference.
    let unsure = recorded(&run(&[("one", &some("passed", 52, &["grader_error"; 48]))], 0.1));
    assert_eq!(compare(&before, &unsure, &options).unwrap().answer, Answer::CannotTell);
    let all = recorded(&run(&[("one", &some("passed", 100, &[]))], 0.1));
    let none = compare(&all, &all, &options).unwrap();
    assert_eq!(none.answer, Answer::NoDifference);
    assert!(none.answer_reason.starts_with("no difference beyond 5 pp between"), "{}", none.answer_reason);
}

#[test]
fn variants_of_a_run_have_totals_and_a_winner() {
    let two = VariantSummary::of(&designed(&[("plain", 1, 0.1), ("rules", 9, 0.2)], &Value::Null)).unwrap();
    assert_eq!(two.totals[1].pass_rate, Some(0.9));
    assert!(two.totals[1].interval.unwrap().lower > 0.5);
    assert!(
        two.answers[0].starts_with("better: `rules` passes more often than `plain`: 10.0% → 90.0%"),
        "{two:?}"
    );
    let many = [("a", 1, 0.1), ("b", 9, 0.1), ("c", 10, 0.1), ("d", 0, 0.1)];
    let many = VariantSummary::of(&designed(&many, &Value::Null)).unwrap();
    let expected = "`c` has the highest pass rate: better than `a`, `d`; cannot tell from `b` (error rate 5% for all pairs together)";
    assert_eq!(many.answers, [expected]);
    assert_eq!(VariantSummary::of(&designed(&[("only", 1, 0.1)], &Value::Null)), None);
}

/// Two factors: the first has an effect on the pass rate, the second on the cost.
#[test]
fn effects_of_factors_are_told_apart() {
    let design = json!({ "factors": [{ "name": "rules", "levels": ["none", "strict"] }, { "name": "model", "levels": ["small", "large"] }],
        "variants": { "none_small": ["none", "small"], "none_large": ["none", "large"],
            "strict_small": ["strict", "small"], "strict_large": ["strict", "large"] } });
    let variants =
        [("none_small", 2, 0.1), ("none_large", 3, 0.3), ("strict_small", 9, 0.1), ("strict_large", 9, 0.3)];
    let found = VariantSummary::of(&designed(&variants, &design)).unwrap();
    let effect = |factor: &str, metric: Option<Metric>| {
        found.effects.iter().find(|one| one.factor == factor && one.metric == metric).unwrap()
    };
    let rules = effect("rules", None);
    assert!((rules.estimate - 0.65).abs() < 1e-9);
    assert_eq!(rules.answer, Some(Answer::Better));
    assert_eq!(effect("model", None).answer, Some(Answer::CannotTell));
    let cost = effect("model", Some(Metric::CostUsd));
    assert!((cost.estimate - 0.2).abs() < 1e-9 && cost.p_holm.unwrap() < 0.001);
    assert!(effect("rules", Some(Metric::CostUsd)).p_holm.unwrap() > 0.5);
    assert!(rules.p_holm.unwrap() >= rules.p_value.unwrap());
    assert_eq!(found.answers[0], "design: all 4 combinations of 2 factors");
    assert!(
        found.answers[1].starts_with(
            "rules: better: `strict` passes more often than `none`: 25.0% → 90.0%, +65.0 pp (95% bounds "
        ),
        "{found:?}"
    );
    assert!(
        found.answers[2].starts_with("model: cannot tell whether `large` is better than `small`"),
        "{found:?}"
    );

    let missing = VariantSummary::of(&designed(&variants[..3], &design)).unwrap();
    assert_eq!(missing.answers, ["effects need all 4 combinations of the design; this run has 3"]);
}

#[test]
fn effects_of_a_fraction_are_pooled_over_the_other_factors() {
    let levels = |name: &str| json!({ "name": name, "levels": ["off", "on"] });
    let design = json!({ "factors": [levels("a"), levels("b"), levels("c")], "resolution": 3, "generators": ["C=AB"],
        "variants": { "1": ["off", "off", "on"], "2": ["off", "on", "off"], "3": ["on", "off", "off"], "4": ["on", "on", "on"] } });
    let variants = [("1", 2, 0.1), ("2", 3, 0.1), ("3", 9, 0.1), ("4", 10, 0.1)];
    let found = VariantSummary::of(&designed(&variants, &design)).unwrap();
    let rates: Vec<(f64, Option<Answer>)> = found
        .effects
        .iter()
        .filter(|one| one.metric.is_none())
        .map(|one| (one.estimate, one.answer))
        .collect();
    assert_eq!(rates.len(), 3);
    assert!((rates[0].0 - 0.7).abs() < 1e-9 && rates[0].1 == Some(Answer::Better), "{rates:?}");
    assert!((rates[1].0 - 0.1).abs() < 1e-9 && rates[1].1 == Some(Answer::CannotTell), "{rates:?}");
    let expected = "design: 4 of 8 combinations of 3 factors, resolution 3 (C=AB): main effects are confounded with interactions of 2 and more factors";
    assert_eq!(found.answers[0], expected);
}
