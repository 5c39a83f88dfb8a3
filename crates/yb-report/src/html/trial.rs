//! The page of one trial: outcome, evaluators, conversation and changes.

use std::path::Path;

use serde_json::Value;
use yb_figures::{count, duration_ms, money, timestamp};

use super::markup::Markup;
use super::table::badge;
use super::{Html, SizeLimits, TrialEntry, patch, reproduce, transcript, values, waterfall, why};
use crate::evaluation::{Assertion, Evaluation, Failure, evaluations};
use crate::model::{OutcomeClass, Run, Trial};
use crate::value::readable_name;

pub(super) fn write(body: &mut Markup, html: &Html<'_>, entry: &TrialEntry<'_>) {
    if html.entries.len() > 1 {
        navigation(body, html, entry);
    }
    content(body, entry.run, entry.trial, html.size_limits());
}

/// Writes a trial without links to others.
pub(crate) fn content(body: &mut Markup, run: &Run, trial: &Trial, limits: SizeLimits) {
    let log = trial.log().unwrap_or_default();
    with_log(body, run, trial, &log, limits);
}

/// Writes a trial without its log.
pub(crate) fn without_log(body: &mut Markup, run: &Run, trial: &Trial, limits: SizeLimits) {
    with_log(body, run, trial, &Value::Null, limits);
}

/// Writes the changes of a trial.
pub(crate) fn changes(body: &mut Markup, trial: &Trial, limits: SizeLimits) {
    patch::write(body, trial, limits.diff);
}

fn with_log(body: &mut Markup, run: &Run, trial: &Trial, log: &Value, limits: SizeLimits) {
    let results = trial.results();
    body.raw("<div class=\"head\"><h1 tabindex=\"-1\">").text(&trial.case);
    if run.has_variants() {
        body.raw(" <span class=\"soft\">/ ").text(&trial.variant).raw("</span>");
    }
    if run.has_repeats() {
        body.raw(" <span class=\"soft\">#").text(&trial.repeat.to_string()).raw("</span>");
    }
    body.raw("</h1>");
    badge(body, &trial.outcome);
    body.raw("</div>");
    if let Some(text) = results["test_case"]["description"].as_str().filter(|text| !text.is_empty()) {
        body.element("p", "about", text);
    }
    let found = evaluations(&results);
    why::write(body, trial, &found);
    problems(body, trial, log);
    facts(body, trial, &results, log);
    waterfall::write(body, log);
    if !found.is_empty() {
        body.raw("<section class=\"card\"><h2>Evaluators</h2>");
        for one in &found {
            evaluation(body, trial, one);
        }
        body.raw("</section>");
    }
    transcript::write(body, trial, log, limits.conversation);
    patch::write(body, trial, limits.diff);
    reproduce::write(body, run, trial);
}

/// Writes links to the index and to the neighboring trials.
fn navigation(body: &mut Markup, html: &Html<'_>, entry: &TrialEntry<'_>) {
    body.raw("<nav class=\"crumbs\" aria-label=\"Trials\"><a class=\"home\"").attr("href", html.home());
    body.raw(">← all trials</a><span class=\"around\">");
    let near = |at: Option<usize>| at.and_then(|at| html.entries.get(at));
    for (name, other) in [("previous", near(entry.at.checked_sub(1))), ("next", near(Some(entry.at + 1)))] {
        if let Some(other) = other {
            body.raw("<a")
                .attr("href", &html.sibling(other))
                .attr("title", &other.label)
                .raw(">")
                .text(name)
                .raw("</a>");
        }
    }
    body.raw("</span></nav>");
}

fn problems(body: &mut Markup, trial: &Trial, log: &Value) {
    let mut found: Vec<(&'static str, &str)> = Vec::new();
    // Of a trial that did not pass, it is at the top.
    let is_above = !matches!(trial.outcome.class, OutcomeClass::Passed | OutcomeClass::Pending);
    found.extend(trial.error.as_deref().filter(|_| !is_above).map(|error| ("error", error)));
    for error in log["errors"].as_array().into_iter().flatten() {
        let message = error["message"].as_str().filter(|message| trial.error.as_deref() != Some(message));
        found.extend(message.map(|message| ("error", message)));
    }
    found.extend(trial.warnings.iter().map(|warning| ("warning", warning.as_str())));
    for (kind, text) in found {
        body.raw("<div class=\"note-box n-")
            .raw(kind)
            .raw("\"><b>")
            .raw(kind)
            .raw("</b><pre class=\"clip\">");
        body.text(&crate::text::shorten(text, 8_000)).raw("</pre></div>");
    }
    if trial.attempts.len() > 1 {
        body.raw("<div class=\"note-box\"><b>attempts</b><ol>");
        for attempt in &trial.attempts {
            let why = attempt.error.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            let word = readable_name(&attempt.outcome.name);
            let text = format!("{word} in {}{why}", duration_ms(attempt.duration_ms));
            body.raw("<li").attr("value", &attempt.number.to_string()).raw(">").text(&text).raw("</li>");
        }
        body.raw("</ol></div>");
    }
}

fn facts(body: &mut Markup, trial: &Trial, results: &Value, log: &Value) {
    let mut facts: Vec<(&'static str, String)> = Vec::new();
    let mut fact = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    let text = |value: &Value| {
        value.as_str().filter(|text| !text.is_empty() && *text != "unknown").map(str::to_owned)
    };
    let version = text(&log["agent"]["version"]).map(|version| format!(" {version}")).unwrap_or_default();
    fact("agent", Some(format!("{}{version}", trial.agent)));
    fact("model", trial.model.clone());
    fact("time", trial.duration_ms.map(duration_ms));
    fact("cost", trial.money.total().map(|usd| cost(trial, usd)));
    let usage = &log["usage"];
    let source = usage["source"].as_str().filter(|_| trial.tokens.is_some() || trial.money.total().is_some());
    fact("usage source", source.map(str::to_owned));
    fact(
        "tokens in / out",
        trial.tokens.map(|total| {
            let number = |one: &str, two: &str| usage[one].as_u64().or_else(|| usage[two].as_u64());
            match (number("input_tokens", "prompt_tokens"), number("output_tokens", "completion_tokens")) {
                (Some(input), Some(output)) => format!("{} / {}", count(input), count(output)),
                _ => count(total),
            }
        }),
    );
    let cached = usage["cache_read_input_tokens"].as_u64().filter(|tokens| *tokens > 0);
    fact("read from cache", cached.map(count));
    fact("turns", trial.turns.map(count));
    fact("exit code", results["agent"]["exit_code"].as_i64().map(|code| code.to_string()));
    fact("isolation", trial.isolation.clone());
    fact("started", trial.started_at.as_deref().map(timestamp));
    fact("repository", text(&results["test_case"]["repo"]));
    fact("commit", trial.commit.as_ref().map(|commit| commit.chars().take(12).collect()));
    fact("check", trial.proof.map(|proof| proof.as_str().to_owned()));
    fact("trial", Some(trial.name.clone()));
    body.raw("<section class=\"card\"><dl class=\"facts\">");
    for (name, value) in &facts {
        body.raw("<div><dt>").raw(name).raw("</dt><dd>").text(value).raw("</dd></div>");
    }
    body.raw("</dl>");
    if let Some(artifacts) = &trial.artifacts {
        body.raw("<p class=\"hint\">artifacts: <span class=\"mono\">").text(&artifacts.display().to_string());
        body.raw("</span></p>");
    }
    body.raw("</section>");
}

fn cost(trial: &Trial, usd: f64) -> String {
    let parts =
        [("agent", trial.money.agent), ("subagents", trial.money.subagents), ("judge", trial.money.judge)];
    let known: Vec<String> =
        parts.into_iter().filter_map(|(who, usd)| Some(format!("{who} {}", money(usd?)))).collect();
    if known.len() > 1 { format!("{} ({})", money(usd), known.join(", ")) } else { money(usd) }
}

fn evaluation(body: &mut Markup, trial: &Trial, one: &Evaluation) {
    let class = match one.status.as_str() {
        "passed" => "c-pass",
        "failed" => "c-fail",
        _ => "c-unsure",
    };
    body.raw("<details class=\"evaluator\"");
    body.raw(if one.status == "passed" && one.assertions.is_empty() { ">" } else { " open>" });
    body.raw("<summary><span class=\"badge ")
        .raw(class)
        .raw("\">")
        .text(&readable_name(&one.status))
        .raw("</span>");
    body.element("b", "", &one.name);
    if let Some(place) = &one.graded_code {
        body.element("span", "hint", place);
    }
    body.element("span", "said", &one.message).raw("</summary><div class=\"inside\">");
    if let Some(error) = &one.error {
        body.raw("<pre class=\"clip\">").text(error).raw("</pre>");
    }
    failures(body, &one.failures);
    assertions(body, &one.assertions);
    values::fields(body, &one.metrics);
    values::fields(body, &one.rest);
    let mut asides: Vec<String> = Vec::new();
    asides.extend(one.duration_ms.map(|ms| format!("took {}", duration_ms(ms))));
    asides.extend(one.cost_usd.map(|usd| format!("cost {}", money(usd))));
    if !asides.is_empty() || !one.artifacts.is_empty() {
        body.raw("<p class=\"hint\">").text(&asides.join(" · "));
        for (at, (path, description)) in one.artifacts.iter().enumerate() {
            body.raw(if at == 0 && asides.is_empty() { "" } else { " · " });
            artifact(body, trial, path, description);
        }
        body.raw("</p>");
    }
    body.raw("</div></details>");
}

/// Writes a file of an evaluator, with a link if it exists. The report may be written anywhere, so the link is absolute.
fn artifact(body: &mut Markup, trial: &Trial, path: &str, description: &str) {
    let file = trial.artifact(path).and_then(|file| std::path::absolute(file).ok());
    match file.as_deref().and_then(file_url) {
        Some(url) => body.raw("<a").attr("href", &url).raw(">").text(path).raw("</a>"),
        None if file.is_some() => body.text(path),
        None => body.text(path).raw(" (deleted)"),
    };
    body.raw(": ").text(description);
}

/// Returns the `file:` URL of an absolute path; none if the path has no text.
fn file_url(path: &Path) -> Option<String> {
    let mut url = "file://".to_owned();
    for byte in path.to_str()?.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                url.push(byte.into());
            }
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    cfg!(unix).then_some(url)
}

/// Writes what the runner printed about each failure.
fn failures(body: &mut Markup, failures: &[Failure]) {
    for failure in failures {
        body.raw("<div class=\"failure\"><div class=\"label\">");
        if failure.test.is_some() {
            body.raw("<span class=\"c-fail\">✗</span> ");
        }
        body.text(failure.title()).raw("</div>");
        if !failure.lines.is_empty() {
            body.raw("<pre class=\"clip\" tabindex=\"0\">").text(&failure.lines.join("\n")).raw("</pre>");
        }
        body.raw("</div>");
    }
}

fn assertions(body: &mut Markup, assertions: &[Assertion]) {
    if assertions.is_empty() {
        return;
    }
    let judged = assertions.iter().any(|one| one.score.is_some() || one.threshold.is_some());
    body.raw("<div class=\"scroll\"><table class=\"data\"><thead><tr><th scope=\"col\">assertion</th>");
    if judged {
        body.raw("<th scope=\"col\" class=\"num\">score</th><th scope=\"col\" class=\"num\">threshold</th>");
    }
    body.raw(if judged { "<th scope=\"col\"></th>" } else { "<th scope=\"col\">value</th>" });
    body.raw("</tr></thead><tbody>");
    for one in assertions {
        body.raw("<tr><td>");
        match one.passed {
            Some(true) => body.raw("<span class=\"c-pass\">✓</span> "),
            Some(false) => body.raw("<span class=\"c-fail\">✗</span> "),
            None => body,
        };
        body.text(&readable_name(&one.name)).raw("</td>");
        if judged {
            body.element("td", "num", one.score.as_deref().unwrap_or_default());
            body.element("td", "num", one.threshold.as_deref().unwrap_or_default());
        }
        body.element("td", "", &one.remark).raw("</tr>");
    }
    body.raw("</tbody></table></div>");
}
