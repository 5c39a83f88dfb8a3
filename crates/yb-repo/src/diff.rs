//! The changes of an agent, from the start tree to the end tree: statistics and patch, for the evaluator `git-diff`.

use std::collections::HashMap;
use std::path::Path;

use tokio::sync::mpsc;
use yb_redact::Secrets;

use crate::session::GitSession;
use crate::{GitError, ObjectStore, RepoError};

/// The size limit of a patch file.
pub const PATCH_CEILING: u64 = 1 << 30;

/// A larger patch is not held in memory.
const MAX_PATCH_IN_MEMORY: usize = 1 << 20;

/// The most pairs of trees in one git command.
const BATCH_SIZE: usize = 1000;

/// The arguments of `git diff-tree` for statistics.
const STATISTICS_ARGS: [&str; 8] =
    ["-r", "-z", "--raw", "--numstat", "--no-abbrev", "-M", "--no-ext-diff", "--no-textconv"];
/// The arguments of `git diff-tree` for a patch.
const PATCH_ARGS: [&str; 7] =
    ["-p", "--binary", "--full-index", "-M", "--no-ext-diff", "--no-textconv", "--no-color"];

/// The differences between two trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// The changed files, sorted by path.
    pub files: Vec<FileChange>,
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path as stored by git; not necessarily UTF-8.
    pub path: Vec<u8>,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The mode before and after, such as `100755`; `000000` if there is no file.
    pub modes: (String, String),
    /// The number of changed lines.
    pub lines: LineChanges,
}

/// The kind of a file change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// The file was added.
    Added,
    /// The file was deleted.
    Deleted,
    /// The content or the mode changed.
    Modified,
    /// A file was replaced by a symlink, or the other way round.
    TypeChanged,
    /// The file was renamed, and possibly changed.
    Renamed {
        /// The old path.
        from: Vec<u8>,
    },
}

/// The number of changed lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineChanges {
    /// A text file.
    Text {
        /// The number of added lines.
        added: u64,
        /// The number of removed lines.
        removed: u64,
    },
    /// A binary file, which has no lines.
    Binary,
}

impl FileChange {
    /// The number of added lines; 0 for a binary file.
    pub fn additions(&self) -> u64 {
        if let LineChanges::Text { added, .. } = self.lines { added } else { 0 }
    }

    /// The number of removed lines; 0 for a binary file.
    pub fn deletions(&self) -> u64 {
        if let LineChanges::Text { removed, .. } = self.lines { removed } else { 0 }
    }

    /// The number of added and removed lines.
    pub fn changes(&self) -> u64 {
        self.additions() + self.deletions()
    }

    /// The path for display, with U+FFFD for bytes that are not UTF-8.
    pub fn display_path(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

impl Diff {
    /// The number of changed files.
    pub fn files_changed(&self) -> u64 {
        self.files.len() as u64
    }

    /// The number of added lines in all files.
    pub fn lines_added(&self) -> u64 {
        self.files.iter().map(FileChange::additions).sum()
    }

    /// The number of removed lines in all files.
    pub fn lines_removed(&self) -> u64 {
        self.files.iter().map(FileChange::deletions).sum()
    }

    /// The number of added and removed lines in all files.
    pub fn total_changes(&self) -> u64 {
        self.lines_added() + self.lines_removed()
    }

    /// The Shannon entropy, in bits, of the distribution of changed lines over files: 0 if all changes are in one file, or there are
    /// none.
    pub fn change_entropy(&self) -> f64 {
        let total = self.total_changes() as f64;
        let shares = self.files.iter().map(FileChange::changes).filter(|changes| *changes > 0);
        let sum: f64 = shares.map(|changes| changes as f64 / total).map(|share| share * share.log2()).sum();
        // With a single share the sum is negative zero.
        if sum == 0.0 { 0.0 } else { -sum }
    }
}

/// The size of a written patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The number of bytes beyond [`PATCH_CEILING`], which are not in the file.
    pub dropped: u64,
}

impl ObjectStore {
    /// [`diff`](Self::diff) and [`write_patch`](Self::write_patch) in one request to git, unless the patch is very large.
    pub async fn diff_and_patch(
        &self,
        from: &str,
        to: &str,
        path: &Path,
        secrets: &[(String, Vec<u8>)],
    ) -> Result<(Diff, Option<Patch>), RepoError> {
        if from == to {
            return Ok((Diff::default(), None));
        }
        let Some(answer) = self.request_diff(from, to).await? else {
            return tokio::try_join!(self.diff(from, to), self.write_patch(from, to, path, secrets));
        };
        let secrets = Secrets::of_safe_length(secrets.iter().cloned());
        let answer = secrets.redact_bytes(&answer);
        let head = format!("{from} {to}\n");
        let answer = answer.strip_prefix(head.as_bytes()).ok_or_else(unreadable)?;
        let (diff, patch) = parse(answer).ok_or_else(unreadable)?;
        if patch.is_empty() {
            return Ok((diff, None));
        }
        std::fs::write(path, patch).map_err(RepoError::io("write", path))?;
        Ok((diff, Some(Patch { bytes: patch.len() as u64, dropped: 0 })))
    }

    /// Requests statistics and patch from a long-running `git diff-tree`, preceded by a line with both ids; `None` if they are too
    /// long. For trees that do not exist, git prints nothing.
    async fn request_diff(&self, from: &str, to: &str) -> Result<Option<Vec<u8>>, RepoError> {
        let differ = match self.idle.differs.take().await {
            Some(differ) => differ,
            None => self.differ().await?,
        };
        // git echoes a line that is not an object id, and the nonce makes it impossible to forge in a tree.
        let end = format!("end-{}", differ.nonce());
        let (sender, request) = mpsc::channel(1);
        let _ = sender.try_send(format!("{from} {to}\n{end}\n").into_bytes());
        drop(sender);
        let Some((differ, answer)) = differ.request(request, &end, MAX_PATCH_IN_MEMORY).await? else {
            return Ok(None);
        };
        self.idle.differs.give_back(differ).await;
        Ok(Some(answer))
    }

    /// Starts a git process that compares trees of this store.
    pub(crate) async fn differ(&self) -> Result<GitSession, GitError> {
        let call = self.git().command("diff-tree").git_dir(self.path());
        GitSession::start(call.arg("--stdin").args(STATISTICS_ARGS).args(PATCH_ARGS), "").await
    }

    /// Compares two trees or commits of this store, given by id.
    pub async fn diff(&self, from: &str, to: &str) -> Result<Diff, RepoError> {
        if from == to {
            return Ok(Diff::default());
        }
        if let Some(reader) = self.reader() {
            return reader.diff(from, to).await;
        }
        let call = self.git().command("diff-tree").git_dir(self.path());
        let answer = call.args(STATISTICS_ARGS).args(["--end-of-options", from, to]).bytes().await?;
        parse(&answer).map(|(diff, _)| diff).ok_or_else(unreadable)
    }

    /// Compares many pairs of trees with one git command, in order: a command for each would take longer than the rest of
    /// grading.
    pub async fn diffs(&self, pairs: &[(String, String)]) -> Result<Vec<Diff>, RepoError> {
        let mut found = Vec::with_capacity(pairs.len());
        for chunk in pairs.chunks(BATCH_SIZE) {
            self.check_trees(chunk).await?;
            let request: String = chunk.iter().map(|(from, to)| format!("{from} {to}\n")).collect();
            let call = self.git().command("diff-tree").git_dir(self.path());
            let answer =
                call.arg("--stdin").args(STATISTICS_ARGS).stdin(request.into_bytes()).bytes().await?;
            found.append(&mut parse_many(&answer, chunk).ok_or_else(unreadable)?);
        }
        Ok(found)
    }

    /// Checks that all trees exist, because `git diff-tree --stdin` silently skips unknown ones.
    async fn check_trees(&self, pairs: &[(String, String)]) -> Result<(), RepoError> {
        let request: String = pairs.iter().map(|(from, to)| format!("{from}\n{to}\n")).collect();
        let call = self.git().command("cat-file").git_dir(self.path()).arg("--batch-check=%(objecttype)");
        let answer = call.stdin(request.into_bytes()).text().await?;
        let exists = |line: &str| matches!(line, "tree" | "commit");
        match answer
            .lines()
            .zip(pairs.iter().flat_map(|(from, to)| [from, to]))
            .find(|(line, _)| !exists(line))
        {
            None => Ok(()),
            Some((_, id)) => {
                let problem = format!("no such tree: `{id}`");
                Err(GitError::BadOutput { command: "cat-file".to_owned(), problem }.into())
            }
        }
    }

    /// Writes a diff for display, without the content of binary files; returns whether there are differences.
    pub async fn write_diff_text(
        &self,
        from: &str,
        to: &str,
        path: &Path,
        secrets: &[(String, Vec<u8>)],
    ) -> Result<bool, RepoError> {
        if from == to {
            return Ok(false);
        }
        let call = self.git().command("diff-tree").git_dir(self.path()).secrets(secrets);
        let call = call.args(["-r", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color"]);
        let log = call.args(["--end-of-options", from, to]).into_file(path, PATCH_CEILING).await?;
        Ok(log.teed > 0)
    }

    /// Writes a patch for `git apply`, including binary files, with secrets redacted. Without differences no file is written, and
    /// `None` is returned.
    pub async fn write_patch(
        &self,
        from: &str,
        to: &str,
        path: &Path,
        secrets: &[(String, Vec<u8>)],
    ) -> Result<Option<Patch>, RepoError> {
        if from == to {
            return Ok(None);
        }
        let call = self.git().command("diff-tree").git_dir(self.path()).secrets(secrets);
        let call = call.args(["-r"]).args(PATCH_ARGS).args(["--end-of-options", from, to]);
        let log = call.into_file(path, PATCH_CEILING).await?;
        if log.teed == 0 {
            std::fs::remove_file(path).map_err(RepoError::io("remove", path))?;
            return Ok(None);
        }
        Ok(Some(Patch { bytes: log.teed, dropped: log.not_teed }))
    }
}

fn unreadable() -> RepoError {
    let problem = "not in the format of --raw --numstat -z".to_owned();
    GitError::BadOutput { command: "diff-tree".to_owned(), problem }.into()
}

/// An iterator over NUL-terminated fields.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (field, rest) = (&self.0[..end], &self.0[end + 1..]);
        self.0 = rest;
        Some(field)
    }
}

/// Parses the output of `git diff-tree` for one pair, and returns the rest, which is the patch if one was requested. First come the
/// raw lines, `:<mode> <mode> <id> <id> <status>\0<path>\0[<path>\0]`, then the line counts, `<added>\t<removed>\t<path>\0` or, for a
/// rename, `<added>\t<removed>\t\0<from>\0<to>\0`, then a NUL and the patch.
fn parse(answer: &[u8]) -> Option<(Diff, &[u8])> {
    parse_until(answer, b"")
}

/// Parses the output for several pairs, each preceded by a line `<from> <to>`.
fn parse_many(answer: &[u8], pairs: &[(String, String)]) -> Option<Vec<Diff>> {
    let head =
        |pair: Option<&(String, String)>| pair.map(|(from, to)| format!("{from} {to}\n")).unwrap_or_default();
    let mut rest = answer;
    let mut found = Vec::with_capacity(pairs.len());
    for (index, pair) in pairs.iter().enumerate() {
        rest = rest.strip_prefix(head(Some(pair)).as_bytes())?;
        let diff;
        (diff, rest) = parse_until(rest, head(pairs.get(index + 1)).as_bytes())?;
        found.push(diff);
    }
    rest.is_empty().then_some(found)
}

/// Parses until `end`, the header of the next pair, or to the end of the output if it is empty.
fn parse_until<'a>(answer: &'a [u8], end: &[u8]) -> Option<(Diff, &'a [u8])> {
    let mut fields = Fields(answer);
    let mut files = Vec::new();
    let mut numbers: HashMap<Vec<u8>, LineChanges> = HashMap::new();
    while !fields.0.is_empty() && (end.is_empty() || !fields.0.starts_with(end)) {
        let field = fields.next()?;
        if field.is_empty() {
            break;
        }
        if let Some(raw) = field.strip_prefix(b":") {
            let raw = std::str::from_utf8(raw).ok()?;
            let mut words = raw.split(' ');
            let modes = (words.next()?.to_owned(), words.next()?.to_owned());
            let status = words.nth(2)?;
            let first = fields.next()?.to_vec();
            let (path, kind) = match status.as_bytes().first()? {
                b'A' => (first, ChangeKind::Added),
                b'D' => (first, ChangeKind::Deleted),
                b'M' => (first, ChangeKind::Modified),
                b'T' => (first, ChangeKind::TypeChanged),
                b'R' => (fields.next()?.to_vec(), ChangeKind::Renamed { from: first }),
                _ => return None,
            };
            files.push(FileChange { path, kind, modes, lines: LineChanges::Binary });
        } else {
            let mut parts = field.splitn(3, |byte| *byte == b'\t');
            let (added, removed, path) = (parts.next()?, parts.next()?, parts.next()?);
            let path = if path.is_empty() {
                fields.next()?;
                fields.next()?
            } else {
                path
            };
            let lines = match (added, removed) {
                (b"-", b"-") => LineChanges::Binary,
                _ => LineChanges::Text { added: number(added)?, removed: number(removed)? },
            };
            numbers.insert(path.to_vec(), lines);
        }
    }
    for file in &mut files {
        // If a file became a symlink, git prints two line counts for the path; the last one is used.
        file.lines = *numbers.get(&file.path)?;
    }
    Some((Diff { files }, fields.0))
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, added: u64, removed: u64) -> FileChange {
        FileChange {
            path: path.into(),
            kind: ChangeKind::Modified,
            modes: ("100644".to_owned(), "100644".to_owned()),
            lines: LineChanges::Text { added, removed },
        }
    }

    #[test]
    fn change_entropy_is_shannon_entropy() {
        let entropy = |files: &[(u64, u64)]| {
            let files = files.iter().map(|(added, removed)| text("x", *added, *removed)).collect();
            Diff { files }.change_entropy()
        };
        assert_eq!(entropy(&[]).to_bits(), 0.0_f64.to_bits());
        assert_eq!(entropy(&[(5, 3)]).to_bits(), 0.0_f64.to_bits());
        assert!((entropy(&[(1, 0), (0, 1)]) - 1.0).abs() < 1e-12);
        assert!((entropy(&[(1, 0), (0, 1), (1, 0)]) - 3.0_f64.log2()).abs() < 1e-12);
        assert!((entropy(&[(0, 0), (2, 2), (4, 0)]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn diff_tree_output_is_parsed() {
        let id = "0".repeat(40);
        let answer = format!(
            ":100644 000000 {id} {id} D\0gone\0:100644 100755 {id} {id} R090\0a\tb\0c\nd\0:000000 100644 {id} {id} A\0bin\0\
             0\t3\tgone\x001\t2\t\0a\tb\0c\nd\0-\t-\tbin\0"
        );
        let (diff, patch) = parse(answer.as_bytes()).expect("parsed");
        assert_eq!(patch, b"");
        assert_eq!(diff.files_changed(), 3);
        assert_eq!((diff.lines_added(), diff.lines_removed(), diff.total_changes()), (1, 5, 6));
        assert_eq!(diff.files[1].kind, ChangeKind::Renamed { from: b"a\tb".to_vec() });
        assert_eq!(diff.files[1].path, b"c\nd");
        assert_eq!(diff.files[2].lines, LineChanges::Binary);
        assert_eq!(parse(b":junk\0"), None);
        assert_eq!(parse(b""), Some((Diff::default(), &b""[..])));
        let pair = |from: &str, to: &str| (from.repeat(40), to.repeat(40));
        let pairs = [pair("a", "b"), pair("c", "c"), pair("d", "e")];
        let head = |at: usize| format!("{} {}\n", pairs[at].0, pairs[at].1);
        let many = format!("{}{answer}{}{}{answer}", head(0), head(1), head(2));
        let found = parse_many(many.as_bytes(), &pairs).expect("parsed");
        assert_eq!(found, [diff.clone(), Diff::default(), diff.clone()]);
        assert_eq!(parse_many(many.as_bytes(), &pairs[..2]), None);
        let with_patch = format!("{answer}\0diff --git a/x b/x\n+\0\n");
        assert_eq!(parse(with_patch.as_bytes()), Some((diff, &b"diff --git a/x b/x\n+\0\n"[..])));
    }
}
