//! Redacts a stream of bytes, also across its chunks.

use crate::scanner::{Group, Scanner};
use crate::secrets::{Data, Secrets, replace};

/// The redactor of one stream. Without secrets it passes everything through.
#[derive(Debug, Default)]
pub struct StreamRedactor {
    secrets: Secrets,
    scanner: Scanner,
    /// The end of the input so far, which may be the beginning of a secret.
    pending: Vec<u8>,
}

impl StreamRedactor {
    /// Creates a redactor.
    #[must_use]
    pub fn new(secrets: Secrets) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Emits `chunk`, except for a tail that depends on the next chunk.
    pub fn push(&mut self, chunk: &[u8], emit: &mut dyn FnMut(&[u8])) {
        let Some(data) = self.secrets.data() else { return emit(chunk) };
        self.scanner.scan(&data.automaton, chunk);
        if self.pending.is_empty() {
            let emitted = emit_decided(data, &mut self.scanner, chunk, emit);
            self.pending.extend_from_slice(&chunk[emitted..]);
        } else {
            self.pending.extend_from_slice(chunk);
            let emitted = emit_decided(data, &mut self.scanner, &self.pending, emit);
            self.pending.drain(..emitted);
        }
    }

    /// Emits the pending tail at the end of the stream.
    pub fn finish(&mut self, emit: &mut dyn FnMut(&[u8])) {
        let Some(data) = self.secrets.data() else { return };
        self.scanner.add_beginnings(&data.automaton);
        let pending = std::mem::take(&mut self.pending);
        let from = self.scanner.position - pending.len() as u64;
        replace(data, &mut self.scanner.groups, &pending, from, emit);
        self.scanner = Scanner::default();
    }
}

/// Emits the part of `bytes`, the last ones that were scanned, that later bytes can't change. Returns its length.
fn emit_decided(data: &Data, scanner: &mut Scanner, bytes: &[u8], emit: &mut dyn FnMut(&[u8])) -> usize {
    let from = scanner.position - bytes.len() as u64;
    let open = scanner.open_from();
    let length = usize::try_from(open - from).unwrap_or(bytes.len());
    let decided = scanner.groups.partition_point(|group| group.to() <= open);
    let mut groups: Vec<Group> = scanner.groups.drain(..decided).collect();
    replace(data, &mut groups, &bytes[..length], from, emit);
    length
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        Secrets::new(values.iter().enumerate().map(|(i, value)| (format!("S{i}"), value.as_bytes().to_vec())))
    }

    fn run(secrets: &Secrets, chunks: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut redactor = secrets.stream();
        for chunk in chunks {
            redactor.push(chunk, &mut |chunk| out.extend_from_slice(chunk));
        }
        redactor.finish(&mut |chunk| out.extend_from_slice(chunk));
        out
    }

    #[track_caller]
    fn check(values: &[&str], input: &str, expected: &str) {
        let secrets = secrets(values);
        let whole = run(&secrets, &[input.as_bytes()]);
        assert_eq!(String::from_utf8_lossy(&whole), expected);
        assert_eq!(secrets.redact(input), expected);
        for cut in 0..=input.len() {
            let (a, b) = input.as_bytes().split_at(cut);
            let got = run(&secrets, &[a, b]);
            assert_eq!(String::from_utf8_lossy(&got), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
        assert_eq!(String::from_utf8_lossy(&run(&secrets, &bytes)), expected, "byte by byte");
    }

    #[test]
    fn secret_is_replaced_at_any_chunk_boundary() {
        check(&["sk-12345678"], "key=sk-12345678;", "key=[REDACTED:S0];");
        check(&["sk-12345678"], "sk-12345678sk-12345678", "[REDACTED:S0][REDACTED:S0]");
        check(&["sk-12345678"], "sk-1234567 sk-1234", "sk-1234567 sk-1234");
    }

    #[test]
    fn beginning_of_a_secret_is_replaced_at_the_end_of_a_text() {
        check(&["sk-12345678"], "cut: sk-12345", "cut: [REDACTED:S0]");
        check(&["sk-12345678"], "cut: sk-1234", "cut: sk-1234");
        check(&["sk-12345678"], "sk-12345 and more", "sk-12345 and more");
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
            "[REDACTED:S1] [REDACTED:S0] [REDACTED:S1]",
        );
        check(&["12345678", "78abcdef"], "1234567812345678abcdef", "[REDACTED:S0][REDACTED:S0]");
    }

    #[test]
    fn folded_secret_is_replaced_and_lines_stay() {
        check(&["sk-12345678"], "a sk-1\n2345\n678 b", "a [REDACTED:S0]\n\n b");
        check(&["sk-12345678"], "s k - 1 2 3 4 5 6 7 8!", "[REDACTED:S0]!");
        check(&["sk-12345678"], "+a sk-12\n+345678\n-b\n", "+a [REDACTED:S0]\n+\n-b\n");
        check(&["ab-cd-ef-gh"], "ab\n-cd-\nef\n-gh", "[REDACTED:S0]\n\n\n");
        check(&["ab-cd-ef-gh"], "+ab\n+-cd-\n+ef\n+-gh", "+[REDACTED:S0]\n+\n+\n+");
        check(&["pass word 12"], "passwo rd12 pass word 12", "[REDACTED:S0] [REDACTED:S0]");
        check(&["Bearer t0ken-of-it"], "authorization: Bearer t0ken-of-it", "authorization: [REDACTED:S0]");
    }

    #[test]
    fn escaped_secret_is_replaced() {
        check(&["sk/12345678"], r#"{"a":"\u0073k\/1234\n5678"}"#, r#"{"a":"[REDACTED:S0]\n"}"#);
        check(
            &["sk/12345678"],
            r#""{\"a\":\"\\u0073\\u006B\\/1234\\n5678\"}""#,
            r#""{\"a\":\"[REDACTED:S0]\\n\"}""#,
        );
        check(&["a\"b\\cdefgh"], r#"x a\"b\\cdefgh a"b\cdefgh"#, "x [REDACTED:S0] [REDACTED:S0]");
        check(
            &["sk-12345678"],
            r"C:\users\sk-12345678 \x73k-12345678",
            r"C:\users[REDACTED:S0] [REDACTED:S0]",
        );
        check(
            &[r"a\new\uservalue"],
            r#"{"a":"a\\new\\uservalue"} a\new\uservalue"#,
            r#"{"a":"[REDACTED:S0]"} [REDACTED:S0]"#,
        );
        check(&["n0123456789"], r"one\nn0123456789 C:\n0123456789", r"one\n[REDACTED:S0] C:\[REDACTED:S0]");
        check(&["p\u{e4}ssw\u{f6}rd"], r"p\u00e4ssw\u00f6rd", "[REDACTED:S0]");
    }

    #[test]
    fn encoded_secret_is_replaced() {
        check(
            &["sk-12345678"],
            "736b2d3132333435363738 736B2D3132333435363738",
            "[REDACTED:S0] [REDACTED:S0]",
        );
        // "sk-12345678", and with "x" and "xy" before it.
        check(&["sk-12345678"], "c2stMTIzNDU2Nzg=", "[REDACTED:S0]g=");
        check(&["sk-12345678"], "eHNrLTEyMzQ1Njc4", "eH[REDACTED:S0]");
        check(&["sk-12345678"], "eHlzay0xMjM0NTY3OA==", "eHl[REDACTED:S0]A==");
        check(&["?>?>?>?>?>"], "Pz4_Pj8-Pz4_Pg== Pz4/Pj8+Pz4/Pg==", "[REDACTED:S0]g== [REDACTED:S0]g==");
        check(&["sk/12345678"], "a=sk%2F12345678&b=sk%2f12345678", "a=[REDACTED:S0]&b=[REDACTED:S0]");
        check(&["sk-12345678"], "c2stMTIz\nNDU2Nzg=", "[REDACTED:S0]\ng=");
    }

    #[test]
    fn whitespace_without_end_is_not_held_back() {
        let secrets = secrets(&["sk-12345678"]);
        let mut redactor = secrets.stream();
        let mut emitted = 0;
        for chunk in [&b"sk-1"[..], &[b' '; 200], &[b' '; 200], b"234"] {
            redactor.push(chunk, &mut |chunk| emitted += chunk.len());
        }
        assert!(emitted >= 400, "{emitted}");
    }

    const VALUES: [&str; 6] = ["aabbaabb", "abababab", "bbaabbaac", "babababa", "ab+ab+n", "a\\nb"];

    proptest! {
        #[test]
        fn chunking_never_changes_the_result(
            input in proptest::collection::vec(
                prop_oneof![Just(b'a'), Just(b'b'), Just(b'c'), Just(b'\n'), Just(b'\\'), Just(b'n'), Just(b'+')],
                0..200,
            ),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            static SECRETS: LazyLock<Secrets> = LazyLock::new(|| secrets(&VALUES));
            let whole = run(&SECRETS, &[&input]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&input[from..cut]);
                from = cut;
            }
            chunks.push(&input[from..]);
            prop_assert_eq!(&run(&SECRETS, &chunks), &whole);
            let text = String::from_utf8_lossy(&whole).into_owned();
            for value in VALUES {
                prop_assert!(!text.contains(value));
            }
        }
    }
}
