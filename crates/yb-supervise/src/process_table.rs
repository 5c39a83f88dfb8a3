//! The process table: finds the processes of a tree, and signals them safely against pid reuse.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::record::ProcessIdentity;

/// A row of the process table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessRow {
    pub(crate) id: ProcessIdentity,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// Ended but not reaped.
    pub(crate) zombie: bool,
    /// Stopped by a signal, until SIGCONT.
    pub(crate) stopped: bool,
    /// Whether its environment contains the requested marker.
    pub(crate) marked: bool,
}

/// The criteria by which the processes of a supervised tree are found.
#[derive(Debug, Clone)]
pub(crate) struct ProcessTree {
    /// When the leader was started, if this process started it. Otherwise its session and group ids may have
    /// been reused.
    pub(crate) born: Option<Instant>,
    /// Matches all descendants of this process, but not the process itself.
    pub(crate) below: Option<ProcessIdentity>,
    /// Matches the session and the group of this leader.
    pub(crate) leader: Option<ProcessIdentity>,
    /// Matches processes whose environment contains this `NAME=value`.
    pub(crate) marker: Option<Vec<u8>>,
}

/// Too short for pids to wrap around.
const PID_WRAP_WINDOW: Duration = Duration::from_millis(100);

impl ProcessTree {
    /// Returns the living processes of the tree.
    pub(crate) fn living(&self) -> Vec<ProcessIdentity> {
        let rows = self.rows(&mut |_| {});
        select(&rows, self)
    }

    /// Returns the living processes that are not stopped.
    pub(crate) fn running(&self) -> Vec<ProcessIdentity> {
        let rows = self.rows(&mut |_| {});
        select_rows(&rows, self).into_iter().filter(|row| !row.stopped).map(|row| row.id).collect()
    }

    /// Returns the oldest living child of the leader.
    pub(crate) fn child_of_leader(&self) -> Option<ProcessIdentity> {
        let leader = self.leader?;
        let rows = self.rows(&mut |_| {});
        let children = rows.iter().filter(|row| row.parent == leader.pid && !row.zombie);
        children.map(|row| row.id).min_by_key(|child| (child.start, child.pid))
    }

    /// Sends SIGKILL to every living process of the tree and returns them.
    pub(crate) fn kill(&self) -> Vec<ProcessIdentity> {
        // Kill direct matches while reading: processes of a fork bomb would be gone before the whole table is
        // read.
        let rows = self.rows(&mut |row| {
            if !row.zombie && self.matches(row) {
                signal(row.id, Signal::KILL);
            }
        });
        let living = select(&rows, self);
        for process in &living {
            signal(*process, Signal::KILL);
        }
        living
    }

    fn rows(&self, seen: &mut dyn FnMut(&ProcessRow)) -> Vec<ProcessRow> {
        // Pids are assigned in order. Within a short time they can't wrap around, so only pids after the
        // leader's can be descendants. For short-lived children this saves most of the work.
        let young = self.leader.filter(|_| self.born.is_some_and(|born| born.elapsed() < PID_WRAP_WINDOW));
        platform::rows(self.marker.as_deref(), self.leader, young, seen)
    }

    /// Returns whether a process belongs to the tree regardless of the other rows.
    fn matches(&self, row: &ProcessRow) -> bool {
        let of_leader = self.leader.is_some_and(|leader| row.id == leader);
        of_leader || row.marked || self.below.is_some_and(|root| row.parent == root.pid && is_alive(root))
    }
}

/// Returns whether the process exists and is not a zombie. If so, rows read before that name it as parent are
/// valid.
pub(crate) fn is_alive(process: ProcessIdentity) -> bool {
    let is_alive = |row: ProcessRow| row.id == process && !row.zombie;
    process.pid == std::process::id() || platform::row(process.pid).is_some_and(is_alive)
}

fn select(rows: &[ProcessRow], tree: &ProcessTree) -> Vec<ProcessIdentity> {
    select_rows(rows, tree).into_iter().map(|row| row.id).collect()
}

fn select_rows<'a>(rows: &'a [ProcessRow], tree: &ProcessTree) -> Vec<&'a ProcessRow> {
    // A session or group keeps its id while it has members. If another process has the leader's pid, the
    // session has no members left and its id is meaningless.
    let leader =
        tree.leader.filter(|leader| rows.iter().all(|row| row.id.pid != leader.pid || row.id == *leader));
    let below = tree.below.filter(|root| is_alive(*root));
    // For an old record the id may have been reused by a leader that is gone, too. Then the leader itself or
    // a marked member must confirm it.
    let confirmed = |number: fn(&ProcessRow) -> u32| {
        leader.filter(|leader| {
            let confirms = |row: &ProcessRow| row.id == *leader || (row.marked && number(row) == leader.pid);
            tree.born.is_some() || rows.iter().any(confirms)
        })
    };
    let (session, group) = (confirmed(|row| row.session), confirmed(|row| row.group));
    let mut members: HashSet<u32> = rows
        .iter()
        .filter(|row| {
            session.is_some_and(|leader| row.session == leader.pid)
                || group.is_some_and(|leader| row.group == leader.pid)
                || below.is_some_and(|root| row.parent == root.pid)
                || row.marked
                || leader == Some(row.id)
        })
        .map(|row| row.id.pid)
        .collect();
    if let Some(root) = below {
        members.remove(&root.pid);
    }
    // Add descendants. The table is unordered, so repeat until nothing is added.
    loop {
        let before = members.len();
        for row in rows {
            if members.contains(&row.parent) && below.is_none_or(|root| root.pid != row.id.pid) {
                members.insert(row.id.pid);
            }
        }
        if members.len() == before {
            break;
        }
    }
    rows.iter().filter(|row| !row.zombie && members.contains(&row.id.pid)).collect()
}

/// Signals a process; does nothing if it is gone or its pid was reused.
pub(crate) fn signal(process: ProcessIdentity, signal: Signal) {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return };
    #[cfg(target_os = "linux")]
    if let Ok(handle) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        // The pidfd pins the process, so the check is not racy.
        if start_time(process.pid) == Some(process.start) {
            let _ = rustix::process::pidfd_send_signal(handle, signal);
        }
        return;
    }
    if start_time(process.pid) == Some(process.start) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Returns the parent of a process or thread, if it exists.
#[cfg(target_os = "linux")]
pub(crate) fn parent(pid: u32) -> Option<u32> {
    platform::row(pid).map(|row| row.parent)
}

/// Returns the start time of a process, if it exists.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    platform::row(pid).map(|row| row.id.start)
}

#[cfg(target_os = "linux")]
mod platform {
    use std::io::Read as _;

    use super::{ProcessIdentity, ProcessRow};

    /// How many times a scan catches up with processes that were started during the scan.
    const MAX_ROUNDS: usize = 64;

    pub(super) fn row(pid: u32) -> Option<ProcessRow> {
        // The line is always shorter and is returned by one read.
        let mut line = [0; 1024];
        let length = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
        parse_stat(&line[..length])
    }

    /// Returns all processes, except those before `from` if pids have not wrapped since. Searches the marker
    /// only in processes that started no earlier than `leader`.
    pub(super) fn rows(
        marker: Option<&[u8]>,
        leader: Option<ProcessIdentity>,
        from: Option<ProcessIdentity>,
        seen: &mut dyn FnMut(&ProcessRow),
    ) -> Vec<ProcessRow> {
        let mut last = last_pid();
        let from = from.map_or(0, |from| from.pid);
        let from = if from > 0 && last.is_some_and(|last| last >= from) { from } else { 0 };
        let mut read = |pid: u32| {
            let mut row = row(pid)?;
            let old = leader.is_some_and(|leader| row.id.start < leader.start);
            if let Some(marker) = marker
                && !row.zombie
                && !old
            {
                row.marked = environ(pid).split(|byte| *byte == 0).any(|variable| variable == marker);
            }
            seen(&row);
            Some(row)
        };
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut rows: Vec<ProcessRow> = pids.filter(|pid| *pid >= from).filter_map(&mut read).collect();
        // A process that forked a successor and exited during the scan is missed; read the pids assigned
        // meanwhile.
        for _ in 0..MAX_ROUNDS {
            let now = last_pid();
            let (Some(before), Some(after)) = (last, now) else { break };
            if after <= before {
                break;
            }
            rows.extend((before + 1..=after).filter_map(&mut read));
            last = now;
        }
        rows
    }

    /// Reads the environment. It is briefly empty during exec, hence the retries.
    fn environ(pid: u32) -> Vec<u8> {
        for _ in 0..5 {
            match std::fs::read(format!("/proc/{pid}/environ")) {
                Ok(environ) if environ.is_empty() => {
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
                environ => return environ.unwrap_or_default(),
            }
        }
        Vec::new()
    }

    /// Returns the most recently assigned pid, the last field of this file.
    fn last_pid() -> Option<u32> {
        std::fs::read_to_string("/proc/loadavg").ok()?.trim().rsplit(' ').next()?.parse().ok()
    }

    /// Parses `pid (name) state ppid pgrp session … starttime …`; the name may contain spaces and
    /// parentheses.
    fn parse_stat(stat: &[u8]) -> Option<ProcessRow> {
        let text = String::from_utf8_lossy(stat);
        let (pid, rest) = text.split_once(' ')?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let small = |index: usize| number(index).and_then(|value| u32::try_from(value).ok());
        Some(ProcessRow {
            id: ProcessIdentity { pid: pid.parse().ok()?, start: number(19)? },
            parent: small(1)?,
            group: small(2)?,
            session: small(3)?,
            zombie: matches!(*fields.first()?, "Z" | "X"),
            stopped: matches!(*fields.first()?, "T" | "t"),
            marked: false,
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn stat_with_spaces_and_parentheses_in_name_is_parsed() {
            let stat = b"4242 (a) R b (x) S 17 4242 4200 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
            let row = parse_stat(stat).unwrap();
            assert_eq!(row.id, ProcessIdentity { pid: 4242, start: 987_654 });
            assert_eq!((row.parent, row.group, row.session, row.zombie), (17, 4242, 4200, false));
        }

        #[test]
        fn own_process_is_in_table() {
            let me = std::process::id();
            let start = row(me).unwrap().id.start;
            assert!(
                rows(None, None, None, &mut |_| {})
                    .iter()
                    .any(|row| row.id == ProcessIdentity { pid: me, start })
            );
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use super::{ProcessIdentity, ProcessRow};

    pub(super) fn row(pid: u32) -> Option<ProcessRow> {
        rows(None, None, None, &mut |_| {}).into_iter().find(|row| row.id.pid == pid)
    }

    /// `ps` is the only portable process table; `-E` appends the environment of the user's own processes.
    #[expect(clippy::disallowed_methods, reason = "used by the supervisor itself")]
    pub(super) fn rows(
        marker: Option<&[u8]>,
        _: Option<ProcessIdentity>,
        _: Option<ProcessIdentity>,
        seen: &mut dyn FnMut(&ProcessRow),
    ) -> Vec<ProcessRow> {
        let output = std::process::Command::new("/bin/ps")
            .args(["-A", "-E", "-ww", "-o", "pid=,ppid=,pgid=,sess=,stat=,lstart=,command="])
            .env_clear()
            .env("LC_ALL", "C")
            .output();
        let Ok(output) = output else { return Vec::new() };
        output
            .stdout
            .split(|byte| *byte == b'\n')
            .filter_map(|line| parse_ps(line, marker))
            .inspect(seen)
            .collect()
    }

    /// `lstart` is five words: `Sun Nov 15 13:25:37 2026`; a hash is enough as a start time.
    fn parse_ps(line: &[u8], marker: Option<&[u8]>) -> Option<ProcessRow> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let small = |index: usize| words.get(index)?.parse::<u32>().ok();
        let mut hasher = DefaultHasher::new();
        words.get(5..10)?.hash(&mut hasher);
        let marker = marker.map(String::from_utf8_lossy);
        Some(ProcessRow {
            id: ProcessIdentity { pid: small(0)?, start: hasher.finish() },
            parent: small(1)?,
            group: small(2)?,
            // macOS prints 0 here; the group must suffice.
            session: small(3).unwrap_or(0),
            zombie: words.get(4)?.starts_with('Z'),
            stopped: words.get(4)?.starts_with('T'),
            marked: marker.is_some_and(|marker| words.iter().skip(10).any(|word| *word == marker)),
        })
    }
}

#[cfg(test)]
mod tests;
