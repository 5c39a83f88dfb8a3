//! Children, daemons and fork storms of the fake agent.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use yb_testkit::Process;

use crate::support::{AgentDir, eventually, stderr, stdout, wait_for};

fn kill(process: Process) {
    kill_process(Pid::from_raw(process.pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    assert!(process.is_gone_within(Duration::from_secs(5)));
}

#[test]
fn child_stays_in_group_and_outlives_leader() {
    let agent = AgentDir::new(
        "
- child: {pipes: close, steps: [{dump: child.json}, {pid_file: child.pid}, {sleep_ms: 60000}]}
- dump: leader.json
- wait_for_file: {path: child.pid}
",
    );
    let output = agent.run();
    assert_eq!(stderr(&output), "");
    let (leader, child) = (agent.json("leader.json"), agent.json("child.json"));
    assert_eq!(child["ppid"], leader["pid"]);
    assert_eq!((&child["pgid"], &child["sid"]), (&leader["pgid"], &leader["sid"]));
    assert_eq!(child["fds"]["1"], "/dev/null");
    let child = Process::from_file(&agent.path("child.pid"));
    assert!(child.is_alive());
    kill(child);
}

#[test]
fn child_can_have_own_group_or_session() {
    let agent = AgentDir::new(
        "
- child: {group: own, wait: true, steps: [{dump: group.json}]}
- child: {group: session, wait: true, steps: [{dump: session.json}]}
- dump: leader.json
",
    );
    assert!(agent.run().status.success());
    let (leader, group, session) =
        (agent.json("leader.json"), agent.json("group.json"), agent.json("session.json"));
    assert_eq!(group["pgid"], group["pid"]);
    assert_eq!(group["sid"], leader["sid"]);
    assert_eq!((&session["sid"], &session["pgid"]), (&session["pid"], &session["pid"]));
}

#[test]
fn grandchild_holds_pipes_after_leader_exited() {
    let agent = AgentDir::new(
        "
- print: leader
- child: {steps: [{child: {steps: [{pid_file: grandchild.pid}, {wait_for_file: {path: go}}, {print: grandchild}]}}]}
- wait_for_file: {path: grandchild.pid}
- exit: 0
",
    );
    let mut child = agent.spawn();
    assert!(child.wait().unwrap().success());
    let mut pipe = child.stdout.take().unwrap();
    assert!(Process::from_file(&agent.path("grandchild.pid")).is_alive());
    std::fs::write(agent.path("go"), "").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut pipe, &mut text).unwrap();
    assert_eq!(text, "leader\ngrandchild\n");
}

#[test]
fn daemon_has_own_session_and_is_reparented() {
    let agent = AgentDir::new(
        "
- daemon: {pipes: close, steps: [{dump: daemon.json}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- dump: leader.json
- print: daemon runs
- wait_for_file: {path: daemon.pid}
",
    );
    let output = agent.run();
    assert_eq!(stdout(&output), "daemon runs\n");
    let (leader, daemon) = (agent.json("leader.json"), agent.json("daemon.json"));
    assert_ne!(daemon["sid"], leader["sid"]);
    assert_ne!(daemon["pgid"], leader["pgid"]);
    assert_ne!(daemon["ppid"], leader["pid"]);
    // Not a session leader, because of the double fork.
    assert_ne!(daemon["sid"], daemon["pid"]);
    let daemon = Process::from_file(&agent.path("daemon.pid"));
    assert!(daemon.is_alive());
    kill(daemon);
}

#[test]
fn daemon_can_clear_environment_and_spawn() {
    let agent = AgentDir::new(
        "
- daemon: {pipes: close, env: clear, steps: [{dump: first.json}, {daemon: {steps: [{pid_file: second.pid}, {sleep_ms: 60000}]}}]}
- wait_for_file: {path: second.pid}
",
    );
    assert!(agent.command().env("MARKER", "1").output().unwrap().status.success());
    assert_eq!(agent.json("first.json")["env"], serde_json::json!({}));
    kill(Process::from_file(&agent.path("second.pid")));
}

#[test]
fn clear_env_reexecutes_with_same_pid() {
    let agent = AgentDir::new("- dump: before.json\n- clear_env\n- dump: after.json\n- exit: 8");
    let output = agent.command().env("MARKER", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(8));
    let (before, after) = (agent.json("before.json"), agent.json("after.json"));
    assert_eq!(before["env"]["MARKER"], "1");
    assert_eq!(after["env"], serde_json::json!({}));
    assert_eq!((&before["pid"], &before["ppid"]), (&after["pid"], &after["ppid"]));
}

#[test]
fn child_starts_after_program_was_deleted() {
    let agent = AgentDir::new(
        "
- pid_file: ready
- wait_for_file: {path: go}
- child: {wait: true, steps: [{print: still here}]}
",
    );
    let child = agent.spawn();
    wait_for(&agent.path("ready"));
    std::fs::remove_dir_all(agent.path("bin")).unwrap();
    std::fs::write(agent.path("go"), "").unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "still here\n");
}

#[test]
fn several_children_start_at_once() {
    let agent = AgentDir::new("- child: {count: 5, wait: true, steps: [{print: one}]}");
    assert_eq!(stdout(&agent.run()), "one\n".repeat(5));
}

#[test]
fn storm_is_bounded_and_ends() {
    let agent = AgentDir::new("- storm: {width: 4, generations: 5, every_ms: 2, group: session}");
    let start = Instant::now();
    // The processes of the storm hold the pipes, so this waits for all of them.
    assert!(agent.run().status.success());
    assert!(start.elapsed() < Duration::from_secs(20));

    let agent = AgentDir::new("- storm: {width: 100, generations: 51}");
    assert_eq!(agent.run().status.code(), Some(99));
}

#[test]
fn storm_lingers_at_its_end() {
    let agent = AgentDir::new(
        "
- close: [stdout, stderr]
- storm: {width: 3, generations: 3, linger_ms: 60000}
- pid_file: leader
- sleep_ms: 60000
",
    );
    let mut command = agent.command();
    let mut child = std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn().unwrap();
    wait_for(&agent.path("leader"));
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
