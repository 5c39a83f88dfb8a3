//! Turns a walk over files into a commit with `git fast-import`: bytes go in as they are, because neither attributes
//! nor filters exist on that way.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

use super::call::unusable;
use super::capture::{CaptureLimits, CaptureWarning, Warnings};
use super::error::{GitError, RepoError, blocking};
use super::git::Git;
use super::rules::{Include, Rules};
use super::session::Session;
use super::skeleton;
use super::walk::{Entry, Learn, Walk, lossy};

/// The same for every import.
const WHO_AND_WHEN: &str = "youBencha <youbencha@localhost> 946684800 +0000";
const PIECE: usize = 64 << 10;
/// How much of files that are too large is still looked at, in all of a tree together, so that a change of them shows.
const HUGE_DIGEST: u64 = 4 << 30;

/// The branch that commits are made on. It is emptied before it is written, so there never is one; a commit that nobody
/// gives a name to is as good as none.
const NOWHERE: &str = "refs/heads/nowhere";
/// How git says that a commit is on disk.
const ON_DISK: &str = "progress on disk";
/// An answer is two lines.
const ANSWER_LIMIT: usize = 4096;

/// What is to be imported.
pub(crate) struct Import {
    pub(crate) message: &'static str,
    pub(crate) root: PathBuf,
    pub(crate) tracked: BTreeSet<Vec<u8>>,
    pub(crate) rules: Rules,
    pub(crate) learn: Learn,
    pub(crate) include: Include,
    pub(crate) limits: CaptureLimits,
}

/// What became of it.
pub(crate) struct Imported {
    pub(crate) commit: String,
    pub(crate) tree: String,
    pub(crate) paths: BTreeSet<Vec<u8>>,
    pub(crate) rules: Rules,
    pub(crate) warnings: Vec<CaptureWarning>,
}

impl Import {
    /// Imports into a repository that nobody else writes to, with a git of its own. The same files give the same commit.
    pub(crate) async fn run(self, git: &Git, git_dir: &Path) -> Result<Imported, RepoError> {
        let message = self.message.to_owned();
        let (importer, imported) = self.ask(importer(git, git_dir).await?, message).await?;
        importer.end().await?;
        Ok(imported)
    }

    /// Imports with a git that stays. Each of those makes commits of its own, and so packs of its own: git can't have two
    /// that write the same at once.
    pub(crate) async fn run_by(self, importer: Session) -> Result<(Session, Imported), RepoError> {
        let message = format!("{}\n\nRecorded-by: {}\n", self.message, importer.word());
        self.ask(importer, message).await
    }

    async fn ask(self, importer: Session, message: String) -> Result<(Session, Imported), RepoError> {
        let (sender, receiver) = mpsc::channel(8);
        let asked = importer.ask(receiver, ON_DISK, ANSWER_LIMIT);
        let (answer, walked) = tokio::join!(asked, blocking(move || Ok(self.write(&message, sender))));
        let (answer, mut imported) = (answer?, walked?);
        let (importer, answer) = answer.ok_or_else(|| unusable("fast-import", "it is too long"))?;
        (imported.tree, imported.commit) = parse(&answer)?;
        Ok((importer, imported))
    }

    /// Walks and writes; a git that went away ends it early and tells why itself.
    fn write(self, message: &str, sender: mpsc::Sender<Vec<u8>>) -> Imported {
        let mut stream = Stream {
            sender,
            buffer: Vec::with_capacity(PIECE),
            flow: ControlFlow::Continue(()),
            look: HUGE_DIGEST,
        };
        stream.put(format!("commit {NOWHERE}\nmark :1\ncommitter {WHO_AND_WHEN}\n").as_bytes());
        stream.data(message.as_bytes());
        let mut rules = self.rules;
        let mut warnings = Warnings::default();
        let mut paths = BTreeSet::new();
        let walk = Walk {
            root: &self.root,
            tracked: &self.tracked,
            include: &self.include,
            limits: self.limits,
            learn: self.learn,
        };
        walk.run(&mut rules, &mut warnings, |entry, warnings| {
            match entry {
                Entry::Link { path, target } => {
                    stream.modify("120000", &path);
                    stream.data(&target);
                    paths.insert(path);
                }
                Entry::File { path, full, executable } => {
                    let mode = if executable { "100755" } else { "100644" };
                    match stream.file(mode, &path, &full, self.limits.max_file_bytes, warnings) {
                        Ok(()) => drop(paths.insert(path)),
                        Err(error) => warnings.push(CaptureWarning::unreadable(&path, &error)),
                    }
                }
            }
            stream.flow
        });
        stream.put(format!("ls \"\"\n\nget-mark :1\nreset {NOWHERE}\n\ncheckpoint\n{ON_DISK}\n").as_bytes());
        stream.flush();
        Imported { commit: String::new(), tree: String::new(), paths, rules, warnings: warnings.into_vec() }
    }
}

/// A git that imports into a repository. One that was not told that it is done leaves nothing half-written as a whole.
pub(crate) async fn importer(git: &Git, git_dir: &Path) -> Result<Session, GitError> {
    let call = git
        .call("fast-import")
        .git_dir(git_dir)
        // A tree is only stored here: names that are dangerous on other systems are facts like any other.
        .setting("core.protectNTFS=false")
        .setting("core.protectHFS=false")
        .args(["--quiet", "--done", "--force", "--depth=0", "--date-format=raw"]);
    Session::start(call, "done\n").await
}

/// `040000 tree <id>\t\n<commit>\n`.
fn parse(answer: &[u8]) -> Result<(String, String), GitError> {
    let text = String::from_utf8_lossy(answer);
    let mut lines = text.lines();
    let tree = lines.next().and_then(|line| line.split_whitespace().nth(2));
    match (tree, lines.next()) {
        (Some(tree), Some(commit)) if skeleton::is_whole_id(tree) && skeleton::is_whole_id(commit) => {
            Ok((tree.to_owned(), commit.to_owned()))
        }
        _ => Err(unusable("fast-import", &format!("`{text}`"))),
    }
}

/// The input of fast-import, in pieces.
struct Stream {
    sender: mpsc::Sender<Vec<u8>>,
    buffer: Vec<u8>,
    flow: ControlFlow<()>,
    /// How much of files that are too large may still be looked at: sparse ones cost nothing to make.
    look: u64,
}

impl Stream {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        if self.flow.is_continue() && self.sender.blocking_send(piece).is_err() {
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
        self.put(&quoted(path));
        self.put(b"\n");
    }

    fn file(
        &mut self,
        mode: &str,
        path: &[u8],
        full: &Path,
        limit: u64,
        warnings: &mut Warnings,
    ) -> std::io::Result<()> {
        let mut file = File::open(full)?;
        let size = file.metadata()?.len();
        if size > limit {
            let note = huge_note(&mut file, size, limit, self.look)?;
            self.look = self.look.saturating_sub(size);
            warnings.push(CaptureWarning::HugeFile { path: lossy(path), size, limit });
            self.modify(mode, path);
            self.data(note.as_bytes());
            return Ok(());
        }
        if size <= PIECE as u64 {
            let mut content = Vec::with_capacity(size as usize);
            file.read_to_end(&mut content)?;
            self.modify(mode, path);
            self.data(&content);
            return Ok(());
        }
        self.modify(mode, path);
        self.put(format!("data {size}\n").as_bytes());
        // The length is promised: what can't be read any more is made up for, and said.
        let mut left = size;
        let mut piece = vec![0; PIECE];
        let mut broken = None;
        while left > 0 && self.flow.is_continue() {
            let want = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let got = match (&broken, file.read(&mut piece[..want])) {
                (None, Ok(got)) if got > 0 => got,
                (_, read) => {
                    let reason =
                        read.err().map_or("it shrank while it was read".to_owned(), |e| e.to_string());
                    broken.get_or_insert(reason);
                    piece.fill(0);
                    want
                }
            };
            self.put(&piece[..got]);
            left -= got as u64;
        }
        self.put(b"\n");
        if let Some(reason) = broken {
            warnings.push(CaptureWarning::Unreadable { path: lossy(path), reason });
        }
        Ok(())
    }
}

/// What stands in a tree for a file that is too large to be kept.
fn huge_note(file: &mut File, size: u64, limit: u64, look: u64) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file.take(look))?;
    let digest = hasher.finalize().to_hex();
    Ok(format!("youbencha: file not kept\nsize: {size}\nlimit: {limit}\nblake3: {digest}\n"))
}

/// A path as fast-import reads it; every byte that means something is escaped.
fn quoted(path: &[u8]) -> Vec<u8> {
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
