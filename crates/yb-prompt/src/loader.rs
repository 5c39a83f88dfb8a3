//! Where prompt files, what they import, and their datasets come from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::template::MAX_BYTES;

/// The largest dataset.
const MAX_DATASET: u64 = 64 << 20;

/// Where files come from. Reasons are words that complete "can't read it: …".
pub trait Loader: fmt::Debug + Send + Sync {
    /// The text of a prompt file.
    ///
    /// # Errors
    /// Why it can't be read.
    fn load(&self, path: &str) -> Result<String, String>;

    /// The text of a dataset; by default as any other file.
    ///
    /// # Errors
    /// Why it can't be read.
    fn load_dataset(&self, path: &str) -> Result<String, String> {
        self.load(path)
    }

    /// The name of what a file imports; by default relative to that file.
    ///
    /// # Errors
    /// Why it can't be imported.
    fn resolve(&self, from: &str, import: &str) -> Result<String, String> {
        beside(from, import)
    }
}

/// A path that starts at a file's folder, without `.` and with as few `..` as can be.
pub(crate) fn beside(from: &str, path: &str) -> Result<String, String> {
    if Path::new(path).is_absolute() || path.contains('\\') {
        return Err("the path is not relative, with `/` between its parts".to_owned());
    }
    let mut parts: Vec<String> = Vec::new();
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let mut root = String::new();
    for component in folder.components().chain(Path::new(path).components()) {
        match component {
            Component::CurDir => {}
            Component::ParentDir if parts.last().is_some_and(|last| last != "..") => {
                parts.pop();
            }
            Component::ParentDir => parts.push("..".to_owned()),
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::RootDir | Component::Prefix(_) => root += &component.as_os_str().to_string_lossy(),
        }
    }
    Ok(root + &parts.join("/"))
}

/// Files on this machine.
#[derive(Debug, Clone, Default)]
pub struct FileLoader {
    root: PathBuf,
}

impl FileLoader {
    /// Relative paths start here.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn read(&self, path: &str, limit: u64) -> Result<String, String> {
        let path = self.root.join(path);
        let about = std::fs::metadata(&path).map_err(|error| error.to_string())?;
        if !about.is_file() {
            return Err("it is no file".to_owned());
        }
        if about.len() > limit {
            return Err(format!("it has {} bytes, at most {limit} are possible", about.len()));
        }
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }
}

impl Loader for FileLoader {
    fn load(&self, path: &str) -> Result<String, String> {
        let known =
            Path::new(path).extension().is_some_and(|extension| extension == "mdx" || extension == "md");
        if !known {
            return Err("expected a file whose name ends with `.mdx` or `.md`".to_owned());
        }
        self.read(path, MAX_BYTES as u64)
    }

    fn load_dataset(&self, path: &str) -> Result<String, String> {
        self.read(path, MAX_DATASET)
    }
}

/// Texts by name, for programs that bring their prompts along.
#[derive(Debug, Clone, Default)]
pub struct MemoryLoader {
    files: BTreeMap<String, String>,
}

impl MemoryLoader {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.files.insert(name.into(), text.into());
        self
    }
}

impl Loader for MemoryLoader {
    fn load(&self, path: &str) -> Result<String, String> {
        self.files.get(path).cloned().ok_or_else(|| "there is no such file".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::beside;

    #[test]
    fn an_import_starts_beside_its_file() {
        for (from, path, expected) in [
            ("a.mdx", "./b.mdx", "b.mdx"),
            ("x/y/a.mdx", "../b.mdx", "x/b.mdx"),
            ("x/a.mdx", "../../b.mdx", "../b.mdx"),
            ("/p/a.mdx", "b/./c.mdx", "/p/b/c.mdx"),
            ("./a.mdx", "a.mdx", "a.mdx"),
        ] {
            assert_eq!(beside(from, path).as_deref(), Ok(expected), "{from} {path}");
        }
        assert!(beside("a.mdx", "/etc/b.mdx").is_err());
    }
}
