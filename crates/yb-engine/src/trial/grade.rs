//! Grading a captured attempt: builds the subject for the evaluators.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::OnceCell;
use yb_supervise::CancellationToken;

use super::attempt_dirs::AttemptDirs;
use super::{AttemptContext, Runner, TrialError};
use yb_case::{Case, ConfiguredEvaluator, Expected, PostHook, Script, with_environment};
use yb_evaluate::{EvaluatorResult, GradeError, GradeOptions, GraderEnv, PATCH_FILE, Subject};
use yb_model::log::YouBenchaLog;
use yb_model::outcome::Outcome;
use yb_repo::{Cache, ObjectStore, Refresh, RepoError, ResolvedCommit, Revision, Source};

impl Runner {
    /// Grades an attempt. The returned outcome applies unless the execution of the agent has already decided it.
    pub(super) async fn grade(
        &self,
        case: &Case,
        cache: &Path,
        attempt: &AttemptContext<'_>,
        trees: (&str, &str),
        log: &Arc<YouBenchaLog>,
        dirs: &AttemptDirs,
    ) -> Result<(Vec<EvaluatorResult>, Outcome), TrialError> {
        let (secrets, patch) = (self.secrets(case)?, dirs.artifacts.join(PATCH_FILE));
        let (store, (start, end)) = (attempt.store, trees);
        let (diff, _) = store.diff_and_patch(start, end, &patch, &secrets).await?;
        if log.outcome == Some(Outcome::Cancelled) {
            // The trial is still to do: a verdict on half of it would waste time and judge calls.
            return Ok((Vec::new(), Outcome::Cancelled));
        }
        let cancel = self.stop.interrupt().clone();
        let subject = Arc::new(Subject {
            store: store.clone(),
            start: start.to_owned(),
            end: end.to_owned(),
            expected: expected_tree(case, store, start, attempt.start.expected.as_ref()).await,
            overlay: case.overlay.clone(),
            diff: Arc::new(diff),
            log: Arc::clone(log),
            frames: log.output.frames.as_ref().map(|file| dirs.artifacts.join(file)),
            secrets: secrets.into(),
            prepare: case.prepare.clone().into(),
            may_change: case.may_change.clone().map(Into::into),
            artifacts: dirs.artifacts.clone(),
            scratch: dirs.scratch.clone(),
            grader_env: GraderEnv {
                root: attempt.start.root.as_ref().map(|root| root.for_grading(Some(dirs))),
                ..self.grader_env(case, cache, self.hidden(case, attempt), cancel)?
            },
            files: OnceCell::new(),
            trace: self.trace.clone(),
        });
        let results = yb_evaluate::grade(&case.evaluators, &subject, self.grade_options()).await?;
        let outcome = match yb_evaluate::outcome(&results) {
            // Interrupted grading has no verdict: the trial stays pending.
            Outcome::GraderError if self.stop.interrupt().is_cancelled() => Outcome::Cancelled,
            outcome => outcome,
        };
        Ok((results, outcome))
    }

    /// Checks that the environment variables of the evaluators are set.
    pub(super) fn check_variables(&self, case: &Case) -> Result<(), TrialError> {
        let given = |name: &str| self.env.get(name).cloned();
        let unset = |name: String| TrialError::NoVariable { name };
        for variable in case.evaluators.iter().flat_map(ConfiguredEvaluator::variables) {
            match &variable.value {
                Some(value) => drop(with_environment(value, given).map_err(unset)?),
                None => drop(given(&variable.name).ok_or_else(|| unset(variable.name.clone()))?),
            }
        }
        for text in case.prepare.iter().flat_map(yb_case::Script::texts) {
            with_environment(text, given).map_err(unset)?;
        }
        Ok(())
    }

    /// Checks that the programs of hooks are installed, as far as their command lines tell.
    pub(super) fn check_programs(&self, case: &Case) -> Result<(), TrialError> {
        let before = case.pre_execution.iter().map(|script| ("pre_execution", script));
        let prepare = case.prepare.iter().map(|script| ("prepare", script));
        let after = case.post_evaluation.iter().filter_map(|hook| match hook {
            PostHook::Script(script) => Some(("post_evaluation", script)),
            _ => None,
        });
        // Programs of another root are looked for when they are started.
        if case.environment.is_some() {
            return Ok(());
        }
        let path = self.env.get("PATH").map_or("", String::as_str);
        for (user, script) in before.chain(prepare).chain(after) {
            if let Some(program) = yb_case::required_program(&script.command)
                && script.env.iter().all(|(name, _)| name != "PATH")
                && yb_supervise::find_program(program, path).is_none()
            {
                let user = format!("`{user}`");
                return Err(TrialError::NoProgram { program: program.to_owned(), user });
            }
        }
        Ok(())
    }

    /// Prepares the start tree for grading, unless that was already done.
    pub(super) async fn prepare_grading(
        &self,
        case: &Case,
        cache: &Path,
        attempt: &AttemptContext<'_>,
        start: &str,
    ) -> Result<(), TrialError> {
        if case.prepare.is_empty() || !yb_evaluate::needs_tree(&case.evaluators) {
            return Ok(());
        }
        self.prepare_tree(case, &case.prepare, cache, attempt, start).await.map(drop)
    }

    /// Runs commands of `prepare` on a tree, or finds the result in the cache, and returns its directory.
    pub(super) async fn prepare_tree(
        &self,
        case: &Case,
        commands: &[Script],
        cache: &Path,
        attempt: &AttemptContext<'_>,
        start: &str,
    ) -> Result<PathBuf, TrialError> {
        let mut grader_env =
            self.grader_env(case, cache, self.hidden(case, attempt), self.stop.token().clone())?;
        grader_env.root = attempt.start.root.as_ref().map(|root| root.for_grading(None));
        let preparation = yb_evaluate::Preparation {
            store: attempt.store,
            start,
            commands,
            secrets: &self.secrets(case)?,
            grader_env: &grader_env,
        };
        Ok(yb_evaluate::prepare(&preparation).await?.unwrap_or_default())
    }

    /// Returns the environment in which evaluators run code that the agent may have written.
    pub(crate) fn grader_env(
        &self,
        case: &Case,
        cache: &Path,
        hidden: Vec<PathBuf>,
        cancel: CancellationToken,
    ) -> Result<GraderEnv, TrialError> {
        let level = self.level(case)?;
        Ok(GraderEnv {
            isolation: level.used,
            root: None,
            other_root: case.environment.is_some(),
            limits: level.limits,
            hidden,
            env: Arc::new(self.env.clone()),
            adapters: self.extensions.adapters.clone(),
            shim: self.shim.clone(),
            cache: cache.to_owned(),
            cancel,
            pause: self.pause.clone(),
            start_recorder: self.start_recorder.clone(),
        })
    }

    /// Checks whether a case can be graded on this machine, independently of its agent.
    pub(crate) async fn check_grading(&self, case: &Case) -> Result<(), TrialError> {
        super::refuse_unsupported(case)?;
        self.check_variables(case)?;
        self.check_evaluators(case)?;
        self.check_evaluator_availability(case).await
    }

    /// Returns the secrets that must not appear in any artifact, as far as they are known without running the agent.
    pub(crate) fn known_secrets(&self, case: &Case) -> Vec<(String, Vec<u8>)> {
        self.secrets(case).unwrap_or_default()
    }

    /// Checks whether the evaluators of a case can run, without starting a process.
    pub(crate) fn check_evaluators(&self, case: &Case) -> Result<(), TrialError> {
        let env = self.grader_env(case, Path::new(""), Vec::new(), CancellationToken::new())?;
        Ok(yb_evaluate::check(&case.evaluators, &env)?)
    }

    /// Checks whether the programs that the evaluators of a case need are installed and authenticated.
    pub(crate) async fn check_evaluator_availability(&self, case: &Case) -> Result<(), TrialError> {
        let env = self.grader_env(case, Path::new(""), Vec::new(), CancellationToken::new())?;
        Ok(yb_evaluate::check_availability(&case.evaluators, &env).await?)
    }

    /// Returns the concurrency and the timeout of evaluators.
    pub(crate) fn grade_options(&self) -> GradeOptions {
        GradeOptions {
            concurrent: self.settings.max_concurrent_evaluators(),
            timeout: self.settings.timeouts().evaluators,
        }
    }
}

/// Resolves the expected commit of a case, if it has one, so that a missing branch is reported before the trial starts.
pub(super) async fn resolve_expected(
    case: &Case,
    cache: &Cache,
    source: &Source,
) -> Result<Option<ResolvedCommit>, RepoError> {
    let revision = match &case.expected {
        Some(Expected::Branch(name)) => Revision::Branch(name.clone()),
        Some(Expected::Commit(id)) => Revision::Commit(id.clone()),
        Some(Expected::Directory(_) | Expected::Patch(_)) | None => return Ok(None),
    };
    // The start was just resolved, so the mirror is up to date.
    cache.resolve(source, &revision, Refresh::Missing).await.map(Some)
}

/// Returns the expected tree. The tree recorded by the run takes precedence over the current state of a branch.
pub(crate) async fn expected_tree(
    case: &Case,
    store: &ObjectStore,
    start: &str,
    resolved: Option<&ResolvedCommit>,
) -> Option<Result<String, String>> {
    let expected = case.expected.as_ref()?;
    let key = format!("{} {}", case.start, expected.key());
    if let Some(tree) = store.expected_tree(&key) {
        return Some(Ok(tree));
    }
    let tree = match (expected, resolved) {
        (Expected::Branch(_) | Expected::Commit(_), Some(resolved)) => {
            store.store_expected_commit(&key, resolved).await
        }
        (Expected::Branch(name) | Expected::Commit(name), None) => {
            return Some(Err(format!("the run has no recorded expected result: `{name}`")));
        }
        (Expected::Directory(files), _) => store.store_expected_directory(&key, &files.path).await,
        (Expected::Patch(files), _) => store.apply_patch(start, &files.path).await,
    };
    Some(tree.map_err(|error| error.to_string()))
}

impl From<GradeError> for TrialError {
    fn from(error: GradeError) -> Self {
        match error {
            GradeError::Repo(error) => error.into(),
            GradeError::Io { path, source } => Self::Io { path, source },
            GradeError::Other(reason) => Self::Grading { reason },
        }
    }
}
