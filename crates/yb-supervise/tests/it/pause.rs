//! A tree that is held: nothing of it runs, its deadline waits, and it can be ended all the same.

use std::time::{Duration, Instant};

use yb_supervise::{CancellationToken, Command, End, PauseSwitch, Running, SpawnError};
use yb_testkit::Process;

use crate::host_killed::{example, wait_for_pid_files};
use crate::support::{GUARD, Stage, Way, contained};

const GRACE: Duration = Duration::from_millis(200);
const WAYS: [Way; 4] = [Way::Cgroup, Way::Subreaper, Way::Sweep, Way::Direct];

/// Leader, child and daemon, each with a heartbeat in a file of its own.
const TREE: &str = "
- child: {steps: [{pid_file: child.pid}, {append: {path: child, line: x, times: 6000, every_ms: 10}}]}
- daemon: {pipes: close, steps: [{ignore: [TERM]}, {pid_file: daemon.pid}, {append: {path: daemon, line: x, times: 6000, every_ms: 10}}]}
- pid_file: leader.pid
- append: {path: leader, line: x, times: 6000, every_ms: 10}
";
const BEATS: [&str; 3] = ["child", "daemon", "leader"];

fn beats(stage: &Stage) -> [u64; 3] {
    BEATS.map(|file| std::fs::metadata(stage.file(file)).map_or(0, |file| file.len()))
}

/// Waits until each of them has gone on.
async fn wait_for_beats(stage: &Stage) {
    let (before, limit) = (beats(stage), Instant::now() + GUARD);
    while !beats(stage).iter().zip(before).all(|(now, before)| *now > before) {
        assert!(Instant::now() < limit, "{:?} since {before:?}", beats(stage));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// `None` where the machine has no cgroups.
async fn start(way: Way, command: Command) -> Option<Running> {
    match command.spawn().await {
        Ok(running) => Some(running),
        Err(SpawnError::MeansUnavailable { .. }) if way == Way::Cgroup => None,
        Err(error) => panic!("{way:?}: {error}"),
    }
}

#[track_caller]
fn assert_all_gone(stage: &Stage, context: &str) {
    for name in BEATS {
        let process = Process::from_file(&stage.file(&format!("{name}.pid")));
        assert!(process.is_gone_within(GUARD), "{context}: {name} is left");
    }
    yb_testkit::assert_no_process_in(stage.path());
}

#[tokio::test]
async fn nothing_runs_and_the_deadline_waits() {
    const DEADLINE: Duration = Duration::from_millis(1500);
    for way in WAYS {
        let stage = Stage::new(TREE);
        let switch = PauseSwitch::new();
        let command = stage.command(way).deadline(DEADLINE).grace(GRACE);
        let Some(running) = start(way, command.pause_on(switch.clone())).await else { continue };
        wait_for_beats(&stage).await;

        switch.pause();
        tokio::time::timeout(GUARD, switch.quiet()).await.unwrap();
        let held = beats(&stage);
        tokio::time::sleep(DEADLINE).await;
        assert_eq!(beats(&stage), held, "{way:?}");

        switch.resume();
        wait_for_beats(&stage).await;
        let report = tokio::time::timeout(GUARD, running.wait()).await.unwrap();
        assert!(matches!(report.end, End::TimedOut { .. }), "{way:?}: {}", report.end);
        assert!(report.paused >= DEADLINE, "{way:?}: {:?}", report.paused);
        assert!(report.duration >= report.paused + DEADLINE, "{way:?}: {:?}", report.duration);
        assert_all_gone(&stage, &format!("{way:?}"));
    }
}

/// The leader still gets to hear its SIGTERM.
#[tokio::test]
async fn a_held_tree_can_be_cancelled() {
    let script = format!(
        "- on_signal: {{signals: [TERM], steps: [{{write: {{path: heard, line: x}}}}], exit: 3}}{TREE}"
    );
    for way in WAYS {
        let stage = Stage::new(&script);
        let Some(running) = start(way, stage.command(way).grace(GRACE)).await else { continue };
        wait_for_beats(&stage).await;
        running.pause();
        tokio::time::timeout(GUARD, running.pause_switch().quiet()).await.unwrap();
        running.cancel();
        let report = tokio::time::timeout(GUARD, running.wait()).await.unwrap();
        assert!(matches!(report.end, End::Cancelled), "{way:?}: {}", report.end);
        assert!(stage.file("heard").exists(), "{way:?}");
        assert_all_gone(&stage, &format!("{way:?}"));
    }
}

#[tokio::test]
async fn dropping_a_held_tree_ends_it() {
    for way in WAYS {
        let stage = Stage::new(TREE);
        let Some(running) = start(way, stage.command(way).grace(GRACE)).await else { continue };
        wait_for_beats(&stage).await;
        let switch = running.pause_switch();
        switch.pause();
        tokio::time::timeout(GUARD, switch.quiet()).await.unwrap();
        drop(running);
        tokio::task::spawn_blocking(move || assert_all_gone(&stage, &format!("{way:?}"))).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_to_be_started_waits() {
    let switch = PauseSwitch::new();
    switch.pause();
    let (stage, token) = (Stage::new("[{write: {path: up, line: x}}]"), CancellationToken::new());
    let waiting = tokio::spawn(stage.contained().pause_on(switch.clone()).cancel_on(token.clone()).run());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!stage.file("up").exists() && !waiting.is_finished());
    switch.resume();
    assert!(tokio::time::timeout(GUARD, waiting).await.unwrap().unwrap().success());
    assert!(stage.file("up").exists());

    switch.pause();
    let waiting =
        tokio::spawn(contained("/bin/sleep").arg("60").pause_on(switch).cancel_on(token.clone()).run());
    token.cancel();
    let report = tokio::time::timeout(GUARD, waiting).await.unwrap().unwrap();
    assert!(matches!(report.end, End::Cancelled), "{}", report.end);
}

/// Whoever stopped itself is not woken by a resume.
#[tokio::test]
async fn only_what_was_held_goes_on() {
    let script = "
- child: {steps: [{pid_file: stopped.pid}, stop, {write: {path: woken, line: x}}]}
- wait_for_file: {path: go, timeout_ms: 60000}
";
    for way in WAYS {
        let stage = Stage::new(script);
        let Some(running) = start(way, stage.command(way).grace(GRACE)).await else { continue };
        let child = Process::from_file(&stage.file("stopped.pid"));
        wait_until_stopped(child, stage.path()).await;
        running.pause();
        tokio::time::timeout(GUARD, running.pause_switch().quiet()).await.unwrap();
        running.resume();
        std::fs::write(stage.file("go"), "").unwrap();
        let report = tokio::time::timeout(GUARD, running.wait()).await.unwrap();
        assert!(report.success() && report.leaked, "{way:?}: {report:?}");
        assert!(!stage.file("woken").exists(), "{way:?}");
        assert!(!child.is_alive(), "{way:?}");
    }
}

async fn wait_until_stopped(process: Process, stage: &std::path::Path) {
    let stopped = |info: &yb_testkit::ProcessInfo| info.process == process && info.state == 'T';
    let limit = Instant::now() + GUARD;
    while !yb_testkit::processes_in(stage).iter().any(stopped) {
        assert!(Instant::now() < limit, "{process} did not stop");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_switch_that_is_played_with_does_no_harm() {
    for way in WAYS {
        let command =
            way.command("/bin/sh").args(["-c", "for i in 1 2 3 4 5; do sleep 0.05; done; echo done"]);
        let Some(running) = start(way, command).await else { continue };
        for _ in 0..25 {
            running.pause();
            tokio::time::sleep(Duration::from_millis(3)).await;
            running.resume();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let report = tokio::time::timeout(GUARD, running.wait()).await.unwrap();
        assert!(report.success(), "{way:?}: {}", report.end);
        assert_eq!(report.output.captured().unwrap().stdout(), b"done\n", "{way:?}");
    }
}

#[test]
fn a_held_tree_dies_with_its_host() {
    for means in ["cgroup", "subreaper", "sweep"] {
        let stage = Stage::new(TREE);
        let mut host = std::process::Command::new(example())
            .args(["--means", means, "--pause-after", "1", "--"])
            .arg(&stage.agent)
            .current_dir(stage.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(200));
        if means == "cgroup" && host.try_wait().unwrap().is_some() {
            continue;
        }
        wait_for_pid_files(&stage, BEATS.len());
        let limit = Instant::now() + GUARD;
        let mut before = [0; 3];
        while before.contains(&0) || before != beats(&stage) {
            assert!(Instant::now() < limit, "{means}: it was not held");
            before = beats(&stage);
            std::thread::sleep(Duration::from_millis(300));
        }
        host.kill().unwrap();
        host.wait().unwrap();
        assert_all_gone(&stage, means);
    }
}
