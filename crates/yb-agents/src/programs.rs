//! Agents' programs in a directory of `yb`: pinned, shared by all projects, several versions side by side.
//!
//! Each version has a folder, `ROOT/<agent>/<version>`, with the `node_modules` of npm. A folder is complete or absent: npm installs
//! into a sibling, which is renamed when it is complete.

mod error;
mod install;
mod pinned;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use yb_case::AgentSpec;

pub use error::ProgramError;
pub use install::Installer;
pub use pinned::PinnedProgram;

/// The variable with the directory of the store.
pub const TOOLS_DIR: &str = "YB_TOOLS_DIR";
/// The file that completes an installation.
const MANIFEST: &str = "tool.json";

/// The directory of installed programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramStore {
    root: PathBuf,
}

/// One installed version of an agent's program.
#[derive(Debug, Clone)]
pub struct InstalledProgram {
    /// The agent.
    pub agent: &'static AgentSpec,
    /// Its version.
    pub version: String,
    /// The folder with its `node_modules`.
    pub prefix: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    name: String,
    version: String,
    package: String,
}

impl ProgramStore {
    /// A store in this directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The store of the user: `YB_TOOLS_DIR`, or `youbencha/tools` below `XDG_DATA_HOME` or `~/.local/share`. None if no variable is
    /// set.
    #[must_use]
    pub fn from_env(variable: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(root) = variable(TOOLS_DIR).filter(|root| !root.is_empty()) {
            return std::path::absolute(root).ok().map(Self::at);
        }
        let data = path("XDG_DATA_HOME").or_else(|| Some(path("HOME")?.join(".local").join("share")))?;
        Some(Self::at(data.join("youbencha").join("tools")))
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Finds an installed version.
    ///
    /// # Errors
    /// If it is not installed; the hint is the command that installs it.
    pub fn find(&self, agent: &'static AgentSpec, version: &str) -> Result<InstalledProgram, ProgramError> {
        let wanted = PinnedProgram::new(agent, version)?;
        let prefix = self.prefix(&wanted);
        let text = std::fs::read_to_string(prefix.join(MANIFEST)).ok();
        let manifest: Option<Manifest> = text.and_then(|text| serde_json::from_str(&text).ok());
        match manifest.filter(|manifest| manifest.name == agent.name && manifest.version == version) {
            Some(Manifest { version, .. }) => Ok(InstalledProgram { agent, version, prefix }),
            None => Err(ProgramError::NotInstalled { program: wanted, prefix }),
        }
    }

    /// All installed versions of an agent, the newest last.
    #[must_use]
    pub fn versions(&self, agent: &'static AgentSpec) -> Vec<InstalledProgram> {
        let entries = std::fs::read_dir(self.root.join(agent.name)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<_> = names.filter_map(|version| self.find(agent, &version).ok()).collect();
        found.sort_by_cached_key(|program| pinned::sort_key(&program.version));
        found
    }

    /// The newest installed version of an agent.
    #[must_use]
    pub fn newest(&self, agent: &'static AgentSpec) -> Option<InstalledProgram> {
        self.versions(agent).pop()
    }

    fn prefix(&self, program: &PinnedProgram) -> PathBuf {
        self.root.join(program.agent.name).join(&program.version)
    }
}

impl InstalledProgram {
    /// The program that npm links; for some agents a JavaScript wrapper around a native one.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let bin = self.agent.npm().map_or("", |program| program.bin);
        let name = if cfg!(windows) { format!("{bin}.cmd") } else { bin.to_owned() };
        self.prefix.join("node_modules").join(".bin").join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adapter as _, Codex, Gemini};

    #[test]
    fn directory_is_the_users_unless_a_variable_names_another() {
        let root = |variables: &[(&str, &str)]| {
            let get =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
            ProgramStore::from_env(&get).map(|store| store.root().display().to_string())
        };
        assert_eq!(root(&[("HOME", "/h")]).unwrap(), "/h/.local/share/youbencha/tools");
        assert_eq!(root(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")]).unwrap(), "/d/youbencha/tools");
        // The base directory specification: a relative path is ignored.
        assert_eq!(
            root(&[("HOME", "/h"), ("XDG_DATA_HOME", "d")]).unwrap(),
            "/h/.local/share/youbencha/tools"
        );
        assert_eq!(root(&[("HOME", "/h"), (TOOLS_DIR, "/t")]).unwrap(), "/t");
        assert_eq!(root(&[]), None);
    }

    #[test]
    fn incomplete_installation_is_not_found() {
        let root = tempfile::tempdir().unwrap();
        let store = ProgramStore::at(root.path());
        let place = |version: &str, manifest: &str| {
            let prefix = root.path().join("codex").join(version);
            std::fs::create_dir_all(&prefix).unwrap();
            std::fs::write(prefix.join(MANIFEST), manifest).unwrap();
        };
        for version in ["0.9.0", "0.10.0", "0.10.0-beta.1"] {
            place(version, &format!(r#"{{"name":"codex","version":"{version}","package":"p"}}"#));
        }
        place("0.11.0", "");
        place("0.12.0", r#"{"name":"codex","version":"0.9.0","package":"p"}"#);
        let versions: Vec<String> =
            store.versions(Codex.spec()).into_iter().map(|program| program.version).collect();
        assert_eq!(versions, ["0.9.0", "0.10.0-beta.1", "0.10.0"]);
        assert_eq!(store.newest(Codex.spec()).unwrap().prefix, root.path().join("codex/0.10.0"));
        let error = store.find(Codex.spec(), "0.11.0").unwrap_err();
        assert_eq!(error.hints(), ["install it: `yb install-agents --cli codex@0.11.0`"]);
        assert!(store.versions(Gemini.spec()).is_empty());
    }
}
