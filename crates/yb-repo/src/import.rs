//! Imports a work tree as a commit with `git fast-import`, which applies no attributes or filters, so all bytes are preserved.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek as _};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::base_tree::BaseTree;
use super::capture::CaptureLimits;
use super::error::{GitError, RepoError, blocking};
use super::files::path_from_bytes;
use super::git::Git;
use super::git_command::bad_output;
use super::git_dir;
use super::rules::{IgnoreRules, PathGlobs};
use super::session::GitSession;
use super::walk::{IgnoreSource, TreeWalk, WalkEntry, lossy_path, paths_at};
use super::warning::{CaptureWarning, Warnings};

/// The committer and date of all imports.
const COMMITTER: &str = "youBencha <youbencha@localhost> 946684800 +0000";
const CHUNK_BYTES: usize = 64 << 10;
/// How many bytes of files above the size limit are hashed, in total for a tree, to detect changes.
const DIGEST_BUDGET: u64 = 4 << 30;

/// The most parts of a sparse file that are looked for. A file below the default size limit has fewer.
const MAX_EXTENTS: usize = 100_000;

/// The branch of the commits. It is reset before it is written to disk, so it never exists; the caller creates a ref.
const TEMPORARY_BRANCH: &str = "refs/heads/nowhere";
/// The line that git prints when a commit is on disk.
const ON_DISK: &str = "progress on disk";
/// The longest response, which has two lines.
const RESPONSE_LIMIT: usize = 4096;

/// An import of a work tree.
pub(crate) struct TreeImport {
    pub(crate) message: &'static str,
    pub(crate) root: PathBuf,
    pub(crate) tracked: Arc<BTreeSet<Vec<u8>>>,
    pub(crate) rules: IgnoreRules,
    pub(crate) ignore_source: IgnoreSource,
    pub(crate) include: PathGlobs,
    pub(crate) limits: CaptureLimits,
    /// A tree in the same store, whose unchanged files are not read.
    pub(crate) base: Option<BaseTree>,
    /// If `root` is the upper layer of an overlay: what is below it.
    pub(crate) lower: Option<LowerTree>,
}

/// The tree that the lower layer of an overlay has, in the same store.
pub(crate) struct LowerTree {
    pub(crate) tree: String,
    pub(crate) paths: Arc<BTreeSet<Vec<u8>>>,
    /// The size of all files.
    pub(crate) bytes: u64,
    /// The lower layer.
    pub(crate) root: PathBuf,
    /// Larger files are placeholders in the tree.
    pub(crate) max_file_bytes: u64,
}

impl LowerTree {
    /// The size of a file, as far as it counts.
    fn size(&self, path: &[u8]) -> u64 {
        let found = std::fs::symlink_metadata(self.root.join(path_from_bytes(path)));
        let size = found.ok().filter(|found| found.is_file()).map_or(0, |found| found.len());
        if size > self.max_file_bytes { 0 } else { size }
    }
}

/// The result of an import.
pub(crate) struct ImportResult {
    pub(crate) commit: String,
    pub(crate) tree: String,
    pub(crate) paths: BTreeSet<Vec<u8>>,
    pub(crate) rules: IgnoreRules,
    pub(crate) warnings: Vec<CaptureWarning>,
    /// The limit that was exceeded, if the tree is incomplete because of one.
    pub(crate) exceeded: Option<CaptureWarning>,
    /// The size of all files, without those replaced by placeholders.
    pub(crate) bytes: u64,
}

impl TreeImport {
    /// Imports all files of a directory that its own ignore files do not exclude, without limits.
    pub(crate) fn of_directory(message: &'static str, root: &Path) -> Self {
        Self {
            message,
            root: root.to_owned(),
            tracked: Arc::default(),
            rules: IgnoreRules::default(),
            ignore_source: IgnoreSource::FromTree,
            include: PathGlobs::none(),
            limits: CaptureLimits::NONE,
            base: None,
            lower: None,
        }
    }

    /// Imports an empty tree.
    pub(crate) fn of_nothing(message: &'static str) -> Self {
        // No directory has an empty path.
        Self::of_directory(message, Path::new(""))
    }

    /// Imports into a repository that no other process writes to, with a new git process. The same files give the same commit.
    pub(crate) async fn run(self, git: &Git, git_dir: &Path) -> Result<ImportResult, RepoError> {
        let message = self.message.to_owned();
        let (importer, imported) = self.send(start_importer(git, git_dir).await?, message).await?;
        importer.end().await?;
        Ok(imported)
    }

    /// Imports with a long-running git process. The nonce in the message makes the commits, and so the packs, of each process unique,
    /// because two git processes can't write the same pack at the same time.
    pub(crate) async fn run_with(
        self,
        importer: GitSession,
    ) -> Result<(GitSession, ImportResult), RepoError> {
        let message = format!("{}\n\nRecorded-by: {}\n", self.message, importer.nonce());
        self.send(importer, message).await
    }

    async fn send(
        self,
        importer: GitSession,
        message: String,
    ) -> Result<(GitSession, ImportResult), RepoError> {
        let (sender, receiver) = mpsc::channel(8);
        let request = importer.request(receiver, ON_DISK, RESPONSE_LIMIT);
        let (response, walked) = tokio::join!(request, blocking(move || Ok(self.write(&message, sender))));
        let (response, mut imported) = (response?, walked?);
        let (importer, response) = response.ok_or_else(|| bad_output("fast-import", "too long"))?;
        (imported.tree, imported.commit) = parse_response(&response)?;
        Ok((importer, imported))
    }

    /// Walks the tree and writes the input of fast-import. It stops early if git exits, which the response reports.
    fn write(self, message: &str, sender: mpsc::Sender<Vec<u8>>) -> ImportResult {
        let mut stream = Stream {
            sender,
            buffer: Vec::with_capacity(CHUNK_BYTES),
            flow: ControlFlow::Continue(()),
            digest_budget: DIGEST_BUDGET,
            bytes: 0,
            hole_bytes: 0,
            is_full: false,
        };
        stream.put(format!("commit {TEMPORARY_BRANCH}\nmark :1\ncommitter {COMMITTER}\n").as_bytes());
        stream.data(message.as_bytes());
        let base = self.base.as_ref().map(|base| &base.tree).or(self.lower.as_ref().map(|lower| &lower.tree));
        if let Some(tree) = base {
            stream.put(format!("M 040000 {tree} \"\"\n").as_bytes());
        }
        stream.bytes = self.lower.as_ref().map_or(0, |lower| lower.bytes);
        let mut rules = self.rules;
        let mut warnings = Warnings::default();
        let mut paths = BTreeSet::new();
        let walk = TreeWalk {
            root: &self.root,
            tracked: &self.tracked,
            include: &self.include,
            limits: self.limits,
            ignore_source: self.ignore_source,
            base: self.lower.as_ref().map(|lower| &*lower.paths),
        };
        let lower = self.lower.as_ref();
        walk.run(&mut rules, &mut warnings, |entry, warnings| {
            match entry {
                WalkEntry::LayerDirectory { path, opaque } => {
                    let hides_file = lower.is_some_and(|lower| lower.paths.contains(&path));
                    if opaque || hides_file {
                        stream.remove(lower, &path);
                    }
                }
                WalkEntry::Removed { path } => stream.remove(lower, &path),
                WalkEntry::Link { path, target } => {
                    stream.forget_size(lower, &path);
                    stream.modify("120000", &path);
                    stream.data(&target);
                    paths.insert(path);
                }
                WalkEntry::File { path, metadata, .. }
                    if self.base.as_ref().is_some_and(|base| base.contains(&path, &metadata)) =>
                {
                    if stream.reserve(&path, metadata.len(), &self.limits, warnings) {
                        paths.insert(path);
                    }
                }
                WalkEntry::File { path, full, executable, .. } => {
                    let mode = if executable { "100755" } else { "100644" };
                    stream.forget_size(lower, &path);
                    match stream.file(mode, &path, &full, &self.limits, warnings) {
                        Ok(Kept::Yes) => drop(paths.insert(path)),
                        Ok(Kept::No) => {}
                        Err(error) => {
                            warnings.push(CaptureWarning::unreadable(&path, &error));
                            stream.remove(lower, &path);
                        }
                    }
                }
            }
            if stream.is_full { ControlFlow::Break(()) } else { stream.flow }
        });
        if let Some(base) = &self.base {
            stream.delete_missing(base, &paths);
        }
        stream.put(
            format!("ls \"\"\n\nget-mark :1\nreset {TEMPORARY_BRANCH}\n\ncheckpoint\n{ON_DISK}\n").as_bytes(),
        );
        stream.flush();
        ImportResult {
            commit: String::new(),
            tree: String::new(),
            paths,
            rules,
            exceeded: warnings.exceeded(),
            warnings: warnings.into_vec(),
            bytes: stream.bytes,
        }
    }
}

/// Starts a `git fast-import` process. With `--done`, input that is cut off is never taken for complete.
pub(crate) async fn start_importer(git: &Git, git_dir: &Path) -> Result<GitSession, GitError> {
    let call = git
        .command("fast-import")
        .git_dir(git_dir)
        // The tree is only stored, not checked out, so names that are unsafe on other systems are allowed.
        .setting("core.protectNTFS=false")
        .setting("core.protectHFS=false")
        .args(["--quiet", "--done", "--force", "--depth=0", "--date-format=raw"]);
    GitSession::start(call, "done\n").await
}

/// Parses `040000 tree <id>\t\n<commit>\n`.
fn parse_response(response: &[u8]) -> Result<(String, String), GitError> {
    let text = String::from_utf8_lossy(response);
    let mut lines = text.lines();
    let tree = lines.next().and_then(|line| line.split_whitespace().nth(2));
    match (tree, lines.next()) {
        (Some(tree), Some(commit))
            if git_dir::is_full_object_id(tree) && git_dir::is_full_object_id(commit) =>
        {
            Ok((tree.to_owned(), commit.to_owned()))
        }
        _ => Err(bad_output("fast-import", format!("`{text}`"))),
    }
}

/// Whether a file is part of the tree.
enum Kept {
    Yes,
    No,
}

/// The input of fast-import, sent in chunks.
struct Stream {
    sender: mpsc::Sender<Vec<u8>>,
    buffer: Vec<u8>,
    flow: ControlFlow<()>,
    /// How many bytes of files above the size limit may still be hashed: sparse files can be huge.
    digest_budget: u64,
    /// The size of the files so far.
    bytes: u64,
    /// The size of their holes.
    hole_bytes: u64,
    /// The next file exceeds the limit of the tree.
    is_full: bool,
}

impl Stream {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        if self.flow.is_continue() && self.sender.blocking_send(chunk).is_err() {
            self.flow = ControlFlow::Break(());
        }
    }

    fn data(&mut self, bytes: &[u8]) {
        self.put(format!("data {}\n", bytes.len()).as_bytes());
        self.put(bytes);
        self.put(b"\n");
    }

    fn modify(&mut self, mode: &str, path: &[u8]) {
        self.put(format!("M {mode} inline ").as_bytes());
        self.put(&quote_path(path));
        self.put(b"\n");
    }

    /// Deletes a path of the tree below an upper layer, with everything in it.
    fn remove(&mut self, lower: Option<&LowerTree>, path: &[u8]) {
        let Some(lower) = lower else { return };
        let mut is_in_tree = false;
        for gone in paths_at(&lower.paths, path) {
            is_in_tree = true;
            self.bytes = self.bytes.saturating_sub(lower.size(gone));
        }
        if is_in_tree && path.is_empty() {
            self.put(b"deleteall\n");
        } else if is_in_tree {
            self.put(b"D ");
            self.put(&quote_path(path));
            self.put(b"\n");
        }
    }

    /// Does not count the content that a file of an upper layer replaces.
    fn forget_size(&mut self, lower: Option<&LowerTree>, path: &[u8]) {
        if let Some(lower) = lower {
            let replaced: u64 = paths_at(&lower.paths, path).map(|path| lower.size(path)).sum();
            self.bytes = self.bytes.saturating_sub(replaced);
        }
    }

    /// Deletes the files of the base tree that the directory does not have. A file that became a directory, and the files of a
    /// directory that became a file, are already replaced.
    fn delete_missing(&mut self, base: &BaseTree, paths: &BTreeSet<Vec<u8>>) {
        for path in base.files.keys().filter(|path| !paths.contains(*path)) {
            let below = [path.as_slice(), b"/"].concat();
            let is_directory =
                paths.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below));
            let mut slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let is_below_file = slashes.any(|(at, _)| paths.contains(&path[..at]));
            if !is_directory && !is_below_file {
                self.put(b"D ");
                self.put(&quote_path(path));
                self.put(b"\n");
            }
        }
    }

    /// Counts the bytes of a file; returns false, with a warning, if they exceed the limit of the tree.
    fn reserve(&mut self, path: &[u8], size: u64, limits: &CaptureLimits, warnings: &mut Warnings) -> bool {
        if self.bytes.saturating_add(size) > limits.max_growth {
            warnings.push(CaptureWarning::TooLarge { path: lossy_path(path), limit: limits.max_growth });
            self.is_full = true;
            return false;
        }
        self.bytes += size;
        true
    }

    /// Returns the parts of a huge file that are hashed.
    fn within_digest_budget(&mut self, extents: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut part = |extent: &Range<u64>| {
            let length = (extent.end - extent.start).min(self.digest_budget);
            self.digest_budget -= length;
            extent.start..extent.start + length
        };
        extents.iter().map(&mut part).collect()
    }

    /// Writes a placeholder instead of a file.
    fn placeholder(&mut self, mode: &str, path: &[u8], size: u64, limit: u64, digest: &str) {
        self.modify(mode, path);
        let text = format!("youbencha: file not kept\nsize: {size}\nlimit: {limit}\nblake3: {digest}\n");
        self.data(text.as_bytes());
    }

    fn file(
        &mut self,
        mode: &str,
        path: &[u8],
        full: &Path,
        limits: &CaptureLimits,
        warnings: &mut Warnings,
    ) -> std::io::Result<Kept> {
        let mut file = File::open(full)?;
        let size = file.metadata()?.len();
        let extents = data_extents(&file, size)?;
        if size > limits.max_file_bytes {
            let limit = limits.max_file_bytes;
            let parts = self.within_digest_budget(&extents);
            let digest = digest(&mut file, &parts)?;
            warnings.push(CaptureWarning::HugeFile { path: lossy_path(path), size, limit });
            self.placeholder(mode, path, size, limit, &digest);
            return Ok(Kept::Yes);
        }
        let holes = size.saturating_sub(extents.iter().map(|extent| extent.end - extent.start).sum());
        if holes > 0 && self.hole_bytes.saturating_add(holes) > limits.max_hole_bytes {
            let limit = limits.max_hole_bytes;
            let digest = digest(&mut file, &extents)?;
            warnings.push(CaptureWarning::SparseFile { path: lossy_path(path), size, limit });
            self.placeholder(mode, path, size, limit, &digest);
            return Ok(Kept::Yes);
        }
        if !self.reserve(path, size, limits, warnings) {
            return Ok(Kept::No);
        }
        self.hole_bytes += holes;
        if size <= CHUNK_BYTES as u64 {
            let mut content = Vec::with_capacity(size as usize);
            file.read_to_end(&mut content)?;
            self.modify(mode, path);
            self.data(&content);
            return Ok(Kept::Yes);
        }
        self.modify(mode, path);
        self.put(format!("data {size}\n").as_bytes());
        // The length is already announced: if the file can't be read to the end, it is padded with zeros, with a warning.
        let mut left = size;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut problem = None;
        while left > 0 && self.flow.is_continue() {
            let want = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let got = match (&problem, file.read(&mut chunk[..want])) {
                (None, Ok(got)) if got > 0 => got,
                (_, read) => {
                    let reason =
                        read.err().map_or("truncated while being read".to_owned(), |e| e.to_string());
                    problem.get_or_insert(reason);
                    chunk.fill(0);
                    want
                }
            };
            self.put(&chunk[..got]);
            left -= got as u64;
        }
        self.put(b"\n");
        if let Some(reason) = problem {
            warnings.push(CaptureWarning::Unreadable { path: lossy_path(path), reason });
        }
        Ok(Kept::Yes)
    }
}

/// Where a file has data. A sparse file takes no space on disk, but it does in a tree and where that is checked out. The allocated
/// size alone does not tell, because file systems may compress.
#[cfg(target_os = "linux")]
fn data_extents(file: &File, size: u64) -> std::io::Result<Vec<Range<u64>>> {
    use rustix::fs::{SeekFrom, seek};
    use std::os::unix::fs::MetadataExt as _;
    if size <= CHUNK_BYTES as u64 || file.metadata()?.blocks().saturating_mul(512) >= size {
        return Ok(std::iter::once(0..size).collect());
    }
    let (mut at, mut extents) = (0, Vec::new());
    // Without data after a hole, it extends to the end.
    while at < size
        && extents.len() < MAX_EXTENTS
        && let Ok(data) = seek(file, SeekFrom::Data(at))
    {
        let hole = seek(file, SeekFrom::Hole(data)).unwrap_or(size).min(size);
        if hole > data {
            extents.push(data..hole);
        }
        at = hole.max(data + 1);
    }
    seek(file, SeekFrom::Start(0))?;
    Ok(extents)
}

#[cfg(not(target_os = "linux"))]
fn data_extents(_: &File, size: u64) -> std::io::Result<Vec<Range<u64>>> {
    Ok(std::iter::once(0..size).collect())
}

/// The digest of parts of a file.
fn digest(file: &mut File, parts: &[Range<u64>]) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        file.seek(std::io::SeekFrom::Start(part.start))?;
        if part.start > 0 {
            hasher.update(&part.start.to_le_bytes());
        }
        hasher.update_reader(file.by_ref().take(part.end - part.start))?;
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Quotes a path for fast-import.
fn quote_path(path: &[u8]) -> Vec<u8> {
    let mut result = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => result.extend_from_slice(&[b'\\', *byte]),
            0..=0x1f | 0x7f => result.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => result.push(*byte),
        }
    }
    result.push(b'"');
    result
}
