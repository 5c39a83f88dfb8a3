//! HTML: one file for small reports, an index and a page per trial for large ones. Pages make no network requests and can
//! be opened from disk.

pub(crate) mod aligned;
mod answer;
mod chart;
pub(crate) mod index;
pub(crate) mod links;
pub(crate) mod markup;
pub(crate) mod patch;
mod prose;
pub(crate) mod reproduce;
pub(crate) mod table;
pub(crate) mod transcript;
pub(crate) mod trial;
mod values;
mod waterfall;
mod why;

use yb_engine::safe_name;

use self::markup::Markup;
use crate::model::{Report, Run, Trial};

/// The maximum number of trials in a single-file report; with more, each trial gets a page.
pub const SINGLE_FILE: usize = 50;

/// Size limits of conversations in bytes: in total, and minimum and maximum per trial.
const CONVERSATIONS: (usize, usize, usize) = (40_000_000, 16_000, 256_000);
/// Size limits of diffs, as for [`CONVERSATIONS`].
const DIFFS: (usize, usize, usize) = (20_000_000, 16_000, 256_000);

pub(crate) const STYLE: &str = include_str!("html/report.css");
pub(crate) const SCRIPT: &str = include_str!("html/report.js");

/// One file of an HTML report.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page {
    /// The path relative to the report directory: `index.html` or `trials/….html`.
    pub path: String,
    /// The content.
    pub text: String,
}

/// An HTML report; pages are rendered lazily.
#[derive(Debug)]
pub struct Html<'a> {
    report: &'a Report,
    entries: Vec<TrialEntry<'a>>,
}

/// Renders a report as HTML.
#[must_use]
pub fn html(report: &Report) -> Html<'_> {
    let mut entries = Vec::new();
    for run in &report.runs {
        let parts = run.label_parts();
        for trial in &run.trials {
            entries.push(TrialEntry { at: entries.len(), run, trial, label: parts.label(trial) });
        }
    }
    Html { report, entries }
}

/// A trial with its position in the report.
#[derive(Debug)]
struct TrialEntry<'a> {
    at: usize,
    run: &'a Run,
    trial: &'a Trial,
    label: String,
}

impl TrialEntry<'_> {
    /// Returns the anchor in a single-file report.
    fn anchor(&self) -> String {
        format!("t{}", self.at + 1)
    }

    /// Returns the file name in a multi-page report.
    fn file(&self) -> String {
        format!("{:04}-{}.html", self.at + 1, safe_name(&self.trial.name))
    }
}

/// Size limits per trial, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeLimits {
    pub(crate) conversation: usize,
    pub(crate) diff: usize,
}

impl<'a> Html<'a> {
    /// Returns whether the report is a single file with every trial in it.
    #[must_use]
    pub fn is_single_file(&self) -> bool {
        self.entries.len() <= SINGLE_FILE
    }

    /// Iterates over the files, `index.html` last, so that its presence marks a complete report.
    pub fn pages(&self) -> impl Iterator<Item = Page> + '_ {
        let single = self.is_single_file();
        let apart = self.entries.iter().filter(move |_| !single).map(|entry| self.trial_page(entry));
        apart.chain(std::iter::once_with(|| self.index()))
    }

    fn size_limits(&self) -> SizeLimits {
        let share =
            |(all, least, most): (usize, usize, usize)| (all / self.entries.len().max(1)).clamp(least, most);
        SizeLimits { conversation: share(CONVERSATIONS), diff: share(DIFFS) }
    }

    fn index(&self) -> Page {
        if let ([only], None) = (self.entries.as_slice(), &self.report.comparison) {
            return self.lone_trial(only);
        }
        let mut body = Markup::default();
        body.raw("<div id=\"overview\" class=\"view\">");
        index::write(&mut body, self);
        body.raw("</div>");
        if self.is_single_file() {
            for entry in &self.entries {
                body.raw("<article class=\"view trial\"").attr("id", &entry.anchor()).raw(">");
                trial::write(&mut body, self, entry);
                body.raw("</article>");
            }
        }
        let names: Vec<&str> = self.report.runs.iter().map(|run| run.name.as_str()).collect();
        Page { path: "index.html".to_owned(), text: frame(&names.join(", "), &body) }
    }

    /// A report about a single trial has no overview.
    fn lone_trial(&self, entry: &TrialEntry<'_>) -> Page {
        let mut body = Markup::default();
        body.raw("<article class=\"trial\">");
        trial::write(&mut body, self, entry);
        index::extra(&mut body, entry.run);
        body.raw("</article>");
        Page { path: "index.html".to_owned(), text: frame(&entry.label, &body) }
    }

    fn trial_page(&self, entry: &TrialEntry<'_>) -> Page {
        let mut body = Markup::default();
        body.raw("<article class=\"trial\">");
        trial::write(&mut body, self, entry);
        body.raw("</article>");
        Page { path: format!("trials/{}", entry.file()), text: frame(&entry.label, &body) }
    }

    /// Returns the link from the index to a trial.
    fn link(&self, entry: &TrialEntry<'_>) -> String {
        if self.is_single_file() {
            format!("#{}", entry.anchor())
        } else {
            format!("trials/{}", entry.file())
        }
    }

    /// Returns the link from one trial to another.
    fn sibling(&self, entry: &TrialEntry<'_>) -> String {
        if self.is_single_file() { self.link(entry) } else { entry.file() }
    }

    /// Returns the link from a trial to the index.
    fn home(&self) -> &'static str {
        if self.is_single_file() { "#overview" } else { "../index.html" }
    }
}

/// Renders a complete page. Only the built-in style and script have the nonce, which is a digest of the body: injected markup
/// would have to contain its own digest to run.
fn frame(title: &str, body: &Markup) -> String {
    let nonce: String = blake3::hash(body.as_str().as_bytes()).to_hex().chars().take(32).collect();
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src data:; base-uri 'none'; \
         form-action 'none'"
    );
    let mut page = Markup::default();
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.raw("<meta http-equiv=\"Content-Security-Policy\"").attr("content", &policy).raw(">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n");
    page.raw("<link rel=\"icon\" href=\"data:,\">\n<title>").text(title).raw(" · youBencha</title>\n");
    page.raw("<style").attr("nonce", &nonce).raw(">\n").raw(STYLE).raw("</style>\n");
    page.raw("<script").attr("nonce", &nonce).raw(">\n").raw(SCRIPT).raw("</script>\n</head>\n<body>\n");
    page.raw("<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header class=\"bar\"><span class=\"brand\">");
    page.raw(LOGO).raw("youBencha</span><button type=\"button\" class=\"theme\" id=\"theme\" aria-label=\"");
    page.raw("Switch between light and dark\" title=\"Switch between light and dark\">").raw(SUN).raw(MOON);
    page.raw("</button></header>\n<main id=\"main\">\n").add(body).raw("\n</main>\n</body>\n</html>\n");
    page.into_string()
}

pub(crate) const LOGO: &str = "<svg class=\"logo\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><rect x=\"2\" y=\"12\" width=\"5\" height=\"10\" \
    rx=\"1.5\"/><rect x=\"9.5\" y=\"7\" width=\"5\" height=\"15\" rx=\"1.5\"/><rect x=\"17\" y=\"2\" width=\"5\" height=\"20\" rx=\"1.5\"/></svg>";
pub(crate) const SUN: &str = "<svg class=\"sun\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><circle cx=\"12\" cy=\"12\" r=\"4.5\"/><path d=\"M12 1.5v3M12 \
    19.5v3M1.5 12h3M19.5 12h3M4.6 4.6l2.1 2.1M17.3 17.3l2.1 2.1M4.6 19.4l2.1-2.1M17.3 6.7l2.1-2.1\"/></svg>";
pub(crate) const MOON: &str = "<svg class=\"moon\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><path d=\"M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z\"/></svg>";
