//! Long-running git processes of a store: started once for many trials, replaced when killed, and ended with the store.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use yb_repo::{GitError, ObjectStore, RepoError};

use yb_testkit::git::Repo;

use crate::workspace::{Trial, summary};

/// Opens a store whose git is a script.
async fn store_with(trial: &Trial, script: &str, limit: Duration) -> ObjectStore {
    let program = trial.dirs.path("git");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let git = trial.dirs.git.clone().program(program).deadline(limit);
    ObjectStore::open(trial.store.path(), &git).await.unwrap()
}

/// A script that logs its pid and arguments, and executes the real git.
fn logging_script(trial: &Trial) -> (PathBuf, String) {
    let log = trial.dirs.path("gits");
    let script = format!("echo \"$$ $*\" >> {}\nexec git \"$@\"", log.display());
    (log, script)
}

fn pids_of(log: &Path, command: &str) -> Vec<i32> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let of = |line: &&str| line.split(' ').any(|word| word == command);
    text.lines().filter(of).map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[tokio::test]
async fn one_importer_and_one_differ_serve_many_trials() {
    let trial = Trial::begin(&[("a", "1\n"), ("d/b", "gone soon\n")]).await;
    let (log, script) = logging_script(&trial);
    let store = store_with(&trial, &script, Duration::from_secs(60)).await;
    let patch = trial.dirs.path("patch");
    let mut trees = Vec::new();
    for number in 0..5 {
        // Files of an earlier trial must not appear in a later tree.
        fs::remove_dir_all(trial.root().join("d")).unwrap();
        trial.write(&format!("d/{number}"), format!("{number}\n"));
        let end = store.capture_end(&format!("t{number}"), trial.root(), &trial.start).await.unwrap();
        let (diff, _) = store.diff_and_patch(&trial.start.tree, &end.tree, &patch, &[]).await.unwrap();
        assert_eq!(summary(&diff), [format!("d/{number} +1 -0"), "d/b +0 -1".to_owned()]);
        assert_eq!(trial.stored(&end.commit, &format!("d/{number}")), format!("{number}\n").into_bytes());
        trees.push(end.tree);
    }
    trees.dedup();
    assert_eq!(trees.len(), 5);
    assert_eq!((pids_of(&log, "fast-import").len(), pids_of(&log, "diff-tree").len()), (1, 1));

    // The start tree was captured by another store.
    trial.store.close().await;
    store.close().await;
    let packs = fs::read_dir(store.path().join("objects/pack")).unwrap();
    let names: Vec<_> = packs.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| name.ends_with(".pack") || name.ends_with(".idx")), "{names:?}");
    for pid in [pids_of(&log, "fast-import"), pids_of(&log, "diff-tree")].concat() {
        assert!(!fs::exists(format!("/proc/{pid}")).unwrap(), "{pid} is still there");
    }
}

#[tokio::test]
async fn killed_idle_sessions_are_replaced() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let (log, script) = logging_script(&trial);
    let store = store_with(&trial, &script, Duration::from_secs(60)).await;
    let patch = trial.dirs.path("patch");
    for number in 1..=3 {
        trial.write("a", "1\n2\n".repeat(number));
        let end = store.capture_end("t", trial.root(), &trial.start).await.unwrap();
        let (diff, _) = store.diff_and_patch(&trial.start.tree, &end.tree, &patch, &[]).await.unwrap();
        assert_eq!(diff.lines_added(), 2 * number as u64 - 1);
        assert_eq!((pids_of(&log, "fast-import").len(), pids_of(&log, "diff-tree").len()), (number, number));
        for pid in [pids_of(&log, "fast-import"), pids_of(&log, "diff-tree")].concat() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            while fs::exists(format!("/proc/{pid}")).unwrap() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

#[tokio::test]
async fn cancelled_capture_does_not_affect_later_trees() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let store = store_with(&trial, "exec git \"$@\"", Duration::from_secs(60)).await;
    let first = store.capture_end("t", trial.root(), &trial.start).await.unwrap();
    for number in 0..500 {
        trial.write(&format!("many/{number}"), "x".repeat(5000));
    }
    for pause in [0, 1, 3, 9] {
        let _ = tokio::time::timeout(
            Duration::from_millis(pause),
            store.capture_end("given-up", trial.root(), &trial.start),
        )
        .await;
    }
    fs::remove_dir_all(trial.root().join("many")).unwrap();
    let again = store.capture_end("t", trial.root(), &trial.start).await.unwrap();
    assert_eq!(again.tree, first.tree);
}

/// Git names a pack after its content, and fails to write one that another git process has open.
#[tokio::test]
async fn identical_trees_are_captured_concurrently() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let ends = (0..8).map(|number| {
        let root = trial.dirs.path(&format!("ws{number}"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("b"), "the same\n").unwrap();
        let (store, start) = (trial.store.clone(), trial.start.clone());
        tokio::spawn(
            async move { store.capture_end(&format!("t{number}"), &root, &start).await.unwrap().tree },
        )
    });
    let ends: Vec<_> = ends.collect();
    let mut trees = Vec::new();
    for end in ends {
        trees.push(end.await.unwrap());
    }
    trees.dedup();
    assert_eq!(trees.len(), 1);
    let reader = Repo::init(trial.dirs.path("reader"));
    reader.git(&["--git-dir", &trial.store.path().display().to_string(), "fsck", "--full", "--strict"]);
}

#[tokio::test]
async fn concurrent_captures_do_not_mix() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let (log, script) = logging_script(&trial);
    let store = store_with(&trial, &script, Duration::from_secs(60)).await;
    let ends = (0..8).map(|number| {
        let (root, store, start) =
            (trial.dirs.path(&format!("ws{number}")), store.clone(), trial.start.clone());
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "1\n".repeat(number + 2)).unwrap();
        let patch = trial.dirs.path(&format!("patch{number}"));
        tokio::spawn(async move {
            let end = store.capture_end(&format!("t{number}"), &root, &start).await.unwrap();
            store.diff_and_patch(&start.tree, &end.tree, &patch, &[]).await.unwrap().0.lines_added()
        })
    });
    let ends: Vec<_> = ends.collect();
    for (number, end) in ends.into_iter().enumerate() {
        assert_eq!(end.await.unwrap(), number as u64 + 1);
    }
    assert!(pids_of(&log, "fast-import").len() <= 8);
}

#[tokio::test]
async fn failing_or_hanging_git_is_reported() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let failing = store_with(&trial, "echo 'fatal: out of luck' >&2; exit 3", Duration::from_secs(60)).await;
    let error = failing.capture_end("t", trial.root(), &trial.start).await.unwrap_err().to_string();
    assert!(error.contains("git fast-import") && error.contains("fatal: out of luck"), "{error}");

    let hanging = store_with(&trial, "exec sleep 1000", Duration::from_millis(200)).await;
    let error = hanging.capture_end("t", trial.root(), &trial.start).await.unwrap_err();
    assert!(matches!(error, RepoError::Git(GitError::TimedOut { .. })), "{error}");
}
