//! A prompt file as a tree: text, expressions, messages, branches, loops and components.

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

/// The maximum size of a file.
pub(crate) const MAX_BYTES: usize = 256 * 1024;
/// The maximum depth of imports.
const MAX_IMPORTS: usize = 8;
/// The maximum number of files of a prompt. Without a limit a few small files could be read millions of times.
const MAX_FILES: usize = 256;

/// A file with its imports.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) source: Source,
    pub(crate) nodes: Vec<TemplateNode>,
    pub(crate) imports: BTreeMap<String, Arc<Template>>,
}

/// A node of a template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TemplateNode {
    /// Text and its byte offset.
    Text(String, usize),
    Expression(Expression),
    Message {
        role: Role,
        at: usize,
        children: Vec<TemplateNode>,
    },
    /// The content of `<ImagePrompt>` or `<SpeechPrompt>`.
    MediaPrompt {
        at: usize,
        children: Vec<TemplateNode>,
    },
    Attachment {
        kind: AttachmentKind,
        at: usize,
        data: PropValue,
        media_type: Option<PropValue>,
    },
    Branch {
        arms: Vec<(Option<Expression>, Vec<TemplateNode>)>,
        block: bool,
    },
    /// An `<ElseIf>` or `<Else>`, until parsing attaches it to its `<If>`.
    ElseBranch {
        at: usize,
        condition: Option<Expression>,
        children: Vec<TemplateNode>,
    },
    ForEach {
        at: usize,
        list: Expression,
        item: String,
        index: Option<String>,
        body: Vec<TemplateNode>,
        block: bool,
    },
    /// Any other tag, which is passed to the model verbatim.
    Tag {
        open: Vec<TemplateNode>,
        children: Vec<TemplateNode>,
        close: String,
    },
    Component {
        name: String,
        at: usize,
        settings: Vec<(String, PropValue)>,
        children: Vec<TemplateNode>,
        block: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachmentKind {
    Image,
    File,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PropValue {
    /// An attribute without a value.
    Flag,
    Text(String),
    Expression(Expression),
}

impl Template {
    /// Parses a template and its imports. `from` is the start of its body, after the header.
    pub(crate) fn parse(source: Source, from: usize, loader: &dyn Loader) -> Result<Arc<Self>, PromptError> {
        let mut imports = ImportLoader { loader, open: vec![source.name.clone()], loaded: 1 };
        imports.load(source, from)
    }
}

/// Loads imports, with the chain of files being loaded.
struct ImportLoader<'a> {
    loader: &'a dyn Loader,
    open: Vec<String>,
    loaded: usize,
}

impl ImportLoader<'_> {
    fn load(&mut self, source: Source, from: usize) -> Result<Arc<Template>, PromptError> {
        let parsed = mdx::parse(&source, from, source.text.len())?;
        let mut imports = BTreeMap::new();
        for import in &parsed.imports {
            let refuse = |message: String| Err(source.error(import.at, message));
            if imports.contains_key(&import.name) {
                return refuse(format!("duplicate import: `{}`", import.name));
            }
            let path = self.loader.resolve(&source.name, &import.path).map_err(|reason| {
                source.error(import.at, format!("failed to import `{}`: {reason}", import.path))
            })?;
            if self.open.contains(&path) {
                let chain = [&self.open[..], &[path]].concat().join("` → `");
                return refuse(format!("circular import: `{chain}`"));
            }
            self.loaded += 1;
            if self.open.len() > MAX_IMPORTS || self.loaded > MAX_FILES {
                let message =
                    format!("too many imports: at most {MAX_IMPORTS} deep, {MAX_FILES} files in all");
                return refuse(message);
            }
            let text = self.loader.load(&path).map_err(|reason| {
                source.error(import.at, format!("failed to import `{}`: {reason}", import.path))
            })?;
            let imported = normalize_source(&path, &text)?;
            let header = crate::header::find_header(&imported.text).map_or(0, |header| header.end);
            self.open.push(path);
            imports.insert(import.name.clone(), self.load(imported, header)?);
            self.open.pop();
        }
        check_components(&parsed.nodes, &imports, &source)?;
        Ok(Arc::new(Template { source, nodes: parsed.nodes, imports }))
    }
}

/// Normalizes the text of a file: no byte order mark, `\n` line endings.
pub(crate) fn normalize_source(name: &str, text: &str) -> Result<Source, PromptError> {
    let source = Source {
        name: name.to_owned(),
        text: text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n"),
    };
    if source.text.len() > MAX_BYTES {
        let message = format!("file is too large: {} bytes (maximum {MAX_BYTES})", source.text.len());
        return Err(source.error_in_line(0, 0, message).with_hint("pass long texts as props"));
    }
    Ok(source)
}

/// Checks that every component is imported.
fn check_components(
    nodes: &[TemplateNode],
    imports: &BTreeMap<String, Arc<Template>>,
    source: &Source,
) -> Result<(), PromptError> {
    for node in nodes {
        if let TemplateNode::Component { name, at, .. } = node
            && !imports.contains_key(name)
        {
            let known = tags::KNOWN.iter().copied().chain(imports.keys().map(String::as_str));
            let hint = match yb_yaml::diagnostic::nearest(name, known) {
                Some(near) => format!("did you mean `<{near}>`?"),
                None => format!("import it: `import {name} from './{}.mdx'`", name.to_lowercase()),
            };
            return Err(source.error(*at, format!("unknown tag: `<{name}>`")).with_hint(hint));
        }
        match node {
            TemplateNode::Message { children, .. }
            | TemplateNode::MediaPrompt { children, .. }
            | TemplateNode::ElseBranch { children, .. }
            | TemplateNode::Tag { children, .. }
            | TemplateNode::Component { children, .. }
            | TemplateNode::ForEach { body: children, .. } => check_components(children, imports, source)?,
            TemplateNode::Branch { arms, .. } => {
                for (_, children) in arms {
                    check_components(children, imports, source)?;
                }
            }
            TemplateNode::Text(..) | TemplateNode::Expression(_) | TemplateNode::Attachment { .. } => {}
        }
    }
    Ok(())
}
