//! How a shim starts its child, and lets go of what only the child may hold.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::env;
use crate::sys::{self, Fork};
use crate::wire::{Launch, Stage};

/// A child that is forked and waits: from the moment that it executes its program, it may do anything to us.
pub(super) struct Held {
    pub(super) leader: Pid,
    go: PipeWriter,
    failure: PipeReader,
}

/// Forks the child, which waits to be released.
pub(super) fn fork(
    launch: &Launch,
    stdin: Option<&OwnedFd>,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Held, (Stage, io::Error)> {
    let fork_error = |error| (Stage::Fork, error);
    let env = launch.env.iter().map(|(name, value)| (name, value));
    let exec = env::exec(&launch.program, &launch.arg0, &launch.args, env, &launch.id).map_err(fork_error)?;
    let (failure, mut report) = io::pipe().map_err(fork_error)?;
    let (mut gate, go) = io::pipe().map_err(fork_error)?;
    match sys::fork(cgroup).map_err(fork_error)? {
        Fork::Child => {
            drop(go);
            // A shim that died meanwhile never releases anybody.
            if gate.read_exact(&mut [0]).is_err() {
                sys::exit_now(127)
            }
            sys::reset_signals();
            sys::pass_on_stdio_only();
            let error = match become_child(launch, stdin) {
                Ok(()) => exec.exec(),
                Err(error) => error,
            };
            let _ = report.write_all(&error.raw_os_error().unwrap_or(0).to_le_bytes());
            sys::exit_now(127)
        }
        Fork::Parent(leader) => Ok(Held { leader, go, failure }),
    }
}

impl Held {
    /// Lets it execute its program; an exec that fails is reported through a pipe that a good one closes.
    pub(super) fn release(mut self) -> Result<(), (Stage, io::Error)> {
        self.go.write_all(&[1]).map_err(|error| (Stage::Fork, error))?;
        let mut errno = [0; 4];
        if self.failure.read_exact(&mut errno).is_ok() {
            let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED);
            return Err((Stage::Exec, io::Error::from_raw_os_error(i32::from_le_bytes(errno))));
        }
        Ok(())
    }
}

/// What a forked child does before it executes the program; stdout and stderr are in place already.
fn become_child(launch: &Launch, stdin: Option<&OwnedFd>) -> io::Result<()> {
    rustix::process::setsid()?;
    std::env::set_current_dir(&launch.cwd)?;
    match stdin {
        Some(stdin) => rustix::stdio::dup2_stdin(stdin)?,
        None => rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?,
    }
    Ok(())
}

/// Lets go of the child's output pipes, so that they end with the tree and not with the shim.
pub(super) fn release_output() {
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
