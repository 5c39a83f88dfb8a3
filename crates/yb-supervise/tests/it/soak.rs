//! Many runs in one host leave nothing behind.

use std::time::Duration;

use yb_testkit::LeakCheck;

use crate::support::{Stage, Way};

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn two_hundred_runs_leave_no_descriptor_zombie_thread_or_memory() {
    let stage = Stage::new(
        "
- daemon: {pipes: close, steps: [{sleep_ms: 60000}]}
- print: {fill: 100000, to: both}
- exit: 1
",
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = |way: Way| {
        runtime.block_on(async {
            let command = stage.command(way).log_file(stage.file("log")).deadline(Duration::from_secs(60));
            let report = command.run().await;
            assert_eq!(report.shell_code(), Some(1), "{}", report.end);
            assert!(report.leaked, "{way:?}");
        });
    };
    let quick =
        |way: Way| runtime.block_on(async { assert!(way.command("/bin/true").run().await.success()) });
    // What is made once (runtime, spawner thread, allocator) is there before the count begins.
    for way in Way::EVERYWHERE {
        run(way);
        quick(way);
    }
    let leaks = LeakCheck::new();
    let before = resident_bytes();
    for round in 0..200 {
        let way = Way::EVERYWHERE[round % Way::EVERYWHERE.len()];
        // A leaked daemon costs each run its settling time; every fifth is enough of them.
        if round % 5 == 0 { run(way) } else { quick(way) }
    }
    leaks.check();
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "resident memory grew by {grown} bytes");
    yb_testkit::assert_no_process_in(stage.path());
}
