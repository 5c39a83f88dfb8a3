//! A template and its props become messages: bounded in steps and in bytes, whatever loops and components ask for.

use serde_json::{Map, Value};

use super::{Attached, Node, Setting, Template};
use crate::error::{PromptError, Source};
use crate::expression::{Expression, Mistake, Scope, is_true, to_text};
use crate::message::{Content, Part, RichChatMessage, Role};

const MAX_STEPS: usize = 200_000;
const MAX_TEXT: usize = 4 << 20;

/// What a prompt says, given its props.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rendered {
    pub(crate) messages: Vec<RichChatMessage>,
    /// The words of an image or speech prompt.
    pub(crate) spoken: Option<String>,
}

/// A part of what comes out.
#[derive(Debug, Clone)]
enum Piece {
    Text(String, usize),
    Attached(Part, usize),
    Message(RichChatMessage),
    Spoken(String),
}

/// Fills a template in.
pub(crate) fn render(template: &Template, props: &Value) -> Result<Rendered, PromptError> {
    let scope = Scope::new("props", props);
    let place = Where { template, scope: &scope, children: &[], inside: None };
    let mut rendered = Rendered::default();
    let mut renderer = Renderer { steps: 0, bytes: 0 };
    for piece in renderer.nodes(&template.nodes, &place)? {
        match piece {
            Piece::Message(message) => rendered.messages.push(message),
            Piece::Spoken(text) => rendered.spoken = Some(text),
            Piece::Attached(_, at) => return Err(stray(&template.source, at, "an attachment")),
            Piece::Text(text, at) => {
                let begin = text.len() - text.trim_start().len();
                if begin < text.len() {
                    return Err(stray(&template.source, at + begin, "words"));
                }
            }
        }
    }
    Ok(rendered)
}

fn stray(source: &Source, at: usize, what: &str) -> PromptError {
    source
        .error(at, format!("{what} outside of a message"))
        .with_hint("put it between `<User>` and `</User>`, or `<System>` and `</System>`")
}

/// Where rendering is.
#[derive(Clone, Copy)]
struct Where<'a> {
    template: &'a Template,
    scope: &'a Scope<'a>,
    /// What `{props.children}` stands for.
    children: &'a [Piece],
    inside: Option<Role>,
}

struct Renderer {
    steps: usize,
    bytes: usize,
}

impl Where<'_> {
    fn mistake(&self, mistake: Mistake) -> PromptError {
        let error = self.template.source.error(mistake.at, mistake.message);
        match mistake.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    fn value(&self, expression: &Expression) -> Result<Value, PromptError> {
        expression.evaluate(self.scope).map_err(|mistake| self.mistake(mistake))
    }

    fn setting(&self, setting: &Setting) -> Result<Value, PromptError> {
        match setting {
            Setting::Flag => Ok(Value::Bool(true)),
            Setting::Text(text) => Ok(Value::from(text.as_str())),
            Setting::Expression(expression) => self.value(expression),
        }
    }
}

impl Renderer {
    fn step(&mut self, at: usize, place: &Where<'_>) -> Result<(), PromptError> {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.bytes > MAX_TEXT {
            let message = format!("the prompt is too large: at most {MAX_STEPS} parts, {MAX_TEXT} bytes");
            return Err(place.template.source.error(at, message));
        }
        Ok(())
    }

    fn text(&mut self, text: String, at: usize, place: &Where<'_>) -> Result<Vec<Piece>, PromptError> {
        self.bytes = self.bytes.saturating_add(text.len());
        self.step(at, place)?;
        Ok(vec![Piece::Text(text, at)])
    }

    fn nodes(&mut self, nodes: &[Node], place: &Where<'_>) -> Result<Vec<Piece>, PromptError> {
        let mut pieces = Vec::new();
        let mut silent = false;
        for node in nodes {
            if let (true, Node::Text(text, at)) = (silent, node) {
                let rest = after_nothing(text, &pieces).to_owned();
                pieces.extend(self.text(rest, *at, place)?);
                silent = false;
                continue;
            }
            let said = self.node(node, place)?;
            let block = matches!(
                node,
                Node::Branch { block: true, .. }
                    | Node::Each { block: true, .. }
                    | Node::Component { block: true, .. }
            );
            silent =
                block && said.iter().all(|piece| matches!(piece, Piece::Text(text, _) if text.is_empty()));
            pieces.extend(said);
        }
        Ok(pieces)
    }

    fn node(&mut self, node: &Node, place: &Where<'_>) -> Result<Vec<Piece>, PromptError> {
        match node {
            Node::Text(text, at) => self.text(text.clone(), *at, place),
            Node::Expression(expression) if expression.is_member("props", "children") => {
                self.children(expression.at, place)
            }
            Node::Expression(expression) => {
                let text = to_text(&place.value(expression)?);
                self.text(text, expression.at, place)
            }
            Node::Message { role, at, children } => self.message(*role, *at, children, place),
            Node::Spoken { at, children } => {
                let place = Where { inside: Some(Role::User), ..*place };
                let (text, _) = self.words(children, *at, &place)?;
                Ok(vec![Piece::Spoken(text)])
            }
            Node::Attachment { kind, at, data, media_type } => {
                self.step(*at, place)?;
                let data = to_text(&place.setting(data)?);
                let media_type = media_type.as_ref().map(|setting| place.setting(setting)).transpose()?;
                let media_type = media_type.map(|value| to_text(&value));
                if data.is_empty() {
                    return Err(place.template.source.error(*at, "an attachment of nothing"));
                }
                let part = match kind {
                    Attached::Image => Part::Image { image: data, media_type },
                    Attached::File => Part::File { data, media_type: media_type.unwrap_or_default() },
                };
                match place.inside {
                    Some(Role::User) | None => Ok(vec![Piece::Attached(part, *at)]),
                    Some(_) => {
                        Err(place.template.source.error(*at, "only `<User>` can have something attached"))
                    }
                }
            }
            Node::Branch { arms, block } => {
                for (condition, children) in arms {
                    let taken = match condition {
                        Some(condition) => is_true(&place.value(condition)?),
                        None => true,
                    };
                    if taken {
                        let mut said = self.nodes(children, place)?;
                        if *block {
                            trim(&mut said);
                        }
                        return Ok(said);
                    }
                }
                Ok(Vec::new())
            }
            Node::Each { at, list, item, index, body, block } => {
                let value = place.value(list)?;
                let items = match &value {
                    Value::Array(items) => items.as_slice(),
                    Value::Null => &[],
                    Value::String(text) if text.is_empty() => &[],
                    _ => return Err(place.template.source.error(*at, "`arr` of `<ForEach>` is no list")),
                };
                self.each(items, (item, index.as_deref()), body, *block, place)
            }
            Node::Tag { open, children, close } => {
                let mut said = self.nodes(open, place)?;
                said.extend(self.nodes(children, place)?);
                said.push(Piece::Text(close.clone(), 0));
                Ok(said)
            }
            Node::Component { name, at, settings, children, .. } => {
                self.component((name, *at), settings, children, place)
            }
            Node::Otherwise { at, .. } => Err(place.template.source.error(*at, "`<Else>` without an `<If>`")),
        }
    }

    fn children(&mut self, at: usize, place: &Where<'_>) -> Result<Vec<Piece>, PromptError> {
        for piece in place.children {
            if let Piece::Text(text, _) = piece {
                self.bytes = self.bytes.saturating_add(text.len());
            }
            self.step(at, place)?;
        }
        Ok(place.children.to_vec())
    }

    /// The words of children, and their parts if there is more than words.
    fn words(
        &mut self,
        children: &[Node],
        at: usize,
        place: &Where<'_>,
    ) -> Result<(String, Vec<Part>), PromptError> {
        let mut parts: Vec<Part> = Vec::new();
        for piece in self.nodes(children, place)? {
            match (piece, parts.last_mut()) {
                (Piece::Text(text, _), Some(Part::Text(before))) => before.push_str(&text),
                (Piece::Text(text, _), _) => parts.push(Part::Text(text)),
                (Piece::Attached(part, _), _) => parts.push(part),
                (Piece::Message(_) | Piece::Spoken(_), _) => {
                    return Err(place.template.source.error(at, "a message within a message"));
                }
            }
        }
        for part in &mut parts {
            if let Part::Text(text) = part {
                *text = text.trim().to_owned();
            }
        }
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        match &parts[..] {
            [] => Ok((String::new(), Vec::new())),
            [Part::Text(text)] => Ok((text.clone(), Vec::new())),
            _ => Ok((String::new(), parts)),
        }
    }

    fn message(
        &mut self,
        role: Role,
        at: usize,
        children: &[Node],
        place: &Where<'_>,
    ) -> Result<Vec<Piece>, PromptError> {
        if place.inside.is_some() {
            return Err(place.template.source.error(at, "a message within a message"));
        }
        let (text, parts) = self.words(children, at, &Where { inside: Some(role), ..*place })?;
        let content = if parts.is_empty() { Content::Text(text) } else { Content::Parts(parts) };
        Ok(vec![Piece::Message(RichChatMessage { role, content })])
    }

    fn each(
        &mut self,
        items: &[Value],
        (item, index): (&str, Option<&str>),
        body: &[Node],
        block: bool,
        place: &Where<'_>,
    ) -> Result<Vec<Piece>, PromptError> {
        // Paragraphs stay apart, lines stay lines.
        let paragraphs =
            body.iter().any(|node| matches!(node, Node::Text(text, _) if text.trim().contains("\n\n")));
        let between = if paragraphs { "\n\n" } else { "\n" };
        let mut said: Vec<Piece> = Vec::new();
        for (number, value) in items.iter().enumerate() {
            let number = Value::from(number);
            let scope = place.scope.with(item, value);
            let scope = match index {
                Some(name) => scope.with(name, &number),
                None => scope,
            };
            // A loop without a body takes steps as well.
            self.step(0, place)?;
            let mut one = self.nodes(body, &Where { scope: &scope, ..*place })?;
            if block {
                trim(&mut one);
                if one.is_empty() {
                    continue;
                }
                if !said.is_empty() {
                    said.push(Piece::Text(between.to_owned(), 0));
                }
            }
            said.extend(one);
        }
        Ok(said)
    }

    fn component(
        &mut self,
        (name, at): (&str, usize),
        settings: &[(String, Setting)],
        children: &[Node],
        place: &Where<'_>,
    ) -> Result<Vec<Piece>, PromptError> {
        let Some(template) = place.template.imports.get(name) else {
            return Err(place.template.source.error(at, format!("unknown tag: `<{name}>`")));
        };
        let mut given = self.nodes(children, place)?;
        trim(&mut given);
        let mut props = Map::new();
        for (key, setting) in settings {
            props.insert(key.clone(), place.setting(setting)?);
        }
        let words = given.iter().filter_map(|piece| match piece {
            Piece::Text(text, _) => Some(text.as_str()),
            _ => None,
        });
        props.insert("children".to_owned(), Value::from(words.collect::<String>()));
        let props = Value::Object(props);
        let scope = Scope::new("props", &props);
        self.step(at, place)?;
        let inner = Where { template, scope: &scope, children: &given, inside: place.inside };
        let mut said = self.nodes(&template.nodes, &inner)?;
        trim(&mut said);
        // What is said is said here, as far as the file around can tell.
        for piece in &mut said {
            if let Piece::Text(_, place) | Piece::Attached(_, place) = piece {
                *place = at;
            }
        }
        Ok(said)
    }
}

/// What follows a block that says nothing, less the line ends that stand before it already.
fn after_nothing<'t>(text: &'t str, before: &[Piece]) -> &'t str {
    let last = before.iter().rev().find_map(|piece| match piece {
        Piece::Text(text, _) if text.is_empty() => None,
        Piece::Text(text, _) => Some(text.as_str()),
        _ => Some(""),
    });
    let ends = |space: &str| space.matches('\n').count();
    let before = last.map_or(usize::MAX, |last| ends(last.get(last.trim_end().len()..).unwrap_or_default()));
    let space = text.get(..text.len() - text.trim_start().len()).unwrap_or_default();
    let gone = before.min(ends(space));
    let cut = space.match_indices('\n').take(gone).last().map_or(0, |(at, _)| at + 1);
    text.get(cut..).unwrap_or_default()
}

/// Takes away space at both ends.
fn trim(pieces: &mut Vec<Piece>) {
    while let Some(Piece::Text(text, _)) = pieces.last_mut() {
        text.truncate(text.trim_end().len());
        if !text.is_empty() {
            break;
        }
        pieces.pop();
    }
    let blank =
        pieces.iter().take_while(|piece| matches!(piece, Piece::Text(text, _) if text.trim().is_empty()));
    let blank = blank.count();
    pieces.drain(..blank);
    if let Some(Piece::Text(text, _)) = pieces.first_mut() {
        *text = text.trim_start().to_owned();
    }
}
