//! A child in a sandbox: what it sees, and that it is ended, held and found again like any other.

use std::path::Path;
use std::time::Duration;

use yb_supervise::{
    CancellationToken, Command, End, Launch, Means, Network, PauseSwitch, ResourceLimits, Sandbox,
    SpawnError, reap,
};
use yb_testkit::Process;

use crate::support::{GUARD, Stage, Way, contained, signal};

/// A shell in a directory that it may change, in a sandbox that shows nothing else.
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

async fn said(command: Command) -> String {
    let report = command.deadline(GUARD).run().await;
    let output = report.output.captured().unwrap().text().text.trim().to_owned();
    assert!(report.success(), "{}: {output}", report.end);
    output
}

#[test]
fn it_works_here() {
    assert_eq!(Sandbox::probe(), Ok(()), "the tests need bubblewrap; `scripts/test` says how to get it");
}

#[tokio::test]
async fn only_what_is_shown_is_seen_and_only_what_may_be_is_changed() {
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
    assert_eq!(said(shell(dir.path(), &script)).await, "has a /tmp");
    assert_eq!(std::fs::read_to_string(dir.path().join("file")).unwrap(), "changed\n");
    let shown = sandbox(dir.path()).read_only(other.path()).hidden(dir.path().join("file"));
    let script = format!(
        "cat {other_path}/secret; touch {other_path}/x 2> /dev/null || echo and no more; cat file 2> /dev/null; true"
    );
    assert_eq!(said(shell(dir.path(), &script).sandbox(shown)).await, "sand no more");
    assert!(!other.path().join("x").exists());
}

#[tokio::test]
async fn a_file_of_its_own_has_what_was_given_and_nobody_changes_it() {
    let dir = tempfile::tempdir().unwrap();
    let script = "cat /etc/passwd /etc/made/up; ls -l /proc/self/fd | wc -l
         for file in /etc/passwd /etc/made/up /etc/nsswitch.conf; do
           (echo x > $file) 2> /dev/null && echo wrote $file
           (rm -f $file || mv $file /tmp/x || chmod 666 $file) 2> /dev/null && echo changed $file
         done; true";
    let given =
        sandbox(dir.path()).file("/etc/passwd", "me:x:1:1::/:/bin/sh\n").file("/etc/made/up", vec![b'y'; 5]);
    // However little may be written, its own files are made.
    let tight = ResourceLimits::new().file_size(1);
    let told = said(shell(dir.path(), script).sandbox(given.clone()).limits(tight)).await;
    // stdin, stdout, stderr and the directory itself, below the line with the total: none of what they came through.
    assert_eq!(told, "me:x:1:1::/:/bin/sh\nyyyyy5");
    for (path, content) in [("relative", vec![b'x']), ("/etc/large", vec![b'x'; 300 << 10])] {
        let report = shell(dir.path(), "true").sandbox(given.clone().file(path, content)).run().await;
        assert!(
            matches!(&report.end, End::SpawnFailed(SpawnError::SandboxPath { path: named, .. }) if named == Path::new(path)),
            "{}",
            report.end
        );
    }
}

/// What is copied for a sandbox is what the host has.
#[tokio::test]
async fn the_system_s_own_files_are_as_outside() {
    let dir = tempfile::tempdir().unwrap();
    let told = said(shell(dir.path(), "cd /etc; find . -type f -maxdepth 1 | sort | xargs cksum")).await;
    let mut compared = 0;
    for line in told.lines() {
        let name = line.split_once("./").unwrap().1;
        let outside =
            std::process::Command::new("cksum").arg(format!("./{name}")).current_dir("/etc").output();
        assert_eq!(String::from_utf8(outside.unwrap().stdout).unwrap().trim(), line);
        compared += 1;
    }
    assert!(compared > 3, "{told}");
    assert!(told.contains("./nsswitch.conf") && told.contains("./hosts"), "{told}");
}

#[tokio::test]
async fn it_is_nobody_in_particular_and_alone() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "test $(id -u) -ne 0 && grep -E '^(CapEff|CapPrm|NoNewPrivs)' /proc/self/status; echo /proc/[0-9]*";
    let said = said(shell(dir.path(), script)).await;
    assert!(said.contains("CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1"), "{said}");
    assert!(said.lines().last().unwrap().split(' ').count() <= 3, "{said}");
}

#[tokio::test]
async fn the_network_is_taken_away_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)' 2>&1 | tail -1"
    );
    assert_eq!(said(shell(dir.path(), &script)).await, "");
    let alone = sandbox(dir.path()).network(Network::None);
    let refused = said(shell(dir.path(), &script).sandbox(alone)).await;
    assert!(refused.contains("refused"), "{refused}");
}

#[tokio::test]
async fn exit_codes_signals_stdin_and_output_pass_through() {
    let dir = tempfile::tempdir().unwrap();
    let report = shell(dir.path(), "exit 7").run().await;
    assert!(matches!(report.end, End::Exited { code: 7 }), "{}", report.end);
    let report = shell(dir.path(), "kill -KILL $$").run().await;
    assert!(matches!(report.end, End::Exited { code: 137 }), "{}", report.end);
    let echo = shell(dir.path(), "cat").stdin(yb_supervise::Stdin::Bytes("hello".into()));
    assert_eq!(said(echo).await, "hello");
}

#[tokio::test]
async fn sigterm_is_heard_inside_and_there_is_time_to_obey() {
    for means in [None, Some(Means::Subreaper), Some(Means::Sweep)] {
        let dir = tempfile::tempdir().unwrap();
        let script = "trap 'echo obeyed > said; exit 3' TERM; echo > ready; while :; do sleep 0.05; done";
        let (stop, mut command) = (CancellationToken::new(), shell(dir.path(), script));
        if let Some(means) = means {
            command = command.means(means);
        }
        let running = command.cancel_on(stop.clone()).grace(GUARD).spawn().await.unwrap();
        wait_for(&dir.path().join("ready")).await;
        stop.cancel();
        let report = running.wait().await;
        assert!(matches!(report.end, End::Cancelled), "{means:?}: {}", report.end);
        assert_eq!(std::fs::read_to_string(dir.path().join("said")).unwrap(), "obeyed\n", "{means:?}");
        assert_eq!(report.shell_code(), Some(3), "{means:?}");
    }
}

#[tokio::test]
async fn a_deadline_ends_everything_inside_whatever_it_does() {
    const TREE: &str = "
- daemon: {pipes: hold, env: clear, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- child: {group: session, steps: [{ignore: [TERM]}, {pid_file: session.pid}, {sleep_ms: 60000}]}
- ignore: [TERM]
- sleep_ms: 60000
";
    for way in [Way::Subreaper, Way::Sweep] {
        let stage = Stage::new(TREE);
        let command = stage.command(way).sandbox(of_stage(&stage));
        let report = command.deadline(Duration::from_secs(3)).grace(Duration::from_millis(100)).run().await;
        assert!(matches!(report.end, End::TimedOut { .. }), "{way:?}: {}", report.end);
        assert!(stage.file("daemon.pid").exists() && stage.file("session.pid").exists(), "{way:?}");
        assert_eq!(report.unkillable, [0; 0]);
        yb_testkit::assert_no_process_in(stage.path());
    }
}

#[tokio::test]
async fn what_outlives_its_leader_ends_with_the_namespace() {
    let stage = Stage::new(
        "
- daemon: {pipes: close, env: clear, steps: [{ignore: [TERM, HUP]}, {pid_file: daemon.pid}, {sleep_ms: 60000}]}
- wait_for_file: {path: daemon.pid}
",
    );
    let report = stage.contained().sandbox(of_stage(&stage)).deadline(GUARD).run().await;
    assert!(report.success(), "{}", report.end);
    yb_testkit::assert_no_process_in(stage.path());
}

#[tokio::test]
async fn a_sandbox_is_held_and_goes_on() {
    for means in [None, Some(Means::Subreaper)] {
        let dir = tempfile::tempdir().unwrap();
        let script = "while :; do echo >> ticks; sleep 0.01; done";
        let (pause, stop) = (PauseSwitch::new(), CancellationToken::new());
        let mut command = shell(dir.path(), script).pause_on(pause.clone()).cancel_on(stop.clone());
        if let Some(means) = means {
            command = command.means(means);
        }
        let running = command.deadline(GUARD).spawn().await.unwrap();
        let ticks = dir.path().join("ticks");
        let size = || std::fs::metadata(&ticks).map_or(0, |found| found.len());
        wait_for(&ticks).await;
        pause.pause();
        pause.quiet().await;
        let held = size();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(size(), held, "{means:?}: it went on while it was held");
        pause.resume();
        let limit = std::time::Instant::now() + GUARD;
        while size() == held {
            assert!(std::time::Instant::now() < limit, "{means:?}: it stayed held");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.cancel();
        assert!(matches!(running.wait().await.end, End::Cancelled));
        yb_testkit::assert_no_process_in(dir.path());
    }
}

/// The shim is killed: what is inside dies by itself; and the record names processes of the host, not of the inside.
#[tokio::test]
async fn without_its_shim_a_sandbox_ends_and_its_record_is_true() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' TERM HUP; setsid sleep 60 & echo > ready; sleep 60";
    let running = shell(dir.path(), script).means(Means::Subreaper).spawn().await.unwrap();
    wait_for(&dir.path().join("ready")).await;
    let record = running.record();
    let text = serde_json::to_value(&record).unwrap();
    let shim = Process::of(text["shim"]["pid"].as_u64().unwrap() as u32).unwrap();
    assert!(Process::of(record.pid()).unwrap().is_alive());
    signal(shim, "KILL");
    let report = running.wait().await;
    assert!(matches!(report.end, End::SupervisorLost), "{}", report.end);
    assert_eq!(reap(&record).left, [0; 0]);
    yb_testkit::assert_no_process_in(dir.path());
}

#[tokio::test]
async fn what_can_not_be_is_said_before_anything_starts() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let error = shell(dir.path(), "true").current_dir(other.path()).spawn().await.unwrap_err();
    assert!(matches!(error, SpawnError::NotShown { .. }), "{error}");
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

/// What `bwrap` could not do is no exit of the program.
#[tokio::test]
async fn a_sandbox_that_can_t_be_made_after_all_is_no_end_of_the_child() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("file"), "").unwrap();
    // Nothing can be put below a file, which nobody sees before it is tried.
    let view = sandbox(dir.path()).read_only_as("/usr/bin", dir.path().join("bin/file/below"));
    let report = shell(dir.path(), "exit 1").sandbox(view).run().await;
    let End::SpawnFailed(error) = &report.end else { panic!("{}", report.end) };
    assert!(error.to_string().starts_with("sandbox could not be made: bwrap: "), "{error}");
    assert!(error.hint().is_some() && report.pid.is_some());
    let report = shell(dir.path(), "echo 'bwrap: forged' >&2; exit 1").run().await;
    assert!(matches!(report.end, End::Exited { code: 1 }), "{}", report.end);
}

/// The fake agent is a link to a program that is found beside the others.
fn of_stage(stage: &Stage) -> Sandbox {
    sandbox(stage.path()).read_only(yb_testkit::bin("fake-agent").parent().unwrap())
}

async fn wait_for(path: &Path) {
    let limit = std::time::Instant::now() + GUARD;
    while !path.exists() {
        assert!(std::time::Instant::now() < limit, "{} never came", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
