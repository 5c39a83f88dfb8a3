//! The host is killed with SIGKILL: its shims kill the trees.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use yb_testkit::Process;

use crate::support::AgentDir;

/// The example is an ordinary host: it calls `shim_main` and is its own shim.
pub(crate) fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples/supervise");
    assert!(example.is_file(), "cargo builds the examples with the tests: {}", example.display());
    example
}

#[test]
fn trees_with_setsid_children_die_with_their_host() {
    const TREES: usize = 10;
    let agent_dir = AgentDir::new(
        "
- pid_file: 'leader-{{pid}}.pid'
- daemon: {pipes: close, env: clear, steps: [{ignore: [TERM, HUP]}, {pid_file: 'daemon-{{pid}}.pid'}, {sleep_ms: 60000}]}
- child: {group: session, steps: [{pid_file: 'child-{{pid}}.pid'}, {sleep_ms: 60000}]}
- sleep_ms: 60000
",
    );
    let mut host = Command::new(example())
        .args(["--copies", &TREES.to_string(), "--"])
        .arg(&agent_dir.agent)
        .current_dir(agent_dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let processes = wait_for_pid_files(&agent_dir, 3 * TREES);
    assert!(processes.iter().all(|process| process.is_alive()));
    host.kill().unwrap();
    host.wait().unwrap();
    let limit = Instant::now() + Duration::from_secs(30);
    for process in processes {
        let left = limit.saturating_duration_since(Instant::now());
        assert!(process.is_gone_within(left), "process {process} outlived its host");
    }
    yb_testkit::assert_no_process_in(agent_dir.path());
}

pub(crate) fn wait_for_pid_files(agent_dir: &AgentDir, count: usize) -> Vec<Process> {
    let limit = Instant::now() + Duration::from_secs(30);
    loop {
        let files: Vec<PathBuf> = std::fs::read_dir(agent_dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "pid"))
            .collect();
        if files.len() == count {
            return files.iter().map(|path| Process::from_file(path)).collect();
        }
        assert!(Instant::now() < limit, "only {} of {count} processes started", files.len());
        std::thread::sleep(Duration::from_millis(10));
    }
}
