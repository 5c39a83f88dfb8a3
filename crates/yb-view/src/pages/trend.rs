//! Pass rate with its interval, cost and time over the runs of a suite.

use std::collections::BTreeSet;

use yb_engine::stats::{Interval, PassCount, wilson};
use yb_figures::{duration_ms, money, percent, timestamp};
use yb_report::view::Markup;

use crate::address::{self, Query};
use crate::project::RunSummary;

/// The maximum number of runs in a chart.
const SHOWN: usize = 60;
/// The maximum number of cases in the table.
const CASES: usize = 100;
/// The number of changes of commits and versions that are named below a chart.
const CHANGES: usize = 3;

/// A point of a chart: value, lower and upper end, and its label.
struct Point<'a> {
    run: &'a RunSummary,
    value: f64,
    ends: Option<(f64, f64)>,
    label: String,
}

/// Writes the charts of the runs of one suite, oldest first; those of one case if the address names it.
pub(super) fn write(body: &mut Markup, runs: &[&RunSummary], query: &Query) {
    let runs = &runs[runs.len().saturating_sub(SHOWN)..];
    let case = query.get("case");
    if let Some(case) = case {
        body.raw("<p class=\"chips filters\"><a class=\"chip only\"")
            .attr("href", &format!("/{}", query.with("case", None).to_suffix()));
        body.attr("aria-label", &format!("remove the filter {case}")).raw(">").text(case).raw(" ×</a></p>");
    }
    body.raw("<div class=\"charts thirds\">");
    let rates = runs.iter().filter_map(|run| {
        let (rate, of) = match case {
            Some(case) => rate_of(*run.cases.get(case)?)?,
            None => run.rate?,
        };
        let label = format!("{} ({} to {})", percent(rate), percent(of.lower), percent(of.upper));
        Some(Point { run, value: rate, ends: Some((of.lower, of.upper)), label })
    });
    chart(body, "Pass rate", &rates.collect::<Vec<_>>(), 1.0, "100%");
    if case.is_some() {
        body.raw("</div>");
        cases(body, runs, query);
        return;
    }
    let costs: Vec<Point<'_>> = runs
        .iter()
        .filter_map(|run| Some(Point { run, value: run.cost?, ends: None, label: money(run.cost?) }))
        .collect();
    // The highest point stays below the top.
    let most = costs.iter().map(|point| point.value).fold(0.0, f64::max) * 1.15;
    chart(body, "Cost", &costs, most, &money(most));
    let times: Vec<Point<'_>> = runs
        .iter()
        .filter_map(|run| {
            let ms = run.median_ms?;
            Some(Point { run, value: ms as f64, ends: None, label: duration_ms(ms) })
        })
        .collect();
    let longest = times.iter().map(|point| point.value).fold(0.0, f64::max) * 1.15;
    chart(body, "Median time of a trial", &times, longest, &duration_ms(longest as u64));
    body.raw("</div>");
    cases(body, runs, query);
}

fn rate_of(passes: PassCount) -> Option<(f64, Interval)> {
    Some((passes.rate()?, wilson(passes, 0.95)?))
}

/// Writes the pass rate of each case over the runs, those that changed most first.
fn cases(body: &mut Markup, runs: &[&RunSummary], query: &Query) {
    let names: BTreeSet<&str> = runs.iter().flat_map(|run| run.cases.keys().map(String::as_str)).collect();
    if names.is_empty() || runs.len() < 2 {
        return;
    }
    let rate = |run: &RunSummary, case: &str| run.cases.get(case).and_then(|passes| passes.rate());
    let mut rows: Vec<(f64, &str)> = names
        .into_iter()
        .map(|case| {
            let known: Vec<f64> = runs.iter().filter_map(|run| rate(run, case)).collect();
            let change = match known.as_slice() {
                [.., before, last] => last - before,
                _ => 0.0,
            };
            (change, case)
        })
        .collect();
    rows.sort_by(|one, two| two.0.abs().total_cmp(&one.0.abs()).then(one.1.cmp(two.1)));
    body.raw("<details class=\"card\" open><summary><h2>Cases over runs</h2></summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Cases over runs\">");
    body.raw("<table class=\"list\"><thead><tr><th scope=\"col\">case</th><th scope=\"col\">oldest to newest run</th><th scope=\"col\" class=\"num\">latest</th><th scope=\"col\" class=\"num\">change</th></tr></thead><tbody>");
    for (change, case) in rows.iter().take(CASES) {
        let target = format!("/{}", query.with("case", Some(case)).with("page", None).to_suffix());
        body.raw("<tr><td><a").attr("href", &target).raw(">").text(case).raw("</a></td><td>");
        let known: Vec<(usize, f64)> =
            runs.iter().enumerate().filter_map(|(at, run)| Some((at, rate(run, case)?))).collect();
        let shown: Vec<String> = known.iter().map(|(_, rate)| percent(*rate)).collect();
        body.raw("<svg class=\"spark\" viewBox=\"0 0 600 20\" preserveAspectRatio=\"none\" role=\"img\"");
        body.attr("aria-label", &shown.join(", ")).raw(">");
        let width = 600.0 / runs.len() as f64;
        for (at, rate) in &known {
            let height = (rate * 18.0).max(2.0);
            body.raw(if *rate >= 0.5 { "<rect class=\"f-pass\"" } else { "<rect class=\"f-fail\"" });
            body.attr("x", &format!("{:.1}", *at as f64 * width))
                .attr("width", &format!("{:.1}", width * 0.8));
            body.attr("y", &format!("{:.1}", 20.0 - height))
                .attr("height", &format!("{height:.1}"))
                .raw("/>");
        }
        body.raw("</svg></td>").element("td", "num", &shown.last().cloned().unwrap_or_default());
        let points = format!("{:+.0}", change * 100.0);
        body.element("td", "num", if *change == 0.0 { "" } else { &points }).raw("</tr>");
    }
    body.raw("</tbody></table></div>");
    if rows.len() > CASES {
        body.element("p", "hint", &format!("and {} more", rows.len() - CASES));
    }
    body.raw("</details>");
}

/// Returns what changed between two runs besides their results: commits and versions of agents.
fn difference(before: &RunSummary, after: &RunSummary) -> Option<String> {
    let mut changes = Vec::new();
    if before.agents != after.agents {
        changes.push(after.agents.join(", "));
    }
    if before.commits != after.commits {
        let commits: Vec<&str> = after.commits.iter().take(3).map(String::as_str).collect();
        changes.push(format!("commit {}", commits.join(", ")));
    }
    (!changes.is_empty()).then(|| changes.join("; "))
}

fn chart(body: &mut Markup, title: &'static str, points: &[Point<'_>], most: f64, top: &str) {
    if points.len() < 2 || most <= 0.0 {
        return;
    }
    let x = |at: usize| (at as f64 + 0.5) / points.len() as f64 * 100.0;
    let y = |value: f64| 100.0 - value / most * 100.0;
    body.raw("<section class=\"card chart\"><h2>")
        .raw(title)
        .raw("</h2><div class=\"plot\"><span class=\"y-ends\"><span>");
    body.text(top)
        .raw("</span><span>0</span></span><svg class=\"scatter trend\" role=\"img\"")
        .attr("aria-label", title);
    body.raw("><line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"0\" y2=\"0\"/><line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"50%\" y2=\"50%\"/>");
    body.raw("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"100%\" y2=\"100%\"/>");
    let ends = points.iter().enumerate().filter_map(|(at, point)| Some((x(at), point.ends?)));
    let ends: Vec<(f64, (f64, f64))> = ends.collect();
    if ends.len() == points.len() {
        let upper = ends.iter().map(|(x, (_, upper))| format!("{x:.2},{:.2}", y(*upper)));
        let lower = ends.iter().rev().map(|(x, (lower, _))| format!("{x:.2},{:.2}", y(*lower)));
        let outline = upper.chain(lower).collect::<Vec<_>>().join(" ");
        body.raw("<svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\"><polygon class=\"span\"");
        body.attr("points", &outline).raw("/></svg>");
    }
    for (at, pair) in points.windows(2).enumerate() {
        body.raw("<line class=\"path-line\"").attr("x1", &format!("{:.2}%", x(at)));
        body.attr("x2", &format!("{:.2}%", x(at + 1))).attr("y1", &format!("{:.2}%", y(pair[0].value)));
        body.attr("y2", &format!("{:.2}%", y(pair[1].value))).raw("/>");
    }
    for (at, pair) in points.windows(2).enumerate() {
        if let Some(changed) = difference(pair[0].run, pair[1].run) {
            let middle = format!("{:.2}%", f64::midpoint(x(at), x(at + 1)));
            body.raw("<line class=\"changed\" y1=\"0\" y2=\"100%\"").attr("x1", &middle).attr("x2", &middle);
            body.raw("><title>").text(&changed).raw("</title></line>");
        }
    }
    for (at, point) in points.iter().enumerate() {
        let agents = point.run.agents.join(", ");
        let commits = point.run.commits.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let label =
            format!("{}: {}, {agents}, commit {commits}", timestamp(&point.run.created_at), point.label);
        body.raw("<a")
            .attr("href", &address::run(&point.run.id))
            .attr("aria-label", &label)
            .raw("><title>")
            .text(&label);
        body.raw("</title><circle class=\"point\" r=\"5\"").attr("cx", &format!("{:.2}%", x(at)));
        body.attr("cy", &format!("{:.2}%", y(point.value))).raw("/></a>");
    }
    body.raw("</svg><span></span><span class=\"ends\">");
    for point in [points.first(), points.last()].into_iter().flatten() {
        let day = point.run.created_at.split('T').next().unwrap_or_default();
        body.element("span", "", day);
    }
    body.raw("</span></div>");
    let changes = points.windows(2).filter_map(|pair| Some((pair, difference(pair[0].run, pair[1].run)?)));
    let changes: Vec<_> = changes.collect();
    if !changes.is_empty() {
        body.raw("<ul class=\"changes hint\">");
        for (pair, changed) in changes.iter().rev().take(CHANGES) {
            let day = pair[1].run.created_at.split('T').next().unwrap_or_default();
            body.raw("<li>").text(&format!("{day}: {changed}")).raw("</li>");
        }
        body.raw("</ul>");
    }
    body.raw("</section>");
}
