//! Many runs in one host leak nothing.

use std::time::Duration;

use yb_testkit::LeakCheck;

use crate::support::{AgentDir, LaunchConfig};

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn two_hundred_runs_leak_no_descriptor_zombie_thread_or_memory() {
    let agent_dir = AgentDir::new(
        "
- daemon: {pipes: close, steps: [{sleep_ms: 60000}]}
- print: {fill: 100000, to: both}
- exit: 1
",
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = |config: LaunchConfig| {
        runtime.block_on(async {
            let command =
                agent_dir.command(config).log_file(agent_dir.file("log")).deadline(Duration::from_secs(60));
            let report = command.run().await;
            assert_eq!(report.shell_code(), Some(1), "{}", report.end);
            assert!(report.leaked, "{config:?}");
        });
    };
    let quick = |config: LaunchConfig| {
        runtime.block_on(async { assert!(config.command("/bin/true").run().await.success()) });
    };
    // Warm up, so that one-time allocations (runtime, spawner thread) are not counted.
    for config in LaunchConfig::PORTABLE {
        run(config);
        quick(config);
    }
    let leaks = LeakCheck::new();
    let before = resident_bytes();
    for round in 0..200 {
        let config = LaunchConfig::PORTABLE[round % LaunchConfig::PORTABLE.len()];
        // A leaked daemon adds the settle time to a run; every fifth run is enough.
        if round % 5 == 0 { run(config) } else { quick(config) }
    }
    leaks.check();
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "resident memory grew by {grown} bytes");
    yb_testkit::assert_no_process_in(agent_dir.path());
}
