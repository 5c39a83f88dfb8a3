//! `dump`: what this process was given, exactly, as JSON that a test can assert on.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Map, Value, json};

/// Everything that a parent decides about a child.
pub(crate) fn everything(stdin: &[u8]) -> Value {
    let environment: Map<String, Value> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), exactly(&value)))
        .collect();
    let (group, session) = group_and_session();
    json!({
        "argv": std::env::args_os().map(|arg| exactly(&arg)).collect::<Vec<_>>(),
        "env": environment,
        "cwd": std::env::current_dir().map(|dir| exactly(dir.as_os_str())).unwrap_or_default(),
        "exe": std::env::current_exe().map(|path| exactly(path.as_os_str())).unwrap_or_default(),
        "stdin": { "bytes": stdin.len(), "text": String::from_utf8_lossy(stdin) },
        "pid": std::process::id(),
        "ppid": rustix::process::getppid().map_or(0, rustix::process::Pid::as_raw_pid),
        "pgid": group,
        "sid": session,
        "fds": descriptors(),
        "signals": signals(),
    })
}

/// A string where the bytes are one, else `{"hex": …}`.
fn exactly(text: &OsStr) -> Value {
    match text.to_str() {
        Some(text) => json!(text),
        None => {
            let hex: String = text.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "hex": hex })
        }
    }
}

/// Open descriptors by number, as Linux names them; elsewhere the numbers alone.
fn descriptors() -> Map<String, Value> {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let Ok(entries) = std::fs::read_dir(folder) else { return Map::new() };
    entries
        .filter_map(Result::ok)
        .map(|entry| {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            (entry.file_name().to_string_lossy().into_owned(), exactly(target.as_os_str()))
        })
        // The descriptor that reads the folder itself is closed again when the test looks.
        .filter(|(_, target)| !target.as_str().is_some_and(|target| target.starts_with("/proc/")))
        .collect()
}

/// From Linux itself: rustix has no value for the 0 of a group or session that began outside this PID namespace.
fn group_and_session() -> (Option<u32>, Option<u32>) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything: the state, the parent, the group, the session.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut numbers = fields.split_whitespace().skip(2).map(|field| field.parse().ok());
    (numbers.next().flatten(), numbers.next().flatten())
}

/// The numbers of the blocked and ignored signals, where Linux tells them.
fn signals() -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let mask = status.lines().find_map(|line| line.strip_prefix(name))?;
        let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
        // The C library uses some above 31 for itself.
        Some((1..32).filter(|number| mask >> (number - 1) & 1 == 1).collect())
    };
    json!({ "blocked": numbers("SigBlk:"), "ignored": numbers("SigIgn:") })
}
