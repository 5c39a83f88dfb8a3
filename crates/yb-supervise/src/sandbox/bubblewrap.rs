//! Translates a `Sandbox` into `bwrap` arguments.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::Path;

use super::system::SANDBOX_UID;
use super::view::{Access, FilesystemView, Mount, SHARED_MEMORY, check_format};
use super::{Network, Sandbox, SandboxKind, SyscallFilter};
use crate::egress_proxy::proxy_address;
use crate::error::SpawnError;
use crate::shim::{FILES_FD, PROGRAM_FD, STATUS_FD, init_arguments};
use crate::wire::FileContent;

/// Size limit of `/dev/shm`.
const SHARED_MEMORY_BYTES: &str = "67108864";

/// What the root user of another root may do, in its own namespace and to files that it owns: what programs that install or
/// configure something expect.
const ROOT_CAPABILITIES: [&str; 9] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// The process that starts `bwrap`.
#[derive(Debug)]
pub(crate) enum BwrapParent<'a> {
    /// A shim, which reads its status and passes it these files.
    Shim { files: &'a mut Vec<FileContent> },
    /// The host, to probe whether it works.
    Host,
}

/// Returns the `bwrap` arguments that run a program in the sandbox.
pub(crate) fn bwrap_args(
    sandbox: &Sandbox,
    program: &Path,
    args: &[OsString],
    cwd: &Path,
    search: Option<&OsStr>,
    by: BwrapParent<'_>,
) -> Result<Vec<OsString>, SpawnError> {
    let in_layer = if sandbox.host_program { None } else { sandbox.locate(program) };
    check_format(in_layer.as_deref().unwrap_or(program))?;
    let view = FilesystemView::build(sandbox, program, search)?;
    if !view.is_visible(cwd) && (sandbox.root.is_none() || sandbox.locate(cwd).is_none()) {
        return Err(SpawnError::CwdNotVisible { path: cwd.to_owned() });
    }
    let mut argv = flags(sandbox);
    let mut files = None;
    if let BwrapParent::Shim { files: list } = by {
        argv.extend(["--json-status-fd".into(), STATUS_FD.to_string().into()]);
        add_filter(sandbox, &mut argv, list)?;
        files = Some(list);
    }
    mounts(&view, &mut argv, files);
    if sandbox.read_only_proc {
        argv.extend(["--remount-ro".into(), "/proc".into()]);
    }
    argv.extend(["--chdir".into(), cwd.into()]);
    if sandbox.network == Network::Filtered {
        let addresses: Vec<SocketAddr> =
            sandbox.egress.forwards.iter().copied().chain([proxy_address(&sandbox.egress)]).collect();
        argv.extend(["--".into(), format!("/proc/self/fd/{PROGRAM_FD}").into()]);
        argv.extend(init_arguments(&addresses, program, program.as_os_str(), args));
    } else {
        argv.extend(["--".into(), program.into()]);
        argv.extend(args.iter().cloned());
    }
    Ok(argv)
}

/// Appends the seccomp programs, which `bwrap` loads after the sandbox is set up.
fn add_filter(
    sandbox: &Sandbox,
    argv: &mut Vec<OsString>,
    files: &mut Vec<FileContent>,
) -> Result<(), SpawnError> {
    if SandboxKind::Bubblewrap.probe_syscall_filter().is_err() {
        return Ok(());
    }
    let filter = SyscallFilter::new(sandbox)
        .map_err(|source| SpawnError::System { what: "compile the system call filter", source })?;
    for program in filter.programs {
        let number = FILES_FD + files.len() as i32;
        files.push(FileContent::Bytes(program));
        argv.extend(["--add-seccomp-fd".into(), number.to_string().into()]);
    }
    Ok(())
}

/// Returns all flags except the mounts.
fn flags(sandbox: &Sandbox) -> Vec<OsString> {
    let mut flags: Vec<OsString> = [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        // A session inside the shim's, so that SIGTERM reaches the child and not `bwrap`, whose death kills
        // everything.
        "--new-session",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
    ]
    .map(OsString::from)
    .into();
    if sandbox.network != Network::Shared {
        flags.push("--unshare-net".into());
    }
    if let Some(root) = &sandbox.root {
        let (uid, gid) = (root.uid.to_string(), root.gid.to_string());
        flags.extend(["--uid".into(), uid.into(), "--gid".into(), gid.into()]);
        if root.uid == 0 {
            flags.extend(ROOT_CAPABILITIES.iter().flat_map(|name| ["--cap-add".into(), (*name).into()]));
        }
    } else if rustix::process::geteuid().is_root() {
        flags.extend(["--uid", SANDBOX_UID, "--gid", SANDBOX_UID].map(OsString::from));
    }
    flags
}

/// Appends the mounts. Without `files`, synthetic files are skipped.
pub(super) fn mounts(
    view: &FilesystemView,
    argv: &mut Vec<OsString>,
    mut files: Option<&mut Vec<FileContent>>,
) {
    let mut closed = Vec::new();
    if !view.has_root() {
        closed.push(OsString::from("/"));
    }
    for (path, mount) in view.iter() {
        let at = path.clone().into_os_string();
        match mount {
            Mount::Bind { source, access, .. } => {
                let flag = match access {
                    Access::Write => "--bind",
                    Access::Read => "--ro-bind",
                    Access::ReadIfExists => "--ro-bind-try",
                };
                argv.extend([flag.into(), source.clone().into_os_string(), at]);
            }
            Mount::Root(target) => argv.extend(["--bind".into(), target.into(), at]),
            Mount::File(content) => {
                if let Some(files) = &mut files {
                    let number = FILES_FD + files.len() as i32;
                    files.push(content.clone());
                    argv.extend(["--perms".into(), "0644".into(), "--file".into()]);
                    argv.extend([number.to_string().into(), at]);
                }
            }
            Mount::Link(target) => argv.extend(["--symlink".into(), target.into(), at]),
            Mount::Empty { directory: false } => {
                argv.extend(["--ro-bind".into(), "/dev/null".into(), at]);
            }
            Mount::Empty { directory: true } => {
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
    // Last, because mount points of other mounts must be created in them first.
    for path in closed {
        argv.extend(["--remount-ro".into(), path]);
    }
}
