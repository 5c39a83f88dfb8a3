//! Pass rate with its interval, cost and time over the runs of a suite.

use yb_figures::{duration_ms, money, percent, timestamp};
use yb_report::view::Markup;

use crate::address;
use crate::project::RunSummary;

/// The maximum number of runs in a chart.
const SHOWN: usize = 60;

/// A point of a chart: value, lower and upper end, and its label.
struct Point<'a> {
    run: &'a RunSummary,
    value: f64,
    ends: Option<(f64, f64)>,
    label: String,
}

/// Writes the charts of the runs of one suite, oldest first.
pub(super) fn write(body: &mut Markup, runs: &[&RunSummary]) {
    let runs = &runs[runs.len().saturating_sub(SHOWN)..];
    body.raw("<div class=\"charts thirds\">");
    let rates = runs.iter().filter_map(|run| {
        let (rate, of) = run.rate?;
        let label = format!("{} ({} to {})", percent(rate), percent(of.lower), percent(of.upper));
        Some(Point { run, value: rate, ends: Some((of.lower, of.upper)), label })
    });
    chart(body, "Pass rate", &rates.collect::<Vec<_>>(), 1.0, "100%");
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
    for (at, point) in points.iter().enumerate() {
        let agents = point.run.agents.join(", ");
        let label = format!("{}: {}, {agents}", timestamp(&point.run.created_at), point.label);
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
    body.raw("</span></div></section>");
}
