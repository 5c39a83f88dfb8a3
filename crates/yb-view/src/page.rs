//! The frame of every page: header, navigation, help on keys.

use yb_report::view::{self, Markup};

/// A page before it is framed.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    /// Links to the pages above: name and address.
    pub(crate) crumbs: Vec<(String, String)>,
    /// The address of events that update the page.
    pub(crate) events: Option<String>,
    pub(crate) body: Markup,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// Adds a link to a page above.
    #[must_use]
    pub(crate) fn below(mut self, name: &str, address: String) -> Self {
        self.crumbs.push((name.to_owned(), address));
        self
    }

    /// Returns the complete document.
    pub(crate) fn into_html(self) -> String {
        let mut page = Markup::default();
        page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>");
        page.text(&self.title)
            .raw(" · youBencha</title>\n<link rel=\"stylesheet\" href=\"/assets/report.css\">\n");
        page.raw("<link rel=\"stylesheet\" href=\"/assets/view.css\">\n<script src=\"/assets/report.js\"></script>\n");
        page.raw("<script type=\"module\" src=\"/assets/view.js\"></script>\n</head>\n<body");
        if let Some(events) = &self.events {
            page.attr("data-events", events);
        }
        page.raw(">\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header class=\"bar\"><nav class=\"path\" aria-label=\"Path\">");
        page.raw("<a class=\"brand\" href=\"/\">");
        view::brand(&mut page);
        page.raw("</a>");
        for (name, address) in &self.crumbs {
            page.raw("<span class=\"soft\" aria-hidden=\"true\">/</span><a").attr("href", address).raw(">");
            page.text(name).raw("</a>");
        }
        page.raw("</nav><span class=\"tools\"><span id=\"state\" class=\"hint\" role=\"status\"></span>");
        page.raw("<button type=\"button\" class=\"theme\" id=\"help\" aria-label=\"Keys\" title=\"Keys\" hidden>?</button>");
        view::theme_button(&mut page);
        page.raw("</span></header>\n<main id=\"main\">\n").add(&self.body).raw("\n</main>\n").raw(KEYS);
        page.raw("</body>\n</html>\n");
        page.into_string()
    }
}

const KEYS: &str = "<dialog id=\"keys\" aria-label=\"Keys\"><h2>Keys</h2><dl class=\"facts\">\
<div><dt>next, previous</dt><dd><kbd>j</kbd> <kbd>k</kbd></dd></div><div><dt>open</dt><dd><kbd>Enter</kbd></dd></div>\
<div><dt>next, previous trial or step</dt><dd><kbd>n</kbd> <kbd>p</kbd></dd></div><div><dt>search</dt><dd><kbd>/</kbd></dd></div><div><dt>page above</dt><dd><kbd>u</kbd></dd></div>\
<div><dt>this help</dt><dd><kbd>?</kbd></dd></div></dl>\
<form method=\"dialog\"><button class=\"chip\">Close</button></form></dialog>\n";
