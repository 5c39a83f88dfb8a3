//! How a child ends is told as it was.

use std::time::{Duration, Instant};

use yb_supervise::{CancellationToken, Command, End, ExitStatus, Launch, Means, Mode};

use crate::support::{GUARD, Stage, Way, contained};

#[tokio::test]
async fn an_exit_code_is_reported_in_every_way() {
    for way in Way::EVERYWHERE {
        let report = way.command("/bin/sh").args(["-c", "exit 7"]).run().await;
        assert!(matches!(report.end, End::Exited { code: 7 }), "{way:?}: {}", report.end);
        assert_eq!(report.status, Some(ExitStatus::Code(7)));
        assert!(!report.leaked && !report.success());
    }
}

#[tokio::test]
async fn a_death_by_signal_is_told_from_an_exit() {
    for way in Way::EVERYWHERE {
        let report = Stage::new("- die: SEGV").command(way).run().await;
        assert!(matches!(report.end, End::Signalled { signal: 11 }), "{way:?}: {}", report.end);
        assert_eq!(report.shell_code(), Some(139));
    }
}

#[tokio::test]
async fn the_report_says_which_means_was_used() {
    for (way, mode, means, best_effort) in [
        (Way::Subreaper, Mode::Contained, Means::Subreaper, false),
        (Way::Sweep, Mode::Contained, Means::Sweep, true),
        (Way::Direct, Mode::Direct, Means::Sweep, true),
    ] {
        let containment = way.command("/bin/true").run().await.containment.unwrap();
        assert_eq!(
            (containment.mode, containment.means, containment.best_effort),
            (mode, means, best_effort)
        );
    }
}

/// This test's program never called `shim_main`: a library user who can't either is told so.
#[tokio::test]
async fn without_a_shim_auto_is_direct_and_contained_is_an_error() {
    let report = Command::new("/bin/true").run().await;
    assert_eq!(report.containment.unwrap().mode, Mode::Direct);
    let report = Command::new("/bin/true").launch(Launch::Contained).run().await;
    let End::SpawnFailed(error) = report.end else { panic!("{}", report.end) };
    assert_eq!(error.to_string(), "no shim is available to contain the child");
    assert!(error.hint().unwrap().contains("shim_main"));
}

#[tokio::test]
async fn times_are_consistent() {
    let before = Instant::now();
    let report = contained("/bin/sh").args(["-c", "sleep 0.2"]).run().await;
    assert!(report.duration > Duration::ZERO && report.duration <= before.elapsed(), "{:?}", report.duration);
    let wall = report.ended_at.duration_since(report.started_at);
    assert!(wall.as_millis().abs_diff(report.duration.as_millis() as i128) <= 100, "{wall:?}");
    let text = report.started_at.to_string();
    assert!(text.ends_with('Z') && text.contains('T'), "{text}");
}

#[tokio::test]
async fn cpu_is_summed_over_descendants_and_memory_is_of_the_largest() {
    let script = "
- child: {steps: [{burn_ms: 150}, {allocate_mib: 60}], wait: true}
- daemon: {pipes: close, steps: [{burn_ms: 150}, {write: {path: done, line: x}}]}
- burn_ms: 150
- wait_for_file: {path: done}
";
    for way in [Way::Subreaper, Way::Sweep] {
        let report = Stage::new(script).command(way).run().await;
        let cpu = report.usage.user + report.usage.system;
        // Only an adopted daemon is reaped by us, so only then is it counted.
        let expected = if way == Way::Subreaper { 420 } else { 280 };
        assert!(cpu >= Duration::from_millis(expected), "{way:?}: {cpu:?}");
        let peak = report.usage.peak_rss_of_largest_process;
        assert!((60 << 20..200 << 20).contains(&peak), "{way:?}: {peak}");
    }
}

#[tokio::test]
async fn cancelling_ends_it_and_says_so() {
    for way in Way::EVERYWHERE {
        let stage = Stage::new("[{print: started}, {write: {path: up, line: x}}, {sleep_ms: 60000}]");
        let token = CancellationToken::new();
        let running = stage.command(way).cancel_on(token.clone()).spawn().await.unwrap();
        while !stage.file("up").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        token.cancel();
        let report = tokio::time::timeout(GUARD, running.wait()).await.unwrap();
        assert!(matches!(report.end, End::Cancelled), "{way:?}: {}", report.end);
        assert_eq!(report.status, Some(ExitStatus::Signal(15)), "SIGTERM comes first");
        assert_eq!(report.output.captured().unwrap().stdout(), b"started\n");
    }
}

#[tokio::test]
async fn dropping_a_running_child_ends_it() {
    for way in Way::EVERYWHERE {
        let stage = Stage::new("[{pid_file: pid}, {sleep_ms: 60000}]");
        let running = stage.command(way).spawn().await.unwrap();
        let process = yb_testkit::Process::from_file(&stage.file("pid"));
        assert!(process.is_alive());
        drop(running);
        let gone = tokio::task::spawn_blocking(move || process.is_gone_within(GUARD)).await.unwrap();
        assert!(gone, "{way:?}");
    }
}

#[test]
fn a_runtime_that_is_shut_down_takes_its_children_along() {
    for way in Way::EVERYWHERE {
        let stage = Stage::new("[{pid_file: pid}, {sleep_ms: 60000}]");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let running = runtime.block_on(stage.command(way).spawn()).unwrap();
        let process = yb_testkit::Process::from_file(&stage.file("pid"));
        runtime.shutdown_background();
        assert!(process.is_gone_within(GUARD), "{way:?}");
        drop(running);
    }
}

#[tokio::test]
async fn a_child_has_a_session_of_its_own_and_no_ignored_signals() {
    for way in Way::EVERYWHERE {
        let stage = Stage::new("[{dump: d.json}]");
        stage.command(way).run().await;
        let dump: serde_json::Value =
            serde_json::from_slice(&std::fs::read(stage.file("d.json")).unwrap()).unwrap();
        assert_eq!(dump["pid"], dump["sid"], "{way:?}");
        assert_eq!(dump["pid"], dump["pgid"], "{way:?}");
        let descriptors: Vec<&String> = dump["fds"].as_object().unwrap().keys().collect();
        assert_eq!(descriptors, ["0", "1", "2"], "{way:?}: {}", dump["fds"]);
        // The agent's own runtime ignores SIGPIPE.
        assert_eq!(dump["signals"], serde_json::json!({"blocked": [], "ignored": [13]}), "{way:?}");
    }
}
