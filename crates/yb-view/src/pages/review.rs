//! The queue of reviewers: disputed trials first, then unlabeled ones, failures before passes.

use std::collections::HashMap;

use yb_figures::plural;
use yb_report::view;
use yb_report::{OutcomeClass, Trial};

use super::{pager, slice};
use crate::address::{self, Query};
use crate::page::Page;
use crate::project::{Project, Unreadable};
use crate::reviews::{self, Label, Review, Reviews};

/// Trials on a page.
const PER_PAGE: usize = 100;

/// The place of a trial in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Disputed,
    UnlabeledFailure,
    UnlabeledPass,
    Labeled,
}

impl Place {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Disputed => "disputed",
            Self::UnlabeledFailure | Self::UnlabeledPass => "unlabeled",
            Self::Labeled => "labeled",
        }
    }

    fn of(trial: &Trial, labels: &[&Review]) -> Self {
        let about_trial = labels.iter().rev().find(|review| review.evaluator.is_none());
        match (about_trial.map(|review| review.label), trial.outcome.class) {
            (Some(Label::Pass), OutcomeClass::Failed) | (Some(Label::Fail), OutcomeClass::Passed) => {
                Self::Disputed
            }
            (Some(Label::Unsure), _) => Self::Disputed,
            (Some(_), _) => Self::Labeled,
            (None, OutcomeClass::Passed) => Self::UnlabeledPass,
            (None, _) => Self::UnlabeledFailure,
        }
    }
}

/// Returns the trials to review, in the order of the queue.
fn queue<'a>(trials: &'a [Trial], found: &'a Reviews) -> Vec<(Place, &'a Trial, Vec<&'a Review>)> {
    let mut labels: HashMap<&str, Vec<&Review>> = HashMap::new();
    for review in &found.reviews {
        labels.entry(&review.trial).or_default().push(review);
    }
    let mut rows: Vec<(Place, &Trial, Vec<&Review>)> = trials
        .iter()
        .filter(|trial| trial.outcome.class != OutcomeClass::Pending)
        .map(|trial| {
            let labels = labels.remove(trial.name.as_str()).unwrap_or_default();
            (Place::of(trial, &labels), trial, labels)
        })
        .collect();
    rows.sort_by_key(|(place, ..)| *place);
    rows
}

/// Returns the page that follows a saved label: the next trial without one, or the queue.
pub(crate) fn after(project: &Project, id: &str, saved: &str) -> Result<String, Unreadable> {
    let loaded = project.load(id)?;
    let found = reviews::read(&project.directory(id).ok_or("no such run")?);
    let rows = queue(&loaded.run.trials, &found);
    let open = |place: Place| matches!(place, Place::UnlabeledFailure | Place::UnlabeledPass);
    let next = rows.iter().find(|(place, trial, _)| open(*place) && trial.name != saved);
    Ok(match next {
        Some((_, trial, _)) => format!("{}?queue=1#review", address::trial(id, &trial.name)),
        None => format!("{}/review", address::run(id)),
    })
}

pub(crate) fn page(project: &Project, id: &str, query: &Query) -> Result<Page, Unreadable> {
    let loaded = project.load(id)?;
    let run = &loaded.run;
    let found = reviews::read(&project.directory(id).ok_or("no such run")?);
    let rows = queue(&run.trials, &found);
    let path = format!("{}/review", address::run(id));
    let mut page = Page::new("Review").below(&run.name, address::run(id)).below("review", path.clone());
    let body = &mut page.body;
    let count = |wanted: &str| rows.iter().filter(|(place, ..)| place.as_str() == wanted).count();
    body.raw("<div class=\"head\"><h1>Review</h1><p class=\"meta\">");
    for name in ["disputed", "unlabeled", "labeled"] {
        body.element("span", "", &format!("{} {name}", plural(count(name), "trial")));
    }
    body.raw("</p></div>");
    if found.skipped > 0 {
        super::problems(body, &[format!("`reviews.jsonl`: {} can't be read", plural(found.skipped, "line"))]);
    }
    body.raw("<section class=\"card\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Trials to review\">");
    body.raw("<table class=\"list\"><thead><tr><th scope=\"col\">review</th><th scope=\"col\">outcome</th><th scope=\"col\">trial</th>");
    body.raw("<th scope=\"col\">labels</th></tr></thead><tbody>");
    for (place, trial, labels) in slice(&rows, query, PER_PAGE) {
        body.raw("<tr data-row><td>").raw(place.as_str()).raw("</td><td>");
        view::outcome(body, &trial.outcome);
        body.raw("</td><td><a class=\"go\"")
            .attr("href", &format!("{}?queue=1#review", address::trial(id, &trial.name)));
        body.raw(">").text(&trial.name).raw("</a></td>");
        let said: Vec<String> = labels
            .iter()
            .map(|review| match &review.category {
                Some(category) => format!("{} ({category})", review.label.as_str()),
                None => review.label.as_str().to_owned(),
            })
            .collect();
        body.element("td", "why", &said.join(", ")).raw("</tr>");
    }
    body.raw("</tbody></table></div>");
    pager(body, query, &path, rows.len(), PER_PAGE);
    body.raw("</section>");
    Ok(page)
}
