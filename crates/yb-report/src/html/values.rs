//! JSON values without a known schema, as HTML.

use serde_json::{Map, Value};
use yb_figures::count;

use super::markup::Markup;
use crate::value::{ROWS, ValueLayout, field_layout, layout, readable_name};

pub(super) fn write(body: &mut Markup, value: &Value) {
    match layout(value) {
        ValueLayout::Line(line) => {
            body.element("p", "", &line);
        }
        ValueLayout::List(lines) => {
            body.raw("<ul class=\"plain\">");
            for line in lines.iter().take(ROWS) {
                body.element("li", "", line);
            }
            body.raw("</ul>");
            more(body, lines.len());
        }
        ValueLayout::Table(columns, rows) => {
            body.raw("<div class=\"scroll\"><table class=\"data\"><thead><tr>");
            for (at, column) in columns.iter().enumerate() {
                let number = rows.iter().all(|row| row[at].parse::<f64>().is_ok());
                body.raw(if number { "<th scope=\"col\" class=\"num\">" } else { "<th scope=\"col\">" });
                body.text(&readable_name(column)).raw("</th>");
            }
            body.raw("</tr></thead><tbody>");
            for row in rows.iter().take(ROWS) {
                body.raw("<tr>");
                for cell in row {
                    if let Some(class) = badge_class(cell) {
                        body.raw("<td><span class=\"badge ")
                            .raw(class)
                            .raw("\">")
                            .text(&readable_name(cell))
                            .raw("</span></td>");
                        continue;
                    }
                    body.element("td", if cell.parse::<f64>().is_ok() { "num" } else { "" }, cell);
                }
                body.raw("</tr>");
            }
            body.raw("</tbody></table></div>");
            more(body, rows.len());
        }
        ValueLayout::Json(json) => {
            body.raw("<pre class=\"json clip\" tabindex=\"0\">").text(&json).raw("</pre>");
        }
    }
}

/// Returns the badge class of an outcome or answer.
fn badge_class(cell: &str) -> Option<&'static str> {
    match cell {
        "passed" | "held" => Some("c-pass"),
        "failed" | "regressed" => Some("c-fail"),
        "cannot_tell" | "inconclusive" | "skipped" => Some("c-unsure"),
        _ => None,
    }
}

/// Writes scalar values side by side and the others below, each in its own layout.
pub(super) fn fields(body: &mut Markup, fields: &Map<String, Value>) {
    let simple: Vec<(&String, String)> = fields
        .iter()
        .filter_map(|(name, value)| match field_layout(name, value) {
            ValueLayout::Line(line) => Some((name, line)),
            _ => None,
        })
        .collect();
    if !simple.is_empty() {
        body.raw("<dl class=\"facts\">");
        for (name, line) in &simple {
            body.raw("<div><dt>").text(&readable_name(name)).raw("</dt><dd>").text(line).raw("</dd></div>");
        }
        body.raw("</dl>");
    }
    for (name, value) in fields.iter().filter(|(name, _)| !simple.iter().any(|(known, _)| known == name)) {
        body.element("h4", "", &readable_name(name));
        write(body, value);
    }
}

fn more(body: &mut Markup, all: usize) {
    if all > ROWS {
        body.element("p", "hint", &format!("and {} more", count(all - ROWS)));
    }
}
