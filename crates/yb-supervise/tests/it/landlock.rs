//! Children restricted by Landlock to their own directory and the system.

use std::path::Path;
use std::time::Duration;

use yb_supervise::{
    CancellationToken, Command, ContainmentMethod, End, Network, Sandbox, SandboxKind, SpawnError,
};

use crate::support::{AgentDir, TEST_TIMEOUT, contained};

/// A sandbox with one directory.
fn sandbox(directory: &Path) -> Sandbox {
    Sandbox::new().kind(SandboxKind::Landlock).writable(directory)
}

/// A shell that can access only its directory and the system.
fn shell(directory: &Path, script: &str) -> Command {
    contained("/bin/sh")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .args(["-c", script])
        .current_dir(directory)
        .sandbox(sandbox(directory))
}

async fn stdout_of(command: Command) -> String {
    let report = command.deadline(TEST_TIMEOUT).run().await;
    let output = report.output.captured().map(|output| output.text().text).unwrap_or_default();
    assert!(report.success(), "{}: {output}", report.end);
    output.trim().to_owned()
}

#[test]
fn landlock_is_available() {
    SandboxKind::Landlock.probe().unwrap();
}

#[tokio::test]
async fn unlisted_paths_cannot_be_read_written_listed_or_truncated() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(other.path().join("secret"), "secret").unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let path = other.path().display();
    let script = format!(
        "echo changed > file; mkdir sub && mv file sub/ && git init -q . && echo works
         for path in {path}/secret /etc/shadow; do cat $path > /dev/null 2>&1 && echo read $path; done
         for path in {path} /root /home /run /sys /var / /tmp /dev; do ls $path > /dev/null 2>&1 && echo listed $path; done
         for path in {path}/x {path}/secret /tmp/yb-x /usr/yb-x /etc/yb-x /yb-x /dev/shm/yb-x /proc/self/oom_score_adj; do
           (: >> $path) 2> /dev/null && echo wrote $path
         done
         truncate -s 0 {path}/secret 2> /dev/null && echo cut
         rm -f {path}/secret 2> /dev/null && echo removed
         ln {path}/secret linked 2> /dev/null && echo linked
         chroot . /bin/true 2> /dev/null && echo chroot; mount -t tmpfs none sub 2> /dev/null && echo mounted
         true"
    );
    assert_eq!(stdout_of(shell(dir.path(), &script)).await, "works");
    assert_eq!(std::fs::read(other.path().join("secret")).unwrap(), b"secret");
    std::fs::create_dir(other.path().join("hidden")).unwrap();
    std::fs::write(other.path().join("hidden/answer"), "answer").unwrap();
    let shown = sandbox(dir.path()).read_only(other.path()).hidden(other.path().join("hidden"));
    let script = format!(
        "cat {path}/secret; (: >> {path}/secret) 2> /dev/null || echo and no more; cat {path}/hidden/answer 2> /dev/null; true"
    );
    assert_eq!(stdout_of(shell(dir.path(), &script).sandbox(shown)).await, "secretand no more");
}

#[tokio::test]
async fn child_has_no_capabilities_and_cannot_create_devices() {
    let dir = tempfile::tempdir().unwrap();
    let script = "grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs)' /proc/self/status; mknod disk b 8 0 2> /dev/null && echo made; true";
    let stdout_of = stdout_of(shell(dir.path(), script)).await;
    let bounded =
        if rustix::process::geteuid().is_root() { "CapBnd:\t0000000000000000\n" } else { "CapBnd:" };
    assert!(stdout_of.starts_with("CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"), "{stdout_of}");
    assert!(stdout_of.contains(bounded) && stdout_of.ends_with("NoNewPrivs:\t1"), "{stdout_of}");
}

#[tokio::test]
async fn outside_processes_cannot_be_signaled_or_traced() {
    let dir = tempfile::tempdir().unwrap();
    let pid = std::process::id();
    let script = format!(
        "kill -0 {pid} 2> /dev/null && echo signals
         for pid in {pid} $PPID; do
           kill -CONT $pid 2> /dev/null && echo signals $pid
           cat /proc/$pid/environ > /dev/null 2>&1 && echo environ $pid
           for fd in 0 1 2 3; do
             readlink /proc/$pid/fd/$fd 2> /dev/null
             (echo forged > /proc/$pid/fd/$fd) 2> /dev/null && echo wrote into $pid
           done
           ls /proc/$pid/root/ > /dev/null 2>&1 && echo root $pid
         done
         python3 -c 'import ctypes; print(ctypes.CDLL(None).ptrace(0x4206, {pid}, 0, 0))'
         sh -c 'kill -KILL $$' 2> /dev/null; test $? -eq 137 && echo its own"
    );
    assert_eq!(stdout_of(shell(dir.path(), &script)).await, "-1\nits own");
}

#[tokio::test]
async fn abstract_sockets_outside_are_unreachable() {
    use std::os::linux::net::SocketAddrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let name = format!("yb-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let script = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")' 2>&1 | tail -1"
    );
    let refused = stdout_of(shell(dir.path(), &script)).await;
    assert!(refused.contains("not permitted"), "{refused}");
    drop(listener);
}

#[tokio::test]
async fn network_none_denies_tcp() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)' 2>&1 | tail -1
         python3 -c 'import socket; socket.socket().bind((\"127.0.0.1\", 0))' 2>&1 | tail -1"
    );
    assert_eq!(stdout_of(shell(dir.path(), &script)).await, "");
    let alone = sandbox(dir.path()).network(Network::None);
    let refused = stdout_of(shell(dir.path(), &script).sandbox(alone)).await;
    assert_eq!(refused.matches("Permission denied").count(), 2, "{refused}");
}

#[tokio::test]
async fn exit_status_and_sigterm_work_under_landlock() {
    let dir = tempfile::tempdir().unwrap();
    let report = shell(dir.path(), "kill -KILL $$").run().await;
    assert!(matches!(report.end, End::Signaled { signal: 9 }), "{}", report.end);
    for method in [None, Some(ContainmentMethod::Subreaper), Some(ContainmentMethod::Sweep)] {
        let script =
            "trap 'echo obeyed > stdout_of; exit 3' TERM; echo > ready; while :; do sleep 0.05; done";
        let (stop, mut command) = (CancellationToken::new(), shell(dir.path(), script));
        if let Some(method) = method {
            command = command.containment_method(method);
        }
        let child = command.cancel_on(stop.clone()).grace(TEST_TIMEOUT).spawn().await.unwrap();
        while !dir.path().join("ready").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        assert_eq!(child.wait().await.shell_code(), Some(3), "{method:?}");
        for file in ["stdout_of", "ready"] {
            std::fs::remove_file(dir.path().join(file)).unwrap();
        }
    }
}

#[tokio::test]
async fn descendants_that_outlive_leader_are_killed() {
    let agent_dir = AgentDir::new(
        "
- daemon: {pipes: close, env: clear, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: daemon.pid}
",
    );
    let bin = yb_testkit::bin("fake-agent");
    let shown = sandbox(agent_dir.path()).read_only(bin.parent().unwrap());
    let report = agent_dir.contained().sandbox(shown).deadline(TEST_TIMEOUT).run().await;
    assert!(report.success() && report.leaked, "{}", report.end);
    yb_testkit::assert_no_process_in(agent_dir.path());
}

#[tokio::test]
async fn invalid_sandbox_is_rejected_before_start() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let error = shell(dir.path(), "true").current_dir(other.path()).spawn().await.unwrap_err();
    assert!(matches!(error, SpawnError::CwdNotVisible { .. }), "{error}");
    let script = dir.path().join("script");
    std::fs::write(&script, "echo no shell was asked for\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let command = contained(&script).current_dir(dir.path()).sandbox(sandbox(dir.path()));
    assert!(matches!(command.spawn().await.unwrap_err(), SpawnError::BadFormat { .. }));
}
