//! Rendering of a template with props, with limits on steps and bytes.

use serde_json::{Map, Value};

use super::{AttachmentKind, PropValue, Template, TemplateNode};
use crate::error::{PromptError, Source};
use crate::expression::{Expression, ExpressionError, Scope, is_true, to_text};
use crate::message::{MessageContent, MessagePart, RichChatMessage, Role};

const MAX_STEPS: usize = 200_000;
const MAX_TEXT: usize = 4 << 20;

/// A rendered template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rendered {
    pub(crate) messages: Vec<RichChatMessage>,
    /// The text of an image or speech prompt.
    pub(crate) media_prompt: Option<String>,
}

/// A piece of rendered output.
#[derive(Debug, Clone)]
enum RenderedPiece {
    Text(String, usize),
    Attachment(MessagePart, usize),
    Message(RichChatMessage),
    MediaPrompt(String),
}

/// Renders a template.
pub(crate) fn render(template: &Template, props: &Value) -> Result<Rendered, PromptError> {
    let scope = Scope::new("props", props);
    let context = RenderContext { template, scope: &scope, children: &[], inside: None };
    let mut rendered = Rendered::default();
    let mut renderer = Renderer { steps: 0, bytes: 0 };
    for piece in renderer.nodes(&template.nodes, &context)? {
        match piece {
            RenderedPiece::Message(message) => rendered.messages.push(message),
            RenderedPiece::MediaPrompt(text) => rendered.media_prompt = Some(text),
            RenderedPiece::Attachment(_, at) => {
                return Err(outside_message(&template.source, at, "attachment"));
            }
            RenderedPiece::Text(text, at) => {
                let begin = text.len() - text.trim_start().len();
                if begin < text.len() {
                    return Err(outside_message(&template.source, at + begin, "text"));
                }
            }
        }
    }
    Ok(rendered)
}

fn outside_message(source: &Source, at: usize, what: &str) -> PromptError {
    source.error(at, format!("{what} outside a message")).with_hint("put it into `<User>` or `<System>`")
}

/// The current template, scope and enclosing message.
#[derive(Clone, Copy)]
struct RenderContext<'a> {
    template: &'a Template,
    scope: &'a Scope<'a>,
    /// The value of `{props.children}`.
    children: &'a [RenderedPiece],
    inside: Option<Role>,
}

struct Renderer {
    steps: usize,
    bytes: usize,
}

impl RenderContext<'_> {
    fn error(&self, error: ExpressionError) -> PromptError {
        let converted = self.template.source.error(error.at, error.message);
        match error.hint {
            Some(hint) => converted.with_hint(hint),
            None => converted,
        }
    }

    fn value(&self, expression: &Expression) -> Result<Value, PromptError> {
        expression.evaluate(self.scope).map_err(|error| self.error(error))
    }

    fn setting(&self, setting: &PropValue) -> Result<Value, PromptError> {
        match setting {
            PropValue::Flag => Ok(Value::Bool(true)),
            PropValue::Text(text) => Ok(Value::from(text.as_str())),
            PropValue::Expression(expression) => self.value(expression),
        }
    }
}

impl Renderer {
    fn step(&mut self, at: usize, context: &RenderContext<'_>) -> Result<(), PromptError> {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.bytes > MAX_TEXT {
            let message = format!("the prompt is too large: at most {MAX_STEPS} parts, {MAX_TEXT} bytes");
            return Err(context.template.source.error(at, message));
        }
        Ok(())
    }

    fn text(
        &mut self,
        text: String,
        at: usize,
        context: &RenderContext<'_>,
    ) -> Result<Vec<RenderedPiece>, PromptError> {
        self.bytes = self.bytes.saturating_add(text.len());
        self.step(at, context)?;
        Ok(vec![RenderedPiece::Text(text, at)])
    }

    fn nodes(
        &mut self,
        nodes: &[TemplateNode],
        context: &RenderContext<'_>,
    ) -> Result<Vec<RenderedPiece>, PromptError> {
        let mut pieces = Vec::new();
        let mut empty_block = false;
        for node in nodes {
            if let (true, TemplateNode::Text(text, at)) = (empty_block, node) {
                let rest = skip_duplicate_newlines(text, &pieces).to_owned();
                pieces.extend(self.text(rest, *at, context)?);
                empty_block = false;
                continue;
            }
            let output = self.node(node, context)?;
            let block = matches!(
                node,
                TemplateNode::Branch { block: true, .. }
                    | TemplateNode::ForEach { block: true, .. }
                    | TemplateNode::Component { block: true, .. }
            );
            empty_block = block
                && output
                    .iter()
                    .all(|piece| matches!(piece, RenderedPiece::Text(text, _) if text.is_empty()));
            pieces.extend(output);
        }
        Ok(pieces)
    }

    fn node(
        &mut self,
        node: &TemplateNode,
        context: &RenderContext<'_>,
    ) -> Result<Vec<RenderedPiece>, PromptError> {
        match node {
            TemplateNode::Text(text, at) => self.text(text.clone(), *at, context),
            TemplateNode::Expression(expression) if expression.is_member("props", "children") => {
                self.children(expression.at, context)
            }
            TemplateNode::Expression(expression) => {
                let text = to_text(&context.value(expression)?);
                self.text(text, expression.at, context)
            }
            TemplateNode::Message { role, at, children } => self.message(*role, *at, children, context),
            TemplateNode::MediaPrompt { at, children } => {
                let context = RenderContext { inside: Some(Role::User), ..*context };
                let (text, _) = self.text_or_parts(children, *at, &context)?;
                Ok(vec![RenderedPiece::MediaPrompt(text)])
            }
            TemplateNode::Attachment { kind, at, data, media_type } => {
                self.step(*at, context)?;
                let data = to_text(&context.setting(data)?);
                let media_type = media_type.as_ref().map(|setting| context.setting(setting)).transpose()?;
                let media_type = media_type.map(|value| to_text(&value));
                if data.is_empty() {
                    return Err(context.template.source.error(*at, "the attachment is empty"));
                }
                let part = match kind {
                    AttachmentKind::Image => MessagePart::Image { image: data, media_type },
                    AttachmentKind::File => {
                        MessagePart::File { data, media_type: media_type.unwrap_or_default() }
                    }
                };
                match context.inside {
                    Some(Role::User) | None => Ok(vec![RenderedPiece::Attachment(part, *at)]),
                    Some(_) => {
                        Err(context.template.source.error(*at, "attachments are only allowed in `<User>`"))
                    }
                }
            }
            TemplateNode::Branch { arms, block } => {
                for (condition, children) in arms {
                    let taken = match condition {
                        Some(condition) => is_true(&context.value(condition)?),
                        None => true,
                    };
                    if taken {
                        let mut output = self.nodes(children, context)?;
                        if *block {
                            trim(&mut output);
                        }
                        return Ok(output);
                    }
                }
                Ok(Vec::new())
            }
            TemplateNode::ForEach { at, list, item, index, body, block } => {
                let value = context.value(list)?;
                let items = match &value {
                    Value::Array(items) => items.as_slice(),
                    Value::Null => &[],
                    Value::String(text) if text.is_empty() => &[],
                    _ => {
                        return Err(context.template.source.error(*at, "`arr` of `<ForEach>` is not a list"));
                    }
                };
                self.each(items, (item, index.as_deref()), body, *block, context)
            }
            TemplateNode::Tag { open, children, close } => {
                let mut output = self.nodes(open, context)?;
                output.extend(self.nodes(children, context)?);
                output.push(RenderedPiece::Text(close.clone(), 0));
                Ok(output)
            }
            TemplateNode::Component { name, at, settings, children, .. } => {
                self.component((name, *at), settings, children, context)
            }
            TemplateNode::ElseBranch { at, .. } => {
                Err(context.template.source.error(*at, "`<Else>` without an `<If>`"))
            }
        }
    }

    fn children(
        &mut self,
        at: usize,
        context: &RenderContext<'_>,
    ) -> Result<Vec<RenderedPiece>, PromptError> {
        for piece in context.children {
            if let RenderedPiece::Text(text, _) = piece {
                self.bytes = self.bytes.saturating_add(text.len());
            }
            self.step(at, context)?;
        }
        Ok(context.children.to_vec())
    }

    /// Renders children to text, or to parts if there are attachments.
    fn text_or_parts(
        &mut self,
        children: &[TemplateNode],
        at: usize,
        context: &RenderContext<'_>,
    ) -> Result<(String, Vec<MessagePart>), PromptError> {
        let mut parts: Vec<MessagePart> = Vec::new();
        for piece in self.nodes(children, context)? {
            match (piece, parts.last_mut()) {
                (RenderedPiece::Text(text, _), Some(MessagePart::Text(before))) => before.push_str(&text),
                (RenderedPiece::Text(text, _), _) => parts.push(MessagePart::Text(text)),
                (RenderedPiece::Attachment(part, _), _) => parts.push(part),
                (RenderedPiece::Message(_) | RenderedPiece::MediaPrompt(_), _) => {
                    return Err(context.template.source.error(at, "messages can't be nested"));
                }
            }
        }
        for part in &mut parts {
            if let MessagePart::Text(text) = part {
                *text = text.trim().to_owned();
            }
        }
        parts.retain(|part| !matches!(part, MessagePart::Text(text) if text.is_empty()));
        match &parts[..] {
            [] => Ok((String::new(), Vec::new())),
            [MessagePart::Text(text)] => Ok((text.clone(), Vec::new())),
            _ => Ok((String::new(), parts)),
        }
    }

    fn message(
        &mut self,
        role: Role,
        at: usize,
        children: &[TemplateNode],
        context: &RenderContext<'_>,
    ) -> Result<Vec<RenderedPiece>, PromptError> {
        if context.inside.is_some() {
            return Err(context.template.source.error(at, "messages can't be nested"));
        }
        let (text, parts) =
            self.text_or_parts(children, at, &RenderContext { inside: Some(role), ..*context })?;
        let content =
            if parts.is_empty() { MessageContent::Text(text) } else { MessageContent::Parts(parts) };
        Ok(vec![RenderedPiece::Message(RichChatMessage { role, content })])
    }

    fn each(
        &mut self,
        items: &[Value],
        (item, index): (&str, Option<&str>),
        body: &[TemplateNode],
        block: bool,
        context: &RenderContext<'_>,
    ) -> Result<Vec<RenderedPiece>, PromptError> {
        // Iterations with paragraphs are separated by an empty line, others by a line break.
        let paragraphs = body
            .iter()
            .any(|node| matches!(node, TemplateNode::Text(text, _) if text.trim().contains("\n\n")));
        let between = if paragraphs { "\n\n" } else { "\n" };
        let mut output: Vec<RenderedPiece> = Vec::new();
        for (number, value) in items.iter().enumerate() {
            let number = Value::from(number);
            let scope = context.scope.with(item, value);
            let scope = match index {
                Some(name) => scope.with(name, &number),
                None => scope,
            };
            // An empty loop body counts too.
            self.step(0, context)?;
            let mut one = self.nodes(body, &RenderContext { scope: &scope, ..*context })?;
            if block {
                trim(&mut one);
                if one.is_empty() {
                    continue;
                }
                if !output.is_empty() {
                    output.push(RenderedPiece::Text(between.to_owned(), 0));
                }
            }
            output.extend(one);
        }
        Ok(output)
    }

    fn component(
        &mut self,
        (name, at): (&str, usize),
        settings: &[(String, PropValue)],
        children: &[TemplateNode],
        context: &RenderContext<'_>,
    ) -> Result<Vec<RenderedPiece>, PromptError> {
        let Some(template) = context.template.imports.get(name) else {
            return Err(context.template.source.error(at, format!("unknown tag: `<{name}>`")));
        };
        let mut given = self.nodes(children, context)?;
        trim(&mut given);
        let mut props = Map::new();
        for (key, setting) in settings {
            props.insert(key.clone(), context.setting(setting)?);
        }
        let words = given.iter().filter_map(|piece| match piece {
            RenderedPiece::Text(text, _) => Some(text.as_str()),
            _ => None,
        });
        props.insert("children".to_owned(), Value::from(words.collect::<String>()));
        let props = Value::Object(props);
        let scope = Scope::new("props", &props);
        self.step(at, context)?;
        let inner = RenderContext { template, scope: &scope, children: &given, inside: context.inside };
        let mut output = self.nodes(&template.nodes, &inner)?;
        trim(&mut output);
        // Errors in the output of a component are reported at its tag.
        for piece in &mut output {
            if let RenderedPiece::Text(_, offset) | RenderedPiece::Attachment(_, offset) = piece {
                *offset = at;
            }
        }
        Ok(output)
    }
}

/// Returns the text after an empty block, without the line breaks that precede the block already.
fn skip_duplicate_newlines<'t>(text: &'t str, before: &[RenderedPiece]) -> &'t str {
    let last = before.iter().rev().find_map(|piece| match piece {
        RenderedPiece::Text(text, _) if text.is_empty() => None,
        RenderedPiece::Text(text, _) => Some(text.as_str()),
        _ => Some(""),
    });
    let ends = |space: &str| space.matches('\n').count();
    let before = last.map_or(usize::MAX, |last| ends(last.get(last.trim_end().len()..).unwrap_or_default()));
    let space = text.get(..text.len() - text.trim_start().len()).unwrap_or_default();
    let gone = before.min(ends(space));
    let cut = space.match_indices('\n').take(gone).last().map_or(0, |(at, _)| at + 1);
    text.get(cut..).unwrap_or_default()
}

/// Trims whitespace at both ends.
fn trim(pieces: &mut Vec<RenderedPiece>) {
    while let Some(RenderedPiece::Text(text, _)) = pieces.last_mut() {
        text.truncate(text.trim_end().len());
        if !text.is_empty() {
            break;
        }
        pieces.pop();
    }
    let blank = pieces
        .iter()
        .take_while(|piece| matches!(piece, RenderedPiece::Text(text, _) if text.trim().is_empty()));
    let blank = blank.count();
    pieces.drain(..blank);
    if let Some(RenderedPiece::Text(text, _)) = pieces.first_mut() {
        *text = text.trim_start().to_owned();
    }
}
