//! A prompt file as a tree: words, expressions, messages and what decides between them.

mod convert;
mod element;
mod mdx;
mod render;
mod tags;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{PromptError, Source};
use crate::expression::Expression;
use crate::loader::Loader;
use crate::message::Role;

pub(crate) use render::render;

/// A larger file is refused unread.
pub(crate) const MAX_BYTES: usize = 256 * 1024;
/// How deep imports may go.
const MAX_IMPORTS: usize = 8;
/// How many files one prompt may be made of; without a limit a few small ones could be read millions of times.
const MAX_FILES: usize = 256;

/// One file, with those that it imports.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) source: Source,
    pub(crate) nodes: Vec<Node>,
    pub(crate) imports: BTreeMap<String, Arc<Template>>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// Words, and where they begin.
    Text(String, usize),
    Expression(Expression),
    Message {
        role: Role,
        at: usize,
        children: Vec<Node>,
    },
    /// What an image or speech prompt says.
    Spoken {
        at: usize,
        children: Vec<Node>,
    },
    Attachment {
        kind: Attached,
        at: usize,
        data: Setting,
        media_type: Option<Setting>,
    },
    Branch {
        arms: Vec<(Option<Expression>, Vec<Node>)>,
        block: bool,
    },
    /// Only while a file is read: an `<ElseIf>` or `<Else>` that has not found its `<If>`.
    Otherwise {
        at: usize,
        condition: Option<Expression>,
        children: Vec<Node>,
    },
    Each {
        at: usize,
        list: Expression,
        item: String,
        index: Option<String>,
        body: Vec<Node>,
        block: bool,
    },
    /// A tag that is none of ours, which goes to the model as it is.
    Tag {
        open: Vec<Node>,
        children: Vec<Node>,
        close: String,
    },
    Component {
        name: String,
        at: usize,
        settings: Vec<(String, Setting)>,
        children: Vec<Node>,
        block: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attached {
    Image,
    File,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Setting {
    /// An attribute without a value.
    Flag,
    Text(String),
    Expression(Expression),
}

impl Template {
    /// Reads a template and everything that it imports. `from` is where its words begin, after its header.
    pub(crate) fn parse(source: Source, from: usize, loader: &dyn Loader) -> Result<Arc<Self>, PromptError> {
        let mut reading = Reading { loader, open: vec![source.name.clone()], read: 1 };
        reading.template(source, from)
    }
}

/// The files that are being read.
struct Reading<'a> {
    loader: &'a dyn Loader,
    open: Vec<String>,
    read: usize,
}

impl Reading<'_> {
    fn template(&mut self, source: Source, from: usize) -> Result<Arc<Template>, PromptError> {
        let read = mdx::read(&source, from, source.text.len())?;
        let mut imports = BTreeMap::new();
        for import in &read.imports {
            let refuse = |message: String| Err(source.error(import.at, message));
            if imports.contains_key(&import.name) {
                return refuse(format!("imported twice: `{}`", import.name));
            }
            let path = self.loader.resolve(&source.name, &import.path).map_err(|reason| {
                source.error(import.at, format!("can't import `{}`: {reason}", import.path))
            })?;
            if self.open.contains(&path) {
                let chain = [&self.open[..], &[path]].concat().join("` → `");
                return refuse(format!("imports in a circle: `{chain}`"));
            }
            self.read += 1;
            if self.open.len() > MAX_IMPORTS || self.read > MAX_FILES {
                let message =
                    format!("too many imports: at most {MAX_IMPORTS} deep, {MAX_FILES} files in all");
                return refuse(message);
            }
            let text = self.loader.load(&path).map_err(|reason| {
                source.error(import.at, format!("can't import `{}`: {reason}", import.path))
            })?;
            let imported = source_of(&path, &text)?;
            let header = crate::header::split(&imported.text).map_or(0, |header| header.end);
            self.open.push(path);
            imports.insert(import.name.clone(), self.template(imported, header)?);
            self.open.pop();
        }
        check_names(&read.nodes, &imports, &source)?;
        Ok(Arc::new(Template { source, nodes: read.nodes, imports }))
    }
}

/// The text of a file as it is read: without a byte order mark, with one kind of line ends.
pub(crate) fn source_of(name: &str, text: &str) -> Result<Source, PromptError> {
    let source = Source {
        name: name.to_owned(),
        text: text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n"),
    };
    if source.text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, at most {MAX_BYTES} are possible", source.text.len());
        return Err(source.error_in_line(0, 0, message).with_hint("give long texts as props"));
    }
    Ok(source)
}

/// Whether every capitalised tag that is none of ours was imported.
fn check_names(
    nodes: &[Node],
    imports: &BTreeMap<String, Arc<Template>>,
    source: &Source,
) -> Result<(), PromptError> {
    for node in nodes {
        if let Node::Component { name, at, .. } = node
            && !imports.contains_key(name)
        {
            let known = tags::KNOWN.iter().copied().chain(imports.keys().map(String::as_str));
            let near = known.min_by_key(|known| strsim::levenshtein(known, name));
            let hint = match near.filter(|near| strsim::levenshtein(near, name) <= 2) {
                Some(near) => format!("did you mean `<{near}>`?"),
                None => format!("import it: `import {name} from './{}.mdx'`", name.to_lowercase()),
            };
            return Err(source.error(*at, format!("unknown tag: `<{name}>`")).with_hint(hint));
        }
        match node {
            Node::Message { children, .. }
            | Node::Spoken { children, .. }
            | Node::Otherwise { children, .. }
            | Node::Tag { children, .. }
            | Node::Component { children, .. }
            | Node::Each { body: children, .. } => check_names(children, imports, source)?,
            Node::Branch { arms, .. } => {
                for (_, children) in arms {
                    check_names(children, imports, source)?;
                }
            }
            Node::Text(..) | Node::Expression(_) | Node::Attachment { .. } => {}
        }
    }
    Ok(())
}
