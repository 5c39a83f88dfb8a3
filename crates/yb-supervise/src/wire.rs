//! What host and shim say to each other over the control socket: length-prefixed frames of plain bytes.
//!
//! Both ends are always the same program, so there is no version to negotiate.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{HeldBy, OverLimit, Resource, ResourceLimits};
use crate::report::{ExitStatus, Means, Usage};

/// Larger than any argument list that Linux accepts.
const MAX_FRAME: usize = 64 << 20;

/// Host to shim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Launch(Box<Launch>),
    /// SIGTERM, then SIGCONT, to the leader's group.
    Terminate,
    /// SIGKILL to everything, until nothing is left.
    Kill,
    /// Nothing of the tree may run.
    Pause,
    Resume,
}

/// The child that a shim is to start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) arg0: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// `None`: the strongest that works here.
    pub(crate) means: Option<Means>,
    /// Whether the program is one that makes a sandbox, and the child runs within.
    pub(crate) sandboxed: bool,
    /// What landlock is to allow; everything, if there are none.
    pub(crate) rules: Option<Rules>,
    /// What files of the sandbox have in them, in the order of the descriptors that its maker reads them from.
    pub(crate) files: Vec<Content>,
    /// What the tree may use.
    pub(crate) limits: ResourceLimits,
    /// Unique to this child: names its cgroup and marks its environment.
    pub(crate) id: String,
    /// Whether the child's stdin comes along as a descriptor; else it is `/dev/null`.
    pub(crate) stdin: bool,
    /// Whether a socket comes along, over which the inside hands out its listeners.
    pub(crate) channel: bool,
}

/// What is in a file of a sandbox that is none of the host's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// What a file of the host has in it when the sandbox is made; nothing, if it is gone.
    Of(PathBuf),
    Given(Vec<u8>),
}

/// What landlock allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Read and execute, with everything below.
    pub(crate) read: Vec<PathBuf>,
    /// Everything but to make devices, with everything below.
    pub(crate) write: Vec<PathBuf>,
    /// Read and write.
    pub(crate) devices: Vec<PathBuf>,
    /// The TCP ports that may be connected to; all, if there is no list.
    pub(crate) ports: Option<Vec<u16>>,
}

/// Shim to host.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    /// The child exists, and has not begun.
    Forked {
        pid: u32,
        start: u64,
        /// When the shim itself started.
        shim_start: u64,
        means: Means,
        cgroup: Option<PathBuf>,
    },
    /// The child executes its program.
    Started,
    Failed {
        stage: Stage,
        errno: i32,
    },
    /// The leader ended; descendants may still be alive.
    LeaderEnded(ExitStatus),
    /// Nothing of the tree runs.
    Paused,
    /// A limit was passed; everything is being killed.
    OverLimit(OverLimit),
    /// Nothing is left but what could not be killed.
    Done {
        status: Option<ExitStatus>,
        /// Whether the program itself ran; what makes its sandbox may have failed before.
        began: bool,
        leaked: bool,
        usage: Usage,
        unkillable: Vec<u32>,
    },
}

/// Where starting a child failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Contain,
    Fork,
    Exec,
    /// Giving up what a sandbox takes away.
    Restrict,
}

struct Writer(Vec<u8>);

impl Writer {
    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.u64(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn os(&mut self, value: &OsStr) {
        self.bytes(value.as_bytes());
    }

    /// One more than the number; nothing is zero.
    fn option(&mut self, value: Option<u64>) {
        self.u64(value.map_or(0, |value| value.saturating_add(1)));
    }

    fn limits(&mut self, limits: &ResourceLimits) {
        self.option(limits.memory);
        self.option(limits.processes);
        self.option(limits.cpu.map(|time| time.as_micros() as u64));
        self.option(limits.file_size);
    }

    fn paths(&mut self, paths: &[PathBuf]) {
        self.u64(paths.len() as u64);
        paths.iter().for_each(|path| self.os(path.as_os_str()));
    }

    fn rules(&mut self, rules: Option<&Rules>) {
        self.u64(u64::from(rules.is_some()));
        let Some(rules) = rules else { return };
        for paths in [&rules.read, &rules.write, &rules.devices] {
            self.paths(paths);
        }
        self.u64(u64::from(rules.ports.is_some()));
        let ports = rules.ports.as_deref().unwrap_or_default();
        self.u64(ports.len() as u64);
        ports.iter().for_each(|port| self.u64(u64::from(*port)));
    }

    fn files(&mut self, files: &[Content]) {
        self.u64(files.len() as u64);
        for file in files {
            let (is_given, bytes) = match file {
                Content::Of(path) => (0, path.as_os_str().as_bytes()),
                Content::Given(bytes) => (1, bytes.as_slice()),
            };
            self.u64(is_given);
            self.bytes(bytes);
        }
    }

    fn status(&mut self, status: Option<ExitStatus>) {
        let (kind, value) = match status {
            None => (0, 0),
            Some(ExitStatus::Code(code)) => (1, code),
            Some(ExitStatus::Signal(signal)) => (2, signal),
        };
        self.u64(kind);
        self.u64(value as u64);
    }

    fn frame(self) -> Vec<u8> {
        let mut frame = (self.0.len() as u32).to_le_bytes().to_vec();
        frame.extend_from_slice(&self.0);
        frame
    }
}

struct Reader<'a>(&'a [u8]);

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed control frame")
}

impl Reader<'_> {
    fn u64(&mut self) -> io::Result<u64> {
        let (head, rest) = self.0.split_first_chunk::<8>().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*head))
    }

    fn count(&mut self) -> io::Result<usize> {
        let count = self.u64()? as usize;
        if count > self.0.len() { Err(malformed()) } else { Ok(count) }
    }

    fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = self.count()?;
        let (head, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(head.to_vec())
    }

    fn os(&mut self) -> io::Result<OsString> {
        self.bytes().map(OsString::from_vec)
    }

    fn list<T>(&mut self, read: impl Fn(&mut Self) -> io::Result<T>) -> io::Result<Vec<T>> {
        (0..self.count()?).map(|_| read(self)).collect()
    }

    fn option(&mut self) -> io::Result<Option<u64>> {
        self.u64().map(|value| value.checked_sub(1))
    }

    fn limits(&mut self) -> io::Result<ResourceLimits> {
        Ok(ResourceLimits {
            memory: self.option()?,
            processes: self.option()?,
            cpu: self.option()?.map(Duration::from_micros),
            file_size: self.option()?,
        })
    }

    fn paths(&mut self) -> io::Result<Vec<PathBuf>> {
        self.list(|body| body.os().map(PathBuf::from))
    }

    fn rules(&mut self) -> io::Result<Option<Rules>> {
        if self.u64()? == 0 {
            return Ok(None);
        }
        let (read, write, devices) = (self.paths()?, self.paths()?, self.paths()?);
        let some = self.u64()? == 1;
        let ports = self.list(|body| body.u64().map(|port| port as u16))?;
        Ok(Some(Rules { read, write, devices, ports: some.then_some(ports) }))
    }

    fn files(&mut self) -> io::Result<Vec<Content>> {
        self.list(|body| {
            Ok(match body.u64()? {
                0 => Content::Of(body.os()?.into()),
                1 => Content::Given(body.bytes()?),
                _ => return Err(malformed()),
            })
        })
    }

    fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        let (kind, value) = (self.u64()?, self.u64()? as i32);
        match kind {
            0 => Ok(None),
            1 => Ok(Some(ExitStatus::Code(value))),
            2 => Ok(Some(ExitStatus::Signal(value))),
            _ => Err(malformed()),
        }
    }
}

fn means_code(means: Option<Means>) -> u64 {
    match means {
        None => 0,
        Some(Means::Cgroup) => 1,
        Some(Means::Subreaper) => 2,
        Some(Means::Sweep) => 3,
        Some(Means::JobObject) => 4,
    }
}

fn means_from(code: u64) -> io::Result<Option<Means>> {
    Ok(match code {
        0 => None,
        1 => Some(Means::Cgroup),
        2 => Some(Means::Subreaper),
        3 => Some(Means::Sweep),
        _ => return Err(malformed()),
    })
}

impl Order {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        match self {
            Self::Launch(launch) => {
                out.u64(1);
                out.os(launch.program.as_os_str());
                out.os(&launch.arg0);
                out.u64(launch.args.len() as u64);
                launch.args.iter().for_each(|arg| out.os(arg));
                out.os(launch.cwd.as_os_str());
                out.u64(launch.env.len() as u64);
                for (name, value) in &launch.env {
                    out.os(name);
                    out.os(value);
                }
                out.u64(means_code(launch.means));
                out.u64(u64::from(launch.sandboxed));
                out.rules(launch.rules.as_ref());
                out.files(&launch.files);
                out.limits(&launch.limits);
                out.bytes(launch.id.as_bytes());
                out.u64(u64::from(launch.stdin));
                out.u64(u64::from(launch.channel));
            }
            Self::Terminate => out.u64(2),
            Self::Kill => out.u64(3),
            Self::Pause => out.u64(4),
            Self::Resume => out.u64(5),
        }
        out.frame()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut body = Reader(body);
        Ok(match body.u64()? {
            1 => Self::Launch(Box::new(Launch {
                program: body.os()?.into(),
                arg0: body.os()?,
                args: body.list(Reader::os)?,
                cwd: body.os()?.into(),
                env: body.list(|body| Ok((body.os()?, body.os()?)))?,
                means: means_from(body.u64()?)?,
                sandboxed: body.u64()? == 1,
                rules: body.rules()?,
                files: body.files()?,
                limits: body.limits()?,
                id: String::from_utf8(body.bytes()?).map_err(|_| malformed())?,
                stdin: body.u64()? == 1,
                channel: body.u64()? == 1,
            })),
            2 => Self::Terminate,
            3 => Self::Kill,
            4 => Self::Pause,
            5 => Self::Resume,
            _ => return Err(malformed()),
        })
    }
}

impl News {
    pub(crate) fn failed(stage: Stage, error: &io::Error) -> Self {
        Self::Failed { stage, errno: error.raw_os_error().unwrap_or(0) }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        match self {
            Self::Forked { pid, start, shim_start, means, cgroup } => {
                out.u64(1);
                out.u64(u64::from(*pid));
                out.u64(*start);
                out.u64(*shim_start);
                out.u64(means_code(Some(*means)));
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
            Self::Done { status, began, leaked, usage, unkillable } => {
                out.u64(4);
                out.status(*status);
                out.u64(u64::from(*began));
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
                out.u64(u64::from(over.held_by == HeldBy::Cgroup));
            }
        }
        out.frame()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut body = Reader(body);
        Ok(match body.u64()? {
            1 => Self::Forked {
                pid: body.u64()? as u32,
                start: body.u64()?,
                shim_start: body.u64()?,
                means: means_from(body.u64()?)?.ok_or_else(malformed)?,
                cgroup: Some(body.os()?).filter(|path| !path.is_empty()).map(PathBuf::from),
            },
            2 => Self::Failed {
                stage: match body.u64()? {
                    0 => Stage::Contain,
                    1 => Stage::Fork,
                    2 => Stage::Exec,
                    3 => Stage::Restrict,
                    _ => return Err(malformed()),
                },
                errno: body.u64()? as i32,
            },
            3 => Self::LeaderEnded(body.status()?.ok_or_else(malformed)?),
            4 => Self::Done {
                status: body.status()?,
                began: body.u64()? == 1,
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
            7 => Self::OverLimit(OverLimit {
                resource: match body.u64()? {
                    0 => Resource::Memory,
                    1 => Resource::Processes,
                    2 => Resource::Cpu,
                    _ => return Err(malformed()),
                },
                used: body.u64()?,
                limit: body.u64()?,
                held_by: if body.u64()? == 1 { HeldBy::Cgroup } else { HeldBy::Sampling },
            }),
            _ => return Err(malformed()),
        })
    }
}

/// Checks the length in front of a frame.
pub(crate) fn frame_length(prefix: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > MAX_FRAME { Err(malformed()) } else { Ok(length) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A launch that has something of everything.
    pub(crate) fn launch() -> Launch {
        Launch {
            program: "/bin/echo".into(),
            arg0: "echo".into(),
            args: vec![OsString::from_vec(vec![0xff, b'a']), "".into()],
            cwd: "/".into(),
            env: vec![("A".into(), "b=c".into())],
            means: Some(Means::Sweep),
            sandboxed: true,
            rules: Some(Rules {
                read: vec!["/usr".into()],
                write: vec![],
                devices: vec!["/dev/null".into()],
                ports: Some(vec![443]),
            }),
            files: vec![Content::Of("/etc/services".into()), Content::Given(vec![0, b'\n'])],
            limits: ResourceLimits::new().memory(1).cpu(Duration::from_secs(2)),
            id: "yb-1".into(),
            stdin: true,
            channel: true,
        }
    }

    #[test]
    fn orders_and_news_survive_the_wire() {
        let launch = Order::Launch(Box::new(launch()));
        for order in [launch, Order::Terminate, Order::Kill, Order::Pause, Order::Resume] {
            let frame = order.encode();
            let length = frame_length(*frame.first_chunk().unwrap()).unwrap();
            assert_eq!(length, frame.len() - 4);
            assert_eq!(Order::decode(&frame[4..]).unwrap(), order);
        }
        let usage = Usage {
            user: Duration::from_micros(7),
            system: Duration::from_micros(9),
            peak_rss_of_largest_process: 4096,
        };
        for news in [
            News::Started,
            News::Forked {
                pid: 7,
                start: 9,
                shim_start: 8,
                means: Means::Cgroup,
                cgroup: Some("/x/y".into()),
            },
            News::Failed { stage: Stage::Exec, errno: 13 },
            News::LeaderEnded(ExitStatus::Code(-1)),
            News::Paused,
            News::OverLimit(OverLimit {
                resource: Resource::Cpu,
                used: 3,
                limit: 2,
                held_by: HeldBy::Sampling,
            }),
            News::Done {
                status: Some(ExitStatus::Signal(9)),
                began: true,
                leaked: true,
                usage,
                unkillable: vec![3, 4],
            },
            News::Done { status: None, began: false, leaked: false, usage, unkillable: vec![] },
        ] {
            assert_eq!(News::decode(&news.encode()[4..]).unwrap(), news);
        }
    }

    #[test]
    fn a_malformed_frame_is_an_error_not_a_panic() {
        let whole = Order::Launch(Box::new(Launch {
            program: "/bin/echo".into(),
            arg0: "echo".into(),
            args: vec!["a".into()],
            cwd: "/".into(),
            env: vec![],
            means: None,
            sandboxed: false,
            rules: None,
            files: vec![Content::Given(vec![b'x'])],
            limits: ResourceLimits::new(),
            id: "yb-1".into(),
            stdin: false,
            channel: false,
        }))
        .encode();
        for length in 0..whole.len() - 4 {
            assert!(Order::decode(&whole[4..4 + length]).is_err());
            assert!(News::decode(&whole[4..4 + length]).is_err());
        }
        assert!(frame_length(u32::MAX.to_le_bytes()).is_err());
    }
}
