//! Exit codes, signals, cancellation and resource usage in the report.

use std::time::{Duration, Instant};

use yb_supervise::{CancellationToken, Command, ContainmentMethod, ContainmentMode, End, ExitStatus, Launch};

use crate::support::{AgentDir, LaunchConfig, TEST_TIMEOUT, contained};

#[tokio::test]
async fn exit_code_is_reported_under_every_launch() {
    for config in LaunchConfig::PORTABLE {
        let report = config.command("/bin/sh").args(["-c", "exit 7"]).run().await;
        assert!(matches!(report.end, End::Exited { code: 7 }), "{config:?}: {}", report.end);
        assert_eq!(report.status, Some(ExitStatus::Code(7)));
        assert!(!report.leaked && !report.success());
    }
}

#[tokio::test]
async fn death_by_signal_is_not_an_exit_code() {
    for config in LaunchConfig::PORTABLE {
        let report = AgentDir::new("- die: SEGV").command(config).run().await;
        assert!(matches!(report.end, End::Signaled { signal: 11 }), "{config:?}: {}", report.end);
        assert_eq!(report.shell_code(), Some(139));
    }
}

#[tokio::test]
async fn report_has_containment_method() {
    for (config, mode, method, best_effort) in [
        (LaunchConfig::Subreaper, ContainmentMode::Contained, ContainmentMethod::Subreaper, false),
        (LaunchConfig::Sweep, ContainmentMode::Contained, ContainmentMethod::Sweep, true),
        (LaunchConfig::Direct, ContainmentMode::Direct, ContainmentMethod::Sweep, true),
    ] {
        let containment = config.command("/bin/true").run().await.containment.unwrap();
        assert_eq!(
            (containment.mode, containment.method, containment.best_effort),
            (mode, method, best_effort)
        );
    }
}

/// The test program never calls `shim_main`, like a library user who can't.
#[tokio::test]
async fn without_shim_auto_is_direct_and_contained_fails() {
    let report = Command::new("/bin/true").run().await;
    assert_eq!(report.containment.unwrap().mode, ContainmentMode::Direct);
    let report = Command::new("/bin/true").launch(Launch::Contained).run().await;
    let End::SpawnFailed(error) = report.end else { panic!("{}", report.end) };
    assert_eq!(error.to_string(), "no shim available to contain the child");
    assert!(error.hint().unwrap().contains("shim_main"));
}

#[tokio::test]
async fn report_times_are_consistent() {
    let before = Instant::now();
    let report = contained("/bin/sh").args(["-c", "sleep 0.2"]).run().await;
    assert!(report.duration > Duration::ZERO && report.duration <= before.elapsed(), "{:?}", report.duration);
    let wall = report.ended_at.duration_since(report.started_at);
    assert!(wall.as_millis().abs_diff(report.duration.as_millis() as i128) <= 100, "{wall:?}");
    let text = report.started_at.to_string();
    assert!(text.ends_with('Z') && text.contains('T'), "{text}");
}

#[tokio::test]
async fn usage_sums_cpu_and_has_peak_rss_of_largest_process() {
    let script = "
- child: {steps: [{burn_ms: 150}, {allocate_mib: 60}], wait: true}
- daemon: {pipes: close, steps: [{burn_ms: 150}, {write: {path: done, line: x}}]}
- burn_ms: 150
- wait_for_file: {path: done}
";
    for config in [LaunchConfig::Subreaper, LaunchConfig::Sweep] {
        let report = AgentDir::new(script).command(config).run().await;
        let cpu = report.usage.user + report.usage.system;
        // Only adopted daemons are reaped by the shim and therefore counted.
        let expected = if config == LaunchConfig::Subreaper { 420 } else { 280 };
        assert!(cpu >= Duration::from_millis(expected), "{config:?}: {cpu:?}");
        let peak = report.usage.peak_rss_of_largest_process;
        assert!((60 << 20..200 << 20).contains(&peak), "{config:?}: {peak}");
    }
}

#[tokio::test]
async fn cancel_terminates_child() {
    for config in LaunchConfig::PORTABLE {
        let agent_dir = AgentDir::new("[{print: started}, {write: {path: up, line: x}}, {sleep_ms: 60000}]");
        let token = CancellationToken::new();
        let child = agent_dir.command(config).cancel_on(token.clone()).spawn().await.unwrap();
        while !agent_dir.file("up").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        token.cancel();
        let report = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.unwrap();
        assert!(matches!(report.end, End::Cancelled), "{config:?}: {}", report.end);
        assert_eq!(report.status, Some(ExitStatus::Signal(15)), "SIGTERM comes first");
        assert_eq!(report.output.captured().unwrap().stdout(), b"started\n");
    }
}

#[tokio::test]
async fn dropping_child_handle_terminates_child() {
    for config in LaunchConfig::PORTABLE {
        let agent_dir = AgentDir::new("[{pid_file: pid}, {sleep_ms: 60000}]");
        let child = agent_dir.command(config).spawn().await.unwrap();
        let process = yb_testkit::Process::from_file(&agent_dir.file("pid"));
        assert!(process.is_alive());
        drop(child);
        let gone = tokio::task::spawn_blocking(move || process.is_gone_within(TEST_TIMEOUT)).await.unwrap();
        assert!(gone, "{config:?}");
    }
}

#[test]
fn runtime_shutdown_kills_children() {
    for config in LaunchConfig::PORTABLE {
        let agent_dir = AgentDir::new("[{pid_file: pid}, {sleep_ms: 60000}]");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let child = runtime.block_on(agent_dir.command(config).spawn()).unwrap();
        let process = yb_testkit::Process::from_file(&agent_dir.file("pid"));
        runtime.shutdown_background();
        assert!(process.is_gone_within(TEST_TIMEOUT), "{config:?}");
        drop(child);
    }
}

#[tokio::test]
async fn child_has_new_session_and_default_signals() {
    for config in LaunchConfig::PORTABLE {
        let agent_dir = AgentDir::new("[{dump: d.json}]");
        agent_dir.command(config).run().await;
        let dump: serde_json::Value =
            serde_json::from_slice(&std::fs::read(agent_dir.file("d.json")).unwrap()).unwrap();
        assert_eq!(dump["pid"], dump["sid"], "{config:?}");
        assert_eq!(dump["pid"], dump["pgid"], "{config:?}");
        let descriptors: Vec<&String> = dump["fds"].as_object().unwrap().keys().collect();
        assert_eq!(descriptors, ["0", "1", "2"], "{config:?}: {}", dump["fds"]);
        // The runtime of the fake agent ignores SIGPIPE.
        assert_eq!(dump["signals"], serde_json::json!({"blocked": [], "ignored": [13]}), "{config:?}");
    }
}
