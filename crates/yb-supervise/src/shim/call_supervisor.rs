//! Makes or refuses the system calls of a child that Landlock does not restrict and a filter can't judge: changes of
//! file attributes, which depend on the path, and of priorities, which depend on the target.
//!
//! A changed attribute must belong to a file below a writable directory of the sandbox. The supervisor opens the file as
//! the child sees it, checks where the opened file is, and changes it through that descriptor, so the child can't
//! exchange it in between. It runs in a thread without capabilities, so it may change no more than the child itself.

mod attributes;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::process_table;
use crate::restrict::drop_capabilities;
use crate::sys::{self, SupervisedCall, SupervisedResult};
use attributes::AttributeChange;

/// The longest chain of ancestors that is followed.
const MAX_ANCESTORS: usize = 4096;

/// Answers the supervised calls of one tree.
pub(super) struct CallSupervisor {
    listener: OwnedFd,
    /// The real paths of the writable directories and files.
    roots: Vec<PathBuf>,
}

impl CallSupervisor {
    /// Starts the thread. It ends with the process, or when no process below the filter is left.
    pub(super) fn start(listener: OwnedFd, roots: &[PathBuf]) -> io::Result<()> {
        let roots = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        sys::speed_up_supervisor(listener.as_fd());
        let supervisor = Self { listener, roots };
        let thread = std::thread::Builder::new().name("call-supervisor".to_owned());
        thread.spawn(move || supervisor.run()).map(drop)
    }

    fn run(&self) {
        if drop_capabilities().is_err() {
            // Closing the listener makes all supervised calls fail.
            return;
        }
        loop {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            if poll(&mut fds, None).is_ok() && !fds[0].revents().contains(PollFlags::IN) {
                return;
            }
            match sys::receive_supervised_call(self.listener.as_fd()) {
                Ok(Some(call)) => {
                    let result = self.handle(&call);
                    sys::answer_supervised_call(self.listener.as_fd(), &call, result);
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    fn handle(&self, call: &SupervisedCall) -> SupervisedResult {
        let arguments = call.arguments;
        let target = match call.number {
            libc::SYS_sched_setaffinity
            | libc::SYS_sched_setscheduler
            | libc::SYS_sched_setparam
            | libc::SYS_sched_setattr => arguments[0],
            libc::SYS_setpriority | libc::SYS_ioprio_set => arguments[1],
            _ => {
                return match self.change(call) {
                    Ok(()) => SupervisedResult::Done,
                    Err(errno) => SupervisedResult::Failed(errno),
                };
            }
        };
        // The target is in a register, so the child can't change it after this check.
        if is_descendant(target as u32) {
            SupervisedResult::Continue
        } else {
            SupervisedResult::Failed(Errno::PERM)
        }
    }

    fn change(&self, call: &SupervisedCall) -> Result<(), Errno> {
        let (target, change) = AttributeChange::read(call)?;
        let file = target.open()?;
        // Everything read so far belongs to the caller only if it still waits.
        if !sys::is_supervised_call_valid(self.listener.as_fd(), call) {
            return Err(Errno::INTR);
        }
        let path = attributes::real_path(&file)?;
        if !self.roots.iter().any(|root| path.starts_with(root)) {
            return Err(Errno::PERM);
        }
        change.apply(&file)
    }
}

/// Returns whether a process or thread is below this process.
fn is_descendant(target: u32) -> bool {
    let shim = std::process::id();
    let mut pid = target;
    for _ in 0..MAX_ANCESTORS {
        match process_table::parent(pid) {
            Some(parent) if parent == shim => return true,
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}
