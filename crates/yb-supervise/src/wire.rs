//! The control protocol between host and shim: length-prefixed binary frames.
//!
//! Both ends are always the same program, so there is no version to negotiate.

mod frame;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use frame::frame_length;
use frame::{FrameReader, FrameWriter, malformed, method_code, method_from_code};

use crate::limits::{ExceededLimit, LimitEnforcer, Resource, ResourceLimits};
use crate::report::{ContainmentMethod, ExitStatus, Usage};
use crate::sandbox::OverlayMount;

/// A request from the host to the shim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ShimRequest {
    Spawn(Box<SpawnRequest>),
    /// Lets the forked child run its program.
    Release,
    /// Sends SIGTERM, then SIGCONT, to the leader's group.
    Terminate,
    /// Sends SIGKILL to all processes until none is left.
    Kill,
    /// Suspends the tree.
    Pause,
    Resume,
}

/// A request to start a child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SpawnRequest {
    pub(crate) program: PathBuf,
    pub(crate) arg0: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// `None` selects the strongest method available.
    pub(crate) method: Option<ContainmentMethod>,
    /// Whether the program is a sandbox wrapper that starts the requested program.
    pub(crate) sandboxed: bool,
    /// The Landlock rules to apply; `None` for no restriction.
    pub(crate) rules: Option<LandlockRules>,
    /// The contents of the sandbox's own files, in the order of their descriptors.
    pub(crate) files: Vec<FileContent>,
    /// The overlays to mount.
    pub(crate) overlays: Vec<OverlayMount>,
    /// Resource limits of the tree.
    pub(crate) limits: ResourceLimits,
    /// The soft limit of open files, if it differs from that of the shim.
    pub(crate) open_files: Option<u64>,
    /// Unique id of the child: names its cgroup and marks its environment.
    pub(crate) id: String,
    /// Whether a descriptor for stdin is attached; otherwise stdin is `/dev/null`.
    pub(crate) stdin: bool,
    /// Whether a socket is attached over which the sandbox init sends its listeners.
    pub(crate) channel: bool,
}

/// The content of a file that exists only in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileContent {
    /// A copy of a host file, read when the sandbox is set up; empty if the file is gone.
    HostFile(PathBuf),
    Bytes(Vec<u8>),
}

/// An allowlist for Landlock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LandlockRules {
    /// Read and execute, recursively.
    pub(crate) read: Vec<PathBuf>,
    /// Everything except creating devices, recursively.
    pub(crate) write: Vec<PathBuf>,
    /// Read and write.
    pub(crate) devices: Vec<PathBuf>,
    /// The TCP ports that may be connected to; `None` for no restriction.
    pub(crate) ports: Option<Vec<u16>>,
    /// The filter of system calls, if the machine supports one.
    #[cfg(target_os = "linux")]
    pub(crate) filter: Option<crate::sandbox::SyscallFilter>,
}

/// An event from the shim to the host.
#[derive(Debug, PartialEq)]
pub(crate) enum ShimEvent {
    /// The child was forked, but does not run its program yet.
    Forked {
        pid: u32,
        start: u64,
        /// Start time of the shim.
        shim_start: u64,
        method: ContainmentMethod,
        cgroup: Option<PathBuf>,
    },
    /// The child executed its program.
    Started,
    Failed {
        stage: SpawnStage,
        errno: i32,
    },
    /// The leader ended; descendants may still be alive.
    LeaderEnded(ExitStatus),
    /// The tree is suspended.
    Paused,
    /// A limit was exceeded; the tree is being killed.
    OverLimit(ExceededLimit),
    /// All processes have ended, except the unkillable ones.
    Finished {
        status: Option<ExitStatus>,
        /// Whether the program itself was started; setting up its sandbox may have failed before.
        program_started: bool,
        leaked: bool,
        usage: Usage,
        unkillable: Vec<u32>,
    },
}

/// The stage at which starting a child failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnStage {
    Contain,
    Fork,
    Exec,
    /// Dropping privileges for the sandbox.
    Restrict,
    /// Mounting an overlay.
    Mount,
}

impl ShimRequest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FrameWriter(Vec::new());
        match self {
            Self::Spawn(request) => {
                out.u64(1);
                out.os(request.program.as_os_str());
                out.os(&request.arg0);
                out.u64(request.args.len() as u64);
                request.args.iter().for_each(|arg| out.os(arg));
                out.os(request.cwd.as_os_str());
                out.u64(request.env.len() as u64);
                for (name, value) in &request.env {
                    out.os(name);
                    out.os(value);
                }
                out.u64(method_code(request.method));
                out.u64(u64::from(request.sandboxed));
                out.rules(request.rules.as_ref());
                out.files(&request.files);
                out.overlays(&request.overlays);
                out.limits(&request.limits);
                out.option(request.open_files);
                out.bytes(request.id.as_bytes());
                out.u64(u64::from(request.stdin));
                out.u64(u64::from(request.channel));
            }
            Self::Terminate => out.u64(2),
            Self::Kill => out.u64(3),
            Self::Pause => out.u64(4),
            Self::Resume => out.u64(5),
            Self::Release => out.u64(6),
        }
        out.frame()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut body = FrameReader(body);
        Ok(match body.u64()? {
            1 => Self::Spawn(Box::new(SpawnRequest {
                program: body.os()?.into(),
                arg0: body.os()?,
                args: body.list(FrameReader::os)?,
                cwd: body.os()?.into(),
                env: body.list(|body| Ok((body.os()?, body.os()?)))?,
                method: method_from_code(body.u64()?)?,
                sandboxed: body.u64()? == 1,
                rules: body.rules()?,
                files: body.files()?,
                overlays: body.overlays()?,
                limits: body.limits()?,
                open_files: body.option()?,
                id: String::from_utf8(body.bytes()?).map_err(|_| malformed())?,
                stdin: body.u64()? == 1,
                channel: body.u64()? == 1,
            })),
            2 => Self::Terminate,
            3 => Self::Kill,
            4 => Self::Pause,
            5 => Self::Resume,
            6 => Self::Release,
            _ => return Err(malformed()),
        })
    }
}

impl ShimEvent {
    pub(crate) fn failed(stage: SpawnStage, error: &io::Error) -> Self {
        Self::Failed { stage, errno: error.raw_os_error().unwrap_or(0) }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FrameWriter(Vec::new());
        match self {
            Self::Forked { pid, start, shim_start, method, cgroup } => {
                out.u64(1);
                out.u64(u64::from(*pid));
                out.u64(*start);
                out.u64(*shim_start);
                out.u64(method_code(Some(*method)));
                out.os(cgroup.as_deref().unwrap_or_else(|| "".as_ref()).as_os_str());
            }
            Self::Failed { stage, errno } => {
                out.u64(2);
                out.u64(*stage as u64);
                out.u64(*errno as u64);
            }
            Self::LeaderEnded(status) => {
                out.u64(3);
                out.status(Some(*status));
            }
            Self::Finished { status, program_started, leaked, usage, unkillable } => {
                out.u64(4);
                out.status(*status);
                out.u64(u64::from(*program_started));
                out.u64(u64::from(*leaked));
                out.u64(usage.user.as_micros() as u64);
                out.u64(usage.system.as_micros() as u64);
                out.u64(usage.peak_rss_of_largest_process);
                out.u64(unkillable.len() as u64);
                unkillable.iter().for_each(|pid| out.u64(u64::from(*pid)));
            }
            Self::Paused => out.u64(5),
            Self::Started => out.u64(6),
            Self::OverLimit(over) => {
                out.u64(7);
                out.u64(over.resource as u64);
                out.u64(over.used);
                out.u64(over.limit);
                out.u64(u64::from(over.enforced_by == LimitEnforcer::Cgroup));
            }
        }
        out.frame()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut body = FrameReader(body);
        Ok(match body.u64()? {
            1 => Self::Forked {
                pid: body.u64()? as u32,
                start: body.u64()?,
                shim_start: body.u64()?,
                method: method_from_code(body.u64()?)?.ok_or_else(malformed)?,
                cgroup: Some(body.os()?).filter(|path| !path.is_empty()).map(PathBuf::from),
            },
            2 => Self::Failed {
                stage: match body.u64()? {
                    0 => SpawnStage::Contain,
                    1 => SpawnStage::Fork,
                    2 => SpawnStage::Exec,
                    3 => SpawnStage::Restrict,
                    4 => SpawnStage::Mount,
                    _ => return Err(malformed()),
                },
                errno: body.u64()? as i32,
            },
            3 => Self::LeaderEnded(body.status()?.ok_or_else(malformed)?),
            4 => Self::Finished {
                status: body.status()?,
                program_started: body.u64()? == 1,
                leaked: body.u64()? == 1,
                usage: Usage {
                    user: Duration::from_micros(body.u64()?),
                    system: Duration::from_micros(body.u64()?),
                    peak_rss_of_largest_process: body.u64()?,
                },
                unkillable: body.list(|body| body.u64().map(|pid| pid as u32))?,
            },
            5 => Self::Paused,
            6 => Self::Started,
            7 => Self::OverLimit(ExceededLimit {
                resource: match body.u64()? {
                    0 => Resource::Memory,
                    1 => Resource::Processes,
                    2 => Resource::Cpu,
                    _ => return Err(malformed()),
                },
                used: body.u64()?,
                limit: body.u64()?,
                enforced_by: if body.u64()? == 1 { LimitEnforcer::Cgroup } else { LimitEnforcer::Sampling },
            }),
            _ => return Err(malformed()),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
