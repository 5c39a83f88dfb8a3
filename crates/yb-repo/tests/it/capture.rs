//! Captures are exactly the files on disk, even if an agent moves, hides or destroys things.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use yb_repo::{CaptureLimits, CaptureWarning, PathGlobs, StartTree};
use yb_supervise::Command;
use yb_testkit::FakeAgent;
use yb_testkit::git::Repo;

use crate::workspace::{TestDirs, Trial, summary};

#[tokio::test]
async fn untouched_workspace_has_empty_diff() {
    let trial =
        Trial::begin(&[("a", "1\n"), ("d/b", "2\n"), (".gitattributes", "* text=auto eol=crlf\n")]).await;
    let (end, diff) = trial.end().await;
    assert_eq!(end.tree, trial.start.tree);
    assert_eq!(diff.files, []);
    let reader = Repo::init(trial.dirs.path("reader"));
    let store = trial.store.path().display().to_string();
    let refs = reader.git(&["--git-dir", &store, "for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/trials/t/end\nrefs/trials/t/start\n");
    reader.git(&["--git-dir", &store, "fsck", "--full"]);
}

#[tokio::test]
async fn start_tree_includes_changes_of_pre_execution() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").write("b", "1\n").commit("start");
    let workspace = dirs.workspace(&origin).await;
    // pre_execution
    fs::write(workspace.path().join("a"), "1\nhook\n").unwrap();
    fs::write(workspace.path().join("made"), "by the hook\n").unwrap();
    let store = dirs.store().await;
    let start = store.capture_start("t", &workspace, &PathGlobs::none()).await.unwrap();
    // the agent
    fs::write(workspace.path().join("a"), "1\nhook\nagent\n").unwrap();
    let end = store.capture_end("t", workspace.path(), &start).await.unwrap();
    let diff = store.diff(&start.tree, &end.tree).await.unwrap();
    assert_eq!(summary(&diff), ["a +1 -0"]);
}

/// A killed attempt may leave a ref lock or a partial ref; the next attempt of the trial overwrites them.
#[tokio::test]
async fn leftovers_of_a_killed_git_do_not_block_the_next_attempt() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    for left in ["end.lock", "end"] {
        fs::write(trial.store.path().join("refs/trials/t").join(left), "").unwrap();
    }
    let (end, _) = trial.end().await;
    assert_eq!(end.tree, trial.start.tree);
}

#[tokio::test]
async fn committed_and_uncommitted_work_is_captured() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let script = "
- append: {path: a, line: more}
- commit: {message: more, dir: .}
- write: {path: new/file, line: uncommitted}
";
    let agent = FakeAgent::in_dir(trial.dirs.dir.path()).name("agent").script(script);
    let run = Command::new(agent).current_dir(trial.root()).shim(yb_testkit::bin("yb-shim"));
    assert!(run.deadline(Duration::from_secs(30)).run().await.success());
    assert_eq!(trial.agent().log(), ["more", "start"]);
    let (_, diff) = trial.end().await;
    assert_eq!(summary(&diff), ["a +1 -0", "new/file +1 -0"]);
}

#[tokio::test]
async fn rewritten_history_does_not_change_the_capture() {
    let trial = Trial::begin(&[("a", "1\n"), ("b", "1\n")]).await;
    trial.write("a", "2\n");
    let agent = trial.agent();
    agent.git(&["commit", "--quiet", "--all", "--amend", "-m", "rewritten"]);
    agent.git(&["checkout", "--quiet", "-b", "other"]);
    trial.write("c", "3\n");
    agent.commit("on another branch");
    agent.git(&["branch", "-D", "main"]);
    agent.git(&["checkout", "--quiet", "--orphan", "nowhere"]);
    agent.git(&["rm", "--quiet", "--cached", "-r", "."]);
    agent.git(&["reflog", "expire", "--expire=now", "--all"]);
    agent.git(&["gc", "--quiet", "--prune=now"]);
    let (_, diff) = trial.end().await;
    assert_eq!(summary(&diff), ["a +1 -1", "c +1 -0"]);
}

#[tokio::test]
async fn missing_or_replaced_git_directory_does_not_change_the_capture() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    trial.write("a", "2\n");
    fs::remove_dir_all(trial.root().join(".git")).unwrap();
    assert_eq!(summary(&trial.end().await.1), ["a +1 -1"]);
    trial.write(".git", "gitdir: /somewhere/else\n");
    let (end, diff) = trial.end().await;
    assert_eq!((summary(&diff), end.warnings), (vec!["a +1 -1".to_owned()], vec![]));
    fs::remove_file(trial.root().join(".git")).unwrap();
    symlink(trial.store.path(), trial.root().join(".git")).unwrap();
    assert_eq!(summary(&trial.end().await.1), ["a +1 -1"]);
}

#[tokio::test]
async fn missing_workspace_has_an_empty_end_tree() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    fs::remove_dir_all(trial.root()).unwrap();
    let (end, diff) = trial.end().await;
    assert_eq!(end.warnings, [CaptureWarning::WorkspaceGone]);
    assert_eq!(summary(&diff), ["a +0 -1"]);
    symlink("/etc", trial.root()).unwrap();
    let (end, _) = trial.end().await;
    assert_eq!(end.warnings, [CaptureWarning::WorkspaceGone]);
}

#[tokio::test]
async fn git_settings_of_an_agent_neither_run_nor_hide_anything() {
    let trial = Trial::begin(&[("a", "1\n"), ("b", "1\n"), ("c", "1\n"), (".gitignore", "*.log\n")]).await;
    let ran = trial.dirs.path("ran");
    let evil = format!("touch {}; cat", ran.display());
    let agent = trial.agent();
    agent.git(&["update-index", "--skip-worktree", "a"]);
    agent.git(&["update-index", "--assume-unchanged", "b"]);
    for (name, value) in [
        ("core.fsmonitor", evil.as_str()),
        ("filter.evil.clean", &evil),
        ("filter.evil.smudge", &evil),
        ("diff.evil.textconv", &evil),
        ("diff.external", &evil),
        ("core.pager", &evil),
        ("core.sshCommand", &evil),
        ("core.ignoreStat", "true"),
        ("core.sparseCheckout", "true"),
        ("core.fileMode", "false"),
        ("core.autocrlf", "true"),
        ("core.excludesFile", "/dev/stdin"),
        ("core.worktree", "/nonexistent"),
    ] {
        agent.git(&["config", name, value]);
    }
    trial.write(".git/info/exclude", "*\n");
    trial.write(".git/info/attributes", "* filter=evil diff=evil\n");
    trial.write(".git/hooks/pre-commit", "#!/bin/sh\ntouch ran\n");
    trial.write(".gitattributes", "* filter=evil diff=evil -text\nc working-tree-encoding=UTF-16\n");
    trial.write(".gitignore", "*\n");
    trial.write("sub/.gitignore", "*\n");
    trial.write("sub/hidden", "hidden\n");
    trial.write("hidden", "hidden\n");
    trial.write("a", "2\n");
    trial.write("b", "2\r\n");
    trial.write("c", "2\n");
    trial.write("x.log", "ignored from the start\n");
    // Git itself no longer works in this repository.
    trial.write(".git/config", "[core]\n\tbare = true\n\trepositoryformatversion = 99\n");
    let (end, diff) = trial.end().await;
    assert_eq!(
        summary(&diff),
        [
            ".gitattributes +2 -0",
            ".gitignore +1 -1",
            "a +1 -1",
            "b +1 -1",
            "c +1 -1",
            "hidden +1 -0",
            "sub/.gitignore +1 -0",
            "sub/hidden +1 -0",
        ]
    );
    assert_eq!(trial.stored(&end.commit, "b"), b"2\r\n");
    assert!(!ran.exists());
}

#[tokio::test]
async fn attributes_do_not_change_captured_bytes() {
    let attributes = "u16 working-tree-encoding=UTF-16LE\n*.txt text eol=crlf\nid ident\n*.bin -diff\n";
    let trial = Trial::begin(&[(".gitattributes", attributes), ("x", "x\n")]).await;
    let contents: [(&str, &[u8]); 5] = [
        ("u16", b"odd"),
        ("lf.txt", b"a\nb\r\nc\r"),
        ("id", b"$Id$ $Id: forged $\n"),
        ("t.bin", b"text all the same\n"),
        ("lfs.txt", b"version https://git-lfs.github.com/spec/v1\n"),
    ];
    for (path, content) in contents {
        trial.write(path, content);
    }
    let (end, diff) = trial.end().await;
    for (path, content) in contents {
        assert_eq!(trial.stored(&end.commit, path), content, "{path}");
    }
    assert!(summary(&diff).contains(&"t.bin +1 -0".to_owned()), "attributes do not make it binary");
}

#[tokio::test]
async fn ignored_files_are_captured_only_if_included() {
    let files =
        [(".gitignore", "dist/\n*.tmp\nnode_modules\n"), ("src/.gitignore", "!keep.tmp\n"), ("src/a", "1\n")];
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    for (path, content) in files {
        origin.write(path, content);
    }
    origin.write("dist/tracked.js", "1\n");
    origin.git(&["add", "--force", "dist/tracked.js"]);
    origin.commit("start");
    let workspace = dirs.workspace(&origin).await;
    let store = dirs.store().await;
    let root = workspace.path();
    let plain = store.capture_start("plain", &workspace, &PathGlobs::none()).await.unwrap();
    let include = PathGlobs::new(["dist", "*.tmp"]).unwrap();
    let more = store.capture_start("more", &workspace, &include).await.unwrap();
    for path in
        ["dist/tracked.js", "dist/new.js", "x.tmp", "src/keep.tmp", "src/y.tmp", "node_modules/p/i.js"]
    {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), "2\n").unwrap();
    }
    // Changes of the agent to ignore files have no effect.
    fs::write(root.join("src/.gitignore"), "!*\n").unwrap();
    let changed = async |start: &StartTree| {
        let end = store.capture_end("t", root, start).await.unwrap();
        let diff = store.diff(&start.commit, &end.commit).await.unwrap();
        diff.files.iter().map(|file| file.display_path()).collect::<Vec<_>>()
    };
    let always = ["dist/tracked.js", "src/.gitignore", "src/keep.tmp"];
    assert_eq!(changed(&plain).await, always);
    assert_eq!(
        changed(&more).await,
        ["dist/new.js", "dist/tracked.js", "src/.gitignore", "src/keep.tmp", "x.tmp"]
    );
}

#[tokio::test]
async fn nested_repositories_are_captured_as_files() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let nested = Repo::init(trial.root().join("deep/nested"));
    nested.write("inner", "1\n").commit("inner");
    trial.write("worktree/.git", "gitdir: ../.git/worktrees/x\n");
    trial.write("worktree/file", "1\n");
    let (end, diff) = trial.end().await;
    assert_eq!(summary(&diff), ["deep/nested/inner +1 -0", "worktree/file +1 -0"]);
    let nested = |path: &str| CaptureWarning::NestedRepository { path: path.into() };
    assert_eq!(end.warnings, [nested("deep/nested"), nested("worktree")]);
}

#[tokio::test]
async fn symlinks_are_captured_as_symlinks() {
    let trial = Trial::begin(&[("a", "1\n"), ("dir/b", "1\n")]).await;
    let root = trial.root();
    fs::write(trial.dirs.path("outside"), "secret\n").unwrap();
    symlink(trial.dirs.path("outside"), root.join("out")).unwrap();
    symlink("/nonexistent", root.join("dangling")).unwrap();
    symlink(".", root.join("loop")).unwrap();
    fs::remove_dir_all(root.join("dir")).unwrap();
    symlink("/etc", root.join("dir")).unwrap();
    fs::remove_file(root.join("a")).unwrap();
    symlink("dir", root.join("a")).unwrap();
    symlink("x", root.join(".gitmodules")).unwrap();
    let (end, diff) = trial.end().await;
    let paths: Vec<_> = diff.files.iter().map(|file| file.display_path()).collect();
    assert_eq!(paths, ["a", "dangling", "dir", "dir/b", "loop", "out"]);
    assert_eq!(trial.stored(&end.commit, "dir"), b"/etc");
    assert_eq!(trial.stored(&end.commit, "loop"), b".");
    assert_eq!(end.warnings, [CaptureWarning::ReservedName { path: ".gitmodules".into() }]);
}

#[tokio::test]
async fn sockets_fifos_and_reserved_names_are_skipped() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let socket = std::os::unix::net::UnixListener::bind(trial.root().join("s.sock")).unwrap();
    let fifo = Command::new("mkfifo").arg(trial.root().join("pipe")).shim(yb_testkit::bin("yb-shim"));
    assert!(fifo.run().await.success());
    trial.write(".GIT/config", "x\n");
    let (end, diff) = trial.end().await;
    drop(socket);
    assert_eq!(diff.files, []);
    assert_eq!(
        end.warnings,
        [
            CaptureWarning::ReservedName { path: ".GIT".into() },
            CaptureWarning::SpecialFile { path: "pipe".into(), kind: "fifo" },
            CaptureWarning::SpecialFile { path: "s.sock".into(), kind: "socket" },
        ]
    );
}

#[tokio::test]
async fn unreadable_files_are_a_warning() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    trial.write("locked", "x\n");
    trial.write("dir/b", "x\n");
    for path in ["locked", "dir"] {
        fs::set_permissions(trial.root().join(path), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let root_reads_all = fs::read(trial.root().join("locked")).is_ok();
    let (end, diff) = trial.end().await;
    fs::set_permissions(trial.root().join("dir"), fs::Permissions::from_mode(0o755)).unwrap();
    if root_reads_all {
        assert_eq!(summary(&diff), ["dir/b +1 -0", "locked +1 -0"]);
    } else {
        assert_eq!(diff.files, []);
        assert_eq!(end.warnings.len(), 2);
    }
}

#[tokio::test]
async fn paths_beyond_the_limit_are_skipped_and_reported() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let down = vec!["d".repeat(200); 15].join("/");
    let (upper, lower) = (trial.root().join("upper").join(&down), trial.root().join("lower").join(&down));
    fs::create_dir_all(&upper).unwrap();
    fs::create_dir_all(&lower).unwrap();
    fs::write(lower.join("hidden"), "x\n").unwrap();
    fs::rename(trial.root().join("lower"), upper.join("lower")).unwrap();
    trial.write("a", "2\n");
    let (end, diff) = trial.end().await;
    assert_eq!(summary(&diff), ["a +1 -1"]);
    assert!(
        matches!(end.warnings.as_slice(), [CaptureWarning::PathTooLong { limit: 2048, .. }]),
        "{:?}",
        end.warnings
    );
    assert_eq!(end.exceeded.as_ref(), end.warnings.first());
}

#[tokio::test]
async fn holes_are_bounded_and_further_sparse_files_replaced() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let store = trial.store.clone().limits(CaptureLimits { max_hole_bytes: 1 << 20, ..Default::default() });
    for name in ["s1", "s2", "s3"] {
        let file = fs::File::create(trial.root().join(name)).unwrap();
        file.set_len(700 << 10).unwrap();
    }
    trial.write("dense", vec![0; 2 << 20]);
    let end = store.capture_end("t", trial.root(), &trial.start).await.unwrap();
    let sparse =
        |path: &str| CaptureWarning::SparseFile { path: path.into(), size: 700 << 10, limit: 1 << 20 };
    assert_eq!(end.warnings, [sparse("s2"), sparse("s3")]);
    assert_eq!(end.exceeded, None);
    assert_eq!(trial.stored(&end.commit, "s1").len(), 700 << 10);
    assert_eq!(trial.stored(&end.commit, "dense").len(), 2 << 20);
    assert!(trial.stored(&end.commit, "s2").starts_with(b"youbencha: file not kept"));
    // Holes stay holes where the tree is graded.
    let out = tempfile::tempdir().unwrap();
    let files = store.list(&end.tree).await.unwrap();
    store.check_out(&files, out.path()).await.unwrap();
    let written = fs::metadata(out.path().join("s1")).unwrap();
    assert_eq!(written.len(), 700 << 10);
    assert!(std::os::unix::fs::MetadataExt::blocks(&written) * 512 < 700 << 10);
    assert_eq!(fs::read(out.path().join("dense")).unwrap(), vec![0; 2 << 20]);
}

#[tokio::test]
async fn size_entries_and_path_lengths_are_bounded() {
    let trial = Trial::begin(&[("a", "1\n"), ("b", "2\n")]).await;
    let capture = async |limits: CaptureLimits| {
        let store = trial.store.clone().limits(limits);
        store.capture_end("t", trial.root(), &trial.start).await.unwrap().exceeded
    };
    trial.write("c/new", vec![b'x'; 1000]);
    trial.write("c/newer", vec![b'x'; 1000]);
    let all = CaptureLimits::default();
    assert_eq!(capture(all).await, None);
    // The start tree does not count.
    assert_eq!(capture(CaptureLimits { max_growth: 2000, ..all }).await, None);
    let large = capture(CaptureLimits { max_growth: 1999, ..all }).await;
    assert_eq!(large, Some(CaptureWarning::TooLarge { path: "c/newer".into(), limit: 2003 }));
    let many = capture(CaptureLimits { max_entries: 5, ..all }).await;
    assert_eq!(many, Some(CaptureWarning::TooManyEntries { path: "c/newer".into(), limit: 5 }));
    let long = capture(CaptureLimits { max_all_path_bytes: 8, ..all }).await;
    assert_eq!(long, Some(CaptureWarning::PathsTooLong { path: "c/newer".into(), limit: 8 }));
}

#[tokio::test]
async fn huge_files_and_too_many_files_are_bounded() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    let store = trial.store.clone().limits(CaptureLimits {
        max_file_bytes: 200_000,
        max_files: 3,
        ..Default::default()
    });
    let huge = fs::File::create(trial.root().join("huge")).unwrap();
    huge.set_len(300_000).unwrap();
    trial.write("large", vec![b'x'; 199_999]);
    let end = store.capture_end("t", trial.root(), &trial.start).await.unwrap();
    let warning = CaptureWarning::HugeFile { path: "huge".into(), size: 300_000, limit: 200_000 };
    assert_eq!(end.warnings, [warning]);
    let note = String::from_utf8(trial.stored(&end.commit, "huge")).unwrap();
    assert!(note.starts_with("youbencha: file not kept\nsize: 300000\nlimit: 200000\nblake3: "), "{note}");
    assert_eq!(trial.stored(&end.commit, "large").len(), 199_999);
    // Different content of the same size gives a different placeholder.
    fs::write(trial.root().join("huge"), vec![1; 300_000]).unwrap();
    let changed = store.capture_end("t", trial.root(), &trial.start).await.unwrap();
    assert_ne!(changed.tree, end.tree);
    trial.write("z", "one too many\n");
    let end = store.capture_end("t", trial.root(), &trial.start).await.unwrap();
    assert_eq!(end.warnings.last(), Some(&CaptureWarning::TooManyFiles { limit: 3 }));
}

#[tokio::test]
async fn non_utf8_names_and_mode_changes_are_captured() {
    let trial = Trial::begin(&[("script", "1\n")]).await;
    let names: [&[u8]; 6] =
        [b"\xff\xfe", b"new\nline", b"tab\tquote\"back\\slash", b" lead", b"trail \r", "ü".as_bytes()];
    for name in names {
        fs::write(trial.root().join(OsStr::from_bytes(name)), "x\n").unwrap();
    }
    fs::set_permissions(trial.root().join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    let (_, diff) = trial.end().await;
    for name in names {
        assert!(diff.files.iter().any(|file| file.path == name), "{name:?}");
    }
    assert_eq!(diff.files_changed(), 7);
    let script = diff.files.iter().find(|file| file.path == b"script").unwrap();
    assert_eq!(script.modes, ("100644".to_owned(), "100755".to_owned()));
    assert_eq!(script.changes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trials_use_one_store_concurrently() {
    let trial = Trial::begin(&[("a", "1\n")]).await;
    trial.write("a", "2\n");
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let (store, start, root) = (trial.store.clone(), trial.start.clone(), trial.root().to_owned());
            tokio::spawn(async move {
                store.capture_end(&format!("case--v--{n}"), &root, &start).await.unwrap().tree
            })
        })
        .collect();
    let mut trees = Vec::new();
    for task in tasks {
        trees.push(task.await.unwrap());
    }
    trees.dedup();
    assert_eq!(trees.len(), 1);
    let error = trial.store.capture_end("../x", trial.root(), &trial.start).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid trial id: `../x`");
}
