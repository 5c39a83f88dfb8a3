//! Which files are captured: ignore rules, and globs for ignored files that are included nevertheless.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::error::RepoError;
use super::files::path_from_bytes;

/// The maximum number of groups such as `{a,b}` in a glob.
const MAX_ALTERNATIVES: usize = 64;

/// A set of globs for paths relative to the root of a tree, such as `capture.include` of a case.
#[derive(Debug, Clone, Default)]
pub struct PathGlobs {
    globs: Option<GlobSet>,
}

impl PathGlobs {
    /// A set that matches nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Compiles globs. `*` does not match `/`, `**` does; a directory matches everything in it.
    pub fn new(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, RepoError> {
        Self::compile(patterns, |pattern| vec![pattern.to_owned(), format!("{pattern}/**")])
    }

    /// Compiles globs of files: unlike [`new`](Self::new), the name of a directory does not match the files in it.
    pub fn of_files(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, RepoError> {
        Self::compile(patterns, |pattern| vec![pattern.to_owned()])
    }

    fn compile(
        patterns: impl IntoIterator<Item = impl AsRef<str>>,
        globs_of: impl Fn(&str) -> Vec<String>,
    ) -> Result<Self, RepoError> {
        let mut builder = GlobSetBuilder::new();
        let mut empty = true;
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let bad = |reason: String| RepoError::BadGlob { pattern: pattern.to_owned(), reason };
            for glob in globs_of(pattern.trim_start_matches("./").trim_end_matches('/')) {
                let compiled = compile_glob(&glob, PathSeparator::Literal).map_err(bad)?;
                builder.add(compiled);
            }
            empty = false;
        }
        let globs = builder.build().map_err(|error| RepoError::BadGlob {
            pattern: error.glob().unwrap_or_default().to_owned(),
            reason: error.kind().to_string(),
        })?;
        Ok(Self { globs: (!empty).then_some(globs) })
    }

    /// Whether the set has no globs.
    pub fn is_empty(&self) -> bool {
        self.globs.is_none()
    }

    /// Whether a glob matches a path.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.globs.as_ref().is_some_and(|globs| globs.is_match(path_from_bytes(path)))
    }
}

/// Whether the wildcards of a glob match `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathSeparator {
    /// Only `**` matches it.
    Literal,
    /// `*` and `?` match it too.
    Matched,
}

/// Compiles a glob of a file that others write. The compiler is recursive, so deep nesting is an error here.
///
/// # Errors
/// When the pattern is invalid, with the reason.
pub fn compile_glob(pattern: &str, separator: PathSeparator) -> Result<Glob, String> {
    if pattern.matches('{').count() > MAX_ALTERNATIVES {
        return Err(format!("more than {MAX_ALTERNATIVES} groups in braces"));
    }
    let literal = separator == PathSeparator::Literal;
    GlobBuilder::new(pattern).literal_separator(literal).build().map_err(|error| error.kind().to_string())
}

/// Escapes the braces of a line of a `.gitignore` file, which have no meaning to git.
fn without_alternatives(line: &str) -> Cow<'_, str> {
    if !line.contains(['{', '}']) {
        return Cow::Borrowed(line);
    }
    let mut escaped = String::with_capacity(line.len() + 8);
    let mut letters = line.chars();
    // The characters of a class such as `[{]` so far.
    let mut class: Option<usize> = None;
    while let Some(letter) = letters.next() {
        match (letter, class) {
            ('\\', None) => {
                escaped.push('\\');
                escaped.extend(letters.next());
                continue;
            }
            ('{' | '}', None) => escaped.push('\\'),
            ('[', None) => class = Some(0),
            ('!' | '^', Some(0)) => {}
            (']', Some(1..)) => class = None,
            (_, Some(count)) => class = Some(count + 1),
            _ => {}
        }
        escaped.push(letter);
    }
    Cow::Owned(escaped)
}

/// The `.gitignore` files of a tree, by directory (`""` is the root).
#[derive(Debug, Clone, Default)]
pub(crate) struct IgnoreRules {
    files: BTreeMap<Vec<u8>, Gitignore>,
}

impl IgnoreRules {
    /// Adds the `.gitignore` of a directory. Like git, it skips invalid lines.
    pub(crate) fn add(&mut self, dir: &[u8], content: &[u8]) {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let mut builder = GitignoreBuilder::new(".");
        for line in String::from_utf8_lossy(content).lines() {
            let _ = builder.add_line(None, &without_alternatives(line));
        }
        if let Ok(rules) = builder.build() {
            self.files.insert(dir.to_vec(), rules);
        }
    }

    /// Whether the rules ignore this path itself; the caller checks its parent directories.
    pub(crate) fn ignores(&self, path: &[u8], kind: PathKind) -> bool {
        if self.files.is_empty() {
            return false;
        }
        let mut dir = path;
        while let Some(end) = dir.iter().rposition(|byte| *byte == b'/').or((!dir.is_empty()).then_some(0)) {
            dir = &path[..end];
            let Some(rules) = self.files.get(dir) else { continue };
            let below = if dir.is_empty() { path } else { &path[dir.len() + 1..] };
            match rules.matched(Path::new(&path_from_bytes(below)), kind == PathKind::Directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Whether a path is a directory, for patterns that end with a slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathKind {
    Directory,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignore_rules_of_the_deepest_directory_win() {
        let mut rules = IgnoreRules::default();
        rules.add(b"", b"\xef\xbb\xbf*.log\n/top\nbuild/\n# comment\n\n");
        rules.add(b"a/b", b"!keep.log\n/only-here\r\n");
        for (path, kind, expected) in [
            ("x.log", PathKind::Other, true),
            ("a/x.log", PathKind::Other, true),
            ("a/b/keep.log", PathKind::Other, false),
            ("a/b/other.log", PathKind::Other, true),
            ("top", PathKind::Other, true),
            ("a/top", PathKind::Other, false),
            ("build", PathKind::Other, false),
            ("a/build", PathKind::Directory, true),
            ("a/b/only-here", PathKind::Other, true),
            ("a/b/c/only-here", PathKind::Other, false),
            ("# comment", PathKind::Other, false),
        ] {
            assert_eq!(rules.ignores(path.as_bytes(), kind), expected, "{path}");
        }
        assert!(rules.ignores(b"\xff.log", PathKind::Other));
    }

    #[test]
    fn ignore_rules_take_braces_literally() {
        let mut rules = IgnoreRules::default();
        let nested = "{".repeat(100_000);
        rules.add(b"", format!("{nested}\n{{a,b}}\n[{{]x\n[]{{]y\n\\{{z\n").as_bytes());
        for (path, expected) in
            [("a", false), ("{a,b}", true), ("{x", true), ("{y", true), ("]y", true), ("{z", true)]
        {
            assert_eq!(rules.ignores(path.as_bytes(), PathKind::Other), expected, "{path}");
        }
    }

    #[test]
    fn globs_with_deep_nesting_are_rejected() {
        let error = PathGlobs::new(["{".repeat(100_000)]).expect_err("too deep").to_string();
        assert!(error.contains("more than 64 groups in braces"), "{error}");
        assert!(PathGlobs::new(["{a,{b,c}}.rs"]).expect("globs").matches(b"c.rs"));
    }

    #[test]
    fn path_globs_match_files_and_directories() {
        let include = PathGlobs::new(["dist", "target/*.txt", "./out/"]).expect("globs");
        for (path, expected) in [
            ("dist/a/b.js", true),
            ("distant", false),
            ("target/a.txt", true),
            ("target/a/b.txt", false),
            ("out/x", true),
        ] {
            assert_eq!(include.matches(path.as_bytes()), expected, "{path}");
        }
        let files = PathGlobs::of_files(["dist", "src/*.py"]).expect("globs");
        assert!(files.matches(b"dist") && files.matches(b"src/a.py"));
        assert!(!files.matches(b"dist/a.js"));
        assert!(PathGlobs::new(["a["]).is_err());
        assert!(PathGlobs::new([] as [&str; 0]).expect("empty").is_empty());
    }
}
