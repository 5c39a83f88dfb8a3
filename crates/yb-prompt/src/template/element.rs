//! Conversion of tags.

use markdown::mdast;

use super::convert::{Converter, Element, push, push_text};
use super::{AttachmentKind, PropValue, TemplateNode, mdx, tags};
use crate::error::PromptError;
use crate::expression::{self, Expression};
use crate::message::Role;

impl Converter<'_> {
    pub(super) fn convert_element(
        &mut self,
        element: &Element<'_>,
    ) -> Result<Vec<TemplateNode>, PromptError> {
        let (at, block) = (element.from, element.block);
        let settings = tags::Attributes::new(element.name, self.settings(element)?, at, self.source);
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
                TemplateNode::Message { role, at, children: self.nodes(element.children)? }
            }
            "ImagePrompt" | "SpeechPrompt" => {
                settings.none()?;
                TemplateNode::MediaPrompt { at, children: self.nodes(element.children)? }
            }
            "ImageAttachment" | "FileAttachment" => {
                let (kind, key) = match name {
                    "ImageAttachment" => (AttachmentKind::Image, "image"),
                    _ => (AttachmentKind::File, "data"),
                };
                settings.only(&[key, "mimeType"])?;
                let media_type = match kind {
                    AttachmentKind::Image => settings.get("mimeType"),
                    AttachmentKind::File => Some(settings.need("mimeType")?),
                };
                TemplateNode::Attachment { kind, at, data: settings.need(key)?, media_type }
            }
            "If" => {
                let condition = Some(settings.condition()?);
                TemplateNode::Branch { arms: vec![(condition, self.nodes(element.children)?)], block }
            }
            "ElseIf" => {
                let condition = Some(settings.condition()?);
                TemplateNode::ElseBranch { at, condition, children: self.nodes(element.children)? }
            }
            "Else" => {
                settings.none()?;
                TemplateNode::ElseBranch { at, condition: None, children: self.nodes(element.children)? }
            }
            "ForEach" => {
                settings.only(&["arr"])?;
                let list = settings.expression("arr")?;
                self.each(element, list)?
            }
            "Raw" => {
                settings.none()?;
                TemplateNode::Text(self.raw(element), at)
            }
            name if name.starts_with(char::is_uppercase) => {
                let children = self.nodes(element.children)?;
                TemplateNode::Component {
                    name: name.to_owned(),
                    at,
                    settings: settings.into_all(),
                    children,
                    block,
                }
            }
            name => self.tag(name, element, settings.into_all())?,
        };
        Ok(vec![node])
    }

    /// Returns the verbatim content of `<Raw>`, without the common indentation.
    fn raw(&self, element: &Element<'_>) -> String {
        let whole = self.verbatim(element.from, element.to);
        let inner = whole.strip_prefix("<Raw>").and_then(|rest| rest.strip_suffix("</Raw>"));
        let inner = inner.unwrap_or_default();
        if element.block { inner.trim_matches('\n').trim_end().to_owned() } else { inner.to_owned() }
    }

    fn each(&mut self, element: &Element<'_>, list: Expression) -> Result<TemplateNode, PromptError> {
        let wrong = || {
            self.source
                .error(element.from, "expected a function in `<ForEach>`")
                .with_hint("`<ForEach arr={props.items}>{(item) => (<>- {item}</>)}</ForEach>`")
        };
        let mut inner = element.children;
        // Inline, the function is wrapped in a paragraph.
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
            Some(Err(error)) => return Err(self.prompt_error(error, from + 1)),
            None => return Err(wrong()),
        };
        let (begin, end) = (from + 1 + function.from, from + 1 + function.to);
        let body = if self.source.slice(begin, end).starts_with('<') {
            self.body(begin, end)?
        } else {
            self.expression(begin, end)?.map(TemplateNode::Expression).into_iter().collect()
        };
        let (at, block) = (element.from, element.block);
        Ok(TemplateNode::ForEach { at, list, item: function.item, index: function.index, body, block })
    }

    /// Converts the body of a function. Whitespace within `<>` and `</>` on one line is significant.
    fn body(&self, from: usize, to: usize) -> Result<Vec<TemplateNode>, PromptError> {
        let whole = self.source.slice(from, to);
        let fragment = whole.strip_prefix("<>").and_then(|rest| rest.strip_suffix("</>"));
        let fragment = fragment.filter(|inner| !inner.contains("<>"));
        let (begin, inner) = fragment.map_or((from, whole), |inner| (from + "<>".len(), inner));
        let parsed = mdx::parse_nested(self.source, begin, begin + inner.len(), self.depth)?;
        if let Some(import) = parsed.imports.first() {
            return Err(self.source.error(import.at, "imports are not allowed in `<ForEach>`"));
        }
        if inner.contains('\n') {
            return Ok(parsed.nodes);
        }
        let mut nodes = Vec::new();
        push_text(
            &mut nodes,
            inner.get(..inner.len() - inner.trim_start().len()).unwrap_or_default().to_owned(),
            begin,
        );
        for node in parsed.nodes {
            push(&mut nodes, node);
        }
        if !inner.trim().is_empty() {
            push_text(&mut nodes, inner.get(inner.trim_end().len()..).unwrap_or_default().to_owned(), begin);
        }
        Ok(nodes)
    }

    /// Converts a tag for the model: verbatim, or with its attribute expressions rendered.
    fn tag(
        &mut self,
        name: &str,
        element: &Element<'_>,
        settings: Vec<(String, PropValue)>,
    ) -> Result<TemplateNode, PromptError> {
        let children = self.nodes(element.children)?;
        let inner = (element.children.first(), element.children.last());
        let (begin, end) = match inner {
            (Some(first), Some(last)) => (self.span(first).0, self.span(last).1),
            _ => (element.to, element.to),
        };
        let before = self.verbatim(element.from, begin);
        let close = self.verbatim(end, element.to);
        if !settings.iter().any(|(_, setting)| matches!(setting, PropValue::Expression(_))) {
            return Ok(TemplateNode::Tag {
                open: vec![TemplateNode::Text(before, element.from)],
                children,
                close,
            });
        }
        let text = |text: String| TemplateNode::Text(text, element.from);
        let mut open = vec![text(format!("<{name}"))];
        for (key, setting) in settings {
            open.push(text(format!(" {key}")));
            match setting {
                PropValue::Flag => {}
                PropValue::Text(value) => open.push(text(format!("=\"{value}\""))),
                PropValue::Expression(value) => {
                    open.push(text("=\"".to_owned()));
                    open.push(TemplateNode::Expression(value));
                    open.push(text("\"".to_owned()));
                }
            }
        }
        let tag = before.trim_end();
        let space = before.get(tag.len()..).unwrap_or_default();
        let (end, rest) = match tag.rfind("</") {
            // Without children `before` has both tags.
            Some(close) if element.children.is_empty() => (">", tag.get(close..).unwrap_or_default()),
            _ if tag.ends_with("/>") => (" />", ""),
            _ => (">", ""),
        };
        open.push(text(format!("{end}{space}{rest}")));
        Ok(TemplateNode::Tag { open, children, close })
    }
}
