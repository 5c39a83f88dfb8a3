//! Snapshot filters: replace what differs between runs.

use std::path::Path;

use regex::Regex;

/// Replacements, applied in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filters(Vec<(Regex, String)>);

impl Filters {
    /// Returns the filters of every snapshot; `root` is the temporary directory of the test.
    pub(crate) fn standard(root: &Path) -> Self {
        let mut filters = Self::default();
        let given = root.to_string_lossy().into_owned();
        let real = root.canonicalize().map(|root| root.to_string_lossy().into_owned()).unwrap_or_default();
        for path in [real, given].iter().filter(|path| !path.is_empty()) {
            filters.add(&regex::escape(path), "[TEMP]");
        }
        filters.add(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?", "[TIMESTAMP]");
        filters.add(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "[UUID]");
        filters.add(r"\b[0-9a-f]{12,}\b", "[HEX]");
        filters.add(r"\b(127\.0\.0\.1|localhost|\[::1\]):\d+\b", "$1:[PORT]");
        filters.add(r"\b(port )\d+\b", "$1[PORT]");
        filters.add(r"\b(pids?[ =:]+)\d+\b", "$1[PID]");
        filters.add(&format!(r"\b{}\b", regex::escape(env!("CARGO_PKG_VERSION"))), "[VERSION]");
        filters.add(r"\b(?:\d+h ?)?(?:\d+m ?)?\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|seconds?)\b", "[TIME]");
        // Durations differ in width, and so does the padding of a table.
        filters.add(r"\[TIME\] {2,}", "[TIME]  ");
        filters
    }

    /// Appends a replacement.
    pub(crate) fn add(&mut self, pattern: &str, replacement: &str) {
        let regex = Regex::new(pattern).unwrap_or_else(|error| panic!("filter `{pattern}`: {error}"));
        self.0.push((regex, replacement.to_owned()));
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (regex, replacement)| {
            regex.replace_all(&text, replacement.as_str()).into_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_filters_replace_volatile_values() {
        let filters = Filters::standard(Path::new("/tmp/.tmpAbC"));
        let check = |text: &str, expect: &str| assert_eq!(filters.apply(text), expect);
        check("wrote /tmp/.tmpAbC/work/a.log", "wrote [TEMP]/work/a.log");
        check("took 1.53 s (12ms of setup), 1m 03s in all", "took [TIME] ([TIME] of setup), [TIME] in all");
        check("http://127.0.0.1:40123/v1, port 8080", "http://127.0.0.1:[PORT]/v1, port [PORT]");
        check(concat!("yb ", env!("CARGO_PKG_VERSION")), "yb [VERSION]");
        check("pid 4711, pid=12", "pid [PID], pid=[PID]");
        check("commit 0123456789abcdef0123456789abcdef01234567", "commit [HEX]");
        check("id 550e8400-e29b-41d4-a716-446655440000", "id [UUID]");
        check("at 2026-11-15T13:25:00.123Z", "at [TIMESTAMP]");
        check("3 trials, 2 passed, decade, 10 settings", "3 trials, 2 passed, decade, 10 settings");
    }
}
