//! How a shim starts its child, and lets go of what only the child may hold.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::env;
#[cfg(target_os = "linux")]
use crate::restrict::Restriction;
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
    #[cfg(target_os = "linux")]
    let mut restriction = match &launch.rules {
        Some(rules) => Some(Restriction::prepare(rules).map_err(|error| (Stage::Restrict, error))?),
        None => None,
    };
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
            let mut stage = Stage::Exec;
            let mut become_child = || {
                become_child(launch, stdin)?;
                #[cfg(target_os = "linux")]
                if let Some(restriction) = restriction.take() {
                    restriction.apply().inspect_err(|_| stage = Stage::Restrict)?;
                }
                Ok(())
            };
            let error = match become_child() {
                Ok(()) => exec.exec(),
                Err(error) => error,
            };
            let [a, b, c, d] = error.raw_os_error().unwrap_or(0).to_le_bytes();
            let _ = report.write_all(&[stage as u8, a, b, c, d]);
            sys::exit_now(127)
        }
        Fork::Parent(leader) => Ok(Held { leader, go, failure }),
    }
}

impl Held {
    /// Lets it execute its program; an exec that fails is reported through a pipe that a good one closes.
    pub(super) fn release(mut self) -> Result<(), (Stage, io::Error)> {
        self.go.write_all(&[1]).map_err(|error| (Stage::Fork, error))?;
        let mut told = [0; 5];
        if self.failure.read_exact(&mut told).is_ok() {
            let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED);
            let [stage, a, b, c, d] = told;
            let stage = if stage == Stage::Restrict as u8 { Stage::Restrict } else { Stage::Exec };
            return Err((stage, io::Error::from_raw_os_error(i32::from_le_bytes([a, b, c, d]))));
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
