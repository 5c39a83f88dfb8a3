//! Shared test fixtures: an origin, a cache and a store in one temporary directory.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use yb_repo::diff::Diff;
use yb_repo::{
    Cache, EndTree, Git, History, ObjectStore, PathGlobs, PrunedRepo, Refresh, ResolvedCommit, Revision,
    Source, StartTree, Workspace, WorkspaceOptions,
};
use yb_testkit::git::Repo;

pub(crate) struct TestDirs {
    pub(crate) dir: TempDir,
    pub(crate) git: Git,
    pub(crate) cache: Cache,
}

impl TestDirs {
    pub(crate) fn new() -> Self {
        let dir = TempDir::with_prefix("yb-repo-").unwrap();
        let git = git(dir.path());
        let cache = Cache::new(dir.path().join("cache"), &git).unwrap();
        Self { dir, git, cache }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Creates the origin repository.
    pub(crate) fn origin(&self) -> Repo {
        Repo::init(self.path("origin"))
    }

    pub(crate) fn source(&self, repo: &Repo) -> Source {
        Source::parse(&repo.path().display().to_string(), self.dir.path()).unwrap()
    }

    pub(crate) async fn resolve(&self, repo: &Repo, revision: Revision) -> ResolvedCommit {
        self.cache.resolve(&self.source(repo), &revision, Refresh::Moving).await.unwrap()
    }

    pub(crate) async fn pruned_repo(&self, repo: &Repo) -> PrunedRepo {
        let resolved = self.resolve(repo, Revision::Default).await;
        self.cache.pruned_repo(&resolved, History::Full).await.unwrap()
    }

    pub(crate) async fn workspace(&self, repo: &Repo) -> Workspace {
        let pruned = self.pruned_repo(repo).await;
        pruned.workspace(&self.git, self.path("ws"), &WorkspaceOptions::default()).await.unwrap()
    }

    pub(crate) async fn store(&self) -> ObjectStore {
        ObjectStore::open(self.path("objects.git"), &self.git).await.unwrap()
    }
}

pub(crate) fn git(dir: &Path) -> Git {
    Git::new(dir.join("git-home")).unwrap().shim(yb_testkit::bin("yb-shim"))
}

/// A trial that is ready for the agent.
pub(crate) struct Trial {
    pub(crate) dirs: TestDirs,
    pub(crate) workspace: Workspace,
    pub(crate) store: ObjectStore,
    pub(crate) start: StartTree,
}

impl Trial {
    /// Prepares a trial with these files.
    pub(crate) async fn begin(files: &[(&str, &str)]) -> Self {
        let dirs = TestDirs::new();
        let origin = dirs.origin();
        for (path, content) in files {
            origin.write(path, content);
        }
        origin.commit("start");
        let workspace = dirs.workspace(&origin).await;
        let store = dirs.store().await;
        let start = store.capture_start("t", &workspace, &PathGlobs::none()).await.unwrap();
        assert_eq!(start.warnings, []);
        Self { dirs, workspace, store, start }
    }

    pub(crate) fn root(&self) -> &Path {
        self.workspace.path()
    }

    /// The workspace as a repository, for git commands of the agent.
    pub(crate) fn agent(&self) -> Repo {
        Repo::init(self.root())
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) async fn end(&self) -> (EndTree, Diff) {
        let end = self.store.capture_end("t", self.root(), &self.start).await.unwrap();
        let diff = self.store.diff(&self.start.commit, &end.commit).await.unwrap();
        (end, diff)
    }

    /// The content of a file in the store.
    pub(crate) fn stored(&self, commit: &str, path: &str) -> Vec<u8> {
        let git = Repo::init(self.dirs.path("reader"));
        let store = self.store.path().display().to_string();
        git.git(&["--git-dir", &store, "cat-file", "blob", &format!("{commit}:{path}")]).into_bytes()
    }
}

/// `path +added -removed` of each changed file.
pub(crate) fn summary(diff: &Diff) -> Vec<String> {
    let line = |file: &yb_repo::diff::FileChange| {
        format!("{} +{} -{}", file.display_path(), file.additions(), file.deletions())
    };
    diff.files.iter().map(line).collect()
}
