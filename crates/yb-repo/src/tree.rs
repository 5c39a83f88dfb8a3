//! Reads trees of an object store and checks them out: without attributes, filters or hooks, and without following links.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::capture::ObjectStore;
use super::error::{GitError, RepoError, blocking};
use super::files::path_from_bytes;
use super::git_command::bad_output;
use super::remove::remove_tree;

/// The most content that is requested from git at once; memory use is a few times that.
const CHUNK_BYTES: u64 = 32 << 20;
/// Runs of zeros from this length on become holes in files.
const HOLE_BYTES: usize = 64 << 10;
/// The mode of a symlink.
const LINK: u32 = 0o120_000;
/// The mode of a submodule.
pub(super) const GITLINK: u32 = 0o160_000;
/// The mode of an executable file.
const EXECUTABLE: u32 = 0o100_755;

/// A file or symlink of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// The mode of the tree entry, such as `0o100_644`.
    pub mode: u32,
    /// The object id of the content.
    pub id: String,
    /// The size of the content in bytes.
    pub size: u64,
    /// The path as stored by git; not necessarily UTF-8.
    pub path: Vec<u8>,
}

impl TreeFile {
    /// Whether it is a symlink, whose content is its target.
    pub fn is_link(&self) -> bool {
        self.mode == LINK
    }

    /// The path for display, with U+FFFD for bytes that are not UTF-8.
    pub fn display_path(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

impl ObjectStore {
    /// Checks all objects of the store against their ids, and that these trees are complete. Returns one line for each
    /// damaged or missing object.
    ///
    /// # Errors
    /// When git can't be run.
    pub async fn verify(&self, trees: &[&str]) -> Result<Vec<String>, RepoError> {
        let command = self.git().command("fsck").git_dir(self.path()).local();
        let command = command.args(["--full", "--no-dangling", "--no-reflogs", "--no-progress"]).args(trees);
        match command.text().await {
            Ok(_) => Ok(Vec::new()),
            Err(GitError::Failed { stderr, .. }) => {
                let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
                // An agent may have chosen names that git advises against; the objects are intact.
                let is_advice =
                    |line: &&str| line.starts_with("error in ") || line.starts_with("warning in ");
                let damage: Vec<String> =
                    lines.iter().filter(|line| !is_advice(line)).map(|line| (*line).to_owned()).collect();
                // A missing object is listed on stdout only.
                let unnamed = lines.is_empty().then(|| "an object of a recorded tree is missing".to_owned());
                Ok(damage.into_iter().chain(unnamed).collect())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the files and symlinks of a tree, sorted by path.
    pub async fn list(&self, tree: &str) -> Result<Vec<TreeFile>, RepoError> {
        if let Some(reader) = self.reader() {
            return reader.list(tree).await;
        }
        let call = self.git().command("ls-tree").git_dir(self.path());
        let answer = call.args(["-r", "-z", "-l", "--full-tree", "--end-of-options", tree]).bytes().await?;
        let unreadable = || bad_output("ls-tree", "not in the format of -r -z -l");
        let lines = answer.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        let mut files = Vec::new();
        for line in lines {
            let file = parse_entry(line).ok_or_else(unreadable)?;
            // Submodules have no content in the store.
            if file.mode != GITLINK {
                files.push(file);
            }
        }
        Ok(files)
    }

    /// Reads the contents of files, in order. The caller has to limit their size.
    pub async fn contents(&self, files: &[&TreeFile]) -> Result<Vec<Vec<u8>>, RepoError> {
        match self.reader() {
            Some(reader) => reader.contents(files).await,
            None => self.read_contents(files).await,
        }
    }

    /// Reads the contents without batching.
    pub(super) async fn read_contents(&self, files: &[&TreeFile]) -> Result<Vec<Vec<u8>>, RepoError> {
        let mut found = Vec::with_capacity(files.len());
        for chunk in chunks(files) {
            let ids: Vec<&str> = chunk.iter().map(|file| file.id.as_str()).collect();
            let answer = self.cat_file(&ids, "--batch").await?;
            let mut rest = answer.as_slice();
            for file in chunk {
                let unreadable = || bad_output("cat-file", format!("no content of `{}`", file.id));
                let (content, left) = parse_blob(rest, &file.id).ok_or_else(unreadable)?;
                found.push(content.to_vec());
                rest = left;
            }
        }
        Ok(found)
    }

    /// Runs `git cat-file` for objects, in order; `format` is `--batch` or `--batch-check=…`.
    pub(super) async fn cat_file(&self, ids: &[impl AsRef<str>], format: &str) -> Result<Vec<u8>, RepoError> {
        let request: String = ids.iter().map(|id| format!("{}\n", id.as_ref())).collect();
        let call = self.git().command("cat-file").git_dir(self.path());
        Ok(call.args([format, "--buffer"]).stdin(request.into_bytes()).bytes().await?)
    }

    /// Writes files below a directory, and replaces existing ones. No other process may change the directory.
    pub async fn check_out(&self, files: &[TreeFile], root: &Path) -> Result<(), RepoError> {
        let files: Vec<&TreeFile> = files.iter().collect();
        let mut existing_dirs = HashSet::new();
        for chunk in chunks(&files) {
            let contents = self.contents(chunk).await?;
            let owned: Vec<(TreeFile, Vec<u8>)> =
                chunk.iter().map(|file| (*file).clone()).zip(contents).collect();
            let (root, mut dirs) = (root.to_owned(), existing_dirs);
            existing_dirs = blocking(move || {
                for (file, content) in &owned {
                    let path = path_from_bytes(&file.path);
                    write_entry(&root, &path, file.mode, content, &mut dirs)
                        .map_err(RepoError::io("write", root.join(&path)))?;
                }
                Ok(dirs)
            })
            .await?;
        }
        Ok(())
    }
}

/// Splits a list into chunks of limited total size.
fn chunks<'a, 'f>(files: &'a [&'f TreeFile]) -> impl Iterator<Item = &'a [&'f TreeFile]> {
    let mut rest = files;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut sum = 0;
        let fits = rest.iter().take_while(|file| {
            sum += file.size + 100;
            sum <= CHUNK_BYTES
        });
        let (chunk, left) = rest.split_at(fits.count().max(1));
        rest = left;
        Some(chunk)
    })
}

/// Parses a line of `git ls-tree`: `<mode> <type> <id> <size>\t<path>`.
fn parse_entry(line: &[u8]) -> Option<TreeFile> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(&line[..tab]).ok()?.split_whitespace();
    let mode = u32::from_str_radix(words.next()?, 8).ok()?;
    let id = words.nth(1)?.to_owned();
    let size = words.next()?.parse().unwrap_or(0);
    Some(TreeFile { mode, id, size, path: line[tab + 1..].to_vec() })
}

/// Parses one response of `git cat-file --batch`, `<id> blob <size>\n<content>\n`, and returns the content and the rest.
fn parse_blob<'a>(answer: &'a [u8], id: &str) -> Option<(&'a [u8], &'a [u8])> {
    let end = answer.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let size: usize = head.strip_prefix(id)?.strip_prefix(" blob ")?.parse().ok()?;
    let content = answer.get(end + 1..end + 1 + size)?;
    Some((content, answer.get(end + 2 + size..)?))
}

/// Writes a file or symlink below a directory, with `existing_dirs` as a cache of checked parent directories. It replaces whatever
/// is at its path, and files and symlinks in place of parent directories; symlinks are never followed.
pub fn write_entry(
    root: &Path,
    path: &Path,
    mode: u32,
    content: &[u8],
    existing_dirs: &mut HashSet<PathBuf>,
) -> io::Result<()> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || path.as_os_str().is_empty() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    create_parents(root, path, existing_dirs)?;
    let target = root.join(path);
    remove_tree(&target)?;
    existing_dirs.remove(&target);
    if mode == LINK {
        return link(content, &target);
    }
    let file = fs::OpenOptions::new().write(true).create_new(true).open(&target)?;
    write_sparse(file, content)?;
    set_mode(&target, mode)
}

/// Writes a new file, with holes for long runs of zeros: an agent's sparse file must not fill the disk where it is graded.
fn write_sparse(mut file: fs::File, content: &[u8]) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom, Write as _};
    if content.len() <= HOLE_BYTES {
        return file.write_all(content);
    }
    for chunk in content.chunks(HOLE_BYTES) {
        if chunk.iter().all(|byte| *byte == 0) {
            file.seek(SeekFrom::Current(chunk.len() as i64))?;
        } else {
            file.write_all(chunk)?;
        }
    }
    file.set_len(content.len() as u64)
}

/// Creates the parent directories of a path, and replaces files and symlinks in their place.
fn create_parents(root: &Path, path: &Path, existing_dirs: &mut HashSet<PathBuf>) -> io::Result<()> {
    let mut at = root.to_owned();
    let Some(parent) = path.parent() else { return Ok(()) };
    for part in parent.components() {
        at.push(part);
        if existing_dirs.contains(&at) {
            continue;
        }
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                fs::remove_file(&at)?;
                fs::create_dir(&at)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(&at)?,
            Err(error) => return Err(error),
        }
        existing_dirs.insert(at.clone());
    }
    Ok(())
}

#[cfg(unix)]
fn link(content: &[u8], target: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(path_from_bytes(content), target)
}

#[cfg(not(unix))]
fn link(content: &[u8], target: &Path) -> io::Result<()> {
    fs::write(target, content)
}

#[cfg(unix)]
fn set_mode(target: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let bits = if mode == EXECUTABLE { 0o755 } else { 0o644 };
    fs::set_permissions(target, fs::Permissions::from_mode(bits))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, mode: u32) -> io::Result<()> {
    let _ = mode == EXECUTABLE;
    Ok(())
}

/// Copies a directory recursively. Symlinks are copied as symlinks; no hard links are created.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    copy_over(from, to, false)
}

/// Copies a directory recursively over another. What is in the way is replaced, also a symlink; `.git` is left alone.
pub fn overlay_tree(from: &Path, to: &Path) -> Result<(), RepoError> {
    copy_over(from, to, true).map_err(RepoError::io("copy files to", to))
}

fn copy_over(from: &Path, to: &Path, replace: bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if replace {
            if entry.file_name() == ".git" {
                continue;
            }
            let is_dir = fs::symlink_metadata(&target).ok().map(|there| there.is_dir());
            if is_dir.is_some_and(|there| !(there && kind.is_dir())) {
                super::remove::remove_tree(&target)?;
            }
        }
        if kind.is_dir() {
            copy_over(&source, &target, replace)?;
            fs::set_permissions(&target, fs::metadata(&source)?.permissions())?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
        } else if kind.is_symlink() {
            #[cfg(unix)]
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        }
    }
    Ok(())
}

/// Reads a regular file below a directory without following symlinks; `None` if there is none, or if it is larger than `limit`.
pub fn read_inside(root: &Path, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut at = root.to_owned();
    for part in path.components() {
        let Component::Normal(name) = part else { return Ok(None) };
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_symlink() => return Ok(None),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    let found = fs::symlink_metadata(&at)?;
    if !found.is_file() || found.len() > limit {
        return Ok(None);
    }
    fs::read(&at).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn write_entry_and_read_inside_do_not_follow_links() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("tree"), dir.path().join("outside"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("x"), "theirs").unwrap();
        std::os::unix::fs::symlink(&outside, root.join("tests")).unwrap();
        std::os::unix::fs::symlink(outside.join("x"), root.join("file")).unwrap();
        assert_eq!(read_inside(&root, Path::new("tests/x"), 100).unwrap(), None);
        assert_eq!(read_inside(&root, Path::new("file"), 100).unwrap(), None);
        let mut existing_dirs = HashSet::new();
        write_entry(&root, Path::new("tests/x"), 0o100_644, b"ours", &mut existing_dirs).unwrap();
        write_entry(&root, Path::new("file"), 0o100_755, b"ours", &mut existing_dirs).unwrap();
        write_entry(&root, Path::new("file/below"), 0o100_644, b"ours", &mut existing_dirs).unwrap();
        assert_eq!(fs::read(outside.join("x")).unwrap(), b"theirs");
        assert_eq!(read_inside(&root, Path::new("tests/x"), 100).unwrap().unwrap(), b"ours");
        assert_eq!(read_inside(&root, Path::new("tests/x"), 3).unwrap(), None);
        assert_eq!(read_inside(&root, Path::new("file/below"), 100).unwrap().unwrap(), b"ours");
        for bad in ["../x", "/x", "a/../../x", ""] {
            assert!(write_entry(&root, Path::new(bad), 0o100_644, b"", &mut existing_dirs).is_err(), "{bad}");
        }
    }

    #[test]
    fn ls_tree_and_cat_file_output_is_parsed() {
        let id = "a".repeat(40);
        let file = parse_entry(format!("100755 blob {id}      12\ta\tb").as_bytes()).unwrap();
        assert_eq!((file.mode, file.size, file.path.as_slice()), (EXECUTABLE, 12, &b"a\tb"[..]));
        let answer = format!("{id} blob 3\n\n\n\n\n{id} blob 0\n\n");
        let (content, rest) = parse_blob(answer.as_bytes(), &id).unwrap();
        assert_eq!(content, b"\n\n\n");
        assert_eq!(parse_blob(rest, &id), Some((&b""[..], &b""[..])));
        assert_eq!(parse_blob(b"x missing\n", "x"), None);
    }
}
