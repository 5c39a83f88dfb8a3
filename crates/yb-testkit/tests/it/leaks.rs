//! A leak of each kind is seen, and nothing is seen where nothing leaks.

use std::process::Command;
use std::time::Duration;

use yb_testkit::{
    KillOnDrop, LeakCheck, Process, alive, assert_no_process_in, processes_in, processes_with_env,
};

use crate::support::{Stage, eventually, wait_for};

const SOON: Duration = Duration::from_millis(100);

#[test]
fn a_tidy_test_leaks_nothing() {
    let check = LeakCheck::new();
    assert!(Command::new("true").status().unwrap().success());
    std::thread::spawn(|| ()).join().unwrap();
    drop(std::fs::File::open("/dev/null").unwrap());
    check.check();
}

#[test]
fn something_that_goes_away_in_time_is_no_leak() {
    let check = LeakCheck::new();
    std::thread::spawn(|| std::thread::sleep(Duration::from_millis(200)));
    check.check();
}

#[test]
fn a_descriptor_is_named() {
    let check = LeakCheck::new().patience(SOON);
    let _file = std::fs::File::open("/dev/null").unwrap();
    let leaks = check.leaks();
    assert!(
        matches!(&leaks[..], [leak] if leak.starts_with("descriptor ") && leak.ends_with(": /dev/null")),
        "{leaks:?}"
    );
}

#[test]
fn a_thread_is_named() {
    let check = LeakCheck::new().patience(SOON);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("lost".to_owned()).spawn(move || ended.recv()).unwrap();
    let leaks = check.leaks();
    assert!(matches!(&leaks[..], [leak] if leak.ends_with(": lost")), "{leaks:?}");
    drop(end);
    let _ = thread.join();
}

#[test]
fn a_child_a_grandchild_and_a_zombie_are_seen() {
    let check = LeakCheck::new().patience(SOON);
    let stage = Stage::new(
        "
- child: {steps: [{pid_file: child.pid}, {wait_for_file: {path: go}}]}
- wait_for_file: {path: go}
",
    );
    let mut child = Command::new(&stage.program).current_dir(stage.dir.path()).env_clear().spawn().unwrap();
    wait_for(&stage.path("child.pid"));
    assert_eq!(check.leaks().len(), 2);
    std::fs::write(stage.path("go"), "").unwrap();
    eventually("only a zombie is left", || {
        let leaks = check.leaks();
        matches!(&leaks[..], [leak] if leak.contains("state Z"))
    });
    assert!(!Process::of(child.id()).unwrap().is_alive(), "a zombie is not alive");
    child.wait().unwrap();
    check.check();
}

#[test]
#[should_panic(expected = "left behind:\n  descriptor ")]
fn a_leak_fails_the_test() {
    let check = LeakCheck::new().patience(SOON);
    let _file = std::fs::File::open("/dev/null").unwrap();
    check.check();
}

#[test]
fn what_escaped_is_found_by_its_directory_and_by_its_environment() {
    let stage = Stage::new(
        "
- daemon: {pipes: close, steps: [{pid_file: daemon.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: daemon.pid}
",
    );
    let marker = stage.dir.path().to_str().unwrap();
    assert!(stage.command().env("YB_MARKER", marker).status().unwrap().success());
    let daemon = Process::from_file(&stage.path("daemon.pid"));
    assert!(alive(daemon.pid, daemon.start_time));
    let only = |found: Vec<yb_testkit::ProcessInfo>| matches!(&found[..], [info] if info.process == daemon);
    assert!(only(processes_in(stage.dir.path())));
    assert!(only(processes_with_env("YB_MARKER", marker)));
    assert!(processes_with_env("YB_MARKER", "other").is_empty());
    drop(KillOnDrop::in_dir(stage.dir.path()));
    assert!(!daemon.is_alive());
    assert_no_process_in(stage.dir.path());
}

#[test]
fn a_guard_kills_a_stopped_daemon_too() {
    let stage = Stage::new(
        "
- daemon: {pipes: close, steps: [{pid_file: daemon.pid}, stop]}
- wait_for_file: {path: daemon.pid}
",
    );
    let guard = KillOnDrop::in_dir(stage.dir.path());
    assert!(stage.run().status.success());
    let daemon = Process::from_file(&stage.path("daemon.pid"));
    drop(guard);
    assert!(!daemon.is_alive());
}
