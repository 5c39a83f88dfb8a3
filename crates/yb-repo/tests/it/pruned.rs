//! Pruned repositories and workspaces: history without later commits, and nothing of the cache.

use std::fs;

use yb_repo::{History, Identity, RepoError, Revision, UnsupportedFeature, WorkspaceOptions};
use yb_testkit::git::Repo;

use crate::workspace::TestDirs;

/// All object ids in a repository, loose and packed.
fn objects(repo: &Repo, git_dir: &std::path::Path) -> Vec<String> {
    let git_dir = git_dir.display().to_string();
    let all = ["--git-dir", &git_dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
    repo.git(&all).lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn later_commits_are_absent_from_the_workspace() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let past = origin.write("a", "past\n").commit("past");
    let now = origin.write("a", "now\n").commit("now");
    let fix = origin.write("a", "the fix\n").commit("fix");
    origin.git(&["tag", "-a", "-m", "release", "v2"]);
    let (fix_blob, fix_tree) = (origin.rev_parse("HEAD:a"), origin.rev_parse("HEAD^{tree}"));
    let tag = origin.rev_parse("v2");

    let resolved = dirs.resolve(&origin, Revision::Commit(now.clone())).await;
    let pruned = dirs.cache.pruned_repo(&resolved, History::Full).await.unwrap();
    let options = WorkspaceOptions { branch: "work/it".into(), ..WorkspaceOptions::default() };
    let workspace = pruned.workspace(&dirs.git, dirs.path("ws"), &options).await.unwrap();
    for git_dir in [pruned.path().to_owned(), workspace.path().join(".git")] {
        let found = objects(&origin, &git_dir);
        assert!(found.contains(&past) && found.contains(&now));
        for absent in [&fix, &fix_blob, &fix_tree, &tag] {
            assert!(!found.contains(absent), "{}", git_dir.display());
        }
        assert_eq!(found.len(), 6, "two commits with a tree and a blob each");
        assert!(!git_dir.join("objects/info/alternates").exists());
    }
    let agent = Repo::init(workspace.path());
    agent.git(&["fsck", "--full", "--strict"]);
    assert_eq!(agent.log(), ["now", "past"]);
    assert_eq!(agent.status(), "");
    assert_eq!(agent.git(&["symbolic-ref", "HEAD"]), "refs/heads/work/it\n");
    assert_eq!(agent.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/work/it\n");
    assert_eq!(agent.git(&["remote"]), "");
    assert_eq!(agent.git(&["reflog", "show", "--all"]), "");
    for absent in ["FETCH_HEAD", "ORIG_HEAD", "packed-refs", "hooks", "logs", "info"] {
        assert!(!workspace.path().join(".git").join(absent).exists(), "{absent}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn workspace_objects_are_not_hard_links() {
    use std::os::unix::fs::MetadataExt;
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    let workspace = dirs.workspace(&origin).await;
    for entry in fs::read_dir(workspace.path().join(".git/objects/pack")).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().nlink(), 1);
    }
}

#[tokio::test]
async fn workspace_without_history_has_a_single_commit() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let past = origin.write("a", "past\n").commit("past");
    let now = origin.write("a", "now\n").commit("now");
    let resolved = dirs.resolve(&origin, Revision::Default).await;
    let pruned = dirs.cache.pruned_repo(&resolved, History::None).await.unwrap();
    let workspace = pruned.workspace(&dirs.git, dirs.path("ws"), &WorkspaceOptions::default()).await.unwrap();
    let found = objects(&origin, &workspace.path().join(".git"));
    assert!(found.contains(&now) && !found.contains(&past));
    assert_eq!(found.len(), 3);
    let agent = Repo::init(workspace.path());
    assert_eq!(agent.log(), ["now"]);
    agent.git(&["fsck", "--full"]);
}

#[tokio::test]
async fn pruned_repo_is_reused_without_the_origin() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    let resolved = dirs.resolve(&origin, Revision::Default).await;
    let pruned = dirs.cache.pruned_repo(&resolved, History::Full).await.unwrap();
    fs::remove_dir_all(dirs.path("cache/mirrors")).unwrap();
    let again = dirs.cache.pruned_repo(&resolved, History::Full).await.unwrap();
    assert_eq!(again.path(), pruned.path());
    // An incomplete repository is recreated.
    fs::create_dir_all(dirs.path("cache/mirrors")).unwrap();
    fs::remove_file(pruned.path().join("youbencha-tree")).unwrap();
    let resolved = dirs.resolve(&origin, Revision::Default).await;
    dirs.cache.pruned_repo(&resolved, History::Full).await.unwrap();
}

#[tokio::test]
async fn hooks_of_a_repository_never_run() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let mark = dirs.path("hook-ran");
    for hook in ["post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-update"]
    {
        let text = format!("#!/bin/sh\ntouch {}\n", mark.display());
        origin.write(format!(".git/hooks/{hook}"), &text);
        origin.write(format!("hooks/{hook}"), &text);
        for dir in [".git/hooks", "hooks"] {
            use std::os::unix::fs::PermissionsExt;
            let path = origin.path().join(dir).join(hook);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    origin.commit("first");
    let evil = format!("touch {}", mark.display());
    origin.git(&["config", "core.hooksPath", "hooks"]);
    origin.git(&["config", "core.fsmonitor", &evil]);
    origin.git(&["config", "uploadpack.packObjectsHook", &evil]);
    origin.git(&["config", "core.alternateRefsCommand", &evil]);
    let workspace = dirs.workspace(&origin).await;
    assert!(workspace.path().join("hooks/post-checkout").exists());
    assert!(!mark.exists());
}

#[tokio::test]
async fn submodules_and_lfs_are_reported_as_unsupported() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let first = origin.write("a", "1\n").commit("first");
    origin.write("sub/.gitattributes", "# filter=lfs\n*.bin filter=lfs diff=lfs\n");
    origin.write("sub/x.bin", "version https://git-lfs.github.com/spec/v1\n");
    origin.git(&["add", "--all"]);
    origin.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{first},vendor/lib")]);
    origin.git(&["commit", "--quiet", "-m", "second"]);
    let workspace = dirs.workspace(&origin).await;
    assert_eq!(
        workspace.unsupported(),
        [
            UnsupportedFeature::Lfs { attributes: "sub/.gitattributes".into() },
            UnsupportedFeature::Submodule { path: "vendor/lib".into() },
        ]
    );
    assert!(workspace.unsupported()[1].to_string().contains("not supported"));
}

#[tokio::test]
async fn workspace_needs_an_empty_directory_and_a_valid_committer() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    let pruned = dirs.pruned_repo(&origin).await;
    let identity = Some(Identity { name: "An Agent".into(), email: "agent@example.com".into() });
    let options = WorkspaceOptions { identity, ..WorkspaceOptions::default() };
    let workspace = pruned.workspace(&dirs.git, dirs.path("ws"), &options).await.unwrap();
    let agent = Repo::init(workspace.path());
    assert_eq!(agent.git(&["config", "user.name"]), "An Agent\n");
    let error = pruned.workspace(&dirs.git, dirs.path("ws"), &options).await.unwrap_err();
    assert!(matches!(error, RepoError::Io { .. }), "{error}");
    let identity = Some(Identity { name: "x\"\n[core]".into(), email: String::new() });
    let options = WorkspaceOptions { identity, ..options };
    assert!(pruned.workspace(&dirs.git, dirs.path("ws2"), &options).await.is_err());
    let options = WorkspaceOptions { branch: "../x".into(), identity: None };
    assert!(pruned.workspace(&dirs.git, dirs.path("ws2"), &options).await.is_err());
}
