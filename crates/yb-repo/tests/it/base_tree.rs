//! Captures that read only changed files give the same trees and warnings as those that read all files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use yb_repo::{FileStamps, ObjectStore, PathGlobs, StartTree, Workspace};
use yb_testkit::git::Repo;

use crate::workspace::TestDirs;

/// As many files as make a tree large.
const FILES: usize = 1000;

/// An origin with many files, some of them odd.
pub(crate) fn large_origin(dirs: &TestDirs) -> Repo {
    let origin = dirs.origin();
    for number in 0..FILES {
        origin.write(format!("d{}/s{}/f{number}", number % 20, number % 3), format!("file {number}\n"));
    }
    origin.write("empty", "").write("run.sh", "#!/bin/sh\n").write(".gitignore", "*.log\nbuild/\n");
    fs::set_permissions(origin.path().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(origin.path().join(OsStr::from_bytes(b"d0/\xff\"\\ \n")), "not UTF-8\n").unwrap();
    symlink("d0", origin.path().join("link")).unwrap();
    origin.git(&["add", "--all", "--force", "."]);
    origin.commit("start");
    origin
}

struct Large {
    dirs: TestDirs,
    workspace: Workspace,
    store: ObjectStore,
    start: StartTree,
}

impl Large {
    async fn begin() -> Self {
        let dirs = TestDirs::new();
        let workspace = dirs.workspace(&large_origin(&dirs)).await;
        let store = dirs.store().await;
        let start = store.capture_fresh_start("t", &workspace, &PathGlobs::none()).await.unwrap();
        Self { dirs, workspace, store, start }
    }

    fn root(&self) -> &Path {
        self.workspace.path()
    }

    async fn stamps(&self) -> FileStamps {
        self.store.stamp_files(self.root(), &self.start).await.unwrap()
    }

    /// Captures both ways, and returns the tree.
    async fn end(&self, stamps: &FileStamps, what: &str) -> String {
        let (store, start) = (&self.store, &self.start);
        let fast = store.capture_end_since("t", self.root(), start, Some(stamps)).await.unwrap();
        let full = store.capture_end("t", self.root(), start).await.unwrap();
        assert_eq!((&fast.tree, &fast.warnings), (&full.tree, &full.warnings), "{what}");
        assert_eq!(fast.exceeded, full.exceeded, "{what}");
        fast.tree
    }
}

#[tokio::test]
async fn fresh_start_is_the_same_without_reading_files() {
    for attributes in [None, Some("*.sh text eol=crlf\n")] {
        let dirs = TestDirs::new();
        let origin = large_origin(&dirs);
        if let Some(attributes) = attributes {
            origin.write(".gitattributes", attributes).commit("attributes");
        }
        let workspace = dirs.workspace(&origin).await;
        let store = dirs.store().await;
        let none = PathGlobs::none();
        let fast = store.capture_fresh_start("t", &workspace, &none).await.unwrap();
        let full = store.capture_start("t", &workspace, &none).await.unwrap();
        assert_eq!((&fast.tree, &fast.warnings), (&full.tree, &full.warnings));
        // Git's own tree of the commit, unless attributes change files.
        let tree = origin.git(&["rev-parse", "HEAD^{tree}"]);
        assert_eq!(fast.tree == tree.trim(), attributes.is_none());
        assert_eq!(store.verify(&[&fast.tree]).await.unwrap(), Vec::<String>::new());

        // Files that are written before the start tree is recorded, with the same size.
        fs::write(workspace.path().join("d1/s1/f1"), "FILE 1\n").unwrap();
        fs::remove_file(workspace.path().join("d2/s2/f2")).unwrap();
        fs::write(workspace.path().join("new"), "new\n").unwrap();
        let fast = store.capture_fresh_start("t", &workspace, &none).await.unwrap();
        let full = store.capture_start("t", &workspace, &none).await.unwrap();
        assert_eq!(fast.tree, full.tree);
        let files = store.list(&fast.tree).await.unwrap();
        let changed = files.iter().find(|file| file.path == b"d1/s1/f1").unwrap();
        assert_eq!(store.contents(&[changed]).await.unwrap(), [b"FILE 1\n"]);
    }
}

#[tokio::test]
async fn forged_times_do_not_hide_a_change() {
    let large = Large::begin().await;
    let stamps = large.stamps().await;
    assert_eq!(large.end(&stamps, "untouched").await, large.start.tree);

    let file = large.root().join("d1/s1/f1");
    let before = fs::metadata(&file).unwrap();
    let times = fs::FileTimes::new()
        .set_modified(before.modified().unwrap())
        .set_accessed(before.accessed().unwrap());
    fs::write(&file, "FILE 1\n").unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_times(times).unwrap();
    let after = fs::metadata(&file).unwrap();
    assert_eq!((after.len(), after.modified().unwrap()), (before.len(), before.modified().unwrap()));
    let tree = large.end(&stamps, "modification time set back").await;
    let diff = large.store.diff(&large.start.tree, &tree).await.unwrap();
    assert_eq!(diff.files.len(), 1, "{diff:?}");

    // Another file of the same size and time in its place.
    fs::write(large.dirs.path("other"), "File 1\n").unwrap();
    fs::File::options().write(true).open(large.dirs.path("other")).unwrap().set_times(times).unwrap();
    fs::rename(large.dirs.path("other"), &file).unwrap();
    assert_ne!(large.end(&stamps, "replaced").await, tree);
}

/// A reproducible sequence of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

fn entries(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name() != ".git" {
                if entry.file_type().unwrap().is_dir() {
                    dirs.push(entry.path());
                }
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn remove(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        let _ = fs::remove_dir_all(path);
    } else {
        let _ = fs::remove_file(path);
    }
}

/// Makes one random change, as an agent might; returns what it was.
fn edit(root: &Path, numbers: &mut Numbers) -> String {
    let all = entries(root);
    let one = all[numbers.below(all.len())].clone();
    let other = all[numbers.below(all.len())].clone();
    let fresh = one.with_file_name(format!("new{}", numbers.below(50)));
    let kind = numbers.below(16);
    let content = format!("file {}\n", numbers.below(FILES));
    match kind {
        0 => drop(fs::write(&one, content)),
        1 => remove(&one),
        // Deleted and created again.
        2 => {
            let old = fs::read(&one);
            remove(&one);
            drop(old.map(|old| fs::write(&one, old)));
        }
        // A file becomes a directory, or a directory a file.
        3 => {
            let was_dir = one.is_dir();
            remove(&one);
            if was_dir {
                drop(fs::write(&one, content));
            } else {
                drop(fs::create_dir(&one));
                drop(fs::write(one.join("below"), content));
            }
        }
        4 => drop(fs::set_permissions(&one, fs::Permissions::from_mode(0o755))),
        5 if one.is_file() => drop(fs::set_permissions(&one, fs::Permissions::from_mode(0o644))),
        6 => drop(fs::hard_link(&one, &fresh)),
        7 => {
            remove(&one);
            drop(symlink(other, &one));
        }
        8 => drop(fs::rename(&one, &fresh)),
        // Two files or directories are exchanged.
        9 if !one.starts_with(&other) && !other.starts_with(&one) => {
            let aside = root.join("aside");
            drop(fs::rename(&one, &aside));
            drop(fs::rename(&other, &one));
            drop(fs::rename(&aside, &other));
        }
        10 => {
            drop(fs::create_dir_all(fresh.join("x/y")));
            drop(fs::write(fresh.join("x/y/z"), content));
        }
        11 => drop(fs::write(one.with_file_name("ignored.log"), content)),
        12 => drop(fs::write(one.with_file_name(OsStr::from_bytes(b"\xfe\t")), content)),
        13 if one.is_file() => drop(fs::set_permissions(&one, fs::Permissions::from_mode(0o000))),
        14 => {
            drop(fs::create_dir_all(fresh.join(".git")));
            drop(fs::write(fresh.join(".git/config"), content));
        }
        15 if one.is_file() => {
            // Grows beyond a page, with a hole.
            drop(fs::File::options().write(true).open(&one).and_then(|file| file.set_len(100_000)));
        }
        _ => remove(&root.join(".git")),
    }
    format!("{kind} {}", one.display())
}

#[tokio::test]
async fn random_edits_give_the_same_tree_as_a_full_walk() {
    let large = Large::begin().await;
    let stamps = large.stamps().await;
    for seed in 0..6 {
        let mut numbers = Numbers(seed);
        let mut edits = vec![format!("seed {seed}")];
        for _ in 0..8 {
            for _ in 0..5 {
                edits.push(edit(large.root(), &mut numbers));
            }
            large.end(&stamps, &edits.join("\n")).await;
        }
    }
    fs::remove_dir_all(large.root()).unwrap();
    large.end(&stamps, "removed").await;
}

#[tokio::test]
async fn small_trees_are_read_completely() {
    let trial = crate::workspace::Trial::begin(&[("a", "1\n")]).await;
    assert!(trial.store.stamp_files(trial.root(), &trial.start).await.is_none());
}
