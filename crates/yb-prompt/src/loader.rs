//! Loaders of prompt files, imports and datasets.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::template::MAX_BYTES;

/// The maximum size of a dataset.
const MAX_DATASET: u64 = 64 << 20;

/// A source of files. An error is a reason that completes "failed to read …:".
pub trait Loader: fmt::Debug + Send + Sync {
    /// Reads a prompt file.
    ///
    /// # Errors
    /// Fails with the reason if the file can't be read.
    fn load(&self, path: &str) -> Result<String, String>;

    /// Reads a dataset. Defaults to [`load`](Self::load).
    ///
    /// # Errors
    /// Fails with the reason if the file can't be read.
    fn load_dataset(&self, path: &str) -> Result<String, String> {
        self.load(path)
    }

    /// Returns the path of an import. By default it is relative to the importing file.
    ///
    /// # Errors
    /// Fails with the reason if the path is invalid.
    fn resolve(&self, from: &str, import: &str) -> Result<String, String> {
        relative_to(from, import)
    }
}

/// Resolves a path relative to a file's folder, and normalizes `.` and `..`.
pub(crate) fn relative_to(from: &str, path: &str) -> Result<String, String> {
    if Path::new(path).is_absolute() || path.contains('\\') {
        return Err("expected a relative path with `/` separators".to_owned());
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

/// Loads files from disk.
#[derive(Debug, Clone, Default)]
pub struct FileLoader {
    root: PathBuf,
}

impl FileLoader {
    /// Creates a loader with a root for relative paths.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn read(&self, path: &str, limit: u64) -> Result<String, String> {
        let path = self.root.join(path);
        let about = std::fs::metadata(&path).map_err(|error| error.to_string())?;
        if !about.is_file() {
            return Err("not a regular file".to_owned());
        }
        if about.len() > limit {
            return Err(format!("file is too large: {} bytes (maximum {limit})", about.len()));
        }
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }
}

impl Loader for FileLoader {
    fn load(&self, path: &str) -> Result<String, String> {
        let known =
            Path::new(path).extension().is_some_and(|extension| extension == "mdx" || extension == "md");
        if !known {
            return Err("expected a `.mdx` or `.md` file".to_owned());
        }
        self.read(path, MAX_BYTES as u64)
    }

    fn load_dataset(&self, path: &str) -> Result<String, String> {
        self.read(path, MAX_DATASET)
    }
}

/// Loads files from memory, for programs that embed their prompts.
#[derive(Debug, Clone, Default)]
pub struct MemoryLoader {
    files: BTreeMap<String, String>,
}

impl MemoryLoader {
    /// Creates an empty loader.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.files.insert(name.into(), text.into());
        self
    }
}

impl Loader for MemoryLoader {
    fn load(&self, path: &str) -> Result<String, String> {
        self.files.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::relative_to;

    #[test]
    fn import_is_relative_to_its_file() {
        for (from, path, expected) in [
            ("a.mdx", "./b.mdx", "b.mdx"),
            ("x/y/a.mdx", "../b.mdx", "x/b.mdx"),
            ("x/a.mdx", "../../b.mdx", "../b.mdx"),
            ("/p/a.mdx", "b/./c.mdx", "/p/b/c.mdx"),
            ("./a.mdx", "a.mdx", "a.mdx"),
        ] {
            assert_eq!(relative_to(from, path).as_deref(), Ok(expected), "{from} {path}");
        }
        assert!(relative_to("a.mdx", "/etc/b.mdx").is_err());
    }
}
