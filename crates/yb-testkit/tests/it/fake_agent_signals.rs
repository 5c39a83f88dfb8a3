//! How a fake agent takes signals, sends them and dies of them.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use yb_testkit::Process;

use crate::support::{Stage, eventually, run, stdout, wait_for};

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn state(child: &Child) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn ignores_the_signals_that_it_is_told_to_and_so_do_its_children() {
    let stage = Stage::new(
        "
- ignore: [TERM, SIGINT, hup]
- child: {steps: [{pid_file: child.pid}, {wait_for_file: {path: go}}, {dump: d.json}]}
- pid_file: ready
- wait_for_file: {path: go}
- exit: 6
",
    );
    let mut child = stage.spawn();
    wait_for(&stage.path("ready"));
    let other = Process::from_file(&stage.path("child.pid"));
    for name in [Signal::TERM, Signal::INT, Signal::HUP] {
        signal(&child, name);
        kill_process(Pid::from_raw(other.pid.cast_signed()).unwrap(), name).unwrap();
    }
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
    wait_for(&stage.path("d.json"));
    // SIGHUP, SIGINT, SIGTERM, and SIGPIPE, which is ignored by every Rust program.
    assert_eq!(stage.json("d.json")["signals"]["ignored"], serde_json::json!([1, 2, 13, 15]));
}

#[test]
fn cleans_up_on_a_signal_and_exits_with_its_code() {
    let stage = Stage::new(
        "
- on_signal: {signals: [TERM], steps: [{print: cleaning}, {write: {path: clean, text: yes}}], exit: 143}
- pid_file: ready
- flood: {bytes: 10, to: stderr}
- sleep_ms: 60000
",
    );
    let child = stage.spawn();
    wait_for(&stage.path("ready"));
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert_eq!(stdout(&output), "cleaning\n");
    assert_eq!(stage.text("clean"), "yes");
}

#[test]
fn goes_on_after_a_signal_that_has_no_exit_code() {
    let stage = Stage::new(
        "
- on_signal: {signals: [TERM, INT], steps: [{append: {path: log, line: caught}}]}
- pid_file: ready
- wait_for_file: {path: go}
- print: went on
- exit: 7
",
    );
    let child = stage.spawn();
    wait_for(&stage.path("ready"));
    signal(&child, Signal::TERM);
    wait_for(&stage.path("log"));
    signal(&child, Signal::INT);
    eventually("the second signal is caught", || stage.text("log").lines().count() == 2);
    std::fs::write(stage.path("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(7), "went on\n"));
}

#[test]
fn the_main_steps_wait_while_a_signal_is_handled() {
    let stage = Stage::new(
        "
- on_signal: {signals: [TERM], steps: [{sleep_ms: 300}], exit: 9}
- pid_file: ready
- print: {text: x, times: 100, every_ms: 20}
- exit: 0
",
    );
    let child = stage.spawn();
    wait_for(&stage.path("ready"));
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert!(output.stdout.len() < 10, "{}", output.stdout.len());
}

#[test]
fn stops_itself_until_it_is_continued() {
    let stage = Stage::new("- print: started\n- stop\n- print: continued");
    let child = stage.spawn();
    eventually("it is stopped", || state(&child) == 'T');
    signal(&child, Signal::CONT);
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "started\ncontinued\n");
}

#[test]
fn a_waker_continues_it() {
    let output = run("- wake_me_ms: 100\n- stop\n- print: continued");
    assert_eq!(stdout(&output), "continued\n");
}

#[test]
fn a_stopped_process_that_is_terminated_dies_only_when_it_is_continued() {
    let stage = Stage::new("- stop\n- print: continued");
    let mut child = stage.spawn();
    eventually("it is stopped", || state(&child) == 'T');
    signal(&child, Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(state(&child), 'T');
    signal(&child, Signal::CONT);
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn dies_by_a_signal_even_if_it_ignored_it() {
    for (script, expect) in [
        ("- die: SEGV", 11),
        ("- die: KILL", 9),
        ("- ignore: [TERM]\n- die: TERM", 15),
        ("- on_signal: {signals: [ABRT], exit: 0}\n- die: SIGABRT", 6),
        ("- signal: {to: self, signal: USR1}\n- sleep_ms: 5000", 10),
    ] {
        assert_eq!(run(script).status.signal(), Some(expect), "{script}");
    }
}

#[test]
fn kills_its_parent() {
    let stage = Stage::new(
        "
- child: {pipes: close, wait: true, steps: [{signal: {to: parent, signal: KILL}}, {write: {path: done, text: ''}}]}
- sleep_ms: 60000
",
    );
    assert_eq!(stage.run().status.signal(), Some(9));
    wait_for(&stage.path("done"));
}

#[test]
fn signals_its_whole_group() {
    let stage = Stage::new(
        "
- child: {steps: [{pid_file: child.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: child.pid}
- signal: {to: group, signal: TERM}
- sleep_ms: 60000
",
    );
    let mut command = stage.command();
    let output = std::os::unix::process::CommandExt::process_group(&mut command, 0).output().unwrap();
    assert_eq!(output.status.signal(), Some(15));
    assert!(Process::from_file(&stage.path("child.pid")).is_gone_within(std::time::Duration::from_secs(5)));
}
