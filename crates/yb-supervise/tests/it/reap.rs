//! Host and shim die by SIGKILL: what they left is found again through the record, and nothing else is.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use yb_supervise::{Reaped, TreeRecord, reap};
use yb_testkit::Process;

use crate::host_killed::{example, wait_for_pid_files};
use crate::support::{GUARD, Stage, signal};

/// A leader with a child that left its session, a daemon that forked twice, and a child in the group.
const TREE: &str = "
- daemon: {pipes: close, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- child: {group: session, steps: [{pid_file: session.pid}, {sleep_ms: 60000}]}
- child: {steps: [{ignore: [TERM]}, {pid_file: child.pid}, {sleep_ms: 60000}]}
- pid_file: leader.pid
- sleep_ms: 60000
";

/// Beside them a daemon that can't be known by any mark.
const TREE_WITH_STRANGER: &str = "
- daemon: {pipes: close, env: clear, steps: [{pid_file: clean.pid}, {sleep_ms: 60000}]}
- daemon: {pipes: close, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- child: {group: session, steps: [{pid_file: session.pid}, {sleep_ms: 60000}]}
- pid_file: leader.pid
- sleep_ms: 60000
";

/// A host in a process of its own, with one tree.
struct Host {
    host: Child,
    stage: Stage,
    processes: Vec<Process>,
    record: Value,
}

impl Drop for Host {
    /// Also when an assertion failed.
    fn drop(&mut self) {
        let _ = self.host.kill();
        let _ = self.host.wait();
        for process in self.processes.iter().chain([&self.shim()]) {
            signal(*process, "KILL");
        }
    }
}

impl Host {
    /// `None` where the machine lacks the means, which only a cgroup can be.
    fn start(means: &str, script: &str) -> Option<Self> {
        let stage = Stage::new(script);
        let records = stage.file("records.json");
        let mut host = Command::new(example())
            .args(["--means", means, "--records"])
            .arg(&records)
            .arg("--")
            .arg(&stage.agent)
            .current_dir(stage.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let limit = Instant::now() + GUARD;
        let record = loop {
            let written = std::fs::read(&records).ok().and_then(|text| serde_json::from_slice(&text).ok());
            if let Some(written) = written {
                let written: Value = written;
                break written[0].clone();
            }
            if host.try_wait().unwrap().is_some() {
                assert_eq!(means, "cgroup", "every machine has the others");
                return None;
            }
            assert!(Instant::now() < limit, "no record came");
            std::thread::sleep(Duration::from_millis(10));
        };
        let processes = wait_for_pid_files(&stage, script.matches("pid_file").count());
        Some(Self { host, stage, processes, record })
    }

    fn shim(&self) -> Process {
        Process {
            pid: self.record["shim"]["pid"].as_u64().unwrap() as u32,
            start_time: self.record["shim"]["start"].as_u64().unwrap(),
        }
    }

    fn parsed(&self) -> TreeRecord {
        serde_json::from_value(self.record.clone()).unwrap()
    }

    fn host(&self) -> Process {
        Process::of(self.host.id()).unwrap()
    }

    /// As good as dead: neither does anything. (A shim that is stopped when its host dies is continued by the kernel,
    /// because its process group becomes an orphan, and would do its work.)
    fn stop_host_and_shim(&self) {
        signal(self.host(), "STOP");
        signal(self.shim(), "STOP");
    }

    fn kill_shim_and_host(&mut self) {
        // A host that runs would sweep.
        signal(self.host(), "STOP");
        signal(self.shim(), "KILL");
        assert!(self.shim().is_gone_within(GUARD));
        self.host.kill().unwrap();
        self.host.wait().unwrap();
    }

    #[track_caller]
    fn assert_all_gone(&mut self, context: &str) {
        let _ = self.host.kill();
        self.host.wait().unwrap();
        for process in self.processes.iter().chain([&self.shim()]) {
            assert!(process.is_gone_within(GUARD), "{context}: process {process} is left");
        }
        yb_testkit::assert_no_process_in(self.stage.path());
        if let Some(cgroup) = self.record["cgroup"].as_str() {
            assert!(!std::path::Path::new(cgroup).exists(), "{context}: `{cgroup}` is left");
        }
    }
}

#[test]
fn with_a_stopped_shim_all_is_found_that_hangs_below_it() {
    for (means, script) in
        [("cgroup", TREE_WITH_STRANGER), ("subreaper", TREE_WITH_STRANGER), ("sweep", TREE)]
    {
        let Some(mut host) = Host::start(means, script) else { continue };
        host.stop_host_and_shim();
        assert!(host.processes.iter().all(|process| process.is_alive()), "{means}");
        let reaped = reap(&host.parsed());
        assert_eq!(
            (reaped.killed, reaped.left.len(), reaped.elsewhere),
            (5, 0, false),
            "{means}: {reaped:?}"
        );
        host.assert_all_gone(means);
        assert_eq!(reap(&host.parsed()), Reaped::default(), "{means}: again");
    }
}

#[test]
fn with_a_killed_shim_all_is_found_by_its_marks() {
    for (means, script) in [("cgroup", TREE_WITH_STRANGER), ("subreaper", TREE), ("sweep", TREE)] {
        let Some(mut host) = Host::start(means, script) else { continue };
        host.kill_shim_and_host();
        assert!(host.processes.iter().all(|process| process.is_alive()), "{means}");
        let reaped = reap(&host.parsed());
        assert_eq!(
            (reaped.killed, reaped.left.len(), reaped.elsewhere),
            (4, 0, false),
            "{means}: {reaped:?}"
        );
        host.assert_all_gone(means);
    }
}

/// Whether the shim or we do it: all is gone.
#[test]
fn a_shim_that_is_still_at_work_is_no_obstacle() {
    for means in ["cgroup", "subreaper", "sweep"] {
        let Some(mut host) = Host::start(means, TREE) else { continue };
        host.host.kill().unwrap();
        host.host.wait().unwrap();
        let reaped = reap(&host.parsed());
        assert!(reaped.left.is_empty(), "{means}: {reaped:?}");
        host.assert_all_gone(means);
    }
}

#[test]
fn a_record_of_another_boot_touches_nothing() {
    let mut host = Host::start("subreaper", TREE).unwrap();
    host.stop_host_and_shim();
    for boot in ["", "00000000-0000-0000-0000-000000000000 pid:[1]"] {
        let mut record = host.record.clone();
        record["boot"] = boot.into();
        let reaped = reap(&serde_json::from_value(record).unwrap());
        assert!(reaped.elsewhere && reaped.killed == 0, "{reaped:?}");
    }
    assert!(host.processes.iter().all(|process| process.is_alive()));
    reap(&host.parsed());
    host.assert_all_gone("at the end");
}

/// All of a tree has ended, and others have its pids by now: a record with other start times is just that.
#[test]
fn strangers_under_the_old_pids_are_left_alone() {
    let mut host = Host::start("subreaper", TREE).unwrap();
    host.stop_host_and_shim();
    let mut record = host.record.clone();
    for process in ["leader", "shim"] {
        record[process]["start"] = (record[process]["start"].as_u64().unwrap() - 1).into();
    }
    record["id"] = "yb-0-0-0".into();
    record["cgroup"] = "/sys/fs/cgroup".into();
    assert_eq!(reap(&serde_json::from_value(record).unwrap()), Reaped::default());
    assert!(host.processes.iter().chain([&host.shim()]).all(|process| process.is_alive()));
    reap(&host.parsed());
    host.assert_all_gone("at the end");
}
