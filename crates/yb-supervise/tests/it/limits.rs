//! Resource limits of a tree.

use std::path::Path;
use std::time::Duration;

use yb_supervise::{
    Command, ContainmentMethod, End, ExceededLimit, Resource, ResourceLimits, Sandbox, SandboxKind,
};

use crate::support::{TEST_TIMEOUT, contained};

/// A shell under a containment method.
fn shell(directory: &Path, script: &str, method: ContainmentMethod) -> Command {
    contained("/bin/sh")
        .args(["-c", script])
        .current_dir(directory)
        .containment_method(method)
        .deadline(TEST_TIMEOUT)
}

async fn exceeded_limit(command: Command) -> ExceededLimit {
    let report = command.run().await;
    let End::OverLimit(exceeded_limit) = report.end else { panic!("{}", report.end) };
    assert!(report.unkillable.is_empty() && exceeded_limit.used > exceeded_limit.limit, "{exceeded_limit}");
    exceeded_limit
}

#[tokio::test]
async fn memory_limit_covers_whole_tree() {
    let dir = tempfile::tempdir().unwrap();
    let script = "for n in 1 2 3 4; do python3 -c 'x = bytearray(30_000_000); import time; time.sleep(60)' & done; wait";
    for method in [ContainmentMethod::Subreaper, ContainmentMethod::Cgroup] {
        let limits = ResourceLimits::new().memory(100_000_000);
        let exceeded_limit = exceeded_limit(shell(dir.path(), script, method).limits(limits)).await;
        assert_eq!((exceeded_limit.resource, exceeded_limit.limit), (Resource::Memory, 100_000_000));
        assert!(exceeded_limit.to_string().starts_with("memory limit exceeded: 1"), "{exceeded_limit}");
    }
}

/// Memory that processes share counts once.
#[tokio::test]
async fn shared_memory_counts_once() {
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
    let report = shell(dir.path(), script, ContainmentMethod::Subreaper).limits(limits).run().await;
    assert!(report.success(), "{}", report.end);
}

#[tokio::test]
async fn process_limit_stops_fork_bomb() {
    let dir = tempfile::tempdir().unwrap();
    // Doubles per round like a fork bomb, but ends on its own if no limit applies.
    let bomb =
        "bomb() { [ $1 -lt 9 ] || exec sleep 60; bomb $(($1 + 1)) & bomb $(($1 + 1)) & wait; }; bomb 0";
    let limits = ResourceLimits::new().processes(60);
    for method in [ContainmentMethod::Subreaper, ContainmentMethod::Cgroup] {
        let exceeded_limit = exceeded_limit(shell(dir.path(), bomb, method).limits(limits)).await;
        assert_eq!((exceeded_limit.resource, exceeded_limit.limit), (Resource::Processes, 60));
    }
    for kind in SandboxKind::ALL {
        let sandbox = Sandbox::new().kind(kind).writable(dir.path());
        let command = contained("/bin/sh").args(["-c", bomb]).current_dir(dir.path()).deadline(TEST_TIMEOUT);
        let exceeded_limit = exceeded_limit(command.sandbox(sandbox).limits(limits)).await;
        assert_eq!(exceeded_limit.resource, Resource::Processes, "{kind}");
    }
    yb_testkit::assert_no_process_in(dir.path());
}

#[tokio::test]
async fn cpu_limit_covers_whole_tree() {
    let dir = tempfile::tempdir().unwrap();
    let busy = "(while :; do :; done) & (while :; do :; done) & wait";
    for method in [ContainmentMethod::Subreaper, ContainmentMethod::Cgroup] {
        let limits = ResourceLimits::new().cpu(Duration::from_millis(400));
        let exceeded_limit = exceeded_limit(shell(dir.path(), busy, method).limits(limits)).await;
        assert_eq!((exceeded_limit.resource, exceeded_limit.limit), (Resource::Cpu, 400));
    }
    // Ended processes count as well.
    let short = "while :; do python3 -c 'for n in range(1000000): pass'; done";
    let limits = ResourceLimits::new().cpu(Duration::from_millis(600));
    exceeded_limit(shell(dir.path(), short, ContainmentMethod::Subreaper).limits(limits)).await;
}

#[tokio::test]
async fn growth_quota_ignores_existing_files() {
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
        let command = |times| {
            shell(dir.path(), &fill(times), ContainmentMethod::Subreaper).growth_quota(
                [&one, &two],
                known,
                2_000_000,
            )
        };
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
async fn file_size_limit_applies_and_core_dumps_are_disabled() {
    let dir = tempfile::tempdir().unwrap();
    let script = "ulimit -c; ulimit -f; truncate -s 1T sparse 2> /dev/null || echo refused";
    let limits = ResourceLimits::new().file_size(1 << 20);
    let report = shell(dir.path(), script, ContainmentMethod::Subreaper).limits(limits).run().await;
    assert_eq!(report.output.captured().unwrap().text().text.trim(), "0\n2048\nrefused");
}

#[tokio::test]
async fn child_within_limits_is_not_killed() {
    let dir = tempfile::tempdir().unwrap();
    let limits = ResourceLimits::new().memory(1 << 30).processes(50).cpu(TEST_TIMEOUT).file_size(1 << 30);
    let report = shell(dir.path(), "sleep 0.5", ContainmentMethod::Subreaper).limits(limits).run().await;
    assert!(report.success(), "{}", report.end);
}
