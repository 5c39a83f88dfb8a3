//! Agents' programs in a directory of our own: pinned, shared by all projects, several versions beside each other.
//!
//! One folder per version, `ROOT/codex/0.166.0`, with npm's `node_modules` in it. It is there completely or not at all: npm works in
//! a sibling, which gets its name when everything is in it.

mod error;
mod install;
mod spec;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use error::ToolError;
pub use install::Installer;
pub use spec::CliSpec;
pub use yb_case::programs::{KnownCli, known_clis};

/// The variable that says where tools are kept.
pub const TOOLS_DIR: &str = "YB_TOOLS_DIR";
/// What a finished installation says about itself.
const MANIFEST: &str = "tool.json";

/// The directory of pinned programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    root: PathBuf,
}

/// One installed version of one agent's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// What a case calls the agent.
    pub name: String,
    /// Its version.
    pub version: String,
    /// A folder with its `node_modules`.
    pub prefix: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    name: String,
    version: String,
    package: String,
}

impl Tools {
    /// Tools in this directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where these variables say: `YB_TOOLS_DIR`, or `youbencha/tools` below `XDG_DATA_HOME` or `~/.local/share`. None if nothing
    /// says it.
    #[must_use]
    pub fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
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

    /// An installed version.
    ///
    /// # Errors
    /// When it is not there; the hint is the command that installs it.
    pub fn find(&self, name: &str, version: &str) -> Result<Tool, ToolError> {
        let spec = CliSpec::new(name, version)?;
        let prefix = self.prefix(&spec);
        let text = std::fs::read_to_string(prefix.join(MANIFEST)).ok();
        let manifest: Option<Manifest> = text.and_then(|text| serde_json::from_str(&text).ok());
        match manifest.filter(|manifest| manifest.name == name && manifest.version == version) {
            Some(Manifest { name, version, .. }) => Ok(Tool { name, version, prefix }),
            None => Err(ToolError::NotInstalled { spec, prefix }),
        }
    }

    /// Every installed version of an agent, the newest last.
    #[must_use]
    pub fn versions(&self, name: &str) -> Vec<Tool> {
        let entries = std::fs::read_dir(self.root.join(name)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut tools: Vec<Tool> = names.filter_map(|version| self.find(name, &version).ok()).collect();
        tools.sort_by_cached_key(|tool| spec::order(&tool.version));
        tools
    }

    /// The newest installed version of an agent.
    #[must_use]
    pub fn newest(&self, name: &str) -> Option<Tool> {
        self.versions(name).pop()
    }

    fn prefix(&self, spec: &CliSpec) -> PathBuf {
        self.root.join(spec.cli.name).join(&spec.version)
    }
}

impl Tool {
    /// The program that npm links for this agent; some are a wrapper in JavaScript around a native one.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        let bin = known_clis().iter().find(|cli| cli.name == self.name).map_or("", |cli| cli.bin);
        let name = if cfg!(windows) { format!("{bin}.cmd") } else { bin.to_owned() };
        self.prefix.join("node_modules").join(".bin").join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_users_unless_a_variable_says_otherwise() {
        let root = |variables: &[(&str, &str)]| {
            let get =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
            Tools::of_environment(&get).map(|tools| tools.root().display().to_string())
        };
        assert_eq!(root(&[("HOME", "/h")]).unwrap(), "/h/.local/share/youbencha/tools");
        assert_eq!(root(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")]).unwrap(), "/d/youbencha/tools");
        // The base directory specification: a relative one is no answer.
        assert_eq!(
            root(&[("HOME", "/h"), ("XDG_DATA_HOME", "d")]).unwrap(),
            "/h/.local/share/youbencha/tools"
        );
        assert_eq!(root(&[("HOME", "/h"), (TOOLS_DIR, "/t")]).unwrap(), "/t");
        assert_eq!(root(&[]), None);
    }

    #[test]
    fn what_is_not_finished_is_not_there() {
        let root = tempfile::tempdir().unwrap();
        let tools = Tools::at(root.path());
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
        let versions: Vec<String> = tools.versions("codex").into_iter().map(|tool| tool.version).collect();
        assert_eq!(versions, ["0.9.0", "0.10.0-beta.1", "0.10.0"]);
        assert_eq!(tools.newest("codex").unwrap().prefix, root.path().join("codex/0.10.0"));
        let error = tools.find("codex", "0.11.0").unwrap_err();
        assert_eq!(error.hints(), ["install it: `yb install-agents --cli codex@0.11.0`"]);
        assert!(tools.versions("gemini").is_empty());
    }
}
