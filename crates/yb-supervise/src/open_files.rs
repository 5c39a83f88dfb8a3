//! The limit of open files: raised for the host, which has pipes and sockets for every child, and not for children.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More are not needed, and some programs take time for every possible descriptor.
const ENOUGH: u64 = 65_536;

/// The soft limit that this process was started with; absent if it was not changed.
static INHERITED: OnceLock<u64> = OnceLock::new();

/// Raises the limit of open files of this process as far as the hard limit permits, and returns it. Children get the
/// limit that this process was started with.
pub fn raise_open_files_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (current, maximum_value) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let wanted = maximum_value.min(ENOUGH);
    if current >= wanted || setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_err() {
        return current;
    }
    let _ = INHERITED.set(current);
    wanted
}

/// Returns the soft limit for children, if it differs from that of this process.
pub(crate) fn limit_of_children() -> Option<u64> {
    INHERITED.get().copied()
}

/// Returns a fix for an error that is caused by the limit.
pub(crate) fn hint(error: &std::io::Error) -> Option<String> {
    let limit = getrlimit(Resource::Nofile).current.map_or("none".to_owned(), |limit| limit.to_string());
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            Some(format!("the limit of open files is too low ({limit}); raise it: `ulimit -n 4096`"))
        }
        Some(libc::ENFILE) => Some("the machine has too many open files; close other programs".to_owned()),
        _ => None,
    }
}
