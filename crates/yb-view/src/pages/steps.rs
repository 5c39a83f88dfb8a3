//! The steps of a trial: the workspace as it was after each, the difference to the one before, and how to continue from there.

use std::collections::{BTreeMap, HashSet};

use yb_engine::run::{AttemptRecord, RunDir, TreeSnapshot, read_tree};
use yb_engine::tape::TapeHow;
use yb_engine::trial::{RecordedStep, STEPS_FILE};
use yb_figures::{bytes, count, plural, shell_word, timestamp};
use yb_report::view::{self, Markup};
use yb_report::{Run, Trial};

use super::trial::find;
use crate::address::{self, Query};
use crate::controls::ControlForms;
use crate::page::Page;
use crate::project::{Project, Unreadable};

/// The maximum number of files in the tree.
const MAX_FILES: usize = 2_000;
/// The maximum size of a file, and of a difference.
const MAX_BYTES: u64 = 400_000;

/// One position of the slider.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Position {
    /// As in the address.
    key: String,
    tree: String,
    /// Absent at the start and at the end.
    step: Option<RecordedStep>,
}

/// The steps of a trial, and everything that the page needs besides the trees.
pub(crate) struct Steps {
    run: RunDir,
    positions: Vec<Position>,
    tape: Option<String>,
}

impl Steps {
    /// Reads the steps of the last attempt; a running one has those so far.
    pub(crate) fn read(project: &Project, id: &str, folder: &str) -> Result<Self, Unreadable> {
        let run = project.directory(id).ok_or("no such run")?;
        let loaded = project.load(id)?;
        let (_, trial) = find(&loaded, folder)?;
        if !view::is_contained(&loaded.run, trial) {
            return Err("the artifacts of the trial are outside of its run".to_owned());
        }
        let (record, attempt) = project.last_attempt(id, &trial.name)?;
        let file = run.artifacts(&trial.name, attempt).join(STEPS_FILE);
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let steps = text.lines().filter_map(|line| serde_json::from_str::<RecordedStep>(line).ok());
        let mut steps: Vec<RecordedStep> = steps.filter(|step| is_object_id(&step.tree)).collect();
        steps.sort_by_key(|step| step.step);
        let trees = record.as_ref().and_then(|record| record.trees.as_ref());
        let start = match trees {
            Some(trees) => Some(trees.start.clone()),
            None => {
                std::fs::read_to_string(run.objects().join("refs/trials").join(&trial.name).join("start"))
                    .ok()
                    .map(|commit| commit.trim().to_owned())
            }
        };
        let place = |key: &str, tree: String| Position { key: key.to_owned(), tree, step: None };
        let mut positions: Vec<Position> =
            start.filter(|tree| is_object_id(tree)).map(|tree| place("0", tree)).into_iter().collect();
        positions.extend(steps.into_iter().map(|step| Position {
            key: step.step.to_string(),
            tree: step.tree.clone(),
            step: Some(step),
        }));
        let end = trees.map(|trees| trees.end.clone()).filter(|tree| is_object_id(tree));
        positions.extend(end.map(|tree| place("end", tree)));
        if positions.is_empty() {
            return Err("nothing of the workspace is recorded yet".to_owned());
        }
        Ok(Self { run, positions, tape: record.as_ref().and_then(recorded_tape) })
    }

    /// Returns the number of steps, without start and end.
    fn number(&self) -> usize {
        self.positions.iter().filter(|position| position.step.is_some()).count()
    }

    fn selected(&self, query: &Query) -> usize {
        let wanted = query.get("step").unwrap_or("0");
        self.positions.iter().position(|position| position.key == wanted).unwrap_or(0)
    }

    /// Reads the selected tree.
    pub(crate) async fn snapshot(&self, query: &Query) -> Result<TreeSnapshot, Unreadable> {
        let at = self.selected(query);
        let before = &self.positions[at.saturating_sub(1)].tree;
        let file = query.get("file").map(|file| (file, MAX_BYTES));
        let read = read_tree(&self.run, (before, &self.positions[at].tree), file).await;
        read.map_err(|error| error.to_string())
    }
}

/// A tape of the trial that `--replay` can use.
fn recorded_tape(record: &AttemptRecord) -> Option<String> {
    let tape = record.tape.as_ref()?;
    (!matches!(tape.how, TapeHow::Scripted)).then(|| tape.file.clone())
}

/// An id of git, so that no line of a file is an option or a path.
fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Writes a link to the page, for a trial with recorded steps.
pub(super) fn link(body: &mut Markup, run: &Run, trial: &Trial) {
    let Some(artifacts) = &trial.artifacts else { return };
    if artifacts.join(STEPS_FILE).is_file() {
        body.raw("<p><a class=\"chip\"").attr("href", &path(&run.id, &trial.name));
        body.raw(">Workspace step by step</a></p>");
    }
}

fn path(run: &str, trial: &str) -> String {
    format!("{}/steps", address::trial(run, trial))
}

pub(crate) fn page(
    project: &Project,
    forms: &ControlForms<'_>,
    (id, folder): (&str, &str),
    (steps, snapshot): (&Steps, &TreeSnapshot),
    query: &Query,
) -> Result<Page, Unreadable> {
    let loaded = project.load(id)?;
    let (_, trial) = find(&loaded, folder)?;
    let run = &loaded.run;
    let at = steps.selected(query);
    let path = path(id, &trial.name);
    let mut page = Page::new(&format!("Steps · {}", trial.name))
        .below(&run.name, address::run(id))
        .below(&trial.name, address::trial(id, &trial.name))
        .below("steps", path.clone());
    let labels = view::call_labels(trial);
    let body = &mut page.body;
    body.raw("<div class=\"head\"><h1>Step by step</h1><p class=\"meta\"><span>");
    body.text(&plural(steps.number(), "recorded step")).raw("</span></p></div>");
    if steps.number() == 0 {
        body.raw("<p class=\"note-box\">No steps were recorded, only the workspace before and after the agent. Record them with <code>yb run --steps</code> or <code>capture: { steps: true }</code> in the case; ");
        body.raw("a recorded tape gives them for an old run, without API calls: <code>yb run FILE --replay DIR --steps</code></p>");
    }
    slider(body, steps, at, &path, query, &labels);
    if let Some(step) = &steps.positions[at].step {
        fork(body, forms, run, trial, steps, step);
    }
    body.raw("<div class=\"pair sides\">");
    tree(body, snapshot, &path, query);
    body.raw("<div>");
    if at > 0 {
        body.raw("<section class=\"card\" id=\"changes\"><h2>Changes since the step before</h2>");
        if snapshot.diff.text.is_empty() {
            body.raw("<p class=\"empty\">Nothing changed.</p>");
        } else {
            view::patch(body, &String::from_utf8_lossy(cut(&snapshot.diff.text)));
            if snapshot.diff.text.len() as u64 > MAX_BYTES {
                body.element("p", "gap", "The difference is too large for a page; its end is omitted.");
            }
        }
        body.raw("</section>");
    }
    if let Some(name) = query.get("file") {
        file(body, snapshot, name);
    }
    body.raw("</div></div>");
    Ok(page)
}

fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(usize::try_from(MAX_BYTES).unwrap_or(usize::MAX))]
}

/// Writes the slider, its neighbors as links, and what happened in the step.
fn slider(
    body: &mut Markup,
    steps: &Steps,
    at: usize,
    path: &str,
    query: &Query,
    labels: &BTreeMap<String, String>,
) {
    let positions = &steps.positions;
    let target = |at: usize| format!("{path}{}", query.with("step", Some(&positions[at].key)).to_suffix());
    body.raw("<section class=\"card\"><div class=\"steps\"><span class=\"around\">");
    for (name, rel, other) in [
        ("← before", "prev", at.checked_sub(1)),
        ("after →", "next", Some(at + 1).filter(|next| *next < positions.len())),
    ] {
        match other {
            Some(other) => {
                body.raw("<a").attr("rel", rel).attr("href", &target(other)).raw(">").raw(name).raw("</a>")
            }
            None => body.raw("<span class=\"soft\">").raw(name).raw("</span>"),
        };
    }
    body.raw("</span><input type=\"range\" id=\"slider\" aria-label=\"Step\" min=\"0\" step=\"1\"");
    body.attr("max", &(positions.len() - 1).to_string()).attr("value", &at.to_string());
    body.attr("data-keys", &positions.iter().map(|one| one.key.as_str()).collect::<Vec<_>>().join(" "));
    body.raw("></div><h2>");
    let position = &positions[at];
    match &position.step {
        None if position.key == "end" => body.raw("After the agent ended"),
        None => body.raw("Before the agent started"),
        Some(step) => body.text(&format!("After step {}", step.step)),
    };
    body.raw("</h2>");
    if let Some(step) = &position.step {
        body.raw("<ul class=\"plain\">");
        for call in &step.tool_calls {
            body.raw("<li class=\"mono\">").text(labels.get(call).unwrap_or(call)).raw("</li>");
        }
        body.raw("</ul><p class=\"hint\">").text(&timestamp(&step.at));
        if !step.main {
            body.raw(" · by a subagent");
        }
        body.raw("</p>");
    }
    body.raw("</section>");
}

/// Writes the command that continues from a step, and a button that runs it.
fn fork(
    body: &mut Markup,
    forms: &ControlForms<'_>,
    run: &Run,
    trial: &Trial,
    steps: &Steps,
    step: &RecordedStep,
) {
    body.raw("<section class=\"card\"><h2>Fork here</h2>");
    let (Some(tape), Some(config), true) = (&steps.tape, &run.config, step.main) else {
        let text = if step.main {
            "Forking needs a tape of the trial: record one with `yb run FILE --record DIR`."
        } else {
            "A subagent can't be forked on its own: choose a step of the main agent."
        };
        body.element("p", "hint", text).raw("</section>");
        return;
    };
    let words = fork_words((run, config), trial, tape, step);
    let command: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    body.raw("<p><code>yb ").text(&command.join(" ")).raw("</code></p><p class=\"hint\">");
    body.text(&format!("Replays the first {} and continues with the live model.", plural(step.turn, "turn")));
    body.raw("</p>");
    forms.fork(body, &format!("{}/fork", address::trial(&run.id, &trial.name)), &step.step.to_string());
    body.raw("</section>");
}

/// Returns the arguments of `yb` that continue from a step.
pub(crate) fn fork_arguments(
    project: &Project,
    id: &str,
    folder: &str,
    step: &str,
) -> Result<Vec<String>, Unreadable> {
    let steps = Steps::read(project, id, folder)?;
    let loaded = project.load(id)?;
    let (_, trial) = find(&loaded, folder)?;
    let position = steps.positions.iter().find(|position| position.key == step);
    let step = position.and_then(|position| position.step.as_ref()).filter(|step| step.main);
    let (Some(step), Some(tape), Some(config)) = (step, &steps.tape, &loaded.run.config) else {
        return Err("the trial has no such step, or no tape".to_owned());
    };
    Ok(fork_words((&loaded.run, config), trial, tape, step))
}

fn fork_words((run, config): (&Run, &str), trial: &Trial, tape: &str, step: &RecordedStep) -> Vec<String> {
    let mut words = vec!["run".to_owned(), config.to_owned()];
    if run.trials.len() > 1 {
        for (name, value) in [("case", &trial.case), ("variant", &trial.variant)] {
            words.push(format!("--filter={name}={}", view::glob(value)));
        }
    }
    words.extend([format!("--replay={tape}"), format!("--fork={}", step.turn), "--steps".to_owned()]);
    words
}

/// Lists the files of the tree; changed ones are marked.
fn tree(body: &mut Markup, snapshot: &TreeSnapshot, path: &str, query: &Query) {
    let changed: HashSet<&[u8]> = snapshot.diff.files.files.iter().map(|file| file.path.as_slice()).collect();
    body.raw("<section class=\"card\"><h2>Files</h2><p class=\"hint\">").text(&format!(
        "{}, {} changed",
        plural(snapshot.files.len(), "file"),
        count(changed.len())
    ));
    body.raw("</p><ul class=\"plain tree\">");
    // Changed files first, because a tree may be large.
    let mut files: Vec<_> = snapshot.files.iter().collect();
    files.sort_by_key(|file| !changed.contains(file.path.as_slice()));
    for file in files.iter().take(MAX_FILES) {
        let name = file.display_path();
        let target = format!("{path}{}#file", query.with("file", Some(&name)).to_suffix());
        body.raw("<li data-row><a class=\"go mono\"").attr("href", &target);
        if query.get("file") == Some(&name) {
            body.raw(" aria-current=\"true\"");
        }
        body.raw(">").text(&name).raw("</a> <span class=\"hint\">");
        body.text(&if file.is_link() { "link".to_owned() } else { bytes(file.size) }).raw("</span>");
        if changed.contains(file.path.as_slice()) {
            body.raw(" <span class=\"badge c-live\">changed</span>");
        }
        body.raw("</li>");
    }
    body.raw("</ul>");
    if files.len() > MAX_FILES {
        body.element("p", "gap", &format!("and {} more", count(files.len() - MAX_FILES)));
    }
    body.raw("</section>");
}

fn file(body: &mut Markup, snapshot: &TreeSnapshot, name: &str) {
    body.raw("<section class=\"card\" id=\"file\"><h2 class=\"mono\">").text(name).raw("</h2>");
    match &snapshot.content {
        None => {
            let exists = snapshot.files.iter().any(|file| file.path == name.as_bytes());
            let text = match exists {
                true => "The file is too large for a page.",
                false => "The file does not exist at this step.",
            };
            body.element("p", "empty", text);
        }
        Some(content) if content.contains(&0) => {
            body.element("p", "empty", &format!("A binary file of {}.", bytes(content.len() as u64)));
        }
        Some(content) => {
            body.raw("<pre class=\"diff\" tabindex=\"0\">");
            for (at, line) in String::from_utf8_lossy(content).lines().enumerate() {
                body.raw("<span").attr("data-n", &(at + 1).to_string()).raw("> ").text(line).raw("</span>");
            }
            body.raw("</pre>");
        }
    }
    body.raw("</section>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_object_ids_reach_git() {
        assert!(is_object_id(&"a1".repeat(20)) && is_object_id(&"0f".repeat(32)));
        for text in ["", "HEAD", "--output=/etc/passwd", &"g".repeat(40), &"a".repeat(41)] {
            assert!(!is_object_id(text), "{text}");
        }
    }
}
