//! The machine's process table: who descends from whom, and signals that can't hit a stranger.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::record::Identity;

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: Identity,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// Ended but not yet waited for: nothing is left to kill.
    pub(crate) zombie: bool,
    /// By a signal, until SIGCONT.
    pub(crate) stopped: bool,
    /// Whether its environment holds the marker that was asked for.
    pub(crate) marked: bool,
}

/// How the processes of one supervised tree are told from all others.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    /// When its leader was started, if this process saw that; else it may be long ago, and the number of a session
    /// that has ended may be another's by now.
    pub(crate) born: Option<Instant>,
    /// Everything below this process, which is not itself part of the tree.
    pub(crate) below: Option<Identity>,
    /// Everything in the session or group of this leader.
    pub(crate) leader: Option<Identity>,
    /// Everything whose environment holds this `NAME=value`.
    pub(crate) marker: Option<Vec<u8>>,
}

/// Far too short to start as many processes as there are pids.
const A_MOMENT: Duration = Duration::from_millis(100);

impl Tree {
    /// The living processes of the tree, as the table shows them now.
    pub(crate) fn living(&self) -> Vec<Identity> {
        let rows = self.rows(&mut |_| {});
        select(&rows, self)
    }

    /// Those of the living that are not stopped.
    pub(crate) fn running(&self) -> Vec<Identity> {
        let rows = self.rows(&mut |_| {});
        select_rows(&rows, self).into_iter().filter(|row| !row.stopped).map(|row| row.id).collect()
    }

    /// The oldest child of the leader, as far as it lives.
    pub(crate) fn child_of_leader(&self) -> Option<Identity> {
        let leader = self.leader?;
        let rows = self.rows(&mut |_| {});
        let children = rows.iter().filter(|row| row.parent == leader.pid && !row.zombie);
        children.map(|row| row.id).min_by_key(|child| (child.start, child.pid))
    }

    /// Sends SIGKILL to every living process of the tree and says which those were.
    pub(crate) fn kill(&self) -> Vec<Identity> {
        // Those that are known by themselves die as soon as they are seen: a storm of short-lived processes would be
        // others by the time the whole table is read.
        let rows = self.rows(&mut |row| {
            if !row.zombie && self.holds(row) {
                signal(row.id, Signal::KILL);
            }
        });
        let living = select(&rows, self);
        for process in &living {
            signal(*process, Signal::KILL);
        }
        living
    }

    fn rows(&self, seen: &mut dyn FnMut(&Row)) -> Vec<Row> {
        // Pids are handed out in order. Within a moment they can't have come full circle, so only those after the
        // leader's can be its descendants: for a short-lived child that saves most of the work.
        let young = self.leader.filter(|_| self.born.is_some_and(|born| born.elapsed() < A_MOMENT));
        platform::rows(self.marker.as_deref(), self.leader, young, seen)
    }

    /// Whether a process belongs to the tree by itself, whatever else is in the table.
    fn holds(&self, row: &Row) -> bool {
        let of_leader = self.leader.is_some_and(|leader| row.id == leader);
        of_leader || row.marked || self.below.is_some_and(|root| row.parent == root.pid && lives(root))
    }
}

/// Whether it is still there and no zombie. A row that was read before and names it as the parent then tells the
/// truth.
pub(crate) fn lives(process: Identity) -> bool {
    let lives = |row: Row| row.id == process && !row.zombie;
    process.pid == std::process::id() || platform::row(process.pid).is_some_and(lives)
}

fn select(rows: &[Row], tree: &Tree) -> Vec<Identity> {
    select_rows(rows, tree).into_iter().map(|row| row.id).collect()
}

fn select_rows<'a>(rows: &'a [Row], tree: &Tree) -> Vec<&'a Row> {
    // A session or group keeps its number for as long as it has members. Another process under the leader's pid
    // therefore means that ours has none left, and that the number says nothing any more.
    let leader =
        tree.leader.filter(|leader| rows.iter().all(|row| row.id.pid != leader.pid || row.id == *leader));
    let below = tree.below.filter(|root| lives(*root));
    // Long afterwards the number may have been another's, whose leader is gone as well: then only the leader itself
    // or a marked member vouches for it.
    let vouched = |number: fn(&Row) -> u32| {
        leader.filter(|leader| {
            let vouches = |row: &Row| row.id == *leader || (row.marked && number(row) == leader.pid);
            tree.born.is_some() || rows.iter().any(vouches)
        })
    };
    let (session, group) = (vouched(|row| row.session), vouched(|row| row.group));
    let mut ours: HashSet<u32> = rows
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
        ours.remove(&root.pid);
    }
    // Children of ours are ours; the table is not ordered, so repeat until nothing is added.
    loop {
        let before = ours.len();
        for row in rows {
            if ours.contains(&row.parent) && below.is_none_or(|root| root.pid != row.id.pid) {
                ours.insert(row.id.pid);
            }
        }
        if ours.len() == before {
            break;
        }
    }
    rows.iter().filter(|row| !row.zombie && ours.contains(&row.id.pid)).collect()
}

/// Signals exactly that process; nothing happens when it is gone or its pid belongs to another by now.
pub(crate) fn signal(process: Identity, signal: Signal) {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return };
    #[cfg(target_os = "linux")]
    if let Ok(handle) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        // The handle pins the process, so the check can't be overtaken.
        if start_time(process.pid) == Some(process.start) {
            let _ = rustix::process::pidfd_send_signal(handle, signal);
        }
        return;
    }
    if start_time(process.pid) == Some(process.start) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// When the process with this pid started, if there is one.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    platform::row(pid).map(|row| row.id.start)
}

#[cfg(target_os = "linux")]
mod platform {
    use std::io::Read as _;

    use super::{Identity, Row};

    /// How often one look at the table follows those that are born while it looks.
    const ROUNDS: usize = 64;

    pub(super) fn row(pid: u32) -> Option<Row> {
        // The line is always shorter, and comes whole in one read.
        let mut line = [0; 1024];
        let length = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
        parse_stat(&line[..length])
    }

    /// All processes; those before `from`, if pids have not wrapped since, are left out. The marker is looked for
    /// only in those that started no earlier than `leader`.
    pub(super) fn rows(
        marker: Option<&[u8]>,
        leader: Option<Identity>,
        from: Option<Identity>,
        seen: &mut dyn FnMut(&Row),
    ) -> Vec<Row> {
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
        let mut rows: Vec<Row> = pids.filter(|pid| *pid >= from).filter_map(&mut read).collect();
        // One that started its successor and ended while we read is in no list: look at those born meanwhile.
        for _ in 0..ROUNDS {
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

    /// A process that is just executing a program seems to have none for a moment: look again.
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

    /// The pid that was handed out last, which is the last word of this file.
    fn last_pid() -> Option<u32> {
        std::fs::read_to_string("/proc/loadavg").ok()?.trim().rsplit(' ').next()?.parse().ok()
    }

    /// `pid (name) state ppid pgrp session … starttime …`; the name may hold spaces and parentheses.
    fn parse_stat(stat: &[u8]) -> Option<Row> {
        let text = String::from_utf8_lossy(stat);
        let (pid, rest) = text.split_once(' ')?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let small = |index: usize| number(index).and_then(|value| u32::try_from(value).ok());
        Some(Row {
            id: Identity { pid: pid.parse().ok()?, start: number(19)? },
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
        fn a_name_with_spaces_and_parentheses_is_read() {
            let stat = b"4242 (a) R b (x) S 17 4242 4200 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
            let row = parse_stat(stat).unwrap();
            assert_eq!(row.id, Identity { pid: 4242, start: 987_654 });
            assert_eq!((row.parent, row.group, row.session, row.zombie), (17, 4242, 4200, false));
        }

        #[test]
        fn this_process_is_in_the_table() {
            let me = std::process::id();
            let start = row(me).unwrap().id.start;
            assert!(
                rows(None, None, None, &mut |_| {}).iter().any(|row| row.id == Identity { pid: me, start })
            );
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use super::{Identity, Row};

    pub(super) fn row(pid: u32) -> Option<Row> {
        rows(None, None, None, &mut |_| {}).into_iter().find(|row| row.id.pid == pid)
    }

    /// There is no portable table but the one `ps` prints; `-E` appends the environment of the user's own processes.
    #[expect(clippy::disallowed_methods, reason = "the supervisor itself, looking for what it supervises")]
    pub(super) fn rows(
        marker: Option<&[u8]>,
        _: Option<Identity>,
        _: Option<Identity>,
        seen: &mut dyn FnMut(&Row),
    ) -> Vec<Row> {
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

    /// `lstart` is five words: `Sun Nov 15 13:25:37 2026`; as a start time its digest is enough.
    fn parse_ps(line: &[u8], marker: Option<&[u8]>) -> Option<Row> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let small = |index: usize| words.get(index)?.parse::<u32>().ok();
        let mut hasher = DefaultHasher::new();
        words.get(5..10)?.hash(&mut hasher);
        let marker = marker.map(String::from_utf8_lossy);
        Some(Row {
            id: Identity { pid: small(0)?, start: hasher.finish() },
            parent: small(1)?,
            group: small(2)?,
            // macOS prints 0 here; the group then has to do.
            session: small(3).unwrap_or(0),
            zombie: words.get(4)?.starts_with('Z'),
            stopped: words.get(4)?.starts_with('T'),
            marked: marker.is_some_and(|marker| words.iter().skip(10).any(|word| *word == marker)),
        })
    }
}

#[cfg(test)]
mod tests;
