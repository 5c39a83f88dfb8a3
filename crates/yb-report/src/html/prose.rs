//! Markdown of a model, rendered safely: headings, lists, code and emphasis. Everything else, also HTML and links, stays text.

use super::markup::Markup;

/// The list that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Bullets,
    Numbers,
}

/// Writes a text.
pub(super) fn write(body: &mut Markup, text: &str) {
    let mut lines = text.lines().peekable();
    let mut list: Option<List> = None;
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if let Some((kind, item)) = list_item(trimmed) {
            if list != Some(kind) {
                close(body, list.take());
                body.raw(if kind == List::Bullets { "<ul class=\"plain\">" } else { "<ol class=\"plain\">" });
                list = Some(kind);
            }
            body.raw("<li>");
            inline(body, item);
            body.raw("</li>");
            continue;
        }
        close(body, list.take());
        if trimmed.is_empty() {
            continue;
        }
        if let Some(fence) = ["```", "~~~"].into_iter().find(|fence| trimmed.starts_with(fence)) {
            let code: Vec<&str> =
                lines.by_ref().take_while(|line| !line.trim_start().starts_with(fence)).collect();
            body.raw("<pre>").text(&code.join("\n")).raw("</pre>");
        } else if trimmed.starts_with('|') {
            let mut rows = vec![trimmed];
            while let Some(row) = lines.next_if(|line| line.trim_start().starts_with('|')) {
                rows.push(row.trim_start());
            }
            body.raw("<pre>").text(&rows.join("\n")).raw("</pre>");
        } else if let Some(heading) = heading(trimmed) {
            body.raw("<p class=\"heading\">");
            inline(body, heading);
            body.raw("</p>");
        } else {
            let mut paragraph = vec![line];
            while let Some(next) = lines.next_if(|line| is_plain(line)) {
                paragraph.push(next);
            }
            body.raw("<p>");
            inline(body, &paragraph.join("\n"));
            body.raw("</p>");
        }
    }
    close(body, list);
}

fn close(body: &mut Markup, list: Option<List>) {
    match list {
        Some(List::Bullets) => body.raw("</ul>"),
        Some(List::Numbers) => body.raw("</ol>"),
        None => body,
    };
}

/// Whether a line continues a paragraph.
fn is_plain(line: &str) -> bool {
    let line = line.trim_start();
    let starts_block = ["```", "~~~", "|"].into_iter().any(|start| line.starts_with(start));
    !line.is_empty() && !starts_block && heading(line).is_none() && list_item(line).is_none()
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    (1..=6).contains(&level).then(|| text.strip_prefix(' ')).flatten()
}

fn list_item(line: &str) -> Option<(List, &str)> {
    let bullet = ["- ", "* ", "+ "].into_iter().find_map(|mark| line.strip_prefix(mark));
    let number = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = line.len() - rest.len();
        (1..=3).contains(&digits).then(|| rest.strip_prefix(". ")).flatten()
    };
    bullet.map(|item| (List::Bullets, item)).or_else(|| number().map(|item| (List::Numbers, item)))
}

/// Writes code between backticks and strong text between double asterisks; unpaired marks stay text.
fn inline(body: &mut Markup, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*']) {
        let mark = if rest[at..].starts_with("**") { "**" } else { "`" };
        let inner = rest[at..].strip_prefix(mark).and_then(|inner| inner.split_once(mark));
        match inner.filter(|(inner, _)| !inner.is_empty()) {
            Some((inner, after)) => {
                body.text(&rest[..at]);
                body.element(if mark == "`" { "code" } else { "b" }, "", inner);
                rest = after;
            }
            None => {
                // The mark is one byte, or the first of several that are looked at next.
                body.text(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    body.text(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        let mut body = Markup::default();
        write(&mut body, text);
        body.into_string()
    }

    #[test]
    fn markdown_is_rendered() {
        assert_eq!(
            html(
                "# Done\nAll `a<b>` **pass**:\nyes\n\n- one\n- two\n1. first\n```rs\nfn x() {}\n# no\n```\nend"
            ),
            "<p class=\"heading\">Done</p><p>All <code>a&lt;b&gt;</code> <b>pass</b>:\nyes</p>\
             <ul class=\"plain\"><li>one</li><li>two</li></ul><ol class=\"plain\"><li>first</li></ol>\
             <pre>fn x() {}\n# no</pre><p>end</p>"
        );
        assert_eq!(html("| a | b |\n|---|---|\n| 1 | 2 |"), "<pre>| a | b |\n|---|---|\n| 1 | 2 |</pre>");
    }

    #[test]
    fn html_links_and_unpaired_marks_stay_text() {
        assert_eq!(html("<b onclick=x> [x](javascript:y)"), "<p>&lt;b onclick=x&gt; [x](javascript:y)</p>");
        assert_eq!(html("2 * 3 ** 4 ` ü*"), "<p>2 * 3 ** 4 ` ü*</p>");
        assert_eq!(html("```\nopen"), "<pre>open</pre>");
        assert_eq!(html("#tag 1.5 -x"), "<p>#tag 1.5 -x</p>");
        assert_eq!(html("``"), "<p>``</p>");
    }
}
