//! Detection of every kind of leak.

use std::process::Command;
use std::time::Duration;

use yb_testkit::{
    KillOnDrop, LeakCheck, Process, alive, assert_no_process_in, processes_in, processes_with_env,
};

use crate::support::{AgentDir, eventually, wait_for};

const SOON: Duration = Duration::from_millis(100);

#[test]
fn clean_test_has_no_leaks() {
    let check = LeakCheck::new();
    assert!(Command::new("true").status().unwrap().success());
    std::thread::spawn(|| ()).join().unwrap();
    drop(std::fs::File::open("/dev/null").unwrap());
    check.check();
}

#[test]
fn resource_that_goes_away_in_time_is_not_a_leak() {
    let check = LeakCheck::new();
    std::thread::spawn(|| std::thread::sleep(Duration::from_millis(200)));
    check.check();
}

#[test]
fn leaked_descriptor_is_named() {
    let check = LeakCheck::new().timeout(SOON);
    let _file = std::fs::File::open("/dev/null").unwrap();
    let leaks = check.leaks();
    assert!(
        matches!(&leaks[..], [leak] if leak.starts_with("descriptor ") && leak.ends_with(": /dev/null")),
        "{leaks:?}"
    );
}

#[test]
fn leaked_thread_is_named() {
    let check = LeakCheck::new().timeout(SOON);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("lost".to_owned()).spawn(move || ended.recv()).unwrap();
    let leaks = check.leaks();
    assert!(matches!(&leaks[..], [leak] if leak.ends_with(": lost")), "{leaks:?}");
    drop(end);
    let _ = thread.join();
}

#[test]
fn leaked_child_grandchild_and_zombie_are_found() {
    let check = LeakCheck::new().timeout(SOON);
    let agent = AgentDir::new(
        "
- child: {steps: [{pid_file: child.pid}, {wait_for_file: {path: go}}]}
- wait_for_file: {path: go}
",
    );
    let mut child = Command::new(&agent.program).current_dir(agent.dir.path()).env_clear().spawn().unwrap();
    wait_for(&agent.path("child.pid"));
    assert_eq!(check.leaks().len(), 2);
    std::fs::write(agent.path("go"), "").unwrap();
    eventually("only a zombie is left", || {
        let leaks = check.leaks();
        matches!(&leaks[..], [leak] if leak.contains("state Z"))
    });
    assert!(!Process::from_pid(child.id()).unwrap().is_alive(), "a zombie is not alive");
    child.wait().unwrap();
    check.check();
}

#[test]
#[should_panic(expected = "leaked:\n  descriptor ")]
fn leak_fails_the_test() {
    let check = LeakCheck::new().timeout(SOON);
    let _file = std::fs::File::open("/dev/null").unwrap();
    check.check();
}

#[test]
fn escaped_process_is_found_by_directory_and_environment() {
    let agent = AgentDir::new(
        "
- daemon: {pipes: close, steps: [{pid_file: daemon.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: daemon.pid}
",
    );
    let marker = agent.dir.path().to_str().unwrap();
    assert!(agent.command().env("YB_MARKER", marker).status().unwrap().success());
    let daemon = Process::from_file(&agent.path("daemon.pid"));
    assert!(alive(daemon.pid, daemon.start_time));
    let only = |found: Vec<yb_testkit::ProcessInfo>| matches!(&found[..], [info] if info.process == daemon);
    assert!(only(processes_in(agent.dir.path())));
    assert!(only(processes_with_env("YB_MARKER", marker)));
    assert!(processes_with_env("YB_MARKER", "other").is_empty());
    drop(KillOnDrop::in_dir(agent.dir.path()));
    assert!(!daemon.is_alive());
    assert_no_process_in(agent.dir.path());
}

#[test]
fn kill_on_drop_kills_stopped_daemon() {
    let agent = AgentDir::new(
        "
- daemon: {pipes: close, steps: [{pid_file: daemon.pid}, stop]}
- wait_for_file: {path: daemon.pid}
",
    );
    let guard = KillOnDrop::in_dir(agent.dir.path());
    assert!(agent.run().status.success());
    let daemon = Process::from_file(&agent.path("daemon.pid"));
    drop(guard);
    assert!(!daemon.is_alive());
}
