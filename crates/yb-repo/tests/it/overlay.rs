//! Captures of overlays give the same trees and warnings as those of the mounted directory.

use std::fs;
use std::path::{Path, PathBuf};

use yb_repo::{
    LaidFiles, ObjectStore, PathGlobs, PrunedRepo, RepoError, SharedCheckout, StartTree, Workspace,
    WorkspaceOptions,
};
use yb_supervise::{Command, Launch, OverlayMount, Sandbox};

use crate::base_tree::large_origin;
use crate::workspace::TestDirs;

/// Edits files at random, as an agent might, then copies the result, as the kernel shows it, to the directory `copy`.
const EDITS: &str = r#"
import os, random, shutil, subprocess, sys
seed, copy = int(sys.argv[1]), sys.argv[2]
numbers = random.Random(seed)
def entries():
    found = []
    for folder, folders, files in os.walk("."):
        if ".git" in folders: folders.remove(".git")
        found += [os.path.join(folder, name) for name in folders + files]
    return sorted(found)
def remove(path):
    if os.path.isdir(path) and not os.path.islink(path): shutil.rmtree(path)
    elif os.path.lexists(path): os.remove(path)
def write(path, text):
    # Opening a fifo would block.
    if os.path.lexists(path) and not os.path.isfile(path): raise OSError
    with open(path, "w") as file: file.write(text)
for _ in range(25):
    every = entries()
    one, other = numbers.choice(every), numbers.choice(every)
    fresh = os.path.join(os.path.dirname(one), "new%d" % numbers.randrange(50))
    kind, text = numbers.randrange(17), "file %d\n" % numbers.randrange(1000)
    try:
        if kind == 0: write(one, text)
        elif kind == 1: remove(one)
        elif kind == 2:
            remove(one); os.mkdir(one); write(os.path.join(one, "below"), text)
        elif kind == 3:
            remove(one); write(one, text)
        elif kind == 4: os.chmod(one, 0o755)
        elif kind == 5 and os.path.isfile(one): os.chmod(one, 0o644)
        elif kind == 6: os.link(one, fresh)
        elif kind == 7:
            remove(one); os.symlink(other, one)
        elif kind == 8: os.rename(one, fresh)
        elif kind == 9: shutil.move(one, fresh)
        elif kind == 10:
            os.makedirs(fresh + "/x/y"); write(fresh + "/x/y/z", text)
        elif kind == 11: write(os.path.join(os.path.dirname(one), "ignored.log"), text)
        elif kind == 12: write(os.path.join(os.path.dirname(one).encode(), b"\xfe\t").decode("utf8", "surrogateescape"), text)
        elif kind == 13:
            os.makedirs(fresh + "/.git"); write(fresh + "/.git/config", text)
        elif kind == 14:
            remove(one); os.mkfifo(one)
        elif kind == 15:
            remove(one); os.mkdir(one)
        elif kind == 16: os.truncate(one, 100000)
    except OSError: pass
subprocess.run(["cp", "-a", ".", copy], check=True)
"#;

struct Overlaid {
    dirs: TestDirs,
    pruned: PrunedRepo,
    shared: SharedCheckout,
    workspace: Workspace,
    store: ObjectStore,
    start: StartTree,
}

impl Overlaid {
    async fn begin() -> Self {
        let dirs = TestDirs::new();
        let pruned = dirs.pruned_repo(&large_origin(&dirs)).await;
        let shared = checkout(&dirs, &pruned).await;
        let workspace = shared.workspace(&dirs.path("ws"), &dirs.path("layer")).await.unwrap();
        let store = dirs.store().await;
        let start = store.capture_fresh_start("t", &workspace, &PathGlobs::none()).await.unwrap();
        Self { dirs, pruned, shared, workspace, store, start }
    }

    fn overlay(&self) -> &OverlayMount {
        self.workspace.overlay().unwrap()
    }

    /// Runs a program in the workspace, which may also write to a directory beside it.
    async fn run(&self, program: &str, args: &[&str], beside: &Path) {
        fs::create_dir_all(beside).unwrap();
        let report = Command::new(program)
            .args(args)
            .current_dir(self.workspace.path())
            .launch(Launch::Contained)
            .shim(yb_testkit::bin("yb-shim"))
            .sandbox(Sandbox::new().overlay(self.overlay().clone()).writable(beside))
            .run()
            .await;
        assert!(report.success(), "{}: {:?}", report.end, report.output.captured().unwrap().text());
    }

    async fn end(&self) -> String {
        self.store.capture_end_of_overlay("t", self.overlay(), &self.start).await.unwrap().tree
    }

    async fn paths(&self, tree: &str) -> Vec<String> {
        let files = self.store.list(tree).await.unwrap();
        files.iter().map(|file| String::from_utf8_lossy(&file.path).into_owned()).collect()
    }
}

async fn checkout(dirs: &TestDirs, pruned: &PrunedRepo) -> SharedCheckout {
    let nothing = |_: &Path| Ok::<(), RepoError>(());
    let laid = LaidFiles { key: "", write: nothing };
    pruned.shared_checkout(&dirs.git, &WorkspaceOptions::default(), laid).await.unwrap()
}

#[tokio::test]
async fn random_edits_give_the_same_tree_as_the_mounted_directory() {
    let trial = Overlaid::begin().await;
    assert_eq!(trial.end().await, trial.start.tree);
    for seed in 0..3 {
        let copy = trial.dirs.path(&format!("copy{seed}"));
        let seed = seed.to_string();
        trial.run("python3", &["-c", EDITS, &seed, copy.to_str().unwrap()], &copy).await;
        let (store, start) = (&trial.store, &trial.start);
        let layered = store.capture_end_of_overlay("t", trial.overlay(), start).await.unwrap();
        let full = store.capture_end("t", &copy, start).await.unwrap();
        let diff = store.diff(&full.tree, &layered.tree).await.unwrap();
        assert!(diff.files.is_empty(), "seed {seed}: {diff:?}");
        let sorted = |warnings: &[yb_repo::CaptureWarning]| {
            let mut all: Vec<String> = warnings.iter().map(ToString::to_string).collect();
            all.sort();
            all
        };
        assert_eq!((sorted(&layered.warnings), layered.exceeded), (sorted(&full.warnings), full.exceeded));

        // The directory that people get.
        let written = trial.dirs.path(&format!("written{seed}"));
        yb_repo::materialize(&trial.dirs.path("layer"), &written).unwrap();
        assert_eq!(store.capture_end("t", &written, start).await.unwrap().tree, full.tree, "seed {seed}");
    }
}

#[tokio::test]
async fn capture_follows_whiteouts_and_opaque_directories() {
    let trial = Overlaid::begin().await;
    let script = "rm d1/s1/f1; rm -r d2; mkdir d2; echo n > d2/n; rm -r d3; rm link; mkdir link; echo l > link/l; \
        rm empty; chmod -x run.sh; echo ignored > x.log; mv d4 d44; touch d5/s2/f5; rm -rf .git";
    trial.run("/bin/sh", &["-c", script], &trial.dirs.path("beside")).await;
    let end = trial.end().await;
    let paths = trial.paths(&end).await;
    let is_there = |path: &str| paths.iter().any(|found| found == path);
    assert!(!is_there("d1/s1/f1") && is_there("d1/s2/f161"), "{paths:?}");
    assert!(is_there("d2/n") && is_there("link/l") && !is_there("link") && !is_there("empty"));
    assert!(
        !is_there("x.log") && paths.iter().all(|path| !path.starts_with("d3/") && !path.starts_with("d4/"))
    );
    assert_eq!(paths.iter().filter(|path| path.starts_with("d2/")).count(), 1);
    assert!(paths.iter().any(|path| path.starts_with("d44/")));
    let diff = trial.store.diff(&trial.start.tree, &end).await.unwrap();
    assert!(diff.files.iter().all(|file| !format!("{file:?}").contains("d5/")), "touched, but not changed");
}

/// An entry of an upper layer is the agent's word, even if no kernel wrote it.
#[tokio::test]
async fn odd_upper_layers_are_captured_without_following_links() {
    let trial = Overlaid::begin().await;
    let upper = &trial.overlay().upper;
    fs::write(trial.dirs.path("secret"), "secret\n").unwrap();
    std::os::unix::fs::symlink(trial.dirs.path(""), upper.join("d1")).unwrap();
    std::os::unix::fs::symlink(trial.dirs.path("secret"), upper.join("d2")).unwrap();
    fs::create_dir(upper.join("empty")).unwrap();
    fs::create_dir_all(upper.join("d3/s0")).unwrap();
    std::os::unix::net::UnixListener::bind(upper.join("d3/s0/f3")).unwrap();
    let end = trial.store.capture_end_of_overlay("t", trial.overlay(), &trial.start).await.unwrap();
    let files = trial.store.list(&end.tree).await.unwrap();
    let find = |path: &str| files.iter().find(|file| file.path == path.as_bytes());
    assert!(find("d1").unwrap().is_link() && find("d2").unwrap().is_link());
    assert!(find("empty").is_none() && find("d3/s0/f3").is_none() && find("d3/s1/f43").is_some());
    assert!(files.iter().all(|file| !file.path.starts_with(b"d1/")));
    assert_eq!(end.warnings.len(), 1, "{:?}", end.warnings);
}

#[tokio::test]
async fn concurrent_trials_share_one_checkout() {
    let dirs = TestDirs::new();
    let pruned = dirs.pruned_repo(&large_origin(&dirs)).await;
    assert!(pruned.is_large());
    // A process was killed while it created the checkout.
    let name = checkout(&dirs, &pruned).await.files().parent().unwrap().to_owned();
    let partial = PathBuf::from(format!("{}.tmp-1-1", name.display()));
    fs::rename(&name, &partial).unwrap();
    let (one, two) = tokio::join!(checkout(&dirs, &pruned), checkout(&dirs, &pruned));
    assert_eq!(one.files(), two.files());
    assert_eq!(one.files().parent(), Some(name.as_path()));
    assert!(!partial.exists());
    assert!(one.files().join("run.sh").exists() && one.files().join(".git/index").exists());
}

#[tokio::test]
async fn change_of_the_shared_checkout_is_found() {
    let trial = Overlaid::begin().await;
    trial.shared.check().await.unwrap();
    trial.shared.check_now().await.unwrap();
    let file = trial.shared.files().join("d1/s1/f1");
    let times = fs::FileTimes::new().set_modified(fs::metadata(&file).unwrap().modified().unwrap());
    fs::write(&file, "FILE 1\n").unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_times(times).unwrap();
    // Another trial ended.
    trial.shared.check().await.unwrap();
    let error = trial.shared.check_now().await.unwrap_err();
    assert!(matches!(error, RepoError::CheckoutChanged { .. }) && error.hint().is_some(), "{error}");

    // The next run does not use it.
    let fresh = checkout(&trial.dirs, &trial.pruned).await;
    assert_eq!(fs::read_to_string(fresh.files().join("d1/s1/f1")).unwrap(), "file 1\n");
}

#[tokio::test]
async fn laid_files_are_part_of_the_checkout_and_of_the_start_tree() {
    let dirs = TestDirs::new();
    let pruned = dirs.pruned_repo(&large_origin(&dirs)).await;
    let write = |root: &Path| {
        fs::write(root.join("d1/s1/f1"), "laid\n").unwrap();
        fs::write(root.join("laid"), "laid\n").unwrap();
        fs::remove_file(root.join("empty")).unwrap();
        Ok::<(), RepoError>(())
    };
    let options = WorkspaceOptions::default();
    let shared = pruned.shared_checkout(&dirs.git, &options, LaidFiles { key: "laid", write }).await.unwrap();
    let plain = checkout(&dirs, &pruned).await;
    assert_ne!(shared.files(), plain.files());
    let store = dirs.store().await;
    let workspace = shared.workspace(&dirs.path("ws"), &dirs.path("layer")).await.unwrap();
    let start = store.capture_fresh_start("t", &workspace, &PathGlobs::none()).await.unwrap();
    let full = store.capture_start("t", &workspace, &PathGlobs::none()).await.unwrap();
    assert_eq!(start.tree, full.tree);
    let files = store.list(&start.tree).await.unwrap();
    assert!(files.iter().any(|file| file.path == b"laid") && files.iter().all(|file| file.path != b"empty"));
    // The other checkout, which shares packs with this one, is still valid.
    plain.check().await.unwrap();
    plain.check_now().await.unwrap();
}
