//! Builds HTML so that forgetting to escape does not compile: what is markup is in the program's own text, what comes
//! from anywhere else goes through the escape.

use crate::escape;

/// A piece of HTML.
#[derive(Debug, Default)]
pub(super) struct Markup {
    html: String,
}

impl Markup {
    /// Markup. Only a literal is one: whatever was read at run time has no such lifetime.
    pub(super) fn raw(&mut self, html: &'static str) -> &mut Self {
        self.html.push_str(html);
        self
    }

    /// Text.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        escape::markup(&mut self.html, text);
        self
    }

    /// An attribute of the tag that was just opened by [`raw`](Self::raw), and is closed by the next.
    pub(super) fn attr(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.raw(" ").raw(name).raw("=\"").text(value).raw("\"")
    }

    /// `<tag class="…">text</tag>`, the commonest of all.
    pub(super) fn element(&mut self, tag: &'static str, class: &'static str, text: &str) -> &mut Self {
        self.raw("<").raw(tag);
        if !class.is_empty() {
            self.raw(" class=\"").raw(class).raw("\"");
        }
        self.raw(">").text(text).raw("</").raw(tag).raw(">")
    }

    /// Another piece.
    pub(super) fn add(&mut self, other: &Self) -> &mut Self {
        self.html.push_str(&other.html);
        self
    }

    pub(super) fn as_str(&self) -> &str {
        &self.html
    }

    pub(super) fn into_string(self) -> String {
        self.html
    }
}
