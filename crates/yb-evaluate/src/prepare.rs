//! What a tree needs before anything in it can be graded, such as installed packages: done once for each start tree and
//! list of commands, kept in the cache, and copied.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use yb_supervise::Network;

use super::bench::Job;
use super::{Bench, GradeError, Subject};
use yb_case::Script;
use yb_model::atomic_file::temporary_sibling;
use yb_repo::{FileLock, ObjectStore, remove_path};

/// Below the cache.
const FOLDER: &str = "prepared";
/// Changes whenever the same commands would leave something else.
const VERSION: u32 = 1;
/// In a folder of the cache: the tree, and what the commands said.
const TREE: &str = "tree";
const LOG: &str = "prepare.log";

/// What is prepared, and how.
pub struct Preparation<'a> {
    pub store: &'a ObjectStore,
    /// The tree that it begins with.
    pub start: &'a str,
    pub commands: &'a [Script],
    pub secrets: &'a [(String, Vec<u8>)],
    pub bench: &'a Bench,
}

impl<'a> Preparation<'a> {
    /// That of a trial.
    pub(crate) fn of(subject: &'a Subject) -> Self {
        Self {
            store: &subject.store,
            start: &subject.start,
            commands: &subject.prepare,
            secrets: &subject.secrets,
            bench: &subject.bench,
        }
    }
}

/// The prepared start tree, made by whoever comes first; `None` if the case prepares nothing.
pub async fn prepared(subject: &Preparation<'_>) -> Result<Option<PathBuf>, GradeError> {
    if subject.commands.is_empty() {
        return Ok(None);
    }
    let root = subject.bench.cache.join(FOLDER);
    std::fs::create_dir_all(&root).map_err(GradeError::io(&root))?;
    let root = root.canonicalize().map_err(GradeError::io(&root))?;
    let place = root.join(key(subject.start, subject.commands));
    let tree = place.join(TREE);
    if tree.is_dir() {
        return Ok(Some(tree));
    }
    // Whoever holds the lock may be installing things for as long as the case allows.
    let patient =
        subject.store.git().clone().deadline(Duration::ZERO).cancel_on(subject.bench.cancel.clone());
    let _lock = FileLock::acquire(&place.with_extension("lock"), &patient).await?;
    if tree.is_dir() {
        return Ok(Some(tree));
    }
    let half = temporary_sibling(&place);
    let made = make(subject, &half).await;
    let moved = made.and_then(|()| {
        remove_path(&place).and_then(|()| std::fs::rename(&half, &place)).map_err(GradeError::io(&place))
    });
    if moved.is_err() {
        super::subject::remove_tree(&half);
    }
    moved.map(|()| Some(tree))
}

fn key(start: &str, commands: &[Script]) -> String {
    let commands: Vec<_> = commands
        .iter()
        .map(|script| json!({"command": script.command, "args": script.args, "env": script.env, "in": script.working_dir}))
        .collect();
    let text = json!({"youbencha_prepared": VERSION, "start": start, "commands": commands}).to_string();
    blake3::hash(text.as_bytes()).to_hex().chars().take(32).collect()
}

async fn make(subject: &Preparation<'_>, half: &Path) -> Result<(), GradeError> {
    let (tree, private) = (half.join(TREE), half.join("private"));
    std::fs::create_dir_all(&tree).map_err(GradeError::io(&tree))?;
    let files = subject.store.list(subject.start).await?;
    subject.store.check_out(&files, &tree).await?;
    for script in subject.commands.iter() {
        run(subject, script, half, &tree, &private).await?;
    }
    remove_path(&private).map_err(GradeError::io(&private))
}

async fn run(
    subject: &Preparation<'_>,
    script: &Script,
    half: &Path,
    tree: &Path,
    private: &Path,
) -> Result<(), GradeError> {
    let mut line = subject.bench.fill(&script.command)?;
    for arg in &script.args {
        line.push_str(&format!(" '{}'", subject.bench.fill(arg)?.replace('\'', "'\\''")));
    }
    let mut env = Vec::new();
    for (name, value) in &script.env {
        env.push((name.clone(), subject.bench.fill(value)?));
    }
    let job = Job {
        tree,
        locked: &[],
        private,
        env,
        timeout: script.timeout,
        // Packages come from somewhere.
        network: Network::Shared,
        secrets: subject.secrets,
        log: half.join(LOG),
    };
    let mut command = subject.bench.command("sh".as_ref(), &job)?.args(["-c", &line]);
    if let Some(folder) = &script.working_dir {
        command = command.current_dir(tree.join(folder));
    }
    let report = command.run().await;
    if report.success() {
        return Ok(());
    }
    let said =
        report.output.captured().map(|output| output.text().text.trim().to_owned()).unwrap_or_default();
    let from = said.char_indices().rev().nth(1000).map_or(0, |(at, _)| at);
    Err(GradeError::other(format!("prepare failed: `{}`: {}\n{}", script.command, report.end, &said[from..])))
}
