//! What a child may see, write and reach: a view of the machine that begins with nothing.

#[cfg(target_os = "linux")]
mod bubblewrap;
mod exits;
#[cfg(target_os = "linux")]
mod landlock;
mod probe;
#[cfg(unix)]
mod seatbelt;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod view;

use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
pub(crate) use bubblewrap::{StartedBy, wrap};
pub use exits::{BadHost, Exits, HostRule, Refused};
#[cfg(target_os = "linux")]
pub(crate) use landlock::rules;
pub use probe::SandboxUnavailable;
#[cfg(target_os = "linux")]
pub(crate) use probe::bubblewrap;
#[cfg(target_os = "macos")]
pub(crate) use seatbelt::{PROGRAM as SANDBOX_EXEC, profile};

/// A view of the machine for one child: the system read-only, no capabilities, no new privileges, and of everything
/// else only what is named here. By default bubblewrap makes it, which adds PID, mount, IPC, UTS and user namespaces.
///
/// The nearest name wins: a directory below a hidden one can be shown, and one below a shown one hidden. The child's
/// program and the directories of its PATH are shown without being named; its working directory must be.
///
/// ```no_run
/// # async fn example() {
/// use yb_supervise::{Command, Sandbox};
/// let sandbox = Sandbox::new().writable("/work/copy").writable_as("/work/tmp", "/tmp");
/// let report = Command::new("make").current_dir("/work/copy").sandbox(sandbox).run().await;
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Sandbox {
    pub(crate) kind: SandboxKind,
    pub(crate) writable: Vec<Shown>,
    pub(crate) read_only: Vec<Shown>,
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) network: Network,
    pub(crate) exits: Exits,
}

/// What makes a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum SandboxKind {
    /// Namespaces, by the program `bwrap`: what is not shown is not there.
    #[default]
    Bubblewrap,
    /// Rules of the kernel, without any other program: what is not shown can't be opened. Nothing is shown under another
    /// path than its own, processes stay visible, and files can be asked for their size and times.
    Landlock,
    /// A profile of `sandbox-exec`, on macOS. Nobody has tried it yet.
    #[cfg(target_os = "macos")]
    SandboxExec,
}

impl SandboxKind {
    /// All that are tested, the strongest first.
    pub const ALL: [Self; 2] = [Self::Bubblewrap, Self::Landlock];

    /// Whether such sandboxes work here. A child is really started in one, once for each process; later calls know.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub fn probe(self) -> Result<(), SandboxUnavailable> {
        probe::probe(self)
    }

    /// Whether such sandboxes can hold the network of a child, too.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub fn probe_network(self) -> Result<(), SandboxUnavailable> {
        self.probe()?;
        match self {
            Self::Bubblewrap => Ok(()),
            Self::Landlock => probe::landlock_network(),
            #[cfg(target_os = "macos")]
            Self::SandboxExec => Ok(()),
        }
    }
}

impl std::fmt::Display for SandboxKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            #[cfg(target_os = "macos")]
            Self::SandboxExec => "sandbox-exec",
        })
    }
}

/// A file or directory, and the path under which the child sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) source: PathBuf,
    pub(crate) path: PathBuf,
}

/// What a sandboxed child can connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Network {
    /// What the host can.
    #[default]
    Shared,
    /// Nothing but a loopback of its own.
    None,
    /// Nothing but what [`Sandbox::exits`] says.
    Exits,
}

impl Sandbox {
    /// The system, and nothing else.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a file or directory, which the child may change.
    pub fn writable(self, path: impl AsRef<Path>) -> Self {
        self.writable_as(&path, &path)
    }

    /// Shows a file or directory under another path; the child may change it.
    pub fn writable_as(mut self, source: impl AsRef<Path>, path: impl AsRef<Path>) -> Self {
        self.writable.push(Shown::new(source.as_ref(), path.as_ref()));
        self
    }

    /// Shows a file or directory.
    pub fn read_only(self, path: impl AsRef<Path>) -> Self {
        self.read_only_as(&path, &path)
    }

    /// Shows a file or directory under another path.
    pub fn read_only_as(mut self, source: impl AsRef<Path>, path: impl AsRef<Path>) -> Self {
        self.read_only.push(Shown::new(source.as_ref(), path.as_ref()));
        self
    }

    /// Shows a file that has this content, at most 256 KiB, and which the child can't change. Only bubblewrap can: elsewhere
    /// what the host has under that path stays what it is.
    pub fn file(mut self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.as_ref().to_owned(), content.into()));
        self
    }

    /// Hides a file or directory, in case that something shown contains it.
    pub fn hidden(mut self, path: impl AsRef<Path>) -> Self {
        self.hidden.push(path.as_ref().to_owned());
        self
    }

    /// What the child can connect to.
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Lets the child connect to nothing but this.
    pub fn exits(mut self, exits: Exits) -> Self {
        self.exits = exits;
        self.network(Network::Exits)
    }

    /// Made by this means, instead of bubblewrap.
    pub fn by(mut self, kind: SandboxKind) -> Self {
        self.kind = kind;
        self
    }

    /// Whether bubblewrap works here; [`SandboxKind::probe`] asks for any.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub fn probe() -> Result<(), SandboxUnavailable> {
        SandboxKind::Bubblewrap.probe()
    }
}

impl Shown {
    fn new(source: &Path, path: &Path) -> Self {
        Self { source: source.to_owned(), path: path.to_owned() }
    }
}
