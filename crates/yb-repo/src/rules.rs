//! Which files count: the ignore rules of the start, and what the case includes in spite of them.

use std::collections::BTreeMap;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::error::RepoError;
use super::files::path_of;

/// Ignored files that are kept all the same (`capture.include`), as globs from the workspace's root.
#[derive(Debug, Clone, Default)]
pub struct Include {
    globs: Option<GlobSet>,
}

impl Include {
    /// Nothing that is ignored.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// These globs. `*` stays within a directory, `**` does not; a directory stands for everything in it.
    pub fn new(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, RepoError> {
        let mut builder = GlobSetBuilder::new();
        let mut empty = true;
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let bad = |error: globset::Error| RepoError::BadGlob {
                pattern: pattern.to_owned(),
                reason: error.kind().to_string(),
            };
            let trimmed = pattern.trim_start_matches("./").trim_end_matches('/');
            for glob in [trimmed.to_owned(), format!("{trimmed}/**")] {
                builder.add(GlobBuilder::new(&glob).literal_separator(true).build().map_err(bad)?);
            }
            empty = false;
        }
        let globs = builder.build().map_err(|error| RepoError::BadGlob {
            pattern: error.glob().unwrap_or_default().to_owned(),
            reason: error.kind().to_string(),
        })?;
        Ok(Self { globs: (!empty).then_some(globs) })
    }

    pub fn is_empty(&self) -> bool {
        self.globs.is_none()
    }

    pub fn matches(&self, path: &[u8]) -> bool {
        self.globs.as_ref().is_some_and(|globs| globs.is_match(path_of(path)))
    }
}

/// The `.gitignore` files of a tree, by the directory that they stand in (`""` is the root).
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    files: BTreeMap<Vec<u8>, Gitignore>,
}

impl Rules {
    /// Adds the `.gitignore` of a directory. A line that is no pattern is passed over, as git does.
    pub(crate) fn add(&mut self, dir: &[u8], content: &[u8]) {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let mut builder = GitignoreBuilder::new(".");
        for line in String::from_utf8_lossy(content).lines() {
            let _ = builder.add_line(None, line);
        }
        if let Ok(rules) = builder.build() {
            self.files.insert(dir.to_vec(), rules);
        }
    }

    /// Whether the rules leave out this very path; what is above it is the caller's to ask.
    pub(crate) fn ignores(&self, path: &[u8], kind: Kind) -> bool {
        if self.files.is_empty() {
            return false;
        }
        let mut dir = path;
        while let Some(end) = dir.iter().rposition(|byte| *byte == b'/').or((!dir.is_empty()).then_some(0)) {
            dir = &path[..end];
            let Some(rules) = self.files.get(dir) else { continue };
            let below = if dir.is_empty() { path } else { &path[dir.len() + 1..] };
            match rules.matched(Path::new(&path_of(below)), kind == Kind::Directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// What a path is, for patterns that end in a slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_rule_decides() {
        let mut rules = Rules::default();
        rules.add(b"", b"\xef\xbb\xbf*.log\n/top\nbuild/\n# comment\n\n");
        rules.add(b"a/b", b"!keep.log\n/only-here\r\n");
        for (path, kind, expected) in [
            ("x.log", Kind::Other, true),
            ("a/x.log", Kind::Other, true),
            ("a/b/keep.log", Kind::Other, false),
            ("a/b/other.log", Kind::Other, true),
            ("top", Kind::Other, true),
            ("a/top", Kind::Other, false),
            ("build", Kind::Other, false),
            ("a/build", Kind::Directory, true),
            ("a/b/only-here", Kind::Other, true),
            ("a/b/c/only-here", Kind::Other, false),
            ("# comment", Kind::Other, false),
        ] {
            assert_eq!(rules.ignores(path.as_bytes(), kind), expected, "{path}");
        }
        assert!(rules.ignores(b"\xff.log", Kind::Other));
    }

    #[test]
    fn includes_name_files_and_directories() {
        let include = Include::new(["dist", "target/*.txt", "./out/"]).expect("globs");
        for (path, expected) in [
            ("dist/a/b.js", true),
            ("distant", false),
            ("target/a.txt", true),
            ("target/a/b.txt", false),
            ("out/x", true),
        ] {
            assert_eq!(include.matches(path.as_bytes()), expected, "{path}");
        }
        assert!(Include::new(["a["]).is_err());
        assert!(Include::new([] as [&str; 0]).expect("empty").is_empty());
    }
}
