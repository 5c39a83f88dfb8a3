//! An HTML builder with which forgetting to escape does not compile: markup is a literal, all other text is escaped.

use crate::escape;

/// A fragment of HTML.
#[derive(Debug, Default)]
pub struct Markup {
    html: String,
}

impl Markup {
    /// Appends markup. Only a literal has the required lifetime.
    pub fn raw(&mut self, html: &'static str) -> &mut Self {
        self.html.push_str(html);
        self
    }

    /// Appends escaped text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        escape::markup(&mut self.html, text);
        self
    }

    /// Appends an attribute to a tag that [`raw`](Self::raw) has opened and not closed.
    pub fn attr(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.raw(" ").raw(name).raw("=\"").text(value).raw("\"")
    }

    /// Appends `<tag class="…">text</tag>`.
    pub fn element(&mut self, tag: &'static str, class: &'static str, text: &str) -> &mut Self {
        self.raw("<").raw(tag);
        if !class.is_empty() {
            self.raw(" class=\"").raw(class).raw("\"");
        }
        self.raw(">").text(text).raw("</").raw(tag).raw(">")
    }

    /// Appends another fragment.
    pub fn add(&mut self, other: &Self) -> &mut Self {
        self.html.push_str(&other.html);
        self
    }

    /// Returns the HTML.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.html
    }

    /// Returns the HTML.
    #[must_use]
    pub fn into_string(self) -> String {
        self.html
    }
}
