//! A command once every question about it is answered: nothing here can still turn out wrong by itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::PipeWriter;
use std::path::PathBuf;

/// What a backend starts.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    #[cfg(unix)]
    pub(crate) arg0: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<OsString, OsString>,
    #[cfg(unix)]
    pub(crate) means: Option<crate::report::Means>,
    /// Whether the program is one that makes a sandbox, and the child runs within.
    #[cfg(unix)]
    pub(crate) sandboxed: bool,
    /// What landlock is to allow.
    #[cfg(unix)]
    pub(crate) rules: Option<crate::wire::Rules>,
    /// What files of the sandbox have in them.
    #[cfg(unix)]
    pub(crate) files: Vec<crate::wire::Content>,
    #[cfg(unix)]
    pub(crate) limits: crate::limits::ResourceLimits,
    /// The end of a socket for the inside of a sandbox.
    #[cfg(unix)]
    pub(crate) channel: Option<std::os::unix::net::UnixStream>,
    /// Unique among all supervised children of this machine.
    pub(crate) id: String,
    pub(crate) stdin: Option<std::io::PipeReader>,
    pub(crate) stdout: PipeWriter,
    pub(crate) stderr: PipeWriter,
}

/// A name for one child that no other has: the host's pid and start, and a count.
pub(crate) fn unique_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = jiff::Timestamp::now().as_microsecond();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("yb-{}-{now:x}-{count}", std::process::id())
}
