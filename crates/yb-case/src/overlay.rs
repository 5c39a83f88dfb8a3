//! Files that a case or a variant lays over the start tree: instructions, skills, settings, hooks and MCP configuration of an
//! agent. Directories are expanded to their files when the case is loaded, so that a run lays down what its plan names.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::check::{Checker, join};
use super::files::{self, FileError};
use super::prompt::Dirs;
use super::types::Agent;
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Span};

/// The maximum size of the files of one entry.
pub(crate) const MAX_BYTES: usize = 64 << 20;
/// The maximum number of files of one layer.
const MAX_FILES: usize = 10_000;

/// The layers to apply to a workspace, in order: that of the case, then those of the variant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overlay {
    /// The layers that change something.
    pub layers: Vec<OverlayLayer>,
}

/// One layer: paths to remove, then files to write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OverlayLayer {
    /// Files and directories to remove, relative to the workspace, with `/` as separator.
    pub remove: Vec<String>,
    /// The files to write, sorted by path.
    pub files: Vec<OverlayFile>,
}

/// A file to write to the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlayFile {
    /// The path relative to the workspace, with `/` as separator.
    pub target: String,
    /// The file to copy, with symbolic links resolved.
    pub source: PathBuf,
    /// The BLAKE3 digest of the content, in hexadecimal.
    pub digest: String,
    /// Whether the file is executable.
    pub executable: bool,
}

impl Overlay {
    /// Returns whether the overlay changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns the paths of all written files.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().flat_map(|layer| &layer.files).map(|file| file.target.as_str())
    }

    /// Returns whether the overlay writes or removes a path.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        let below = |parent: &str| {
            path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.targets().any(|target| target == path)
            || self.layers.iter().flat_map(|layer| &layer.remove).any(|removed| below(removed))
    }

    /// Returns a description that identifies the overlay and does not depend on the location of its files.
    #[must_use]
    pub fn key(&self) -> Json {
        let file = |file: &OverlayFile| json!([file.target, file.digest, file.executable]);
        let layer = |layer: &OverlayLayer| json!({ "remove": layer.remove, "files": layer.files.iter().map(file).collect::<Vec<_>>() });
        self.layers.iter().map(layer).collect()
    }
}

/// Reads the layers of a case and its variant, which have been checked.
pub(crate) fn read(case: &Node, variant: &[Node], dirs: Dirs<'_>, checker: &mut Checker<'_, '_>) -> Overlay {
    let layers = [case].into_iter().chain(variant).map(|node| layer(node, dirs, checker));
    Overlay { layers: layers.filter(|layer| *layer != OverlayLayer::default()).collect() }
}

/// Warns of settings and skills that the agent does not read because the repository is not trusted.
pub(crate) fn warn_if_untrusted(overlay: &Overlay, agent: &Agent, at: Span, checker: &mut Checker<'_, '_>) {
    if agent.config.trust_repo_settings {
        return;
    }
    let trusted = checker.agents.get(&agent.kind).map_or(&[][..], |spec| spec.trusted_files);
    if let Some(target) =
        overlay.targets().find(|target| trusted.iter().any(|known| target.starts_with(known)))
    {
        let message = format!("{} has no effect without `trust_repo_settings`", quoted(target));
        let hint = format!(
            "set `agent.config.{}.trust_repo_settings: true`, which also trusts the repository's own",
            agent.kind
        );
        checker.found.warning(at, "files", message).hint(hint);
    }
}

fn layer(node: &Node, dirs: Dirs<'_>, checker: &mut Checker<'_, '_>) -> OverlayLayer {
    let mut layer = OverlayLayer::default();
    for (at, item) in node.get("remove").map(Node::items).unwrap_or_default().iter().enumerate() {
        let key = join("remove", &format!("[{at}]"));
        layer.remove.extend(item.text().and_then(|text| workspace_path(text, item.span, &key, checker)));
    }
    for entry in node.get("files").map(Node::entries).unwrap_or_default() {
        let key = join("files", &entry.key.name);
        let Some(target) = workspace_path(&entry.key.name, entry.key.span, &key, checker) else { continue };
        let Some(text) = entry.node.text() else { continue };
        match source_files(dirs.of(entry.node.span), text, &target) {
            Ok(mut found) => layer.files.append(&mut found),
            Err(error) => {
                let message = format!("failed to read {} ({error})", quoted(text));
                let hint =
                    "the path is relative to the directory of the file that names it and must stay below it";
                checker.found.error(entry.node.span, key, message).hint(hint);
            }
        }
    }
    layer.files.sort_by(|one, two| one.target.cmp(&two.target));
    if let Some(both) = conflict(&layer.files) {
        let message = format!("{} is both a file and a directory, or is written twice", quoted(both));
        let at = node.entry("files").map_or(node.span, |entry| entry.key.span);
        checker.found.error(at, "files", message).hint("lay each path once");
    }
    if layer.files.len() > MAX_FILES {
        let at = node.entry("files").map_or(node.span, |entry| entry.key.span);
        checker.found.error(at, "files", "too many files").expected(format!("at most {MAX_FILES}"));
    }
    layer
}

/// Returns the path of a file that another one contradicts.
fn conflict(files: &[OverlayFile]) -> Option<&str> {
    let targets: std::collections::BTreeSet<&str> = files.iter().map(|file| file.target.as_str()).collect();
    let twice = files.windows(2).find(|pair| pair[0].target == pair[1].target).map(|pair| &pair[0]);
    let parent = files.iter().find_map(|file| {
        let parents = file.target.match_indices('/').map(|(at, _)| &file.target[..at]);
        parents.into_iter().find(|parent| targets.contains(parent))
    });
    twice.map(|file| file.target.as_str()).or(parent)
}

/// Returns a normalized path in the workspace. Git's own directory is not part of a start tree.
fn workspace_path(text: &str, at: Span, key: &str, checker: &mut Checker<'_, '_>) -> Option<String> {
    // An invalid path is reported by the validation of the field.
    let path = files::relative(text).ok()?;
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.iter().any(|part| is_git(part)) {
        let error = checker.found.error(at, key, format!("path in git's own directory: {}", quoted(text)));
        error.expected("a path without `.git`");
        return None;
    }
    Some(parts.join("/"))
}

pub(crate) fn is_git(name: &str) -> bool {
    name.trim_end_matches(['.', ' ']).eq_ignore_ascii_case(".git")
}

/// Reads a file, or all files of a directory, below `dir`.
fn source_files(dir: &Path, text: &str, target: &str) -> Result<Vec<OverlayFile>, FileError> {
    let path = files::find(dir, text)?;
    let mut found = Vec::new();
    let mut left = MAX_BYTES;
    collect(&path, target, &mut left, &mut found)?;
    if found.is_empty() { Err(FileError::Missing) } else { Ok(found) }
}

/// Reads a file, or all files of a directory. Symbolic links are an error.
pub(crate) fn collect(
    path: &Path,
    target: &str,
    left: &mut usize,
    found: &mut Vec<OverlayFile>,
) -> Result<(), FileError> {
    let metadata = fs::symlink_metadata(path).map_err(FileError::Io)?;
    if metadata.is_symlink() {
        return Err(FileError::Link(target.to_owned()));
    }
    if !metadata.is_dir() {
        let bytes = files::read(path, *left)?;
        *left -= bytes.len();
        let digest = blake3::hash(&bytes).to_hex().to_string();
        let executable = is_executable(&metadata);
        found.push(OverlayFile { target: target.to_owned(), source: path.to_owned(), digest, executable });
        return if found.len() > MAX_FILES { Err(FileError::TooLarge) } else { Ok(()) };
    }
    for entry in fs::read_dir(path).map_err(FileError::Io)? {
        let entry = entry.map_err(FileError::Io)?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| files::relative(name).is_ok() && !is_git(name)) else {
            return Err(FileError::Name(name.to_string_lossy().into_owned()));
        };
        collect(&entry.path(), &format!("{target}/{name}"), left, found)?;
    }
    Ok(())
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}
