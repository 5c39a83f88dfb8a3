//! Prepares trees for grading, such as by installing packages: once for each start tree and list of commands. The result
//! is cached and copied.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use yb_supervise::Network;

use super::env::CommandOptions;
use super::{GradeError, GraderEnv, Subject};
use yb_case::Script;
use yb_model::atomic_file::temporary_sibling;
use yb_repo::{FileLock, ObjectStore, remove_or_set_aside, remove_tree};

/// The directory in the cache.
const FOLDER: &str = "prepared";
/// Part of the cache key: changes when the same commands would give another tree.
const VERSION: u32 = 1;
/// The prepared tree, in its directory of the cache.
const TREE: &str = "tree";
/// The output of the commands, beside the tree.
const LOG: &str = "prepare.log";

/// A start tree and the commands that prepare it.
pub struct Preparation<'a> {
    /// The object store with the tree.
    pub store: &'a ObjectStore,
    /// The id of the start tree.
    pub start: &'a str,
    /// The commands, in order.
    pub commands: &'a [Script],
    /// Secrets that are removed from the output.
    pub secrets: &'a [(String, Vec<u8>)],
    /// The environment in which the commands run.
    pub grader_env: &'a GraderEnv,
}

impl<'a> Preparation<'a> {
    /// Returns the preparation of a trial.
    pub(crate) fn of(subject: &'a Subject) -> Self {
        Self {
            store: &subject.store,
            start: &subject.start,
            commands: &subject.prepare,
            secrets: &subject.secrets,
            grader_env: &subject.grader_env,
        }
    }
}

/// Returns the path of the prepared tree, and prepares it if it is not in the cache. `None` if the case has no commands.
///
/// # Errors
/// When a command fails.
pub async fn prepare(subject: &Preparation<'_>) -> Result<Option<PathBuf>, GradeError> {
    if subject.commands.is_empty() {
        return Ok(None);
    }
    let root = subject.grader_env.cache.join(FOLDER);
    std::fs::create_dir_all(&root).map_err(GradeError::io(&root))?;
    let root = root.canonicalize().map_err(GradeError::io(&root))?;
    let entry = root.join(key(subject.start, subject.commands));
    let tree = entry.join(TREE);
    if tree.is_dir() {
        return Ok(Some(tree));
    }
    // The holder of the lock may install packages for as long as the case allows.
    let git =
        subject.store.git().clone().deadline(Duration::ZERO).cancel_on(subject.grader_env.cancel.clone());
    let _lock = FileLock::acquire(&entry.with_extension("lock"), &git).await?;
    if tree.is_dir() {
        return Ok(Some(tree));
    }
    let partial = temporary_sibling(&entry);
    let built = build(subject, &partial).await;
    let moved = built.and_then(|()| {
        remove_tree(&entry).and_then(|()| std::fs::rename(&partial, &entry)).map_err(GradeError::io(&entry))
    });
    if moved.is_err() {
        let _ = remove_or_set_aside(&partial);
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

async fn build(subject: &Preparation<'_>, partial: &Path) -> Result<(), GradeError> {
    let (tree, private) = (partial.join(TREE), partial.join("private"));
    std::fs::create_dir_all(&tree).map_err(GradeError::io(&tree))?;
    let files = subject.store.list(subject.start).await?;
    subject.store.check_out(&files, &tree).await?;
    for script in subject.commands.iter() {
        run(subject, script, partial, &tree, &private).await?;
    }
    remove_tree(&private).map_err(GradeError::io(&private))
}

async fn run(
    subject: &Preparation<'_>,
    script: &Script,
    partial: &Path,
    tree: &Path,
    private: &Path,
) -> Result<(), GradeError> {
    let mut line = subject.grader_env.substitute(&script.command)?;
    for arg in &script.args {
        line.push_str(&format!(" '{}'", subject.grader_env.substitute(arg)?.replace('\'', "'\\''")));
    }
    let mut env = Vec::new();
    for (name, value) in &script.env {
        env.push((name.clone(), subject.grader_env.substitute(value)?));
    }
    let options = CommandOptions {
        tree,
        locked: &[],
        private,
        env,
        timeout: script.timeout,
        // Packages are downloaded.
        network: Network::Shared,
        secrets: subject.secrets,
        log: partial.join(LOG),
    };
    let mut command = subject.grader_env.command("sh".as_ref(), &options)?.args(["-c", &line]);
    if let Some(folder) = &script.working_dir {
        command = command.current_dir(tree.join(folder));
    }
    let report = command.run().await;
    if report.success() {
        return Ok(());
    }
    let output =
        report.output.captured().map(|output| output.text().text.trim().to_owned()).unwrap_or_default();
    let from = output.char_indices().rev().nth(1000).map_or(0, |(at, _)| at);
    Err(GradeError::other(format!(
        "prepare failed: `{}`: {}\n{}",
        script.command,
        report.end,
        &output[from..]
    )))
}
