//! Workspaces as overlays or copies of a shared checkout: decides what a workspace is, and creates it.

use std::path::Path;

use super::attempt_dirs::AttemptDirs;
use super::{AttemptContext, Runner, SandboxSpec, TrialError, overlay};
use yb_agents::Isolation;
use yb_case::config::ConfigSource;
use yb_case::{Case, PostHook};
use yb_repo::{
    Git, LaidFiles, PathGlobs, RepoError, SharedCheckout, Workspace, WorkspaceOptions, overlay_tree,
};
use yb_supervise::OverlayMount;

impl Runner {
    /// Creates the workspace of an attempt: an overlay of a shared checkout where that saves time and is possible, otherwise a
    /// directory with its own files. Files of case and variant are laid over it.
    pub(super) async fn create_workspace(
        &self,
        (case, cache): (&Case, &Path),
        attempt: &AttemptContext<'_>,
        dirs: &AttemptDirs,
        sandbox: &SandboxSpec,
        options: &WorkspaceOptions,
        include: &PathGlobs,
    ) -> Result<Workspace, TrialError> {
        let git = attempt.start.git.clone().cancel_on(self.stop.token.clone());
        if self.wants_overlay(case, attempt, sandbox) {
            let open = || self.shared_checkout((case, cache), attempt, &git, options, include);
            if let Some(shared) = attempt.known.checkout.get_or_try_init(open).await? {
                return Ok(shared.workspace(&dirs.workspace, &dirs.layer).await?);
            }
        }
        let workspace = match self.copied_workspace(attempt, dirs, sandbox, &git, options).await? {
            Some(copied) => copied,
            None => attempt.start.cut.workspace(&git, &dirs.workspace, options).await?,
        };
        if !case.overlay.is_empty() {
            let (laid, target) = (case.overlay.clone(), dirs.workspace.clone());
            yb_repo::blocking(move || Ok(overlay::apply(&laid, &target))).await??;
        }
        Ok(workspace)
    }

    /// Copies a small workspace from a shared checkout, which takes less time than git. `None` if no checkout can be shared, or if an
    /// agent could change it.
    async fn copied_workspace(
        &self,
        attempt: &AttemptContext<'_>,
        dirs: &AttemptDirs,
        sandbox: &SandboxSpec,
        git: &Git,
        options: &WorkspaceOptions,
    ) -> Result<Option<Workspace>, TrialError> {
        let cut = &attempt.start.cut;
        if sandbox.isolation != Isolation::Bubblewrap || cut.is_large() {
            return Ok(None);
        }
        let nothing = LaidFiles { key: "", write: |_: &Path| Ok::<_, RepoError>(()) };
        let open = async || cut.shared_checkout(git, options, nothing).await.ok();
        match attempt.known.checkout.get_or_init(open).await {
            Some(shared) => Ok(Some(shared.copied_workspace(git, &dirs.workspace).await?)),
            None => Ok(None),
        }
    }

    /// Returns the checkout that the trials of a combination share, with the files that the case lays over it and those that
    /// `prepare` makes for the agent; `None` if this machine can't mount overlays of it.
    async fn shared_checkout(
        &self,
        (case, cache): (&Case, &Path),
        attempt: &AttemptContext<'_>,
        git: &Git,
        options: &WorkspaceOptions,
        include: &PathGlobs,
    ) -> Result<Option<SharedCheckout>, TrialError> {
        let cut = &attempt.start.cut;
        let directory = cut.path().parent().unwrap_or(cut.path());
        if OverlayMount::probe(directory, attempt.run.path(), self.shim.as_deref()).await.is_err() {
            return Ok(None);
        }
        let key = if case.overlay.is_empty() { String::new() } else { case.overlay.key().to_string() };
        let laid = case.overlay.clone();
        let write = move |directory: &Path| overlay::apply(&laid, directory);
        let checkout =
            cut.shared_checkout(git, options, LaidFiles { key: &key, write: write.clone() }).await?;
        if case.prepare_for_agent.is_empty() {
            return Ok(Some(checkout));
        }
        let unprepared =
            attempt.store.capture_fresh_start(attempt.trial, &checkout.as_workspace(), include).await?;
        let prepared =
            self.prepare_tree(case, &case.prepare_for_agent, cache, attempt, &unprepared.tree).await?;
        let key = format!("{key} prepared {}", prepared.display());
        let write = move |directory: &Path| {
            write(directory)?;
            Ok(overlay_tree(&prepared, directory)?)
        };
        cut.shared_checkout(git, options, LaidFiles { key: &key, write }).await.map(Some)
    }

    /// Whether an overlay saves time, and nothing outside of a sandbox needs the files. Without the filter of system calls, an agent
    /// could try its own mounts.
    fn wants_overlay(&self, case: &Case, attempt: &AttemptContext<'_>, sandbox: &SandboxSpec) -> bool {
        let is_confined =
            sandbox.isolation == Isolation::Bubblewrap && sandbox.isolation.syscall_filter() == Some(true);
        let has_scripts_after = case.post_evaluation.iter().any(|hook| matches!(hook, PostHook::Script(_)));
        let keeps_directory = self.settings.keep_workspace()
            && self
                .settings
                .source_of("keep_workspace")
                .is_some_and(|source| *source != ConfigSource::Default);
        is_confined
            && case.pre_execution.is_empty()
            && !has_scripts_after
            && !keeps_directory
            && attempt.start.cut.is_large()
    }
}
