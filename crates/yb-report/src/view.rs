//! The parts of a report that a server shows as pages of their own: one run, one trial, two of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::path::{Component, Path};

use serde_json::{Map, Value};
use yb_engine::compare::{Comparison, VariantSummary};
use yb_engine::run::{RunInfo, RunResults};
use yb_figures::bytes;

use crate::html::{self, SizeLimits};
use crate::model::{Run, Trial, TrialOutcome};
use crate::source;

pub use crate::html::links::Links;
pub use crate::html::markup::Markup;

/// The style of all pages.
pub const STYLE: &str = html::STYLE;
/// The script of all pages: theme, folded texts, filters.
pub const SCRIPT: &str = html::SCRIPT;

/// Size limits of one page.
const LIMITS: SizeLimits = SizeLimits { conversation: 1_000_000, diff: 400_000 };
/// Logs above this size are not parsed: a page must open within a second.
const MAX_LOG: u64 = 24_000_000;

/// Returns a run as far as it was recorded. Unlike [`read_run`](crate::read_run), checks no artifacts.
#[must_use]
pub fn run(info: &RunInfo) -> Run {
    let results = RunResults::of(&info.plan, &info.state);
    Run {
        id: info.run.id(),
        name: info.plan.name.clone(),
        condition: source::condition(info),
        started_at: info.state.started_at.clone().or_else(|| Some(info.plan.created_at.clone())),
        last_at: info.state.last_at.clone(),
        config: Some(info.plan.config.display().to_string()),
        youbencha: Some(info.plan.youbencha.clone()),
        directory: info.run.path().to_owned(),
        variants: VariantSummary::of(&results),
        pass_rate: results.pass_rate().1,
        extra: gates(&info.run.results()),
        trials: info.plan.trials.iter().map(|planned| contained(source::trial(info, planned))).collect(),
    }
}

/// Returns the state of a run in words, such as `running` or `stopped (budget)`.
#[must_use]
pub fn condition(info: &RunInfo) -> String {
    source::condition(info)
}

/// Reads the gates alone: the results of many trials are large.
fn gates(path: &Path) -> Map<String, Value> {
    #[derive(serde::Deserialize)]
    struct WithGates {
        gates: Option<Value>,
    }
    let read =
        || -> Option<WithGates> { serde_json::from_reader(BufReader::new(fs::File::open(path).ok()?)).ok() };
    let gates = read().and_then(|results| results.gates);
    gates.map(|gates| ("gates".to_owned(), gates)).into_iter().collect()
}

/// Removes the path to artifacts outside of the run, which a changed plan could name.
fn contained(mut trial: Trial) -> Trial {
    let mut parts = Path::new(&trial.name).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    trial.artifacts = trial.artifacts.filter(|_| plain);
    trial
}

/// Returns whether the artifacts of a trial are within its run: a link may lead elsewhere.
#[must_use]
pub fn is_contained(run: &Run, trial: &Trial) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    trial.artifacts.as_deref().is_none_or(|artifacts| {
        real(artifacts).zip(real(&run.directory)).is_some_and(|(artifacts, run)| artifacts.starts_with(run))
    })
}

/// Writes the figures of a run: the answer in words, pass rates with intervals, cases and variants, time and cost.
pub fn figures(body: &mut Markup, run: &Run, links: &dyn Links) {
    html::index::figures(body, run, links, 0);
}

/// Writes the comparison of two runs.
pub fn comparison(body: &mut Markup, found: &Comparison) {
    html::index::comparison(body, found);
}

/// Writes a trial: why it failed, time by turn, evaluators, conversation, changes and commands.
pub fn trial(body: &mut Markup, run: &Run, trial: &Trial) {
    match oversized(trial) {
        Some(size) => {
            body.raw("<p class=\"note-box n-warning\">").text(&format!(
                "The log of the agent is too large for a page: {}. It is below, as a file.",
                bytes(size)
            ));
            body.raw("</p>");
            html::trial::without_log(body, run, trial, LIMITS);
        }
        None => html::trial::content(body, run, trial, LIMITS),
    }
}

/// Returns the size of a log that is too large to be read.
fn oversized(trial: &Trial) -> Option<u64> {
    let size = fs::metadata(trial.log_path()?).ok()?.len();
    (size > MAX_LOG).then_some(size)
}

/// Writes the conversations of two trials side by side.
pub fn conversations(body: &mut Markup, one: &Trial, two: &Trial) {
    let log = |trial: &Trial| match oversized(trial) {
        Some(_) => Value::Null,
        None => trial.log().unwrap_or_default(),
    };
    html::aligned::write(body, &log(one), &log(two));
}

/// Writes the changes of a trial.
pub fn changes(body: &mut Markup, trial: &Trial) {
    html::trial::changes(body, trial, LIMITS);
}

/// Writes a patch by file.
pub fn patch(body: &mut Markup, patch: &str) {
    html::patch::write_text(body, patch);
}

/// Returns what each tool call of a trial did in one line, by its id.
#[must_use]
pub fn call_labels(trial: &Trial) -> BTreeMap<String, String> {
    if oversized(trial).is_some() {
        return BTreeMap::new();
    }
    html::transcript::call_labels(&trial.log().unwrap_or_default())
}

/// Escapes the special characters of a pattern of `--filter`.
#[must_use]
pub fn glob(name: &str) -> String {
    html::reproduce::glob(name)
}

/// Writes an outcome with its color and mark.
pub fn outcome(body: &mut Markup, outcome: &TrialOutcome) {
    html::table::badge(body, outcome);
}

/// Writes the name of the program with its logo.
pub fn brand(body: &mut Markup) {
    body.raw(html::LOGO).raw("youBencha");
}

/// Writes the button that switches between light and dark.
pub fn theme_button(body: &mut Markup) {
    body.raw(
        "<button type=\"button\" class=\"theme\" id=\"theme\" aria-label=\"Switch between light and dark\"",
    );
    body.raw(" title=\"Switch between light and dark\">").raw(html::SUN).raw(html::MOON).raw("</button>");
}
