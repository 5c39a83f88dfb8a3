//! Children that do their worst, under every means of containment: the deadline comes, and nothing is left.
//!
//! In `Direct` two things can't be promised, and are listed here rather than tried: a daemon that also cleaned its
//! environment is not found, and neither is anything but the leader when the host is killed.

use std::time::{Duration, Instant};

use yb_supervise::{End, SpawnError};
use yb_testkit::Process;

use crate::support::{GUARD, Stage, Way};

const DEADLINE: Duration = Duration::from_millis(1200);
const GRACE: Duration = Duration::from_millis(400);

struct Nasty {
    script: &'static str,
    /// Files in which processes of the tree left their identity.
    pids: &'static [&'static str],
    /// Whether the leader ends by itself before the deadline, leaving others behind.
    leader_ends: bool,
}

const IGNORES_SIGTERM: Nasty = Nasty {
    script: "[{ignore: [TERM, INT, HUP]}, {pid_file: a.pid}, {print: started}, {sleep_ms: 60000}]",
    pids: &["a.pid"],
    leader_ends: false,
};

const FORKS_AND_EXITS: Nasty = Nasty {
    script: "
- child: {pipes: close, steps: [{ignore: [TERM]}, {pid_file: a.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: a.pid}
- print: started
- exit: 5
",
    pids: &["a.pid"],
    leader_ends: true,
};

const DAEMON: Nasty = Nasty {
    script: "
- daemon: {pipes: close, steps: [{ignore: [TERM]}, {pid_file: a.pid}, {sleep_ms: 60000}]}
- child: {group: session, steps: [{pid_file: b.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: a.pid}
- wait_for_file: {path: b.pid}
- print: started
- sleep_ms: 60000
",
    pids: &["a.pid", "b.pid"],
    leader_ends: false,
};

const DAEMON_WITHOUT_ENVIRONMENT: Nasty = Nasty {
    script: "
- daemon: {pipes: close, env: clear, steps: [{pid_file: a.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: a.pid}
- print: started
- sleep_ms: 60000
",
    pids: &["a.pid"],
    leader_ends: false,
};

const GRANDCHILD_HOLDS_THE_PIPES: Nasty = Nasty {
    script: "
- child: {steps: [{child: {steps: [{pid_file: a.pid}, {sleep_ms: 60000}]}}]}
- wait_for_file: {path: a.pid}
- print: started
- exit: 5
",
    pids: &["a.pid"],
    leader_ends: true,
};

const STOPS_ITSELF: Nasty = Nasty {
    script: "[{pid_file: a.pid}, {print: started}, stop, {sleep_ms: 60000}]",
    pids: &["a.pid"],
    leader_ends: false,
};

const FORK_STORM: Nasty = Nasty {
    script: "
- pid_file: a.pid
- print: started
- storm: {width: 10, generations: 200, every_ms: 5, linger_ms: 20000, group: session}
- sleep_ms: 60000
",
    pids: &["a.pid"],
    leader_ends: false,
};

async fn check(way: Way, nasty: Nasty) {
    let stage = Stage::new(nasty.script);
    let began = Instant::now();
    let report = tokio::time::timeout(GUARD * 2, stage.command(way).deadline(DEADLINE).grace(GRACE).run())
        .await
        .unwrap();
    let took = began.elapsed();
    if way == Way::Cgroup
        && let End::SpawnFailed(SpawnError::MeansUnavailable { .. }) = &report.end
    {
        // Then this is all that can be asked of the machine; `errors` has the rest.
        return;
    }
    if nasty.leader_ends {
        assert!(matches!(report.end, End::Exited { code: 5 }), "{}", report.end);
        assert!(report.leaked);
    } else {
        assert!(matches!(report.end, End::TimedOut { .. }), "{}", report.end);
        assert!(!report.leaked, "it was ended by us, with all that it had");
        assert!(took >= DEADLINE);
    }
    // Ten times the bound of the design.
    assert!(took < DEADLINE + GRACE + Duration::from_secs(10), "{took:?}");
    assert_eq!(report.output.captured().unwrap().stdout(), b"started\n");
    assert_eq!(report.unkillable, [0; 0]);
    for file in nasty.pids {
        let process = Process::from_file(&stage.file(file));
        assert!(!process.is_alive(), "{file} outlived the report");
    }
    yb_testkit::assert_no_process_in(stage.path());
}

macro_rules! every_way {
    ($($name:ident: $nasty:expr, [$($way:ident)*];)*) => {$(
        mod $name {
            use super::*;
            $(every_way!(@one $way $nasty);)*
        }
    )*};
    (@one cgroup $nasty:expr) => { #[tokio::test] async fn under_cgroup() { check(Way::Cgroup, $nasty).await } };
    (@one subreaper $nasty:expr) => { #[tokio::test] async fn under_subreaper() { check(Way::Subreaper, $nasty).await } };
    (@one sweep $nasty:expr) => { #[tokio::test] async fn under_sweep() { check(Way::Sweep, $nasty).await } };
    (@one direct $nasty:expr) => { #[tokio::test] async fn under_direct() { check(Way::Direct, $nasty).await } };
}

every_way! {
    ignores_sigterm: IGNORES_SIGTERM, [cgroup subreaper sweep direct];
    forks_and_exits: FORKS_AND_EXITS, [cgroup subreaper sweep direct];
    double_forks_with_setsid: DAEMON, [cgroup subreaper sweep direct];
    // Without a subreaper this one can't be recognised: a sweep is best effort, and says so in the report.
    double_forks_and_cleans_its_environment: DAEMON_WITHOUT_ENVIRONMENT, [cgroup subreaper];
    grandchild_holds_the_pipes: GRANDCHILD_HOLDS_THE_PIPES, [cgroup subreaper sweep direct];
    stops_itself: STOPS_ITSELF, [cgroup subreaper sweep direct];
    fork_storm: FORK_STORM, [cgroup subreaper sweep direct];
}

/// SIGTERM is heard at once: a child that tidies up within the grace ends with its own code.
#[tokio::test]
async fn sigterm_comes_first_and_the_grace_is_given() {
    let script = "
- on_signal: {signals: [TERM], steps: [{print: tidying}, {sleep_ms: 50}, {print: tidy}], exit: 143}
- print: started
- sleep_ms: 60000
";
    for way in Way::EVERYWHERE {
        let stage = Stage::new(script);
        let command = stage.command(way).deadline(DEADLINE).grace(GUARD);
        let report = tokio::time::timeout(GUARD * 2, command.run()).await.unwrap();
        assert!(matches!(report.end, End::TimedOut { .. }), "{way:?}: {}", report.end);
        assert_eq!(report.shell_code(), Some(143), "{way:?}");
        assert_eq!(report.output.captured().unwrap().stdout(), b"started\ntidying\ntidy\n", "{way:?}");
    }
}

/// SIGCONT follows: a child that had stopped itself can still tidy up.
#[tokio::test]
async fn a_stopped_child_hears_sigterm() {
    let script = "
- on_signal: {signals: [TERM], steps: [{print: tidy}], exit: 143}
- print: started
- stop
- sleep_ms: 60000
";
    for way in Way::EVERYWHERE {
        let stage = Stage::new(script);
        let command = stage.command(way).deadline(DEADLINE).grace(GUARD);
        let report = tokio::time::timeout(GUARD * 2, command.run()).await.unwrap();
        assert_eq!(report.shell_code(), Some(143), "{way:?}: {}", report.end);
        assert_eq!(report.output.captured().unwrap().stdout(), b"started\ntidy\n", "{way:?}");
    }
}

/// The end of a pipeline that is on its way out is not a leak.
#[tokio::test]
async fn descendants_that_end_right_after_the_leader_are_not_leaked() {
    let script = "[{child: {steps: [{sleep_ms: 20}, {print: last}]}}, {exit: 0}]";
    for way in Way::EVERYWHERE {
        let report = Stage::new(script).command(way).run().await;
        assert!(report.success() && !report.leaked, "{way:?}: {}", report.end);
        assert_eq!(report.output.captured().unwrap().stdout(), b"last\n", "{way:?}");
    }
}
