//! From a `Sandbox` to the arguments of `bwrap`.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::Path;

use super::system::USER;
use super::view::{Access, Mount, SHARED_MEMORY, View, check_format};
use super::{Network, Sandbox};
use crate::error::SpawnError;
use crate::gate::inside;
use crate::shim::{FILES_FD, PROGRAM_FD, STATUS_FD, arguments};
use crate::wire::Content;

/// How many bytes of shared memory there may be.
const SHARED_MEMORY_BYTES: &str = "67108864";

/// Who starts `bwrap`.
#[derive(Debug)]
pub(crate) enum StartedBy<'a> {
    /// A shim, which hears how far it came and hands it these files.
    Shim { files: &'a mut Vec<Content> },
    /// The host, only to see whether it works.
    Host,
}

/// The arguments of `bwrap` that run a program in the sandbox.
pub(crate) fn wrap(
    sandbox: &Sandbox,
    program: &Path,
    args: &[OsString],
    cwd: &Path,
    search: Option<&OsStr>,
    by: StartedBy<'_>,
) -> Result<Vec<OsString>, SpawnError> {
    check_format(program)?;
    let view = View::of(sandbox, program, search)?;
    if !view.shows(cwd) {
        return Err(SpawnError::NotShown { path: cwd.to_owned() });
    }
    let mut argv: Vec<OsString> = flags(sandbox).into_iter().map(OsString::from).collect();
    let mut files = None;
    if let StartedBy::Shim { files: list } = by {
        argv.extend(["--json-status-fd".into(), STATUS_FD.to_string().into()]);
        files = Some(list);
    }
    mounts(&view, &mut argv, files);
    argv.extend(["--chdir".into(), cwd.into()]);
    if sandbox.network == Network::Exits {
        let addresses: Vec<SocketAddr> =
            sandbox.exits.forwards.iter().copied().chain([inside(&sandbox.exits)]).collect();
        argv.extend(["--".into(), format!("/proc/self/fd/{PROGRAM_FD}").into()]);
        argv.extend(arguments(&addresses, program, program.as_os_str(), args));
    } else {
        argv.extend(["--".into(), program.into()]);
        argv.extend(args.iter().cloned());
    }
    Ok(argv)
}

/// Everything but the files.
fn flags(sandbox: &Sandbox) -> Vec<&'static str> {
    let mut flags = vec![
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        // A session within the shim's: so SIGTERM reaches the child and not `bwrap`, whose end is everybody's.
        "--new-session",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
    ];
    if sandbox.network != Network::Shared {
        flags.push("--unshare-net");
    }
    if rustix::process::geteuid().is_root() {
        flags.extend(["--uid", USER, "--gid", USER]);
    }
    flags
}

/// The files. Where nobody hands `bwrap` any of its own, there are none.
pub(super) fn mounts(view: &View, argv: &mut Vec<OsString>, mut files: Option<&mut Vec<Content>>) {
    let mut closed = vec![OsString::from("/")];
    for (path, mount) in view.iter() {
        let at = path.clone().into_os_string();
        match mount {
            Mount::Bind { source, access, .. } => {
                let flag = match access {
                    Access::Write => "--bind",
                    Access::Read => "--ro-bind",
                    Access::ReadIfThere => "--ro-bind-try",
                };
                argv.extend([flag.into(), source.clone().into_os_string(), at]);
            }
            Mount::File(content) => {
                if let Some(files) = &mut files {
                    let number = FILES_FD + files.len() as i32;
                    files.push(content.clone());
                    argv.extend(["--perms".into(), "0644".into(), "--file".into()]);
                    argv.extend([number.to_string().into(), at]);
                }
            }
            Mount::Link(target) => argv.extend(["--symlink".into(), target.into(), at]),
            Mount::Nothing { directory: false } => {
                argv.extend(["--ro-bind".into(), "/dev/null".into(), at]);
            }
            Mount::Nothing { directory: true } => {
                argv.extend(["--tmpfs".into(), at.clone()]);
                if path != Path::new("/tmp") {
                    closed.push(at);
                }
            }
            Mount::Proc => argv.extend(["--proc".into(), at]),
            Mount::Dev => {
                argv.extend(["--dev".into(), at]);
                let shared = ["--size", SHARED_MEMORY_BYTES, "--tmpfs", SHARED_MEMORY];
                argv.extend(shared.map(OsString::from));
            }
        }
    }
    // Last, because places for the others have to be made in them.
    for path in closed {
        argv.extend(["--remount-ro".into(), path]);
    }
}
