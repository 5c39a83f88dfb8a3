//! The further processes of a fake agent: children, daemons, storms.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use yb_testkit::Process;

use crate::support::{Stage, eventually, stderr, stdout, wait_for};

fn kill(process: Process) {
    kill_process(Pid::from_raw(process.pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    assert!(process.is_gone_within(Duration::from_secs(5)));
}

#[test]
fn a_child_stays_in_the_group_and_outlives_its_leader() {
    let stage = Stage::new(
        "
- child: {pipes: close, steps: [{dump: child.json}, {pid_file: child.pid}, {sleep_ms: 60000}]}
- dump: leader.json
- wait_for_file: {path: child.pid}
",
    );
    let output = stage.run();
    assert_eq!(stderr(&output), "");
    let (leader, child) = (stage.json("leader.json"), stage.json("child.json"));
    assert_eq!(child["ppid"], leader["pid"]);
    assert_eq!((&child["pgid"], &child["sid"]), (&leader["pgid"], &leader["sid"]));
    assert_eq!(child["fds"]["1"], "/dev/null");
    let child = Process::from_file(&stage.path("child.pid"));
    assert!(child.is_alive());
    kill(child);
}

#[test]
fn a_child_can_have_a_group_or_a_session_of_its_own() {
    let stage = Stage::new(
        "
- child: {group: own, wait: true, steps: [{dump: group.json}]}
- child: {group: session, wait: true, steps: [{dump: session.json}]}
- dump: leader.json
",
    );
    assert!(stage.run().status.success());
    let (leader, group, session) =
        (stage.json("leader.json"), stage.json("group.json"), stage.json("session.json"));
    assert_eq!(group["pgid"], group["pid"]);
    assert_eq!(group["sid"], leader["sid"]);
    assert_eq!((&session["sid"], &session["pgid"]), (&session["pid"], &session["pid"]));
}

#[test]
fn a_grandchild_holds_the_pipes_while_the_leader_is_gone() {
    let stage = Stage::new(
        "
- print: leader
- child: {steps: [{child: {steps: [{pid_file: grandchild.pid}, {wait_for_file: {path: go}}, {print: grandchild}]}}]}
- wait_for_file: {path: grandchild.pid}
- exit: 0
",
    );
    let mut child = stage.spawn();
    assert!(child.wait().unwrap().success());
    let mut pipe = child.stdout.take().unwrap();
    assert!(Process::from_file(&stage.path("grandchild.pid")).is_alive());
    std::fs::write(stage.path("go"), "").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut pipe, &mut text).unwrap();
    assert_eq!(text, "leader\ngrandchild\n");
}

#[test]
fn a_daemon_has_its_own_session_and_no_parent_of_ours() {
    let stage = Stage::new(
        "
- daemon: {pipes: close, steps: [{dump: daemon.json}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- dump: leader.json
- print: daemon runs
- wait_for_file: {path: daemon.pid}
",
    );
    let output = stage.run();
    assert_eq!(stdout(&output), "daemon runs\n");
    let (leader, daemon) = (stage.json("leader.json"), stage.json("daemon.json"));
    assert_ne!(daemon["sid"], leader["sid"]);
    assert_ne!(daemon["pgid"], leader["pgid"]);
    assert_ne!(daemon["ppid"], leader["pid"]);
    // Not a session leader: it is the second child of the double fork.
    assert_ne!(daemon["sid"], daemon["pid"]);
    let daemon = Process::from_file(&stage.path("daemon.pid"));
    assert!(daemon.is_alive());
    kill(daemon);
}

#[test]
fn a_daemon_can_forget_its_environment_and_start_others() {
    let stage = Stage::new(
        "
- daemon: {pipes: close, env: clear, steps: [{dump: first.json}, {daemon: {steps: [{pid_file: second.pid}, {sleep_ms: 60000}]}}]}
- wait_for_file: {path: second.pid}
",
    );
    assert!(stage.command().env("MARKER", "1").output().unwrap().status.success());
    assert_eq!(stage.json("first.json")["env"], serde_json::json!({}));
    kill(Process::from_file(&stage.path("second.pid")));
}

#[test]
fn it_can_become_itself_without_an_environment() {
    let stage = Stage::new("- dump: before.json\n- clear_env\n- dump: after.json\n- exit: 8");
    let output = stage.command().env("MARKER", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(8));
    let (before, after) = (stage.json("before.json"), stage.json("after.json"));
    assert_eq!(before["env"]["MARKER"], "1");
    assert_eq!(after["env"], serde_json::json!({}));
    assert_eq!((&before["pid"], &before["ppid"]), (&after["pid"], &after["ppid"]));
}

#[test]
fn a_child_starts_even_when_the_program_was_deleted_meanwhile() {
    let stage = Stage::new(
        "
- pid_file: ready
- wait_for_file: {path: go}
- child: {wait: true, steps: [{print: still here}]}
",
    );
    let child = stage.spawn();
    wait_for(&stage.path("ready"));
    std::fs::remove_dir_all(stage.path("bin")).unwrap();
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "still here\n");
}

#[test]
fn several_children_at_once() {
    let stage = Stage::new("- child: {count: 5, wait: true, steps: [{print: one}]}");
    assert_eq!(stdout(&stage.run()), "one\n".repeat(5));
}

#[test]
fn a_storm_is_bounded_and_ends_by_itself() {
    let stage = Stage::new("- storm: {width: 4, generations: 5, every_ms: 2, group: session}");
    let start = Instant::now();
    // The processes of the storm hold the pipes, so this waits for the last of them.
    assert!(stage.run().status.success());
    assert!(start.elapsed() < Duration::from_secs(20));

    let stage = Stage::new("- storm: {width: 100, generations: 51}");
    assert_eq!(stage.run().status.code(), Some(99));
}

#[test]
fn a_storm_lingers_at_its_end() {
    let stage = Stage::new(
        "
- close: [stdout, stderr]
- storm: {width: 3, generations: 3, linger_ms: 60000}
- pid_file: leader
- sleep_ms: 60000
",
    );
    let mut command = stage.command();
    let mut child = std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn().unwrap();
    wait_for(&stage.path("leader"));
    let group = Pid::from_child(&child);
    let members = || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats
            .filter(|stat| {
                let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
                fields[0] != "Z" && fields[2] == group.as_raw_pid().to_string()
            })
            .count()
    };
    eventually("three linger beside the leader", || members() == 4);
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    child.wait().unwrap();
    eventually("all are gone", || members() == 0);
}
