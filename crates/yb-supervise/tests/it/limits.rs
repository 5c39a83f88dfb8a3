//! A tree that uses more than it may is ended, and the report says of what.

use std::path::Path;
use std::time::Duration;

use yb_supervise::{Command, End, Means, OverLimit, Resource, ResourceLimits, Sandbox, SandboxKind};

use crate::support::{GUARD, contained};

/// A shell in a directory of its own, held together by each means.
fn shell(directory: &Path, script: &str, means: Means) -> Command {
    contained("/bin/sh").args(["-c", script]).current_dir(directory).means(means).deadline(GUARD)
}

async fn over(command: Command) -> OverLimit {
    let report = command.run().await;
    let End::OverLimit(over) = report.end else { panic!("{}", report.end) };
    assert!(report.unkillable.is_empty() && over.used > over.limit, "{over}");
    over
}

#[tokio::test]
async fn memory_of_all_processes_together() {
    let dir = tempfile::tempdir().unwrap();
    let script = "for n in 1 2 3 4; do python3 -c 'x = bytearray(30_000_000); import time; time.sleep(60)' & done; wait";
    for means in [Means::Subreaper, Means::Cgroup] {
        let limits = ResourceLimits::new().memory(100_000_000);
        let over = over(shell(dir.path(), script, means).limits(limits)).await;
        assert_eq!((over.resource, over.limit), (Resource::Memory, 100_000_000));
        assert!(over.to_string().starts_with("over its limit of memory: 1"), "{over}");
    }
}

/// What processes share with each other is there once.
#[tokio::test]
async fn memory_that_is_shared_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let script = "exec python3 -c '
import os, time
x = bytearray(60_000_000)
for n in range(4):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
for n in range(4):
    os.wait()
'";
    let limits = ResourceLimits::new().memory(150_000_000);
    let report = shell(dir.path(), script, Means::Subreaper).limits(limits).run().await;
    assert!(report.success(), "{}", report.end);
}

#[tokio::test]
async fn a_fork_bomb_ends_soon() {
    let dir = tempfile::tempdir().unwrap();
    // Each round starts two for each there is, as bombs do; but where no limit held, it would end by itself.
    let bomb =
        "bomb() { [ $1 -lt 9 ] || exec sleep 60; bomb $(($1 + 1)) & bomb $(($1 + 1)) & wait; }; bomb 0";
    let limits = ResourceLimits::new().processes(60);
    for means in [Means::Subreaper, Means::Cgroup] {
        let over = over(shell(dir.path(), bomb, means).limits(limits)).await;
        assert_eq!((over.resource, over.limit), (Resource::Processes, 60));
    }
    for kind in SandboxKind::ALL {
        let sandbox = Sandbox::new().by(kind).writable(dir.path());
        let command = contained("/bin/sh").args(["-c", bomb]).current_dir(dir.path()).deadline(GUARD);
        let over = over(command.sandbox(sandbox).limits(limits)).await;
        assert_eq!(over.resource, Resource::Processes, "{kind}");
    }
    yb_testkit::assert_no_process_in(dir.path());
}

#[tokio::test]
async fn cpu_time_of_all_processes_together() {
    let dir = tempfile::tempdir().unwrap();
    let busy = "(while :; do :; done) & (while :; do :; done) & wait";
    for means in [Means::Subreaper, Means::Cgroup] {
        let limits = ResourceLimits::new().cpu(Duration::from_millis(400));
        let over = over(shell(dir.path(), busy, means).limits(limits)).await;
        assert_eq!((over.resource, over.limit), (Resource::Cpu, 400));
    }
    // What has ended counts as well.
    let short = "while :; do python3 -c 'for n in range(1000000): pass'; done";
    let limits = ResourceLimits::new().cpu(Duration::from_millis(600));
    over(shell(dir.path(), short, Means::Subreaper).limits(limits)).await;
}

#[tokio::test]
async fn growth_counts_and_what_was_there_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    for directory in [&one, &two] {
        std::fs::create_dir(directory).unwrap();
    }
    std::fs::write(one.join("before"), vec![1; 3_000_000]).unwrap();
    let fill = |times: u32| {
        format!(
            "sleep 0.5; for n in $(seq {times}); do head -c 400000 /dev/zero > one/$n; head -c 400000 /dev/zero > two/$n; sleep 0.01; done; echo"
        )
    };
    for known in [None, Some(yb_supervise::disk_usage(&one))] {
        let command =
            |times| shell(dir.path(), &fill(times), Means::Subreaper).growth([&one, &two], known, 2_000_000);
        assert!(command(2).run().await.success());
        let report = command(1000).run().await;
        let End::OverQuota { used, limit, .. } = report.end else { panic!("{}", report.end) };
        assert!(limit == 2_000_000 && used > limit && used < 100_000_000, "{used}");
        for directory in [&one, &two] {
            std::fs::remove_dir_all(directory).unwrap();
            std::fs::create_dir(directory).unwrap();
        }
        std::fs::write(one.join("before"), vec![1; 3_000_000]).unwrap();
    }
}

#[tokio::test]
async fn no_file_is_larger_than_allowed_and_no_core_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let script = "ulimit -c; ulimit -f; truncate -s 1T sparse 2> /dev/null || echo refused";
    let limits = ResourceLimits::new().file_size(1 << 20);
    let report = shell(dir.path(), script, Means::Subreaper).limits(limits).run().await;
    assert_eq!(report.output.captured().unwrap().text().text.trim(), "0\n2048\nrefused");
}

#[tokio::test]
async fn who_stays_below_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let limits = ResourceLimits::new().memory(1 << 30).processes(50).cpu(GUARD).file_size(1 << 30);
    let report = shell(dir.path(), "sleep 0.5", Means::Subreaper).limits(limits).run().await;
    assert!(report.success(), "{}", report.end);
}
