//! One process, known by pid and start time: a pid alone may be somebody else by now.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, any(test, not(target_os = "linux"))))]
mod ps;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(all(unix, not(target_os = "linux")))]
use ps as system;

/// A process that a test wants to know about later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// When it started, in the kernel's own unit.
    pub start_time: u64,
}

impl Process {
    /// The process that calls this.
    #[must_use]
    pub fn this() -> Self {
        let pid = std::process::id();
        Self { pid, start_time: system::stat(pid).map_or(0, |stat| stat.start_time) }
    }

    /// The process that has this pid now; none when there is none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        system::stat(pid).map(|stat| Self { pid, start_time: stat.start_time })
    }

    /// Whether it still runs; a zombie does not.
    #[must_use]
    pub fn is_alive(self) -> bool {
        system::stat(self.pid).is_some_and(|stat| stat.start_time == self.start_time && !stat.is_dead())
    }

    /// Waits until it no longer runs; false when it still does after that time.
    #[must_use]
    pub fn is_gone_within(self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while self.is_alive() {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Waits for the file that a `pid_file` step writes, and reads it.
    ///
    /// # Panics
    /// When the file is not there after ten seconds.
    #[must_use]
    pub fn from_file(path: &Path) -> Self {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Ok(text) = std::fs::read_to_string(path) {
                return text.trim().parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
            assert!(Instant::now() < end, "no process wrote its pid to {}", path.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.pid, self.start_time)
    }
}

impl FromStr for Process {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pid, start_time) = text.split_once(' ').ok_or(format!("no pid and start time: {text:?}"))?;
        let bad = |error: std::num::ParseIntError| format!("{text:?}: {error}");
        Ok(Self { pid: pid.parse().map_err(bad)?, start_time: start_time.parse().map_err(bad)? })
    }
}

/// Whether the process with this pid and start time still runs; a zombie does not.
#[must_use]
pub fn alive(pid: u32, start_time: u64) -> bool {
    Process { pid, start_time }.is_alive()
}

/// What the system says about one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) start_time: u64,
}

impl Stat {
    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// A process with what is known about it, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Which one it is.
    pub process: Process,
    /// The pid of its parent.
    pub parent: u32,
    /// `R`, `S`, `T` (stopped), `Z` (zombie) and so on.
    pub state: char,
    /// Its command line, or its name where it has none any more.
    pub command: String,
}

impl ProcessInfo {
    fn new(pid: u32, stat: &Stat) -> Self {
        let command = system::command_line(pid).filter(|line| !line.is_empty());
        Self {
            process: Process { pid, start_time: stat.start_time },
            parent: stat.parent,
            state: stat.state,
            command: command.unwrap_or_else(|| format!("[{}]", stat.name)),
        }
    }
}

impl fmt::Display for ProcessInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command: String = self.command.chars().take(200).collect();
        write!(
            formatter,
            "process {} (parent {}, state {}): {command}",
            self.process.pid, self.parent, self.state
        )
    }
}

/// Every process below this one, zombies included.
#[must_use]
pub fn descendants() -> Vec<ProcessInfo> {
    let table = system::all();
    let mut family = vec![std::process::id()];
    let mut found = Vec::new();
    while let Some(parent) = family.pop() {
        for (pid, stat) in table.iter().filter(|(_, stat)| stat.parent == parent) {
            family.push(*pid);
            found.push(ProcessInfo::new(*pid, stat));
        }
    }
    found
}

/// Every living process, this one excepted, whose working directory, program or command line mentions `dir`.
#[must_use]
pub fn processes_in(dir: &Path) -> Vec<ProcessInfo> {
    let given = dir.to_string_lossy().into_owned();
    let real = dir.canonicalize().map(|dir| dir.to_string_lossy().into_owned()).unwrap_or(given.clone());
    living(|pid| system::traces(pid).iter().any(|trace| trace.contains(&given) || trace.contains(&real)))
}

/// Every living process, this one excepted, that was started with `name=value` in its environment.
#[must_use]
pub fn processes_with_env(name: &str, value: &str) -> Vec<ProcessInfo> {
    let wanted = format!("{name}={value}");
    living(|pid| system::environment(pid).contains(&wanted))
}

fn living(wanted: impl Fn(u32) -> bool) -> Vec<ProcessInfo> {
    let this = std::process::id();
    let mut table = system::all();
    table.retain(|(pid, stat)| *pid != this && !stat.is_dead() && wanted(*pid));
    table.iter().map(|(pid, stat)| ProcessInfo::new(*pid, stat)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_start_time_is_another_process() {
        let this = Process::this();
        assert!(this.is_alive());
        assert!(!alive(this.pid, this.start_time + 1));
        assert_eq!(this.to_string().parse(), Ok(this));
    }
}
