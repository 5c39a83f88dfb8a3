//! HTML: one file for small reports, an index and a page per trial for large ones. No page asks the network for
//! anything, and each can be opened from a disk.

mod chart;
mod index;
mod markup;
mod patch;
mod table;
mod transcript;
mod trial;
mod values;

use yb_engine::safe_name;

use self::markup::Markup;
use crate::model::{Report, Run, Trial};

/// More trials than this get a page each.
pub const SINGLE_FILE: usize = 50;

/// What all conversations of a report may take together, and what each gets of it at least and at most, in bytes.
const CONVERSATIONS: (usize, usize, usize) = (40_000_000, 16_000, 256_000);
/// The same for diffs.
const DIFFS: (usize, usize, usize) = (20_000_000, 16_000, 256_000);

const STYLE: &str = include_str!("html/report.css");
const SCRIPT: &str = include_str!("html/report.js");

/// A file of a report.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page {
    /// Where it belongs below the report's folder: `index.html` or `trials/….html`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// A report as pages; each is made when it is asked for.
#[derive(Debug)]
pub struct Html<'a> {
    report: &'a Report,
    entries: Vec<Entry<'a>>,
}

/// The report as HTML.
#[must_use]
pub fn html(report: &Report) -> Html<'_> {
    let entries = report
        .trials()
        .enumerate()
        .map(|(at, (run, trial))| Entry { at, run, trial, label: run.label(trial) })
        .collect();
    Html { report, entries }
}

/// A trial with its place in the report.
#[derive(Debug)]
struct Entry<'a> {
    at: usize,
    run: &'a Run,
    trial: &'a Trial,
    label: String,
}

impl Entry<'_> {
    /// Its place in a single file.
    fn anchor(&self) -> String {
        format!("t{}", self.at + 1)
    }

    /// Its file in a folder.
    fn file(&self) -> String {
        format!("{:04}-{}.html", self.at + 1, safe_name(&self.trial.name))
    }
}

/// How much of each trial a report has room for.
#[derive(Debug, Clone, Copy)]
struct Room {
    conversation: usize,
    diff: usize,
}

impl<'a> Html<'a> {
    /// Whether it is one file, with every trial in it.
    #[must_use]
    pub fn is_single_file(&self) -> bool {
        self.entries.len() <= SINGLE_FILE
    }

    /// Its files, `index.html` last: when that is there, everything is.
    pub fn pages(&self) -> impl Iterator<Item = Page> + '_ {
        let single = self.is_single_file();
        let apart = self.entries.iter().filter(move |_| !single).map(|entry| self.trial_page(entry));
        apart.chain(std::iter::once_with(|| self.index()))
    }

    fn room(&self) -> Room {
        let share =
            |(all, least, most): (usize, usize, usize)| (all / self.entries.len().max(1)).clamp(least, most);
        Room { conversation: share(CONVERSATIONS), diff: share(DIFFS) }
    }

    fn index(&self) -> Page {
        if let [only] = self.entries.as_slice() {
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

    /// Of a single trial there is nothing to overlook.
    fn lone_trial(&self, entry: &Entry<'_>) -> Page {
        let mut body = Markup::default();
        body.raw("<article class=\"trial\">");
        trial::write(&mut body, self, entry);
        index::extra(&mut body, entry.run);
        body.raw("</article>");
        Page { path: "index.html".to_owned(), text: frame(&entry.label, &body) }
    }

    fn trial_page(&self, entry: &Entry<'_>) -> Page {
        let mut body = Markup::default();
        body.raw("<article class=\"trial\">");
        trial::write(&mut body, self, entry);
        body.raw("</article>");
        Page { path: format!("trials/{}", entry.file()), text: frame(&entry.label, &body) }
    }

    /// Where a trial is, seen from the index.
    fn link(&self, entry: &Entry<'_>) -> String {
        if self.is_single_file() {
            format!("#{}", entry.anchor())
        } else {
            format!("trials/{}", entry.file())
        }
    }

    /// Where a trial is, seen from another.
    fn sibling(&self, entry: &Entry<'_>) -> String {
        if self.is_single_file() { self.link(entry) } else { entry.file() }
    }

    /// Where the index is, seen from a trial.
    fn home(&self) -> &'static str {
        if self.is_single_file() { "#overview" } else { "../index.html" }
    }
}

/// A whole page. Only our own style and script have the nonce, and it is a digest of all that is shown: what an agent
/// wrote would have to contain its own digest to be run.
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

const LOGO: &str = "<svg class=\"logo\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><rect x=\"2\" y=\"12\" width=\"5\" height=\"10\" \
    rx=\"1.5\"/><rect x=\"9.5\" y=\"7\" width=\"5\" height=\"15\" rx=\"1.5\"/><rect x=\"17\" y=\"2\" width=\"5\" height=\"20\" rx=\"1.5\"/></svg>";
const SUN: &str = "<svg class=\"sun\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><circle cx=\"12\" cy=\"12\" r=\"4.5\"/><path d=\"M12 1.5v3M12 \
    19.5v3M1.5 12h3M19.5 12h3M4.6 4.6l2.1 2.1M17.3 17.3l2.1 2.1M4.6 19.4l2.1-2.1M17.3 6.7l2.1-2.1\"/></svg>";
const MOON: &str = "<svg class=\"moon\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><path d=\"M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z\"/></svg>";
