//! The texts of the case on a tape: what the user wrote, as opposed to what tools return. They are compared verbatim.

use std::collections::{BTreeMap, BTreeSet};

use super::Tape;
use crate::format::record::{CaseRecord, CaseText};
use crate::matching::divergence::{Divergence, DivergenceKind, excerpts};
use crate::replace::TextReplacer;

/// The most bytes of a text that a tape has for messages.
const MAX_TEXT: usize = 16 << 10;
/// The field that is compared first.
const PROMPT: &str = "prompt";

pub(crate) fn record(texts: &BTreeMap<String, String>, secrets: &TextReplacer) -> CaseRecord {
    let fields = texts.iter().map(|(name, text)| (name.clone(), recorded(&secrets.replace(text))));
    CaseRecord { fields: fields.collect() }
}

fn recorded(text: &str) -> CaseText {
    let end = text.floor_char_boundary(MAX_TEXT.min(text.len()));
    CaseText { digest: blake3::hash(text.as_bytes()).to_hex().to_string(), text: text[..end].to_owned() }
}

/// Returns the record with more secrets replaced. The digest of a changed text covers what is left of it.
pub(super) fn redacted(case: &CaseRecord, replacer: &TextReplacer) -> CaseRecord {
    let fields = case.fields.iter().map(|(name, field)| {
        let text = replacer.replace(&field.text);
        (name.clone(), if text == field.text { field.clone() } else { recorded(&text) })
    });
    CaseRecord { fields: fields.collect() }
}

impl Tape {
    /// Returns whether the tape has the texts of its case; tapes of older versions have none.
    #[must_use]
    pub fn has_case(&self) -> bool {
        self.case().is_some()
    }

    /// Returns the first text of a case that differs from the recorded one, or `None` if all are equal or none were recorded.
    /// Secrets must have been replaced in the texts.
    #[must_use]
    pub fn case_difference(&self, texts: &BTreeMap<String, String>) -> Option<Divergence> {
        let case = self.case()?;
        let names: BTreeSet<&String> = case.fields.keys().chain(texts.keys()).collect();
        let mut names: Vec<&String> = names.into_iter().collect();
        names.sort_by_key(|name| name.as_str() != PROMPT);
        names.into_iter().find_map(|name| {
            let (old, new) = (case.fields.get(name), texts.get(name).map(|text| recorded(text)));
            if old.map(|old| &old.digest) == new.as_ref().map(|new| &new.digest) {
                return None;
            }
            let text = |field: Option<&CaseText>| field.map(|field| field.text.clone()).unwrap_or_default();
            let (mut expected, mut actual) = (text(old), text(new.as_ref()));
            if expected == actual {
                let digest =
                    |field: Option<&CaseText>| field.map(|field| field.digest.clone()).unwrap_or_default();
                (expected, actual) = (digest(old), digest(new.as_ref()));
            }
            let (expected, actual) = excerpts(&expected, &actual);
            Some(Divergence {
                tape: self.path().to_owned(),
                lane: None,
                turn: 0,
                kind: DivergenceKind::CaseText,
                part: format!("`{name}`"),
                expected,
                actual,
                tape_is_truncated: false,
            })
        })
    }
}
