//! The comparison of two runs as rows of text, for the formats that show it.

use yb_engine::compare::{CaseDifference, CaseSummary, Comparison, Metric};
use yb_figures::{count, duration_ms, money, percent, points, points_range};

/// One case in both runs.
pub(crate) struct ComparedCase<'a> {
    pub(crate) case: &'a str,
    pub(crate) variant: String,
    /// The name in gates: `case / variant`, or the case alone.
    pub(crate) label: String,
    pub(crate) before: String,
    pub(crate) now: String,
    pub(crate) change: String,
    /// The change of the pass rate; absent without results in both runs.
    pub(crate) points: Option<f64>,
    pub(crate) time: String,
    pub(crate) cost: String,
}

/// Returns the cases, the largest loss first, and cases without results before all.
pub(crate) fn cases(found: &Comparison) -> Vec<ComparedCase<'_>> {
    let mut rows: Vec<ComparedCase<'_>> = found.cases.iter().map(compared_case).collect();
    rows.sort_by(|one, two| {
        let rank = |row: &ComparedCase<'_>| row.points.unwrap_or(-2.0);
        rank(one).total_cmp(&rank(two))
    });
    rows
}

/// Returns whether a case needs its variant to be told apart.
pub(crate) fn has_variants(found: &Comparison) -> bool {
    found.cases.iter().any(|case| case.variant_a != "default" || case.variant_b != "default")
}

fn compared_case(case: &CaseDifference) -> ComparedCase<'_> {
    let passed = |side: &CaseSummary| format!("{}/{}", side.passed, side.counted);
    let rate = |side: &CaseSummary| (side.counted > 0).then(|| side.passed as f64 / side.counted as f64);
    let both = |a: Option<f64>, b: Option<f64>, show: &dyn Fn(f64) -> String| match (a, b) {
        (Some(a), Some(b)) => format!("{} → {}", show(a), show(b)),
        _ => String::new(),
    };
    let change = rate(&case.a).zip(rate(&case.b)).map(|(a, b)| b - a);
    ComparedCase {
        case: &case.case,
        variant: match case.variant_a == case.variant_b {
            true => case.variant_b.clone(),
            false => format!("{} → {}", case.variant_a, case.variant_b),
        },
        label: match case.variant_b.as_str() {
            "default" => case.case.clone(),
            variant => format!("{} / {variant}", case.case),
        },
        before: passed(&case.a),
        now: passed(&case.b),
        change: match change {
            Some(0.0) => "=".to_owned(),
            Some(share) => points(share),
            None => String::new(),
        },
        points: change,
        time: both(case.a.duration_ms, case.b.duration_ms, &|ms| duration_ms(ms.round() as u64)),
        cost: both(case.a.cost_usd, case.b.cost_usd, &money),
    }
}

/// Returns the totals of all cases: name, before, now, difference and bounds.
pub(crate) fn totals(found: &Comparison) -> Vec<[String; 5]> {
    let rate = |rate: Option<f64>| rate.map(percent).unwrap_or_default();
    let mut rows = vec![[
        "pass rate".to_owned(),
        rate(found.a.pass_rate),
        rate(found.b.pass_rate),
        found.pass_rate.map(|shown| points(shown.estimate)).unwrap_or_default(),
        found
            .pass_rate
            .and_then(|shown| shown.interval)
            .map(|ends| points_range(ends.lower, ends.upper))
            .unwrap_or_default(),
    ]];
    for metric in &found.metrics {
        let amount = |value: f64| amount(metric.metric, value.abs());
        let signed = |value: f64| format!("{}{}", if value < 0.0 { "-" } else { "+" }, amount(value));
        rows.push([
            metric.metric.label().to_owned(),
            amount(metric.a),
            amount(metric.b),
            signed(metric.estimate),
            metric
                .interval
                .map(|ends| format!("{} to {}", signed(ends.lower), signed(ends.upper)))
                .unwrap_or_default(),
        ]);
    }
    rows
}

/// Returns notes on what was compared: cases of one run only, and cases that were graded differently.
pub(crate) fn notes(found: &Comparison) -> Vec<String> {
    const NAMED: usize = 10;
    let lists = [
        ("only before", &found.only_in_a),
        ("only now", &found.only_in_b),
        ("graded by different evaluators", &found.judged_differently),
        ("flaky now", &found.b.flaky),
    ];
    let note = |(what, names): &(&str, &Vec<String>)| {
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| format!("{what}: {shown}{more}"))
    };
    lists.iter().filter_map(note).collect()
}

/// Returns the name of the first run: its baseline, or its id.
pub(crate) fn before(found: &Comparison) -> String {
    match &found.a.baseline {
        Some(name) => format!("{name} ({})", found.a.run),
        None => found.a.run.clone(),
    }
}

fn amount(metric: Metric, value: f64) -> String {
    match metric {
        Metric::CostUsd => money(value),
        Metric::DurationMs => duration_ms(value.round() as u64),
        Metric::Turns => format!("{value:.1}"),
        _ => count(value.round() as u64),
    }
}
