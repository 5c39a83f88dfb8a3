//! The first page: each run in figures, its cases × variants, its charts, and all trials.

use serde_json::Value;

use super::markup::Markup;
use super::{Html, chart, table, values};
use crate::figures::{count, dollars, duration, moment, percent, plural};
use crate::model::{Cell, Matrix, Run, Standing};
use crate::value::spoken;

/// Narrower matrices have nothing that the table of trials has not.
const MATRIX: usize = 2;

pub(super) fn write(body: &mut Markup, html: &Html<'_>) {
    for (at, run) in html.report.runs.iter().enumerate() {
        body.raw("<section class=\"run\">");
        head(body, run);
        tiles(body, run);
        extra(body, run);
        if run.trials.len() >= MATRIX {
            matrix(body, run, at);
            chart::write(body, run);
        }
        body.raw("</section>");
    }
    table::write(body, html);
    footer(body, html);
}

/// What else the run says, such as its gates.
pub(super) fn extra(body: &mut Markup, run: &Run) {
    for (name, value) in &run.extra {
        body.raw("<section class=\"card\">").element("h2", "", &spoken(name));
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
        body.element("span", "", &moment(at));
    }
    body.element("span", "", &run.condition).raw("</p></div>");
}

fn tiles(body: &mut Markup, run: &Run) {
    let whole = run.whole();
    body.raw("<div class=\"tiles\"><div class=\"tile wide\"><div class=\"label\">Pass rate</div><div class=\"figure\">");
    body.text(&whole.rate().map_or_else(|| "–".to_owned(), percent)).raw("</div>");
    body.raw("<div class=\"note\">")
        .text(&format!("{} of {} that count passed", whole.passed, whole.counted));
    body.raw("</div>");
    outcomes(body, run);
    body.raw("</div>");
    let mut aside = Vec::new();
    if whole.left_out > 0 {
        aside.push(format!("{} left out", count(whole.left_out as u64)));
    }
    if whole.pending > 0 {
        aside.push(format!("{} to do", count(whole.pending as u64)));
    }
    let matrix = Matrix::of(run);
    if aside.is_empty() {
        aside.push(format!(
            "{} × {}",
            plural(matrix.cases.len(), "case"),
            plural(matrix.variants.len(), "variant")
        ));
    }
    tile(body, "Trials", &count(run.trials.len() as u64), &aside.join(", "));
    if let Some(ms) = whole.median_ms() {
        let longest = whole.times.iter().max().copied().unwrap_or(ms);
        tile(body, "Median time", &duration(ms), &format!("at most {}", duration(longest)));
    }
    if let Some(usd) = whole.money.total() {
        tile(body, "Cost", &dollars(usd), &per_pass(&whole, usd));
    }
    let tokens: u64 = run.trials.iter().filter_map(|trial| trial.tokens).sum();
    if tokens > 0 {
        tile(body, "Tokens", &count(tokens), "in and out, without the cache");
    }
    body.raw("</div>");
}

fn per_pass(cell: &Cell, usd: f64) -> String {
    match cell.passed {
        0 => "no pass for it".to_owned(),
        passed => format!("{} for each pass", dollars(usd / passed as f64)),
    }
}

fn tile(body: &mut Markup, label: &str, figure: &str, note: &str) {
    body.raw("<div class=\"tile\">").element("div", "label", label).element("div", "figure", figure);
    body.element("div", "note", note).raw("</div>");
}

/// A bar with a part for each outcome.
fn outcomes(body: &mut Markup, run: &Run) {
    let verdicts = run.verdicts();
    let all = run.trials.len().max(1) as f64;
    let said: Vec<String> =
        verdicts.iter().map(|(verdict, count)| format!("{count} {}", verdict.word)).collect();
    body.raw("<svg class=\"parts\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\"");
    body.attr("aria-label", &said.join(", ")).raw("><title>").text(&said.join(", ")).raw("</title>");
    let mut at = 0.0;
    for (verdict, count) in &verdicts {
        let width = *count as f64 / all * 1000.0;
        body.raw("<rect class=\"f-").raw(verdict.standing.class()).raw("\" y=\"0\" height=\"10\"");
        body.attr("x", &format!("{at:.2}"))
            .attr("width", &format!("{:.2}", (width - 3.0).max(1.0)))
            .raw("/>");
        at += width;
    }
    body.raw("</svg><ul class=\"legend\">");
    for (verdict, count) in &verdicts {
        body.raw("<li><i class=\"dot b-").raw(verdict.standing.class()).raw("\"></i>");
        body.text(&spoken(&verdict.word)).raw(" <b>").text(&count.to_string()).raw("</b></li>");
    }
    body.raw("</ul>");
}

/// Case × variant as a heat-map; each cell filters the table of trials.
fn matrix(body: &mut Markup, run: &Run, at: usize) {
    let matrix = Matrix::of(run);
    body.raw("<section class=\"card\"><h2>Cases × variants</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\"");
    body.raw(" aria-label=\"Pass rates of each case with each variant\"><table class=\"heat\"><thead><tr><th scope=\"col\">case</th>");
    for variant in &matrix.variants {
        body.raw("<th scope=\"col\">").text(variant).raw("</th>");
    }
    let several = matrix.variants.len() > 1;
    if several {
        body.raw("<th scope=\"col\">all</th>");
    }
    body.raw("</tr></thead><tbody>");
    for case in &matrix.cases {
        body.raw("<tr><th scope=\"row\">").text(case).raw("</th>");
        let mut all = Cell::default();
        for variant in &matrix.variants {
            let cell = matrix.cell(case, variant);
            square(body, cell, Some((at, case, variant)));
            if let Some(cell) = cell {
                all.passed += cell.passed;
                all.counted += cell.counted;
                all.left_out += cell.left_out;
                all.pending += cell.pending;
            }
        }
        if several {
            square(body, Some(&all), None);
        }
        body.raw("</tr>");
    }
    body.raw("</tbody>");
    if matrix.cases.len() > 1 {
        body.raw("<tfoot><tr><th scope=\"row\">all</th>");
        for variant in &matrix.variants {
            square(body, Some(&run.of_variant(Some(variant))), None);
        }
        if several {
            square(body, Some(&run.whole()), None);
        }
        body.raw("</tr></tfoot>");
    }
    body.raw("</table></div><p class=\"hint\">Passed of those that count");
    if run.trials.iter().any(|trial| !matches!(trial.verdict.standing, Standing::Passed | Standing::Failed)) {
        body.raw("; +n were lost, not done, or nobody can tell");
    }
    body.raw(". A cell shows its trials in the table below.</p></section>");
}

fn square(body: &mut Markup, cell: Option<&Cell>, filter: Option<(usize, &str, &str)>) {
    let Some(cell) = cell else {
        body.raw("<td class=\"none\"></td>");
        return;
    };
    body.raw("<td class=\"").raw(heat(cell.rate())).raw("\">");
    let without = cell.left_out + cell.pending;
    if let Some((run, case, variant)) = filter {
        let said =
            format!("show the trials of {case} with {variant}: {} of {} passed", cell.passed, cell.counted);
        body.raw("<a href=\"#trials\" data-run=\"").text(&run.to_string()).raw("\"").attr("data-case", case);
        body.attr("data-variant", variant).attr("aria-label", &said).raw(">");
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

/// Eleven steps: style attributes are not allowed, so each step is a class.
fn heat(rate: Option<f64>) -> &'static str {
    const STEPS: [&str; 11] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "h10"];
    match rate {
        // Only what failed never or always has the last step.
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
