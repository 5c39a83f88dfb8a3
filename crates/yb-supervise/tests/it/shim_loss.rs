//! Children that attack their shim.

use std::time::Duration;

use yb_supervise::{End, SpawnError};
use yb_testkit::Process;

use crate::support::{AgentDir, LaunchConfig, TEST_TIMEOUT};

#[tokio::test]
async fn child_that_kills_its_shim_is_killed_by_host_sweep() {
    let script = "
- daemon: {pipes: close, steps: [{ignore: [TERM]}, {pid_file: a.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: a.pid}
- pid_file: b.pid
- print: started
- signal: {to: parent, signal: KILL}
- sleep_ms: 60000
";
    for config in [LaunchConfig::Cgroup, LaunchConfig::Subreaper, LaunchConfig::Sweep] {
        let agent_dir = AgentDir::new(script);
        let report = tokio::time::timeout(TEST_TIMEOUT, agent_dir.command(config).run()).await.unwrap();
        if let (LaunchConfig::Cgroup, End::SpawnFailed(SpawnError::ContainmentUnavailable { .. })) =
            (config, &report.end)
        {
            continue;
        }
        assert!(matches!(report.end, End::SupervisorLost), "{config:?}: {}", report.end);
        assert_eq!(report.status, None);
        assert_eq!(report.output.captured().unwrap().stdout(), b"started\n");
        for file in ["a.pid", "b.pid"] {
            assert!(!Process::from_file(&agent_dir.file(file)).is_alive(), "{config:?}: {file}");
        }
        yb_testkit::assert_no_process_in(agent_dir.path());
    }
}

#[tokio::test]
async fn child_that_stops_its_shim_still_times_out() {
    let script = "[{pid_file: a.pid}, {signal: {to: parent, signal: STOP}}, {sleep_ms: 60000}]";
    for config in [LaunchConfig::Subreaper, LaunchConfig::Sweep] {
        let agent_dir = AgentDir::new(script);
        let command = agent_dir.command(config).deadline(Duration::from_millis(800));
        let report = tokio::time::timeout(TEST_TIMEOUT, command.run()).await.unwrap();
        assert!(matches!(report.end, End::TimedOut { .. }), "{config:?}: {}", report.end);
        assert!(!Process::from_file(&agent_dir.file("a.pid")).is_alive(), "{config:?}");
    }
}
