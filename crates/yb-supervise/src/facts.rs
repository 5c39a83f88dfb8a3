//! Facts about this machine that take a process to find out, kept between processes.
//!
//! A fact has a key: everything that it depends on. With another key it is unknown, and has to be found out again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// Keeps facts about this machine in a directory, which is created when it is needed: whether sandboxes work, and
/// versions of programs. Without this call, each process finds them out again.
pub fn remember_facts_in(directory: impl Into<PathBuf>) {
    let _ = DIRECTORY.set(directory.into());
}

/// Returns a fact that was kept with the same key.
#[must_use]
pub fn recall_fact(name: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(DIRECTORY.get()?.join(name)).ok()?;
    Some(text.strip_prefix(key)?.strip_prefix("\n\n")?.to_owned())
}

/// Keeps a fact, in place of the one with another key. Errors are ignored: the fact is found out again.
pub fn remember_fact(name: &str, key: &str, value: &str) {
    let Some(directory) = DIRECTORY.get() else { return };
    let temporary = directory.join(crate::plan::unique_id());
    let written = fs::create_dir_all(directory)
        .and_then(|()| fs::write(&temporary, format!("{key}\n\n{value}")))
        .and_then(|()| fs::rename(&temporary, directory.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(temporary);
    }
}

/// Removes a fact that proved wrong.
#[cfg(target_os = "linux")]
pub(crate) fn forget_fact(name: &str) {
    if let Some(directory) = DIRECTORY.get() {
        let _ = fs::remove_file(directory.join(name));
    }
}

/// Returns the path and the identity of a program, which change when it is replaced; `None` if it is not a binary: a
/// script may run another program later.
#[cfg(unix)]
#[must_use]
pub fn program_identity(path: &Path) -> Option<String> {
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;
    let mut file = fs::File::open(path).ok()?;
    let mut magic = [0; 4];
    file.read_exact(&mut magic).ok()?;
    let found = file.metadata().ok()?;
    let path = path.to_str().filter(|path| !path.contains('\n') && !magic.starts_with(b"#!"))?;
    Some(format!(
        "{path} {} {} {} {}.{} {}.{}",
        found.dev(),
        found.ino(),
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec()
    ))
}

/// Nothing is remembered here.
#[cfg(not(unix))]
#[must_use]
pub fn program_identity(_: &Path) -> Option<String> {
    None
}

/// Returns everything that decides whether an unprivileged user may create namespaces and filters here.
#[cfg(target_os = "linux")]
pub(crate) fn kernel_identity() -> String {
    const FILES: [&str; 6] = [
        "/proc/version",
        "/proc/sys/kernel/random/boot_id",
        "/proc/self/attr/current",
        "/proc/sys/kernel/unprivileged_userns_clone",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    ];
    const STATUS: [&str; 7] = ["Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters"];
    let mut key: Vec<String> = FILES
        .iter()
        .map(|file| fs::read_to_string(file).unwrap_or_default().trim().replace('\n', " "))
        .collect();
    for name in ["user", "mnt", "pid", "net"] {
        let link = fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
        key.push(link.to_string_lossy().into_owned());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let wanted = |line: &&str| STATUS.contains(&line.split(':').next().unwrap_or_default());
    key.extend(status.lines().filter(wanted).map(str::to_owned));
    key.push(std::env::temp_dir().to_string_lossy().replace('\n', " "));
    key.join("\n")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn fact_is_recalled_by_its_key_only_and_until_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        remember_facts_in(directory.path().join("new"));
        assert_eq!(recall_fact("git", "key"), None);
        remember_fact("git", "key", "2.47");
        assert_eq!(recall_fact("git", "key").as_deref(), Some("2.47"));
        assert_eq!(recall_fact("git", "ke"), None);
        assert_eq!(recall_fact("git", "key\n"), None);
        remember_fact("git", "other", "2.48");
        assert_eq!((recall_fact("git", "key"), recall_fact("git", "other").as_deref()), (None, Some("2.48")));
        forget_fact("git");
        assert_eq!(recall_fact("git", "other"), None);
    }

    #[test]
    fn identity_of_a_program_changes_when_it_is_replaced_and_scripts_have_none() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, "\x7fELF one").unwrap();
        let before = program_identity(&program).unwrap();
        assert_eq!(program_identity(&program).unwrap(), before);
        fs::write(directory.path().join("new"), "\x7fELF two").unwrap();
        fs::rename(directory.path().join("new"), &program).unwrap();
        assert_ne!(program_identity(&program).unwrap(), before);
        fs::write(&program, "#!/bin/sh\n").unwrap();
        assert_eq!(program_identity(&program), None);
    }
}
