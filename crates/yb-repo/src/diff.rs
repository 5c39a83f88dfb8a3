//! What an agent changed, measured from the start tree to the end tree: the numbers and the patch of `git-diff`.

use std::collections::HashMap;
use std::path::Path;

use tokio::sync::mpsc;
use yb_supervise::redact;

use crate::{GitError, ObjectStore, RepoError, Session};

/// How large a patch file may become by default.
pub const PATCH_CEILING: u64 = 1 << 30;

/// A longer patch is not held in memory.
const ORDINARY_PATCH: usize = 1 << 20;

/// How many pairs of trees git is asked about at once.
const PAIRS: usize = 1000;

/// How git is asked for the numbers, and for the patch.
const NUMBERS: [&str; 8] =
    ["-r", "-z", "--raw", "--numstat", "--no-abbrev", "-M", "--no-ext-diff", "--no-textconv"];
const PATCH: [&str; 7] =
    ["-p", "--binary", "--full-index", "-M", "--no-ext-diff", "--no-textconv", "--no-color"];

/// All differences between two trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Each changed file, in the order of paths.
    pub files: Vec<FileChange>,
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Its path as git has it; not necessarily UTF-8.
    pub path: Vec<u8>,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Mode before and after, as `100755`; `000000` where there is no file.
    pub modes: (String, String),
    /// What changed in it.
    pub lines: Lines,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content or mode is another.
    Modified,
    /// It became a link, or a link a file.
    TypeChanged,
    /// It moved, and perhaps changed.
    Renamed {
        /// Where it was.
        from: Vec<u8>,
    },
}

/// How much of a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// Text.
    Text {
        /// Lines that are new.
        added: u64,
        /// Lines that are gone.
        removed: u64,
    },
    /// Not text: it has no lines.
    Binary,
}

impl FileChange {
    /// Lines added; none in a binary file.
    pub fn additions(&self) -> u64 {
        if let Lines::Text { added, .. } = self.lines { added } else { 0 }
    }

    /// Lines removed; none in a binary file.
    pub fn deletions(&self) -> u64 {
        if let Lines::Text { removed, .. } = self.lines { removed } else { 0 }
    }

    /// Both together.
    pub fn changes(&self) -> u64 {
        self.additions() + self.deletions()
    }

    /// The path for a person, with U+FFFD for what is not UTF-8.
    pub fn display_path(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

impl Diff {
    /// How many files differ.
    pub fn files_changed(&self) -> u64 {
        self.files.len() as u64
    }

    /// Lines added in all files.
    pub fn lines_added(&self) -> u64 {
        self.files.iter().map(FileChange::additions).sum()
    }

    /// Lines removed in all files.
    pub fn lines_removed(&self) -> u64 {
        self.files.iter().map(FileChange::deletions).sum()
    }

    /// Lines added and removed.
    pub fn total_changes(&self) -> u64 {
        self.lines_added() + self.lines_removed()
    }

    /// How spread the changes are: Shannon's entropy in bits of the changed lines over the files. 0 if all are in
    /// one file, or nothing changed.
    pub fn change_entropy(&self) -> f64 {
        let total = self.total_changes() as f64;
        let shares = self.files.iter().map(FileChange::changes).filter(|changes| *changes > 0);
        let sum: f64 = shares.map(|changes| changes as f64 / total).map(|share| share * share.log2()).sum();
        // The sum of one whole share is a negative zero.
        if sum == 0.0 { 0.0 } else { -sum }
    }
}

/// A patch that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// Bytes in the file.
    pub bytes: u64,
    /// Bytes that its ceiling kept out.
    pub dropped: u64,
}

impl ObjectStore {
    /// [`diff`](Self::diff) and [`write_patch`](Self::write_patch) in one call of git, if the patch is of ordinary size.
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
        let Some(answer) = self.ask_differ(from, to).await? else {
            return tokio::try_join!(self.diff(from, to), self.write_patch(from, to, path, secrets));
        };
        let answer = redact(&answer, secrets);
        let head = format!("{from} {to}\n");
        let answer = answer.strip_prefix(head.as_bytes()).ok_or_else(unreadable)?;
        let (diff, patch) = parse(answer).ok_or_else(unreadable)?;
        if patch.is_empty() {
            return Ok((diff, None));
        }
        std::fs::write(path, patch).map_err(RepoError::io("write", path))?;
        Ok((diff, Some(Patch { bytes: patch.len() as u64, dropped: 0 })))
    }

    /// What git says about two trees, below a line that names them; `None` if that is very long. Of trees that are not
    /// there it says nothing at all.
    async fn ask_differ(&self, from: &str, to: &str) -> Result<Option<Vec<u8>>, RepoError> {
        let differ = match self.waiting.differs.take().await {
            Some(differ) => differ,
            None => self.differ().await?,
        };
        // A line that names no object is repeated as it is, and nothing in a tree can be made to look like it.
        let end = format!("end-{}", differ.word());
        let (sender, question) = mpsc::channel(1);
        let _ = sender.try_send(format!("{from} {to}\n{end}\n").into_bytes());
        drop(sender);
        let Some((differ, answer)) = differ.ask(question, &end, ORDINARY_PATCH).await? else {
            return Ok(None);
        };
        self.waiting.differs.give_back(differ).await;
        Ok(Some(answer))
    }

    /// A git that compares trees of this store.
    pub(crate) async fn differ(&self) -> Result<Session, GitError> {
        let call = self.git().call("diff-tree").git_dir(self.path());
        Session::start(call.arg("--stdin").args(NUMBERS).args(PATCH), "").await
    }

    /// The differences between two trees or commits of this store, by their ids.
    pub async fn diff(&self, from: &str, to: &str) -> Result<Diff, RepoError> {
        if from == to {
            return Ok(Diff::default());
        }
        if let Some(reader) = self.reader() {
            return reader.diff(from, to).await;
        }
        let call = self.git().call("diff-tree").git_dir(self.path());
        let answer = call.args(NUMBERS).args(["--end-of-options", from, to]).bytes().await?;
        parse(&answer).map(|(diff, _)| diff).ok_or_else(unreadable)
    }

    /// The differences of many pairs of trees, in their order, with one call of git: a call for each would take longer
    /// than all the rest of grading.
    pub async fn diffs(&self, pairs: &[(String, String)]) -> Result<Vec<Diff>, RepoError> {
        let mut found = Vec::with_capacity(pairs.len());
        for chunk in pairs.chunks(PAIRS) {
            self.check_trees(chunk).await?;
            let asked: String = chunk.iter().map(|(from, to)| format!("{from} {to}\n")).collect();
            let call = self.git().call("diff-tree").git_dir(self.path());
            let answer = call.arg("--stdin").args(NUMBERS).stdin(asked.into_bytes()).bytes().await?;
            found.append(&mut parse_many(&answer, chunk).ok_or_else(unreadable)?);
        }
        Ok(found)
    }

    /// That all of these trees are there: what git does not know, `--stdin` passes over without a word.
    async fn check_trees(&self, pairs: &[(String, String)]) -> Result<(), RepoError> {
        let asked: String = pairs.iter().map(|(from, to)| format!("{from}\n{to}\n")).collect();
        let call = self.git().call("cat-file").git_dir(self.path()).arg("--batch-check=%(objecttype)");
        let answer = call.stdin(asked.into_bytes()).text().await?;
        let known = |line: &str| matches!(line, "tree" | "commit");
        match answer
            .lines()
            .zip(pairs.iter().flat_map(|(from, to)| [from, to]))
            .find(|(line, _)| !known(line))
        {
            None => Ok(()),
            Some((_, id)) => {
                let what = format!("no such tree: `{id}`");
                Err(GitError::Answer { command: "cat-file".to_owned(), what }.into())
            }
        }
    }

    /// Writes the differences for a reader: of binary files only that they differ. Whether there is any.
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
        let call = self.git().call("diff-tree").git_dir(self.path()).secrets(secrets);
        let call = call.args(["-r", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color"]);
        let log = call.args(["--end-of-options", from, to]).into_file(path, PATCH_CEILING).await?;
        Ok(log.teed > 0)
    }

    /// Writes the differences as a patch that `git apply` takes, binary files and all, without the secrets. Nothing
    /// is written, and `None` given, if there are none.
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
        let call = self.git().call("diff-tree").git_dir(self.path()).secrets(secrets);
        let call = call.args(["-r"]).args(PATCH).args(["--end-of-options", from, to]);
        let log = call.into_file(path, PATCH_CEILING).await?;
        if log.teed == 0 {
            std::fs::remove_file(path).map_err(RepoError::io("remove", path))?;
            return Ok(None);
        }
        Ok(Some(Patch { bytes: log.teed, dropped: log.not_teed }))
    }
}

fn unreadable() -> RepoError {
    let what = "its lines are not those of --raw --numstat -z".to_owned();
    GitError::Answer { command: "diff-tree".to_owned(), what }.into()
}

/// Fields that end with a NUL.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (field, rest) = (&self.0[..end], &self.0[end + 1..]);
        self.0 = rest;
        Some(field)
    }
}

/// The raw lines come first, `:<mode> <mode> <id> <id> <status>\0<path>\0[<path>\0]`, then the numbers,
/// `<added>\t<removed>\t<path>\0`, of a rename `<added>\t<removed>\t\0<from>\0<to>\0`; then, if it was asked for, a NUL
/// and the patch.
fn parse(answer: &[u8]) -> Option<(Diff, &[u8])> {
    parse_until(answer, b"")
}

/// The same for several pairs, each below a line `<from> <to>`.
fn parse_many(answer: &[u8], pairs: &[(String, String)]) -> Option<Vec<Diff>> {
    let head =
        |pair: Option<&(String, String)>| pair.map(|(from, to)| format!("{from} {to}\n")).unwrap_or_default();
    let mut rest = answer;
    let mut found = Vec::with_capacity(pairs.len());
    for (at, pair) in pairs.iter().enumerate() {
        rest = rest.strip_prefix(head(Some(pair)).as_bytes())?;
        let diff;
        (diff, rest) = parse_until(rest, head(pairs.get(at + 1)).as_bytes())?;
        found.push(diff);
    }
    rest.is_empty().then_some(found)
}

/// Reads until a line that is no field can follow, or to the end.
fn parse_until<'a>(answer: &'a [u8], end: &[u8]) -> Option<(Diff, &'a [u8])> {
    let mut fields = Fields(answer);
    let mut files = Vec::new();
    let mut numbers: HashMap<Vec<u8>, Lines> = HashMap::new();
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
            files.push(FileChange { path, kind, modes, lines: Lines::Binary });
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
                (b"-", b"-") => Lines::Binary,
                _ => Lines::Text { added: number(added)?, removed: number(removed)? },
            };
            numbers.insert(path.to_vec(), lines);
        }
    }
    for file in &mut files {
        // Where a file became a link, git counts it as two changes of one path; the last number stands.
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
            lines: Lines::Text { added, removed },
        }
    }

    #[test]
    fn entropy_is_shannons() {
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
    fn what_git_prints_is_read() {
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
        assert_eq!(diff.files[2].lines, Lines::Binary);
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
