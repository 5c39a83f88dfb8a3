//! A run that is being written: its progress as a fragment of a page, sent as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;
use yb_engine::run::{RunInfo, TrialState};
use yb_figures::{count, money, plural};
use yb_report::view::{self, Markup};
use yb_report::{OutcomeClass, TrialOutcome};

use crate::address;
use crate::controls::Activity;
use crate::project::reason;
use crate::routes::Site;

/// How often a journal is looked at.
const POLL: Duration = Duration::from_millis(100);
/// How often the list of runs is looked at.
const POLL_LIST: Duration = Duration::from_secs(1);
/// A comment is sent at least this often, so that a closed connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The maximum number of running trials and of recent failures.
const SHOWN: usize = 12;

/// The progress of a run.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) html: Markup,
    pub(crate) active: bool,
    /// Changes with every entry of the journal.
    pub(crate) key: u64,
}

impl Progress {
    pub(crate) fn of(info: &RunInfo, activity: &Activity, key: u64) -> Self {
        let mut body = Markup::default();
        write(&mut body, info, activity);
        Self { html: body, active: info.active, key }
    }
}

/// Writes progress, money, running trials and the latest failures.
fn write(body: &mut Markup, info: &RunInfo, activity: &Activity) {
    let tally = info.state.tally();
    body.raw("<div class=\"row\"><h2>Progress</h2><span class=\"hint\">");
    body.text(&format!("{} of {}", count(tally.done), plural(tally.planned, "trial"))).raw("</span></div>");
    let mut outcomes: Vec<(TrialOutcome, usize)> =
        tally.outcomes.iter().map(|(outcome, count)| (TrialOutcome::of(*outcome), *count)).collect();
    outcomes.sort_by_key(|(outcome, _)| outcome.class);
    crate::pages::outcome_bar(body, &outcomes, tally.planned);
    body.raw("<ul class=\"legend\">");
    for (class, name, number) in [
        ("b-pass", "passed", tally.passed()),
        ("b-fail", "failed", tally.failed()),
        ("b-lost", "not counted", tally.excluded()),
    ] {
        body.raw("<li><i class=\"dot ").raw(class).raw("\"></i>").raw(name).raw(" <b>");
        body.text(&count(number)).raw("</b></li>");
    }
    if let Some(usd) = tally.spend.total() {
        body.raw("<li>cost <b>").text(&money(usd)).raw("</b></li>");
    }
    body.raw("</ul>");
    running(body, info, activity);
    failures(body, info);
}

fn running(body: &mut Markup, info: &RunInfo, activity: &Activity) {
    let running: Vec<(&str, &TrialState)> =
        info.state.trials().filter(|(_, state)| state.in_flight.is_some()).collect();
    if running.is_empty() {
        return;
    }
    body.raw("<h4>Running</h4><ul class=\"now\">");
    for (folder, state) in running.iter().take(SHOWN) {
        let Some(attempt) = &state.in_flight else { continue };
        let step = match (&attempt.tree, attempt.other_trees.is_empty()) {
            (Some(_), false) => "grading",
            (Some(_), true) => "agent",
            (None, false) => "hook",
            (None, true) => "preparing",
        };
        body.raw("<li><a").attr("href", &address::trial(&info.run.id(), folder)).raw(">").text(folder);
        body.raw("</a> <span class=\"hint\">").raw(step).raw("</span> <time class=\"since\"");
        body.attr("datetime", &attempt.started_at).raw("></time>");
        if let Some(now) = activity.trials.get(*folder) {
            body.raw(" <span class=\"mono doing\">").text(now).raw("</span>");
        }
        body.raw("</li>");
    }
    body.raw("</ul>");
    if running.len() > SHOWN {
        body.element("p", "hint", &format!("and {} more", running.len() - SHOWN));
    }
}

fn failures(body: &mut Markup, info: &RunInfo) {
    let mut failed: Vec<(i64, &str, TrialOutcome)> = info
        .state
        .trials()
        .filter_map(|(folder, state)| {
            let record = state.result()?;
            let outcome = TrialOutcome::of(record.outcome);
            let started = record.started_at.parse::<Timestamp>().ok()?.as_millisecond();
            let ended = started + i64::try_from(record.duration_ms).unwrap_or(0);
            (outcome.class != OutcomeClass::Passed).then_some((ended, folder, outcome))
        })
        .collect();
    if failed.is_empty() {
        return;
    }
    failed.sort_by_key(|(ended, ..)| std::cmp::Reverse(*ended));
    body.raw("<h4>Latest failures</h4><ul class=\"now\">");
    for (_, folder, outcome) in failed.iter().take(SHOWN) {
        body.raw("<li>");
        view::outcome(body, outcome);
        body.raw(" <a").attr("href", &address::trial(&info.run.id(), folder)).raw(">").text(folder);
        body.raw("</a> <span class=\"hint\">").text(&reason(info, folder)).raw("</span></li>");
    }
    body.raw("</ul>");
}

/// Sends the progress of a run until it ends or the page is closed.
pub(crate) async fn follow_run(site: Arc<Site>, id: String, events: mpsc::Sender<Bytes>) {
    let mut known = None;
    let mut silent = Duration::ZERO;
    while !events.is_closed() {
        let (from, run) = (Arc::clone(&site), id.clone());
        let found =
            tokio::task::spawn_blocking(move || from.project.progress(&run, &from.activity(&run), known))
                .await;
        let sent = match found {
            Ok(Ok(Some(progress))) => {
                known = Some(progress.key);
                silent = Duration::ZERO;
                let data =
                    json!({ "html": progress.html.as_str(), "key": progress.key, "active": progress.active });
                let sent = events.send(event("progress", &data)).await;
                if !progress.active {
                    return;
                }
                sent
            }
            Ok(Ok(None)) => keep_alive(&mut silent, POLL, &events).await,
            // The run was removed.
            _ => return,
        };
        if sent.is_err() {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Tells the list of runs when to refresh itself.
pub(crate) async fn follow_list(site: Arc<Site>, events: mpsc::Sender<Bytes>) {
    let mut known = None;
    let mut silent = Duration::ZERO;
    while !events.is_closed() {
        let from = Arc::clone(&site);
        let found = tokio::task::spawn_blocking(move || crate::pages::runs::version(&from.project)).await;
        let Ok(version) = found else { return };
        let sent = if known.is_some_and(|known| known != version) {
            silent = Duration::ZERO;
            events.send(event("changed", &json!({ "key": version }))).await
        } else {
            keep_alive(&mut silent, POLL_LIST, &events).await
        };
        known = Some(version);
        if sent.is_err() {
            return;
        }
        tokio::time::sleep(POLL_LIST).await;
    }
}

async fn keep_alive(
    silent: &mut Duration,
    passed: Duration,
    events: &mpsc::Sender<Bytes>,
) -> Result<(), mpsc::error::SendError<Bytes>> {
    *silent += passed;
    if *silent < KEEP_ALIVE {
        return Ok(());
    }
    *silent = Duration::ZERO;
    events.send(Bytes::from_static(b":\n\n")).await
}

/// Formats an event. JSON has no line breaks, which would end the data.
fn event(name: &str, data: &serde_json::Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
