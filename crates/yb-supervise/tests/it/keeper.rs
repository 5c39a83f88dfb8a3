//! Shims that a keeper forks are children of the host; the loss of the keeper loses nothing.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use yb_testkit::Process;

use crate::host_killed::{example, wait_for_pid_files};
use crate::support::{AgentDir, TEST_TIMEOUT, signal};

/// A leader with a daemon that left its session and environment.
const TREE: &str = "
- daemon: {pipes: close, env: clear, steps: [{ignore: [TERM, HUP]}, {pid_file: 'daemon-{{pid}}.pid'}, {sleep_ms: 60000}]}
- pid_file: 'leader-{{pid}}.pid'
- sleep_ms: 60000
";
const PROCESSES_PER_TREE: usize = 2;

/// A host with a keeper, which starts its second tree on request.
struct Host {
    process: Child,
    agent_dir: AgentDir,
}

impl Drop for Host {
    /// Also runs when an assertion failed.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Host {
    fn start() -> Self {
        let agent_dir = AgentDir::new(TREE);
        let process = Command::new(example())
            .args(["--keeper", "--copies", "2", "--wait-for"])
            .arg(agent_dir.file("go"))
            .arg("--")
            .arg(&agent_dir.agent)
            .current_dir(agent_dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, agent_dir }
    }

    /// The children of the host, by the name of their main thread.
    fn children(&self, name: &str) -> Vec<Process> {
        let pid = self.process.id();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks
            .flat_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")))
            .flat_map(|pids| pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .filter(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
            })
            .filter_map(|pid| Process::from_pid(pid.parse().unwrap()))
            .collect()
    }

    fn keeper(&self) -> Process {
        let found = self.children("yb-keeper");
        assert_eq!(found.len(), 1);
        found[0]
    }

    fn start_second_tree(&self) -> Vec<Process> {
        std::fs::write(self.agent_dir.file("go"), "").unwrap();
        wait_for_pid_files(&self.agent_dir, 2 * PROCESSES_PER_TREE)
    }

    #[track_caller]
    fn kill_and_check(mut self, mut processes: Vec<Process>) {
        processes.extend(self.children("yb-shim"));
        processes.extend(self.children("yb-keeper"));
        assert!(processes.iter().filter(|process| process.is_alive()).count() > 2 * PROCESSES_PER_TREE);
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let limit = Instant::now() + TEST_TIMEOUT;
        for process in processes {
            let left = limit.saturating_duration_since(Instant::now());
            assert!(process.is_gone_within(left), "process {process} outlived its host");
        }
        yb_testkit::assert_no_process_in(self.agent_dir.path());
    }
}

#[test]
fn forked_shims_are_children_of_the_host_and_kill_trees_when_it_dies() {
    let host = Host::start();
    wait_for_pid_files(&host.agent_dir, PROCESSES_PER_TREE);
    assert_eq!(host.children("yb-shim").len(), 1);
    let processes = host.start_second_tree();
    assert_eq!(host.children("yb-shim").len(), 2);
    host.kill_and_check(processes);
}

#[test]
fn killed_keeper_orphans_nothing_and_further_trees_get_their_own_shim() {
    let host = Host::start();
    let first = wait_for_pid_files(&host.agent_dir, PROCESSES_PER_TREE);
    let keeper = host.keeper();
    signal(keeper, "KILL");
    assert!(is_dead_or_zombie(keeper));
    let processes = host.start_second_tree();
    assert!(first.iter().all(|process| process.is_alive()), "the first tree went on");
    // The shim of the second tree is the program itself.
    assert_eq!(host.children("yb-shim").len(), 1);
    host.kill_and_check(processes);
}

#[test]
fn stopped_keeper_is_resumed() {
    let host = Host::start();
    wait_for_pid_files(&host.agent_dir, PROCESSES_PER_TREE);
    signal(host.keeper(), "STOP");
    let processes = host.start_second_tree();
    assert_eq!(host.children("yb-shim").len(), 2);
    host.kill_and_check(processes);
}

#[test]
fn supervised_programs_of_a_keeper_are_reported_and_reaped() {
    for program in [&["/bin/true"][..], &["/bin/sh", "-c", "exit 7"], &["/bin/sh", "-c", "kill -9 $$"]] {
        let output = Command::new(example())
            .args(["--keeper", "--copies", "5", "--"])
            .args(program)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let expected = match program.last() {
            Some(&"exit 7") => "exited with code 7",
            Some(&"kill -9 $$") => "signal 9",
            _ => "exited with code 0",
        };
        assert!(output.status.success(), "{text}");
        assert_eq!(text.matches(expected).count(), 5, "{text}");
    }
}

fn is_dead_or_zombie(process: Process) -> bool {
    let limit = Instant::now() + TEST_TIMEOUT;
    while Instant::now() < limit {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
        if stat.rsplit(')').next().is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with('Z')) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}
