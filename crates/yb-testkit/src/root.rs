//! A tiny root directory for tests: busybox, bash, and the libraries of this machine that dynamic programs need.

#![expect(clippy::unwrap_used, reason = "a failure must fail the test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The applets of busybox that the root has.
const APPLETS: &[&str] = &[
    "awk", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dirname", "echo", "env", "false",
    "find", "grep", "head", "hostname", "id", "kill", "ln", "ls", "mkdir", "mktemp", "mv", "nc", "ps", "pwd",
    "readlink", "rm", "rmdir", "sed", "seq", "sleep", "sort", "stat", "tail", "tar", "test", "touch", "tr",
    "true", "uname", "wc", "wget", "which", "whoami", "xargs",
];

/// Creates a root directory with a shell. Dynamic programs of this machine run in it if they need the C library only.
pub fn tiny_root(root: &Path) {
    for directory in ["bin", "usr/bin", "etc", "root", "proc", "dev", "tmp", "var", "app", "home", "run"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    set_mode(&root.join("tmp"), 0o1777);
    copy(Path::new("/bin/busybox"), &root.join("bin/busybox"));
    for applet in APPLETS {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    symlink("busybox", root.join("bin/sh")).unwrap();
    copy(Path::new("/bin/bash"), &root.join("bin/bash"));
    let shells = [PathBuf::from("/bin/bash"), std::env::current_exe().unwrap()];
    for library in shells.iter().flat_map(|program| libraries(program)) {
        copy(&library, &root.join(library.strip_prefix("/").unwrap()));
    }
    for name in ["libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6"] {
        let library = Path::new("/lib/x86_64-linux-gnu").join(name);
        if library.exists() {
            copy(&library, &root.join(library.strip_prefix("/").unwrap()));
        }
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home:/bin/sh\n")
        .unwrap();
    fs::write(root.join("etc/group"), "root:x:0:\nuser:x:1000:\n").unwrap();
    fs::write(root.join("etc/os-release"), "ID=tiny\n").unwrap();
}

/// Lists the libraries of a program.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    set_mode(to, 0o755);
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
