//! The process of a shim: forked by the keeper if there is one, else the shim program, started again.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use tokio::process::{Child, Command};

#[cfg(target_os = "linux")]
use crate::keeper::{self, ForkedShim};
use crate::shim::SHIM_ARGUMENT;
#[cfg(target_os = "linux")]
use crate::shim::own_shim;

/// A shim, which is a child of this process.
#[derive(Debug)]
pub(super) enum ShimProcess {
    Spawned(Child),
    #[cfg(target_os = "linux")]
    Forked(ForkedShim),
}

/// The descriptors of a shim.
pub(super) struct ShimStdio {
    pub(super) control: UnixStream,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl ShimProcess {
    /// Has a shim forked by the keeper; `None` if `program` is not this program or there is no keeper.
    ///
    /// # Errors
    /// Fails if the keeper is lost. It may have forked a shim before.
    #[cfg(target_os = "linux")]
    pub(super) fn fork(program: &Path, stdio: &ShimStdio) -> io::Result<Option<Self>> {
        if own_shim().is_none_or(|own| own != program) {
            return Ok(None);
        }
        let stdio = [stdio.control.as_fd(), stdio.stdout.as_fd(), stdio.stderr.as_fd()];
        Ok(keeper::fork_shim(stdio)?.map(Self::Forked))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn fork(_: &Path, _: &ShimStdio) -> io::Result<Option<Self>> {
        Ok(None)
    }

    /// Starts the program as a shim.
    pub(super) fn spawn(program: &Path, stdio: ShimStdio) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg(SHIM_ARGUMENT).env_clear().current_dir("/").process_group(0);
        command.stdin(OwnedFd::from(stdio.control)).stdout(stdio.stdout).stderr(stdio.stderr);
        #[expect(clippy::disallowed_methods, reason = "the only place that spawns shims")]
        let shim = command.spawn()?;
        Ok(Self::Spawned(shim))
    }

    /// Returns the pid until the shim is reaped.
    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Self::Spawned(child) => child.id(),
            #[cfg(target_os = "linux")]
            Self::Forked(shim) => shim.id(),
        }
    }

    /// Waits until the shim has exited, and reaps it. Cancel-safe.
    pub(super) async fn wait(&mut self) -> io::Result<()> {
        match self {
            Self::Spawned(child) => child.wait().await.map(drop),
            #[cfg(target_os = "linux")]
            Self::Forked(shim) => shim.wait().await,
        }
    }

    pub(super) fn start_kill(&mut self) -> io::Result<()> {
        match self {
            Self::Spawned(child) => child.start_kill(),
            #[cfg(target_os = "linux")]
            Self::Forked(shim) => shim.kill(),
        }
    }
}
