//! JSON that nobody has described, on a page.

use serde_json::{Map, Value};

use super::markup::Markup;
use crate::figures::count;
use crate::value::{ROWS, Shape, shape, spoken};

pub(super) fn write(body: &mut Markup, value: &Value) {
    match shape(value) {
        Shape::Line(line) => {
            body.element("p", "", &line);
        }
        Shape::List(lines) => {
            body.raw("<ul class=\"plain\">");
            for line in lines.iter().take(ROWS) {
                body.element("li", "", line);
            }
            body.raw("</ul>");
            more(body, lines.len());
        }
        Shape::Table(columns, rows) => {
            body.raw("<div class=\"scroll\"><table class=\"data\"><thead><tr>");
            for (at, column) in columns.iter().enumerate() {
                let number = rows.iter().all(|row| row[at].parse::<f64>().is_ok());
                body.raw(if number { "<th scope=\"col\" class=\"num\">" } else { "<th scope=\"col\">" });
                body.text(&spoken(column)).raw("</th>");
            }
            body.raw("</tr></thead><tbody>");
            for row in rows.iter().take(ROWS) {
                body.raw("<tr>");
                for cell in row {
                    if let Some(class) = tone(cell) {
                        body.raw("<td><span class=\"badge ")
                            .raw(class)
                            .raw("\">")
                            .text(&spoken(cell))
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
        Shape::Json(json) => {
            body.raw("<pre class=\"json clip\" tabindex=\"0\">").text(&json).raw("</pre>");
        }
    }
}

/// The colour of a word that is a verdict.
fn tone(cell: &str) -> Option<&'static str> {
    match cell {
        "passed" | "held" => Some("c-pass"),
        "failed" | "regressed" => Some("c-fail"),
        "cannot_tell" | "skipped" => Some("c-unsure"),
        _ => None,
    }
}

/// Simple values side by side, the others below, each in its own shape.
pub(super) fn fields(body: &mut Markup, fields: &Map<String, Value>) {
    let simple: Vec<(&String, String)> = fields
        .iter()
        .filter_map(|(name, value)| match shape(value) {
            Shape::Line(line) => Some((name, line)),
            _ => None,
        })
        .collect();
    if !simple.is_empty() {
        body.raw("<dl class=\"facts\">");
        for (name, line) in &simple {
            body.raw("<div><dt>").text(&spoken(name)).raw("</dt><dd>").text(line).raw("</dd></div>");
        }
        body.raw("</dl>");
    }
    for (name, value) in fields.iter().filter(|(name, _)| !simple.iter().any(|(known, _)| known == name)) {
        body.element("h4", "", &spoken(name));
        write(body, value);
    }
}

fn more(body: &mut Markup, all: usize) {
    if all > ROWS {
        body.element("p", "hint", &format!("and {} more", count((all - ROWS) as u64)));
    }
}
