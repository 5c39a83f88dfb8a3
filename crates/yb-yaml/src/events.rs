//! Builds the tree of a YAML document from the parser's events, without recursion and within the budgets.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::{
    Entry, Key, MAX_DEPTH, MAX_EXPANDED_BYTES, MAX_NODES, Node, Span, Value, report_duplicate,
    report_too_big, scalar,
};
use crate::diagnostic::{Findings, quoted};

const MERGE: &str = "<<";

pub(super) fn parse(text: &str, found: &mut Findings<'_>) -> Option<Node> {
    let mut tree = Tree { stack: Vec::new(), anchors: HashMap::new(), root: None, spent: Weight::default() };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok((event, span)) => (event, span_of(&span)),
            Err(error) => {
                reword(&error, text, found);
                return None;
            }
        };
        if let Event::DocumentStart(..) = event {
            documents += 1;
            if documents > 1 {
                found
                    .error(span, "", "more than one document in the file")
                    .hint("remove the `---` line, or make it two files");
                return None;
            }
        }
        tree.take(event, span, found)?;
    }
    if tree.root.is_none() {
        found.error(Span::WHOLE, "", "the file is empty").hint("`yb schema` prints what belongs into it");
    }
    tree.root
}

/// What a value costs when an alias repeats it.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    nodes: usize,
    bytes: usize,
}

impl Weight {
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

/// A value that an alias can repeat.
#[derive(Clone)]
struct Anchored {
    node: Node,
    weight: Weight,
    /// Levels below it: an alias far down may not make the tree deeper than a file may be.
    height: usize,
}

struct Tree {
    stack: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    root: Option<Node>,
    spent: Weight,
}

/// A collection whose end has not been seen.
struct Open {
    span: Span,
    anchor: usize,
    /// What was spent when it began.
    before: Weight,
    /// Levels below it, so far.
    height: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: HashMap<String, Span>, merged: Vec<Entry>, next: Next },
}

/// What a mapping makes of the next value.
enum Next {
    Key,
    Value(Key),
    Merge,
    /// The value of a duplicate.
    Dropped,
}

impl Tree {
    /// `None` ends the reading; the reason has been reported.
    fn take(&mut self, event: Event<'_>, span: Span, found: &mut Findings<'_>) -> Option<()> {
        let before = self.spent;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(Weight { nodes: 1, bytes: text.len() }, span, found)?;
                if self.wants_key() {
                    if anchor != 0 {
                        let node = Node { value: Value::Text(text.to_string()), span };
                        let weight = self.spent.minus(before);
                        self.anchors.insert(anchor, Anchored { node, weight, height: 0 });
                    }
                    self.key(text.into_owned(), style == ScalarStyle::Plain, span, found);
                    return Some(());
                }
                let value = value_of(&text, style, tag.as_deref(), span, found);
                self.finish(Node { value, span }, anchor, before, 0, found)
            }
            Event::SequenceStart(_, anchor, _) => self.open(span, anchor, Kind::List(Vec::new()), found),
            Event::MappingStart(_, anchor, _) => {
                let kind = Kind::Map {
                    entries: Vec::new(),
                    seen: HashMap::new(),
                    merged: Vec::new(),
                    next: Next::Key,
                };
                self.open(span, anchor, kind, found)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.stack.pop()?;
                let value = match open.kind {
                    Kind::List(items) => Value::List(items),
                    Kind::Map { mut entries, seen, merged, .. } => {
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
                let Some(Anchored { node, weight, height }) = self.anchors.get(&anchor).cloned() else {
                    found
                        .error(span, "", "an anchor contains an alias of itself")
                        .hint("write the value out instead");
                    return None;
                };
                self.spend(weight, span, found)?;
                if self.stack.len() + height > MAX_DEPTH {
                    report_too_big(found, span);
                    return None;
                }
                if self.wants_key() {
                    let Value::Text(name) = node.value else {
                        return bad_key(span, found);
                    };
                    self.key(name, false, span, found);
                    return Some(());
                }
                self.push(Node { value: node.value, span }, height, found)
            }
            _ => Some(()),
        }
    }

    fn spend(&mut self, weight: Weight, at: Span, found: &mut Findings<'_>) -> Option<()> {
        self.spent = self.spent.plus(weight);
        if self.spent.nodes > MAX_NODES || self.spent.bytes > MAX_EXPANDED_BYTES {
            report_too_big(found, at);
            return None;
        }
        Some(())
    }

    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(Open { kind: Kind::Map { next: Next::Key, .. }, .. }))
    }

    fn open(&mut self, span: Span, anchor: usize, kind: Kind, found: &mut Findings<'_>) -> Option<()> {
        if self.wants_key() {
            return bad_key(span, found);
        }
        let before = self.spent;
        self.spend(Weight { nodes: 1, bytes: 0 }, span, found)?;
        if self.stack.len() >= MAX_DEPTH {
            report_too_big(found, span);
            return None;
        }
        self.stack.push(Open { span, anchor, before, height: 1, kind });
        Some(())
    }

    fn key(&mut self, name: String, plain: bool, span: Span, found: &mut Findings<'_>) {
        let Some(Open { kind: Kind::Map { seen, next, .. }, .. }) = self.stack.last_mut() else { return };
        let key = Key { name, span };
        *next = match seen.get(&key.name) {
            Some(first) => {
                report_duplicate(found, &key, *first);
                Next::Dropped
            }
            None if plain && key.name == MERGE => Next::Merge,
            None => {
                seen.insert(key.name.clone(), span);
                Next::Value(key)
            }
        };
    }

    fn finish(
        &mut self,
        node: Node,
        anchor: usize,
        before: Weight,
        height: usize,
        found: &mut Findings<'_>,
    ) -> Option<()> {
        if anchor != 0 {
            let anchored = Anchored { node: node.clone(), weight: self.spent.minus(before), height };
            self.anchors.insert(anchor, anchored);
        }
        self.push(node, height, found)
    }

    fn push(&mut self, node: Node, height: usize, found: &mut Findings<'_>) -> Option<()> {
        if let Some(open) = self.stack.last_mut() {
            open.height = open.height.max(height + 1);
        }
        match self.stack.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(Kind::List(items)) => items.push(node),
            Some(Kind::Map { entries, merged, next, .. }) => match std::mem::replace(next, Next::Key) {
                Next::Value(key) => entries.push(Entry { key, node }),
                Next::Merge => merge(node, merged, found),
                Next::Dropped => {}
                Next::Key => return bad_key(node.span, found),
            },
        }
        Some(())
    }
}

fn bad_key(span: Span, found: &mut Findings<'_>) -> Option<()> {
    let error = found.error(span, "", "a list or mapping used as a key");
    error.expected("a name").hint("put a value that starts with `{` or `[` in double quotes");
    None
}

/// `<<: *defaults`: what the mapping itself says wins, then the first.
fn merge(node: Node, merged: &mut Vec<Entry>, found: &mut Findings<'_>) {
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
    found: &mut Findings<'_>,
) -> Value {
    let value = match tag.and_then(Tag::core_suffix) {
        Some(suffix) => scalar::tagged(suffix, text).unwrap_or_else(|| {
            found.error(span, "", format!("the text does not fit its tag `!!{suffix}`: {}", quoted(text)));
            Value::Null
        }),
        None if style == ScalarStyle::Plain && tag.is_none() => scalar::plain(text),
        None => Value::Text(text.to_owned()),
    };
    match value {
        Value::Float(number) if !number.is_finite() => {
            found
                .error(span, "", format!("not a finite number: {}", quoted(text)))
                .expected("a number, or a text in double quotes");
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

/// The library's texts talk about its grammar; these talk about the file.
fn reword(error: &ScanError, text: &str, found: &mut Findings<'_>) {
    let at = Span::new(error.marker().line(), error.marker().col() + 1, 1);
    let said = error.info().replace('\'', "`");
    let finding = found.error(at, "", format!("not valid YAML: {said}"));
    if let Some(hint) = hint_for_line(text, at.line) {
        finding.hint(hint);
    }
}

/// The mistakes that YAML invites, recognised by the line on which the parser stopped.
fn hint_for_line(text: &str, number: usize) -> Option<&'static str> {
    let index = number.checked_sub(1)?;
    let near = [text.lines().nth(index), index.checked_sub(1).and_then(|before| text.lines().nth(before))];
    near.into_iter().flatten().find_map(|line| {
        let value = line.split_once(": ").map_or(line, |(_, value)| value).trim_start();
        let indent: String = line.chars().take_while(|letter| letter.is_whitespace()).collect();
        if indent.contains('\t') {
            Some("indent with spaces; YAML does not allow tabs")
        } else if value.contains(": ") && !value.starts_with(['"', '\'', '{', '[', '|', '>']) {
            Some("put a text that contains `: ` in double quotes")
        } else {
            None
        }
    })
}
