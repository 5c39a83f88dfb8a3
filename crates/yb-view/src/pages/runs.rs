//! All runs of the project, newest first, and the trend of a suite.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use yb_figures::{duration_ms, money, plural, timestamp};
use yb_report::view::Markup;

use super::{outcome_bar, pager, rate, search, slice, trend};
use crate::address::{self, Query};
use crate::page::Page;
use crate::project::{Project, RunSummary, Unreadable};

/// Runs on a page.
const PER_PAGE: usize = 50;

/// One run of the list; an unreadable one has only its id.
struct Listed {
    id: String,
    found: Result<Arc<RunSummary>, Unreadable>,
}

pub(crate) fn page(project: &Project, query: &Query) -> Result<Page, Unreadable> {
    let ids = project.ids()?;
    let mut page = Page::new("Runs");
    page.events = Some("/events".to_owned());
    let body = &mut page.body;
    body.raw("<div data-refresh=\"runs\">");
    if ids.is_empty() {
        empty(body, project);
        body.raw("</div>");
        return Ok(page);
    }
    let all: Vec<Listed> = ids.into_iter().map(|id| Listed { found: project.summary(&id), id }).collect();
    let shown: Vec<&Listed> = all.iter().filter(|run| matches(run, query)).collect();
    body.raw("<div class=\"head\"><h1>Runs</h1><p class=\"meta\"><span>").text(&plural(all.len(), "run"));
    body.raw("</span><span class=\"mono\">")
        .text(&project.root().display().to_string())
        .raw("</span></p></div>");
    filters(body, &all, query);
    let of_suite: Vec<&RunSummary> =
        shown.iter().rev().filter_map(|run| run.found.as_ref().ok().map(Arc::as_ref)).collect();
    if of_suite.len() > 1 && of_suite.iter().all(|run| run.name == of_suite[0].name) {
        trend::write(body, &of_suite, query);
    }
    table(body, slice(&shown, query, PER_PAGE));
    if shown.is_empty() {
        body.raw("<p class=\"empty\">No run matches. <a href=\"/\">Show all</a></p>");
    }
    pager(body, query, "/", shown.len(), PER_PAGE);
    body.raw("</div>");
    Ok(page)
}

fn empty(body: &mut Markup, project: &Project) {
    body.raw("<section class=\"card empty-page\"><h1>No runs yet</h1><p>Run a case or a suite in this project, and its \
              progress appears here:</p><pre>yb run FILE</pre><p class=\"hint\">Without a case: <code>yb init</code> creates one that runs \
              offline, and <code>yb demo</code> shows everything. Looked in <span class=\"mono\">");
    body.text(&project.root().display().to_string()).raw("</span>.</p></section>");
}

fn matches(run: &Listed, query: &Query) -> bool {
    let Ok(found) = &run.found else { return query.get("suite").is_none() && query.get("tag").is_none() };
    let words = query.get("q").unwrap_or_default().to_lowercase();
    let text = || {
        let mut text = format!("{} {} {} ", found.id, found.name, found.condition);
        text.push_str(&found.agents.join(" "));
        text.push(' ');
        text.push_str(&found.tags.join(" "));
        text.to_lowercase()
    };
    query.get("suite").is_none_or(|suite| found.name == suite)
        && query.get("tag").is_none_or(|tag| found.tags.iter().any(|known| known == tag))
        && query.get("state").is_none_or(|state| found.condition.starts_with(state))
        && (words.is_empty() || words.split_whitespace().all(|word| text().contains(word)))
}

/// Writes a search field and a link for each suite.
fn filters(body: &mut Markup, all: &[Listed], query: &Query) {
    search(body, query, &["suite", "tag", "state"], "Search runs, suites, agents, tags");
    let mut suites: Vec<(&str, usize)> = Vec::new();
    for found in all.iter().filter_map(|run| run.found.as_ref().ok()) {
        match suites.iter_mut().find(|(name, _)| *name == found.name) {
            Some((_, count)) => *count += 1,
            None => suites.push((&found.name, 1)),
        }
    }
    tags(body, all, query);
    if suites.len() < 2 && query.get("suite").is_none() {
        return;
    }
    body.raw("<nav class=\"chips filters\" aria-label=\"Suites\">");
    let mut chip = |name: &str, suite: Option<&str>, count: usize| {
        let target = query.with("suite", suite).with("page", None);
        body.raw("<a class=\"chip\"").attr("href", &format!("/{}", target.to_suffix()));
        body.raw(if query.get("suite") == suite { " aria-current=\"true\">" } else { ">" });
        body.text(name).raw(" <b>").text(&count.to_string()).raw("</b></a>");
    };
    chip("all suites", None, all.len());
    for (name, count) in suites.iter().take(30) {
        chip(name, Some(name), *count);
    }
    body.raw("</nav>");
}

/// Writes a link for each tag.
fn tags(body: &mut Markup, all: &[Listed], query: &Query) {
    let found = all.iter().filter_map(|run| run.found.as_ref().ok());
    let names: BTreeSet<&str> = found.flat_map(|run| run.tags.iter().map(String::as_str)).collect();
    if names.is_empty() {
        return;
    }
    body.raw("<nav class=\"chips filters\" aria-label=\"Tags\">");
    for name in names.into_iter().take(30) {
        let selected = query.get("tag") == Some(name);
        let target = query.with("tag", (!selected).then_some(name)).with("page", None);
        body.raw("<a class=\"chip\"").attr("href", &format!("/{}", target.to_suffix()));
        body.raw(if selected { " aria-current=\"true\">" } else { ">" }).raw("#").text(name).raw("</a>");
    }
    body.raw("</nav>");
}

fn table(body: &mut Markup, runs: &[&Listed]) {
    if runs.is_empty() {
        return;
    }
    body.raw("<section class=\"card\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All runs\"><table class=\"list\"><thead><tr>");
    for (name, number) in [
        ("suite", false),
        ("started", false),
        ("pass rate", true),
        ("95% interval", true),
        ("outcomes", false),
        ("trials", true),
        ("cost", true),
        ("median time", true),
        ("state", false),
    ] {
        body.raw(if number { "<th scope=\"col\" class=\"num\">" } else { "<th scope=\"col\">" })
            .raw(name)
            .raw("</th>");
    }
    body.raw("</tr></thead><tbody>");
    for run in runs {
        match &run.found {
            Ok(found) => row(body, found),
            Err(reason) => {
                body.raw("<tr data-row><td class=\"mono\">").text(&run.id);
                body.raw("</td><td colspan=\"8\" class=\"why\">unreadable: ").text(reason).raw("</td></tr>");
            }
        }
    }
    body.raw("</tbody></table></div></section>");
}

fn row(body: &mut Markup, run: &RunSummary) {
    let (share, interval) = rate(run.rate);
    body.raw("<tr data-row><td><a class=\"go\"")
        .attr("href", &address::run(&run.id))
        .attr("title", &run.id)
        .raw(">");
    body.text(&run.name).raw("</a></td><td>").text(&timestamp(&run.created_at)).raw("</td>");
    body.raw("<td class=\"num\"")
        .attr("title", &format!("{} of {} counted trials passed", run.passed, run.counted));
    body.raw(">")
        .text(&share)
        .raw("</td>")
        .element("td", "num soft", &interval)
        .raw("<td class=\"bar-cell\">");
    outcome_bar(body, &run.outcomes, run.planned);
    body.raw("</td>").element(
        "td",
        "num",
        &match run.done == run.planned {
            true => run.planned.to_string(),
            false => format!("{}/{}", run.done, run.planned),
        },
    );
    body.element("td", "num", &run.cost.map(money).unwrap_or_default());
    body.element("td", "num", &run.median_ms.map(duration_ms).unwrap_or_default()).raw("<td>");
    if run.active {
        body.raw("<span class=\"badge c-live\"><i aria-hidden=\"true\">●</i>running</span>");
    } else if run.problems.is_empty() {
        body.text(&run.condition);
    } else {
        body.raw("<span class=\"badge c-fail\">damaged</span>");
    }
    body.raw("</td></tr>");
}

/// Returns a number that changes with every run and its progress.
pub(crate) fn version(project: &Project) -> u64 {
    let mut hasher = DefaultHasher::new();
    for id in project.ids().unwrap_or_default().iter().take(PER_PAGE) {
        id.hash(&mut hasher);
        if let Ok(found) = project.summary(id) {
            (found.done, found.active, found.condition.as_str()).hash(&mut hasher);
        }
    }
    hasher.finish() & 0xffff_ffff
}
