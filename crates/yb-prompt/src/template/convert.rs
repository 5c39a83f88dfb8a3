//! From the parser's tree to ours: verbatim text, expressions, and tags that mean something.

use markdown::mdast::{self, AttributeContent, AttributeValue};

use super::{Node, Setting, tags};
use crate::error::{PromptError, Source};
use crate::expression::{self, Expression, Mistake};

const MAX_DEPTH: usize = 24;

/// `import Name from './file.mdx'`
#[derive(Debug)]
pub(super) struct Import {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) path: String,
}

/// The import in a line that begins at this byte.
pub(super) fn import(line: &str, at: usize) -> Option<Import> {
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
    /// Where the part of the file begins that is converted.
    base: usize,
    pub(super) depth: usize,
    /// How far the lines of the element around are indented.
    indent: usize,
    pub(super) imports: Vec<Import>,
}

/// A tag, as the parser gives it.
pub(super) struct Element<'n> {
    pub(super) name: Option<&'n str>,
    pub(super) attributes: &'n [AttributeContent],
    pub(super) children: &'n [mdast::Node],
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether nothing else stands in its lines.
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

    /// The words between two bytes, less the indentation of the element around.
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

    /// Siblings with everything that stands between them.
    pub(super) fn nodes(&mut self, siblings: &[mdast::Node]) -> Result<Vec<Node>, PromptError> {
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

    fn node(&mut self, node: &mdast::Node, out: &mut Vec<Node>) -> Result<(), PromptError> {
        let (from, to) = self.span(node);
        match node {
            mdast::Node::MdxjsEsm(_) => self.import_all(from, to),
            mdast::Node::MdxFlowExpression(_) | mdast::Node::MdxTextExpression(_) => {
                let found = self.expression(from + 1, to.saturating_sub(1))?;
                // A comment leaves no empty line behind.
                let nothing = Node::Branch {
                    arms: Vec::new(),
                    block: matches!(node, mdast::Node::MdxFlowExpression(_)),
                };
                out.push(found.map_or(nothing, Node::Expression));
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
                Some(children) if !children.is_empty() => self.around(children, from, to, out)?,
                _ => push_text(out, self.verbatim(from, to), from),
            },
        }
        Ok(())
    }

    /// The children of something that is itself but words, such as a paragraph.
    fn around(
        &mut self,
        children: &[mdast::Node],
        from: usize,
        to: usize,
        out: &mut Vec<Node>,
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
            self.imports.extend(import(line, at));
            at += line.len() + 1;
        }
    }

    pub(super) fn mistake(&self, mistake: Mistake, at: usize) -> PromptError {
        let error = self.source.error(at, mistake.message);
        match mistake.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    pub(super) fn expression(&self, from: usize, to: usize) -> Result<Option<Expression>, PromptError> {
        let text = self.source.slice(from, to);
        if expression::arrow(text).is_some() {
            return Err(self
                .source
                .error(from, "a function outside of `<ForEach>`")
                .with_hint("`<ForEach arr={props.items}>{(item) => (<>- {item}</>)}</ForEach>`"));
        }
        match expression::parse(text) {
            Ok(found) => Ok(found.map(|found| found.shifted(&|at| at + from))),
            Err(mistake) => {
                let at = from + mistake.at;
                Err(self.mistake(mistake, at))
            }
        }
    }

    pub(super) fn settings(&self, element: &Element<'_>) -> Result<Vec<(String, Setting)>, PromptError> {
        let mut settings = Vec::new();
        for attribute in element.attributes {
            let AttributeContent::Property(property) = attribute else { continue };
            let setting = match &property.value {
                None => Setting::Flag,
                Some(AttributeValue::Literal(text)) => Setting::Text(text.clone()),
                Some(AttributeValue::Expression(value)) => {
                    // The parser takes indentation away from long expressions; the stops say where each line was.
                    let place = |at: usize| {
                        let stop = value.stops.iter().rev().find(|(relative, _)| *relative <= at);
                        stop.map_or(element.from, |(relative, absolute)| {
                            self.base + absolute + (at - relative)
                        })
                    };
                    let parsed = expression::parse(&value.value).map_err(|mistake| {
                        let at = place(mistake.at);
                        self.mistake(mistake, at)
                    })?;
                    match parsed {
                        Some(found) => Setting::Expression(found.shifted(&place)),
                        None => Setting::Text(String::new()),
                    }
                }
            };
            if settings.iter().any(|(name, _)| *name == property.name) {
                let message = format!("attribute given twice: `{}`", property.name);
                return Err(self.source.error(element.from, message));
            }
            settings.push((property.name.clone(), setting));
        }
        Ok(settings)
    }

    fn element(&mut self, element: &Element<'_>, out: &mut Vec<Node>) -> Result<(), PromptError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("tags are nested more than {MAX_DEPTH} deep");
            return Err(self.source.error(element.from, message));
        }
        let indent = self.indent_of(element);
        let outer = std::mem::replace(&mut self.indent, indent);
        let nodes = self.element_in(element);
        self.indent = outer;
        self.depth -= 1;
        for node in nodes? {
            push(out, node);
        }
        Ok(())
    }

    /// By how much every line of an element's children is indented.
    fn indent_of(&self, element: &Element<'_>) -> usize {
        // A tag that goes to the model stands as it was written.
        let foreign = element.name.is_some_and(|name| !name.starts_with(char::is_uppercase));
        if !element.block || foreign {
            return self.indent;
        }
        let (Some(first), Some(last)) = (element.children.first(), element.children.last()) else { return 0 };
        let from = self.span(first).0;
        let line = self.line_of(from);
        // A line that begins with the tag says nothing about what is in it.
        let own = usize::from(!self.source.slice(line, from).trim().is_empty());
        let lines = self.source.slice(line, self.span(last).1).split('\n').skip(own);
        let depth = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        lines.filter(|line| !line.trim().is_empty()).map(depth).min().unwrap_or(0)
    }

    /// Where the line of a byte begins.
    fn line_of(&self, at: usize) -> usize {
        self.source.slice(0, at).rfind('\n').map_or(0, |end| end + 1)
    }

    /// Whether nothing else stands in the lines of an element. The parser tells blocks only after an empty line.
    fn is_alone(&self, from: usize, to: usize) -> bool {
        let after = self.source.slice(to, self.source.text.len());
        let after = after.split('\n').next().unwrap_or_default();
        self.source.slice(self.line_of(from), from).trim().is_empty() && after.trim().is_empty()
    }

    pub(super) fn at_depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Where the first line of a part begins is not known to the part: its indentation is that of its lines.
    pub(super) fn with_indent_of(mut self, from: usize, to: usize) -> Self {
        let lines = self.source.slice(from, to).split('\n').skip(1);
        let depth = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        self.indent = lines.filter(|line| !line.trim().is_empty()).map(depth).min().unwrap_or(0);
        self
    }
}

pub(super) fn push(out: &mut Vec<Node>, node: Node) {
    match node {
        Node::Text(text, at) => push_text(out, text, at),
        node => out.push(node),
    }
}

pub(super) fn push_text(out: &mut Vec<Node>, text: String, at: usize) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(Node::Text(before, _)) => before.push_str(&text),
        _ => out.push(Node::Text(text, at)),
    }
}

/// What had to be written with a backslash, because it would begin a tag or an expression.
fn unescaped(text: &str) -> String {
    text.replace("\\{", "{").replace("\\}", "}").replace("\\<", "<")
}
