//! One run: the answer first, then figures, then its trials as a filtered and paged table.

use yb_figures::{count, duration_ms, money, plural, timestamp};
use yb_report::view::{self, Links, Markup};
use yb_report::{OutcomeClass, Run, Trial, TrialOutcome};

use super::{pager, problems, search, slice};
use crate::address::{self, Query};
use crate::controls::{Activity, ControlForms};
use crate::page::Page;
use crate::project::{LoadedRun, Project, TrialNote, Unreadable};

/// Trials on a page.
const PER_PAGE: usize = 100;
/// The maximum number of other runs to compare with.
const OTHERS: usize = 50;

/// Links to the same page with a filter.
struct FilterLinks<'a> {
    run: &'a str,
}

impl Links for FilterLinks<'_> {
    fn trials(&self, case: Option<&str>, variant: Option<&str>, outcome: Option<&str>) -> String {
        let query = Query::default().with("case", case).with("variant", variant).with("outcome", outcome);
        format!("{}{}#trials", address::run(self.run), query.to_suffix())
    }
}

pub(crate) fn page(
    project: &Project,
    (forms, activity): (&ControlForms<'_>, &Activity),
    id: &str,
    query: &Query,
) -> Result<Page, Unreadable> {
    let loaded = project.load(id)?;
    let run = &loaded.run;
    let mut page = Page::new(&run.name).below(&run.name, address::run(id));
    if loaded.active {
        page.events = Some(format!("{}/events", address::run(id)));
    }
    let body = &mut page.body;
    head(body, &loaded);
    problems(body, &loaded.problems);
    let lost = run.trials.iter().filter(|trial| trial.outcome.class == OutcomeClass::Excluded).count();
    forms.run(body, id, loaded.active, lost);
    if loaded.active {
        body.raw("<section class=\"card live\" id=\"live\">");
        if let Some(progress) = project.progress(id, activity, None)? {
            body.add(&progress.html);
        }
        body.raw("</section>");
    }
    body.raw("<div data-refresh=\"figures\">");
    view::figures(body, run, &FilterLinks { run: id });
    body.raw("</div><div data-refresh=\"trials\">");
    trials(body, &loaded, query);
    body.raw("</div>");
    compare_with(body, project, run);
    footer(body, run);
    Ok(page)
}

fn head(body: &mut Markup, loaded: &LoadedRun) {
    let run = &loaded.run;
    body.raw("<div class=\"head\"><h1>").text(&run.name).raw("</h1>");
    if loaded.active {
        body.raw("<span class=\"badge c-live\"><i aria-hidden=\"true\">●</i>running</span>");
    }
    body.raw("<p class=\"meta\"><span class=\"mono\">").text(&run.id).raw("</span>");
    if let Some(at) = &run.started_at {
        body.element("span", "", &timestamp(at));
    }
    body.element("span", "", &run.condition);
    body.raw("<a").attr("href", &format!("{}/review", address::run(&run.id))).raw(">review</a></p></div>");
    let hint = match run.condition.as_str() {
        "died" => "The run was killed before it recorded its end; what it recorded is shown. Continue it: ",
        condition if condition.starts_with("stopped") => {
            "The run was stopped with pending trials. Continue it: "
        }
        _ => return,
    };
    body.raw("<p class=\"note-box n-warning\">").text(hint).raw("<code>yb run --resume ").text(&run.id);
    body.raw("</code></p>");
}

fn matches(trial: &Trial, note: &TrialNote, query: &Query) -> bool {
    let words = query.get("q").unwrap_or_default().to_lowercase();
    let text = || format!("{} {} {}", trial.name, trial.outcome.name, note.reason).to_lowercase();
    query.get("outcome").is_none_or(|wanted| trial.outcome.name == wanted)
        && query.get("case").is_none_or(|wanted| trial.case == wanted)
        && query.get("variant").is_none_or(|wanted| trial.variant == wanted)
        && query.get("tag").is_none_or(|wanted| note.tags.iter().any(|tag| tag == wanted))
        && (words.is_empty() || words.split_whitespace().all(|word| text().contains(word)))
}

fn sort(rows: &mut [(&Trial, &TrialNote)], key: &str) {
    let (key, down) = key.strip_prefix('-').map_or((key, false), |key| (key, true));
    match key {
        "time" => rows.sort_by_key(|(trial, _)| trial.duration_ms),
        "cost" => rows.sort_by(|one, two| {
            let usd = |row: &(&Trial, &TrialNote)| row.0.money.total().unwrap_or(-1.0);
            usd(one).total_cmp(&usd(two))
        }),
        "turns" => rows.sort_by_key(|(trial, _)| trial.turns),
        "outcome" => rows.sort_by_key(|(trial, _)| trial.outcome.class),
        "case" => rows.sort_by(|one, two| one.0.name.cmp(&two.0.name)),
        _ => return,
    }
    if down {
        rows.reverse();
    }
}

fn trials(body: &mut Markup, loaded: &LoadedRun, query: &Query) {
    let run = &loaded.run;
    let mut rows: Vec<(&Trial, &TrialNote)> =
        run.trials.iter().zip(&loaded.notes).filter(|(trial, note)| matches(trial, note, query)).collect();
    sort(&mut rows, query.get("sort").unwrap_or_default());
    body.raw("<section class=\"card\" id=\"trials\"><h2>Trials</h2>");
    search(body, query, &["outcome", "case", "variant", "tag", "sort"], "Search cases, variants, reasons");
    chips(body, run, query);
    let path = address::run(&run.id);
    let columns: Vec<(&'static str, &'static str, bool)> = [
        ("outcome", "outcome", false),
        ("case", "case", false),
        ("variant", "", false),
        ("repeat", "", true),
        ("time", "time", true),
        ("cost", "cost", true),
        ("turns", "turns", true),
        ("reason", "", false),
    ]
    .into_iter()
    .collect();
    body.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Trials\"><table class=\"list\"><thead><tr>");
    for (name, key, number) in columns {
        let current = query.get("sort").unwrap_or_default();
        let sorted = !key.is_empty() && current.trim_start_matches('-') == key;
        body.raw(if number { "<th scope=\"col\" class=\"num\"" } else { "<th scope=\"col\"" });
        if sorted {
            body.raw(if current.starts_with('-') {
                " aria-sort=\"descending\""
            } else {
                " aria-sort=\"ascending\""
            });
        }
        body.raw(">");
        if key.is_empty() {
            body.raw(name);
        } else {
            let next = if current == key { format!("-{key}") } else { key.to_owned() };
            let target = query.with("sort", Some(&next)).with("page", None);
            body.raw("<a")
                .attr("href", &format!("{path}{}#trials", target.to_suffix()))
                .raw(">")
                .raw(name)
                .raw("</a>");
        }
        body.raw("</th>");
    }
    body.raw("</tr></thead><tbody>");
    for (trial, note) in slice(&rows, query, PER_PAGE) {
        row(body, run, trial, note);
    }
    body.raw("</tbody></table></div>");
    if rows.is_empty() {
        body.raw("<p class=\"empty\">No trial matches. <a")
            .attr("href", &format!("{path}#trials"))
            .raw(">Show all</a></p>");
    }
    pager(body, query, &path, rows.len(), PER_PAGE);
    body.raw("</section>");
}

/// Writes a link for each outcome, and one for each other filter that removes it.
fn chips(body: &mut Markup, run: &Run, query: &Query) {
    let path = address::run(&run.id);
    let mut counts: Vec<(&TrialOutcome, usize)> = Vec::new();
    for trial in &run.trials {
        match counts.iter_mut().find(|(known, _)| **known == trial.outcome) {
            Some((_, count)) => *count += 1,
            None => counts.push((&trial.outcome, 1)),
        }
    }
    counts.sort_by(|one, two| one.0.class.cmp(&two.0.class).then(one.0.name.cmp(&two.0.name)));
    body.raw("<nav class=\"chips filters\" aria-label=\"Outcomes\">");
    let mut chip = |name: &str, outcome: Option<&TrialOutcome>, number: usize| {
        let wanted = outcome.map(|outcome| outcome.name.as_str());
        let target = query.with("outcome", wanted).with("page", None);
        body.raw("<a class=\"chip\"").attr("href", &format!("{path}{}#trials", target.to_suffix()));
        body.raw(if query.get("outcome") == wanted { " aria-current=\"true\">" } else { ">" });
        if let Some(outcome) = outcome {
            body.raw("<i class=\"dot b-").raw(outcome.class.key()).raw("\"></i>");
        }
        body.text(&name.replace('_', " ")).raw(" <b>").text(&count(number)).raw("</b></a>");
    };
    chip("all", None, run.trials.len());
    for (outcome, number) in counts {
        chip(&outcome.name, Some(outcome), number);
    }
    for name in ["case", "variant", "tag"] {
        if let Some(value) = query.get(name) {
            let target = query.with(name, None).with("page", None);
            body.raw("<a class=\"chip only\"").attr("href", &format!("{path}{}#trials", target.to_suffix()));
            body.attr("aria-label", &format!("remove the filter {value}")).raw(">").text(value).raw(" ×</a>");
        }
    }
    body.raw("</nav>");
}

fn row(body: &mut Markup, run: &Run, trial: &Trial, note: &TrialNote) {
    body.raw("<tr data-row><td>");
    view::outcome(body, &trial.outcome);
    body.raw("</td><td><a class=\"go\"")
        .attr("href", &address::trial(&run.id, &trial.name))
        .raw(">")
        .text(&trial.case);
    body.raw("</a></td>").element("td", "", &trial.variant).element("td", "num", &trial.repeat.to_string());
    body.element("td", "num", &trial.duration_ms.map(duration_ms).unwrap_or_default());
    body.element("td", "num", &trial.money.total().map(money).unwrap_or_default());
    body.element("td", "num", &trial.turns.map(count).unwrap_or_default());
    body.element("td", "why", &note.reason).raw("</tr>");
}

/// Writes a form that compares the run with another of the same suite.
fn compare_with(body: &mut Markup, project: &Project, run: &Run) {
    let ids = project.ids().unwrap_or_default();
    let same: Vec<_> = ids
        .iter()
        .filter(|id| **id != run.id)
        .filter_map(|id| project.summary(id).ok())
        .filter(|other| other.name == run.name)
        .take(OTHERS)
        .collect();
    if same.is_empty() {
        return;
    }
    body.raw("<section class=\"card\"><h2>Compare</h2><form action=\"/compare\" class=\"filters\"><label class=\"hint\" for=\"with\">");
    body.text(&format!("with one of {} of this suite", plural(same.len(), "other run")));
    body.raw("</label><select name=\"a\" id=\"with\">");
    for other in same {
        body.raw("<option").attr("value", &other.id).raw(">");
        body.text(&format!(
            "{} · {} · {}",
            timestamp(&other.created_at),
            super::rate(other.rate).0,
            other.id
        ));
        body.raw("</option>");
    }
    body.raw("</select><input type=\"hidden\" name=\"b\"").attr("value", &run.id);
    body.raw("><button class=\"chip\">Compare</button></form></section>");
}

fn footer(body: &mut Markup, run: &Run) {
    body.raw("<footer><p><span class=\"mono\">").text(&run.directory.display().to_string()).raw("</span>");
    if let Some(version) = &run.youbencha {
        body.text(&format!(" · recorded by youBencha {version}"));
    }
    body.raw("</p></footer>");
}
