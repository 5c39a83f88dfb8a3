//! One trial: why it failed, its conversation and changes, its files, and what reviewers said.

use std::fs;
use std::path::{Component, Path, PathBuf};

use yb_figures::{bytes, timestamp};
use yb_report::view::{self, Markup};
use yb_report::{Run, Trial};

use super::problems;
use crate::address::{self, Query};
use crate::guard::Guard;
use crate::page::Page;
use crate::project::{LoadedRun, Project, Unreadable};
use crate::reviews::{self, Label, Review};

/// The maximum number of files in the list, and of trials to compare with.
const SHOWN: usize = 40;
/// Directories of artifacts are listed down to this depth.
const DEPTH: usize = 3;

pub(crate) fn page(
    project: &Project,
    guard: &Guard,
    (id, folder): (&str, &str),
    query: &Query,
) -> Result<Page, Unreadable> {
    let loaded = project.load(id)?;
    let (at, trial) = find(&loaded, folder)?;
    let run = &loaded.run;
    let mut page = Page::new(&format!("{} · {}", trial.case, trial.variant))
        .below(&run.name, address::run(id))
        .below(&trial.name, address::trial(id, &trial.name));
    let body = &mut page.body;
    navigation(body, run, at);
    problems(body, &loaded.problems);
    if view::is_contained(run, trial) {
        changed_artifacts(body, project, id, trial);
        super::steps::link(body, run, trial);
        view::trial(body, run, trial);
        files(body, run, trial);
    } else {
        problems(body, &["the artifacts of the trial are outside of its run".to_owned()]);
    }
    others(body, run, trial);
    review(body, project, (guard, query), run, trial);
    Ok(page)
}

/// Finds a trial by its folder or its id.
pub(crate) fn find<'a>(loaded: &'a LoadedRun, name: &str) -> Result<(usize, &'a Trial), Unreadable> {
    let mut trials = loaded.run.trials.iter().enumerate();
    let found = trials.find(|(_, trial)| trial.name == name || trial.id.as_deref() == Some(name));
    found.ok_or_else(|| "no such trial".to_owned())
}

fn navigation(body: &mut Markup, run: &Run, at: usize) {
    body.raw("<nav class=\"crumbs\" aria-label=\"Trials\"><a class=\"home\"")
        .attr("href", &address::run(&run.id));
    body.raw(">← all trials</a><span class=\"around\">");
    let near = |at: Option<usize>| at.and_then(|at| run.trials.get(at));
    for (name, rel, other) in
        [("previous", "prev", near(at.checked_sub(1))), ("next", "next", near(Some(at + 1)))]
    {
        if let Some(other) = other {
            body.raw("<a").attr("rel", rel).attr("href", &address::trial(&run.id, &other.name));
            body.attr("title", &other.name).raw(">").raw(name).raw("</a>");
        }
    }
    body.raw("</span></nav>");
}

/// Says which files are not as recorded.
fn changed_artifacts(body: &mut Markup, project: &Project, id: &str, trial: &Trial) {
    if trial.artifacts.is_none() {
        return;
    }
    let changed = project.modified_artifacts(id, &trial.name).unwrap_or_default();
    let texts = changed.iter().map(|path| format!("`{}` was changed since it was recorded", path.display()));
    problems(body, &texts.collect::<Vec<_>>());
}

/// Lists the files of a trial: logs, results, outputs.
fn files(body: &mut Markup, run: &Run, trial: &Trial) {
    let Some(artifacts) = &trial.artifacts else { return };
    let mut found = Vec::new();
    collect(artifacts, Path::new(""), DEPTH, &mut found);
    found.sort();
    if found.is_empty() {
        return;
    }
    body.raw("<section class=\"card\"><h2>Files</h2><ul class=\"plain\">");
    for (name, size) in found.iter().take(SHOWN) {
        let path = name.split('/').map(address::encode).collect::<Vec<_>>().join("/");
        let target = format!("{}/files/{path}", address::trial(&run.id, &trial.name));
        body.raw("<li><a class=\"mono\"").attr("href", &target).raw(">").text(name);
        body.raw("</a> <span class=\"hint\">").text(&bytes(*size)).raw("</span></li>");
    }
    body.raw("</ul></section>");
}

fn collect(folder: &Path, below: &Path, depth: usize, found: &mut Vec<(String, u64)>) {
    for entry in fs::read_dir(folder.join(below)).into_iter().flatten().flatten() {
        // Does not follow links.
        let Ok(metadata) = entry.metadata() else { continue };
        let name = below.join(entry.file_name());
        if metadata.is_dir() && depth > 1 {
            collect(folder, &name, depth - 1, found);
        } else if let (true, Some(name)) = (metadata.is_file(), name.to_str()) {
            found.push((name.to_owned(), metadata.len()));
        }
        if found.len() > SHOWN * 10 {
            return;
        }
    }
}

/// Returns the path of a file of a trial, if it is a regular file within its artifacts.
pub(crate) fn file(project: &Project, id: &str, folder: &str, name: &[String]) -> Option<PathBuf> {
    let loaded = project.load(id).ok()?;
    let (_, trial) = find(&loaded, folder).ok()?;
    let artifacts = trial.artifacts.as_ref().filter(|_| view::is_contained(&loaded.run, trial))?;
    let relative: PathBuf = name.iter().collect();
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let path = artifacts.join(relative);
    let regular = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let inside = path.canonicalize().ok()?.starts_with(artifacts.canonicalize().ok()?);
    (plain && regular && inside).then_some(path)
}

/// Writes links to compare with other trials of the same case.
fn others(body: &mut Markup, run: &Run, trial: &Trial) {
    let same = |other: &&Trial| other.case == trial.case && other.name != trial.name;
    let others: Vec<&Trial> = run.trials.iter().filter(same).take(SHOWN).collect();
    if others.is_empty() {
        return;
    }
    body.raw("<section class=\"card\"><h2>Side by side</h2><ul class=\"plain columns\">");
    for other in others {
        let query = address::Query::default()
            .with("a", Some(&format!("{}/{}", run.id, trial.name)))
            .with("b", Some(&format!("{}/{}", run.id, other.name)));
        body.raw("<li>");
        view::outcome(body, &other.outcome);
        body.raw(" <a").attr("href", &format!("/trials{}", query.to_suffix())).raw(">").text(&other.name);
        body.raw("</a></li>");
    }
    body.raw("</ul></section>");
}

/// Writes the labels of reviewers, and a form for another one.
fn review(body: &mut Markup, project: &Project, (guard, query): (&Guard, &Query), run: &Run, trial: &Trial) {
    let Some(directory) = project.directory(&run.id) else { return };
    let all = reviews::read(&directory);
    body.raw("<section class=\"card\" id=\"review\"><h2>Review</h2>");
    for review in all.reviews.iter().filter(|review| review.trial == trial.name) {
        said(body, review);
    }
    body.raw("<form method=\"post\" class=\"review\"")
        .attr("action", &format!("{}/review", address::trial(&run.id, &trial.name)));
    body.raw("><input type=\"hidden\" name=\"form\"").attr("value", &guard.form_token()).raw(">");
    if query.get("queue").is_some() {
        body.raw("<input type=\"hidden\" name=\"queue\" value=\"1\">");
    }
    body.raw("<fieldset><legend class=\"hint\">Your label</legend>");
    for label in Label::ALL {
        body.raw("<label><input type=\"radio\" name=\"label\" required")
            .attr("value", label.as_str())
            .raw("> ");
        body.raw(label.as_str()).raw("</label>");
    }
    body.raw("</fieldset><label class=\"hint\">About <select name=\"evaluator\"><option value=\"\">the trial</option>");
    for (name, _) in &trial.graded {
        body.raw("<option").attr("value", name).raw(">").text(name).raw("</option>");
    }
    body.raw("</select></label><label class=\"hint\">Category of failure <input type=\"text\" name=\"category\" maxlength=\"100\" list=\"categories\"></label><datalist id=\"categories\">");
    for category in all.categories() {
        body.raw("<option").attr("value", category).raw(">");
    }
    body.raw("</datalist><label class=\"hint\">Note <textarea name=\"note\" rows=\"2\" maxlength=\"4000\"></textarea></label>");
    body.raw("<button class=\"chip\">Save</button></form><p class=\"hint\">Keys: <kbd>1</kbd> pass, <kbd>2</kbd> fail, <kbd>3</kbd> unsure, <kbd>c</kbd> category, then <kbd>s</kbd> to save. Kept in <code>reviews.jsonl</code> of the run.</p></section>");
}

fn said(body: &mut Markup, review: &Review) {
    body.raw("<p class=\"note-box\"><b>").raw(review.label.as_str()).raw("</b> <span class=\"hint\">");
    body.text(&timestamp(&review.at)).raw("</span>");
    for part in [&review.evaluator, &review.category, &review.note].into_iter().flatten() {
        body.raw(" · ").text(part);
    }
    body.raw("</p>");
}
