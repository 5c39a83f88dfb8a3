//! The inputs of grading: the trial, the environment for code that the agent may have written, and the context of one
//! evaluator. None of them needs the agent, its workspace, or a running run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::OnceCell;
use yb_supervise::{CancellationToken, OverlayMount, PauseSwitch, RootMount};

use super::{Artifact, GradeError};
use yb_agents::trace::Trace;
use yb_agents::{Adapters, Isolation, StartRecorder, without_secrets};
use yb_case::{Overlay, Script, TrialLimits};
use yb_model::atomic_file::{Durability, write_atomic};
use yb_model::log::YouBenchaLog;
use yb_model::safe_name;
use yb_repo::diff::Diff;
use yb_repo::{ObjectStore, RepoError, TreeFile, remove_tree};

/// The directory with the files of evaluators, in the artifacts of a trial.
pub const FOLDER: &str = "evaluators";
/// The verdict, in the directory of an evaluator.
pub const VERDICT_FILE: &str = "verdict.json";

/// A finished trial. It can be made again from `objects.git` and the agent's log at any time.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The object store with the trees.
    pub store: ObjectStore,
    /// The id of the start tree.
    pub start: String,
    /// The id of the end tree.
    pub end: String,
    /// The id of the expected tree, or why it is missing; `None` if the case expects none.
    pub expected: Option<Result<String, String>>,
    /// The files that case and variant laid over the start tree, which the expected tree does not have.
    pub overlay: Overlay,
    /// The changes from the start tree to the end tree.
    pub diff: Arc<Diff>,
    /// The agent's log.
    pub log: Arc<YouBenchaLog>,
    /// The file of the agent's frames, which has what the log leaves out.
    pub frames: Option<PathBuf>,
    /// Secrets that must not appear in any file of the run.
    pub secrets: Arc<[(String, Vec<u8>)]>,
    /// The commands that prepare a tree for grading.
    pub prepare: Arc<[Script]>,
    /// Globs of the files that the agent may change, unless an evaluator has its own; the default ones if `None`.
    pub may_change: Option<Arc<[String]>>,
    /// The directory for artifacts.
    pub artifacts: PathBuf,
    /// The directory for temporary files, removed after grading.
    pub scratch: PathBuf,
    /// The environment for commands of evaluators.
    pub grader_env: GraderEnv,
    /// The files of the end tree, listed on first use; a caller that has the list may set it.
    pub files: OnceCell<Vec<TreeFile>>,
    /// The span of the trial, if it is traced.
    pub trace: Option<Arc<dyn Trace>>,
}

impl Subject {
    /// Returns whether a path differs from the repository only because case or variant changed it before the agent started.
    pub(crate) fn is_laid_down(&self, path: &[u8]) -> bool {
        self.overlay.covers(&String::from_utf8_lossy(path))
            && self.diff.files.iter().all(|file| file.path != path)
    }

    /// Lists the files of the end tree.
    ///
    /// # Errors
    /// When the object store fails.
    pub async fn files(&self) -> Result<&[TreeFile], RepoError> {
        self.files.get_or_try_init(|| self.store.list(&self.end)).await.map(Vec::as_slice)
    }
}

/// The environment in which evaluators run code that the agent may have written.
#[derive(Debug, Clone)]
pub struct GraderEnv {
    /// The sandbox.
    pub isolation: Isolation,
    /// The root in which the code runs, if it is not the host's.
    pub root: Option<GraderRoot>,
    /// Whether programs are those of another root, which may not be known yet.
    pub other_root: bool,
    /// The resource limits.
    pub limits: TrialLimits,
    /// Paths that are hidden from the code.
    pub hidden: Vec<PathBuf>,
    /// The environment variables that a case may pass on; only `PATH` is passed on by default.
    pub env: Arc<std::collections::BTreeMap<String, String>>,
    /// The agents that can judge.
    pub adapters: Adapters,
    /// The shim that supervises every child; the running program if `None`.
    pub shim: Option<PathBuf>,
    /// The cache that all runs share.
    pub cache: PathBuf,
    /// Cancels grading.
    pub cancel: CancellationToken,
    /// Suspends grading.
    pub pause: PauseSwitch,
    /// Persists the record of each process before its program runs.
    pub start_recorder: Option<StartRecorder>,
}

/// The root of a case, for grading.
#[derive(Debug, Clone)]
pub struct GraderRoot {
    /// The directory, which nothing changes.
    pub rootfs: PathBuf,
    /// The layer with what the agent changed, if it is there.
    pub upper: Option<PathBuf>,
    /// The variables, among them PATH.
    pub env: std::collections::BTreeMap<String, String>,
    /// The working directory.
    pub workdir: PathBuf,
    /// Whether the graded tree is the working directory of the root.
    pub has_workspace: bool,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl GraderRoot {
    /// Creates a root of its own in a directory, above what the agent changed or above the unchanged root.
    pub(crate) fn mount(&self, directory: &Path, with_changes: bool) -> std::io::Result<RootMount> {
        let [upper, work, target] = ["upper", "work", "root"].map(|name| directory.join(name));
        for directory in [&upper, &work, &target] {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::set_permissions(&upper, std::fs::metadata(&self.rootfs)?.permissions())?;
        let changes = self.upper.as_ref().filter(|_| with_changes);
        let overlay = match changes {
            Some(changes) => OverlayMount::new(changes, upper, work, target).above(vec![self.rootfs.clone()]),
            None => OverlayMount::new(&self.rootfs, upper, work, target),
        };
        Ok(RootMount::new(overlay).user(self.uid, self.gid))
    }
}

/// The context of one evaluator: its artifacts, its scratch directory and its timeout.
#[derive(Debug, Clone)]
pub struct EvaluatorContext {
    /// The name of its directory below [`FOLDER`].
    pub(crate) name: String,
    /// The directory for temporary files. It does not exist yet.
    pub(crate) scratch: PathBuf,
    /// The timeout; zero means no limit.
    pub(crate) timeout: Duration,
    /// The span of the evaluator, if it is traced.
    pub(crate) trace: Option<Arc<dyn Trace>>,
    artifacts: PathBuf,
    secrets: Arc<[(String, Vec<u8>)]>,
}

impl EvaluatorContext {
    /// Creates the context of the evaluator at an index in the case.
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

    /// Returns its directory in the artifacts.
    #[must_use]
    pub fn artifact_dir(&self) -> PathBuf {
        self.artifacts.join(FOLDER).join(&self.name)
    }

    /// Writes an artifact as JSON. See [`write_artifact`](Self::write_artifact).
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_json(
        &self,
        kind: &str,
        file: &str,
        description: &str,
        content: &impl Serialize,
    ) -> Result<Artifact, GradeError> {
        let path = self.artifact_dir().join(file);
        let text =
            serde_json::to_string_pretty(content).map_err(|error| GradeError::io(&path)(error.into()))?;
        self.write_artifact(kind, file, description, &format!("{text}\n"))
    }

    /// Writes an artifact atomically, with secrets removed.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_artifact(
        &self,
        kind: &str,
        file: &str,
        description: &str,
        text: &str,
    ) -> Result<Artifact, GradeError> {
        let folder = self.artifact_dir();
        let path = folder.join(file);
        let text = without_secrets(text, self.secrets.iter().cloned());
        std::fs::create_dir_all(&folder)
            .and_then(|()| write_atomic(&path, text.as_bytes(), Durability::Unsynced))
            .map_err(GradeError::io(&path))?;
        Ok(Artifact::new(kind, format!("{FOLDER}/{}/{file}", self.name), description))
    }

    /// Removes the scratch directory, to free its space early. The owner of the directory above reports what can't be removed.
    pub(crate) fn remove_scratch(&self) {
        let _ = remove_tree(&self.scratch);
    }
}
