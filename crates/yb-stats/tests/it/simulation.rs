//! Simulated runs: how often the answers are wrong when the truth is known. Seeds are fixed, so these never flicker.

use yb_stats::{Decision, PassPair, Passes, Question, Random};

const TIMES: usize = 2000;

/// The most that a chance of 5 % may come to in so many simulations: three standard errors more.
fn limit(chance: f64) -> f64 {
    chance + 3.0 * (chance * (1.0 - chance) / TIMES as f64).sqrt()
}

fn draw(random: &mut Random, chance: f64, of: u64) -> Passes {
    Passes { passed: (0..of).filter(|_| random.unit() < chance).count() as u64, of }
}

/// The chances of each case in both runs.
type Truth = Vec<(f64, f64)>;

fn difference(truth: &Truth) -> f64 {
    truth.iter().map(|(a, b)| b - a).sum::<f64>() / truth.len() as f64
}

/// Suites whose true loss is exactly the tolerated one: the hardest to get right.
fn on_the_border(cases: usize) -> Vec<(&'static str, Truth)> {
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
            "hopeless or sure",
            (0..cases).map(|case| if case % 2 == 0 { (0.97, 0.92) } else { (0.08, 0.03) }).collect(),
        ));
        // Effects that differ from case to case, and cancel but for the loss.
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

/// How often it is called ok, and how often regressed.
fn answers(truth: &Truth, repeats: u64, times: usize, random: &mut Random) -> (f64, f64) {
    let (mut ok, mut regressed) = (0, 0);
    for _ in 0..times {
        let pairs: Vec<PassPair> = truth
            .iter()
            .map(|(a, b)| PassPair { a: draw(random, *a, repeats), b: draw(random, *b, repeats) })
            .collect();
        match yb_stats::suite(&pairs, &Question::default()).unwrap().decision {
            Decision::Ok => ok += 1,
            Decision::Regressed => regressed += 1,
            _ => {}
        }
    }
    (ok as f64 / times as f64, regressed as f64 / times as f64)
}

fn never_wrong_too_often(cases: usize, repeats: &[u64]) {
    let mut random = Random::new(cases as u64);
    for (name, truth) in on_the_border(cases) {
        for &repeats in repeats {
            let (ok, regressed) = answers(&truth, repeats, TIMES, &mut random);
            let worst = ok.max(regressed);
            assert!(
                worst <= limit(0.05),
                "{cases} cases × {repeats}, {name}: ok {ok}, regressed {regressed}"
            );
        }
    }
}

#[test]
fn one_case_is_wrong_at_most_five_times_in_a_hundred() {
    never_wrong_too_often(1, &[1, 3, 10, 60]);
}

#[test]
fn five_cases_are_wrong_at_most_five_times_in_a_hundred() {
    never_wrong_too_often(5, &[3, 10]);
}

#[test]
fn twenty_cases_are_wrong_at_most_five_times_in_a_hundred() {
    never_wrong_too_often(20, &[1, 3]);
}

#[test]
fn what_is_clearly_so_is_found() {
    let mut random = Random::new(11);
    let worse = vec![(0.9, 0.5); 20];
    assert!(answers(&worse, 5, 200, &mut random).1 > 0.95);
    let same = vec![(0.95, 0.95); 20];
    assert!(answers(&same, 20, 100, &mut random).0 > 0.75);
    // Sure and hopeless cases do not hide what the others show.
    let mixed: Truth = (0..20).map(|case| if case % 2 == 0 { (1.0, 1.0) } else { (0.0, 0.0) }).collect();
    assert!(answers(&mixed, 10, 50, &mut random).0 > 0.95);
}

#[test]
fn the_p_value_of_equal_runs_is_small_as_often_as_it_says() {
    let mut random = Random::new(3);
    for (cases, repeats) in [(1, 8), (5, 4), (20, 2), (20, 1)] {
        let mut small = 0;
        for _ in 0..TIMES {
            let pairs: Vec<PassPair> = (0..cases)
                .map(|case| {
                    let chance = 0.1 + 0.8 * f64::from(case) / 20.0;
                    PassPair { a: draw(&mut random, chance, repeats), b: draw(&mut random, chance, repeats) }
                })
                .collect();
            small += usize::from(yb_stats::pass_p_value(&pairs).unwrap().0 <= 0.05);
        }
        let share = small as f64 / TIMES as f64;
        assert!(share <= limit(0.05), "{cases} × {repeats}: {share}");
    }
}

/// Cases are drawn anew each time, with an effect of their own around the tolerated loss.
#[test]
fn new_cases_are_wrong_at_most_five_times_in_a_hundred() {
    let mut random = Random::new(5);
    let question = Question::default();
    for (cases, repeats, spread, times) in [(9, 5, 0.4, 1000), (9, 5, 0.0, 1000), (20, 3, 0.2, 300)] {
        let (mut ok, mut regressed) = (0, 0);
        for _ in 0..times {
            let differences: Vec<f64> = (0..cases)
                .map(|_| {
                    let (a, effect) = (0.35 + 0.3 * random.unit(), -0.05 + spread * (random.unit() - 0.5));
                    let rate = |random: &mut Random, chance| draw(random, chance, repeats).rate().unwrap();
                    rate(&mut random, a + effect) - rate(&mut random, a)
                })
                .collect();
            match yb_stats::new_cases(&differences, &question).unwrap().decision {
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

/// 95 % intervals of a run's pass rate, for cases that differ as much as beta distributions let them.
#[test]
fn the_rate_of_cases_is_inside_of_its_interval() {
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
        for _ in 0..TIMES {
            let tried: Vec<Passes> = (0..cases)
                .map(|_| {
                    let chance = low + (high - low) * random.unit();
                    draw(&mut random, chance, repeats)
                })
                .collect();
            let (_, interval) = yb_stats::rate_of_cases(&tried, 0.95).unwrap();
            inside += usize::from(interval.lower <= truth && truth <= interval.upper);
        }
        let share = inside as f64 / TIMES as f64;
        assert!(share >= 1.0 - limit(0.05) - 0.01, "{cases} × {repeats}: {share}");
    }
}
