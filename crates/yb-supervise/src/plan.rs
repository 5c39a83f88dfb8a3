//! A resolved and validated command, ready to be spawned.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::PipeWriter;
use std::path::PathBuf;
use std::pin::Pin;

use crate::record::TreeRecord;

/// A function that is called with the record of a tree before its program runs.
pub(crate) type StartHook =
    Box<dyn FnOnce(TreeRecord) -> Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>> + Send>;

/// What a backend spawns.
#[derive(Debug)]
pub(crate) struct SpawnPlan {
    pub(crate) program: PathBuf,
    #[cfg(unix)]
    pub(crate) arg0: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<OsString, OsString>,
    #[cfg(unix)]
    pub(crate) method: Option<crate::report::ContainmentMethod>,
    /// Whether the program is a sandbox wrapper that starts the requested program.
    #[cfg(unix)]
    pub(crate) sandboxed: bool,
    /// The Landlock rules to apply.
    #[cfg(unix)]
    pub(crate) rules: Option<crate::wire::LandlockRules>,
    /// The contents of files that exist only in the sandbox.
    #[cfg(unix)]
    pub(crate) files: Vec<crate::wire::FileContent>,
    /// The overlays that the child mounts.
    #[cfg(unix)]
    pub(crate) overlays: Vec<crate::sandbox::OverlayMount>,
    #[cfg(unix)]
    pub(crate) limits: crate::limits::ResourceLimits,
    /// The socket over which the sandbox init sends its listeners.
    #[cfg(unix)]
    pub(crate) channel: Option<std::os::unix::net::UnixStream>,
    /// Unique among all supervised children of this machine.
    pub(crate) id: String,
    pub(crate) stdin: Option<std::io::PipeReader>,
    pub(crate) stdout: PipeWriter,
    pub(crate) stderr: PipeWriter,
}

/// Returns an id that is unique on this machine: host pid, time and a counter.
pub(crate) fn unique_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = jiff::Timestamp::now().as_microsecond();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("yb-{}-{now:x}-{count}", std::process::id())
}
