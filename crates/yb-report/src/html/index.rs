//! The overview page: figures of each run, the matrix of cases × variants, charts and the table of trials.

use serde_json::Value;
use yb_engine::compare::Comparison;
use yb_figures::{count, duration_ms, money, percent, plural, timestamp};

use super::links::{self, Links, OnPage};
use super::markup::Markup;
use super::{Html, answer, chart, table, values};
use crate::comparison;
use crate::model::{Cell, Matrix, OutcomeClass, Run};
use crate::value::readable_name;

/// The minimum number of trials for a matrix; below, the table of trials is enough.
const MATRIX: usize = 2;
/// The maximum number of cells of a matrix, and of cases in it.
const CELLS: usize = 300;
const CASES: usize = 100;

pub(super) fn write(body: &mut Markup, html: &Html<'_>) {
    if let Some(found) = &html.report.comparison {
        comparison(body, found);
    }
    for (at, run) in html.report.runs.iter().enumerate() {
        body.raw("<section class=\"run\">");
        head(body, run);
        figures(body, run, &OnPage, at);
        body.raw("</section>");
    }
    table::write(body, html);
    footer(body, html);
}

/// Writes the figures of a run, the answer in words first.
pub(crate) fn figures(body: &mut Markup, run: &Run, links: &dyn Links, at: usize) {
    let several = run.trials.len() >= MATRIX;
    if several {
        answer::words(body, run);
    }
    tiles(body, run);
    extra(body, run);
    if several {
        answer::charts(body, run, links, at);
        matrix(body, run, links, at);
        variants(body, run);
        answer::exceptions(body, run, links, at);
        chart::write(body, run);
    }
}

/// Writes the comparison with another run: the decision, the totals and the cases, losses first.
pub(crate) fn comparison(body: &mut Markup, found: &Comparison) {
    body.raw("<section class=\"card\" id=\"comparison\">").element("h2", "", "Comparison");
    body.element("p", "", &found.reason).raw("<p class=\"meta\"><span class=\"mono\">");
    body.text(&comparison::before(found)).raw("</span><span class=\"mono\">→ ").text(&found.b.run);
    body.raw("</span></p>");
    let rows = |body: &mut Markup, header: &[&str], rows: Vec<Vec<String>>| {
        body.raw("<div class=\"scroll\"><table class=\"data\"><thead><tr>");
        header.iter().for_each(|name| {
            body.raw("<th scope=\"col\">").text(name).raw("</th>");
        });
        body.raw("</tr></thead><tbody>");
        for row in rows {
            body.raw("<tr>");
            row.iter().for_each(|cell| {
                body.element("td", "", cell);
            });
            body.raw("</tr>");
        }
        body.raw("</tbody></table></div>");
    };
    let totals = comparison::totals(found).into_iter().map(Vec::from).collect();
    rows(body, &["all cases", "before", "now", "difference", "bounds"], totals);
    let cases = comparison::cases(found).into_iter().map(|row| {
        vec![row.case.to_owned(), row.variant, row.before, row.now, row.change, row.time, row.cost]
    });
    rows(body, &["case", "variant", "before", "now", "change", "time", "cost"], cases.collect());
    for note in comparison::notes(found) {
        body.element("p", "note", &note);
    }
    body.raw("</section>");
}

/// Writes further fields of the run, such as gates.
pub(super) fn extra(body: &mut Markup, run: &Run) {
    for (name, value) in &run.extra {
        body.raw("<section class=\"card\">").element("h2", "", &readable_name(name));
        match value {
            Value::Object(parts) => values::fields(body, parts),
            value => values::write(body, value),
        }
        body.raw("</section>");
    }
}

fn head(body: &mut Markup, run: &Run) {
    body.raw("<div class=\"head\"><h1>").text(&run.name).raw("</h1><p class=\"meta\">");
    body.raw("<span class=\"mono\">").text(&run.id).raw("</span>");
    if let Some(at) = &run.started_at {
        body.element("span", "", &timestamp(at));
    }
    body.element("span", "", &run.condition);
    if let Some(proven) = run.proven_cases() {
        body.element("span", "", &proven);
    }
    body.raw("</p></div>");
}

fn tiles(body: &mut Markup, run: &Run) {
    let whole = run.totals();
    body.raw("<div class=\"tiles\"><div class=\"tile wide\"><div class=\"label\">Pass rate</div><div class=\"figure\">");
    body.text(&whole.rate().map_or_else(|| "–".to_owned(), percent)).raw("</div>");
    body.raw("<div class=\"note\">")
        .text(&format!("{} of {} counted trials passed", whole.passed, whole.counted));
    body.raw("</div>");
    outcomes(body, run);
    body.raw("</div>");
    let mut aside = Vec::new();
    if whole.excluded > 0 {
        aside.push(format!("{} excluded", count(whole.excluded)));
    }
    if whole.pending > 0 {
        aside.push(format!("{} pending", count(whole.pending)));
    }
    let matrix = Matrix::of(run);
    if aside.is_empty() {
        aside.push(format!(
            "{} × {}",
            plural(matrix.cases.len(), "case"),
            plural(matrix.variants.len(), "variant")
        ));
    }
    tile(body, "Trials", &count(run.trials.len()), &aside.join(", "));
    if let Some(ms) = whole.median_ms() {
        let longest = whole.times.iter().max().copied().unwrap_or(ms);
        tile(body, "Median time", &duration_ms(ms), &format!("maximum {}", duration_ms(longest)));
    }
    if let Some(usd) = whole.money.total() {
        tile(body, "Cost", &money(usd), &per_pass(&whole, usd));
    }
    let tokens: u64 = run.trials.iter().filter_map(|trial| trial.tokens).sum();
    if tokens > 0 {
        tile(body, "Tokens", &count(tokens), "input and output, without cache");
    }
    body.raw("</div>");
}

fn per_pass(cell: &Cell, usd: f64) -> String {
    match cell.passed {
        0 => "no trial passed".to_owned(),
        passed => format!("{} per pass", money(usd / passed as f64)),
    }
}

fn tile(body: &mut Markup, label: &str, figure: &str, note: &str) {
    body.raw("<div class=\"tile\">").element("div", "label", label).element("div", "figure", figure);
    body.element("div", "note", note).raw("</div>");
}

/// Writes a bar with a segment for each outcome.
fn outcomes(body: &mut Markup, run: &Run) {
    let outcomes = run.outcomes();
    let all = run.trials.len().max(1) as f64;
    let label: Vec<String> =
        outcomes.iter().map(|(outcome, count)| format!("{count} {}", outcome.name)).collect();
    body.raw("<svg class=\"parts\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\"");
    body.attr("aria-label", &label.join(", ")).raw("><title>").text(&label.join(", ")).raw("</title>");
    let mut at = 0.0;
    for (outcome, count) in &outcomes {
        let width = *count as f64 / all * 1000.0;
        body.raw("<rect class=\"f-").raw(outcome.class.key()).raw("\" y=\"0\" height=\"10\"");
        body.attr("x", &format!("{at:.2}"))
            .attr("width", &format!("{:.2}", (width - 3.0).max(1.0)))
            .raw("/>");
        at += width;
    }
    body.raw("</svg><ul class=\"legend\">");
    for (outcome, count) in &outcomes {
        body.raw("<li><i class=\"dot b-").raw(outcome.class.key()).raw("\"></i>");
        body.text(&readable_name(&outcome.name)).raw(" <b>").text(&count.to_string()).raw("</b></li>");
    }
    body.raw("</ul>");
}

/// Writes cases × variants as a heat map; each cell filters the table of trials.
fn matrix(body: &mut Markup, run: &Run, links: &dyn Links, at: usize) {
    let matrix = Matrix::of(run);
    body.raw("<section class=\"card\"><h2>Cases × variants</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\"");
    body.raw(" aria-label=\"Pass rate of each case with each variant\"><table class=\"heat\"><thead><tr><th scope=\"col\">case</th>");
    for variant in &matrix.variants {
        body.raw("<th scope=\"col\">").text(variant).raw("</th>");
    }
    let several = matrix.variants.len() > 1;
    if several {
        body.raw("<th scope=\"col\">all</th>");
    }
    body.raw("</tr></thead><tbody>");
    let cases = matrix.shown_cases((CELLS / matrix.variants.len().max(1)).clamp(10, CASES));
    for case in &cases {
        body.raw("<tr><th scope=\"row\">").text(case).raw("</th>");
        let mut all = Cell::default();
        for variant in &matrix.variants {
            let cell = matrix.cell(case, variant);
            heat_cell(body, cell, Some((links, at, case, variant)));
            if let Some(cell) = cell {
                all.passed += cell.passed;
                all.counted += cell.counted;
                all.excluded += cell.excluded;
                all.pending += cell.pending;
            }
        }
        if several {
            heat_cell(body, Some(&all), None);
        }
        body.raw("</tr>");
    }
    body.raw("</tbody>");
    if matrix.cases.len() > 1 {
        body.raw("<tfoot><tr><th scope=\"row\">all</th>");
        for variant in &matrix.variants {
            heat_cell(body, Some(&run.variant_totals(Some(variant))), None);
        }
        if several {
            heat_cell(body, Some(&run.totals()), None);
        }
        body.raw("</tr></tfoot>");
    }
    body.raw("</table></div><p class=\"hint\">");
    if let more @ 1.. = matrix.cases.len() - cases.len() {
        body.text(&format!("The cases with the lowest pass rates; {} more. ", count(more)));
    }
    body.raw("Passed of counted trials");
    if run
        .trials
        .iter()
        .any(|trial| !matches!(trial.outcome.class, OutcomeClass::Passed | OutcomeClass::Failed))
    {
        body.raw("; +n: excluded, pending or inconclusive");
    }
    body.raw(". Select a cell to see its trials.</p></section>");
}

/// Writes the totals of the variants, the effects of factors, and which is better.
fn variants(body: &mut Markup, run: &Run) {
    let Some(summary) = &run.variants else { return };
    for table in summary.tables() {
        body.raw("<section class=\"card\">").element("h2", "", table.title);
        body.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\"").attr("aria-label", table.title);
        body.raw("><table><thead><tr>");
        for name in &table.header {
            body.raw("<th scope=\"col\">").text(name).raw("</th>");
        }
        body.raw("</tr></thead><tbody>");
        for row in &table.rows {
            body.raw("<tr>");
            for cell in row {
                body.raw("<td>").text(cell).raw("</td>");
            }
            body.raw("</tr>");
        }
        body.raw("</tbody></table></div></section>");
    }
}

fn heat_cell(body: &mut Markup, cell: Option<&Cell>, filter: Option<(&dyn Links, usize, &str, &str)>) {
    let Some(cell) = cell else {
        body.raw("<td class=\"none\"></td>");
        return;
    };
    body.raw("<td class=\"").raw(heat(cell.rate())).raw("\">");
    let without = cell.excluded + cell.pending;
    if let Some((links, run, case, variant)) = filter {
        let label =
            format!("show trials of {case} with {variant}: {} of {} passed", cell.passed, cell.counted);
        links::open(body, links, run, Some(case), Some(variant), &label);
    }
    body.element("b", "", &cell.rate().map_or_else(|| "–".to_owned(), percent));
    body.element("span", "", &format!("{}/{}", cell.passed, cell.counted));
    if without > 0 {
        body.element("span", "", &format!("+{without}"));
    }
    if filter.is_some() {
        body.raw("</a>");
    }
    body.raw("</td>");
}

/// Returns one of eleven classes: the content security policy forbids style attributes.
fn heat(rate: Option<f64>) -> &'static str {
    const STEPS: [&str; 11] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "h10"];
    match rate {
        // The first and the last step are for exactly 0% and 100%.
        Some(rate) if rate > 0.0 && rate < 1.0 => STEPS[((rate * 10.0).round() as usize).clamp(1, 9)],
        Some(rate) => STEPS[(rate * 10.0) as usize],
        None => "none",
    }
}

fn footer(body: &mut Markup, html: &Html<'_>) {
    body.raw("<footer>");
    for run in &html.report.runs {
        body.raw("<p>").element("span", "mono", &run.directory.display().to_string());
        if let Some(version) = &run.youbencha {
            body.text(&format!(" · recorded by youBencha {version}"));
        }
        body.raw("</p>");
    }
    body.raw("</footer>");
}
