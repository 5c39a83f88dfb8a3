//! Another root in a sandbox: its programs, its user, its layers, and nothing of the host.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use yb_supervise::{Command, Network, OverlayMount, RootMount, Sandbox, is_whiteout};

use crate::support::{TEST_TIMEOUT, contained};

fn layers() -> (TempDir, RootMount) {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    yb_testkit::tiny_root(&at("lower"));
    for name in ["first", "upper", "work", "target"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    let overlay = OverlayMount::new(at("first"), at("upper"), at("work"), at("target"));
    let root = RootMount::new(overlay.above(vec![at("lower")]));
    (dir, root)
}

fn shell(root: &RootMount, script: &str) -> Command {
    contained("sh")
        .env("PATH", "/usr/bin:/bin")
        .args(["-c", script])
        .current_dir("/app")
        .sandbox(sandbox(root))
}

fn sandbox(root: &RootMount) -> Sandbox {
    Sandbox::new().root(root.clone()).network(Network::None)
}

async fn output(command: Command) -> String {
    let report = command.deadline(TEST_TIMEOUT).run().await;
    let output = report.output.captured().map(|output| output.text().text.trim().to_owned());
    let output = output.unwrap_or_default();
    assert!(report.success(), "{}: {output}", report.end);
    output
}

#[tokio::test]
async fn process_sees_the_other_root_and_changes_its_upper_layer_only() {
    let (dir, root) = layers();
    fs::write(dir.path().join("first/marker"), "first").unwrap();
    let script = "pwd; id -u; id -un; cat /marker /etc/os-release; echo; ls /; cat /etc/hosts | head -1; \
        echo new > /etc/new; rm /etc/os-release; touch /tmp/t; ls /work /home/* 2>/dev/null; true";
    let seen = output(shell(&root, script)).await;
    assert!(seen.starts_with("/app\n0\nroot\nfirstID=tiny\n"), "{seen}");
    assert!(seen.contains("127.0.0.1\tlocalhost"), "{seen}");
    let upper = &root.overlay.upper;
    assert_eq!(fs::read_to_string(upper.join("etc/new")).unwrap(), "new\n");
    assert!(is_whiteout(&fs::symlink_metadata(upper.join("etc/os-release")).unwrap()));
    assert!(dir.path().join("lower/etc/os-release").exists());
    assert_eq!(fs::read_dir(&root.overlay.target).unwrap().count(), 0, "nothing is mounted outside");
    assert_eq!(
        output(shell(&root, "cat /etc/new; ls /etc/os-release 2>/dev/null || echo gone")).await,
        "new\ngone"
    );
}

#[tokio::test]
async fn root_may_change_files_without_permission_and_another_user_may_not() {
    let (dir, root) = layers();
    let file = dir.path().join("lower/etc/closed");
    fs::write(&file, "closed").unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    let script = "echo open > /etc/closed && chown 0:0 /etc/closed && cat /etc/closed";
    assert_eq!(output(shell(&root, script)).await, "open");
    let user = root.clone().user(1000, 1000);
    let script =
        "id -u; grep CapEff /proc/self/status; mount -t tmpfs x /app 2>/dev/null && echo mounted; true";
    let seen = output(shell(&user, script)).await;
    assert!(
        seen.starts_with("1000\n") && seen.contains("0000000000000000") && !seen.contains("mounted"),
        "{seen}"
    );
    let script =
        "mknod /dev/x c 1 3 2>/dev/null && echo made; chown 7 /etc/passwd 2>/dev/null && echo owned; true";
    assert_eq!(output(shell(&root, script)).await, "");
}

#[tokio::test]
async fn program_of_the_host_runs_in_the_other_root() {
    let (dir, root) = layers();
    let program = dir.path().join("tools/link");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::copy("/bin/ls", dir.path().join("tools/real")).unwrap();
    std::os::unix::fs::symlink("real", &program).unwrap();
    let beside = dir.path().join("beside");
    fs::create_dir(&beside).unwrap();
    fs::copy("/bin/bash", dir.path().join("tools/real")).unwrap();
    let command = contained(&program)
        .args(["-c", "echo $BASH; cat /etc/os-release; echo x > beside-file; ls tools 2>/dev/null; true"])
        .current_dir(&beside)
        .sandbox(sandbox(&root).host_program().writable(&beside));
    let seen = output(command).await;
    assert!(seen.ends_with("ID=tiny"), "{seen}");
    assert!(beside.join("beside-file").exists());
    let missing =
        contained("python3").env("PATH", "/usr/bin").current_dir("/app").sandbox(sandbox(&root)).run().await;
    assert!(missing.end.to_string().contains("not found"), "{}", missing.end);
    let missing = shell(&root, "true").current_dir("/none").run().await;
    assert!(!missing.success(), "{}", missing.end);
}

/// `bwrap` creates mount points before the root is in place, and would follow links of the image.
#[tokio::test]
async fn mount_point_below_a_link_of_the_root_is_rejected() {
    let (dir, root) = layers();
    let victim = dir.path().join("victim");
    fs::create_dir(&victim).unwrap();
    std::os::unix::fs::symlink(
        Path::new("/oldroot").join(victim.strip_prefix("/").unwrap()),
        dir.path().join("first/mnt"),
    )
    .unwrap();
    let view = sandbox(&root).writable_as(dir.path().join("upper"), "/mnt/inside");
    let report = shell(&root, "true").sandbox(view).run().await;
    assert!(report.end.to_string().contains("`/mnt/inside`"), "{}", report.end);
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    std::os::unix::fs::symlink("/oldroot/etc/hosts", dir.path().join("lower/etc/hosts")).unwrap();
    output(shell(&root, "true")).await;
}

#[test]
fn paths_are_resolved_as_inside() {
    let (dir, root) = layers();
    let at = |path: &str| root.resolve(Path::new(path));
    assert_eq!(at("/bin/sh"), Some(dir.path().join("lower/bin/busybox")));
    std::os::unix::fs::symlink("/bin", dir.path().join("first/tools")).unwrap();
    assert_eq!(at("/tools/../../tools/sh"), Some(dir.path().join("lower/bin/busybox")));
    std::os::unix::fs::symlink("loop", dir.path().join("first/loop")).unwrap();
    assert_eq!((at("/loop"), at("/none"), at("bin")), (None, None, None));
    fs::write(dir.path().join("upper/app"), "").unwrap();
    assert_eq!((at("/app/x"), at("/app")), (None, Some(dir.path().join("upper/app"))));
}
