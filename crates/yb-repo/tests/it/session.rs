//! The gits of a store that stay: started once for many trials, replaced when they are gone, and left to nobody.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use yb_repo::{GitError, ObjectStore, RepoError};

use yb_testkit::git::Repo;

use crate::workspace::{Trial, summary};

/// A store whose git is this script.
async fn store_with(trial: &Trial, script: &str, limit: Duration) -> ObjectStore {
    let program = trial.place.path("git");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let git = trial.place.git.clone().program(program).deadline(limit);
    ObjectStore::open(trial.store.path(), &git).await.unwrap()
}

/// The real git, which leaves its pid and what it is to do.
fn counted(trial: &Trial) -> (PathBuf, String) {
    let log = trial.place.path("gits");
    let script = format!("echo \"$$ $*\" >> {}\nexec git \"$@\"", log.display());
    (log, script)
}

fn gits(log: &Path, command: &str) -> Vec<i32> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let of = |line: &&str| line.split(' ').any(|word| word == command);
    text.lines().filter(of).map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[tokio::test]
async fn one_git_records_and_one_compares_many_trials() {
    let trial = Trial::begin(&[("a", "1\n"), ("d/b", "gone soon\n")]).await;
    let (log, script) = counted(&trial);
    let store = store_with(&trial, &script, Duration::from_secs(60)).await;
    let patch = trial.place.path("patch");
    let mut trees = Vec::new();
    for number in 0..5 {
        // What the one before left behind is in no later tree.
        fs::remove_dir_all(trial.root().join("d")).unwrap();
        trial.write(&format!("d/{number}"), format!("{number}\n"));
        let end = store.end(&format!("t{number}"), trial.root(), &trial.start).await.unwrap();
        let (diff, _) = store.diff_and_patch(&trial.start.tree, &end.tree, &patch, &[]).await.unwrap();
        assert_eq!(summary(&diff), [format!("d/{number} +1 -0"), "d/b +0 -1".to_owned()]);
        assert_eq!(trial.stored(&end.commit, &format!("d/{number}")), format!("{number}\n").into_bytes());
        trees.push(end.tree);
    }
    trees.dedup();
    assert_eq!(trees.len(), 5);
    assert_eq!((gits(&log, "fast-import").len(), gits(&log, "diff-tree").len()), (1, 1));

    // The start was recorded by another.
    trial.store.close().await;
    store.close().await;
    let packs = fs::read_dir(store.path().join("objects/pack")).unwrap();
    let names: Vec<_> = packs.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| name.ends_with(".pack") || name.ends_with(".idx")), "{names:?}");
    for pid in [gits(&log, "fast-import"), gits(&log, "diff-tree")].concat() {
        assert!(!fs::exists(format!("/proc/{pid}")).unwrap(), "{pid} is still there");
    }
}

#[tokio::test]
async fn a_git_that_was_killed_while_it_waited_is_replaced() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let (log, script) = counted(&trial);
    let store = store_with(&trial, &script, Duration::from_secs(60)).await;
    let patch = trial.place.path("patch");
    for number in 1..=3 {
        trial.write("a", "1\n2\n".repeat(number));
        let end = store.end("t", trial.root(), &trial.start).await.unwrap();
        let (diff, _) = store.diff_and_patch(&trial.start.tree, &end.tree, &patch, &[]).await.unwrap();
        assert_eq!(diff.lines_added(), 2 * number as u64 - 1);
        assert_eq!((gits(&log, "fast-import").len(), gits(&log, "diff-tree").len()), (number, number));
        for pid in [gits(&log, "fast-import"), gits(&log, "diff-tree")].concat() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            while fs::exists(format!("/proc/{pid}")).unwrap() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

#[tokio::test]
async fn what_is_given_up_in_the_middle_is_in_no_later_tree() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let store = store_with(&trial, "exec git \"$@\"", Duration::from_secs(60)).await;
    let first = store.end("t", trial.root(), &trial.start).await.unwrap();
    for number in 0..500 {
        trial.write(&format!("many/{number}"), "x".repeat(5000));
    }
    for pause in [0, 1, 3, 9] {
        let _ = tokio::time::timeout(
            Duration::from_millis(pause),
            store.end("given-up", trial.root(), &trial.start),
        )
        .await;
    }
    fs::remove_dir_all(trial.root().join("many")).unwrap();
    let again = store.end("t", trial.root(), &trial.start).await.unwrap();
    assert_eq!(again.tree, first.tree);
}

/// Git gives a pack the name of what is in it, and refuses to write one that another git holds.
#[tokio::test]
async fn the_same_tree_can_be_recorded_by_many_at_once() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let ends = (0..8).map(|number| {
        let root = trial.place.path(&format!("ws{number}"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("b"), "the same\n").unwrap();
        let (store, start) = (trial.store.clone(), trial.start.clone());
        tokio::spawn(async move { store.end(&format!("t{number}"), &root, &start).await.unwrap().tree })
    });
    let ends: Vec<_> = ends.collect();
    let mut trees = Vec::new();
    for end in ends {
        trees.push(end.await.unwrap());
    }
    trees.dedup();
    assert_eq!(trees.len(), 1);
    let reader = Repo::init(trial.place.path("reader"));
    reader.git(&["--git-dir", &trial.store.path().display().to_string(), "fsck", "--full", "--strict"]);
}

#[tokio::test]
async fn many_at_once_do_not_mix() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let (log, script) = counted(&trial);
    let store = store_with(&trial, &script, Duration::from_secs(60)).await;
    let ends = (0..8).map(|number| {
        let (root, store, start) =
            (trial.place.path(&format!("ws{number}")), store.clone(), trial.start.clone());
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "1\n".repeat(number + 2)).unwrap();
        let patch = trial.place.path(&format!("patch{number}"));
        tokio::spawn(async move {
            let end = store.end(&format!("t{number}"), &root, &start).await.unwrap();
            store.diff_and_patch(&start.tree, &end.tree, &patch, &[]).await.unwrap().0.lines_added()
        })
    });
    let ends: Vec<_> = ends.collect();
    for (number, end) in ends.into_iter().enumerate() {
        assert_eq!(end.await.unwrap(), number as u64 + 1);
    }
    assert!(gits(&log, "fast-import").len() <= 8);
}

#[tokio::test]
async fn a_git_that_fails_or_hangs_is_named_with_its_words() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let failing = store_with(&trial, "echo 'fatal: out of luck' >&2; exit 3", Duration::from_secs(60)).await;
    let error = failing.end("t", trial.root(), &trial.start).await.unwrap_err().to_string();
    assert!(error.contains("git fast-import") && error.contains("fatal: out of luck"), "{error}");

    let hanging = store_with(&trial, "exec sleep 1000", Duration::from_millis(200)).await;
    let error = hanging.end("t", trial.root(), &trial.start).await.unwrap_err();
    assert!(matches!(error, RepoError::Git(GitError::TimedOut { .. })), "{error}");
}
