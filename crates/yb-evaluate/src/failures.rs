//! What a runner printed about a failure, for the verdict: bounded, and without what differs between two gradings of the same
//! trial.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use yb_claude::strip_ansi;

use super::Failure;
use super::test_report::{TestResult, TestStatus};

/// How many failures a verdict has.
pub(crate) const MAX_FAILURES: usize = 10;
/// How many lines a failure has.
const MAX_LINES: usize = 20;
/// How many of them are from the beginning, if there are more: the message. The end is where it happened.
const FIRST_LINES: usize = 10;
/// The longest line, in characters.
const MAX_WIDTH: usize = 200;

/// Patterns of what runners print and no two runs share, with the part to keep.
const VOLATILE: [(&str, &str); 8] = [
    // pytest, unittest, RSpec, libtest: `1 failed in 0.03s`, `Finished in 0.00313 seconds`
    (r"\b(in|took|after) \d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|sec|secs|seconds?)\b", "$1 …"),
    // Go, Jest, Mocha: `--- FAIL: TestSum (0.00s)`, `adds up (3 ms)`
    (r"\(\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|sec|secs|seconds?)\)", "(…)"),
    // Go: a line that ends with the time of a package
    (r"(?m)\t\d+\.\d+s$", "\t…"),
    // Node, TAP, Jest, Vitest: `duration_ms: 0.71`, `Time: 0.312 s`, `Duration  310ms (…)`
    (r"(?mi)^(\W*(?:duration_ms|time|duration|start at)\b:?\s+)\S.*$", "$1…"),
    // A time of day, and a date before it
    (r"\b(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\b", "…"),
    // Addresses of objects
    (r"\b0x[0-9a-fA-F]{6,}\b", "0x…"),
    // Rust: the id of a thread
    (r"(thread '[^']*') \(\d+\)", "$1"),
    // Seeds of the order
    (r"(?i)\b(seed:?|random seed is:?) \d+", "$1 …"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    VOLATILE.iter().filter_map(|(pattern, kept)| Some((Regex::new(pattern).ok()?, *kept))).collect()
});

/// Returns the failed tests of a report, as many as a verdict has.
pub(crate) fn of_tests(tests: &[TestResult], root: &Path) -> Vec<Failure> {
    let failed = tests.iter().filter(|test| test.status == TestStatus::Failed);
    failed
        .take(MAX_FAILURES)
        .map(|test| Failure { test: Some(stable(&test.id, root)), lines: ends(&stable(&test.details, root)) })
        .collect()
}

/// Returns the end of a program's output; `None` if it printed nothing.
pub(crate) fn of_output(test: Option<&str>, output: &str, root: &Path) -> Option<Failure> {
    let text = stable(output, root);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let mut kept: Vec<String> = lines.iter().rev().take(MAX_LINES).rev().map(|line| shorten(line)).collect();
    if kept.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    if let more @ 1.. = lines.len() - kept.len() {
        kept.insert(0, omission(more));
    }
    Some(Failure { test: test.map(str::to_owned), lines: kept })
}

/// Returns all lines, or the first and last.
fn ends(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.trim_end().trim_start_matches('\n').lines().collect();
    if lines.len() <= MAX_LINES {
        return lines.into_iter().map(shorten).collect();
    }
    let (first, last) = (&lines[..FIRST_LINES], &lines[lines.len() - (MAX_LINES - FIRST_LINES)..]);
    let mut kept: Vec<String> = first.iter().map(|line| shorten(line)).collect();
    kept.push(omission(lines.len() - MAX_LINES));
    kept.extend(last.iter().map(|line| shorten(line)));
    kept
}

fn omission(lines: usize) -> String {
    format!("[… {} omitted]", yb_figures::plural(lines, "line"))
}

fn shorten(line: &str) -> String {
    match line.char_indices().nth(MAX_WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Removes colors, and replaces what differs between two gradings: directories of the machine, times, addresses.
fn stable(text: &str, root: &Path) -> String {
    // What stands for bytes that are no text is written out, as a printer does with hidden characters.
    let mut text = strip_ansi(text).replace('\u{fffd}', r"\u{fffd}");
    let tree = root.to_string_lossy();
    text = text.replace(&format!("{tree}/"), "").replace(&*tree, ".");
    // HOME and TMPDIR are beside the tree.
    if let Some(scratch) = root.parent() {
        text = text.replace(&*scratch.to_string_lossy(), "…");
    }
    for (pattern, kept) in PATTERNS.iter() {
        if let Cow::Owned(replaced) = pattern.replace_all(&text, *kept) {
            text = replaced;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_compile() {
        assert_eq!(PATTERNS.len(), VOLATILE.len());
    }

    #[test]
    fn what_differs_between_gradings_is_replaced() {
        let root = Path::new("/tmp/grade/7/tree");
        for (printed, expected) in [
            ("/tmp/grade/7/tree/src/a.py:3: in f", "src/a.py:3: in f"),
            ("cd /tmp/grade/7/tree && ls /tmp/grade/7/private/tmp/x", "cd . && ls …/private/tmp/x"),
            ("1 failed, 2 passed in 0.03s", "1 failed, 2 passed in …"),
            (
                "Finished in 0.00313 seconds (files took 0.1 seconds to load)",
                "Finished in … (files took … to load)",
            ),
            ("--- FAIL: TestSum (0.00s)", "--- FAIL: TestSum (…)"),
            ("FAIL\texample.com/sum\t0.003s", "FAIL\texample.com/sum\t…"),
            ("    ✕ adds up (3 ms)", "    ✕ adds up (…)"),
            ("  duration_ms: 0.71", "  duration_ms: …"),
            ("Time:        0.312 s, estimated 1 s", "Time:        …"),
            ("   Start at  12:03:04", "   Start at  …"),
            ("2026-11-18T00:39:53.120Z ERROR no", "… ERROR no"),
            ("<Sum object at 0x7f2a4c1b9d60>", "<Sum object at 0x…>"),
            (
                "thread 'tests::adds' (4711) panicked at src/lib.rs:7:9:",
                "thread 'tests::adds' panicked at src/lib.rs:7:9:",
            ),
            ("Randomized with seed 34129", "Randomized with seed …"),
            ("\u{1b}[31mE  assert 5 == 3\u{1b}[0m", "E  assert 5 == 3"),
            ("\u{fffd}raw", r"\u{fffd}raw"),
            // What a test compares stays.
            ("assert '5s' == '3s' in 2 places", "assert '5s' == '3s' in 2 places"),
        ] {
            assert_eq!(stable(printed, root), expected);
        }
    }

    #[test]
    fn lines_are_bounded() {
        let text = (1..=50).map(|n| format!("line {n}\n")).collect::<String>();
        let root = Path::new("/t/tree");
        let tail = of_output(None, &text, root).unwrap();
        assert_eq!((tail.lines.len(), tail.lines[0].as_str()), (MAX_LINES + 1, "[… 30 lines omitted]"));
        assert_eq!(tail.lines.last().unwrap(), "line 50");
        let test =
            |status| TestResult { id: "a".to_owned(), status, details: format!("{text}{}", "x".repeat(900)) };
        let found = of_tests(&[test(TestStatus::Passed), test(TestStatus::Failed)], root);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].lines[9..12], ["line 10", "[… 31 lines omitted]", "line 42"]);
        assert_eq!(found[0].lines.last().unwrap().chars().count(), MAX_WIDTH + 1);
        let many: Vec<_> = (0..40).map(|_| test(TestStatus::Failed)).collect();
        assert_eq!(of_tests(&many, root).len(), MAX_FAILURES);
        assert_eq!(of_output(None, " \n\n", root), None);
    }
}
