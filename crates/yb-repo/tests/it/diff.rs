//! Statistics and patch from the start tree to the end tree.

use std::fs;

use yb_repo::diff::{ChangeKind, LineChanges};
use yb_testkit::git::Repo;

use crate::workspace::{Trial, summary};

#[tokio::test]
async fn diff_counts_each_kind_of_change() {
    let long = "one\ntwo\nthree\nfour\nfive\nsix\n";
    let trial =
        Trial::begin(&[("moved", long), ("gone", "1\n2\n"), ("changed", "1\n2\n3\n"), ("link", "x\n")]).await;
    let root = trial.root();
    fs::remove_file(root.join("moved")).unwrap();
    trial.write("sub/to", format!("{long}seven\n"));
    fs::remove_file(root.join("gone")).unwrap();
    trial.write("changed", "1\n2\n4\n5\n");
    trial.write("bin", b"\0\x01\x02");
    fs::remove_file(root.join("link")).unwrap();
    std::os::unix::fs::symlink("target", root.join("link")).unwrap();
    let (_, diff) = trial.end().await;
    assert_eq!(summary(&diff), ["bin +0 -0", "changed +2 -1", "gone +0 -2", "link +1 -1", "sub/to +1 -0"]);
    let kinds: Vec<_> = diff.files.iter().map(|file| file.kind.clone()).collect();
    let renamed = ChangeKind::Renamed { from: b"moved".to_vec() };
    assert_eq!(
        kinds,
        [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Deleted, ChangeKind::TypeChanged, renamed]
    );
    assert_eq!(diff.files[0].lines, LineChanges::Binary);
    assert_eq!((diff.files_changed(), diff.lines_added(), diff.lines_removed()), (5, 4, 4));
    assert_eq!(diff.total_changes(), 8);
    // Shares 3/8, 2/8, 2/8 and 1/8.
    assert!((diff.change_entropy() - 1.905_639).abs() < 1e-6, "{}", diff.change_entropy());
}

#[tokio::test]
async fn patch_applies_and_redacts_secrets() {
    let trial = Trial::begin(&[("a", "1\n"), ("bin", "text\n"), (".gitattributes", "*.min -diff\n")]).await;
    trial.write("a", "2\r\n");
    trial.write("bin", (0..=255u8).collect::<Vec<_>>());
    trial.write("long.min", vec![b'x'; 3_000_000]);
    trial.write("latin1", b"caf\xe9\n");
    let (end, _) = trial.end().await;
    let patch = trial.dirs.path("git-diff.patch");
    let written = trial.store.write_patch(&trial.start.tree, &end.tree, &patch, &[]).await.unwrap().unwrap();
    assert_eq!(fs::metadata(&patch).unwrap().len(), written.bytes);
    assert_eq!(written.dropped, 0);
    let fresh = Repo::init(trial.dirs.path("fresh"));
    let store = trial.store.path().display().to_string();
    fresh.git(&["fetch", "--quiet", &store, "refs/trials/t/start"]);
    fresh.git(&["read-tree", "FETCH_HEAD"]);
    fresh.git(&["apply", "--cached", "--whitespace=nowarn", &patch.display().to_string()]);
    assert_eq!(fresh.git(&["write-tree"]).trim(), end.tree);

    trial.write("leak", "the key is sk-very-secret-value here\n");
    let (end, _) = trial.end().await;
    let secrets = [("API_KEY".to_owned(), b"sk-very-secret-value".to_vec())];
    trial.store.write_patch(&trial.start.tree, &end.tree, &patch, &secrets).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&fs::read(&patch).unwrap()).into_owned();
    assert!(text.contains("the key is [REDACTED:API_KEY] here"));
    assert!(!text.contains("sk-very"));
}

/// One request to git gives the same result as two, for short and long patches and all file names.
#[tokio::test]
async fn diff_and_patch_equals_separate_calls() {
    for long in [10, 3_000_000] {
        let trial = Trial::begin(&[("a", "1\n"), ("moves", "one\ntwo\nthree\n")]).await;
        trial.write("a", "2\n");
        trial.write("caf\u{e9} \"quoted\"\t\n", "odd\n");
        trial.write("binary", [vec![0, 1, 2], b"diff --git a/x b/x\n".to_vec()].concat());
        trial.write("long", "x\n".repeat(long / 2));
        fs::rename(trial.workspace.path().join("moves"), trial.workspace.path().join("moved")).unwrap();
        trial.write("leak", "the key is sk-very-secret-value here\n");
        let (end, diff) = trial.end().await;
        let secrets = [("API_KEY".to_owned(), b"sk-very-secret-value".to_vec())];
        let (alone, both) = (trial.dirs.path("alone.patch"), trial.dirs.path("both.patch"));
        let (from, to) = (&trial.start.tree, &end.tree);
        let patch = trial.store.write_patch(from, to, &alone, &secrets).await.unwrap();
        assert_eq!(trial.store.diff_and_patch(from, to, &both, &secrets).await.unwrap(), (diff, patch));
        assert!(fs::read(&both).unwrap() == fs::read(&alone).unwrap(), "{long}");
        assert!(!String::from_utf8_lossy(&fs::read(&both).unwrap()).contains("sk-very"));
    }
}

#[tokio::test]
async fn empty_diff_writes_no_patch() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let (end, diff) = trial.end().await;
    let patch = trial.dirs.path("git-diff.patch");
    assert_eq!(trial.store.write_patch(&trial.start.tree, &end.tree, &patch, &[]).await.unwrap(), None);
    assert!(!patch.exists());
    assert_eq!((diff.total_changes(), diff.change_entropy().to_bits()), (0, 0));
    let unknown = "0".repeat(40);
    let error = trial.store.diff(&trial.start.tree, &unknown).await.unwrap_err();
    assert!(
        error.to_string().starts_with("`git diff-tree` failed (exited with code 128): fatal: "),
        "{error}"
    );
}

#[tokio::test]
async fn diffs_compares_many_pairs_in_order() {
    let trial = Trial::begin(&[("a", "1\n2\n3\n4\n5\n"), ("b\nc", "x\n")]).await;
    fs::rename(trial.root().join("a"), trial.root().join("moved")).unwrap();
    trial.write("b\nc", "y\n");
    let (end, there) = trial.end().await;
    let (start, end) = (trial.start.tree.clone(), end.tree);
    let back = trial.store.diff(&end, &start).await.unwrap();
    let pairs = [(&start, &end), (&start, &start), (&end, &start), (&start, &start), (&start, &end)]
        .map(|(from, to)| (from.clone(), to.clone()));
    let found = trial.store.diffs(&pairs).await.unwrap();
    let none = yb_repo::diff::Diff::default();
    assert_eq!(found, [there.clone(), none.clone(), back, none, there]);
    assert_eq!(trial.store.diffs(&[]).await.unwrap(), []);
    assert!(trial.store.diffs(&[("x".to_owned(), "y".to_owned())]).await.is_err());
}
