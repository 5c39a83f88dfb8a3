//! Who belongs to a tree, in tables that are made up.

use super::*;

fn row(pid: u32, parent: u32, group: u32, session: u32) -> Row {
    Row {
        id: Identity { pid, start: u64::from(pid) },
        parent,
        group,
        session,
        zombie: false,
        stopped: false,
        marked: false,
    }
}

fn tree() -> Tree {
    Tree { born: Some(Instant::now()), below: None, leader: None, marker: None }
}

fn this() -> Identity {
    let pid = std::process::id();
    Identity { pid, start: start_time(pid).unwrap() }
}

fn pids(rows: &[Row], tree: &Tree) -> Vec<u32> {
    select(rows, tree).into_iter().map(|id| id.pid).collect()
}

#[test]
fn descendants_are_found_whatever_the_order() {
    let me = std::process::id();
    let (child, grandchild) = (me + 1, me + 2);
    let rows = [row(grandchild, child, 1, 1), row(child, me, 1, 1), row(me, 1, 1, 1), row(me + 3, 1, 1, 1)];
    assert_eq!(pids(&rows, &Tree { below: Some(this()), ..tree() }), [grandchild, child]);
    // What hangs below another process of that pid does not count.
    let gone = Identity { pid: 1, start: u64::MAX };
    assert_eq!(pids(&rows, &Tree { below: Some(gone), ..tree() }), [0; 0]);
}

#[test]
fn an_orphan_is_found_by_session_group_or_marker() {
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
    let tree =
        Tree { leader: Some(Identity { pid: 10, start: 10 }), marker: Some(b"M=1".to_vec()), ..tree() };
    assert_eq!(pids(&rows, &tree), [10, 20, 30, 50, 60]);
}

#[test]
fn a_stranger_under_the_leaders_old_pid_is_left_alone() {
    let stranger = Row { id: Identity { pid: 10, start: 999 }, ..row(10, 1, 10, 10) };
    let rows = [stranger, row(20, 10, 10, 10)];
    let tree = Tree { leader: Some(Identity { pid: 10, start: 10 }), ..tree() };
    assert_eq!(pids(&rows, &tree), [0; 0]);
}

#[test]
fn long_afterwards_a_session_needs_somebody_who_vouches_for_it() {
    let leader = Some(Identity { pid: 10, start: 10 });
    let long_ago = Tree { born: None, leader, ..tree() };
    // The pid may have been another's meanwhile, and that one's daemon may have outlived it.
    let orphans = [row(20, 1, 10, 10), row(30, 20, 30, 30)];
    assert_eq!(pids(&orphans, &Tree { leader, ..tree() }), [20, 30]);
    assert_eq!(pids(&orphans, &long_ago), [0; 0]);
    let mut ended = row(10, 1, 10, 10);
    ended.zombie = true;
    assert_eq!(pids(&[orphans.to_vec(), vec![ended]].concat(), &long_ago), [20, 30]);
    let marked = Row { marked: true, ..row(40, 1, 40, 10) };
    assert_eq!(pids(&[orphans.to_vec(), vec![marked]].concat(), &long_ago), [20, 30, 40]);
    // One that left both vouches for neither.
    let elsewhere = Row { marked: true, ..row(50, 1, 50, 50) };
    assert_eq!(pids(&[orphans.to_vec(), vec![elsewhere]].concat(), &long_ago), [50]);
}

#[test]
fn a_zombie_is_not_alive_but_its_children_are_ours() {
    let me = std::process::id();
    let mut dead = row(me + 1, me, 1, 1);
    dead.zombie = true;
    let rows = [dead, row(me + 2, me + 1, 1, 1)];
    assert_eq!(pids(&rows, &Tree { below: Some(this()), ..tree() }), [me + 2]);
}

#[test]
fn a_signal_to_a_reused_pid_hits_nobody() {
    let me = std::process::id();
    let start = start_time(me).unwrap();
    // Were the start time not compared, this would end the test.
    signal(Identity { pid: me, start: start + 1 }, Signal::KILL);
    assert_eq!(start_time(me), Some(start));
}
