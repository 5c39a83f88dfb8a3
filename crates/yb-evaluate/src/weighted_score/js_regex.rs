//! Regular expressions with the semantics of JavaScript. They backtrack, and the text is an agent's, so each search runs in a thread
//! of its own with a deadline.

use std::time::Duration;

use regress::{Flags, Regex};

/// How long a search may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// A regular expression.
#[derive(Debug, Clone)]
pub(super) struct JsRegex {
    regex: Regex,
    /// Whether texts are sequences of code points; otherwise of UTF-16 code units.
    unicode: bool,
    sticky: bool,
    pub(super) source: String,
}

impl JsRegex {
    /// Compiles an expression.
    pub(super) fn new(pattern: &str, flags: &str) -> Result<Self, String> {
        if let Some(unknown) = flags.chars().find(|flag| !"dgimsuvy".contains(*flag)) {
            return Err(format!("unknown flag `{unknown}`"));
        }
        if flags.chars().enumerate().any(|(at, flag)| flags.chars().skip(at + 1).any(|other| other == flag)) {
            return Err(format!("repeated flag in `{flags}`"));
        }
        let regex = Regex::with_flags(pattern, Flags::from(flags)).map_err(|error| error.text)?;
        let unicode = flags.contains(['u', 'v']);
        Ok(Self { regex, unicode, sticky: flags.contains('y'), source: pattern.to_owned() })
    }

    /// Counts the matches in a text, up to a limit.
    fn count_now(&self, text: &str, limit: usize) -> usize {
        let units: Vec<u16> = text.encode_utf16().collect();
        let mut end = 0;
        let adjacent = |found: &regress::Match| {
            let is_next = !self.sticky || found.start() == end;
            end = found.end();
            is_next
        };
        if self.unicode {
            self.regex.find_from_utf16(&units, 0).take_while(adjacent).take(limit).count()
        } else {
            self.regex.find_from_ucs2(&units, 0).take_while(adjacent).take(limit).count()
        }
    }

    /// Counts the matches in a text, up to a limit; `None` if that takes too long.
    pub(super) async fn count(&self, text: &str, limit: usize) -> Option<usize> {
        let (regex, text) = (self.clone(), text.to_owned());
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // A thread that is still busy at the deadline is abandoned: it can't be stopped, and a blocking task of the runtime would
        // keep the process alive.
        std::thread::spawn(move || {
            let _ = sender.send(regex.count_now(&text, limit));
        });
        tokio::time::timeout(DEADLINE, receiver).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(pattern: &str, flags: &str, text: &str) -> usize {
        JsRegex::new(pattern, flags).unwrap().count_now(text, usize::MAX)
    }

    #[test]
    fn expressions_have_the_semantics_of_javascript() {
        assert_eq!(count("^x.y$", "", "x😀y"), 0, "a code unit is not a code point");
        assert_eq!(count("^x..y$", "", "x😀y"), 1);
        assert_eq!(count("^x.y$", "u", "x😀y"), 1);
        assert_eq!(count("(?<=All )Done", "", "All Done"), 1);
        assert_eq!(count(r"(a)\1", "", "aa"), 1);
        assert_eq!(count("sub", "y", "a sub"), 0);
        assert_eq!(count("a", "gy", "aab a"), 2);
        assert_eq!(count("^All", "m", "x\nAll"), 1);
        assert_eq!(count("", "", ""), 1);
        assert_eq!(JsRegex::new("a", "x").unwrap_err(), "unknown flag `x`");
        assert_eq!(JsRegex::new("a", "ii").unwrap_err(), "repeated flag in `ii`");
        assert!(JsRegex::new("(", "").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn search_that_takes_too_long_has_no_result() {
        let regex = JsRegex::new("^(a+)+$", "").unwrap();
        assert_eq!(regex.count(&format!("{}!", "a".repeat(40)), 1).await, None);
    }
}
