//! Translates a `Sandbox` into Landlock rules, as far as an allowlist of paths can express it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::view::{Access, FilesystemView, Mount, check_format};
use super::{Network, Sandbox, SandboxKind, SyscallFilter, system};
use crate::error::SpawnError;
use crate::wire::LandlockRules;

/// Pseudo devices.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Maximum number of siblings of a hidden path that are allowed one by one; further ones are not allowed.
const MAX_SIBLINGS: usize = 10_000;

/// Returns the rules. Landlock can only allow, so a directory that contains a hidden path is not allowed as a
/// whole; the current siblings of the hidden path are allowed instead.
pub(crate) fn rules(
    sandbox: &Sandbox,
    program: &Path,
    cwd: &Path,
    search: Option<&OsStr>,
) -> Result<LandlockRules, SpawnError> {
    check_format(program)?;
    let view = FilesystemView::build(sandbox, program, search)?;
    let mut rules = LandlockRules::default();
    for (at, mount) in view.iter() {
        let Mount::Bind { source, access, .. } = mount else { continue };
        let hidden = view.iter().filter(|(path, mount)| {
            matches!(mount, Mount::Empty { .. }) && *path != at && path.starts_with(at)
        });
        let hidden: Vec<PathBuf> =
            hidden.filter_map(|(path, _)| Some(source.join(path.strip_prefix(at).ok()?))).collect();
        let list = if *access == Access::Write { &mut rules.write } else { &mut rules.read };
        allow(source, &hidden, list);
    }
    // The view may replace these files; Landlock can't, so it allows the originals.
    rules.read.extend(system::ETC.map(|name| Path::new("/etc").join(name)));
    rules.read.push("/proc".into());
    rules.devices = DEVICES.map(PathBuf::from).to_vec();
    rules.ports = match sandbox.network {
        Network::Shared => None,
        Network::None => Some(Vec::new()),
        // The port of the proxy is added when it is known.
        Network::Filtered => Some(sandbox.egress.forwards.iter().map(|address| address.port()).collect()),
    };
    if SandboxKind::Landlock.probe_syscall_filter().is_ok() {
        let filter = SyscallFilter::new(sandbox);
        rules.filter = Some(
            filter.map_err(|source| SpawnError::System { what: "compile the system call filter", source })?,
        );
    }
    if !rules.allows(cwd) {
        return Err(SpawnError::CwdNotVisible { path: cwd.to_owned() });
    }
    Ok(rules)
}

fn allow(path: &Path, hidden: &[PathBuf], list: &mut Vec<PathBuf>) {
    let within: Vec<PathBuf> = hidden.iter().filter(|below| below.starts_with(path)).cloned().collect();
    if within.is_empty() {
        list.push(path.to_owned());
        return;
    }
    if within.iter().any(|hidden| hidden == path) {
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten().take(MAX_SIBLINGS) {
        allow(&entry.path(), &within, list);
    }
}

impl LandlockRules {
    /// Returns whether the path may be opened.
    fn allows(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        let mut all = self.read.iter().chain(&self.write);
        all.any(|allowed| allowed.canonicalize().is_ok_and(|allowed| path.starts_with(allowed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_of_hidden_path_are_allowed_but_not_its_parents() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (all, secret, beside) = (at("all"), at("all/a/secret"), at("all/a/beside"));
        let (other, work) = (at("all/other"), at("all/a/secret/work"));
        let sandbox = Sandbox::new().read_only(&all).hidden(&secret).writable(&work);
        let rules = rules(&sandbox, Path::new("/bin/sh"), &work, None).unwrap();
        assert!(rules.read.contains(&beside) && rules.read.contains(&other), "{rules:?}");
        assert_eq!(rules.write, [work]);
        for path in [&all, &secret, &at("all/a")] {
            assert!(!rules.allows(path), "{}", path.display());
        }
        assert_eq!(rules.ports, None);
    }
}
