//! Overlays in a sandbox: changes are in the upper layer only, and a child reaches neither layer.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use yb_supervise::{CancellationToken, Command, OverlayMount, Sandbox, is_opaque_dir, is_whiteout};

use crate::support::{TEST_TIMEOUT, contained};

/// Layers in one temporary directory.
fn layers() -> (TempDir, OverlayMount) {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["lower/dir/deep", "lower/gone", "upper", "work", "target"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    for name in ["lower/file", "lower/dir/file", "lower/dir/deep/file", "lower/gone/file"] {
        fs::write(at(name), "lower\n").unwrap();
    }
    let overlay = OverlayMount::new(at("lower"), at("upper"), at("work"), at("target"));
    (dir, overlay)
}

fn shell(overlay: &OverlayMount, script: &str) -> Command {
    contained("/bin/sh")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .args(["-c", script])
        .current_dir(&overlay.target)
        .sandbox(Sandbox::new().overlay(overlay.clone()))
}

async fn run(overlay: &OverlayMount, script: &str) -> String {
    let report = shell(overlay, script).deadline(TEST_TIMEOUT).run().await;
    let output = report.output.captured().unwrap().text().text.trim().to_owned();
    assert!(report.success(), "{}: {output}", report.end);
    output
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.contains(path.to_str().unwrap())
}

#[tokio::test]
async fn probe_finds_that_overlays_work_here() {
    let dir = tempfile::tempdir().unwrap();
    let shim = yb_testkit::bin("yb-shim");
    assert_eq!(OverlayMount::probe(dir.path(), dir.path(), Some(&shim)).await, Ok(()));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn changes_are_kept_in_the_upper_layer_across_mounts() {
    let (dir, overlay) = layers();
    run(&overlay, "echo more >> file; rm dir/file; rm -r gone; mkdir gone; echo new > gone/new; chmod 700 dir/deep/file").await;
    let seen = run(&overlay, "cat file; ls dir gone; stat -c %a dir/deep/file; cd dir/deep && pwd").await;
    let expected =
        format!("lower\nmore\ndir:\ndeep\n\ngone:\nnew\n700\n{}/dir/deep", overlay.target.display());
    assert_eq!(seen, expected);

    assert_eq!(fs::read_to_string(overlay.lower.join("file")).unwrap(), "lower\n");
    assert!(overlay.lower.join("gone/file").exists() && overlay.lower.join("dir/file").exists());
    assert!(is_whiteout(&fs::symlink_metadata(overlay.upper.join("dir/file")).unwrap()));
    assert!(is_opaque_dir(&overlay.upper.join("gone")) && !is_opaque_dir(&overlay.upper.join("dir")));
    // Nothing is mounted outside.
    assert_eq!(fs::read_dir(&overlay.target).unwrap().count(), 0);

    let at = |path: &str| overlay.resolve(&overlay.target.join(path));
    assert_eq!(at("file"), Some(overlay.upper.join("file")));
    assert_eq!(at("dir/deep/file"), Some(overlay.upper.join("dir/deep/file")));
    assert_eq!((at("dir/file"), at("gone/file"), at("../file"), at("none")), (None, None, None, None));
    assert_eq!(overlay.resolve(dir.path()), None);
}

#[tokio::test]
async fn child_starts_in_a_directory_and_with_a_program_of_the_lower_layer() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_dir, overlay) = layers();
    let program = overlay.lower.join("dir/program");
    fs::write(&program, "#!/bin/sh\npwd\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let inside = overlay.target.join("dir");
    let report = contained(inside.join("program"))
        .current_dir(&inside)
        .sandbox(Sandbox::new().overlay(overlay.clone()))
        .deadline(TEST_TIMEOUT)
        .run()
        .await;
    assert!(report.success(), "{}", report.end);
    assert_eq!(report.output.captured().unwrap().text().text.trim(), inside.to_str().unwrap());
    let missing = shell(&overlay, "true").current_dir(overlay.target.join("none")).run().await;
    assert!(!missing.success(), "{}", missing.end);
}

#[tokio::test]
async fn hidden_path_of_the_lower_layer_is_hidden() {
    let (_dir, overlay) = layers();
    let sandbox = Sandbox::new()
        .overlay(overlay.clone())
        .hidden(overlay.target.join("dir/deep"))
        .hidden(overlay.target.join("file"));
    let report = shell(&overlay, "cat file 2> /dev/null; ls dir/deep; ls dir").sandbox(sandbox).run().await;
    assert_eq!(report.output.captured().unwrap().text().text.trim(), "deep\nfile");
}

/// What an agent might do to make the host misread its changes.
#[tokio::test]
async fn layers_are_out_of_reach_and_can_not_be_forged() {
    let (_dir, overlay) = layers();
    let script = r#"
        for layer in LOWER UPPER WORK; do ls $layer 2> /dev/null && echo sees $layer; done
        mknod dir/deep/file2 c 0 0 2> /dev/null && echo made a whiteout
        umount . 2> /dev/null && echo unmounted
        mount --bind dir gone 2> /dev/null && echo mounted
        unshare -rm true 2> /dev/null && echo made a namespace
        python3 - <<'END'
import ctypes, os
for name in ("opaque", "whiteout", "redirect", "metacopy", "origin"):
    for path in ("dir", "dir/file", "file"):
        try: os.setxattr(path, "user.overlay." + name, b"y")
        except OSError: pass
try:
    os.setxattr("dir", "trusted.overlay.opaque", b"y")
    print("set a trusted attribute")
except OSError: pass
libc = ctypes.CDLL(None, use_errno=True)
# RENAME_WHITEOUT
if libc.renameat2(-100, b"gone/file", -100, b"gone/other", 4) == 0: print("renamed with a whiteout")
END
        ls dir gone; cat dir/file"#;
    let script = script
        .replace("LOWER", overlay.lower.to_str().unwrap())
        .replace("UPPER", overlay.upper.to_str().unwrap())
        .replace("WORK", overlay.work.to_str().unwrap());
    assert_eq!(run(&overlay, &script).await, "dir:\ndeep\nfile\n\ngone:\nfile\nlower");
    assert!(!is_opaque_dir(&overlay.upper.join("dir")));
    let at = |path: &str| overlay.resolve(&overlay.target.join(path));
    assert!(at("dir/file").is_some() && at("dir/deep/file").is_some() && at("gone/file").is_some());
}

#[tokio::test]
async fn mount_is_not_visible_outside_and_ends_with_the_child() {
    let (dir, overlay) = layers();
    let cancel = CancellationToken::new();
    let running = shell(&overlay, "echo here > started; sleep 600").cancel_on(cancel.clone());
    let running = tokio::spawn(running.run());
    while !overlay.upper.join("started").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!is_mounted(dir.path()));
    assert_eq!(fs::read_dir(&overlay.target).unwrap().count(), 0);
    cancel.cancel();
    running.await.unwrap();
    assert!(!is_mounted(dir.path()));
    // The layers can be used again at once.
    assert_eq!(run(&overlay, "cat started").await, "here");
}

#[tokio::test]
async fn overlay_that_can_not_be_mounted_is_an_error() {
    let (_dir, overlay) = layers();
    fs::remove_dir_all(&overlay.lower).unwrap();
    let report = shell(&overlay, "true").run().await;
    assert!(report.end.to_string().contains("mount the overlay"), "{}", report.end);
}
