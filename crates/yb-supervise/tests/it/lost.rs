//! An agent that attacks its supervisor.

use std::time::Duration;

use yb_supervise::{End, SpawnError};
use yb_testkit::Process;

use crate::support::{GUARD, Stage, Way};

#[tokio::test]
async fn an_agent_that_kills_its_shim_is_swept_up() {
    let script = "
- daemon: {pipes: close, steps: [{ignore: [TERM]}, {pid_file: a.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: a.pid}
- pid_file: b.pid
- print: started
- signal: {to: parent, signal: KILL}
- sleep_ms: 60000
";
    for way in [Way::Cgroup, Way::Subreaper, Way::Sweep] {
        let stage = Stage::new(script);
        let report = tokio::time::timeout(GUARD, stage.command(way).run()).await.unwrap();
        if let (Way::Cgroup, End::SpawnFailed(SpawnError::MeansUnavailable { .. })) = (way, &report.end) {
            continue;
        }
        assert!(matches!(report.end, End::SupervisorLost), "{way:?}: {}", report.end);
        assert_eq!(report.status, None);
        assert_eq!(report.output.captured().unwrap().stdout(), b"started\n");
        for file in ["a.pid", "b.pid"] {
            assert!(!Process::from_file(&stage.file(file)).is_alive(), "{way:?}: {file}");
        }
        yb_testkit::assert_no_process_in(stage.path());
    }
}

#[tokio::test]
async fn an_agent_that_stops_its_shim_still_meets_its_deadline() {
    let script = "[{pid_file: a.pid}, {signal: {to: parent, signal: STOP}}, {sleep_ms: 60000}]";
    for way in [Way::Subreaper, Way::Sweep] {
        let stage = Stage::new(script);
        let command = stage.command(way).deadline(Duration::from_millis(800));
        let report = tokio::time::timeout(GUARD, command.run()).await.unwrap();
        assert!(matches!(report.end, End::TimedOut { .. }), "{way:?}: {}", report.end);
        assert!(!Process::from_file(&stage.file("a.pid")).is_alive(), "{way:?}");
    }
}
