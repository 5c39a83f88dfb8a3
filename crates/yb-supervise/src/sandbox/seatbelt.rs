//! Translates a `Sandbox` into a profile of macOS's `sandbox-exec`. Written from documentation and untested.
#![cfg_attr(not(target_os = "macos"), expect(dead_code, reason = "only used by its test elsewhere"))]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Network, Sandbox};

/// The program that applies the profile.
pub(crate) const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// System paths that programs need.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library",
    "/opt",
    "/private/etc",
    "/private/var/db/timezone",
    "/private/var/db/dyld",
    "/dev",
];

/// Returns the profile: everything is denied except what is listed, and the last matching rule wins.
pub(crate) fn profile(
    sandbox: &Sandbox,
    program: &Path,
    search: Option<&OsStr>,
    proxy: Option<u16>,
) -> String {
    let mut lines: Vec<String> = vec![
        "(version 1)".into(),
        "(deny default)".into(),
        "(allow process-exec process-fork signal (target same-sandbox))".into(),
        "(allow sysctl-read mach-lookup ipc-posix-shm)".into(),
        "(allow file-read-metadata)".into(),
        "(allow file-read* (literal \"/\"))".into(),
        "(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/dtracehelper\"))"
            .into(),
    ];
    let tools = search.into_iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute());
    let system = SYSTEM.iter().map(PathBuf::from).chain(tools).chain([program.to_owned()]);
    lines.extend(system.map(|path| format!("(allow file-read* process-exec (subpath {}))", quoted(&path))));
    // The most specific path wins, so deeper paths come later.
    let mut rules: Vec<(PathBuf, &str)> = Vec::new();
    rules.extend(
        sandbox.hidden.iter().map(|path| (real_path(path), "(deny file-read* file-write* (subpath {}))")),
    );
    let source = |mapping: &super::PathMapping| real_path(&mapping.source);
    let read = "(allow file-read* process-exec (subpath {}))";
    rules.extend(sandbox.read_only.iter().map(|one| (source(one), read)));
    let write = "(allow file-read* file-write* process-exec (subpath {}))";
    rules.extend(sandbox.writable.iter().map(|one| (source(one), write)));
    rules.sort_by_key(|(path, _)| path.components().count());
    lines.extend(rules.iter().map(|(path, rule)| rule.replace("{}", &quoted(path))));
    match sandbox.network {
        Network::Shared => lines.push("(allow network*)".into()),
        Network::None => {}
        Network::Filtered => {
            let ports = sandbox.egress.forwards.iter().map(|address| address.port()).chain(proxy);
            lines.extend(
                ports.map(|port| format!("(allow network-outbound (remote ip \"localhost:{port}\"))")),
            );
        }
    }
    lines.join("\n")
}

/// Resolves links, because rules match real paths and `/tmp` is a link.
fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::super::EgressRules;
    use super::*;

    #[test]
    fn deeper_paths_come_later_in_profile() {
        let sandbox = Sandbox::new()
            .read_only("/nowhere/all")
            .hidden("/nowhere/all/secret")
            .writable("/nowhere/all/secret/\"work\"")
            .egress(EgressRules::new().forward("127.0.0.1:4000".parse().unwrap()));
        let text = profile(&sandbox, Path::new("/bin/sh"), Some(OsStr::new("/tools")), Some(5000));
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len() - 5..];
        assert_eq!(
            tail,
            [
                "(allow file-read* process-exec (subpath \"/nowhere/all\"))",
                "(deny file-read* file-write* (subpath \"/nowhere/all/secret\"))",
                "(allow file-read* file-write* process-exec (subpath \"/nowhere/all/secret/\\\"work\\\"\"))",
                "(allow network-outbound (remote ip \"localhost:4000\"))",
                "(allow network-outbound (remote ip \"localhost:5000\"))",
            ]
        );
        assert!(lines.contains(&"(deny default)") && text.contains("(subpath \"/tools\")"), "{text}");
    }
}
