//! Paused trees: no process runs, the deadline is suspended, and cancellation still works.

use std::time::{Duration, Instant};

use yb_supervise::{CancellationToken, Child, Command, End, PauseSwitch, SpawnError};
use yb_testkit::Process;

use crate::host_killed::{example, wait_for_pid_files};
use crate::support::{AgentDir, LaunchConfig, TEST_TIMEOUT, contained};

const GRACE: Duration = Duration::from_millis(200);
const CONFIGS: [LaunchConfig; 4] =
    [LaunchConfig::Cgroup, LaunchConfig::Subreaper, LaunchConfig::Sweep, LaunchConfig::Direct];

/// Leader, child and daemon, each with a heartbeat file.
const TREE: &str = "
- child: {steps: [{pid_file: child.pid}, {append: {path: child, line: x, times: 6000, every_ms: 10}}]}
- daemon: {pipes: close, steps: [{ignore: [TERM]}, {pid_file: daemon.pid}, {append: {path: daemon, line: x, times: 6000, every_ms: 10}}]}
- pid_file: leader.pid
- append: {path: leader, line: x, times: 6000, every_ms: 10}
";
const BEATS: [&str; 3] = ["child", "daemon", "leader"];

fn beats(agent_dir: &AgentDir) -> [u64; 3] {
    BEATS.map(|file| std::fs::metadata(agent_dir.file(file)).map_or(0, |file| file.len()))
}

/// Waits until every heartbeat has advanced.
async fn wait_for_beats(agent_dir: &AgentDir) {
    let (before, limit) = (beats(agent_dir), Instant::now() + TEST_TIMEOUT);
    while !beats(agent_dir).iter().zip(before).all(|(now, before)| *now > before) {
        assert!(Instant::now() < limit, "{:?} since {before:?}", beats(agent_dir));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns `None` on machines without cgroups.
async fn start(config: LaunchConfig, command: Command) -> Option<Child> {
    match command.spawn().await {
        Ok(child) => Some(child),
        Err(SpawnError::ContainmentUnavailable { .. }) if config == LaunchConfig::Cgroup => None,
        Err(error) => panic!("{config:?}: {error}"),
    }
}

#[track_caller]
fn assert_all_gone(agent_dir: &AgentDir, context: &str) {
    for name in BEATS {
        let process = Process::from_file(&agent_dir.file(&format!("{name}.pid")));
        assert!(process.is_gone_within(TEST_TIMEOUT), "{context}: {name} is still alive");
    }
    yb_testkit::assert_no_process_in(agent_dir.path());
}

#[tokio::test]
async fn paused_tree_does_not_run_and_deadline_is_suspended() {
    const DEADLINE: Duration = Duration::from_millis(1500);
    for config in CONFIGS {
        let agent_dir = AgentDir::new(TREE);
        let switch = PauseSwitch::new();
        let command = agent_dir.command(config).deadline(DEADLINE).grace(GRACE);
        let Some(child) = start(config, command.pause_on(switch.clone())).await else { continue };
        wait_for_beats(&agent_dir).await;

        switch.pause();
        tokio::time::timeout(TEST_TIMEOUT, switch.wait_until_idle()).await.unwrap();
        let paused_beats = beats(&agent_dir);
        tokio::time::sleep(DEADLINE).await;
        assert_eq!(beats(&agent_dir), paused_beats, "{config:?}");

        switch.resume();
        wait_for_beats(&agent_dir).await;
        let report = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.unwrap();
        assert!(matches!(report.end, End::TimedOut { .. }), "{config:?}: {}", report.end);
        assert!(report.paused >= DEADLINE, "{config:?}: {:?}", report.paused);
        assert!(report.duration >= report.paused + DEADLINE, "{config:?}: {:?}", report.duration);
        assert_all_gone(&agent_dir, &format!("{config:?}"));
    }
}

/// The leader still receives SIGTERM.
#[tokio::test]
async fn paused_tree_can_be_cancelled() {
    let script = format!(
        "- on_signal: {{signals: [TERM], steps: [{{write: {{path: terminated, line: x}}}}], exit: 3}}{TREE}"
    );
    for config in CONFIGS {
        let agent_dir = AgentDir::new(&script);
        let Some(child) = start(config, agent_dir.command(config).grace(GRACE)).await else { continue };
        wait_for_beats(&agent_dir).await;
        child.pause();
        tokio::time::timeout(TEST_TIMEOUT, child.pause_switch().wait_until_idle()).await.unwrap();
        child.cancel();
        let report = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.unwrap();
        assert!(matches!(report.end, End::Cancelled), "{config:?}: {}", report.end);
        assert!(agent_dir.file("terminated").exists(), "{config:?}");
        assert_all_gone(&agent_dir, &format!("{config:?}"));
    }
}

#[tokio::test]
async fn dropping_paused_child_kills_tree() {
    for config in CONFIGS {
        let agent_dir = AgentDir::new(TREE);
        let Some(child) = start(config, agent_dir.command(config).grace(GRACE)).await else { continue };
        wait_for_beats(&agent_dir).await;
        let switch = child.pause_switch();
        switch.pause();
        tokio::time::timeout(TEST_TIMEOUT, switch.wait_until_idle()).await.unwrap();
        drop(child);
        tokio::task::spawn_blocking(move || assert_all_gone(&agent_dir, &format!("{config:?}")))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn spawn_waits_while_switch_is_on() {
    let switch = PauseSwitch::new();
    switch.pause();
    let (agent_dir, token) = (AgentDir::new("[{write: {path: up, line: x}}]"), CancellationToken::new());
    let waiting = tokio::spawn(agent_dir.contained().pause_on(switch.clone()).cancel_on(token.clone()).run());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!agent_dir.file("up").exists() && !waiting.is_finished());
    switch.resume();
    assert!(tokio::time::timeout(TEST_TIMEOUT, waiting).await.unwrap().unwrap().success());
    assert!(agent_dir.file("up").exists());

    switch.pause();
    let waiting =
        tokio::spawn(contained("/bin/sleep").arg("60").pause_on(switch).cancel_on(token.clone()).run());
    token.cancel();
    let report = tokio::time::timeout(TEST_TIMEOUT, waiting).await.unwrap().unwrap();
    assert!(matches!(report.end, End::Cancelled), "{}", report.end);
}

/// A process that stopped itself is not resumed.
#[tokio::test]
async fn resume_skips_processes_that_stopped_themselves() {
    let script = "
- child: {steps: [{pid_file: stopped.pid}, stop, {write: {path: woken, line: x}}]}
- wait_for_file: {path: go, timeout_ms: 60000}
";
    for config in CONFIGS {
        let agent_dir = AgentDir::new(script);
        let Some(child) = start(config, agent_dir.command(config).grace(GRACE)).await else { continue };
        let stopped = Process::from_file(&agent_dir.file("stopped.pid"));
        wait_until_stopped(stopped, agent_dir.path()).await;
        child.pause();
        tokio::time::timeout(TEST_TIMEOUT, child.pause_switch().wait_until_idle()).await.unwrap();
        child.resume();
        std::fs::write(agent_dir.file("go"), "").unwrap();
        let report = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.unwrap();
        assert!(report.success() && report.leaked, "{config:?}: {report:?}");
        assert!(!agent_dir.file("woken").exists(), "{config:?}");
        assert!(!stopped.is_alive(), "{config:?}");
    }
}

async fn wait_until_stopped(process: Process, agent_dir: &std::path::Path) {
    let stopped = |info: &yb_testkit::ProcessInfo| info.process == process && info.state == 'T';
    let limit = Instant::now() + TEST_TIMEOUT;
    while !yb_testkit::processes_in(agent_dir).iter().any(stopped) {
        assert!(Instant::now() < limit, "{process} did not stop");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn rapid_pause_and_resume_is_harmless() {
    for config in CONFIGS {
        let command =
            config.command("/bin/sh").args(["-c", "for i in 1 2 3 4 5; do sleep 0.05; done; echo done"]);
        let Some(child) = start(config, command).await else { continue };
        for _ in 0..25 {
            child.pause();
            tokio::time::sleep(Duration::from_millis(3)).await;
            child.resume();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let report = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.unwrap();
        assert!(report.success(), "{config:?}: {}", report.end);
        assert_eq!(report.output.captured().unwrap().stdout(), b"done\n", "{config:?}");
    }
}

#[test]
fn paused_tree_dies_with_its_host() {
    for method in ["cgroup", "subreaper", "sweep"] {
        let agent_dir = AgentDir::new(TREE);
        let mut host = std::process::Command::new(example())
            .args(["--method", method, "--pause-after", "1", "--"])
            .arg(&agent_dir.agent)
            .current_dir(agent_dir.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(200));
        if method == "cgroup" && host.try_wait().unwrap().is_some() {
            continue;
        }
        wait_for_pid_files(&agent_dir, BEATS.len());
        let limit = Instant::now() + TEST_TIMEOUT;
        let mut before = [0; 3];
        while before.contains(&0) || before != beats(&agent_dir) {
            assert!(Instant::now() < limit, "{method}: tree was not paused");
            before = beats(&agent_dir);
            std::thread::sleep(Duration::from_millis(300));
        }
        host.kill().unwrap();
        host.wait().unwrap();
        assert_all_gone(&agent_dir, method);
    }
}
