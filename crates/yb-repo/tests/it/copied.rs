//! Workspaces that are copies of a shared checkout.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use yb_repo::{LaidFiles, RepoError, WorkspaceOptions};
use yb_testkit::git::Repo;

use crate::workspace::TestDirs;

/// Returns all paths of a work tree without `.git`, with type, mode and content.
fn listing(root: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            let (path, metadata) = (entry.path(), entry.metadata().unwrap());
            let content = match () {
                () if metadata.is_dir() => Vec::new(),
                () if metadata.is_symlink() => {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                () => fs::read(&path).unwrap(),
            };
            if metadata.is_dir() && path.file_name().unwrap() != ".git" {
                waiting.push(path.clone());
            }
            found.push((path.strip_prefix(root).unwrap().to_owned(), metadata.permissions().mode(), content));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn copied_workspace_equals_a_checkout_and_is_clean() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("src/main.rs", "fn main() {}\n");
    origin.write("run.sh", "#!/bin/sh\n");
    origin.write(format!("deep/{}/file", "d".repeat(200)), "x\n");
    origin.write("empty", "");
    fs::set_permissions(origin.path().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("src/main.rs", origin.path().join("link")).unwrap();
    symlink("nowhere", origin.path().join("dangling")).unwrap();
    origin.commit("start");
    let pruned = dirs.pruned_repo(&origin).await;
    let options = WorkspaceOptions::default();
    let nothing = LaidFiles { key: "", write: |_: &Path| Ok::<(), RepoError>(()) };
    let shared = pruned.shared_checkout(&dirs.git, &options, nothing).await.unwrap();

    let plain = pruned.workspace(&dirs.git, dirs.path("plain"), &options).await.unwrap();
    let copied = shared.copied_workspace(&dirs.git, &dirs.path("copied")).await.unwrap();
    assert_eq!(listing(copied.path()), listing(plain.path()));
    assert_eq!(copied.commit(), plain.commit());

    // These commands trust the index, and do not read a file whose metadata it has.
    let repo = Repo::init(copied.path());
    assert_eq!(repo.git(&["diff-files", "--name-only"]), "");
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    assert_eq!(repo.git(&["fsck", "--strict"]), "");
    fs::write(copied.path().join("src/main.rs"), "fn main() { }\n").unwrap();
    assert_eq!(repo.git(&["diff-files", "--name-only"]).trim(), "src/main.rs");

    // Objects are copies, so that an agent can't change those of other trials.
    fs::remove_dir_all(copied.path().join(".git/objects")).unwrap();
    shared.check_now().await.unwrap();
    let again = shared.copied_workspace(&dirs.git, &dirs.path("again")).await.unwrap();
    assert_eq!(listing(again.path()), listing(plain.path()));
}
