//! Signal steps of the fake agent.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use yb_testkit::Process;

use crate::support::{AgentDir, eventually, run, stdout, wait_for};

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn state(child: &Child) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn ignored_signals_are_inherited_by_children() {
    let agent = AgentDir::new(
        "
- ignore: [TERM, SIGINT, hup]
- child: {steps: [{pid_file: child.pid}, {wait_for_file: {path: go}}, {dump: d.json}]}
- pid_file: ready
- wait_for_file: {path: go}
- exit: 6
",
    );
    let mut child = agent.spawn();
    wait_for(&agent.path("ready"));
    let other = Process::from_file(&agent.path("child.pid"));
    for name in [Signal::TERM, Signal::INT, Signal::HUP] {
        signal(&child, name);
        kill_process(Pid::from_raw(other.pid.cast_signed()).unwrap(), name).unwrap();
    }
    std::fs::write(agent.path("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
    wait_for(&agent.path("d.json"));
    // SIGHUP, SIGINT, SIGTERM, and SIGPIPE, which every Rust program ignores.
    assert_eq!(agent.json("d.json")["signals"]["ignored"], serde_json::json!([1, 2, 13, 15]));
}

#[test]
fn on_signal_runs_steps_and_exits() {
    let agent = AgentDir::new(
        "
- on_signal: {signals: [TERM], steps: [{print: cleaning}, {write: {path: clean, text: yes}}], exit: 143}
- pid_file: ready
- flood: {bytes: 10, to: stderr}
- sleep_ms: 60000
",
    );
    let child = agent.spawn();
    wait_for(&agent.path("ready"));
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert_eq!(stdout(&output), "cleaning\n");
    assert_eq!(agent.text("clean"), "yes");
}

#[test]
fn on_signal_without_exit_continues() {
    let agent = AgentDir::new(
        "
- on_signal: {signals: [TERM, INT], steps: [{append: {path: log, line: caught}}]}
- pid_file: ready
- wait_for_file: {path: go}
- print: went on
- exit: 7
",
    );
    let child = agent.spawn();
    wait_for(&agent.path("ready"));
    signal(&child, Signal::TERM);
    wait_for(&agent.path("log"));
    signal(&child, Signal::INT);
    eventually("the second signal is caught", || agent.text("log").lines().count() == 2);
    std::fs::write(agent.path("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(7), "went on\n"));
}

#[test]
fn main_steps_wait_for_signal_handler() {
    let agent = AgentDir::new(
        "
- on_signal: {signals: [TERM], steps: [{sleep_ms: 300}], exit: 9}
- pid_file: ready
- print: {text: x, times: 100, every_ms: 20}
- exit: 0
",
    );
    let child = agent.spawn();
    wait_for(&agent.path("ready"));
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert!(output.stdout.len() < 10, "{}", output.stdout.len());
}

#[test]
fn stop_suspends_until_sigcont() {
    let agent = AgentDir::new("- print: started\n- stop\n- print: continued");
    let child = agent.spawn();
    eventually("it is stopped", || state(&child) == 'T');
    signal(&child, Signal::CONT);
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "started\ncontinued\n");
}

#[test]
fn wake_me_resumes_stopped_agent() {
    let output = run("- wake_me_ms: 100\n- stop\n- print: continued");
    assert_eq!(stdout(&output), "continued\n");
}

#[test]
fn stopped_process_handles_sigterm_after_sigcont() {
    let agent = AgentDir::new("- stop\n- print: continued");
    let mut child = agent.spawn();
    eventually("it is stopped", || state(&child) == 'T');
    signal(&child, Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(state(&child), 'T');
    signal(&child, Signal::CONT);
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn die_works_for_ignored_signal() {
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
fn signal_step_kills_parent() {
    let agent = AgentDir::new(
        "
- child: {pipes: close, wait: true, steps: [{signal: {to: parent, signal: KILL}}, {write: {path: done, text: ''}}]}
- sleep_ms: 60000
",
    );
    assert_eq!(agent.run().status.signal(), Some(9));
    wait_for(&agent.path("done"));
}

#[test]
fn signal_step_reaches_whole_group() {
    let agent = AgentDir::new(
        "
- child: {steps: [{pid_file: child.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: child.pid}
- signal: {to: group, signal: TERM}
- sleep_ms: 60000
",
    );
    let mut command = agent.command();
    let output = std::os::unix::process::CommandExt::process_group(&mut command, 0).output().unwrap();
    assert_eq!(output.status.signal(), Some(15));
    assert!(Process::from_file(&agent.path("child.pid")).is_gone_within(std::time::Duration::from_secs(5)));
}
