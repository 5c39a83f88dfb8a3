//! Mirrors of ordinary local repositories are made without `git fetch`, and are the same as fetched ones.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use yb_repo::{Cache, Git, History, Refresh, Revision};
use yb_testkit::git::Repo;

use crate::workspace::{TestDirs, git};

/// Makes an origin whose mirrors are fetched.
const NOT_ORDINARY: &str = "[include]\n\tpath = nothing\n";

/// A git that writes down its commands.
fn logging_git(dirs: &TestDirs) -> Git {
    let path = dirs.path("logging-git");
    let log = dirs.path("log");
    fs::write(&path, format!("#!/bin/sh\necho \"$*\" >> {}\nexec git \"$@\"\n", log.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    git(dirs.dir.path()).program(&path)
}

fn commands(dirs: &TestDirs) -> Vec<String> {
    let log = fs::read_to_string(dirs.path("log")).unwrap_or_default();
    let _ = fs::remove_file(dirs.path("log"));
    let subcommand = |line: &str| {
        let mut words = line.split(' ');
        let mut word = words.next();
        while word == Some("-c") {
            word = words.nth(1);
        }
        word.unwrap_or_default().to_owned()
    };
    log.lines().map(subcommand).collect()
}

fn only_mirror(cache: &Path) -> PathBuf {
    let mirrors = fs::read_dir(cache.join("mirrors")).unwrap().map(|entry| entry.unwrap().path());
    mirrors.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "git")).unwrap()
}

/// An origin with branches, tags of both kinds, merged and odd files, and packed and loose objects and refs.
fn odd_origin(dirs: &TestDirs) -> Repo {
    let origin = dirs.origin();
    origin.write("a", "1\n").write("dir/ü b", "x").write("empty", "").commit("first");
    std::os::unix::fs::symlink("a", origin.path().join("link")).unwrap();
    origin.git(&["tag", "light"]);
    origin.git(&["tag", "-a", "-m", "annotated", "v1"]);
    origin.git(&["checkout", "--quiet", "-b", "side/line"]);
    origin.write("b", "2\n").commit("on the side");
    origin.git(&["gc", "--quiet"]);
    origin.git(&["checkout", "--quiet", "main"]);
    origin.write("a", "3\n").commit("second");
    origin.git(&["merge", "--quiet", "-m", "merge", "side/line"]);
    origin.git(&["tag", "-a", "-m", "of a tag", "v2", "v1"]);
    origin
}

#[tokio::test]
async fn copied_mirror_equals_a_fetched_one() {
    let dirs = TestDirs::new();
    let origin = odd_origin(&dirs);
    let mut found = Vec::new();
    for name in ["copied", "fetched"] {
        let cache = Cache::new(dirs.path(name), &logging_git(&dirs)).unwrap();
        let resolved =
            cache.resolve(&dirs.source(&origin), &Revision::Default, Refresh::Moving).await.unwrap();
        assert_eq!(commands(&dirs).contains(&"fetch".to_owned()), name == "fetched");
        let mirror = only_mirror(&dirs.path(name));
        let git = |args: &[&str]| {
            let dir = format!("--git-dir={}", mirror.display());
            origin.git(&[&[dir.as_str()], args].concat())
        };
        git(&["fsck", "--full", "--strict"]);
        found.push((resolved.commit, git(&["for-each-ref"]), git(&["rev-list", "--objects", "--all"])));
        let config = origin.path().join(".git/config");
        fs::write(&config, fs::read_to_string(&config).unwrap() + NOT_ORDINARY).unwrap();
    }
    assert_eq!(found[0], found[1]);
    assert!(found[0].1.contains("refs/tags/v2") && found[0].1.contains("refs/youbencha/HEAD"));
}

#[tokio::test]
async fn unchanged_repository_is_resolved_without_git() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let first = origin.write("a", "1\n").commit("first");
    let cache = Cache::new(dirs.path("cache"), &logging_git(&dirs)).unwrap();
    let source = dirs.source(&origin);
    let resolve = async || cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap();
    assert_eq!(resolve().await.commit, first);
    assert_eq!(commands(&dirs), ["pack-objects", "index-pack"]);
    let resolved = resolve().await;
    assert_eq!((resolved.commit.as_str(), commands(&dirs)), (first.as_str(), vec![]));
    // The pack of the mirror has this commit alone.
    cache.pruned_repo(&resolved, History::Full).await.unwrap();
    assert_eq!(commands(&dirs), ["ls-tree"]);
    let second = origin.write("a", "2\n").commit("second");
    assert_eq!(resolve().await.commit, second);
    assert_eq!(commands(&dirs), ["fetch"]);
    assert_eq!(resolve().await.commit, second);
}

#[tokio::test]
async fn later_commits_are_not_in_the_copy_of_a_pack() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let first = origin.write("a", "1\n").commit("first");
    dirs.resolve(&origin, Revision::Default).await;
    let second = origin.write("a", "2\n").commit("second");
    dirs.resolve(&origin, Revision::Default).await;
    let resolved = dirs.resolve(&origin, Revision::Commit(first.clone())).await;
    let pruned = dirs.cache.pruned_repo(&resolved, History::Full).await.unwrap();
    let dir = format!("--git-dir={}", pruned.path().display());
    let objects = origin.git(&[&dir, "cat-file", "--batch-all-objects", "--batch-check"]);
    assert!(objects.contains(&first) && !objects.contains(&second), "{objects}");
}

/// Git does not compare the content of an object with its id when it copies a pack.
#[tokio::test]
async fn object_with_the_content_of_another_is_rejected() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "one\n").write("b", "two\n").commit("first");
    let object = |file: &str| {
        let id = origin.rev_parse(&format!("HEAD:{file}"));
        origin.path().join(".git/objects").join(&id[..2]).join(&id[2..])
    };
    let (one, two) = (object("a"), object("b"));
    fs::set_permissions(&one, fs::Permissions::from_mode(0o644)).unwrap();
    fs::copy(two, one).unwrap();
    let resolved = dirs.cache.resolve(&dirs.source(&origin), &Revision::Default, Refresh::Moving).await;
    assert!(resolved.is_err(), "{resolved:?}");
}
