//! Conversion of the MDX parser's tree to template nodes.

use markdown::mdast::{self, AttributeContent, AttributeValue};

use super::{PropValue, TemplateNode, tags};
use crate::error::{PromptError, Source};
use crate::expression::{self, Expression, ExpressionError};

const MAX_DEPTH: usize = 24;

/// `import Name from './file.mdx'`
#[derive(Debug)]
pub(super) struct Import {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) path: String,
}

/// Parses an import in a line at this byte offset.
pub(super) fn parse_import(line: &str, at: usize) -> Option<Import> {
    let rest = line.trim().trim_end_matches(';').strip_prefix("import ")?;
    let (name, path) = rest.split_once(" from ")?;
    let (name, path) = (name.trim(), path.trim());
    let capital = name.starts_with(|c: char| c.is_uppercase()) && name.chars().all(char::is_alphanumeric);
    let quoted = ['"', '\''].iter().find_map(|quote| path.strip_prefix(*quote)?.strip_suffix(*quote));
    let path = quoted.filter(|path| !path.is_empty())?;
    capital.then(|| Import { at, name: name.to_owned(), path: path.to_owned() })
}

pub(super) struct Converter<'a> {
    pub(super) source: &'a Source,
    /// The byte offset of the converted part of the file.
    base: usize,
    pub(super) depth: usize,
    /// The indentation of the enclosing element.
    indent: usize,
    pub(super) imports: Vec<Import>,
}

/// A tag of the MDX parser's tree.
pub(super) struct Element<'n> {
    pub(super) name: Option<&'n str>,
    pub(super) attributes: &'n [AttributeContent],
    pub(super) children: &'n [mdast::Node],
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether the tag is alone on its lines.
    pub(super) block: bool,
}

impl<'a> Converter<'a> {
    pub(super) fn new(source: &'a Source, base: usize) -> Self {
        Self { source, base, depth: 0, indent: 0, imports: Vec::new() }
    }

    pub(super) fn span(&self, node: &mdast::Node) -> (usize, usize) {
        let position = node.position();
        position.map_or((self.base, self.base), |position| {
            (self.base + position.start.offset, self.base + position.end.offset)
        })
    }

    /// Returns the text between two offsets, without the indentation of the enclosing element.
    pub(super) fn verbatim(&self, from: usize, to: usize) -> String {
        let mut text = String::new();
        for (number, line) in self.source.slice(from, to).split('\n').enumerate() {
            if number > 0 {
                text.push('\n');
            }
            let begins = number > 0 || self.line_of(from) == from;
            let most = if begins { self.indent } else { 0 };
            let spaces = line.bytes().take(most).take_while(|byte| b" \t".contains(byte)).count();
            text.push_str(line.get(spaces..).unwrap_or_default());
        }
        text
    }

    /// Converts siblings and the text between them.
    pub(super) fn nodes(&mut self, siblings: &[mdast::Node]) -> Result<Vec<TemplateNode>, PromptError> {
        let mut nodes = Vec::new();
        let mut last = None;
        for sibling in siblings {
            let (from, to) = self.span(sibling);
            if let Some(last) = last {
                push_text(&mut nodes, self.verbatim(last, from), last);
            }
            self.node(sibling, &mut nodes)?;
            last = Some(to);
        }
        tags::join_branches(nodes, self.source)
    }

    fn node(&mut self, node: &mdast::Node, out: &mut Vec<TemplateNode>) -> Result<(), PromptError> {
        let (from, to) = self.span(node);
        match node {
            mdast::Node::MdxjsEsm(_) => self.import_all(from, to),
            mdast::Node::MdxFlowExpression(_) | mdast::Node::MdxTextExpression(_) => {
                let found = self.expression(from + 1, to.saturating_sub(1))?;
                // A comment leaves no empty line.
                let nothing = TemplateNode::Branch {
                    arms: Vec::new(),
                    block: matches!(node, mdast::Node::MdxFlowExpression(_)),
                };
                out.push(found.map_or(nothing, TemplateNode::Expression));
            }
            mdast::Node::MdxJsxFlowElement(element) => {
                let element = Element {
                    name: element.name.as_deref(),
                    attributes: &element.attributes,
                    children: &element.children,
                    from,
                    to,
                    block: true,
                };
                self.element(&element, out)?;
            }
            mdast::Node::MdxJsxTextElement(element) => {
                let element = Element {
                    name: element.name.as_deref(),
                    attributes: &element.attributes,
                    children: &element.children,
                    from,
                    to,
                    block: self.is_alone(from, to),
                };
                self.element(&element, out)?;
            }
            mdast::Node::Text(_) => push_text(out, unescaped(&self.verbatim(from, to)), from),
            other => match other.children() {
                Some(children) if !children.is_empty() => self.container(children, from, to, out)?,
                _ => push_text(out, self.verbatim(from, to), from),
            },
        }
        Ok(())
    }

    /// Converts the children of a text container, such as a paragraph.
    fn container(
        &mut self,
        children: &[mdast::Node],
        from: usize,
        to: usize,
        out: &mut Vec<TemplateNode>,
    ) -> Result<(), PromptError> {
        let begin = children.first().map_or(from, |first| self.span(first).0);
        let end = children.last().map_or(to, |last| self.span(last).1);
        push_text(out, self.verbatim(from, begin), from);
        for node in self.nodes(children)? {
            push(out, node);
        }
        push_text(out, self.verbatim(end, to), end);
        Ok(())
    }

    fn import_all(&mut self, from: usize, to: usize) {
        let mut at = from;
        for line in self.source.slice(from, to).split('\n') {
            self.imports.extend(parse_import(line, at));
            at += line.len() + 1;
        }
    }

    pub(super) fn prompt_error(&self, error: ExpressionError, at: usize) -> PromptError {
        let converted = self.source.error(at, error.message);
        match error.hint {
            Some(hint) => converted.with_hint(hint),
            None => converted,
        }
    }

    pub(super) fn expression(&self, from: usize, to: usize) -> Result<Option<Expression>, PromptError> {
        let text = self.source.slice(from, to);
        if expression::arrow(text).is_some() {
            return Err(self
                .source
                .error(from, "functions are only allowed in `<ForEach>`")
                .with_hint("`<ForEach arr={props.items}>{(item) => (<>- {item}</>)}</ForEach>`"));
        }
        match expression::parse(text) {
            Ok(found) => Ok(found.map(|found| found.shifted(&|at| at + from))),
            Err(error) => {
                let at = from + error.at;
                Err(self.prompt_error(error, at))
            }
        }
    }

    pub(super) fn settings(&self, element: &Element<'_>) -> Result<Vec<(String, PropValue)>, PromptError> {
        let mut settings = Vec::new();
        for attribute in element.attributes {
            let AttributeContent::Property(property) = attribute else { continue };
            let setting = match &property.value {
                None => PropValue::Flag,
                Some(AttributeValue::Literal(text)) => PropValue::Text(text.clone()),
                Some(AttributeValue::Expression(value)) => {
                    // The parser removes indentation from multi-line expressions. The stops map back to offsets.
                    let place = |at: usize| {
                        let stop = value.stops.iter().rev().find(|(relative, _)| *relative <= at);
                        stop.map_or(element.from, |(relative, absolute)| {
                            self.base + absolute + (at - relative)
                        })
                    };
                    let parsed = expression::parse(&value.value).map_err(|error| {
                        let at = place(error.at);
                        self.prompt_error(error, at)
                    })?;
                    match parsed {
                        Some(found) => PropValue::Expression(found.shifted(&place)),
                        None => PropValue::Text(String::new()),
                    }
                }
            };
            if settings.iter().any(|(name, _)| *name == property.name) {
                let message = format!("duplicate attribute: `{}`", property.name);
                return Err(self.source.error(element.from, message));
            }
            settings.push((property.name.clone(), setting));
        }
        Ok(settings)
    }

    fn element(&mut self, element: &Element<'_>, out: &mut Vec<TemplateNode>) -> Result<(), PromptError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("tags are nested more than {MAX_DEPTH} levels deep");
            return Err(self.source.error(element.from, message));
        }
        let indent = self.indent_of(element);
        let outer = std::mem::replace(&mut self.indent, indent);
        let nodes = self.convert_element(element);
        self.indent = outer;
        self.depth -= 1;
        for node in nodes? {
            push(out, node);
        }
        Ok(())
    }

    /// Returns the common indentation of an element's children.
    fn indent_of(&self, element: &Element<'_>) -> usize {
        // A tag for the model is verbatim.
        let foreign = element.name.is_some_and(|name| !name.starts_with(char::is_uppercase));
        if !element.block || foreign {
            return self.indent;
        }
        let (Some(first), Some(last)) = (element.children.first(), element.children.last()) else { return 0 };
        let from = self.span(first).0;
        let line = self.line_of(from);
        // The line of the opening tag does not count.
        let own = usize::from(!self.source.slice(line, from).trim().is_empty());
        let lines = self.source.slice(line, self.span(last).1).split('\n').skip(own);
        let depth = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        lines.filter(|line| !line.trim().is_empty()).map(depth).min().unwrap_or(0)
    }

    /// Returns the start of the line of an offset.
    fn line_of(&self, at: usize) -> usize {
        self.source.slice(0, at).rfind('\n').map_or(0, |end| end + 1)
    }

    /// Returns whether an element is alone on its lines. The parser recognizes blocks only after an empty line.
    fn is_alone(&self, from: usize, to: usize) -> bool {
        let after = self.source.slice(to, self.source.text.len());
        let after = after.split('\n').next().unwrap_or_default();
        self.source.slice(self.line_of(from), from).trim().is_empty() && after.trim().is_empty()
    }

    pub(super) fn at_depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Sets the indentation to that of the lines after the first, whose start is outside the part.
    pub(super) fn with_indent_of(mut self, from: usize, to: usize) -> Self {
        let lines = self.source.slice(from, to).split('\n').skip(1);
        let depth = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        self.indent = lines.filter(|line| !line.trim().is_empty()).map(depth).min().unwrap_or(0);
        self
    }
}

pub(super) fn push(out: &mut Vec<TemplateNode>, node: TemplateNode) {
    match node {
        TemplateNode::Text(text, at) => push_text(out, text, at),
        node => out.push(node),
    }
}

pub(super) fn push_text(out: &mut Vec<TemplateNode>, text: String, at: usize) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(TemplateNode::Text(before, _)) => before.push_str(&text),
        _ => out.push(TemplateNode::Text(text, at)),
    }
}

/// Removes the backslashes of escaped `{`, `}` and `<`.
fn unescaped(text: &str) -> String {
    text.replace("\\{", "{").replace("\\}", "}").replace("\\<", "<")
}
