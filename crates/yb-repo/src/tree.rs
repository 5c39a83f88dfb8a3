//! Reads trees of our own store, and lays them out as files: without attributes, filters or hooks, and through no link.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::capture::ObjectStore;
use super::error::{GitError, RepoError, blocking};
use super::files::path_of;

/// How much is asked of git at once; what is in memory is a few times that.
const CHUNK: u64 = 32 << 20;
/// The modes of a tree's entries.
const LINK: u32 = 0o120_000;
pub(super) const GITLINK: u32 = 0o160_000;
const EXECUTABLE: u32 = 0o100_755;

/// A file or link of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    pub mode: u32,
    /// What its content is, by digest.
    pub id: String,
    pub size: u64,
    /// As git has it; not necessarily UTF-8.
    pub path: Vec<u8>,
}

impl TreeFile {
    /// Whether it is a link, whose content is where it leads.
    pub fn is_link(&self) -> bool {
        self.mode == LINK
    }

    /// The path for a person.
    pub fn display_path(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

impl ObjectStore {
    /// The files and links of a tree, in the order of paths.
    pub async fn list(&self, tree: &str) -> Result<Vec<TreeFile>, RepoError> {
        if let Some(reader) = self.reader() {
            return reader.list(tree).await;
        }
        let call = self.git().call("ls-tree").git_dir(self.path());
        let answer = call.args(["-r", "-z", "-l", "--full-tree", "--end-of-options", tree]).bytes().await?;
        let unreadable = || GitError::Answer {
            command: "ls-tree".to_owned(),
            what: "its lines are not those of -r -z -l".to_owned(),
        };
        let lines = answer.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        let mut files = Vec::new();
        for line in lines {
            let file = parse(line).ok_or_else(unreadable)?;
            // A submodule is only a name here.
            if file.mode != GITLINK {
                files.push(file);
            }
        }
        Ok(files)
    }

    /// What is in these files, in their order. How much that may be is the caller's to decide.
    pub async fn contents(&self, files: &[&TreeFile]) -> Result<Vec<Vec<u8>>, RepoError> {
        match self.reader() {
            Some(reader) => reader.contents(files).await,
            None => self.contents_now(files).await,
        }
    }

    /// The same with a git of its own.
    pub(super) async fn contents_now(&self, files: &[&TreeFile]) -> Result<Vec<Vec<u8>>, RepoError> {
        let mut found = Vec::with_capacity(files.len());
        for chunk in chunks(files) {
            let ids: Vec<&str> = chunk.iter().map(|file| file.id.as_str()).collect();
            let answer = self.cat_file(&ids, "--batch").await?;
            let mut rest = answer.as_slice();
            for file in chunk {
                let unreadable = || GitError::Answer {
                    command: "cat-file".to_owned(),
                    what: format!("no content of `{}`", file.id),
                };
                let (content, left) = one(rest, &file.id).ok_or_else(unreadable)?;
                found.push(content.to_vec());
                rest = left;
            }
        }
        Ok(found)
    }

    /// What git says about objects, in their order.
    pub(super) async fn cat_file(&self, ids: &[impl AsRef<str>], how: &str) -> Result<Vec<u8>, RepoError> {
        let asked: String = ids.iter().map(|id| format!("{}\n", id.as_ref())).collect();
        let call = self.git().call("cat-file").git_dir(self.path());
        Ok(call.args([how, "--buffer"]).stdin(asked.into_bytes()).bytes().await?)
    }

    /// Writes files below a directory, over whatever is there. Nothing else may be at work in it.
    pub async fn lay_out(&self, files: &[TreeFile], root: &Path) -> Result<(), RepoError> {
        let files: Vec<&TreeFile> = files.iter().collect();
        let mut known = HashSet::new();
        for chunk in chunks(&files) {
            let contents = self.contents(chunk).await?;
            let owned: Vec<(TreeFile, Vec<u8>)> =
                chunk.iter().map(|file| (*file).clone()).zip(contents).collect();
            let (root, mut made) = (root.to_owned(), known);
            known = blocking(move || {
                for (file, content) in &owned {
                    let path = path_of(&file.path);
                    put(&root, &path, file.mode, content, &mut made)
                        .map_err(RepoError::io("write", root.join(&path)))?;
                }
                Ok(made)
            })
            .await?;
        }
        Ok(())
    }
}

/// Pieces of a list that are not too large together.
fn chunks<'a, 'f>(files: &'a [&'f TreeFile]) -> impl Iterator<Item = &'a [&'f TreeFile]> {
    let mut rest = files;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut sum = 0;
        let fits = rest.iter().take_while(|file| {
            sum += file.size + 100;
            sum <= CHUNK
        });
        let (chunk, left) = rest.split_at(fits.count().max(1));
        rest = left;
        Some(chunk)
    })
}

/// `<mode> <type> <id> <size>\t<path>`
fn parse(line: &[u8]) -> Option<TreeFile> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(&line[..tab]).ok()?.split_whitespace();
    let mode = u32::from_str_radix(words.next()?, 8).ok()?;
    let id = words.nth(1)?.to_owned();
    let size = words.next()?.parse().unwrap_or(0);
    Some(TreeFile { mode, id, size, path: line[tab + 1..].to_vec() })
}

/// `<id> blob <size>\n<content>\n`
fn one<'a>(answer: &'a [u8], id: &str) -> Option<(&'a [u8], &'a [u8])> {
    let end = answer.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let size: usize = head.strip_prefix(id)?.strip_prefix(" blob ")?.parse().ok()?;
    let content = answer.get(end + 1..end + 1 + size)?;
    Some((content, answer.get(end + 2 + size..)?))
}

/// Writes a file or link below a directory. Whatever stands where a directory or the file belongs gives way; a link is
/// never followed.
pub fn put(
    root: &Path,
    path: &Path,
    mode: u32,
    content: &[u8],
    known: &mut HashSet<PathBuf>,
) -> io::Result<()> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || path.as_os_str().is_empty() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    make_parents(root, path, known)?;
    let target = root.join(path);
    clear(&target)?;
    known.remove(&target);
    if mode == LINK {
        return link(content, &target);
    }
    fs::OpenOptions::new().write(true).create_new(true).open(&target).and_then(|mut file| {
        use std::io::Write as _;
        file.write_all(content)
    })?;
    permit(&target, mode)
}

/// Removes a file, a link, or a directory with all that is in it; one that is not there is fine.
pub fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Makes the directories above a path. What is there and is none, a link among them, gives way.
fn make_parents(root: &Path, path: &Path, known: &mut HashSet<PathBuf>) -> io::Result<()> {
    let mut at = root.to_owned();
    let Some(parent) = path.parent() else { return Ok(()) };
    for part in parent.components() {
        at.push(part);
        if known.contains(&at) {
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
        known.insert(at.clone());
    }
    Ok(())
}

#[cfg(unix)]
fn link(content: &[u8], target: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(path_of(content), target)
}

#[cfg(not(unix))]
fn link(content: &[u8], target: &Path) -> io::Result<()> {
    fs::write(target, content)
}

#[cfg(unix)]
fn permit(target: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let bits = if mode == EXECUTABLE { 0o755 } else { 0o644 };
    fs::set_permissions(target, fs::Permissions::from_mode(bits))
}

#[cfg(not(unix))]
fn permit(_: &Path, mode: u32) -> io::Result<()> {
    let _ = mode == EXECUTABLE;
    Ok(())
}

/// Copies a directory with everything in it; links stay links, and nothing is shared.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&source, &target)?;
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

/// Reads a file below a directory, up to a limit, and through no link; `None` if there is no such file.
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
    fn nothing_is_written_or_read_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("tree"), dir.path().join("outside"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("x"), "theirs").unwrap();
        std::os::unix::fs::symlink(&outside, root.join("tests")).unwrap();
        std::os::unix::fs::symlink(outside.join("x"), root.join("file")).unwrap();
        assert_eq!(read_inside(&root, Path::new("tests/x"), 100).unwrap(), None);
        assert_eq!(read_inside(&root, Path::new("file"), 100).unwrap(), None);
        let mut known = HashSet::new();
        put(&root, Path::new("tests/x"), 0o100_644, b"ours", &mut known).unwrap();
        put(&root, Path::new("file"), 0o100_755, b"ours", &mut known).unwrap();
        put(&root, Path::new("file/below"), 0o100_644, b"ours", &mut known).unwrap();
        assert_eq!(fs::read(outside.join("x")).unwrap(), b"theirs");
        assert_eq!(read_inside(&root, Path::new("tests/x"), 100).unwrap().unwrap(), b"ours");
        assert_eq!(read_inside(&root, Path::new("tests/x"), 3).unwrap(), None);
        assert_eq!(read_inside(&root, Path::new("file/below"), 100).unwrap().unwrap(), b"ours");
        for bad in ["../x", "/x", "a/../../x", ""] {
            assert!(put(&root, Path::new(bad), 0o100_644, b"", &mut known).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_git_lists_and_gives_is_read() {
        let id = "a".repeat(40);
        let file = parse(format!("100755 blob {id}      12\ta\tb").as_bytes()).unwrap();
        assert_eq!((file.mode, file.size, file.path.as_slice()), (EXECUTABLE, 12, &b"a\tb"[..]));
        let answer = format!("{id} blob 3\n\n\n\n\n{id} blob 0\n\n");
        let (content, rest) = one(answer.as_bytes(), &id).unwrap();
        assert_eq!(content, b"\n\n\n");
        assert_eq!(one(rest, &id), Some((&b""[..], &b""[..])));
        assert_eq!(one(b"x missing\n", "x"), None);
    }
}
