//! The sortable and filterable table of all trials.

use yb_figures::{count, duration_ms, money};

use super::markup::Markup;
use super::{Html, TrialEntry};
use crate::csv::reason;
use crate::model::TrialOutcome;
use crate::text::shorten;
use crate::value::readable_name;

pub(super) fn write(body: &mut Markup, html: &Html<'_>) {
    let several = html.report.has_several_runs();
    let shown = |wanted: &dyn Fn(&TrialEntry<'_>) -> bool| html.entries.iter().any(wanted);
    let columns = Columns {
        run: several,
        variant: shown(&|entry| entry.trial.variant != "default"),
        repeat: shown(&|entry| entry.trial.repeat > 1),
        cost: shown(&|entry| entry.trial.money.total().is_some()),
        tokens: shown(&|entry| entry.trial.tokens.is_some()),
        turns: shown(&|entry| entry.trial.turns.is_some()),
    };
    body.raw("<section class=\"card\" id=\"trials\"><h2>Trials</h2>");
    filters(body, html);
    body.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All trials\">");
    body.raw("<table class=\"list\" id=\"list\"><thead><tr>");
    for (name, wanted, number) in [
        ("outcome", true, false),
        ("run", columns.run, false),
        ("case", true, false),
        ("variant", columns.variant, false),
        ("repeat", columns.repeat, true),
        ("time", true, true),
        ("cost", columns.cost, true),
        ("tokens", columns.tokens, true),
        ("turns", columns.turns, true),
        ("reason", true, false),
    ] {
        if wanted {
            body.raw(if number { "<th scope=\"col\" class=\"num\">" } else { "<th scope=\"col\">" });
            body.raw("<button type=\"button\">").text(name).raw("</button></th>");
        }
    }
    body.raw("</tr></thead><tbody>");
    for entry in &html.entries {
        row(body, html, entry, &columns);
    }
    body.raw("</tbody></table></div><p class=\"empty\" id=\"empty\" hidden>No trial matches.</p></section>");
}

struct Columns {
    run: bool,
    variant: bool,
    repeat: bool,
    cost: bool,
    tokens: bool,
    turns: bool,
}

fn filters(body: &mut Markup, html: &Html<'_>) {
    let mut outcomes: Vec<(&TrialOutcome, usize)> = Vec::new();
    for (outcome, count) in html.report.runs.iter().flat_map(|run| run.outcomes()) {
        match outcomes.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, sum)) => *sum += count,
            None => outcomes.push((outcome, count)),
        }
    }
    body.raw("<div class=\"filters\"><div class=\"chips\" role=\"group\" aria-label=\"Filter by outcome\">");
    body.raw("<button type=\"button\" class=\"chip\" data-outcome=\"\" aria-pressed=\"true\">all <b>");
    body.text(&html.entries.len().to_string()).raw("</b></button>");
    for (outcome, count) in outcomes {
        body.raw("<button type=\"button\" class=\"chip\" aria-pressed=\"false\"")
            .attr("data-outcome", &outcome.name);
        body.raw("><i class=\"dot b-")
            .raw(outcome.class.key())
            .raw("\"></i>")
            .text(&readable_name(&outcome.name));
        body.raw(" <b>").text(&count.to_string()).raw("</b></button>");
    }
    body.raw("</div><button type=\"button\" class=\"chip only\" id=\"only\" hidden></button>");
    body.raw("<input type=\"search\" id=\"search\" placeholder=\"Search cases, variants, reasons\" aria-label=\"Search trials\">");
    body.raw("<span class=\"shown\" id=\"shown\" aria-live=\"polite\"></span></div>");
}

fn row(body: &mut Markup, html: &Html<'_>, entry: &TrialEntry<'_>, columns: &Columns) {
    let trial = entry.trial;
    let run = html.report.runs.iter().position(|run| std::ptr::eq(run, entry.run)).unwrap_or(0);
    body.raw("<tr").attr("data-outcome", &trial.outcome.name).attr("data-run", &run.to_string());
    body.attr("data-case", &trial.case).attr("data-variant", &trial.variant).raw("><td>");
    badge(body, &trial.outcome);
    body.raw("</td>");
    if columns.run {
        body.element("td", "mono", &entry.run.id);
    }
    body.raw("<td><a class=\"go\"")
        .attr("href", &html.link(entry))
        .raw(">")
        .text(&trial.case)
        .raw("</a></td>");
    if columns.variant {
        body.element("td", "", &trial.variant);
    }
    let mut number = |wanted: bool, value: Option<f64>, shown: String| {
        if wanted {
            body.raw("<td class=\"num\"").attr("data-v", &value.map(|v| v.to_string()).unwrap_or_default());
            body.raw(">").text(&shown).raw("</td>");
        }
    };
    let float = |value: Option<u64>| value.map(|value| value as f64);
    number(columns.repeat, Some(f64::from(trial.repeat)), trial.repeat.to_string());
    number(true, float(trial.duration_ms), trial.duration_ms.map(duration_ms).unwrap_or_default());
    number(columns.cost, trial.money.total(), trial.money.total().map(money).unwrap_or_default());
    number(columns.tokens, float(trial.tokens), trial.tokens.map(count).unwrap_or_default());
    number(columns.turns, float(trial.turns), trial.turns.map(count).unwrap_or_default());
    body.raw("<td class=\"why\">").text(&reason(trial).map(|why| shorten(&why, 160)).unwrap_or_default());
    body.raw("</td></tr>");
}

/// Writes an outcome with its color and a mark that is readable without color.
pub(crate) fn badge(body: &mut Markup, outcome: &TrialOutcome) {
    body.raw("<span class=\"badge c-").raw(outcome.class.key()).raw("\"><i aria-hidden=\"true\">");
    body.raw(outcome.class.mark()).raw("</i>").text(&readable_name(&outcome.name)).raw("</span>");
}
