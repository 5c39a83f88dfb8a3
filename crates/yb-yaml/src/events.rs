//! YAML: builds the tree from the events of the parser, without recursion and within the limits.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::{
    Entry, Key, MAX_DEPTH, MAX_EXPANDED_BYTES, Node, ParseOptions, Span, Value, report_duplicate, scalar,
};
use crate::diagnostic::{Diagnostics, quoted};

const MERGE: &str = "<<";

pub(super) fn parse(text: &str, options: &ParseOptions, found: &mut Diagnostics<'_>) -> Option<Node> {
    let mut tree = TreeBuilder {
        text,
        options,
        stack: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        spent: ExpansionCost::default(),
    };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok((event, span)) => (event, span_of(&span)),
            Err(error) => {
                report_syntax_error(&error, text, found);
                return None;
            }
        };
        if let Event::DocumentStart(..) = event {
            documents += 1;
            if documents > 1 {
                let message = format!("more than one document in the {}", options.subject);
                found.error(span, "", message).hint("remove the `---` line, or use two files");
                return None;
            }
        }
        tree.add_event(event, span, found)?;
    }
    if tree.root.is_none() {
        options.report_empty(found);
    }
    tree.root
}

/// The share of the limits that a value uses, also when an alias repeats it.
#[derive(Debug, Clone, Copy, Default)]
struct ExpansionCost {
    nodes: usize,
    bytes: usize,
}

impl ExpansionCost {
    fn plus(self, other: Self) -> Self {
        Self { nodes: self.nodes.saturating_add(other.nodes), bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn minus(self, earlier: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_sub(earlier.nodes),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

/// A value with an anchor.
#[derive(Clone)]
struct AnchoredNode {
    node: Node,
    cost: ExpansionCost,
    /// The number of levels below it: an alias must not make the tree deeper than the limit.
    height: usize,
}

struct TreeBuilder<'a> {
    text: &'a str,
    options: &'a ParseOptions,
    stack: Vec<OpenCollection>,
    anchors: HashMap<usize, AnchoredNode>,
    root: Option<Node>,
    spent: ExpansionCost,
}

/// A collection whose end has not been reached.
struct OpenCollection {
    span: Span,
    anchor: usize,
    /// The cost of everything before it.
    before: ExpansionCost,
    /// The number of levels below it so far.
    height: usize,
    kind: CollectionKind,
}

enum CollectionKind {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: HashMap<String, Span>, merged: Vec<Entry>, next: NextRole },
}

/// The role of the next value in a mapping.
enum NextRole {
    Key,
    Value(Key),
    /// The value of `<<`.
    Merge,
    /// The value of a duplicate key.
    Ignored,
}

impl TreeBuilder<'_> {
    /// Returns `None` after a fatal error, which has been reported.
    fn add_event(&mut self, event: Event<'_>, span: Span, found: &mut Diagnostics<'_>) -> Option<()> {
        let before = self.spent;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(ExpansionCost { nodes: 1, bytes: text.len() }, span, found)?;
                if self.wants_key() {
                    if anchor != 0 {
                        let node = Node { value: Value::Text(text.to_string()), span };
                        let cost = self.spent.minus(before);
                        self.anchors.insert(anchor, AnchoredNode { node, cost, height: 0 });
                    }
                    self.key(text.into_owned(), style == ScalarStyle::Plain, span, found);
                    return Some(());
                }
                let value = value_of(&text, style, tag.as_deref(), span, found);
                self.finish(Node { value, span }, anchor, before, 0, found)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(span, anchor, CollectionKind::List(Vec::new()), found)
            }
            Event::MappingStart(_, anchor, _) => {
                let kind = CollectionKind::Map {
                    entries: Vec::new(),
                    seen: HashMap::new(),
                    merged: Vec::new(),
                    next: NextRole::Key,
                };
                self.open(span, anchor, kind, found)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.stack.pop()?;
                let value = match open.kind {
                    CollectionKind::List(items) => Value::List(items),
                    CollectionKind::Map { mut entries, seen, merged, .. } => {
                        let mut names: std::collections::HashSet<String> = seen.into_keys().collect();
                        entries
                            .extend(merged.into_iter().filter(|entry| names.insert(entry.key.name.clone())));
                        Value::Map(entries)
                    }
                };
                let node = Node { value, span: open.span };
                self.finish(node, open.anchor, open.before, open.height, found)
            }
            Event::Alias(anchor) => {
                let Some(AnchoredNode { node, cost, height }) = self.anchors.get(&anchor).cloned() else {
                    found
                        .error(span, "", "an anchor contains an alias of itself")
                        .hint("repeat the value instead");
                    return None;
                };
                self.spend(cost, span, found)?;
                if self.stack.len() + height > MAX_DEPTH {
                    self.options.report_limit(found, span);
                    return None;
                }
                if self.wants_key() {
                    let Value::Text(name) = node.value else {
                        return self.bad_key(span, found);
                    };
                    self.key(name, false, span, found);
                    return Some(());
                }
                self.push(Node { value: node.value, span }, height, found)
            }
            _ => Some(()),
        }
    }

    fn spend(&mut self, cost: ExpansionCost, at: Span, found: &mut Diagnostics<'_>) -> Option<()> {
        self.spent = self.spent.plus(cost);
        if self.spent.nodes > self.options.max_nodes || self.spent.bytes > MAX_EXPANDED_BYTES {
            self.options.report_limit(found, at);
            return None;
        }
        Some(())
    }

    fn wants_key(&self) -> bool {
        matches!(
            self.stack.last(),
            Some(OpenCollection { kind: CollectionKind::Map { next: NextRole::Key, .. }, .. })
        )
    }

    fn open(
        &mut self,
        span: Span,
        anchor: usize,
        kind: CollectionKind,
        found: &mut Diagnostics<'_>,
    ) -> Option<()> {
        if self.wants_key() {
            return self.bad_key(span, found);
        }
        let before = self.spent;
        self.spend(ExpansionCost { nodes: 1, bytes: 0 }, span, found)?;
        if self.stack.len() >= MAX_DEPTH {
            self.options.report_limit(found, span);
            return None;
        }
        self.stack.push(OpenCollection { span, anchor, before, height: 1, kind });
        Some(())
    }

    fn key(&mut self, name: String, plain: bool, span: Span, found: &mut Diagnostics<'_>) {
        let Some(OpenCollection { kind: CollectionKind::Map { seen, next, .. }, .. }) = self.stack.last_mut()
        else {
            return;
        };
        let key = Key { name, span };
        *next = match seen.get(&key.name) {
            Some(first) => {
                report_duplicate(found, &key, *first);
                NextRole::Ignored
            }
            None if plain && key.name == MERGE => NextRole::Merge,
            None => {
                seen.insert(key.name.clone(), span);
                NextRole::Value(key)
            }
        };
    }

    fn finish(
        &mut self,
        node: Node,
        anchor: usize,
        before: ExpansionCost,
        height: usize,
        found: &mut Diagnostics<'_>,
    ) -> Option<()> {
        if anchor != 0 {
            let anchored = AnchoredNode { node: node.clone(), cost: self.spent.minus(before), height };
            self.anchors.insert(anchor, anchored);
        }
        self.push(node, height, found)
    }

    fn push(&mut self, node: Node, height: usize, found: &mut Diagnostics<'_>) -> Option<()> {
        if let Some(open) = self.stack.last_mut() {
            open.height = open.height.max(height + 1);
        }
        match self.stack.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(CollectionKind::List(items)) => items.push(node),
            Some(CollectionKind::Map { entries, merged, next, .. }) => {
                match std::mem::replace(next, NextRole::Key) {
                    NextRole::Value(key) => entries.push(Entry { key, node }),
                    NextRole::Merge => merge(node, merged, found),
                    NextRole::Ignored => {}
                    NextRole::Key => return self.bad_key(node.span, found),
                }
            }
        }
        Some(())
    }

    fn bad_key(&self, span: Span, found: &mut Diagnostics<'_>) -> Option<()> {
        let hint = hint_for_line(self.text, span.line);
        let error = found.error(span, "", "a list or mapping used as a key").expected("a name");
        error.hint(hint.unwrap_or("put a value that starts with `{` or `[` in double quotes"));
        None
    }
}

/// Merges `<<: *defaults`. The keys of the mapping itself take precedence, then those of the first merged mapping.
fn merge(node: Node, merged: &mut Vec<Entry>, found: &mut Diagnostics<'_>) {
    let span = node.span;
    match node.value {
        Value::Map(entries) => merged.extend(entries),
        Value::List(items) if items.iter().all(|item| matches!(item.value, Value::Map(_))) => {
            for item in items {
                merge(item, merged, found);
            }
        }
        _ => {
            found
                .error(span, MERGE, "only a mapping can be merged")
                .expected("an alias of a mapping, or a list of them");
        }
    }
}

fn value_of(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    span: Span,
    found: &mut Diagnostics<'_>,
) -> Value {
    let value = match tag.and_then(Tag::core_suffix) {
        Some(suffix) => scalar::tagged(suffix, text).unwrap_or_else(|| {
            found.error(span, "", format!("invalid value for the tag `!!{suffix}`: {}", quoted(text)));
            Value::Null
        }),
        None if style == ScalarStyle::Plain && tag.is_none() => scalar::parse_plain_scalar(text),
        None => Value::Text(text.to_owned()),
    };
    match value {
        Value::Float(number) if !number.is_finite() => {
            found
                .error(span, "", format!("not a finite number: {}", quoted(text)))
                .expected("a number, or a string in double quotes");
            Value::Null
        }
        value => value,
    }
}

fn span_of(span: &granit_parser::Span) -> Span {
    let width = if span.start.line() == span.end.line() {
        span.end.col().saturating_sub(span.start.col())
    } else {
        1
    };
    Span::new(span.start.line(), span.start.col() + 1, width.max(1))
}

/// Reports an error of the parser.
fn report_syntax_error(error: &ScanError, text: &str, found: &mut Diagnostics<'_>) {
    let at = Span::new(error.marker().line(), error.marker().col() + 1, 1);
    if error.info().contains("unknown anchor") {
        found.error(at, "", "alias of an anchor that does not exist");
        return;
    }
    let reason = error.info().replace('\'', "`");
    let diagnostic = found.error(at, "", format!("not valid YAML: {reason}"));
    if let Some(hint) = hint_for_line(text, at.line) {
        diagnostic.hint(hint);
    }
}

/// Returns a hint for common syntax errors, based on the line where the parser stopped and the line before it.
fn hint_for_line(text: &str, number: usize) -> Option<&'static str> {
    let index = number.checked_sub(1)?;
    let near = [text.lines().nth(index), index.checked_sub(1).and_then(|before| text.lines().nth(before))];
    near.into_iter().flatten().find_map(|line| {
        let value = line.split_once(": ").map_or(line, |(_, value)| value).trim_start();
        let indent: String = line.chars().take_while(|letter| letter.is_whitespace()).collect();
        if indent.contains('\t') {
            Some("indent with spaces; YAML does not allow tabs")
        } else if line.contains(": {{") || value.starts_with("{{") {
            Some("put a value that starts with `{{` in double quotes")
        } else if value.contains(": ") && !value.starts_with(['"', '\'', '{', '[', '|', '>']) {
            Some("put a string that contains `: ` in double quotes")
        } else {
            None
        }
    })
}
