//! The number of packs of a store is bounded, whatever the number of trials, and no tree is lost when packs are merged.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use yb_repo::{ObjectStore, Revision};
use yb_testkit::git::Repo;

use crate::workspace::{TestDirs, Trial};

fn packs(store: &ObjectStore) -> Vec<String> {
    let entries = fs::read_dir(store.path().join("objects/pack")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn count(names: &[String], extension: &str) -> usize {
    names.iter().filter(|name| name.ends_with(extension)).count()
}

/// Captures trees that differ, and returns them with the content of `d/b`.
async fn capture(trial: &Trial, trials: std::ops::Range<usize>) -> Vec<(String, String)> {
    let mut trees = Vec::new();
    for number in trials {
        let content = format!("{number} in a directory\n");
        trial.write("a", format!("{number} changed\n"));
        trial.write("d/b", &content);
        let end = trial.store.capture_end(&format!("t{number}"), trial.root(), &trial.start).await.unwrap();
        trees.push((end.tree, content));
    }
    trees
}

#[tokio::test]
async fn packs_stay_few_while_a_run_goes_on() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let trees = capture(&trial, 0..150).await;
    trial.store.close().await;
    let names = packs(&trial.store);
    // Those of the last importer, and those that were not enough to be merged.
    assert!(count(&names, ".idx") < 110, "{} packs", count(&names, ".idx"));
    assert_eq!((count(&names, ".keep"), count(&names, "tmp")), (0, 0), "{names:?}");

    let again = ObjectStore::open(trial.store.path(), &trial.dirs.git).await.unwrap();
    again.consolidate().await.unwrap();
    let left = count(&packs(&again), ".idx");
    assert!(left < 64, "{left} packs");
    let reader = again.batched();
    for (tree, content) in &trees {
        let files = reader.list(tree).await.unwrap();
        let found = reader.contents(&[&files[1]]).await.unwrap();
        assert_eq!(found, [content.as_bytes()]);
    }
    let fsck = Repo::init(trial.dirs.path("reader"));
    fsck.git(&["--git-dir", &trial.store.path().display().to_string(), "fsck", "--full", "--strict"]);
}

/// A reader that has opened a store finds its objects after another process has merged the packs.
#[tokio::test]
async fn open_sessions_survive_a_consolidation() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    // Each time too few for the store to merge them itself.
    let mut trees = capture(&trial, 0..40).await;
    trial.store.close().await;
    trees.extend(capture(&trial, 40..70).await);
    trial.store.close().await;
    let reader = ObjectStore::open(trial.store.path(), &trial.dirs.git).await.unwrap();
    let patch = trial.dirs.path("patch");
    let (start, last) = (&trial.start.tree, &trees[69].0);
    reader.diff_and_patch(start, last, &patch, &[]).await.unwrap();
    let before = count(&packs(&reader), ".idx");
    ObjectStore::open(reader.path(), &trial.dirs.git).await.unwrap().consolidate().await.unwrap();
    assert!(count(&packs(&reader), ".idx") < before);
    for (tree, _) in &trees {
        let (diff, _) = reader.diff_and_patch(start, tree, &patch, &[]).await.unwrap();
        assert_eq!(diff.files.len(), 2);
    }
    reader.close().await;
}

#[tokio::test]
async fn leftovers_of_killed_gits_are_removed_and_trees_are_kept() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    trial.write("a", "2\n");
    let (end, _) = trial.end().await;
    trial.store.close().await;
    let dir = trial.store.path().join("objects/pack");
    let before = packs(&trial.store);
    let name = before.iter().find_map(|name| name.strip_suffix(".idx")).unwrap();
    for left in
        [&format!("{name}.keep"), "tmp_pack_AbCdEf", "tmp_idx_AbCdEf", ".tmp-77-pack-1.pack", "pack-2.pack"]
    {
        fs::write(dir.join(left), "x").unwrap();
    }
    fs::write(trial.store.path().join("refs/trials/t/end.lock"), "").unwrap();
    let store = ObjectStore::open(trial.store.path(), &trial.dirs.git).await.unwrap();
    store.remove_leftovers().await.unwrap();
    let (mut before, mut after) = (before, packs(&store));
    before.sort();
    after.sort();
    assert_eq!(before, after);
    assert!(!store.path().join("refs/trials/t/end.lock").exists());
    assert_eq!(store.list(&end.tree).await.unwrap().len(), 1);
}

#[tokio::test]
async fn fetching_removes_old_temporary_packs_of_a_mirror() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("start");
    let resolve = async || {
        dirs.resolve(&origin, Revision::Default).await;
    };
    resolve().await;
    let mirrors = dirs.path("cache/mirrors");
    let is_mirror = |path: &Path| path.extension().is_some_and(|extension| extension == "git");
    let mirror =
        fs::read_dir(mirrors).unwrap().map(|entry| entry.unwrap().path()).find(|path| is_mirror(path));
    let packs = mirror.unwrap().join("objects/pack");
    let (old, new) = (packs.join("tmp_pack_old"), packs.join("tmp_pack_new"));
    fs::write(&new, "").unwrap();
    let file = fs::File::create(&old).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(2 * 24 * 3600)).unwrap();
    resolve().await;
    assert_eq!((old.exists(), new.exists()), (false, true));
}
