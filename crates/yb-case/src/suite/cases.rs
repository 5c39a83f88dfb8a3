//! The cases of a suite: inline, from files and from globs. Each file is read once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::glob::{self, GlobError};
use crate::check::Mode;
use crate::{LoadOptions, dir_of, files};
use yb_yaml::diagnostic::{Diagnostic, Diagnostics, nearest, quoted};
use yb_yaml::{Node, Span, Value};

/// The maximum number of cases.
pub(super) const MAX_CASES: usize = 10_000;

/// A case before it is merged with a variant.
pub(super) struct CaseSource {
    pub(super) name: String,
    pub(super) tags: Vec<String>,
    /// The file, as shown in messages.
    pub(super) file: PathBuf,
    pub(super) text: Arc<str>,
    /// The key of an inline case; empty for a case file.
    pub(super) key: String,
    /// The position in the suite file.
    pub(super) at: Span,
    pub(super) root: Node,
    pub(super) mode: Mode,
}

/// The cases that could be read.
pub(super) struct CaseSources {
    pub(super) cases: Vec<CaseSource>,
    /// Whether all cases could be read.
    pub(super) complete: bool,
    /// The diagnostics of the case files.
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Reads the validated `cases`.
pub(super) fn read(
    path: &Path,
    text: &str,
    root: &Node,
    options: &LoadOptions,
    found: &mut Diagnostics<'_>,
) -> CaseSources {
    let mut reader = CaseReader {
        path,
        dir: dir_of(path),
        text: text.into(),
        options,
        found,
        seen: BTreeMap::new(),
        sources: CaseSources { cases: Vec::new(), complete: true, diagnostics: Vec::new() },
    };
    for (at, item) in root.get("cases").map(Node::items).unwrap_or_default().iter().enumerate() {
        let key = format!("cases[{at}]");
        let fine = match &item.value {
            Value::Text(named) => reader.named(named, item.span, &key),
            Value::Map(_) => reader.inline(item, &key),
            _ => false,
        };
        reader.sources.complete &= fine;
        if reader.sources.cases.len() > MAX_CASES {
            let error = reader.found.error(item.span, "cases", "too many cases");
            error.expected(format!("at most {MAX_CASES}"));
            reader.sources.complete = false;
            break;
        }
    }
    reader.sources
}

struct CaseReader<'a, 'f> {
    path: &'a Path,
    dir: &'a Path,
    text: Arc<str>,
    options: &'a LoadOptions,
    found: &'a mut Diagnostics<'f>,
    /// The files so far, each with its position; `None` for a file from a glob.
    seen: BTreeMap<PathBuf, Option<Span>>,
    sources: CaseSources,
}

impl CaseReader<'_, '_> {
    fn inline(&mut self, item: &Node, key: &str) -> bool {
        if super::is_suite(item) {
            return self.nested(item.span, key, "");
        }
        let mut below = Diagnostics::new(self.path, &self.text).with_key_prefix(key);
        let known = crate::mode(item, &mut below).is_some();
        self.sources.diagnostics.append(&mut below.into_vec());
        if known {
            let name = name_of(item).unwrap_or_else(|| key.to_owned());
            let text = Arc::clone(&self.text);
            let source =
                self.source(name, (self.path.to_owned(), text), item.clone(), Mode::Strict, item.span);
            self.sources.cases.push(CaseSource { key: key.to_owned(), ..source });
        }
        known
    }

    /// Reads a case file, or a glob if there is no such file.
    fn named(&mut self, text: &str, at: Span, key: &str) -> bool {
        let Ok(relative) = files::relative(text) else { return false };
        match files::find(self.dir, text) {
            Ok(file) if file.is_file() || !glob::is_pattern(text) => {
                if let Some(Some(first)) = self.seen.get(&file) {
                    let hint = format!(
                        "the first one is at line {}, column {}; remove one of them",
                        first.line, first.column
                    );
                    self.found.error(at, key, format!("case file given twice: {}", quoted(text))).hint(hint);
                    return true;
                }
                self.seen.insert(file.clone(), Some(at)).is_some() || self.file(&file, &relative, at, key)
            }
            Err(error) if !glob::is_pattern(text) => {
                self.unreadable(&error, text, at, key);
                false
            }
            _ => self.globbed(text, at, key),
        }
    }

    fn globbed(&mut self, text: &str, at: Span, key: &str) -> bool {
        let matched = match glob::expand(self.dir, text) {
            Ok(matched) => matched,
            Err(error) => {
                let found = self.found.error(at, key, format!("{error}: {}", quoted(text)));
                found.hint(match error {
                    GlobError::Nothing => "`*` matches within a directory, `**` across directories; hidden files need an explicit dot",
                    GlobError::Bad(_) => "`*`, `?`, `[…]` and `{…}` are special characters",
                    _ => "the path is relative to the directory of the suite file and must stay below it",
                });
                return false;
            }
        };
        let mut fine = true;
        for relative in matched {
            if self.sources.cases.len() > MAX_CASES {
                break;
            }
            let text = relative.to_string_lossy();
            match files::find(self.dir, &text) {
                // A glob skips files that are given elsewhere.
                Ok(file) if self.seen.contains_key(&file) => {}
                Ok(file) => {
                    self.seen.insert(file.clone(), None);
                    fine &= self.file(&file, &relative, at, key);
                }
                Err(error) => {
                    self.unreadable(&error, &text, at, key);
                    fine = false;
                }
            }
        }
        fine
    }

    fn file(&mut self, file: &Path, relative: &Path, at: Span, key: &str) -> bool {
        let shown = self.dir.join(relative);
        let shown = shown.strip_prefix("./").map(Path::to_owned).unwrap_or(shown);
        let text = relative.to_string_lossy();
        let converted = crate::harbor::read(file, &self.options.agents).transpose();
        let converted = match converted {
            Ok(converted) => converted,
            Err(mut diagnostics) => {
                self.sources.diagnostics.append(&mut diagnostics);
                return false;
            }
        };
        let bytes = match converted.map_or_else(|| files::read(file, yb_yaml::MAX_BYTES), Ok) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.unreadable(&error, &text, at, key);
                return false;
            }
        };
        let decoded = yb_yaml::decode(&bytes);
        let mut found = Diagnostics::new(&shown, decoded.unwrap_or_default());
        let root = match decoded {
            Err(bad) => {
                crate::report_decode_error(bad, &mut found);
                None
            }
            Ok(content) => crate::parse_tree(content, &shown, &mut found),
        };
        if root.as_ref().is_some_and(super::is_suite) {
            return self.nested(at, key, &text);
        }
        let prepared = root.and_then(|mut root| {
            let mode = crate::prepare(&mut root, self.options, &mut found)?;
            Some((root, mode))
        });
        self.sources.diagnostics.append(&mut found.into_vec());
        let Some((root, mode)) = prepared else { return false };
        let name = name_of(&root).unwrap_or_else(|| crate::stem(&shown));
        let source = self.source(name, (shown, decoded.unwrap_or_default().into()), root, mode, at);
        self.sources.cases.push(source);
        true
    }

    fn source(
        &self,
        name: String,
        file: (PathBuf, Arc<str>),
        root: Node,
        mode: Mode,
        at: Span,
    ) -> CaseSource {
        let tags = root.get("tags").map(Node::items).unwrap_or_default().iter();
        let tags = tags.filter_map(|tag| tag.text().map(str::to_owned)).collect();
        let (file, text) = file;
        CaseSource { name, tags, file, text, key: String::new(), at, root, mode }
    }

    fn nested(&mut self, at: Span, key: &str, which: &str) -> bool {
        let which = if which.is_empty() { String::new() } else { format!(": {}", quoted(which)) };
        self.found
            .error(at, key, format!("nested suite{which}"))
            .expected("a case")
            .hint("list its cases here, or move case files to a separate directory");
        false
    }

    fn unreadable(&mut self, error: &files::FileError, text: &str, at: Span, key: &str) {
        let found = self.found.error(at, key, format!("failed to read case ({error}): {}", quoted(text)));
        let near = match error {
            files::FileError::Missing => near(self.dir, text),
            _ => None,
        };
        found.hint(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                "the path is relative to the directory of the suite file and must stay below it".to_owned()
            }
        });
    }
}

fn name_of(root: &Node) -> Option<String> {
    root.get("name").and_then(Node::text).map(str::to_owned)
}

/// Returns the existing file with the most similar name.
fn near(dir: &Path, text: &str) -> Option<String> {
    let relative = files::relative(text).ok()?;
    let parent = relative.parent()?;
    let beside = if parent.as_os_str().is_empty() {
        dir.to_owned()
    } else {
        files::find(dir, &parent.to_string_lossy()).ok()?
    };
    let entries = std::fs::read_dir(beside).ok()?.take(1000).flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let wanted = relative.file_name()?.to_str()?;
    let near = nearest(wanted, names.iter().map(String::as_str))?;
    Some(parent.join(near).to_string_lossy().into_owned())
}
