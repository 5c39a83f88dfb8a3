//! What each tag becomes.

use markdown::mdast;

use super::convert::{Converter, Element, push, push_text};
use super::{Attached, Node, Setting, mdx, tags};
use crate::error::PromptError;
use crate::expression::{self, Expression};
use crate::message::Role;

impl Converter<'_> {
    pub(super) fn element_in(&mut self, element: &Element<'_>) -> Result<Vec<Node>, PromptError> {
        let (at, block) = (element.from, element.block);
        let settings = tags::Settings::new(element.name, self.settings(element)?, at, self.source);
        let name = element.name.unwrap_or_default();
        let node = match name {
            "" => return self.nodes(element.children),
            "System" | "User" | "Assistant" => {
                settings.none()?;
                let role = match name {
                    "System" => Role::System,
                    "User" => Role::User,
                    _ => Role::Assistant,
                };
                Node::Message { role, at, children: self.nodes(element.children)? }
            }
            "ImagePrompt" | "SpeechPrompt" => {
                settings.none()?;
                Node::Spoken { at, children: self.nodes(element.children)? }
            }
            "ImageAttachment" | "FileAttachment" => {
                let (kind, key) = match name {
                    "ImageAttachment" => (Attached::Image, "image"),
                    _ => (Attached::File, "data"),
                };
                settings.only(&[key, "mimeType"])?;
                let media_type = match kind {
                    Attached::Image => settings.get("mimeType"),
                    Attached::File => Some(settings.need("mimeType")?),
                };
                Node::Attachment { kind, at, data: settings.need(key)?, media_type }
            }
            "If" => {
                let condition = Some(settings.condition()?);
                Node::Branch { arms: vec![(condition, self.nodes(element.children)?)], block }
            }
            "ElseIf" => {
                let condition = Some(settings.condition()?);
                Node::Otherwise { at, condition, children: self.nodes(element.children)? }
            }
            "Else" => {
                settings.none()?;
                Node::Otherwise { at, condition: None, children: self.nodes(element.children)? }
            }
            "ForEach" => {
                settings.only(&["arr"])?;
                let list = settings.expression("arr")?;
                self.each(element, list)?
            }
            "Raw" => {
                settings.none()?;
                Node::Text(self.raw(element), at)
            }
            name if name.starts_with(char::is_uppercase) => {
                let children = self.nodes(element.children)?;
                Node::Component { name: name.to_owned(), at, settings: settings.into_all(), children, block }
            }
            name => self.tag(name, element, settings.into_all())?,
        };
        Ok(vec![node])
    }

    /// What is between the two tags, with no line's indentation but the common one taken away.
    fn raw(&self, element: &Element<'_>) -> String {
        let whole = self.verbatim(element.from, element.to);
        let inner = whole.strip_prefix("<Raw>").and_then(|rest| rest.strip_suffix("</Raw>"));
        let inner = inner.unwrap_or_default();
        if element.block { inner.trim_matches('\n').trim_end().to_owned() } else { inner.to_owned() }
    }

    fn each(&mut self, element: &Element<'_>, list: Expression) -> Result<Node, PromptError> {
        let wrong = || {
            self.source
                .error(element.from, "expected a function in `<ForEach>`")
                .with_hint("`<ForEach arr={props.items}>{(item) => (<>- {item}</>)}</ForEach>`")
        };
        let mut inner = element.children;
        // Within a line the function stands in a paragraph.
        if let [mdast::Node::Paragraph(paragraph)] = inner {
            inner = &paragraph.children;
        }
        let blank =
            |node: &&mdast::Node| !matches!(node, mdast::Node::Text(text) if text.value.trim().is_empty());
        let inner: Vec<&mdast::Node> = inner.iter().filter(blank).collect();
        let [one @ (mdast::Node::MdxFlowExpression(_) | mdast::Node::MdxTextExpression(_))] = inner[..]
        else {
            return Err(wrong());
        };
        let (from, to) = self.span(one);
        let text = self.source.slice(from + 1, to.saturating_sub(1));
        let function = match expression::arrow(text) {
            Some(Ok(function)) => function,
            Some(Err(mistake)) => return Err(self.mistake(mistake, from + 1)),
            None => return Err(wrong()),
        };
        let (begin, end) = (from + 1 + function.from, from + 1 + function.to);
        let body = if self.source.slice(begin, end).starts_with('<') {
            self.body(begin, end)?
        } else {
            self.expression(begin, end)?.map(Node::Expression).into_iter().collect()
        };
        let (at, block) = (element.from, element.block);
        Ok(Node::Each { at, list, item: function.item, index: function.index, body, block })
    }

    /// What a function says. Space within `<>` and `</>` counts where they stand in one line.
    fn body(&self, from: usize, to: usize) -> Result<Vec<Node>, PromptError> {
        let whole = self.source.slice(from, to);
        let fragment = whole.strip_prefix("<>").and_then(|rest| rest.strip_suffix("</>"));
        let fragment = fragment.filter(|inner| !inner.contains("<>"));
        let (begin, inner) = fragment.map_or((from, whole), |inner| (from + "<>".len(), inner));
        let read = mdx::read_nested(self.source, begin, begin + inner.len(), self.depth)?;
        if let Some(import) = read.imports.first() {
            return Err(self.source.error(import.at, "an import within `<ForEach>`"));
        }
        if inner.contains('\n') {
            return Ok(read.nodes);
        }
        let mut nodes = Vec::new();
        push_text(
            &mut nodes,
            inner.get(..inner.len() - inner.trim_start().len()).unwrap_or_default().to_owned(),
            begin,
        );
        for node in read.nodes {
            push(&mut nodes, node);
        }
        if !inner.trim().is_empty() {
            push_text(&mut nodes, inner.get(inner.trim_end().len()..).unwrap_or_default().to_owned(), begin);
        }
        Ok(nodes)
    }

    /// A tag that goes to the model: as it is written, or with its expressions filled in.
    fn tag(
        &mut self,
        name: &str,
        element: &Element<'_>,
        settings: Vec<(String, Setting)>,
    ) -> Result<Node, PromptError> {
        let children = self.nodes(element.children)?;
        let inner = (element.children.first(), element.children.last());
        let (begin, end) = match inner {
            (Some(first), Some(last)) => (self.span(first).0, self.span(last).1),
            _ => (element.to, element.to),
        };
        let before = self.verbatim(element.from, begin);
        let close = self.verbatim(end, element.to);
        if !settings.iter().any(|(_, setting)| matches!(setting, Setting::Expression(_))) {
            return Ok(Node::Tag { open: vec![Node::Text(before, element.from)], children, close });
        }
        let text = |text: String| Node::Text(text, element.from);
        let mut open = vec![text(format!("<{name}"))];
        for (key, setting) in settings {
            open.push(text(format!(" {key}")));
            match setting {
                Setting::Flag => {}
                Setting::Text(value) => open.push(text(format!("=\"{value}\""))),
                Setting::Expression(value) => {
                    open.push(text("=\"".to_owned()));
                    open.push(Node::Expression(value));
                    open.push(text("\"".to_owned()));
                }
            }
        }
        let tag = before.trim_end();
        let space = before.get(tag.len()..).unwrap_or_default();
        let (end, rest) = match tag.rfind("</") {
            // Without children both tags are in `before`.
            Some(close) if element.children.is_empty() => (">", tag.get(close..).unwrap_or_default()),
            _ if tag.ends_with("/>") => (" />", ""),
            _ => (">", ""),
        };
        open.push(text(format!("{end}{space}{rest}")));
        Ok(Node::Tag { open, children, close })
    }
}
