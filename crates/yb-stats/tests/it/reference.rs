//! Compares the statistics with scipy and statsmodels, which `scripts/test` installs into `.tools/statistics`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use yb_stats::{PassCount, PassPair, Random, ValuePair};
use yb_testkit::TestContext;

/// The Python interpreter with scipy and statsmodels.
fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let python = root.join(".tools/statistics/bin/python");
    assert!(python.exists(), "scipy and statsmodels are not installed; `scripts/test` installs them");
    python
}

fn passes(passed: u64, of: u64) -> PassCount {
    PassCount { passed, of }
}

fn check(function: &str, arguments: Value, ours: Value) -> Value {
    let fields = [("function", function.into()), ("arguments", arguments), ("ours", ours)];
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn quantiles(checks: &mut Vec<Value>) {
    for p in [1e-12, 0.001, 0.025, 0.05, 0.3, 0.5, 0.8, 0.95, 0.975, 0.9999] {
        checks.push(check("normal", json!([p]), json!(yb_stats::normal_quantile(p))));
        for degrees in [1.0, 2.0, 4.0, 19.0, 500.0] {
            if p > 1e-6 {
                checks.push(check("t", json!([p, degrees]), json!(yb_stats::t_quantile(p, degrees))));
            }
        }
        for (a, b) in [(0.5, 0.5), (1.0, 3.0), (12.5, 3.25), (980.0, 21.0), (0.1, 7.0)] {
            if p > 1e-6 {
                checks.push(check("beta", json!([p, a, b]), json!(yb_stats::beta_quantile(p, a, b))));
            }
        }
    }
}

fn intervals(checks: &mut Vec<Value>) {
    for of in [1, 5, 17, 400] {
        for passed in [0, 1, of / 2, of - 1, of] {
            for confidence in [0.9, 0.95] {
                let ours = yb_stats::wilson(passes(passed, of), confidence).unwrap();
                checks.push(check(
                    "wilson",
                    json!([passed, of, confidence]),
                    json!([ours.lower, ours.upper]),
                ));
            }
            let exact = yb_stats::clopper_pearson(passed as f64 / of as f64, of as f64, 0.05);
            checks.push(check(
                "clopper_pearson",
                json!([passed, of, 0.05]),
                json!([exact.lower, exact.upper]),
            ));
        }
    }
}

fn tests(checks: &mut Vec<Value>) {
    let p = |pairs: &[PassPair]| yb_stats::pass_p_value(pairs).unwrap().0;
    for (a, n, b, m) in [(3, 3, 0, 3), (8, 10, 4, 10), (50, 60, 40, 61), (1, 1, 0, 1), (2, 7, 6, 9)] {
        let pair = PassPair { a: passes(a, n), b: passes(b, m) };
        // Fisher's two-sided test orders tables by probability, ours by difference; with equal sample sizes they agree.
        if n == m {
            checks.push(check("fisher", json!([a, n, b, m]), json!(p(&[pair]))));
        }
        checks.push(check("stratified", json!([[[[a, n], [b, m]]]]), json!(p(&[pair]))));
    }
    for (lost, won) in [(6, 0), (9, 2), (30, 17), (1, 1)] {
        let mut pairs = vec![PassPair { a: passes(1, 1), b: passes(0, 1) }; lost];
        pairs.extend(vec![PassPair { a: passes(0, 1), b: passes(1, 1) }; won]);
        checks.push(check("mcnemar", json!([lost, won]), json!(p(&pairs))));
    }
    let mut random = Random::new(7);
    for _ in 0..20 {
        let cases: Vec<[(u64, u64); 2]> = (0..4)
            .map(|_| {
                [(); 2].map(|()| {
                    let of = 1 + random.below(5) as u64;
                    (random.below(of as usize + 1) as u64, of)
                })
            })
            .collect();
        let pairs: Vec<PassPair> =
            cases.iter().map(|[a, b]| PassPair { a: passes(a.0, a.1), b: passes(b.0, b.1) }).collect();
        checks.push(check("stratified", json!([cases]), json!(p(&pairs))));
    }
    for _ in 0..10 {
        let mut some = |count: usize| {
            (0..count).map(|_| (random.next_f64() * 1000.0).round() / 8.0).collect::<Vec<f64>>()
        };
        let (a, b) = (some(5), some(6));
        let ours = yb_stats::location_shift(&[ValuePair { a: a.clone(), b: b.clone() }], 0.05).unwrap();
        assert!(ours.exact);
        checks.push(check("permutation", json!([a, b]), json!(ours.p_value)));
        checks.push(check(
            "shift_bounds",
            json!([a, b, 0.05, ours.lower, ours.upper]),
            json!([true, true, true, true]),
        ));
        let differences: Vec<f64> = some(10).into_iter().map(|value| value - 70.0).collect();
        let ours = yb_stats::sign_flip(&differences, 0.05).unwrap();
        checks.push(check("flips", json!([differences]), json!(ours.p_value)));
        checks.push(check(
            "flip_bounds",
            json!([differences, 0.05, ours.lower, ours.upper]),
            json!([true, true, true, true]),
        ));
    }
    for values in [vec![0.01, 0.04, 0.03, 0.005], vec![0.5, 0.5, 0.02], vec![1.0]] {
        checks.push(check("holm", json!([values]), json!(yb_stats::holm(&values))));
    }
    for (n, c, k) in [(10, 3, 1), (10, 3, 4), (10, 10, 5), (7, 1, 6), (9, 0, 2)] {
        let case = [passes(c, n)];
        checks.push(check("pass_at_k", json!([n, c, k]), json!(yb_stats::pass_at_k(&case, k))));
        checks.push(check("pass_hat_k", json!([n, c, k]), json!(yb_stats::pass_hat_k(&case, k))));
    }
}

#[test]
fn statistics_match_scipy_and_statsmodels() {
    let mut checks = Vec::new();
    quantiles(&mut checks);
    intervals(&mut checks);
    tests(&mut checks);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/reference.py");
    let context = TestContext::new();
    let output = context.command(python()).arg(script).stdin(json!(checks).to_string()).run();
    assert!(output.success() && checks.len() > 200, "{}\n{}", output.stdout, output.stderr);
}
