//! Sandboxes: what a child may see, write and connect to, starting from nothing.

#[cfg(target_os = "linux")]
mod bubblewrap;
mod egress;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod landlock;
mod overlay;
mod plan;
mod probe;
mod root;
#[cfg(unix)]
mod seatbelt;
#[cfg(target_os = "linux")]
mod syscalls;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod view;

use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use bubblewrap::{BwrapParent, bwrap_args};
pub use egress::{EgressRules, HostRule, InvalidHost, RefusedConnection};
#[cfg(target_os = "linux")]
pub(crate) use filter::{SyscallFilter, decode as decode_program};
#[cfg(target_os = "linux")]
use landlock::rules;
#[cfg(target_os = "linux")]
pub(crate) use overlay::mount_overlays;
pub use overlay::{OverlayMount, is_opaque_dir, is_whiteout};
pub(crate) use plan::{SandboxPlan, plan_sandbox};
pub use probe::SandboxUnavailable;
#[cfg(target_os = "linux")]
use probe::bubblewrap;
#[cfg(target_os = "linux")]
pub(crate) use probe::forget as forget_probes;
pub use root::RootMount;
#[cfg(target_os = "macos")]
use seatbelt::{PROGRAM as SANDBOX_EXEC, profile};

/// A sandbox for one child: the system read-only, no capabilities, no new privileges, and everything else
/// only as listed here. Implemented with bubblewrap by default, which adds PID, mount, IPC, UTS and user
/// namespaces.
///
/// The most specific path wins: a directory below a hidden one can be made visible, and one below a visible
/// one hidden. The child's program and the directories of its PATH are visible by default; its working
/// directory must be listed.
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
    pub(crate) writable: Vec<PathMapping>,
    pub(crate) read_only: Vec<PathMapping>,
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) overlay: Option<OverlayMount>,
    pub(crate) root: Option<RootMount>,
    pub(crate) host_program: bool,
    pub(crate) network: Network,
    pub(crate) egress: EgressRules,
    /// The rule about system calls that does not apply.
    #[cfg(target_os = "linux")]
    without_rule: Option<&'static str>,
    pub(crate) read_only_proc: bool,
    pub(crate) nested: bool,
}

/// The implementation of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum SandboxKind {
    /// Namespaces, set up by `bwrap`: unlisted paths don't exist.
    #[default]
    Bubblewrap,
    /// Landlock rules, without a helper program: unlisted paths can't be opened. Paths can't be remapped,
    /// other processes stay visible, and file metadata stays readable.
    Landlock,
    /// A `sandbox-exec` profile on macOS. Untested.
    #[cfg(target_os = "macos")]
    SandboxExec,
}

impl SandboxKind {
    /// All tested implementations, strongest first.
    pub const ALL: [Self; 2] = [Self::Bubblewrap, Self::Landlock];

    /// Checks whether this kind works on this machine by starting a child in it. The result is cached.
    ///
    /// # Errors
    /// Returns the reason and a fix.
    pub fn probe(self) -> Result<(), SandboxUnavailable> {
        probe::probe(self)
    }

    /// Checks whether this kind can also filter system calls. Without it, a sandbox works but stops less. The result
    /// is cached.
    ///
    /// # Errors
    /// Returns the reason and a fix.
    pub fn probe_syscall_filter(self) -> Result<(), SandboxUnavailable> {
        probe::syscall_filter(self)
    }

    /// Checks whether this kind can also restrict the network.
    ///
    /// # Errors
    /// Returns the reason and a fix.
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

/// A host path and the path at which the child sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathMapping {
    pub(crate) source: PathBuf,
    pub(crate) path: PathBuf,
}

/// What a sandboxed child can connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Network {
    /// Everything that the host can.
    #[default]
    Shared,
    /// Only its own loopback interface.
    None,
    /// Only what [`Sandbox::egress`] allows.
    Filtered,
}

impl Sandbox {
    /// Creates a sandbox that contains only the system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a file or directory visible and writable.
    pub fn writable(self, path: impl AsRef<Path>) -> Self {
        self.writable_as(&path, &path)
    }

    /// Makes a file or directory visible and writable at another path.
    pub fn writable_as(mut self, source: impl AsRef<Path>, path: impl AsRef<Path>) -> Self {
        self.writable.push(PathMapping::new(source.as_ref(), path.as_ref()));
        self
    }

    /// Makes the target of an overlay visible and writable; changes go to its upper layer. Bubblewrap only.
    pub fn overlay(mut self, overlay: OverlayMount) -> Self {
        let target = overlay.target.clone();
        self.overlay = Some(overlay);
        self.writable(target)
    }

    /// Replaces the system by another root directory, which is writable; changes go to its upper layer. Bubblewrap only.
    ///
    /// The program is then one of that root, and so are the directories of its PATH.
    pub fn root(mut self, root: RootMount) -> Self {
        self.root = Some(root);
        self
    }

    /// Runs a program of the host in another root. It is visible there under its own path, read-only.
    pub fn host_program(mut self) -> Self {
        self.host_program = true;
        self
    }

    /// Makes a file or directory visible, read-only.
    pub fn read_only(self, path: impl AsRef<Path>) -> Self {
        self.read_only_as(&path, &path)
    }

    /// Makes a file or directory visible at another path, read-only.
    pub fn read_only_as(mut self, source: impl AsRef<Path>, path: impl AsRef<Path>) -> Self {
        self.read_only.push(PathMapping::new(source.as_ref(), path.as_ref()));
        self
    }

    /// Adds a read-only file with this content, at most 256 KiB. Bubblewrap only: other kinds leave the
    /// host's file at that path.
    pub fn file(mut self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.as_ref().to_owned(), content.into()));
        self
    }

    /// Hides a file or directory that is part of a visible directory.
    pub fn hidden(mut self, path: impl AsRef<Path>) -> Self {
        self.hidden.push(path.as_ref().to_owned());
        self
    }

    /// Sets what the child can connect to.
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Restricts the network to these rules; implies [`Network::Filtered`].
    pub fn egress(mut self, egress: EgressRules) -> Self {
        self.egress = egress;
        self.network(Network::Filtered)
    }

    /// Mounts `/proc` read-only, so that no process can write the memory of another through it. Bubblewrap only.
    pub fn read_only_proc(mut self) -> Self {
        self.read_only_proc = true;
        self
    }

    /// Permits the system calls by which a child makes a sandbox of its own: namespaces and mounts. Bubblewrap only;
    /// landlock forbids mounts.
    pub fn nested_sandbox(mut self) -> Self {
        self.nested = true;
        self
    }

    /// Sets the implementation. Default: bubblewrap.
    pub fn kind(mut self, kind: SandboxKind) -> Self {
        self.kind = kind;
        self
    }

    /// Removes one rule about system calls, to test that the rule has an effect.
    #[doc(hidden)]
    #[cfg(target_os = "linux")]
    pub fn without_syscall_rule(mut self, name: &'static str) -> Self {
        self.without_rule = Some(name);
        self
    }

    /// Returns the names of the rules about system calls.
    #[doc(hidden)]
    #[cfg(target_os = "linux")]
    pub fn syscall_rules(&self) -> Vec<&'static str> {
        syscalls::rules_for(self).map(|rule| rule.name).collect()
    }

    /// Checks whether bubblewrap works on this machine. See [`SandboxKind::probe`] for other kinds.
    ///
    /// # Errors
    /// Returns the reason and a fix.
    pub fn probe() -> Result<(), SandboxUnavailable> {
        SandboxKind::Bubblewrap.probe()
    }
}

impl PathMapping {
    fn new(source: &Path, path: &Path) -> Self {
        Self { source: source.to_owned(), path: path.to_owned() }
    }
}
