//! Two trials or two runs side by side.

use yb_engine::baseline::RecordedRun;
use yb_engine::compare::{self, CompareOptions};
use yb_figures::{count, duration_ms, money};
use yb_report::view::{self, Markup};
use yb_report::{Run, Trial};

use super::trial::find;
use crate::address::{self, Query};
use crate::page::Page;
use crate::project::{Project, Unreadable};

/// Two runs: the sentence, intervals and the changes of each case.
pub(crate) fn runs(project: &Project, query: &Query) -> Result<Page, Unreadable> {
    let (Some(a), Some(b)) = (query.get("a"), query.get("b")) else {
        return Err("two runs are needed".to_owned());
    };
    let recorded = |id: &str| {
        project.directory(id).ok_or_else(|| format!("no such run: `{id}`"))?;
        RecordedRun::find(project.root(), id).map_err(|error| error.to_string())
    };
    let found = compare::compare(&recorded(a)?, &recorded(b)?, &CompareOptions::default());
    let mut page = Page::new("Comparison").below("comparison", format!("/compare{}", query.to_suffix()));
    let body = &mut page.body;
    body.raw("<div class=\"head\"><h1>Comparison</h1><p class=\"meta\">");
    for id in [a, b] {
        body.raw("<a class=\"mono\"").attr("href", &address::run(id)).raw(">").text(id).raw("</a>");
    }
    let swapped = query.with("a", Some(b)).with("b", Some(a));
    body.raw("<a").attr("href", &format!("/compare{}", swapped.to_suffix())).raw(">swap</a></p></div>");
    match found {
        Ok(found) => view::comparison(body, &found),
        Err(error) => {
            body.raw("<div class=\"note-box n-error\"><b>not comparable</b><pre>").text(&error.to_string());
            body.raw("</pre></div>");
        }
    }
    Ok(page)
}

/// Two trials: verdicts, conversations up to the first difference, and both changes.
pub(crate) fn trials(project: &Project, query: &Query) -> Result<Page, Unreadable> {
    let (Some(a), Some(b)) = (query.get("a"), query.get("b")) else {
        return Err("two trials are needed".to_owned());
    };
    let split = |name: &str| {
        let (run, trial) = name.split_once('/').ok_or_else(|| format!("expected `RUN/TRIAL`: `{name}`"))?;
        Ok::<_, Unreadable>((project.load(run)?, trial.to_owned()))
    };
    let ((one, first), (two, second)) = (split(a)?, split(b)?);
    let (first, second) = (find(&one, &first)?.1, find(&two, &second)?.1);
    for (run, trial) in [(&one.run, first), (&two.run, second)] {
        if !view::is_contained(run, trial) {
            return Err("the artifacts of the trial are outside of its run".to_owned());
        }
    }
    let mut page = Page::new("Side by side").below(&one.run.name, address::run(&one.run.id));
    page = page.below("side by side", format!("/trials{}", query.to_suffix()));
    let body = &mut page.body;
    body.raw("<div class=\"head\"><h1>Side by side</h1></div><div class=\"pair sides\">");
    for (run, trial) in [(&one.run, first), (&two.run, second)] {
        side(body, run, trial);
    }
    body.raw("</div>");
    view::conversations(body, first, second);
    body.raw("<div class=\"pair sides\">");
    for trial in [first, second] {
        body.raw("<div>");
        view::changes(body, trial);
        body.raw("</div>");
    }
    body.raw("</div>");
    Ok(page)
}

fn side(body: &mut Markup, run: &Run, trial: &Trial) {
    body.raw("<section class=\"card\"><h2><a")
        .attr("href", &address::trial(&run.id, &trial.name))
        .raw(">")
        .text(&trial.name);
    body.raw("</a></h2>");
    view::outcome(body, &trial.outcome);
    body.raw("<dl class=\"facts\">");
    let facts = [
        ("run", Some(run.id.clone())),
        ("model", trial.model.clone()),
        ("time", trial.duration_ms.map(duration_ms)),
        ("cost", trial.money.total().map(money)),
        ("turns", trial.turns.map(count)),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            body.raw("<div><dt>").raw(name).raw("</dt><dd>").text(&value).raw("</dd></div>");
        }
    }
    for (evaluator, status) in &trial.graded {
        body.raw("<div><dt>").text(evaluator).raw("</dt><dd>").text(status).raw("</dd></div>");
    }
    body.raw("</dl></section>");
}
