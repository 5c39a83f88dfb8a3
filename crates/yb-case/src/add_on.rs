//! Plugins, skills and instructions of an agent: files beside a case or suite that a trial gives to the agent, outside of the
//! repository. All files are read when the case is loaded, so that a run uses what its plan names.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::check::{Checker, join};
use super::files::{self, FileError};
use super::overlay::{self, OverlayFile};
use super::prompt::Dirs;
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Span};

const CONFIG: &str = "agent.config";
/// The keys of this module.
pub(crate) const KEYS: [&str; 3] = ["plugins", "skills", "instructions"];
/// Entries of a plugin or skill that the agent must not see: its evaluations, and records of runs.
const LEFT_OUT: [&str; 2] = ["evals", ".youbencha-workspace"];
/// Entries any of which makes a directory a plugin.
const PLUGIN_PARTS: [&str; 6] = [".claude-plugin", "skills", "commands", "agents", "hooks", ".mcp.json"];
const MANIFEST: &str = ".claude-plugin/plugin.json";
const SKILL_FILE: &str = "SKILL.md";
/// The maximum size of an instruction file.
const MAX_INSTRUCTIONS: usize = 4 << 20;
/// A shorter line does not identify an instruction file.
const MIN_LINE: usize = 8;
/// The maximum length of the line that identifies an instruction file, in characters.
const MAX_LINE: usize = 200;

/// A plugin or a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddOn {
    /// The name under which the agent loads it; also the name of its directory.
    pub name: String,
    /// The files, sorted by their path in its directory.
    pub files: Vec<OverlayFile>,
    /// The BLAKE3 digest of the files with their paths, in hexadecimal.
    pub digest: String,
}

/// An instruction file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// The file, with its path in the workspace.
    pub file: OverlayFile,
    /// A line of the text that is expected in a model request; absent if no line is distinctive.
    pub line: Option<String>,
}

/// Reads `plugins`.
pub(crate) fn plugins(node: &Node, dirs: Dirs<'_>, checker: &mut Checker<'_, '_>) -> Vec<AddOn> {
    let mut all: Vec<AddOn> = Vec::new();
    for (at, item) in node.items().iter().enumerate() {
        let key = join(CONFIG, &format!("plugins[{at}]"));
        let Some((path, own_name)) = directory(item, dirs, &key, checker) else { continue };
        if PLUGIN_PARTS.iter().all(|part| !path.join(part).exists()) {
            let message = format!("not a plugin: {}", quoted(item.text().unwrap_or_default()));
            let expected = format!(
                "a directory with `{MANIFEST}`, `skills`, `commands`, `agents`, `hooks` or `.mcp.json`"
            );
            checker.found.error(item.span, key, message).expected(expected);
            continue;
        }
        let Some(name) = manifest_name(&path, own_name, item, &key, checker) else { continue };
        push(&mut all, name, &path, item, &key, checker);
    }
    all
}

/// Reads `skills`.
pub(crate) fn skills(node: &Node, dirs: Dirs<'_>, checker: &mut Checker<'_, '_>) -> Vec<AddOn> {
    let mut all: Vec<AddOn> = Vec::new();
    for (at, item) in node.items().iter().enumerate() {
        let key = join(CONFIG, &format!("skills[{at}]"));
        let Some((path, name)) = directory(item, dirs, &key, checker) else { continue };
        if !path.join(SKILL_FILE).is_file() {
            let message = format!("not a skill: {}", quoted(item.text().unwrap_or_default()));
            checker.found.error(item.span, key, message).expected(format!("a directory with `{SKILL_FILE}`"));
            continue;
        }
        push(&mut all, name, &path, item, &key, checker);
    }
    all
}

/// Reads `instructions` for an agent.
pub(crate) fn instructions(
    node: &Node,
    kind: &str,
    dirs: Dirs<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<Instructions> {
    let text = node.text()?;
    let key = join(CONFIG, "instructions");
    let target = checker.agents.get(kind)?.instruction_file?;
    let read = path(dirs.of(node.span), text).and_then(|path| {
        let bytes = files::read(&path, MAX_INSTRUCTIONS)?;
        let digest = blake3::hash(&bytes).to_hex().to_string();
        let file = OverlayFile { target: target.to_owned(), source: path, digest, executable: false };
        Ok(Instructions { file, line: distinctive_line(&String::from_utf8_lossy(&bytes)) })
    });
    read.map_err(|error| unreadable(text, &error, node.span, &key, checker)).ok()
}

/// Returns the longest line of an instruction file that agents pass on as it is.
fn distinctive_line(text: &str) -> Option<String> {
    let is_passed_on = |line: &&str| !line.contains("<!--") && !line.contains("-->") && !line.contains('@');
    let lines = text.lines().map(str::trim).filter(is_passed_on);
    let longest = lines.filter(|line| line.chars().count() >= MIN_LINE).max_by_key(|line| line.len())?;
    Some(longest.chars().take(MAX_LINE).collect::<String>().trim_end().to_owned())
}

/// Resolves a relative path, which may lead out of the directory: evaluations are usually below the plugin that they test.
fn path(dir: &Path, text: &str) -> Result<PathBuf, FileError> {
    let relative = Path::new(text);
    let is_plain =
        |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir | Component::ParentDir);
    if text.chars().any(char::is_control) {
        return Err(files::PathError::Control.into());
    }
    if text.starts_with('~') || !relative.components().all(is_plain) {
        return Err(files::PathError::Absolute.into());
    }
    dir.join(relative).canonicalize().map_err(|_| FileError::Missing)
}

fn unreadable(text: &str, error: &FileError, at: Span, key: &str, checker: &mut Checker<'_, '_>) {
    let message = format!("failed to read {} ({error})", quoted(text));
    let hint = "the path is relative to the directory of the case or suite file that names it";
    checker.found.error(at, key, message).hint(hint);
}

/// Returns a directory and its name.
fn directory(
    item: &Node,
    dirs: Dirs<'_>,
    key: &str,
    checker: &mut Checker<'_, '_>,
) -> Option<(PathBuf, String)> {
    let text = item.text()?;
    let found = path(dirs.of(item.span), text);
    let found = found.and_then(|path| if path.is_dir() { Ok(path) } else { Err(FileError::NotADirectory) });
    match found {
        Ok(path) => {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            Some((path, name))
        }
        Err(error) => {
            unreadable(text, &error, item.span, key, checker);
            None
        }
    }
}

/// Returns the name in the manifest of a plugin; without a manifest, that of its directory.
fn manifest_name(
    path: &Path,
    own_name: String,
    item: &Node,
    key: &str,
    checker: &mut Checker<'_, '_>,
) -> Option<String> {
    let file = path.join(MANIFEST);
    if !file.exists() {
        return Some(own_name);
    }
    let read = fs::read(&file).map_err(|error| error.to_string());
    let parsed = read.and_then(|bytes| {
        serde_json::from_slice::<serde_json::Value>(&bytes).map_err(|error| error.to_string())
    });
    let name = parsed.and_then(|manifest| {
        let name = manifest["name"].as_str().filter(|name| is_plugin_name(name));
        name.map(str::to_owned).ok_or_else(|| "no valid `name`".to_owned())
    });
    match name {
        Ok(name) => Some(name),
        Err(reason) => {
            let message =
                format!("invalid `{MANIFEST}` ({reason}): {}", quoted(item.text().unwrap_or_default()));
            checker.found.error(item.span, key, message).hint("`name` is required, without spaces");
            None
        }
    }
}

/// Whether a name can be that of a directory.
fn is_plugin_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !name.starts_with('.')
}

fn push(
    all: &mut Vec<AddOn>,
    name: String,
    path: &Path,
    item: &Node,
    key: &str,
    checker: &mut Checker<'_, '_>,
) {
    if all.iter().any(|known| known.name == name) {
        let message = format!("another one has the same name: {}", quoted(&name));
        checker.found.error(item.span, key, message).hint("name each one once");
        return;
    }
    match read(path) {
        Ok(files) => all.push(AddOn { name, digest: digest(&files), files }),
        Err(error) => unreadable(item.text().unwrap_or_default(), &error, item.span, key, checker),
    }
}

/// Reads the files of a plugin or skill, without its evaluations and git's own directory.
fn read(path: &Path) -> Result<Vec<OverlayFile>, FileError> {
    let mut found = Vec::new();
    let mut left = overlay::MAX_BYTES;
    for entry in fs::read_dir(path).map_err(FileError::Io)? {
        let entry = entry.map_err(FileError::Io)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            return Err(FileError::Name(name.to_string_lossy().into_owned()));
        };
        if !overlay::is_git(name) && !LEFT_OUT.contains(&name) {
            overlay::collect(&entry.path(), name, &mut left, &mut found)?;
        }
    }
    found.sort_by(|one, two| one.target.cmp(&two.target));
    Ok(found)
}

fn digest(files: &[OverlayFile]) -> String {
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(file.target.as_bytes()).update(b"\0").update(file.digest.as_bytes());
        hasher.update(if file.executable { b"x" } else { b"-" });
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_line_that_agents_pass_on_identifies_instructions() {
        let text = "# Rules\n<!-- a long comment that an agent leaves out -->\nSee @docs/everything-about-this-project.md\n  Greet people by name.  \n";
        assert_eq!(distinctive_line(text).as_deref(), Some("Greet people by name."));
        assert_eq!(distinctive_line("# Short\n\n-"), None);
    }

    #[test]
    fn paths_are_relative_and_may_lead_to_a_parent() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("plugin/evals")).unwrap();
        let found = path(&dir.path().join("plugin/evals"), "..").unwrap();
        assert_eq!(found, dir.path().join("plugin").canonicalize().unwrap());
        for bad in ["/etc", "~/x", "none", "a\nb"] {
            assert!(path(dir.path(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn evaluations_and_git_are_not_part_of_an_add_on() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["evals/case/prompt.md", ".git/config", "skills/one/SKILL.md", "README.md"] {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, name).unwrap();
        }
        let files = read(dir.path()).unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.target.as_str()).collect();
        assert_eq!(names, ["README.md", "skills/one/SKILL.md"]);
        let before = digest(&files);
        fs::write(dir.path().join("README.md"), "changed").unwrap();
        assert_ne!(digest(&read(dir.path()).unwrap()), before);
    }
}
