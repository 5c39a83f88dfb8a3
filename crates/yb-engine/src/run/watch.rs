//! Watching what a run was made of, so that an edit can run the affected trials again: the files that were read, scripts that cases
//! name, the settings, and local repositories and directories that trials start from.
//!
//! Files are polled by their times and sizes. A notification API would need a thread, a dependency and a limit of the system for each
//! watched directory; the list here is short, and a poll of a thousand files takes a few milliseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use super::plan::{Plan, PlannedTrial};
use super::prepare::PreparedRun;
use yb_case::suite::{SourceFile, Suite};
use yb_case::{Case, PostHook, Script, Start, TapeSource};
use yb_repo::Source;

/// The most files of start directories and branches that are watched.
const MAX_WALKED: usize = 20_000;
/// The largest file whose content is compared; of a larger one the time and size decide.
const MAX_COMPARED: u64 = 64 << 20;

/// Modification time and size; none for a path that does not exist.
type Stamp = Option<(SystemTime, u64)>;

/// Why a path is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Watched {
    /// A file with this digest.
    File(String),
    /// A directory with files that were read: others may be added.
    Directory,
    /// A file of a start directory, or a reference of a repository.
    Start,
}

/// The watched paths with their state when the run was prepared.
#[derive(Debug, Clone, Default)]
pub struct WatchedFiles {
    paths: BTreeMap<PathBuf, (Watched, Stamp)>,
    /// The cases that use a file whose content is in no digest, such as a script of a hook.
    users: BTreeMap<PathBuf, BTreeSet<String>>,
    is_truncated: bool,
}

/// What changed since a state was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileChanges {
    /// Files with another content, sorted.
    pub files: Vec<PathBuf>,
    /// Files of start directories, and references of repositories, sorted.
    pub starts: Vec<PathBuf>,
    /// Files may have been added to a directory.
    pub directories: bool,
    /// The cases that are affected although their digests are not.
    pub cases: BTreeSet<String>,
}

impl FileChanges {
    /// Returns whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.starts.is_empty() && !self.directories
    }

    /// Adds later changes.
    pub fn merge(&mut self, later: Self) {
        for (all, new) in [(&mut self.files, later.files), (&mut self.starts, later.starts)] {
            all.extend(new);
            all.sort();
            all.dedup();
        }
        self.directories |= later.directories;
        self.cases.extend(later.cases);
    }
}

impl WatchedFiles {
    /// Returns the state of all files that decide what a suite runs. `settings` are files that may not exist, and `excluded` is
    /// where runs are written.
    #[must_use]
    pub fn of(suite: &Suite, settings: impl IntoIterator<Item = PathBuf>, excluded: &Path) -> Self {
        let mut watched = Self::default();
        let excluded = &excluded.canonicalize().unwrap_or_else(|_| excluded.to_owned());
        watched.add_files(&suite.files);
        for file in settings {
            watched.add(&file, Watched::File(digest(&file)));
        }
        for combination in &suite.combinations {
            for file in named_files(&combination.case) {
                // The content of a file that was read is in the digests.
                if suite.files.iter().any(|known| known.path == file) {
                    continue;
                }
                watched.add(&file, Watched::File(digest(&file)));
                watched.users.entry(file).or_default().insert(combination.case_name.clone());
            }
            watched.add_start(&combination.case, excluded);
        }
        watched
    }

    /// Returns the state of one file, for a suite that can't be loaded.
    #[must_use]
    pub fn of_file(file: &Path) -> Self {
        let mut watched = Self::default();
        watched.add(file, Watched::File(digest(file)));
        watched
    }

    /// Adds files that were read.
    pub fn add_files(&mut self, files: &[SourceFile]) {
        for file in files {
            self.add(&file.path, Watched::File(file.digest.clone()));
            // A file that was written since it was read is a change to come.
            if digest(&file.path) != file.digest
                && let Some((_, recorded)) = self.paths.get_mut(&file.path)
            {
                *recorded = Some((SystemTime::UNIX_EPOCH, 0));
            }
            if let Some(parent) = file.path.parent() {
                self.add(parent, Watched::Directory);
            }
        }
    }

    /// Records the current state of what a run itself may have written: directories, start trees and files that commands name. An edit
    /// of them during the run is not noticed; a hook that writes its results there would otherwise start a run without an end.
    pub fn settle(&mut self) {
        for (path, (why, recorded)) in &mut self.paths {
            match why {
                Watched::File(known) if self.users.contains_key(path) => *known = digest(path),
                Watched::File(_) => continue,
                Watched::Directory | Watched::Start => {}
            }
            *recorded = stamp(path);
        }
    }

    /// Returns the number of watched paths.
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns whether nothing is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns whether start directories have more files than are watched.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Returns whether any time or size differs from the recorded state.
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.paths.iter().any(|(path, (_, recorded))| stamp(path) != *recorded)
    }

    /// Records the current state, and returns what changed since the last one.
    pub fn update(&mut self) -> FileChanges {
        let mut changes = FileChanges::default();
        for (path, (why, recorded)) in &mut self.paths {
            let now = stamp(path);
            if now == *recorded {
                continue;
            }
            *recorded = now;
            match why {
                Watched::File(known) => {
                    let found = digest(path);
                    if found == *known {
                        continue;
                    }
                    *known = found;
                    changes.files.push(path.clone());
                    changes.cases.extend(self.users.get(path).into_iter().flatten().cloned());
                }
                Watched::Directory => changes.directories = true,
                Watched::Start => changes.starts.push(path.clone()),
            }
        }
        changes
    }

    fn add(&mut self, path: &Path, why: Watched) {
        if !self.paths.contains_key(path) {
            self.paths.insert(path.to_owned(), (why, stamp(path)));
        }
    }

    fn add_start(&mut self, case: &Case, excluded: &Path) {
        match &case.start {
            Start::Directory(directory) => self.walk(directory, excluded),
            Start::Image => {}
            // A case that names a commit has no other start.
            Start::Repo { commit: Some(_), .. } => {}
            Start::Repo { repo, .. } => match Source::parse(repo, &case.dir) {
                Ok(Source::Local(path)) => {
                    let (own, common) = git_dirs(&path);
                    self.add(&own.join("HEAD"), Watched::Start);
                    self.add(&common.join("packed-refs"), Watched::Start);
                    self.walk(&common.join("refs/heads"), excluded);
                }
                Ok(Source::Directory(path)) => self.walk(&path, excluded),
                _ => {}
            },
        }
    }

    /// Adds the files and directories below a directory, without git's own.
    fn walk(&mut self, directory: &Path, excluded: &Path) {
        let mut open = vec![directory.to_owned()];
        while let Some(directory) = open.pop() {
            self.add(&directory, Watched::Start);
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                if self.paths.len() >= MAX_WALKED {
                    self.is_truncated = true;
                    return;
                }
                let (path, kind) = (entry.path(), entry.file_type());
                if entry.file_name() == ".git" || path == excluded {
                    continue;
                }
                match kind {
                    Ok(kind) if kind.is_dir() => open.push(path),
                    _ => self.add(&path, Watched::Start),
                }
            }
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).or_else(|_| fs::symlink_metadata(path)).ok()?;
    // The size of a directory says nothing that its time does not.
    Some((metadata.modified().ok()?, if metadata.is_dir() { 0 } else { metadata.len() }))
}

/// The BLAKE3 digest of a file; that of a file that can't be read, or is very large, is its time.
fn digest(path: &Path) -> String {
    let is_small =
        fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_COMPARED);
    match is_small.then(|| fs::read(path)) {
        Some(Ok(bytes)) => blake3::hash(&bytes).to_hex().to_string(),
        _ => format!("{:?}", stamp(path)),
    }
}

/// The git directory of a repository, and the one that has its branches.
fn git_dirs(repository: &Path) -> (PathBuf, PathBuf) {
    let inner = repository.join(".git");
    let own = match fs::read_to_string(&inner) {
        // A worktree or a submodule.
        Ok(text) => repository.join(text.trim().strip_prefix("gitdir: ").unwrap_or_default()),
        Err(_) if inner.is_dir() => inner,
        Err(_) => repository.to_owned(),
    };
    let common = match fs::read_to_string(own.join("commondir")) {
        Ok(text) => own.join(text.trim()),
        Err(_) => own.clone(),
    };
    (own, common)
}

/// The files that the commands, evaluators, agent and tape of a case name: in its directory, or by an absolute path.
fn named_files(case: &Case) -> BTreeSet<PathBuf> {
    let mut words = BTreeSet::new();
    let scripts = case.pre_execution.iter().chain(&case.prepare).chain(&case.prepare_for_agent);
    let hooks = case.post_evaluation.iter().filter_map(|hook| match hook {
        PostHook::Script(script) => Some(script),
        _ => None,
    });
    scripts.chain(hooks).flat_map(Script::texts).for_each(|text| split(text, &mut words));
    let maps = case.evaluators.iter().map(|evaluator| &evaluator.config);
    let config = &case.agent.config;
    for value in maps.chain([&config.section, &config.mcp_servers]).flat_map(|map| map.values()) {
        texts(value, &mut |text| split(text, &mut words));
    }
    let mut files: BTreeSet<PathBuf> = words
        .iter()
        .map(|word| case.dir.join(word))
        .filter(|path| path.is_file())
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    if let Some(tape) = &case.tape {
        let (TapeSource::Script(path) | TapeSource::Replay(path)) = &tape.source;
        files.insert(path.clone());
    }
    files
}

/// Collects the words of a command that may be paths. What a shell would make of them does not matter: they are used if they name a
/// file.
fn split(text: &str, words: &mut BTreeSet<String>) {
    // `"$YB_CASE_DIR"/setup.sh` is one word.
    let text = text.replace(['"', '\''], "");
    let separators = |c: char| c.is_whitespace() || "`;&|()<>=,".contains(c);
    for word in text.split(separators) {
        let prefixes = ["$YB_CASE_DIR/", "${YB_CASE_DIR}/"];
        let path = prefixes.iter().find_map(|prefix| word.strip_prefix(prefix)).unwrap_or(word);
        if !path.is_empty() {
            words.insert(path.to_owned());
        }
    }
}

/// Calls a function with each string in a JSON value.
fn texts(value: &Value, with: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => with(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, with)),
        Value::Object(map) => map.values().for_each(|item| texts(item, with)),
        _ => {}
    }
}

/// The trials that were run, by folder, with the digests of their task and grading.
#[derive(Debug, Clone, Default)]
pub struct KnownTrials(BTreeMap<String, (String, String)>);

impl KnownTrials {
    /// Adds the trials of a run; they replace those of an earlier run.
    pub fn add(&mut self, plan: &Plan) {
        self.0.extend(plan.trials.iter().map(|trial| (trial.folder.clone(), digests(trial))));
    }

    /// Returns whether a trial is new, or its task or grading was edited.
    fn is_edited(&self, trial: &PlannedTrial) -> bool {
        self.0.get(&trial.folder) != Some(&digests(trial))
    }
}

fn digests(trial: &PlannedTrial) -> (String, String) {
    (trial.task_digest.clone(), trial.grade_digest.clone())
}

impl PreparedRun {
    /// Keeps the trials that are new or were edited, and those of these cases. Returns the names of their cases.
    pub fn retain_edited(&mut self, known: &KnownTrials, cases: &BTreeSet<String>) -> BTreeSet<String> {
        let all = self.units.len();
        self.units.retain(|unit| cases.contains(&unit.trial.case) || known.is_edited(&unit.trial));
        if self.units.len() < all {
            // Some of the trials say nothing about the factors.
            self.design = None;
        }
        self.trials().map(|trial| trial.case.clone()).collect()
    }
}
