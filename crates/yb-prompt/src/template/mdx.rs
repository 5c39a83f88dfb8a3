//! The one place that knows the MDX parser. It tells where tags, expressions and imports are; every other byte of a prompt
//! goes to the model as it was written, so nothing else of Markdown is parsed.

use std::panic::AssertUnwindSafe;

use markdown::{Constructs, MdxExpressionKind, MdxSignal, ParseOptions, mdast};

use super::Node;
use super::convert::{Converter, Import};
use crate::error::{PromptError, Source};
use crate::expression;

/// The longest expression, a function of `<ForEach>` included. The parser asks at every brace whether it is complete.
const MAX_EXPRESSION: usize = 32 * 1024;
/// The parser's tree is as deep as tags are nested, and it is dropped recursively.
const STACK: usize = 256 << 20;

/// What was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) nodes: Vec<Node>,
    pub(super) imports: Vec<Import>,
}

/// Reads a part of a file.
pub(super) fn read(source: &Source, from: usize, to: usize) -> Result<Read, PromptError> {
    // On a stack of its own: no nesting of tags is too deep for it. A panic of the parser stops there too.
    let worker = || std::panic::catch_unwind(AssertUnwindSafe(|| read_here(source, from, to)));
    let told = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, worker);
        thread.map(|thread| thread.join())
    });
    match told {
        Ok(Ok(Ok(read))) => read,
        Ok(_) => Err(source.error_in_line(0, 0, "the file can't be read: the parser of MDX gave up")),
        Err(error) => Err(PromptError::Read { path: source.name.clone(), reason: error.to_string() }),
    }
}

/// As [`read`], within a part that is being read: on its stack, as deep as it is.
pub(super) fn read_nested(
    source: &Source,
    from: usize,
    to: usize,
    depth: usize,
) -> Result<Read, PromptError> {
    read_with(source, from, to, |converter| converter.at_depth(depth).with_indent_of(from, to))
}

fn read_here(source: &Source, from: usize, to: usize) -> Result<Read, PromptError> {
    read_with(source, from, to, |converter| converter)
}

fn read_with<'a>(
    source: &'a Source,
    from: usize,
    to: usize,
    ready: impl FnOnce(Converter<'a>) -> Converter<'a>,
) -> Result<Read, PromptError> {
    let part = source.slice(from, to);
    let masked = mask(part);
    let tree = markdown::to_mdast(&masked, &options()).map_err(|message| {
        let at = message.place.as_ref().map_or(0, |place| match place.as_ref() {
            markdown::message::Place::Position(position) => position.start.offset,
            markdown::message::Place::Point(point) => point.offset,
        });
        let (reason, hint) = reworded(&message);
        let error = source.error(from + at, reason);
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })?;
    let mdast::Node::Root(root) = &tree else { return Ok(Read { nodes: Vec::new(), imports: Vec::new() }) };
    let mut converter = ready(Converter::new(source, from));
    let nodes = converter.nodes(&root.children)?;
    Ok(Read { nodes, imports: converter.imports })
}

fn options() -> ParseOptions {
    let constructs = Constructs {
        attention: false,
        autolink: false,
        block_quote: false,
        character_escape: true,
        character_reference: false,
        code_fenced: true,
        code_text: true,
        definition: false,
        hard_break_escape: false,
        hard_break_trailing: false,
        heading_atx: false,
        heading_setext: false,
        label_start_image: false,
        label_start_link: false,
        label_end: false,
        list_item: false,
        thematic_break: false,
        ..Constructs::mdx()
    };
    ParseOptions {
        constructs,
        mdx_expression_parse: Some(Box::new(check_expression)),
        mdx_esm_parse: Some(Box::new(check_import)),
        ..ParseOptions::mdx()
    }
}

const OURS: &str = "yb";

fn check_expression(text: &str, kind: &MdxExpressionKind) -> MdxSignal {
    let ours = || Box::new(OURS.to_owned());
    if text.len() > MAX_EXPRESSION {
        let message = format!("the expression is longer than {MAX_EXPRESSION} bytes");
        return MdxSignal::Error(message, 0, ours(), ours());
    }
    if matches!(kind, MdxExpressionKind::AttributeExpression) {
        let message = "attributes can't be spread".to_owned();
        return MdxSignal::Error(message, 0, ours(), Box::new("write them one by one".to_owned()));
    }
    let mistake = match expression::arrow(text) {
        Some(Ok(_)) => return MdxSignal::Ok,
        Some(Err(mistake)) => mistake,
        None => match expression::parse(text) {
            Ok(_) => return MdxSignal::Ok,
            Err(mistake) => mistake,
        },
    };
    let hint = Box::new(mistake.hint.unwrap_or_default());
    if mistake.incomplete {
        MdxSignal::Eof(mistake.message, ours(), hint)
    } else {
        MdxSignal::Error(mistake.message, mistake.at, ours(), hint)
    }
}

fn check_import(text: &str) -> MdxSignal {
    let mut at = 0;
    for line in text.split('\n') {
        if !line.trim().is_empty() && super::convert::import(line, at).is_none() {
            let message = "expected `import Name from './file.mdx'`".to_owned();
            let hint = "nothing else can be imported, and nothing exported; to say it, put it into `<User>` and let \
                        it not begin a line with `import` or `export`";
            return MdxSignal::Error(message, at, Box::new(OURS.to_owned()), Box::new(hint.to_owned()));
        }
        at += line.len() + 1;
    }
    MdxSignal::Ok
}

/// What the parser says, in our words; its own are about JavaScript.
fn reworded(message: &markdown::message::Message) -> (String, Option<String>) {
    if *message.source == OURS {
        let hint = message.rule_id.as_str();
        return (message.reason.clone(), (!hint.is_empty() && hint != OURS).then(|| hint.to_owned()));
    }
    let hint = match message.rule_id.as_str() {
        "unexpected-character" | "unexpected-eof" => Some(
            "`<` and `{` begin a tag and an expression; to say them, write `\\<` and `\\{`, or use backticks",
        ),
        _ => None,
    };
    (lower_first(&message.reason), hint.map(str::to_owned))
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_lowercase).collect();
    first + letters.as_str()
}

/// The same text, byte for byte as long, in which what is between `<Raw>` and `</Raw>` is nothing that could be parsed.
fn mask(text: &str) -> String {
    const OPEN: &str = "<Raw>";
    const CLOSE: &str = "</Raw>";
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let Some((raw, behind)) = after.split_once(CLOSE) else { break };
        masked.push_str(before);
        masked.push_str(OPEN);
        for letter in raw.chars() {
            if letter.is_ascii_whitespace() {
                masked.push(letter);
            } else {
                masked.extend(std::iter::repeat_n('x', letter.len_utf8()));
            }
        }
        masked.push_str(CLOSE);
        rest = behind;
    }
    masked.push_str(rest);
    masked
}
