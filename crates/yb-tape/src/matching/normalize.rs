//! Normalizes texts for comparison between runs: replaces directories, times, ids and other volatile content.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use regex::Regex;

use crate::replace::{MatchBoundary, TextReplacer};

/// Placeholder and pattern of each kind of volatile content. Documented in docs/concepts/tapes.md.
const VOLATILE: [(&str, &str); 7] = [
    ("id", r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
    // Dates with or without a time, in the formats of ISO 8601, `ls`, `date` and `git log`; clock times; Unix timestamps.
    (
        "time",
        r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?: ?(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?)?\b|\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* +[0-9]{1,2}(?:,? +[0-9]{4}\b|,? +[0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?: [A-Z]{3,4})?(?: [0-9]{4})?(?: [+-][0-9]{4})?)|\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?\b|\b1[6-9][0-9]{8}(?:[0-9]{9}|[0-9]{6}|[0-9]{3}|\.[0-9]+)?\b",
    ),
    (
        "duration",
        r#"\b[0-9]+m ?[0-9]+(?:\.[0-9]+)?s\b|\b[0-9]+(?:\.[0-9]+)? ?(?:ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?)\b|\b(?:duration|elapsed)(?:_[a-z]+)?(?:"?[:=] ?|>)[0-9]+(?:\.[0-9]+)?"#,
    ),
    // Process ids in prose and in shell job lines.
    ("pid", r"(?:\b[Pp][Ii][Dd]|\b[Pp]rocess)(?: id)?[:= ]+[0-9]+\b|\[[0-9]+\] [0-9]{2,}\b"),
    ("port", r"\b(?:127\.0\.0\.1|localhost):[0-9]{2,5}\b"),
    ("temp", r"/tmp/(?:tmp[._]?|claude-)[A-Za-z0-9_-]+"),
    // Ids of agents and tasks, and git object names, which need a digit and a letter.
    (
        "id",
        r"\b(?:agentId|agent_id|task_id|session_id|Chunk ID)(?:: ?|=)[A-Za-z0-9-]+|<(?:task-id|agent-id|session-id)>[^<]*|\b[0-9a-f]{7,64}\b",
    ),
];

fn volatile() -> Option<&'static Regex> {
    static ALL: OnceLock<Option<Regex>> = OnceLock::new();
    ALL.get_or_init(|| {
        let groups: Vec<String> = VOLATILE.iter().map(|(_, pattern)| format!("({pattern})")).collect();
        Regex::new(&groups.join("|")).ok()
    })
    .as_ref()
}

/// A normalized text. What was replaced does not matter for equality.
#[derive(Debug, Clone, Default)]
pub(crate) struct NormalizedText {
    pub(crate) text: String,
    /// Kind and content of each replaced place, in order.
    pub(crate) replaced: Vec<(&'static str, String)>,
}

impl NormalizedText {
    /// Returns the places that are equal only after normalization: kind, and content here and there.
    pub(crate) fn differences<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'static str, &'a str, &'a str)> {
        let pairs = self.replaced.iter().zip(&other.replaced);
        pairs.filter(|(one, two)| one.1 != two.1).map(|(one, two)| (one.0, one.1.as_str(), two.1.as_str()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds a text without volatile content at the beginning.
    pub(crate) fn prepend(&mut self, text: &str) {
        self.text.insert_str(0, text);
    }

    /// Joins texts, one per line.
    pub(crate) fn join(parts: impl IntoIterator<Item = Self>) -> Self {
        parts
            .into_iter()
            .reduce(|mut all, part| {
                all.text.push('\n');
                all.text.push_str(&part.text);
                all.replaced.extend(part.replaced);
                all
            })
            .unwrap_or_default()
    }
}

impl PartialEq for NormalizedText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for NormalizedText {}

impl std::hash::Hash for NormalizedText {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl From<&str> for NormalizedText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for NormalizedText {
    fn from(text: String) -> Self {
        Self { text, replaced: Vec::new() }
    }
}

/// Normalizes the texts of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Normalizer {
    directories: TextReplacer,
}

impl Normalizer {
    /// Creates a normalizer for the directories of the run, by name.
    pub(crate) fn new(directories: &BTreeMap<String, String>) -> Self {
        let forms = directories.iter().flat_map(|(name, path)| {
            let placeholder = format!("{{{name}}}");
            // Claude Code derives the name of a project folder from its path.
            let mangled: String =
                path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            [(path.clone(), placeholder.clone()), (mangled, placeholder)]
        });
        Self {
            directories: TextReplacer::new(forms.filter(|(form, _)| form.len() > 1), MatchBoundary::FileName),
        }
    }

    /// Replaces only the directories of the run, for texts that come from the tape.
    pub(crate) fn replace_directories<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.directories.replace(text)
    }

    /// Replaces all volatile content.
    pub(crate) fn normalize(&self, text: &str) -> NormalizedText {
        let text = self.directories.replace(text);
        let Some(volatile) = volatile() else { return text.into_owned().into() };
        let mut replaced = Vec::new();
        let text = volatile.replace_all(&text, |found: &regex::Captures<'_>| {
            let whole = &found[0];
            let kind = (1..=VOLATILE.len()).find(|group| found.get(*group).is_some()).unwrap_or(1) - 1;
            let is_word = whole.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_name =
                whole.bytes().any(|b| b.is_ascii_digit()) && whole.bytes().any(|b| b.is_ascii_alphabetic());
            if VOLATILE[kind].0 == "id" && is_word && !is_name {
                whole.to_owned()
            } else {
                replaced.push((VOLATILE[kind].0, whole.to_owned()));
                format!("{{{}}}", VOLATILE[kind].0)
            }
        });
        NormalizedText { text: text.into_owned(), replaced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalizer() -> Normalizer {
        Normalizer::new(&BTreeMap::from([("workspace".to_owned(), "/w/one".to_owned())]))
    }

    #[test]
    fn normalize_replaces_volatile_content() {
        for (text, expected) in [
            ("cat /w/one/a.txt", "cat {workspace}/a.txt"),
            ("~/.claude/projects/-w-one/memory", "~/.claude/projects/{workspace}/memory"),
            ("at 2026-11-15T22:36:32.123Z, 2026-11-15 22:36, 2026-11-15", "at {time}, {time}, {time}"),
            ("Sun Nov 15 22:36:32 UTC 2026", "{time}"),
            ("-rw-r--r-- 1 u u 6 Nov 15 22:36 a", "-rw-r--r-- 1 u u 6 {time} a"),
            ("Date:   Sun Nov 15 22:36:32 2026 +0000", "Date:   {time}"),
            ("12:01:59 up, since 1794765306 or 1794765306041", "{time} up, since {time} or {time}"),
            ("2 tests in 0.12s, real 0m1.003s, 15 ms", "2 tests in {duration}, real {duration}, {duration}"),
            ("duration_ms: 812, \"duration_ms\":3", "{duration}, \"{duration}"),
            ("pid 4711, PID: 12, [1] 12345", "{pid}, {pid}, {pid}"),
            ("listening on http://127.0.0.1:40627/", "listening on http://{port}/"),
            ("in /tmp/tmp.AbC123/x and /tmp/claude-0/y", "in {temp}/x and {temp}/y"),
            ("[main 1a2b3c4] fix", "[main {id}] fix"),
            ("2f1c7a9e-0f4f-4c1e-9f77-0123456789ab", "{id}"),
            ("agentId: a81bc93 (internal)", "{id} (internal)"),
            ("Chunk ID: 81c927\nWall time: 0.05 seconds", "{id}\nWall time: {duration}"),
        ] {
            assert_eq!(normalizer().normalize(text).text, expected, "{text}");
        }
    }

    #[test]
    fn differences_are_the_places_that_normalization_made_equal() {
        let normalize = |text: &str| normalizer().normalize(text);
        let (one, two) = (normalize("12:01:59 pid 4711 in 2 s"), normalize("12:02:00 pid 4711 in 3 s"));
        assert_eq!(one, two);
        let found: Vec<_> = one.differences(&two).collect();
        assert_eq!(found, [("time", "12:01:59", "12:02:00"), ("duration", "2 s", "3 s")]);
    }

    #[test]
    fn normalize_keeps_other_content() {
        for text in [
            "3 passed; 1 failed",
            "line 12, column 34",
            "src/a.rs:12:34: error",
            "1234567 bytes",
            "12345678901",
            "deadbeef",
            "version 2.1.325",
            "exit code 1",
            "/w/onetwo/a",
            "/tmp/file.txt",
            "a 5 star result",
        ] {
            assert_eq!(normalizer().normalize(text).text, text);
        }
    }
}
