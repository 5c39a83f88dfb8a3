//! The first part of a run: the answer in words, the pass rate of each variant with its interval, and cost against pass rate.

use yb_engine::compare::VariantTotal;
use yb_engine::stats::Interval;
use yb_figures::{level, money, percent, plural};

use super::links::Links;
use super::markup::Markup;
use crate::model::{Cell, Matrix, OutcomeClass, Run};
use crate::value::readable_name;

/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;
/// The maximum number of variants in the scatter, and of cases in a list.
const SHOWN: usize = 16;

/// Writes the answer in words.
pub(crate) fn words(body: &mut Markup, run: &Run) {
    let whole = run.totals();
    if whole.counted == 0 {
        return;
    }
    body.raw("<section class=\"card answer\"><h2>Answer</h2>");
    match &run.variants {
        Some(summary) => {
            for answer in &summary.answers {
                words_with_code(body, answer);
            }
        }
        None => words_with_code(body, &single(run, &whole)),
    }
    if let Some(costs) = costs_per_pass(run) {
        body.raw("<p class=\"hint\">").text(&costs).raw("</p>");
    }
    body.raw("</section>");
}

/// The answer about a run with one variant.
fn single(run: &Run, whole: &Cell) -> String {
    let counted = format!("{} of {} passed", whole.passed, plural(whole.counted, "counted trial"));
    match run.pass_rate {
        Some((rate, interval)) => format!(
            "The pass rate is {} ({} interval {}): {counted}.",
            percent(rate),
            level(CONFIDENCE),
            range(interval)
        ),
        None => format!("{counted}."),
    }
}

/// Writes a sentence in which names are between backticks.
fn words_with_code(body: &mut Markup, sentence: &str) {
    body.raw("<p class=\"sentence\">");
    for (at, part) in sentence.split('`').enumerate() {
        if at % 2 == 1 {
            body.element("code", "", part);
        } else {
            body.text(part);
        }
    }
    body.raw("</p>");
}

fn costs_per_pass(run: &Run) -> Option<String> {
    let summary = run.variants.as_ref()?;
    let known: Vec<String> = summary
        .totals
        .iter()
        .filter_map(|total| {
            let cell = run.variant_totals(Some(&total.variant));
            let usd = cell.money.total().filter(|_| cell.passed > 0)?;
            Some(format!("{} with {}", money(usd / cell.passed as f64), total.variant))
        })
        .collect();
    (known.len() > 1 && known.len() <= SHOWN).then(|| format!("Cost of a pass: {}", known.join(", ")))
}

fn range(interval: Interval) -> String {
    format!("{} to {}", percent(interval.lower), percent(interval.upper))
}

/// Writes the pass rate of each variant with its interval, next to cost against pass rate.
pub(crate) fn charts(body: &mut Markup, run: &Run, links: &dyn Links, at: usize) {
    let Some(summary) = &run.variants else { return };
    let rated: Vec<&VariantTotal> = summary.totals.iter().filter(|total| total.counted > 0).collect();
    if rated.is_empty() {
        return;
    }
    body.raw("<div class=\"charts\">");
    rates(body, &rated, links, at);
    scatter(body, &rated);
    body.raw("</div>");
}

fn rates(body: &mut Markup, totals: &[&VariantTotal], links: &dyn Links, at: usize) {
    body.raw("<section class=\"card chart\"><h2>Pass rate</h2><p class=\"hint\">");
    body.text(&format!("Mean of the cases, with its {} interval.", level(CONFIDENCE))).raw("</p>");
    for total in totals.iter().take(SHOWN) {
        let (Some(rate), Some(interval)) = (total.pass_rate, total.interval) else { continue };
        let label = format!(
            "{}: {} ({}), {} of {} trials passed",
            total.variant,
            percent(rate),
            range(interval),
            total.passed,
            total.counted
        );
        body.raw("<div class=\"strip\"><span class=\"name\"").attr("title", &total.variant).raw(">");
        super::links::open(body, links, at, None, Some(&total.variant), &label);
        body.text(&total.variant).raw("</a></span>");
        body.raw("<svg class=\"rate\" role=\"img\"").attr("aria-label", &label).raw("><title>").text(&label);
        body.raw("</title><rect class=\"ground\" x=\"0\" y=\"6\" width=\"100%\" height=\"16\"/><rect class=\"span\" y=\"6\" height=\"16\"");
        body.attr("x", &share(interval.lower)).attr("width", &share(interval.upper - interval.lower));
        body.raw("/><circle class=\"point\" r=\"5\" cy=\"14\"").attr("cx", &share(rate)).raw("/></svg>");
        body.element("span", "num", &percent(rate)).raw("</div>");
    }
    super::chart::axis(body, totals.len(), "0%", "100%");
    body.raw("</section>");
}

/// Formats a share from 0 to 1 as a coordinate.
fn share(of: f64) -> String {
    format!("{:.2}%", of.clamp(0.0, 1.0) * 100.0)
}

/// Writes cost against pass rate: up and to the left is better.
fn scatter(body: &mut Markup, totals: &[&VariantTotal]) {
    let priced: Vec<(&VariantTotal, f64, f64, Interval)> = totals
        .iter()
        .filter_map(|total| Some((*total, total.cost_usd?, total.pass_rate?, total.interval?)))
        .take(SHOWN)
        .collect();
    let most = priced.iter().map(|(_, usd, ..)| *usd).fold(0.0, f64::max);
    if priced.len() < 2 || most <= 0.0 {
        return;
    }
    // Room at the right for the last point.
    let most = most * 1.15;
    body.raw("<section class=\"card chart\"><h2>Cost against pass rate</h2><p class=\"hint\">");
    body.raw(
        "Mean cost of a trial; up and to the left is better.</p><div class=\"plot\"><span class=\"y-ends\">",
    );
    body.raw("<span>100%</span><span>0%</span></span><svg class=\"scatter\" role=\"img\" aria-label=\"Cost against pass rate\">");
    for line in ["0%", "25%", "50%", "75%", "100%"] {
        body.raw("<line class=\"grid\" x1=\"0\" x2=\"100%\"").attr("y1", line).attr("y2", line).raw("/>");
    }
    for (total, usd, rate, interval) in &priced {
        let (x, y) = (share(usd / most), share(1.0 - rate));
        let label = format!("{}: {} at {} a trial", total.variant, percent(*rate), money(*usd));
        body.raw("<g><title>")
            .text(&label)
            .raw("</title><line class=\"whisker\"")
            .attr("x1", &x)
            .attr("x2", &x);
        body.attr("y1", &share(1.0 - interval.upper)).attr("y2", &share(1.0 - interval.lower)).raw("/>");
        body.raw("<circle class=\"point\" r=\"6\"").attr("cx", &x).attr("cy", &y).raw("/>");
        body.raw(if usd / most > 0.6 { "<text text-anchor=\"end\" dx=\"-11\"" } else { "<text dx=\"11\"" });
        body.raw(" dy=\"4\"").attr("x", &x).attr("y", &y).raw(">").text(&total.variant).raw("</text></g>");
    }
    body.raw("</svg><span></span><span class=\"ends\"><span>$0.00</span>").element("span", "", &money(most));
    body.raw("</span></div></section>");
}

/// Writes cases that passed and failed with the same variant, and trials that do not count.
pub(crate) fn exceptions(body: &mut Markup, run: &Run, links: &dyn Links, at: usize) {
    let matrix = Matrix::of(run);
    let flaky: Vec<(&str, &str, &Cell)> =
        matrix.cells().filter(|(_, _, cell)| cell.passed > 0 && cell.passed < cell.counted).collect();
    let excluded: Vec<_> = run
        .outcomes()
        .into_iter()
        .filter(|(outcome, _)| matches!(outcome.class, OutcomeClass::Excluded | OutcomeClass::Inconclusive))
        .collect();
    if flaky.is_empty() && excluded.is_empty() {
        return;
    }
    body.raw("<div class=\"charts\">");
    if !flaky.is_empty() {
        body.raw("<section class=\"card\"><h2>Flaky cases</h2><p class=\"hint\">Passed and failed with the same variant.</p><ul class=\"plain\">");
        for (case, variant, cell) in flaky.iter().take(SHOWN) {
            let name = if run.has_variants() { format!("{case} / {variant}") } else { (*case).to_owned() };
            body.raw("<li>");
            super::links::open(body, links, at, Some(case), Some(variant), "");
            body.text(&name).raw("</a> <span class=\"hint\">");
            body.text(&format!("{} of {} passed", cell.passed, cell.counted)).raw("</span></li>");
        }
        body.raw("</ul>");
        if flaky.len() > SHOWN {
            body.element("p", "hint", &format!("and {} more", flaky.len() - SHOWN));
        }
        body.raw("</section>");
    }
    if !excluded.is_empty() {
        body.raw("<section class=\"card\"><h2>Not counted</h2><p class=\"hint\">These trials say nothing about the agent.</p><ul class=\"plain\">");
        for (outcome, count) in excluded {
            body.raw("<li>");
            super::links::open_outcome(body, links, &outcome.name);
            body.text(&readable_name(&outcome.name)).raw("</a> <span class=\"hint\">");
            body.text(&plural(count, "trial")).raw("</span></li>");
        }
        body.raw("</ul></section>");
    }
    body.raw("</div>");
}
