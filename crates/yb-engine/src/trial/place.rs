//! Where a run keeps its things, as every later command finds them.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::TrialError;
use crate::case::Case;

/// The directories of one trial.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) cache: PathBuf,
    pub(super) run: PathBuf,
    pub(super) trial: String,
    pub(super) workspace: PathBuf,
    pub(super) artifacts: PathBuf,
    pub(super) private: PathBuf,
}

impl Place {
    /// `<root>/runs/<run-id>/trials/<case>--default--1/attempt-1`, and links to its artifacts.
    pub(super) fn create(root: &Path, case: &Case, now: Timestamp) -> Result<Self, TrialError> {
        let root = std::path::absolute(root).map_err(TrialError::io(root))?;
        let prefix = case.workspace_name.as_deref().map_or_else(|| "run".to_owned(), name);
        let day = now.strftime("%Y-%m-%d");
        let run = root.join("runs").join(format!("{prefix}-{day}-{}", now.as_millisecond()));
        let trial = format!("{}--default--1", name(&case.name));
        let attempt = run.join("trials").join(&trial).join("attempt-1");
        let place = Self {
            cache: root.join("cache"),
            workspace: attempt.join("src-modified"),
            artifacts: attempt.join("artifacts"),
            private: attempt.join("private"),
            trial,
            run,
        };
        for directory in [&place.cache, &place.artifacts, &place.private] {
            fs::create_dir_all(directory).map_err(TrialError::io(directory))?;
        }
        #[cfg(unix)]
        {
            let link = place.run.join("artifacts");
            let target = Path::new("trials").join(&place.trial).join("attempt-1").join("artifacts");
            std::os::unix::fs::symlink(target, &link).map_err(TrialError::io(&link))?;
        }
        Ok(place)
    }

    /// Writes a file of the artifacts; whoever looks sees the whole file or none.
    pub(super) fn write(&self, file: &str, content: &impl Serialize) -> Result<(), TrialError> {
        let path = self.artifacts.join(file);
        let part = self.artifacts.join(format!(".{file}.part"));
        let text = serde_json::to_vec_pretty(content).map_err(|error| TrialError::io(&path)(error.into()))?;
        fs::write(&part, text).and_then(|()| fs::rename(&part, &path)).map_err(TrialError::io(&path))
    }

    /// Removes what nobody needs any more: the agent's private files, and its workspace unless that is kept.
    pub(super) fn finish(&self, keep_workspace: bool) -> Result<(), TrialError> {
        let gone: &[&PathBuf] =
            if keep_workspace { &[&self.private] } else { &[&self.private, &self.workspace] };
        for directory in gone {
            if directory.exists() {
                fs::remove_dir_all(directory).map_err(TrialError::io(*directory))?;
            }
        }
        Ok(())
    }
}

/// A name that is safe in a path and in a ref: letters, digits, `-` and `_`.
pub(crate) fn name(text: &str) -> String {
    let safe: String = text
        .chars()
        .map(|c| if c.is_whitespace() { '-' } else { c })
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .collect();
    let safe: String = safe.trim_start_matches(['-', '_']).chars().take(100).collect();
    if safe.is_empty() { "workspace".to_owned() } else { safe }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_name_is_made_safe() {
        for (text, expected) in
            [("My case: v1.2", "My-case-v12"), ("--x", "x"), ("ü/..", "workspace"), ("a b", "a-b")]
        {
            assert_eq!(name(text), expected);
        }
        assert_eq!(name(&"x".repeat(200)).len(), 100);
    }
}
