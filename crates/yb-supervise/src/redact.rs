//! Replaces known secrets in a byte stream, also across chunk boundaries.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

/// Minimum length of a secret. Shorter values would match ordinary text.
pub(crate) const MIN_SECRET: usize = 8;

/// The secrets of one child.
#[derive(Debug, Clone)]
pub(crate) struct Secrets {
    values: Arc<[Vec<u8>]>,
    replacements: Arc<[Vec<u8>]>,
    matcher: AhoCorasick,
}

impl Secrets {
    /// Returns `None` if there are no secrets. The caller must have removed values shorter than
    /// [`MIN_SECRET`].
    pub(crate) fn new(named: &[(String, Vec<u8>)]) -> Option<Self> {
        if named.is_empty() {
            return None;
        }
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(named.iter().map(|(_, value)| value))
            .ok()?;
        Some(Self {
            values: named.iter().map(|(_, value)| value.clone()).collect(),
            replacements: named.iter().map(|(name, _)| format!("[REDACTED:{name}]").into_bytes()).collect(),
            matcher,
        })
    }

    /// Returns the first position at or after `from` where the rest of `data` is a proper prefix of a secret.
    fn first_partial_match(&self, data: &[u8], from: usize) -> usize {
        let longest = self.values.iter().map(Vec::len).max().unwrap_or(0);
        let first = from.max(data.len().saturating_sub(longest.saturating_sub(1)));
        (first..data.len())
            .find(|start| {
                let rest = &data[*start..];
                self.values.iter().any(|value| value.len() > rest.len() && value.starts_with(rest))
            })
            .unwrap_or(data.len())
    }
}

/// Replaces the values of secrets in bytes, as in the output of a child. Values shorter than 8 bytes are not
/// replaced.
#[must_use]
pub fn redact(bytes: &[u8], secrets: &[(String, Vec<u8>)]) -> Vec<u8> {
    let long: Vec<_> = secrets.iter().filter(|(_, value)| value.len() >= MIN_SECRET).cloned().collect();
    let mut redactor = Redactor::new(Secrets::new(&long));
    let mut kept = Vec::with_capacity(bytes.len());
    redactor.push(bytes, &mut |chunk| kept.extend_from_slice(chunk));
    redactor.finish(&mut |chunk| kept.extend_from_slice(chunk));
    kept
}

/// The redactor of one pipe. Without secrets it passes everything through.
#[derive(Debug)]
pub(crate) struct Redactor {
    secrets: Option<Secrets>,
    /// The end of the input so far, which may be the beginning of a secret.
    pending: Vec<u8>,
}

impl Redactor {
    pub(crate) fn new(secrets: Option<Secrets>) -> Self {
        Self { secrets, pending: Vec::new() }
    }

    /// Emits `chunk`, except for a tail that depends on the next chunk.
    pub(crate) fn push(&mut self, chunk: &[u8], emit: &mut dyn FnMut(&[u8])) {
        let Some(secrets) = &self.secrets else { return emit(chunk) };
        if self.pending.is_empty() {
            let kept = emit_decided(secrets, chunk, emit);
            self.pending.extend_from_slice(&chunk[kept..]);
        } else {
            self.pending.extend_from_slice(chunk);
            let kept = emit_decided(secrets, &self.pending, emit);
            self.pending.drain(..kept);
        }
    }

    /// Emits the pending tail at the end of the stream.
    pub(crate) fn finish(&mut self, emit: &mut dyn FnMut(&[u8])) {
        let Some(secrets) = &self.secrets else { return };
        let pending = std::mem::take(&mut self.pending);
        let mut position = 0;
        for found in secrets.matcher.find_iter(&pending) {
            emit(&pending[position..found.start()]);
            emit(&secrets.replacements[found.pattern().as_usize()]);
            position = found.end();
        }
        if position < pending.len() {
            emit(&pending[position..]);
        }
    }
}

/// Emits the part of `data` that later bytes can't change, and returns where the rest begins.
fn emit_decided(secrets: &Secrets, data: &[u8], emit: &mut dyn FnMut(&[u8])) -> usize {
    let mut position = 0;
    let mut open = secrets.first_partial_match(data, 0);
    for found in secrets.matcher.find_iter(data) {
        // A longer secret may have started at or before this one; wait for more data.
        if open <= found.start() {
            break;
        }
        if position < found.start() {
            emit(&data[position..found.start()]);
        }
        emit(&secrets.replacements[found.pattern().as_usize()]);
        position = found.end();
        if open < position {
            open = secrets.first_partial_match(data, position);
        }
    }
    if position < open {
        emit(&data[position..open]);
    }
    open
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secrets(values: &[&str]) -> Option<Secrets> {
        let named: Vec<_> = values
            .iter()
            .enumerate()
            .map(|(i, value)| (format!("S{i}"), value.as_bytes().to_vec()))
            .collect();
        Secrets::new(&named)
    }

    fn run(secrets: Option<Secrets>, chunks: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut redactor = Redactor::new(secrets);
        for chunk in chunks {
            redactor.push(chunk, &mut |chunk| out.extend_from_slice(chunk));
        }
        redactor.finish(&mut |chunk| out.extend_from_slice(chunk));
        out
    }

    #[track_caller]
    fn check(values: &[&str], input: &str, expected: &str) {
        let whole = run(secrets(values), &[input.as_bytes()]);
        assert_eq!(String::from_utf8_lossy(&whole), expected);
        for cut in 0..=input.len() {
            let (a, b) = input.as_bytes().split_at(cut);
            let got = run(secrets(values), &[a, b]);
            assert_eq!(String::from_utf8_lossy(&got), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
        assert_eq!(String::from_utf8_lossy(&run(secrets(values), &bytes)), expected, "byte by byte");
    }

    #[test]
    fn secret_is_replaced_at_any_chunk_boundary() {
        check(&["sk-12345678"], "key=sk-12345678;", "key=[REDACTED:S0];");
        check(&["sk-12345678"], "sk-12345678sk-12345678", "[REDACTED:S0][REDACTED:S0]");
        check(&["sk-12345678"], "sk-1234567 sk-12345", "sk-1234567 sk-12345");
    }

    #[test]
    fn longest_of_secrets_with_common_prefix_wins() {
        check(&["abcdefgh", "abcdefghij"], "xabcdefghijx abcdefghx", "x[REDACTED:S1]x [REDACTED:S0]x");
    }

    #[test]
    fn nested_and_overlapping_secrets_are_replaced() {
        check(
            &["12345678", "xx12345678yy"],
            "xx12345678yy 12345678 xx12345678",
            "[REDACTED:S1] [REDACTED:S0] xx[REDACTED:S0]",
        );
        check(&["12345678", "78abcdef"], "1234567812345678abcdef", "[REDACTED:S0][REDACTED:S0]abcdef");
    }

    proptest! {
        #[test]
        fn chunking_never_changes_the_result(
            input in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'c')], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let values = ["aabbaabb", "abababab", "bbaabbaac", "babababa"];
            let whole = run(secrets(&values), &[&input]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&input[from..cut]);
                from = cut;
            }
            chunks.push(&input[from..]);
            prop_assert_eq!(&run(secrets(&values), &chunks), &whole);
            let text = String::from_utf8_lossy(&whole).into_owned();
            for value in values {
                prop_assert!(!text.contains(value));
            }
        }
    }
}
