//! What is graded, and what it is graded with: nothing in here needs an agent, a workspace or a run that still goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::OnceCell;
use yb_supervise::{CancellationToken, PauseSwitch};

use super::{Artifact, GradeError};
use yb_agents::trace::Trace;
use yb_agents::{Adapters, Isolation, without_secrets};
use yb_case::{Limits, Script};
use yb_model::log::YouBenchaLog;
use yb_model::safe_name;
use yb_repo::diff::Diff;
use yb_repo::{ObjectStore, RepoError, TreeFile};

/// Where evaluators leave their files, below the artifacts.
pub const FOLDER: &str = "evaluators";
/// What an evaluator said, in its folder.
pub const VERDICT_FILE: &str = "verdict.json";

/// One finished trial, as grading sees it. From `objects.git` and the log it can be made again at any time.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The trees, and everything in them.
    pub store: ObjectStore,
    /// What the agent began with.
    pub start: String,
    /// What it left.
    pub end: String,
    /// What was expected of it, if anything was, or why that is not there.
    pub expected: Option<Result<String, String>>,
    /// From start to end.
    pub diff: Arc<Diff>,
    /// What the agent did, as far as it told.
    pub log: Arc<YouBenchaLog>,
    /// What must not appear in anything that is kept.
    pub secrets: Arc<[(String, Vec<u8>)]>,
    /// What readies a tree before it is graded.
    pub prepare: Arc<[Script]>,
    /// Where evaluators leave their files.
    pub artifacts: PathBuf,
    /// Where trees are laid out while something looks at them.
    pub scratch: PathBuf,
    /// How foreign code is run.
    pub bench: Bench,
    /// The files that the agent left, once somebody has asked for them; whoever grades many trials may fill it in.
    pub files: OnceCell<Vec<TreeFile>>,
    /// The trial's node in a trace, where there is one.
    pub trace: Option<Arc<dyn Trace>>,
}

impl Subject {
    /// The files that the agent left, listed once for all evaluators.
    pub(crate) async fn files(&self) -> Result<&[TreeFile], RepoError> {
        self.files.get_or_try_init(|| self.store.list(&self.end)).await.map(Vec::as_slice)
    }
}

/// How code that an agent may have written is run, and where what many gradings share is kept.
#[derive(Debug, Clone)]
pub struct Bench {
    /// What stands between that code and the machine.
    pub isolation: Isolation,
    /// What it may use.
    pub limits: Limits,
    /// What it must not see, whatever contains it.
    pub hidden: Vec<PathBuf>,
    /// The environment that a case may take variables from; of its own accord only PATH is used.
    pub env: Arc<std::collections::BTreeMap<String, String>>,
    /// The agents that can judge.
    pub adapters: Adapters,
    /// The program that contains every child; by default the running one.
    pub shim: Option<PathBuf>,
    /// What all runs share.
    pub cache: PathBuf,
    /// Ends grading.
    pub cancel: CancellationToken,
    /// Holds everything still.
    pub pause: PauseSwitch,
}

/// What one evaluator has to itself: its own folder in the artifacts, its own scratch, its own time.
#[derive(Debug, Clone)]
pub struct Desk {
    /// Its folder's name below [`FOLDER`].
    pub(crate) name: String,
    /// Where it may make files that nobody keeps. Not made yet.
    pub(crate) scratch: PathBuf,
    /// Its time; zero is for ever.
    pub(crate) timeout: Duration,
    /// The evaluator's node in a trace, where there is one.
    pub(crate) trace: Option<Arc<dyn Trace>>,
    artifacts: PathBuf,
    secrets: Arc<[(String, Vec<u8>)]>,
}

impl Desk {
    /// The desk of the n-th evaluator, counted from 0.
    pub(crate) fn new(subject: &Subject, at: usize, evaluator: &str, timeout: Duration) -> Self {
        let name = format!("{}-{}", at + 1, safe_name(&evaluator.replace(':', "-")));
        Self {
            scratch: subject.scratch.join(&name),
            name,
            timeout,
            trace: None,
            artifacts: subject.artifacts.clone(),
            secrets: Arc::clone(&subject.secrets),
        }
    }

    /// Its folder in the artifacts.
    pub(crate) fn folder(&self) -> PathBuf {
        self.artifacts.join(FOLDER).join(&self.name)
    }

    /// Keeps a file as JSON.
    pub(crate) fn keep_json(
        &self,
        kind: &str,
        file: &str,
        description: &str,
        content: &impl Serialize,
    ) -> Result<Artifact, GradeError> {
        let path = self.folder().join(file);
        let text =
            serde_json::to_string_pretty(content).map_err(|error| GradeError::io(&path)(error.into()))?;
        self.keep(kind, file, description, &format!("{text}\n"))
    }

    /// Keeps a file, without secrets; whoever looks sees all of it or nothing.
    pub(crate) fn keep(
        &self,
        kind: &str,
        file: &str,
        description: &str,
        text: &str,
    ) -> Result<Artifact, GradeError> {
        let folder = self.folder();
        let (path, part) = (folder.join(file), folder.join(format!(".{file}.part")));
        let text = without_secrets(text, self.secrets.iter().cloned());
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&part, text))
            .and_then(|()| std::fs::rename(&part, &path))
            .map_err(GradeError::io(&path))?;
        Ok(Artifact::new(kind, format!("{FOLDER}/{}/{file}", self.name), description))
    }

    /// Removes what nobody needs any more.
    pub(crate) fn clear(&self) {
        remove_tree(&self.scratch);
    }
}

/// Removes a directory, also one whose parts were made unreadable by what ran in it.
pub fn remove_tree(path: &Path) {
    if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
        return;
    }
    #[cfg(unix)]
    open_up(path);
    let _ = std::fs::remove_dir_all(path);
}

/// Gives back the right to remove: real directories only, links are not followed.
#[cfg(unix)]
fn open_up(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
