//! Children in a bubblewrap sandbox: what they see, and that deadline, pause and reap work.

use std::path::Path;
use std::time::Duration;

use yb_supervise::{
    CancellationToken, Command, ContainmentMethod, End, Launch, Network, PauseSwitch, ResourceLimits,
    Sandbox, SpawnError, reap,
};
use yb_testkit::Process;

use crate::support::{AgentDir, LaunchConfig, TEST_TIMEOUT, contained, signal};

/// A shell in a writable directory, in a sandbox with nothing else.
fn shell(directory: &Path, script: &str) -> Command {
    contained("/bin/sh")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .args(["-c", script])
        .current_dir(directory)
        .sandbox(sandbox(directory))
}

fn sandbox(directory: &Path) -> Sandbox {
    Sandbox::new().writable(directory)
}

async fn stdout_of(command: Command) -> String {
    let report = command.deadline(TEST_TIMEOUT).run().await;
    let output = report.output.captured().unwrap().text().text.trim().to_owned();
    assert!(report.success(), "{}: {output}", report.end);
    output
}

#[test]
fn bubblewrap_is_available() {
    assert_eq!(Sandbox::probe(), Ok(()), "the tests need bubblewrap; see `scripts/test`");
}

#[tokio::test]
async fn only_listed_paths_are_visible_and_only_writable_ones_change() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(other.path().join("secret"), "s").unwrap();
    let other_path = other.path().display();
    let script = format!(
        "echo changed > file
         for path in {other_path}/secret /etc/shadow /root /home /run /sys /var/lib; do
           test -e $path && echo sees $path
         done
         for path in /x /usr/x /etc/x /bin/x {other_path}/x; do
           touch $path 2> /dev/null && echo wrote $path
         done
         touch /tmp/mine && echo has a /tmp"
    );
    assert_eq!(stdout_of(shell(dir.path(), &script)).await, "has a /tmp");
    assert_eq!(std::fs::read_to_string(dir.path().join("file")).unwrap(), "changed\n");
    let shown = sandbox(dir.path()).read_only(other.path()).hidden(dir.path().join("file"));
    let script = format!(
        "cat {other_path}/secret; touch {other_path}/x 2> /dev/null || echo and no more; cat file 2> /dev/null; true"
    );
    assert_eq!(stdout_of(shell(dir.path(), &script).sandbox(shown)).await, "sand no more");
    assert!(!other.path().join("x").exists());
}

#[tokio::test]
async fn synthetic_file_has_given_content_and_is_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let script = "cat /etc/passwd /etc/made/up; ls -l /proc/self/fd | wc -l
         for file in /etc/passwd /etc/made/up /etc/nsswitch.conf; do
           (echo x > $file) 2> /dev/null && echo wrote $file
           (rm -f $file || mv $file /tmp/x || chmod 666 $file) 2> /dev/null && echo changed $file
         done; true";
    let sandbox =
        sandbox(dir.path()).file("/etc/passwd", "me:x:1:1::/:/bin/sh\n").file("/etc/made/up", vec![b'y'; 5]);
    // A small file size limit must not prevent the sandbox's own files.
    let tight = ResourceLimits::new().file_size(1);
    let output = stdout_of(shell(dir.path(), script).sandbox(sandbox.clone()).limits(tight)).await;
    // stdin, stdout, stderr and the directory itself, after the line with the total: no descriptor is leaked.
    assert_eq!(output, "me:x:1:1::/:/bin/sh\nyyyyy5");
    for (path, content) in [("relative", vec![b'x']), ("/etc/large", vec![b'x'; 300 << 10])] {
        let report = shell(dir.path(), "true").sandbox(sandbox.clone().file(path, content)).run().await;
        assert!(
            matches!(&report.end, End::SpawnFailed(SpawnError::SandboxPath { path: named, .. }) if named == Path::new(path)),
            "{}",
            report.end
        );
    }
}

/// Copied system files equal the host's.
#[tokio::test]
async fn copied_system_files_match_host() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        stdout_of(shell(dir.path(), "cd /etc; find . -type f -maxdepth 1 | sort | xargs cksum")).await;
    let mut compared = 0;
    for line in output.lines() {
        let name = line.split_once("./").unwrap().1;
        let outside =
            std::process::Command::new("cksum").arg(format!("./{name}")).current_dir("/etc").output();
        assert_eq!(String::from_utf8(outside.unwrap().stdout).unwrap().trim(), line);
        compared += 1;
    }
    assert!(compared > 3, "{output}");
    assert!(output.contains("./nsswitch.conf") && output.contains("./hosts"), "{output}");
}

#[tokio::test]
async fn child_is_unprivileged_and_sees_no_other_processes() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "test $(id -u) -ne 0 && grep -E '^(CapEff|CapPrm|NoNewPrivs)' /proc/self/status; echo /proc/[0-9]*";
    let stdout_of = stdout_of(shell(dir.path(), script)).await;
    assert!(
        stdout_of.contains("CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1"),
        "{stdout_of}"
    );
    assert!(stdout_of.lines().last().unwrap().split(' ').count() <= 3, "{stdout_of}");
}

#[tokio::test]
async fn network_none_has_loopback_only() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)' 2>&1 | tail -1"
    );
    assert_eq!(stdout_of(shell(dir.path(), &script)).await, "");
    let alone = sandbox(dir.path()).network(Network::None);
    let refused = stdout_of(shell(dir.path(), &script).sandbox(alone)).await;
    assert!(refused.contains("refused"), "{refused}");
}

#[tokio::test]
async fn exit_codes_signals_stdin_and_output_work_in_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let report = shell(dir.path(), "exit 7").run().await;
    assert!(matches!(report.end, End::Exited { code: 7 }), "{}", report.end);
    let report = shell(dir.path(), "kill -KILL $$").run().await;
    assert!(matches!(report.end, End::Exited { code: 137 }), "{}", report.end);
    let echo = shell(dir.path(), "cat").stdin(yb_supervise::Stdin::Bytes("hello".into()));
    assert_eq!(stdout_of(echo).await, "hello");
}

#[tokio::test]
async fn sigterm_reaches_sandboxed_child_before_grace_ends() {
    for method in [None, Some(ContainmentMethod::Subreaper), Some(ContainmentMethod::Sweep)] {
        let dir = tempfile::tempdir().unwrap();
        let script =
            "trap 'echo obeyed > stdout_of; exit 3' TERM; echo > ready; while :; do sleep 0.05; done";
        let (stop, mut command) = (CancellationToken::new(), shell(dir.path(), script));
        if let Some(method) = method {
            command = command.containment_method(method);
        }
        let child = command.cancel_on(stop.clone()).grace(TEST_TIMEOUT).spawn().await.unwrap();
        wait_for(&dir.path().join("ready")).await;
        stop.cancel();
        let report = child.wait().await;
        assert!(matches!(report.end, End::Cancelled), "{method:?}: {}", report.end);
        assert_eq!(std::fs::read_to_string(dir.path().join("stdout_of")).unwrap(), "obeyed\n", "{method:?}");
        assert_eq!(report.shell_code(), Some(3), "{method:?}");
    }
}

#[tokio::test]
async fn deadline_kills_everything_in_sandbox() {
    const TREE: &str = "
- daemon: {pipes: hold, env: clear, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- child: {group: session, steps: [{ignore: [TERM]}, {pid_file: session.pid}, {sleep_ms: 60000}]}
- ignore: [TERM]
- sleep_ms: 60000
";
    for config in [LaunchConfig::Subreaper, LaunchConfig::Sweep] {
        let agent_dir = AgentDir::new(TREE);
        let command = agent_dir.command(config).sandbox(sandbox_with_agent(&agent_dir));
        let report = command.deadline(Duration::from_secs(3)).grace(Duration::from_millis(100)).run().await;
        assert!(matches!(report.end, End::TimedOut { .. }), "{config:?}: {}", report.end);
        assert!(
            agent_dir.file("daemon.pid").exists() && agent_dir.file("session.pid").exists(),
            "{config:?}"
        );
        assert_eq!(report.unkillable, [0; 0]);
        yb_testkit::assert_no_process_in(agent_dir.path());
    }
}

#[tokio::test]
async fn descendants_die_with_pid_namespace() {
    let agent_dir = AgentDir::new(
        "
- daemon: {pipes: close, env: clear, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: daemon.pid}
",
    );
    let report =
        agent_dir.contained().sandbox(sandbox_with_agent(&agent_dir)).deadline(TEST_TIMEOUT).run().await;
    assert!(report.success(), "{}", report.end);
    yb_testkit::assert_no_process_in(agent_dir.path());
}

#[tokio::test]
async fn sandbox_can_be_paused_and_resumed() {
    for method in [None, Some(ContainmentMethod::Subreaper)] {
        let dir = tempfile::tempdir().unwrap();
        let script = "while :; do echo >> ticks; sleep 0.01; done";
        let (pause, stop) = (PauseSwitch::new(), CancellationToken::new());
        let mut command = shell(dir.path(), script).pause_on(pause.clone()).cancel_on(stop.clone());
        if let Some(method) = method {
            command = command.containment_method(method);
        }
        let child = command.deadline(TEST_TIMEOUT).spawn().await.unwrap();
        let ticks = dir.path().join("ticks");
        let size = || std::fs::metadata(&ticks).map_or(0, |found| found.len());
        wait_for(&ticks).await;
        pause.pause();
        pause.wait_until_idle().await;
        let size_when_paused = size();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(size(), size_when_paused, "{method:?}: running while paused");
        pause.resume();
        let limit = std::time::Instant::now() + TEST_TIMEOUT;
        while size() == size_when_paused {
            assert!(std::time::Instant::now() < limit, "{method:?}: not resumed");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.cancel();
        assert!(matches!(child.wait().await.end, End::Cancelled));
        yb_testkit::assert_no_process_in(dir.path());
    }
}

/// If the shim is killed, the sandbox dies by itself; the record has pids of the host's namespace.
#[tokio::test]
async fn sandbox_dies_with_its_shim_and_record_has_host_pids() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' TERM HUP; setsid sleep 60 & echo > ready; sleep 60";
    let child =
        shell(dir.path(), script).containment_method(ContainmentMethod::Subreaper).spawn().await.unwrap();
    wait_for(&dir.path().join("ready")).await;
    let record = child.record();
    let text = serde_json::to_value(&record).unwrap();
    let shim = Process::from_pid(text["shim"]["pid"].as_u64().unwrap() as u32).unwrap();
    assert!(Process::from_pid(record.pid()).unwrap().is_alive());
    signal(shim, "KILL");
    let report = child.wait().await;
    assert!(matches!(report.end, End::SupervisorLost), "{}", report.end);
    assert_eq!(reap(&record).unkillable, [0; 0]);
    yb_testkit::assert_no_process_in(dir.path());
}

#[tokio::test]
async fn invalid_sandbox_is_rejected_before_start() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let error = shell(dir.path(), "true").current_dir(other.path()).spawn().await.unwrap_err();
    assert!(matches!(error, SpawnError::CwdNotVisible { .. }), "{error}");
    let gone = sandbox(dir.path()).read_only(dir.path().join("gone"));
    let error = shell(dir.path(), "true").sandbox(gone).spawn().await.unwrap_err();
    assert!(error.to_string().contains("gone") && error.hint().is_some(), "{error}");
    let error = shell(dir.path(), "true").launch(Launch::Direct).spawn().await.unwrap_err();
    assert!(matches!(error, SpawnError::NoShim), "{error}");
    let script = dir.path().join("script");
    std::fs::write(&script, "echo no shell was asked for\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let command = contained(&script).current_dir(dir.path()).sandbox(sandbox(dir.path()));
    assert!(matches!(command.spawn().await.unwrap_err(), SpawnError::BadFormat { .. }));
}

/// A failure of `bwrap` is not an exit of the program.
#[tokio::test]
async fn failed_sandbox_setup_is_a_spawn_failure() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("file"), "").unwrap();
    // A path below a file can't be mounted, which only `bwrap` detects.
    let view = sandbox(dir.path()).read_only_as("/usr/bin", dir.path().join("bin/file/below"));
    let report = shell(dir.path(), "exit 1").sandbox(view).run().await;
    let End::SpawnFailed(error) = &report.end else { panic!("{}", report.end) };
    assert!(error.to_string().starts_with("failed to set up the sandbox: bwrap: "), "{error}");
    assert!(error.hint().is_some() && report.pid.is_some());
    let report = shell(dir.path(), "echo 'bwrap: forged' >&2; exit 1").run().await;
    assert!(matches!(report.end, End::Exited { code: 1 }), "{}", report.end);
}

/// The fake agent is a link to a program in the target directory.
fn sandbox_with_agent(agent_dir: &AgentDir) -> Sandbox {
    sandbox(agent_dir.path()).read_only(yb_testkit::bin("fake-agent").parent().unwrap())
}

async fn wait_for(path: &Path) {
    let limit = std::time::Instant::now() + TEST_TIMEOUT;
    while !path.exists() {
        assert!(std::time::Instant::now() < limit, "`{}` was not created", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn every_rule_about_system_calls_has_an_effect() {
    crate::syscalls::check_rules_under(yb_supervise::SandboxKind::Bubblewrap).await;
}
