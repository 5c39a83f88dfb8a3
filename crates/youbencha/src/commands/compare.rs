//! `yb compare`: two runs side by side, and a decision.

use yb_engine::baseline::RecordedRun;
use yb_engine::compare::{self, CaseDifference, CompareOptions, ComparedRun, Comparison};
use yb_engine::stats::{Decision, Interval, RegressionCriteria};
use yb_figures::{duration_ms, level, money, p_value as p, percent, plural, points, points_range};

use crate::args::CompareArgs;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

use crate::table::Table;
use crate::workspace;

/// With more cases, only changed ones are listed.
const SHOWN: usize = 40;
/// The maximum number of names in a note.
const NAMED: usize = 10;

pub(super) fn run(args: &CompareArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let (a, b) = args.names();
    let (a, b) = (RecordedRun::find(&root, a)?, RecordedRun::find(&root, b)?);
    let mut options = CompareOptions::default();
    options.question = RegressionCriteria::new(args.tolerance, args.alpha);
    (options.estimand, options.max_lost) = (args.estimand, args.max_lost);
    options.variants.clone_from(&args.variants);
    let found = compare::compare(&a, &b, &options)?;
    if args.json {
        printer.pretty_json(&serde_json::json!(found));
    } else {
        show(&found, &a, &b, printer);
    }
    Ok(match found.decision {
        Decision::Ok => ExitCode::Passed,
        Decision::Regressed => ExitCode::Failed,
        _ => ExitCode::Inconclusive,
    })
}

fn show(found: &Comparison, a: &RecordedRun, b: &RecordedRun, printer: &mut Printer) {
    printer.line(format_args!("before: {}, {}", a.label(), found.a.name));
    printer.line(format_args!("now:    {}, {}", b.label(), found.b.name));
    printer.line("");
    cases(found, printer);
    printer.line("");
    printer.text(&totals(found).to_string());
    printer.line("");
    printer.line(&found.answer_reason);
    printer.line(&found.reason);
    list_names("only before", &found.only_in_a, printer);
    list_names("only now", &found.only_in_b, printer);
    list_names("graded by different evaluators", &found.judged_differently, printer);
    list_names("flaky now", &found.b.flaky, printer);
}

fn list_names(what: &str, names: &[String], printer: &mut Printer) {
    if !names.is_empty() {
        let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        printer.note(format_args!("{what}: {shown}{more}"));
    }
}

/// Prints a row for each case; of many, only changed ones.
fn cases(found: &Comparison, printer: &mut Printer) {
    let changed = |case: &&CaseDifference| change(case).is_none_or(|points| points != 0.0);
    let all = found.cases.len();
    let shown: Vec<&CaseDifference> =
        found.cases.iter().filter(|case| all <= SHOWN || changed(case)).collect();
    let variants = found.cases.iter().any(|case| case.variant_a != "default" || case.variant_b != "default");
    let header = ["case", "variant", "before", "now", "change", "cost before", "now", "time before", "now"];
    let mut table = Table::new(&header);
    for case in &shown {
        let variant = match (variants, case.variant_a == case.variant_b) {
            (false, _) => String::new(),
            (true, true) => case.variant_b.clone(),
            (true, false) => format!("{} → {}", case.variant_a, case.variant_b),
        };
        let passed = |side: &compare::CaseSummary| format!("{}/{}", side.passed, side.counted);
        let usd = |usd: Option<f64>| usd.map(money).unwrap_or_default();
        let time = |ms: Option<f64>| ms.map(|ms| duration_ms(ms.round() as u64)).unwrap_or_default();
        table.row(vec![
            case.case.clone(),
            variant,
            passed(&case.a),
            passed(&case.b),
            change(case).map(change_cell).unwrap_or_default(),
            usd(case.a.cost_usd),
            usd(case.b.cost_usd),
            time(case.a.duration_ms),
            time(case.b.duration_ms),
        ]);
    }
    if !shown.is_empty() {
        printer.text(&table.to_string());
    }
    if let more @ 1.. = all - shown.len() {
        printer.line(format_args!("{} unchanged; `--json` lists all", plural(more, "case")));
    }
}

/// Returns the change of the pass rate of a case; `None` without results in both runs.
fn change(case: &CaseDifference) -> Option<f64> {
    let rate =
        |side: &compare::CaseSummary| (side.counted > 0).then(|| side.passed as f64 / side.counted as f64);
    Some(rate(&case.b)? - rate(&case.a)?)
}

/// `-33.3 pp`, or `=` without a change.
fn change_cell(share: f64) -> String {
    if share == 0.0 { "=".to_owned() } else { points(share) }
}

/// Pass rate and metrics over all cases.
fn totals(found: &Comparison) -> Table {
    let bounds_header = format!("{} bounds", level(1.0 - found.question.alpha));
    let mut table =
        Table::new(&["all cases", "before", "now", "difference", &bounds_header, "p", "p (Holm)"]);
    let rate = |side: &ComparedRun| side.pass_rate.map(percent).unwrap_or_default();
    let shown = found.pass_rate;
    let interval = shown.and_then(|shown| shown.interval);
    let bounds = |interval: Option<Interval>, of: &dyn Fn(f64) -> String| {
        interval.map(|ends| format!("{} to {}", of(ends.lower), of(ends.upper))).unwrap_or_default()
    };
    table.row(vec![
        "pass rate".to_owned(),
        rate(&found.a),
        rate(&found.b),
        shown.map(|shown| points(shown.estimate)).unwrap_or_default(),
        interval.map(|ends| points_range(ends.lower, ends.upper)).unwrap_or_default(),
        shown.and_then(|shown| shown.p_value).map(p).unwrap_or_default(),
        found.pass_rate_p_holm.map(p).unwrap_or_default(),
    ]);
    // Only the largest k; `--json` has all.
    if let Some((k, a)) = found.a.pass_at_k.last_key_value().filter(|(k, _)| **k > 1) {
        let rate = |rate: Option<&f64>| rate.copied().map(percent).unwrap_or_default();
        table.row(vec![format!("pass@{k}"), rate(Some(a)), rate(found.b.pass_at_k.get(k))]);
        let all = [&found.a, &found.b].map(|side| rate(side.pass_hat_k.get(k)));
        table.row([vec![format!("pass^{k}")], all.to_vec()].concat());
    }
    for metric in &found.metrics {
        let in_words = |value: f64| metric.metric.amount(value);
        let with_sign = |value: f64| metric.metric.change(value);
        table.row(vec![
            metric.metric.label().to_owned(),
            in_words(metric.a),
            in_words(metric.b),
            with_sign(metric.estimate),
            bounds(metric.interval, &with_sign),
            p(metric.p_value),
            p(metric.p_holm),
        ]);
    }
    table
}
