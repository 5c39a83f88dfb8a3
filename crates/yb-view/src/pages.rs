//! The pages, one file each.

pub(crate) mod compare;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod steps;
pub(crate) mod trend;
pub(crate) mod trial;

use yb_engine::stats::Interval;
use yb_figures::{count, percent};
use yb_report::TrialOutcome;
use yb_report::view::Markup;

use crate::address::Query;
use crate::page::Page;

/// Returns a page that says what went wrong, and what to do.
pub(crate) fn message(title: &str, text: &str, hint: &str) -> Page {
    let mut page = Page::new(title);
    page.body.raw("<section class=\"card empty-page\">").element("h1", "", title).element("p", "", text);
    page.body.element("p", "hint", hint).raw("</section>");
    page
}

/// Writes what is wrong with a recorded run.
pub(crate) fn problems(body: &mut Markup, problems: &[String]) {
    for problem in problems {
        body.raw("<div class=\"note-box n-error\"><b>damaged</b><pre>").text(problem);
        body.raw("</pre><p class=\"hint\">Shown as far as it can be read.</p></div>");
    }
}

/// Writes links to the pages of a long list.
pub(crate) fn pager(body: &mut Markup, query: &Query, path: &str, all: usize, per_page: usize) {
    let (page, last) = (query.page(), all.div_ceil(per_page).max(1));
    if last == 1 {
        return;
    }
    body.raw("<nav class=\"pager\" aria-label=\"Pages\">");
    let mut link = |name: &'static str, to: usize, wanted: bool| {
        if wanted {
            let target = query.with("page", Some(&to.to_string()));
            body.raw("<a")
                .attr("href", &format!("{path}{}", target.to_suffix()))
                .raw(">")
                .raw(name)
                .raw("</a>");
        } else {
            body.raw("<span class=\"soft\">").raw(name).raw("</span>");
        }
    };
    link("← previous", page - 1, page > 1);
    link("next →", page + 1, page < last);
    body.raw("<span class=\"hint\">")
        .text(&format!("page {} of {}", count(page), count(last)))
        .raw("</span></nav>");
}

/// Returns the part of a list that belongs to a page.
pub(crate) fn slice<'a, T>(items: &'a [T], query: &Query, per_page: usize) -> &'a [T] {
    let from = (query.page() - 1).saturating_mul(per_page).min(items.len());
    &items[from..from.saturating_add(per_page).min(items.len())]
}

/// Writes a bar with a segment for each outcome.
pub(crate) fn outcome_bar(body: &mut Markup, outcomes: &[(TrialOutcome, usize)], planned: usize) {
    let label: Vec<String> =
        outcomes.iter().map(|(outcome, count)| format!("{count} {}", outcome.name)).collect();
    body.raw("<svg class=\"parts small\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\"");
    body.attr("aria-label", &label.join(", ")).raw("><title>").text(&label.join(", ")).raw("</title>");
    body.raw("<rect class=\"ground\" width=\"1000\" height=\"10\"/>");
    let mut at = 0.0;
    for (outcome, count) in outcomes {
        let width = *count as f64 / planned.max(1) as f64 * 1000.0;
        body.raw("<rect class=\"f-").raw(outcome.class.key()).raw("\" height=\"10\"");
        body.attr("x", &format!("{at:.1}")).attr("width", &format!("{width:.1}")).raw("/>");
        at += width;
    }
    body.raw("</svg>");
}

/// Formats a pass rate with its interval.
pub(crate) fn rate(rate: Option<(f64, Interval)>) -> (String, String) {
    match rate {
        Some((rate, of)) => (percent(rate), format!("{}–{}", percent(of.lower), percent(of.upper))),
        None => ("–".to_owned(), String::new()),
    }
}

/// Writes a search field that keeps the other parameters.
pub(crate) fn search(body: &mut Markup, query: &Query, kept: &[&'static str], label: &'static str) {
    body.raw("<form class=\"filters\" role=\"search\">");
    for name in kept {
        if let Some(value) = query.get(name) {
            body.raw("<input type=\"hidden\"").attr("name", name).attr("value", value).raw(">");
        }
    }
    body.raw("<input type=\"search\" id=\"search\" name=\"q\"")
        .attr("placeholder", label)
        .attr("aria-label", label);
    body.attr("value", query.get("q").unwrap_or_default())
        .raw("><button class=\"chip\">Search</button></form>");
}
