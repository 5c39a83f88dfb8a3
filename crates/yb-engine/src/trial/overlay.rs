//! Lays the files of a case and its variant over a workspace, before any process runs in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::TrialError;
use yb_case::{Case, Overlay, OverlayFile};

/// Applies the layers in order. A symbolic link of the repository is never followed.
pub(super) fn apply(overlay: &Overlay, workspace: &Path) -> Result<(), TrialError> {
    for layer in &overlay.layers {
        for path in &layer.remove {
            remove(workspace, path).map_err(|error| failed("remove", path, error))?;
        }
        for file in &layer.files {
            write(workspace, file).map_err(|error| failed("lay", &file.target, error))?;
        }
    }
    Ok(())
}

/// Returns the texts that a replay compares verbatim: what is laid down, and the content of relative `add_dirs`.
pub(super) fn texts(case: &Case) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    if !case.overlay.is_empty() {
        texts.insert("files".to_owned(), case.overlay.key().to_string());
    }
    let config = &case.agent.config;
    for (key, add_ons) in [("plugins", &config.plugins), ("skills", &config.skills)] {
        if !add_ons.is_empty() {
            let digests: Vec<_> = add_ons.iter().map(|one| json!([one.name, one.digest])).collect();
            texts.insert(key.to_owned(), json!(digests).to_string());
        }
    }
    let added = &config.add_dirs;
    if added.iter().any(|directory| directory.digest.is_some()) {
        let keys: Vec<String> = added.iter().map(yb_case::AddedDir::key).collect();
        texts.insert("add_dirs".to_owned(), json!(keys).to_string());
    }
    texts
}

fn failed(what: &'static str, path: &str, source: io::Error) -> TrialError {
    TrialError::Overlay { what, path: path.to_owned(), source }
}

/// Returns a path in the workspace. Its parents must be directories; missing ones are created if `create` is set, and are an
/// error of the kind `NotFound` otherwise.
fn resolve(workspace: &Path, relative: &str, create: bool) -> io::Result<PathBuf> {
    let mut path = workspace.to_owned();
    let mut parts = relative.split('/').peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        if parts.peek().is_none() {
            break;
        }
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {}
            Ok(found) => {
                let what = if found.is_symlink() { "a symbolic link" } else { "a file" };
                let at = path.strip_prefix(workspace).unwrap_or(&path).display();
                return Err(io::Error::new(ErrorKind::NotADirectory, format!("`{at}` is {what}")));
            }
            Err(error) if error.kind() == ErrorKind::NotFound && create => fs::create_dir(&path)?,
            Err(error) => return Err(error),
        }
    }
    Ok(path)
}

/// Removes a file, link or directory; one that does not exist is not an error, since variants apply to several cases.
fn remove(workspace: &Path, relative: &str) -> io::Result<()> {
    let removed = resolve(workspace, relative, false).and_then(|path| {
        if fs::symlink_metadata(&path)?.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
    });
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Writes a file with the content that the plan names, in place of a file or link.
pub(super) fn write(workspace: &Path, file: &OverlayFile) -> io::Result<()> {
    let content = fs::read(&file.source)?;
    if blake3::hash(&content).to_hex().as_str() != file.digest {
        let message = format!("`{}` has changed since the run was planned", file.source.display());
        return Err(io::Error::new(ErrorKind::InvalidData, message));
    }
    let path = resolve(workspace, &file.target, true)?;
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => {
            return Err(io::Error::new(
                ErrorKind::IsADirectory,
                "a directory of the start tree has this path",
            ));
        }
        Ok(_) => fs::remove_file(&path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if file.executable { 0o755 } else { 0o644 });
    io::Write::write_all(&mut options.open(&path)?, &content)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use yb_case::{Overlay, OverlayFile, OverlayLayer};

    use super::apply;

    /// Lays a file with the content `laid`.
    fn overlay(source: &std::path::Path, targets: &[&str], remove: &[&str]) -> Overlay {
        let digest = blake3::hash(b"laid").to_hex().to_string();
        let file = |target: &&str| OverlayFile {
            target: (*target).to_owned(),
            source: source.to_owned(),
            digest: digest.clone(),
            executable: true,
        };
        let remove = remove.iter().map(|path| (*path).to_owned()).collect();
        Overlay { layers: vec![OverlayLayer { remove, files: targets.iter().map(file).collect() }] }
    }

    #[test]
    fn overlay_never_follows_links_of_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let (workspace, outside) = (dir.path().join("workspace"), dir.path().join("outside"));
        std::fs::create_dir_all(workspace.join("docs")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("kept"), "kept").unwrap();
        symlink(&outside, workspace.join(".claude")).unwrap();
        symlink(outside.join("kept"), workspace.join("CLAUDE.md")).unwrap();
        let source = dir.path().join("source");
        std::fs::write(&source, "laid").unwrap();

        for (targets, remove) in [(&[".claude/x"][..], &[][..]), (&[], &[".claude/kept"])] {
            let error = apply(&overlay(&source, targets, remove), &workspace).unwrap_err().to_string();
            assert!(error.ends_with("`.claude` is a symbolic link"), "{error}");
        }
        let error = apply(&overlay(&source, &["docs"], &[]), &workspace).unwrap_err().to_string();
        assert!(error.ends_with("a directory of the start tree has this path"), "{error}");
        apply(&overlay(&source, &["CLAUDE.md", "new/one"], &["docs", "none/such"]), &workspace).unwrap();
        let laid = workspace.join("CLAUDE.md").symlink_metadata().unwrap();
        assert!(laid.is_file() && laid.permissions().mode() & 0o100 != 0, "in place of the link");
        assert!(workspace.join("new/one").is_file() && !workspace.join("docs").exists());
        assert_eq!(std::fs::read_to_string(outside.join("kept")).unwrap(), "kept");

        let stale = overlay(&source, &["late"], &[]);
        std::fs::write(&source, "changed").unwrap();
        let error = apply(&stale, &workspace).unwrap_err().to_string();
        assert!(error.ends_with("has changed since the run was planned"), "{error}");
        assert!(!workspace.join("late").exists());
    }
}
