//! Handling of Ctrl-C, SIGTERM, SIGHUP and Ctrl-Z during a run.

use rustix::process::Signal;

use serde_json::json;

use crate::suites::{GOOD, Journal, World, assert_complete, assert_same, case, suite};

/// Agents that report their start and wait for a file; some ignore SIGTERM.
fn waiting(trials: usize, deaf: bool) -> World {
    let world = World::new();
    let (here, go) = (world.path("here").display().to_string(), world.path("go").display().to_string());
    let trap = if deaf { "trap '' TERM; (setsid sleep 300 > /dev/null 2>&1 &); " } else { "" };
    let agent = format!("{trap}echo x >> {here}; while [ ! -e {go} ]; do sleep 0.02; done; {GOOD}");
    world.context.write("suite.yaml", suite(&["one"], &[("v", &agent)], &format!("repeats: {trials}")));
    world
}

impl World {
    fn let_go(&self) {
        std::fs::write(self.path("go"), "").unwrap();
    }

    /// Resumes the run and checks that no trial is repeated.
    #[track_caller]
    fn resumed(&self, trials: usize) {
        self.let_go();
        let outcome = self.run(&["--resume", "--jobs", "4", "--quiet"]).run();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert_complete(&self.only_run(), trials);
        self.assert_nothing_runs();
    }
}

#[test]
fn ctrl_c_waits_for_running_trials() {
    let world = waiting(4, false);
    let yb = world.start(&["-c", "suite.yaml", "--jobs", "2"]);
    world.wait_for_lines("here", 2);
    yb.signal(Signal::INT);
    crate::suites::wait_until("its answer", || {
        yb.stderr().contains("stopping: waiting for 2 running trials")
    });
    world.let_go();
    let end = yb.wait();
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    assert!(end.stderr.contains("2 trials pending, resume with: yb run --resume latest"), "{}", end.stderr);
    let run = world.only_run();
    let journal = Journal::of(&run);
    assert_eq!(journal.started().len(), 2, "nothing more is begun");
    assert_eq!(journal.results().len(), 2);
    assert_eq!(journal.entries.last().unwrap()["reason"], "interrupted");
    let printed = serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap();
    assert_same(&journal, &printed);
    world.resumed(4);
}

#[test]
fn second_ctrl_c_kills_running_trials() {
    let world = waiting(3, false);
    let yb = world.start(&["-c", "suite.yaml", "--jobs", "2"]);
    world.wait_for_lines("here", 2);
    yb.signal(Signal::INT);
    crate::suites::wait_until("its answer", || yb.stderr().contains("stopping: waiting for"));
    yb.signal(Signal::INT);
    let end = yb.wait();
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    assert!(end.stderr.contains("killing 2 running trials"), "{}", end.stderr);
    world.assert_nothing_runs();
    let journal = Journal::of(&world.only_run());
    let outcomes: Vec<_> = journal.events("attempt_finished").map(|entry| entry["outcome"].clone()).collect();
    assert_eq!(outcomes, ["cancelled", "cancelled"]);
    assert_eq!(journal.entries.last().unwrap()["event"], "run_stopped");
    world.resumed(3);
}

/// `bench sigterm` measures the time.
#[track_caller]
fn killed_at_once(signal: Signal) {
    let world = waiting(10, true);
    let yb = world.start(&["-c", "suite.yaml", "--jobs", "8"]);
    world.wait_for_lines("here", 8);
    yb.signal(signal);
    let end = yb.wait();
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    world.assert_nothing_runs();
    let journal = Journal::of(&world.only_run());
    assert_eq!((journal.count("attempt_started"), journal.results().len()), (8, 0));
    assert_eq!(journal.outcomes("one--v--1"), ["cancelled"]);
    assert_eq!(journal.count("attempt_finished"), 8);
    assert_eq!(journal.entries.last().unwrap()["event"], "run_stopped");
    world.resumed(10);
}

#[test]
fn sigterm_kills_agents_that_ignore_it() {
    killed_at_once(Signal::TERM);
}

#[test]
fn sighup_kills_agents_that_ignore_it() {
    killed_at_once(Signal::HUP);
}

/// Returns the state of a process from `/proc`; `T` is stopped.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

/// Returns the CPU time of a process in clock ticks.
fn worked(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn ctrl_z_suspends_agents_and_their_deadlines() {
    let world = World::new();
    let (here, go) = (world.path("here").display().to_string(), world.path("go").display().to_string());
    // Without suspension, the timeout would expire.
    let agent = format!("echo $$ >> {here}; while [ ! -e {go} ]; do :; done; {GOOD}");
    let mut one = case("one");
    one["timeouts"] = json!({ "agent": 5000 });
    let text =
        suite(&[], &[("v", &agent)], "repeats: 2").replace("cases: []", &format!("cases: {}", json!([one])));
    world.context.write("suite.yaml", text);
    let began = std::time::Instant::now();
    let mut yb = world.start(&["-c", "suite.yaml", "--jobs", "2"]);
    world.wait_for_lines("here", 2);
    yb.signal(Signal::TSTP);
    crate::suites::wait_until("yb stands still", || state(yb.pid()) == Some('T'));
    let agents: Vec<u32> = world.lines("here").iter().map(|line| line.parse().unwrap()).collect();
    let before: Vec<u64> = agents.iter().map(|pid| worked(*pid)).collect();
    // Longer than the timeout of the agents.
    let suspended = std::time::Duration::from_secs(6);
    std::thread::sleep(suspended);
    let after: Vec<u64> = agents.iter().map(|pid| worked(*pid)).collect();
    assert_eq!(before, after, "they worked on");
    assert!(!yb.is_over());
    world.let_go();
    yb.signal(Signal::CONT);
    let end = yb.wait();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_complete(&world.only_run(), 2);
    world.assert_nothing_runs();
    let most = began.elapsed() - suspended;
    let shown = world.context.command(crate::YB).args(["show", "latest", "--json"]).run();
    let run: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    for trial in run["trials"].as_array().unwrap() {
        let counted = trial["attempts"][0]["duration_ms"].as_u64().unwrap();
        assert!(u128::from(counted) <= most.as_millis(), "the suspension is no time of a trial: {trial}");
    }
}

/// A suspended run can be terminated.
#[test]
fn sigterm_while_suspended_kills_after_resume() {
    let world = waiting(2, false);
    let yb = world.start(&["-c", "suite.yaml", "--jobs", "2"]);
    world.wait_for_lines("here", 2);
    yb.signal(Signal::TSTP);
    crate::suites::wait_until("yb stands still", || state(yb.pid()) == Some('T'));
    yb.signal(Signal::TERM);
    yb.signal(Signal::CONT);
    let end = yb.wait();
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    world.assert_nothing_runs();
    world.resumed(2);
}

/// A suspended run that is killed leaves no suspended processes.
#[test]
fn sigkill_while_suspended_leaves_no_processes() {
    let world = waiting(2, false);
    let yb = world.start(&["-c", "suite.yaml", "--jobs", "2"]);
    world.wait_for_lines("here", 2);
    yb.signal(Signal::TSTP);
    crate::suites::wait_until("yb stands still", || state(yb.pid()) == Some('T'));
    yb.signal(Signal::KILL);
    yb.wait();
    world.assert_nothing_runs();
    world.resumed(2);
}

/// A hanging receiver does not delay an interrupt.
#[test]
fn second_ctrl_c_does_not_wait_for_a_hanging_receiver() {
    let (world, receiver) = (waiting(2, false), yb_testkit::OtlpReceiver::start());
    receiver.hang(true);
    let endpoint = format!("--otel={}", receiver.endpoint());
    let yb = world.start(&["-c", "suite.yaml", "--jobs", "2", &endpoint, "--otel-file", "trace.jsonl"]);
    world.wait_for_lines("here", 2);
    yb.signal(Signal::INT);
    crate::suites::wait_until("its answer", || yb.stderr().contains("stopping: waiting for"));
    yb.signal(Signal::INT);
    let end = yb.wait();
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    assert!(end.stderr.contains("warning: trace is incomplete: "), "{}", end.stderr);
    world.assert_nothing_runs();
}
