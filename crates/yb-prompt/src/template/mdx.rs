//! The only module that uses the MDX parser. The parser locates tags, expressions and imports; the rest of a prompt is
//! verbatim, so no other Markdown is parsed.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;

use markdown::{Constructs, MdxExpressionKind, MdxSignal, ParseOptions, mdast};

use super::TemplateNode;
use super::convert::{Converter, Import};
use crate::error::{PromptError, Source};
use crate::expression;

/// The maximum length of an expression, including a function of `<ForEach>`. The MDX parser checks it for completeness at
/// every brace.
const MAX_EXPRESSION: usize = 32 * 1024;
/// The maximum length of all these checks together. Without it, a file with many closing braces takes quadratic time.
const MAX_CHECKED: usize = 4 << 20;
/// The stack size. The parser's tree is as deep as the tags are nested, and is dropped recursively.
const STACK: usize = 256 << 20;

/// A parsed part of a file.
#[derive(Debug)]
pub(super) struct ParsedPart {
    pub(super) nodes: Vec<TemplateNode>,
    pub(super) imports: Vec<Import>,
}

/// Parses a part of a file.
pub(super) fn parse(source: &Source, from: usize, to: usize) -> Result<ParsedPart, PromptError> {
    // A separate thread has a stack that is large enough for any nesting, and contains panics of the parser.
    let worker = || std::panic::catch_unwind(AssertUnwindSafe(|| parse_here(source, from, to)));
    let result = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, worker);
        thread.map(|thread| thread.join())
    });
    match result {
        Ok(Ok(Ok(parsed))) => parsed,
        Ok(_) => Err(source.error_in_line(0, 0, "the MDX parser failed")),
        Err(error) => Err(PromptError::Read { path: source.name.clone(), reason: error.to_string() }),
    }
}

/// Parses a nested part, on the current stack and with the current depth.
pub(super) fn parse_nested(
    source: &Source,
    from: usize,
    to: usize,
    depth: usize,
) -> Result<ParsedPart, PromptError> {
    parse_with(source, from, to, |converter| converter.at_depth(depth).with_indent_of(from, to))
}

fn parse_here(source: &Source, from: usize, to: usize) -> Result<ParsedPart, PromptError> {
    parse_with(source, from, to, |converter| converter)
}

fn parse_with<'a>(
    source: &'a Source,
    from: usize,
    to: usize,
    ready: impl FnOnce(Converter<'a>) -> Converter<'a>,
) -> Result<ParsedPart, PromptError> {
    let part = source.slice(from, to);
    let masked = mask(part);
    let tree = markdown::to_mdast(&masked, &options()).map_err(|message| {
        let at = message.place.as_ref().map_or(0, |place| match place.as_ref() {
            markdown::message::Place::Position(position) => position.start.offset,
            markdown::message::Place::Point(point) => point.offset,
        });
        let (reason, hint) = rewrite_message(&message);
        let error = source.error(from + at, reason);
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })?;
    let mdast::Node::Root(root) = &tree else {
        return Ok(ParsedPart { nodes: Vec::new(), imports: Vec::new() });
    };
    let mut converter = ready(Converter::new(source, from));
    let nodes = converter.nodes(&root.children)?;
    Ok(ParsedPart { nodes, imports: converter.imports })
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
    let checked = Cell::new(0_usize);
    let check = move |text: &str, kind: &MdxExpressionKind| {
        checked.set(checked.get() + text.len());
        if checked.get() > MAX_CHECKED {
            let message = "too many braces in expressions".to_owned();
            let hint = "to use a brace as text, write `\\{` or `\\}`, or use backticks".to_owned();
            return MdxSignal::Error(message, 0, Box::new(SOURCE.to_owned()), Box::new(hint));
        }
        check_expression(text, kind)
    };
    ParseOptions {
        constructs,
        mdx_expression_parse: Some(Box::new(check)),
        mdx_esm_parse: Some(Box::new(check_import)),
        ..ParseOptions::mdx()
    }
}

const SOURCE: &str = "yb";

fn check_expression(text: &str, kind: &MdxExpressionKind) -> MdxSignal {
    let source = || Box::new(SOURCE.to_owned());
    if text.len() > MAX_EXPRESSION {
        let message = format!("the expression is longer than {MAX_EXPRESSION} bytes");
        return MdxSignal::Error(message, 0, source(), source());
    }
    if matches!(kind, MdxExpressionKind::AttributeExpression) {
        let message = "spread attributes are not supported".to_owned();
        return MdxSignal::Error(
            message,
            0,
            source(),
            Box::new("write the attributes one by one".to_owned()),
        );
    }
    let error = match expression::arrow(text) {
        Some(Ok(_)) => return MdxSignal::Ok,
        Some(Err(error)) => error,
        None => match expression::parse(text) {
            Ok(_) => return MdxSignal::Ok,
            Err(error) => error,
        },
    };
    let hint = Box::new(error.hint.unwrap_or_default());
    if error.incomplete {
        MdxSignal::Eof(error.message, source(), hint)
    } else {
        MdxSignal::Error(error.message, error.at, source(), hint)
    }
}

fn check_import(text: &str) -> MdxSignal {
    let mut at = 0;
    for line in text.split('\n') {
        if !line.trim().is_empty() && super::convert::parse_import(line, at).is_none() {
            let message = "expected `import Name from './file.mdx'`".to_owned();
            let hint = "other imports and exports are not supported; to use the line as text, put it into `<User>` and don't \
                        start it with `import` or `export`";
            return MdxSignal::Error(message, at, Box::new(SOURCE.to_owned()), Box::new(hint.to_owned()));
        }
        at += line.len() + 1;
    }
    MdxSignal::Ok
}

/// Rewrites the parser's messages, which are about JavaScript.
fn rewrite_message(message: &markdown::message::Message) -> (String, Option<String>) {
    if *message.source == SOURCE {
        let hint = message.rule_id.as_str();
        return (message.reason.clone(), (!hint.is_empty() && hint != SOURCE).then(|| hint.to_owned()));
    }
    let hint = match message.rule_id.as_str() {
        "unexpected-character" | "unexpected-eof" => Some(
            "`<` starts a tag and `{` an expression; to use them as text, write `\\<` and `\\{`, or use backticks",
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

/// Masks the content of `<Raw>`, so that it is not parsed. Byte offsets don't change.
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
