//! Processes identified by pid and start time, because pids are reused.

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

/// The identity of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Start time, in kernel units.
    pub start_time: u64,
}

impl Process {
    /// Returns the calling process.
    #[must_use]
    pub fn current() -> Self {
        let pid = std::process::id();
        Self { pid, start_time: system::stat(pid).map_or(0, |stat| stat.start_time) }
    }

    /// Returns the process that currently has this pid.
    #[must_use]
    pub fn from_pid(pid: u32) -> Option<Self> {
        system::stat(pid).map(|stat| Self { pid, start_time: stat.start_time })
    }

    /// Returns whether the process is running; `false` for a zombie.
    #[must_use]
    pub fn is_alive(self) -> bool {
        system::stat(self.pid).is_some_and(|stat| stat.start_time == self.start_time && !stat.is_dead())
    }

    /// Waits until the process has ended; returns `false` on timeout.
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

    /// Waits for a file written by a `pid_file` step, and parses it.
    ///
    /// # Panics
    /// Panics if the file does not exist after ten seconds.
    #[must_use]
    pub fn from_file(path: &Path) -> Self {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Ok(text) = std::fs::read_to_string(path) {
                return text.trim().parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
            assert!(Instant::now() < end, "pid file was not written: {}", path.display());
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
        let (pid, start_time) =
            text.split_once(' ').ok_or(format!("expected pid and start time: {text:?}"))?;
        let bad = |error: std::num::ParseIntError| format!("{text:?}: {error}");
        Ok(Self { pid: pid.parse().map_err(bad)?, start_time: start_time.parse().map_err(bad)? })
    }
}

/// Returns whether the process with this pid and start time is running; `false` for a zombie.
#[must_use]
pub fn alive(pid: u32, start_time: u64) -> bool {
    Process { pid, start_time }.is_alive()
}

/// A row of the process table.
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

/// Details of a process, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its identity.
    pub process: Process,
    /// The pid of its parent.
    pub parent: u32,
    /// `R`, `S`, `T` (stopped), `Z` (zombie) and so on.
    pub state: char,
    /// Command line, or name if there is none.
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

/// Returns all descendants of this process, including zombies.
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

/// Returns all other living processes with `dir` in their working directory, executable or command line.
#[must_use]
pub fn processes_in(dir: &Path) -> Vec<ProcessInfo> {
    let given = dir.to_string_lossy().into_owned();
    let real = dir.canonicalize().map(|dir| dir.to_string_lossy().into_owned()).unwrap_or(given.clone());
    living(|pid| {
        system::directory_references(pid).iter().any(|trace| trace.contains(&given) || trace.contains(&real))
    })
}

/// Returns all other living processes with `name=value` in their initial environment.
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
    fn process_identity_includes_start_time() {
        let this = Process::current();
        assert!(this.is_alive());
        assert!(!alive(this.pid, this.start_time + 1));
        assert_eq!(this.to_string().parse(), Ok(this));
    }
}
