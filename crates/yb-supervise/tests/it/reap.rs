//! Host and shim are killed with SIGKILL: `reap` finds the tree through its record, and nothing else.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use yb_supervise::{ReapReport, TreeRecord, reap};
use yb_testkit::Process;

use crate::host_killed::{example, wait_for_pid_files};
use crate::support::{AgentDir, LaunchConfig, TEST_TIMEOUT, signal};

/// A leader with a child in a new session, a double-forked daemon, and a child in its group.
const TREE: &str = "
- daemon: {pipes: close, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- child: {group: session, steps: [{pid_file: session.pid}, {sleep_ms: 60000}]}
- child: {steps: [{ignore: [TERM]}, {pid_file: child.pid}, {sleep_ms: 60000}]}
- pid_file: leader.pid
- sleep_ms: 60000
";

/// Additionally a daemon without marker, session or group.
const TREE_WITH_STRANGER: &str = "
- daemon: {pipes: close, env: clear, steps: [{pid_file: clean.pid}, {sleep_ms: 60000}]}
- daemon: {pipes: close, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- child: {group: session, steps: [{pid_file: session.pid}, {sleep_ms: 60000}]}
- pid_file: leader.pid
- sleep_ms: 60000
";

/// A host process with one tree.
struct Host {
    host: Child,
    agent_dir: AgentDir,
    processes: Vec<Process>,
    record: Value,
}

impl Drop for Host {
    /// Also runs when an assertion failed.
    fn drop(&mut self) {
        let _ = self.host.kill();
        let _ = self.host.wait();
        for process in self.processes.iter().chain([&self.shim()]) {
            signal(*process, "KILL");
        }
    }
}

impl Host {
    /// Returns `None` if the machine has no cgroups.
    fn start(method: &str, script: &str) -> Option<Self> {
        let agent_dir = AgentDir::new(script);
        let records = agent_dir.file("records.json");
        let mut host = Command::new(example())
            .args(["--method", method, "--records"])
            .arg(&records)
            .arg("--")
            .arg(&agent_dir.agent)
            .current_dir(agent_dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let limit = Instant::now() + TEST_TIMEOUT;
        let record = loop {
            let written = std::fs::read(&records).ok().and_then(|text| serde_json::from_slice(&text).ok());
            if let Some(written) = written {
                let written: Value = written;
                break written[0].clone();
            }
            if host.try_wait().unwrap().is_some() {
                assert_eq!(method, "cgroup", "every machine has the others");
                return None;
            }
            assert!(Instant::now() < limit, "no record was written");
            std::thread::sleep(Duration::from_millis(10));
        };
        let processes = wait_for_pid_files(&agent_dir, script.matches("pid_file").count());
        Some(Self { host, agent_dir, processes, record })
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
        Process::from_pid(self.host.id()).unwrap()
    }

    /// Stops both instead of killing them: if its host dies, a stopped shim is resumed by the kernel, because
    /// its process group becomes orphaned, and would kill the tree itself.
    fn stop_host_and_shim(&self) {
        signal(self.host(), "STOP");
        signal(self.shim(), "STOP");
    }

    fn kill_shim_and_host(&mut self) {
        // A running host would sweep.
        signal(self.host(), "STOP");
        signal(self.shim(), "KILL");
        assert!(self.shim().is_gone_within(TEST_TIMEOUT));
        self.host.kill().unwrap();
        self.host.wait().unwrap();
    }

    #[track_caller]
    fn assert_all_gone(&mut self, context: &str) {
        let _ = self.host.kill();
        self.host.wait().unwrap();
        for process in self.processes.iter().chain([&self.shim()]) {
            assert!(process.is_gone_within(TEST_TIMEOUT), "{context}: process {process} is still alive");
        }
        yb_testkit::assert_no_process_in(self.agent_dir.path());
        if let Some(cgroup) = self.record["cgroup"].as_str() {
            assert!(!std::path::Path::new(cgroup).exists(), "{context}: `{cgroup}` still exists");
        }
    }
}

#[test]
fn reap_finds_all_descendants_of_stopped_shim() {
    for (method, script) in
        [("cgroup", TREE_WITH_STRANGER), ("subreaper", TREE_WITH_STRANGER), ("sweep", TREE)]
    {
        let Some(mut host) = Host::start(method, script) else { continue };
        host.stop_host_and_shim();
        assert!(host.processes.iter().all(|process| process.is_alive()), "{method}");
        let reaped = reap(&host.parsed());
        assert_eq!(
            (reaped.killed, reaped.unkillable.len(), reaped.elsewhere),
            (5, 0, false),
            "{method}: {reaped:?}"
        );
        host.assert_all_gone(method);
        assert_eq!(reap(&host.parsed()), ReapReport::default(), "{method}: again");
    }
}

#[test]
fn reap_finds_marked_processes_after_shim_was_killed() {
    for (method, script) in [("cgroup", TREE_WITH_STRANGER), ("subreaper", TREE), ("sweep", TREE)] {
        let Some(mut host) = Host::start(method, script) else { continue };
        host.kill_shim_and_host();
        assert!(host.processes.iter().all(|process| process.is_alive()), "{method}");
        let reaped = reap(&host.parsed());
        assert_eq!(
            (reaped.killed, reaped.unkillable.len(), reaped.elsewhere),
            (4, 0, false),
            "{method}: {reaped:?}"
        );
        host.assert_all_gone(method);
    }
}

/// Either the shim or `reap` kills the tree.
#[test]
fn reap_works_with_running_shim() {
    for method in ["cgroup", "subreaper", "sweep"] {
        let Some(mut host) = Host::start(method, TREE) else { continue };
        host.host.kill().unwrap();
        host.host.wait().unwrap();
        let reaped = reap(&host.parsed());
        assert!(reaped.unkillable.is_empty(), "{method}: {reaped:?}");
        host.assert_all_gone(method);
    }
}

#[test]
fn reap_ignores_record_of_another_boot() {
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

/// A record whose start times don't match: the pids were reused.
#[test]
fn reap_ignores_processes_with_reused_pids() {
    let mut host = Host::start("subreaper", TREE).unwrap();
    host.stop_host_and_shim();
    let mut record = host.record.clone();
    for process in ["leader", "shim"] {
        record[process]["start"] = (record[process]["start"].as_u64().unwrap() - 1).into();
    }
    record["id"] = "yb-0-0-0".into();
    record["cgroup"] = "/sys/fs/cgroup".into();
    assert_eq!(reap(&serde_json::from_value(record).unwrap()), ReapReport::default());
    assert!(host.processes.iter().chain([&host.shim()]).all(|process| process.is_alive()));
    reap(&host.parsed());
    host.assert_all_gone("at the end");
}

/// Until the hook has ended, the program does not run and the tree can be found through the record.
#[tokio::test]
async fn program_runs_only_after_its_record_was_persisted() {
    for config in [LaunchConfig::Subreaper, LaunchConfig::Sweep] {
        let agent_dir = AgentDir::new("- pid_file: leader.pid");
        let (pid_file, seen) = (agent_dir.file("leader.pid"), agent_dir.file("seen.json"));
        let (hook_pid_file, hook_seen) = (pid_file.clone(), seen.clone());
        let command = agent_dir.command(config).before_start(move |record| async move {
            // Ample time for a program that is not held back.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let leader = Process::from_pid(record.pid()).filter(|_| !hook_pid_file.exists());
            std::fs::write(hook_seen, serde_json::to_string(&(leader.is_some(), record))?)
        });
        let report = command.deadline(TEST_TIMEOUT).run().await;
        assert!(report.success() && pid_file.exists(), "{config:?}: {}", report.end);
        let (held, record): (bool, TreeRecord) =
            serde_json::from_slice(&std::fs::read(seen).unwrap()).unwrap();
        assert!(held, "{config:?}: the program ran, or the leader was gone");
        assert_eq!(record.pid(), Process::from_file(&pid_file).pid, "{config:?}");
    }
}

#[tokio::test]
async fn program_whose_record_cannot_be_persisted_does_not_run() {
    let agent_dir = AgentDir::new("- pid_file: leader.pid");
    let command = agent_dir.contained().before_start(|_| async { Err(std::io::Error::other("full")) });
    let error = command.spawn().await.unwrap_err();
    assert_eq!(error.to_string(), "failed to record the process tree");
    assert!(!agent_dir.file("leader.pid").exists());
    yb_testkit::assert_no_process_in(agent_dir.path());
}
