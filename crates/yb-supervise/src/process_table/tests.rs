//! Selection of a tree's processes from synthetic tables.

use super::*;

fn row(pid: u32, parent: u32, group: u32, session: u32) -> ProcessRow {
    ProcessRow {
        id: ProcessIdentity { pid, start: u64::from(pid) },
        parent,
        group,
        session,
        zombie: false,
        stopped: false,
        marked: false,
    }
}

fn tree() -> ProcessTree {
    ProcessTree { born: Some(Instant::now()), below: None, leader: None, marker: None }
}

fn this() -> ProcessIdentity {
    let pid = std::process::id();
    ProcessIdentity { pid, start: start_time(pid).unwrap() }
}

fn pids(rows: &[ProcessRow], tree: &ProcessTree) -> Vec<u32> {
    select(rows, tree).into_iter().map(|id| id.pid).collect()
}

#[test]
fn descendants_are_found_in_any_order() {
    let me = std::process::id();
    let (child, grandchild) = (me + 1, me + 2);
    let rows = [row(grandchild, child, 1, 1), row(child, me, 1, 1), row(me, 1, 1, 1), row(me + 3, 1, 1, 1)];
    assert_eq!(pids(&rows, &ProcessTree { below: Some(this()), ..tree() }), [grandchild, child]);
    // Children of another process with the same pid don't match.
    let gone = ProcessIdentity { pid: 1, start: u64::MAX };
    assert_eq!(pids(&rows, &ProcessTree { below: Some(gone), ..tree() }), [0; 0]);
}

#[test]
fn orphan_is_found_by_session_group_or_marker() {
    let mut marked = row(50, 1, 50, 50);
    marked.marked = true;
    let rows = [
        row(10, 1, 10, 10),
        row(20, 1, 10, 99),
        row(30, 1, 30, 10),
        row(40, 1, 40, 40),
        marked,
        row(60, 50, 60, 60),
    ];
    let tree = ProcessTree {
        leader: Some(ProcessIdentity { pid: 10, start: 10 }),
        marker: Some(b"M=1".to_vec()),
        ..tree()
    };
    assert_eq!(pids(&rows, &tree), [10, 20, 30, 50, 60]);
}

#[test]
fn process_with_reused_leader_pid_is_not_selected() {
    let stranger = ProcessRow { id: ProcessIdentity { pid: 10, start: 999 }, ..row(10, 1, 10, 10) };
    let rows = [stranger, row(20, 10, 10, 10)];
    let tree = ProcessTree { leader: Some(ProcessIdentity { pid: 10, start: 10 }), ..tree() };
    assert_eq!(pids(&rows, &tree), [0; 0]);
}

#[test]
fn session_of_old_record_needs_confirmation() {
    let leader = Some(ProcessIdentity { pid: 10, start: 10 });
    let long_ago = ProcessTree { born: None, leader, ..tree() };
    // The pid may have been reused by a process whose daemon outlived it.
    let orphans = [row(20, 1, 10, 10), row(30, 20, 30, 30)];
    assert_eq!(pids(&orphans, &ProcessTree { leader, ..tree() }), [20, 30]);
    assert_eq!(pids(&orphans, &long_ago), [0; 0]);
    let mut ended = row(10, 1, 10, 10);
    ended.zombie = true;
    assert_eq!(pids(&[orphans.to_vec(), vec![ended]].concat(), &long_ago), [20, 30]);
    let marked = ProcessRow { marked: true, ..row(40, 1, 40, 10) };
    assert_eq!(pids(&[orphans.to_vec(), vec![marked]].concat(), &long_ago), [20, 30, 40]);
    // A marked process outside of both confirms neither.
    let elsewhere = ProcessRow { marked: true, ..row(50, 1, 50, 50) };
    assert_eq!(pids(&[orphans.to_vec(), vec![elsewhere]].concat(), &long_ago), [50]);
}

#[test]
fn zombie_is_not_selected_but_its_children_are() {
    let me = std::process::id();
    let mut dead = row(me + 1, me, 1, 1);
    dead.zombie = true;
    let rows = [dead, row(me + 2, me + 1, 1, 1)];
    assert_eq!(pids(&rows, &ProcessTree { below: Some(this()), ..tree() }), [me + 2]);
}

#[test]
fn signal_to_reused_pid_is_not_sent() {
    let me = std::process::id();
    let start = start_time(me).unwrap();
    // Without the comparison of start times this would kill the test.
    signal(ProcessIdentity { pid: me, start: start + 1 }, Signal::KILL);
    assert_eq!(start_time(me), Some(start));
}
