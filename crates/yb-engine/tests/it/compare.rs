//! Comparisons and gates over constructed results: trials that could not be graded, or with a cost.

use serde_json::{Value, json};
use yb_engine::baseline::RecordedRun;
use yb_engine::compare::{CompareOptions, Metric, compare};
use yb_engine::gates::{GateOverride, GateStatus, Gates};
use yb_engine::run::RunResults;
use yb_stats::{Decision, Estimand};

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
