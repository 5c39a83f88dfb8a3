//! The `dump` step: the state of this process as JSON, for assertions.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Map, Value, json};

/// Returns everything that a parent determines about a child.
pub(crate) fn process_state(stdin: &[u8]) -> Value {
    let environment: Map<String, Value> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), to_json(&value)))
        .collect();
    let (group, session) = group_and_session();
    json!({
        "argv": std::env::args_os().map(|arg| to_json(&arg)).collect::<Vec<_>>(),
        "env": environment,
        "cwd": std::env::current_dir().map(|dir| to_json(dir.as_os_str())).unwrap_or_default(),
        "exe": std::env::current_exe().map(|path| to_json(path.as_os_str())).unwrap_or_default(),
        "stdin": { "bytes": stdin.len(), "text": String::from_utf8_lossy(stdin) },
        "pid": std::process::id(),
        "ppid": rustix::process::getppid().map_or(0, rustix::process::Pid::as_raw_pid),
        "pgid": group,
        "sid": session,
        "fds": descriptors(),
        "signals": signals(),
    })
}

/// Returns a string, or `{"hex": …}` if it is not UTF-8.
fn to_json(text: &OsStr) -> Value {
    match text.to_str() {
        Some(text) => json!(text),
        None => {
            let hex: String = text.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "hex": hex })
        }
    }
}

/// Returns the open descriptors with their targets (Linux) or numbers only.
fn descriptors() -> Map<String, Value> {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let Ok(entries) = std::fs::read_dir(folder) else { return Map::new() };
    entries
        .filter_map(Result::ok)
        .map(|entry| {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            (entry.file_name().to_string_lossy().into_owned(), to_json(target.as_os_str()))
        })
        // Excludes the descriptor that reads the directory.
        .filter(|(_, target)| !target.as_str().is_some_and(|target| target.starts_with("/proc/")))
        .collect()
}

/// Read from `/proc`, because rustix can't represent group or session 0, which is outside the PID namespace.
fn group_and_session() -> (Option<u32>, Option<u32>) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name: state, parent, group, session.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut numbers = fields.split_whitespace().skip(2).map(|field| field.parse().ok());
    (numbers.next().flatten(), numbers.next().flatten())
}

/// Returns the blocked and ignored signal numbers, on Linux.
fn signals() -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let mask = status.lines().find_map(|line| line.strip_prefix(name))?;
        let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
        // The C library uses some signals above 31 internally.
        Some((1..32).filter(|number| mask >> (number - 1) & 1 == 1).collect())
    };
    json!({ "blocked": numbers("SigBlk:"), "ignored": numbers("SigIgn:") })
}
