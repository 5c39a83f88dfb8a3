//! Error rates of decisions in simulated runs with known true pass rates. Seeds are fixed, so the tests are deterministic.

use yb_stats::{Answer, Decision, PassCount, PassPair, Random, RegressionCriteria};

const SIMULATIONS: usize = 2000;

/// The upper limit of an observed error rate: three standard errors above the nominal one.
fn limit(nominal: f64) -> f64 {
    nominal + 3.0 * (nominal * (1.0 - nominal) / SIMULATIONS as f64).sqrt()
}

fn draw(random: &mut Random, pass_rate: f64, of: u64) -> PassCount {
    PassCount { passed: (0..of).filter(|_| random.next_f64() < pass_rate).count() as u64, of }
}

/// The true pass rates of each case in both runs.
type Truth = Vec<(f64, f64)>;

fn difference(truth: &Truth) -> f64 {
    truth.iter().map(|(a, b)| b - a).sum::<f64>() / truth.len() as f64
}

/// Suites whose true loss is exactly the tolerated one: the hardest to decide.
fn boundary_suites(cases: usize) -> Vec<(&'static str, Truth)> {
    let loss = 0.05;
    let mut all: Vec<(&'static str, Truth)> = vec![
        ("half pass", vec![(0.5, 0.5 - loss); cases]),
        ("most pass", vec![(0.9, 0.9 - loss); cases]),
        ("all passed before", vec![(1.0, 1.0 - loss); cases]),
    ];
    if cases > 1 {
        let at = |case: usize| case as f64 / (cases - 1) as f64;
        all.push((
            "easy to hard",
            (0..cases).map(|case| (0.05 + 0.95 * at(case), 0.95 * at(case))).collect(),
        ));
        all.push((
            "always fail or always pass",
            (0..cases).map(|case| if case % 2 == 0 { (0.97, 0.92) } else { (0.08, 0.03) }).collect(),
        ));
        // Effects differ from case to case, and their mean is the loss.
        all.push((
            "effects vary",
            (0..cases).map(|case| (0.6, 0.6 - loss + 0.5 * (at(case) - 0.5))).collect(),
        ));
        let (broken, few) = (cases.div_ceil(10), cases as f64);
        all.push((
            "few cases broke",
            (0..cases)
                .map(|case| (0.95, if case < broken { 0.95 - loss * few / broken as f64 } else { 0.95 }))
                .collect(),
        ));
    }
    for (name, truth) in &all {
        assert!((difference(truth) + loss).abs() < 1e-9, "{name}");
        assert!(truth.iter().all(|(a, b)| (0.0..=1.0).contains(a) && (0.0..=1.0).contains(b)), "{name}");
    }
    all
}

/// The rates of the decisions ok and regressed.
fn decision_rates(truth: &Truth, repeats: u64, times: usize, random: &mut Random) -> (f64, f64) {
    let (mut ok, mut regressed) = (0, 0);
    for _ in 0..times {
        let pairs: Vec<PassPair> = truth
            .iter()
            .map(|(a, b)| PassPair { a: draw(random, *a, repeats), b: draw(random, *b, repeats) })
            .collect();
        match yb_stats::compare_suite(&pairs, &RegressionCriteria::default()).unwrap().decision {
            Decision::Ok => ok += 1,
            Decision::Regressed => regressed += 1,
            _ => {}
        }
    }
    (ok as f64 / times as f64, regressed as f64 / times as f64)
}

fn assert_error_rate_at_most_alpha(cases: usize, repeats: &[u64]) {
    let mut random = Random::new(cases as u64);
    for (name, truth) in boundary_suites(cases) {
        for &repeats in repeats {
            let (ok, regressed) = decision_rates(&truth, repeats, SIMULATIONS, &mut random);
            let worst = ok.max(regressed);
            assert!(
                worst <= limit(0.05),
                "{cases} cases × {repeats}, {name}: ok {ok}, regressed {regressed}"
            );
        }
    }
}

#[test]
fn suite_of_one_case_has_error_rate_of_at_most_alpha() {
    assert_error_rate_at_most_alpha(1, &[1, 3, 10, 60]);
}

#[test]
fn suite_of_five_cases_has_error_rate_of_at_most_alpha() {
    assert_error_rate_at_most_alpha(5, &[3, 10]);
}

#[test]
fn suite_of_twenty_cases_has_error_rate_of_at_most_alpha() {
    assert_error_rate_at_most_alpha(20, &[1, 3]);
}

#[test]
fn clear_differences_are_detected() {
    let mut random = Random::new(11);
    let worse = vec![(0.9, 0.5); 20];
    assert!(decision_rates(&worse, 5, 200, &mut random).1 > 0.95);
    let same = vec![(0.95, 0.95); 20];
    assert!(decision_rates(&same, 20, 100, &mut random).0 > 0.75);
    // Cases that always pass or always fail have no variance and do not widen the interval.
    let mixed: Truth = (0..20).map(|case| if case % 2 == 0 { (1.0, 1.0) } else { (0.0, 0.0) }).collect();
    assert!(decision_rates(&mixed, 10, 50, &mut random).0 > 0.95);
}

#[test]
fn p_values_of_equal_runs_are_not_too_small() {
    let mut random = Random::new(3);
    for (cases, repeats) in [(1, 8), (5, 4), (20, 2), (20, 1)] {
        let mut small = 0;
        for _ in 0..SIMULATIONS {
            let pairs: Vec<PassPair> = (0..cases)
                .map(|case| {
                    let pass_rate = 0.1 + 0.8 * f64::from(case) / 20.0;
                    PassPair {
                        a: draw(&mut random, pass_rate, repeats),
                        b: draw(&mut random, pass_rate, repeats),
                    }
                })
                .collect();
            small += usize::from(yb_stats::pass_p_value(&pairs).unwrap().0 <= 0.05);
        }
        let share = small as f64 / SIMULATIONS as f64;
        assert!(share <= limit(0.05), "{cases} × {repeats}: {share}");
    }
}

/// Returns the rates of the answers: a winner, and no difference beyond the tolerance.
fn answer_rates(truth: &Truth, repeats: u64, random: &mut Random) -> (f64, f64) {
    let criteria = RegressionCriteria::default();
    let (mut winner, mut none) = (0, 0);
    for _ in 0..SIMULATIONS {
        let pairs: Vec<PassPair> = truth
            .iter()
            .map(|(a, b)| PassPair { a: draw(random, *a, repeats), b: draw(random, *b, repeats) })
            .collect();
        match yb_stats::compare_suite(&pairs, &criteria).unwrap().answer(&criteria) {
            Answer::Better | Answer::Worse => winner += 1,
            Answer::NoDifference => none += 1,
            Answer::CannotTell => {}
        }
    }
    (winner as f64 / SIMULATIONS as f64, none as f64 / SIMULATIONS as f64)
}

#[test]
fn winner_of_equal_runs_is_named_in_at_most_alpha() {
    let mut random = Random::new(21);
    for (cases, repeats) in [(1, 10), (1, 60), (6, 3), (6, 10), (20, 2)] {
        let at = |case: u32| 0.2 + 0.6 * f64::from(case) / f64::from(cases);
        let equal: Truth = (0..cases).map(|case| (at(case), at(case))).collect();
        // The effects of the cases cancel out.
        let cancelling: Truth = (0..cases)
            .map(|case| match case % 2 {
                _ if cases == 1 => (0.5, 0.5),
                0 => (0.3, 0.6),
                _ => (0.6, 0.3),
            })
            .collect();
        for truth in [equal, cancelling] {
            let (winner, _) = answer_rates(&truth, repeats, &mut random);
            assert!(winner <= limit(0.05), "{cases} × {repeats}: {winner}");
        }
    }
}

#[test]
fn difference_of_the_tolerance_is_denied_in_at_most_alpha() {
    let mut random = Random::new(22);
    for (a, b) in [(0.9, 0.85), (0.5, 0.55), (0.95, 1.0)] {
        for (cases, repeats) in [(1, 200), (5, 60)] {
            let (_, none) = answer_rates(&vec![(a, b); cases], repeats, &mut random);
            assert!(none <= limit(0.05), "{cases} × {repeats}, {a} and {b}: {none}");
        }
    }
}

/// In a fraction of a design, each level of a factor is pooled over the levels of the others, whose effects differ.
#[test]
fn pooled_levels_of_a_factor_without_effect_have_a_winner_in_at_most_alpha() {
    let mut random = Random::new(23);
    let criteria = RegressionCriteria::default();
    let design = yb_stats::fractional_factorial(3, 3).unwrap();
    for (cases, repeats) in [(1, 10), (5, 3)] {
        let mut winner = 0;
        for _ in 0..SIMULATIONS {
            let pairs: Vec<PassPair> = (0..cases)
                .map(|_| {
                    let mut arms = [PassCount::default(); 2];
                    for levels in &design.combinations {
                        let rate = 0.15 + 0.5 * levels[0] as f64 + 0.2 * levels[1] as f64;
                        let drawn = draw(&mut random, rate, repeats);
                        let arm = &mut arms[levels[2]];
                        (arm.passed, arm.of) = (arm.passed + drawn.passed, arm.of + drawn.of);
                    }
                    PassPair { a: arms[0], b: arms[1] }
                })
                .collect();
            let answer = yb_stats::compare_suite(&pairs, &criteria).unwrap().answer(&criteria);
            winner += usize::from(matches!(answer, Answer::Better | Answer::Worse));
        }
        let share = winner as f64 / SIMULATIONS as f64;
        assert!(share <= limit(0.05), "{cases} × {repeats}: {share}");
    }
}

/// Each simulation samples cases whose effects vary around the tolerated loss.
#[test]
fn new_cases_have_error_rate_of_at_most_alpha() {
    let mut random = Random::new(5);
    let criteria = RegressionCriteria::default();
    for (cases, repeats, spread, times) in [(9, 5, 0.4, 1000), (9, 5, 0.0, 1000), (20, 3, 0.2, 300)] {
        let (mut ok, mut regressed) = (0, 0);
        for _ in 0..times {
            let differences: Vec<f64> = (0..cases)
                .map(|_| {
                    let (a, effect) =
                        (0.35 + 0.3 * random.next_f64(), -0.05 + spread * (random.next_f64() - 0.5));
                    let rate =
                        |random: &mut Random, pass_rate| draw(random, pass_rate, repeats).rate().unwrap();
                    rate(&mut random, a + effect) - rate(&mut random, a)
                })
                .collect();
            match yb_stats::compare_new_cases(&differences, &criteria).unwrap().decision {
                Decision::Ok => ok += 1,
                Decision::Regressed => regressed += 1,
                _ => {}
            }
        }
        let worst = f64::from(ok.max(regressed)) / f64::from(times);
        let limit = 0.05 + 3.0 * (0.05_f64 * 0.95 / f64::from(times)).sqrt();
        assert!(worst <= limit, "{cases} × {repeats} ± {spread}: ok {ok}, regressed {regressed} of {times}");
    }
}

/// 95% intervals of the mean pass rate, for cases whose pass rates have a uniform distribution.
#[test]
fn mean_pass_rate_interval_has_nominal_coverage() {
    let mut random = Random::new(9);
    for (cases, repeats, low, high) in [
        (20, 1, 0.2, 0.9),
        (20, 5, 0.0, 1.0),
        (10, 3, 0.3, 1.0),
        (5, 5, 0.2, 0.8),
        (30, 10, 0.6, 1.0),
        (8, 4, 0.5, 0.5),
    ] {
        let truth = (low + high) / 2.0;
        let mut inside = 0;
        for _ in 0..SIMULATIONS {
            let tried: Vec<PassCount> = (0..cases)
                .map(|_| {
                    let pass_rate = low + (high - low) * random.next_f64();
                    draw(&mut random, pass_rate, repeats)
                })
                .collect();
            let (_, interval) = yb_stats::mean_pass_rate(&tried, 0.95).unwrap();
            inside += usize::from(interval.lower <= truth && truth <= interval.upper);
        }
        let share = inside as f64 / SIMULATIONS as f64;
        assert!(share >= 1.0 - limit(0.05) - 0.01, "{cases} × {repeats}: {share}");
    }
}
