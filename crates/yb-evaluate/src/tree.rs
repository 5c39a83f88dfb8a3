//! Checkouts for evaluators: the prepared start tree, then those files of the end tree that the agent may change, then
//! hidden files. They are made from the run's own object store; the agent's `.git` is not used.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::manifest::{self, MAX_MANIFEST_BYTES};
use super::protect::{ChangePolicy, ChangedManifest, ComposedTree, LeftOut, compose};
use super::{GradeError, Preparation, Subject, Verdict, prepare};
use yb_repo::{TreeFile, copy_tree, path_from_bytes, remove_tree, write_entry};

/// How many paths a metric lists.
const MAX_LISTED: usize = 50;
/// The limit for restored files that commands must not change: each one takes a mount.
const MAX_LOCKED_RESTORED: usize = 100;

/// Options of a checkout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeOptions<'a> {
    /// Files that exist only in the checkout.
    pub(crate) hidden: &'a [HiddenFile],
    /// The files that the agent may change.
    pub(crate) policy: ChangePolicy<'a>,
}

/// A file or directory that exists only in the checkout, such as a test that the agent must not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HiddenFile {
    /// Its path in the checkout.
    pub(crate) to: String,
    /// Its source, with all links resolved.
    pub(crate) from: PathBuf,
}

/// A checkout.
#[derive(Debug)]
pub(crate) struct GradingTree {
    /// Files and keys that are as in the start tree although the agent changed or removed them, for display.
    pub(crate) put_back: Vec<String>,
    /// Files of the agent that are not in the checkout.
    pub(crate) left_out: Vec<LeftOut>,
    /// The absolute paths of hidden and restored files, which commands must not change.
    pub(crate) locked: Vec<PathBuf>,
}

/// Makes a checkout in a directory that does not exist yet.
pub(crate) async fn check_out(
    subject: &Subject,
    root: &Path,
    options: TreeOptions<'_>,
) -> Result<GradingTree, GradeError> {
    let prepared = prepare(&Preparation::of(subject)).await?;
    let start = subject.store.list(&subject.start).await?;
    let hidden = options.hidden.to_vec();
    let hidden_paths = blocking(move || hidden_paths(&hidden)).await?;
    let composed = compose(options.policy, &hidden_paths, &start, subject.files().await?)?;
    let ComposedTree { mut files, manifests, mut put_back, mut left_out, locked } = composed;
    let mut merged = Vec::new();
    for changed in manifests {
        match merge_manifest(subject, changed).await? {
            GradedManifest::Merged { file, content, keys } => {
                put_back.push(format!("{} ({})", file.display_path(), keys.join(", ")));
                merged.push((file, content));
            }
            GradedManifest::Agents(file) => files.push(file),
            GradedManifest::Starts(file) => {
                put_back.push(file.display_path());
                files.push(file);
            }
            GradedManifest::LeftOut(path) => {
                left_out.push(LeftOut { path, reason: "a manifest that can't be parsed" });
            }
            GradedManifest::Removed => {}
        }
    }
    let (to, from) = (root.to_owned(), prepared);
    let kept =
        files.iter().chain(merged.iter().map(|(file, _)| file)).map(|file| file.path.clone()).collect();
    blocking(move || copy_prepared(&to, from.as_deref(), &start, &kept)).await?;
    subject.store.check_out(&files, root).await?;
    let (to, hidden) = (root.to_owned(), options.hidden.to_vec());
    let locked = blocking(move || {
        let mut known = HashSet::new();
        for (file, content) in &merged {
            let path = path_from_bytes(&file.path);
            write_entry(&to, &path, file.mode, content, &mut known)
                .map_err(GradeError::io(to.join(&path)))?;
        }
        let mut paths = Vec::new();
        hidden.iter().try_for_each(|file| add_hidden(&to, file, &mut paths))?;
        paths.extend(locked.iter().take(MAX_LOCKED_RESTORED).map(|path| path_from_bytes(path)));
        Ok(paths.into_iter().map(|path| to.join(path)).collect())
    });
    put_back.sort();
    left_out.sort();
    Ok(GradingTree { put_back, left_out, locked: locked.await? })
}

impl GradingTree {
    /// Adds the differences from the end tree to a verdict and its summary.
    pub(crate) fn describe(self, mut verdict: Verdict, summary: &mut String) -> Verdict {
        if !self.put_back.is_empty() {
            let names: Vec<&str> = self.put_back.iter().map(String::as_str).collect();
            summary.push_str(&format!(", restored: {}", list_ids(&names)));
            verdict =
                verdict.metric("put_back", self.put_back.into_iter().take(MAX_LISTED).collect::<Vec<_>>());
        }
        if !self.left_out.is_empty() {
            let names: Vec<&str> = self.left_out.iter().map(|one| one.path.as_str()).collect();
            summary.push_str(&format!(", left out: {}", list_ids(&names)));
            let listed = self.left_out.iter().take(MAX_LISTED);
            let listed = listed.map(|one| json!({ "path": one.path, "reason": one.reason }));
            verdict = verdict.metric("left_out", listed.collect::<Vec<Value>>());
        }
        verdict
    }
}

/// The version of a manifest that is graded.
enum GradedManifest {
    Agents(TreeFile),
    Starts(TreeFile),
    Merged {
        file: TreeFile,
        content: Vec<u8>,
        keys: Vec<String>,
    },
    /// None, because the agent's can't be parsed.
    LeftOut(String),
    /// None, because the agent removed it.
    Removed,
}

async fn merge_manifest(subject: &Subject, changed: ChangedManifest) -> Result<GradedManifest, GradeError> {
    let ChangedManifest { rule, start, end } = changed;
    let readable = |file: &&TreeFile| !file.is_link() && file.size <= MAX_MANIFEST_BYTES;
    let content = |file: Option<&TreeFile>| {
        let file = file.filter(readable).cloned();
        async move {
            let Some(file) = file else { return Ok::<_, GradeError>(None) };
            Ok(subject.store.contents(&[&file]).await?.pop())
        }
    };
    let before = content(start.as_ref()).await?;
    let Some(end) = end else {
        let steers = before.is_none_or(|before| manifest::steers_a_runner(rule, &before));
        return Ok(match start {
            Some(start) if steers => GradedManifest::Starts(start),
            _ => GradedManifest::Removed,
        });
    };
    let after = content(Some(&end)).await?;
    let merged = after.and_then(|after| manifest::merge(rule, before.as_deref(), &after));
    Ok(match (merged, start) {
        (Some(merged), _) if merged.keys.is_empty() => GradedManifest::Agents(end),
        (Some(merged), _) => GradedManifest::Merged { file: end, content: merged.content, keys: merged.keys },
        (None, Some(start)) => GradedManifest::Starts(start),
        (None, None) => GradedManifest::LeftOut(end.display_path()),
    })
}

/// Lists the paths of hidden files in the tree.
fn hidden_paths(hidden: &[HiddenFile]) -> Result<Vec<Vec<u8>>, GradeError> {
    let mut paths = Vec::new();
    let mut open: Vec<(PathBuf, String)> = hidden
        .iter()
        .map(|file| (file.from.clone(), file.to.trim_start_matches("./").trim_end_matches('/').to_owned()))
        .collect();
    while let Some((from, to)) = open.pop() {
        if !from.is_dir() {
            paths.push(to.into_bytes());
            continue;
        }
        for entry in std::fs::read_dir(&from).map_err(GradeError::io(&from))? {
            let entry = entry.map_err(GradeError::io(&from))?;
            open.push((entry.path(), format!("{to}/{}", entry.file_name().to_string_lossy())));
        }
    }
    paths.sort();
    Ok(paths)
}

/// Copies the prepared start tree, without the files of the start tree that are not in the end tree.
fn copy_prepared(
    root: &Path,
    prepared: Option<&Path>,
    start: &[TreeFile],
    kept: &HashSet<Vec<u8>>,
) -> Result<(), GradeError> {
    let Some(prepared) = prepared else {
        return std::fs::create_dir_all(root).map_err(GradeError::io(root));
    };
    copy_tree(prepared, root).map_err(GradeError::io(root))?;
    for file in start.iter().filter(|file| !kept.contains(&file.path)) {
        let path = root.join(path_from_bytes(&file.path));
        // A command of `prepare` may have replaced a directory by a link: nothing is removed through links.
        let through_link =
            |folder: &Path| std::fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink());
        if path.ancestors().skip(1).take_while(|above| *above != root).any(through_link) {
            continue;
        }
        remove_tree(&path).map_err(GradeError::io(&path))?;
        // Directories that are empty now are removed too.
        let mut above = path.parent();
        while let Some(folder) = above.filter(|folder| *folder != root) {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
            above = folder.parent();
        }
    }
    Ok(())
}

/// Adds a hidden file or directory to a checkout. A directory replaces an existing one with all its content.
fn add_hidden(root: &Path, hidden: &HiddenFile, paths: &mut Vec<PathBuf>) -> Result<(), GradeError> {
    let mut known = HashSet::new();
    let to = PathBuf::from(hidden.to.trim_start_matches("./"));
    let from = &hidden.from;
    let found = std::fs::symlink_metadata(from).map_err(GradeError::io(from))?;
    if !found.is_dir() {
        add_hidden_file(root, &to, from, &mut known)?;
        paths.push(to);
        return Ok(());
    }
    let target = root.join(&to);
    // Writing a file first replaces links on the way; then it is removed.
    write_entry(root, &to, 0o100_644, b"", &mut known).map_err(GradeError::io(&target))?;
    remove_tree(&target).map_err(GradeError::io(&target))?;
    std::fs::create_dir(&target).map_err(GradeError::io(&target))?;
    let mut folders = vec![(from.clone(), to)];
    while let Some((folder, to)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(GradeError::io(&folder))? {
            let entry = entry.map_err(GradeError::io(&folder))?;
            let kind = entry.file_type().map_err(GradeError::io(entry.path()))?;
            let to = to.join(entry.file_name());
            if kind.is_dir() {
                folders.push((entry.path(), to));
            } else if kind.is_file() {
                add_hidden_file(root, &to, &entry.path(), &mut known)?;
                paths.push(to);
            }
        }
    }
    Ok(())
}

fn add_hidden_file(
    root: &Path,
    to: &Path,
    from: &Path,
    known: &mut HashSet<PathBuf>,
) -> Result<(), GradeError> {
    let content = std::fs::read(from).map_err(GradeError::io(from))?;
    write_entry(root, to, mode_of(from), &content, known).map_err(GradeError::io(root.join(to)))
}

#[cfg(unix)]
fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    let executable = std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    if executable { 0o100_755 } else { 0o100_644 }
}

#[cfg(not(unix))]
fn mode_of(_: &Path) -> u32 {
    0o100_644
}

/// Runs blocking file operations off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GradeError> + Send + 'static,
) -> Result<T, GradeError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| GradeError::other("a blocking task panicked; this is a bug"))?
}

/// Lists the first few ids or paths.
pub(crate) fn list_ids(ids: &[&str]) -> String {
    let some = ids.iter().take(5).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(5) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}
