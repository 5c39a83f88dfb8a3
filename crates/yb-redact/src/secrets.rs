//! The secrets to replace, and their replacement in whole texts.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::MIN_LENGTH;
use crate::automaton::Automaton;
use crate::encodings::patterns;
use crate::scanner::{Group, Scanner};
use crate::stream::StreamRedactor;

/// Secrets by name, ready to be searched. Clones share the data; `Debug` shows only the names.
#[derive(Clone, Default)]
pub struct Secrets(Option<Arc<Data>>);

pub(crate) struct Data {
    names: Vec<String>,
    pub(crate) automaton: Automaton,
    replacements: Vec<String>,
}

impl Data {
    pub(crate) fn replacement(&self, group: &Group) -> &str {
        &self.replacements[group.pattern as usize]
    }
}

/// Where a secret is in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundSecret {
    /// Its bytes, with the whitespace in between.
    pub range: Range<usize>,
    /// `[REDACTED:NAME]`.
    pub replacement: String,
}

impl Secrets {
    /// Creates secrets from names and values. Empty values are ignored; the caller decides whether values shorter than
    /// [`MIN_LENGTH`] are worth replacing.
    pub fn new<N: Into<String>, V: Into<Vec<u8>>>(named: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut values: Vec<Vec<u8>> = Vec::new();
        for (name, value) in named {
            let value: Vec<u8> = value.into();
            if !value.iter().all(u8::is_ascii_whitespace) && !values.contains(&value) {
                names.push(name.into());
                values.push(value);
            }
        }
        if values.is_empty() {
            return Self::default();
        }
        let numbered = values.iter().zip(0_u32..);
        let automaton = Automaton::new(
            numbered.flat_map(|(value, number)| patterns(value).into_iter().map(move |one| (number, one))),
        );
        let replacements = names.iter().map(|name| format!("[REDACTED:{name}]")).collect();
        Self(Some(Arc::new(Data { names, automaton, replacements })))
    }

    /// Creates secrets from the values that are long enough not to match ordinary text.
    pub fn of_safe_length<N: Into<String>, V: Into<Vec<u8>>>(
        named: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let named = named.into_iter().map(|(name, value)| (name, value.into()));
        Self::new(named.filter(|(_, value)| value.len() >= MIN_LENGTH))
    }

    /// Returns whether there is nothing to replace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|data| data.names.iter().map(String::as_str))
    }

    pub(crate) fn data(&self) -> Option<&Arc<Data>> {
        self.0.as_ref()
    }

    /// Returns the secrets in a text, in order and disjoint.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Vec<FoundSecret> {
        let Some(data) = &self.0 else { return Vec::new() };
        let mut scanner = Scanner::default();
        scanner.scan(&data.automaton, text);
        let position = |at: u64| usize::try_from(at).unwrap_or(text.len()).min(text.len());
        let found = scanner.groups.iter().map(|group| FoundSecret {
            range: position(group.from())..position(group.to()),
            replacement: data.replacement(group).to_owned(),
        });
        found.collect()
    }

    /// Returns the bytes with secrets replaced.
    #[must_use]
    pub fn redact_bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let Some(data) = &self.0 else { return Cow::Borrowed(bytes) };
        let mut scanner = Scanner::default();
        scanner.scan(&data.automaton, bytes);
        scanner.add_beginnings(&data.automaton);
        if scanner.groups.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        replace(data, &mut scanner.groups, bytes, 0, &mut |part| out.extend_from_slice(part));
        Cow::Owned(out)
    }

    /// Returns the text with secrets replaced.
    #[must_use]
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A secret that is no UTF-8 may begin or end within a character.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Replaces secrets in all strings and keys of a value. Returns whether anything changed.
    pub fn redact_value(&self, value: &mut Value) -> bool {
        if self.is_empty() {
            return false;
        }
        match value {
            Value::String(text) => match self.redact(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(changed) => {
                    *text = changed;
                    true
                }
            },
            // Not `any`, which would stop at the first change.
            Value::Array(items) => items.iter_mut().fold(false, |any, item| self.redact_value(item) | any),
            Value::Object(fields) => {
                let any = fields.values_mut().fold(false, |any, field| self.redact_value(field) | any);
                self.redact_keys(fields) | any
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Replaces secrets in the keys of an object. Returns whether anything changed.
    pub(crate) fn redact_keys(&self, fields: &mut Map<String, Value>) -> bool {
        let changed: Vec<(String, String)> = fields
            .keys()
            .filter_map(|key| match self.redact(key) {
                Cow::Borrowed(_) => None,
                Cow::Owned(changed) => Some((key.clone(), changed)),
            })
            .collect();
        for (old, new) in &changed {
            if let Some(field) = fields.remove(old) {
                fields.insert(new.clone(), field);
            }
        }
        !changed.is_empty()
    }

    /// Returns a redactor for a stream of bytes.
    #[must_use]
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor::new(self.clone())
    }
}

/// Emits `bytes`, which begin at `from`, with groups replaced: the replacement where the first byte of a group is, and the
/// line breaks within a group as they are.
pub(crate) fn replace(
    data: &Data,
    groups: &mut [Group],
    bytes: &[u8],
    from: u64,
    emit: &mut dyn FnMut(&[u8]),
) {
    let end = from + bytes.len() as u64;
    let index = |at: u64| usize::try_from(at.clamp(from, end) - from).unwrap_or(bytes.len());
    let mut copied = from;
    for group in groups {
        let first = group.from();
        for range in &group.ranges {
            if range.1 <= copied || range.0 >= end {
                continue;
            }
            let before = &bytes[index(copied)..index(range.0)];
            // Spaces within a secret are part of it; line breaks, also escaped ones, are not.
            if range.0 == first || before.iter().any(|byte| matches!(byte, b'\n' | b'\\')) {
                emit_some(before, emit);
            }
            if !std::mem::replace(&mut group.is_marked, true) {
                emit(data.replacements[group.pattern as usize].as_bytes());
            }
            copied = range.1.min(end);
        }
    }
    emit_some(&bytes[index(copied)..], emit);
}

fn emit_some(bytes: &[u8], emit: &mut dyn FnMut(&[u8])) {
    if !bytes.is_empty() {
        emit(bytes);
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}
