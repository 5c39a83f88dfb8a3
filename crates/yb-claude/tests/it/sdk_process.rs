//! The SDK with a fake CLI process: pipes, limits, signals and cleanup.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use yb_claude::frame::FrameError;
use yb_claude::sdk::event::{PreToolUse, PreToolUseOutput};
use yb_claude::sdk::{Error, HookMatcher, Hooks, Host, Subprocess};
use yb_claude::{Message, Options};
use yb_testkit::{FakeAgent, LeakCheck, Process};

const BEGIN: &str = r#"
- expect: {fields: {/request/subtype: initialize}, capture: {id: /request_id}}
- print: {json: {type: control_response, response: {subtype: success, request_id: "{{id}}", response: {}}}}
"#;

pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    agent: std::path::PathBuf,
}

impl Stage {
    /// Creates a CLI that answers `initialize` and then plays these steps.
    pub(crate) fn new(steps: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agent = FakeAgent::in_dir(dir.path()).name("claude").script(&format!("{BEGIN}{steps}"));
        Self { dir, agent }
    }

    pub(crate) fn subprocess(&self) -> Subprocess {
        Subprocess::new()
            .with_program(&self.agent)
            .with_shim(yb_testkit::bin("yb-shim"))
            .with_environment([("PATH", std::env::var_os("PATH").unwrap())])
    }

    pub(crate) fn host(&self) -> Host {
        Host::new(Options::default().with_cwd(self.dir.path())).with_transport(self.subprocess())
    }
}

const RESULT: &str = "
- expect: {fields: {/type: user}}
- print: {json: {type: result, subtype: success, result: ok}}
";

fn hooks() -> Hooks {
    Hooks::new().on(HookMatcher::any(), |_: PreToolUse, _| async { PreToolUseOutput::new() })
}

#[tokio::test]
async fn line_beyond_limit_ends_session_with_error() {
    let stage = Stage::new(
        "
- expect: {fields: {/type: user}}
- print: {json: {type: small}}
- flood: {bytes: 300000, to: stdout}
- read_stdin: {}
",
    );
    let host = stage.host().with_transport(stage.subprocess().with_line_limit(100_000));
    let mut query = host.query("hi");
    assert!(matches!(query.next().await, Some(Ok(Message::Unknown { .. }))));
    let error = query.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Protocol(FrameError::TooLong { limit: 100_000, .. })), "{error:?}");
    assert!(query.next().await.is_none());
    drop(query);
    yb_testkit::assert_no_process_in(stage.dir.path());
}

#[tokio::test]
async fn stderr_is_drained_forwarded_and_kept_for_error() {
    let stage = Stage::new(
        "
- expect: {fields: {/type: user}}
- print: {line: a warning, to: stderr}
- flood: {bytes: 2000000, to: stderr, line: 80}
- print: {line: the last words, to: stderr}
- exit: 3
",
    );
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    let panics = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&panics);
    let subprocess = stage.subprocess().with_stderr(move |line| {
        told.lock().unwrap().push(line.to_owned());
        if line == "a warning" {
            return;
        }
        counted.fetch_add(1, Ordering::SeqCst);
        panic!("a callback that panics");
    });
    let error = stage.host().with_transport(subprocess).query("hi").text().await.unwrap_err();
    assert!(matches!(&error, Error::Exited(exit) if exit.code == Some(3)), "{error:?}");
    assert!(error.to_string().ends_with("the last words"), "{error}");
    assert_eq!(heard.lock().unwrap()[0], "a warning");
    assert_eq!(panics.load(Ordering::SeqCst), 1, "not called again");
}

#[tokio::test]
async fn close_kills_cli_that_does_not_exit() {
    for (steps, signal, code) in [
        // Exits when stdin is closed.
        ("- read_stdin: {}\n- exit: 0\n", None, Some(0)),
        // Ignores stdin, exits on SIGTERM.
        ("- sleep_ms: 60000\n", Some(15), None),
    ] {
        let stage = Stage::new(&format!("- pid_file: cli.pid\n{steps}"));
        let client = stage.host().connect().await.unwrap();
        let exit = client.close().await.unwrap();
        assert_eq!((exit.signal, exit.code), (signal, code));
        assert!(!Process::from_file(&stage.dir.path().join("cli.pid")).is_alive());
    }
}

#[tokio::test]
async fn dropping_last_handle_or_task_kills_process_tree() {
    let steps =
        "- child: {group: session, steps: [{pid_file: child.pid}, {sleep_ms: 60000}]}\n- sleep_ms: 60000\n";
    for abort in [false, true] {
        let stage = Stage::new(steps);
        let client = stage.host().connect().await.unwrap();
        let file = stage.dir.path().join("child.pid");
        let child = tokio::task::spawn_blocking(move || Process::from_file(&file)).await.unwrap();
        let turn = client.turn("hi");
        if abort {
            let task = tokio::spawn(async move { (client, turn.result().await) });
            tokio::task::yield_now().await;
            task.abort();
            let _ = task.await;
        } else {
            drop(client);
            assert!(child.is_alive(), "a turn is still held");
            drop(turn);
        }
        let gone = tokio::task::spawn_blocking(move || child.is_gone_within(Duration::from_secs(20)));
        assert!(gone.await.unwrap(), "abort: {abort}");
        yb_testkit::assert_no_process_in(stage.dir.path());
    }
}

#[test]
fn runtime_shutdown_kills_cli() {
    let stage = Stage::new("- pid_file: cli.pid\n- sleep_ms: 60000\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(stage.host().connect()).unwrap();
    let cli = Process::from_file(&stage.dir.path().join("cli.pid"));
    runtime.shutdown_background();
    assert!(cli.is_gone_within(Duration::from_secs(20)));
    drop(client);
}

/// The hook is answered despite many unread messages, and no message is lost.
#[tokio::test]
async fn slow_consumer_does_not_block_hooks() {
    let stage = Stage::new(
        r#"
- expect: {fields: {/type: user}}
- print: {json: {type: big, text: "0123456789012345678901234567890123456789"}, times: 20000}
- print: {json: {type: control_request, request_id: asked, request: {subtype: hook_callback, callback_id: hook_0, input: {}}}}
- expect: {fields: {/response/request_id: asked}}
- write: {path: answered, line: "yes"}
- print: {json: {type: result, subtype: success, result: ok}}
- print: {json: {type: system, subtype: session_state_changed, state: idle}}
- read_stdin: {}
"#,
    );
    let mut query = stage.host().with_hooks(hooks()).query("hi");
    query.next().await.unwrap().unwrap();
    while !stage.dir.path().join("answered").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut seen = 1;
    while let Some(message) = query.next().await {
        seen += usize::from(message.unwrap().kind() == "big");
    }
    assert_eq!(seen, 20_000);
}

mod soak {
    use super::*;

    #[test]
    fn two_hundred_runs_leave_no_resources() {
        let stage = Stage::new(RESULT);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let run = |round: usize| {
            runtime.block_on(async {
                match round % 4 {
                    0 => {
                        let client = stage.host().connect().await.unwrap();
                        assert_eq!(client.turn("hi").text().await.unwrap(), "ok");
                        client.close().await.unwrap();
                    }
                    1 => drop(stage.host().connect().await.unwrap()),
                    _ => assert_eq!(stage.host().query("hi").text().await.unwrap(), "ok"),
                }
            });
        };
        (0..8).for_each(run);
        let leaks = LeakCheck::new();
        (0..200).for_each(run);
        leaks.check();
        yb_testkit::assert_no_process_in(stage.dir.path());
    }

    #[test]
    fn real_claude_ten_runs_in_one_host_leave_no_resources() {
        let trial = crate::sdk_support::Trial::replies("{ say: ok }");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let run = |_| assert_eq!(runtime.block_on(trial.host().query("hi").text()).unwrap(), "ok");
        (0..2).for_each(run);
        let leaks = LeakCheck::new();
        (0..10).for_each(run);
        leaks.check();
        yb_testkit::assert_no_process_in(trial.workspace.path());
    }
}

/// A CLI whose result is its user, its group, and whether it can read a private file.
#[cfg(target_os = "linux")]
const WHOAMI: &str = r#"#!/usr/bin/env python3
import json, os, sys
init = json.loads(sys.stdin.readline())
response = {"subtype": "success", "request_id": init["request_id"], "response": {}}
print(json.dumps({"type": "control_response", "response": response}), flush=True)
sys.stdin.readline()
files = [argument.split("=", 1)[1] for argument in sys.argv if argument.startswith("--mcp-config=")]
readable = "PRIVATE" in open(files[0]).read()
result = f"{os.getuid()} {os.getgid()} {os.getgroups()} {readable}"
print(json.dumps({"type": "result", "subtype": "success", "result": result}), flush=True)
"#;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn cli_runs_as_other_user_only_for_root() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("claude");
    std::fs::write(&program, WHOAMI).unwrap();
    for path in [dir.path(), &program] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let subprocess = Subprocess::new()
        .with_program(&program)
        .with_shim(yb_testkit::bin("yb-shim"))
        .with_environment([("PATH", std::env::var_os("PATH").unwrap())]);
    // Its environment may be a secret, so that it becomes a private file.
    let server = yb_claude::McpServer::stdio("x", ["y"]).with_env_or_header("KEY", "PRIVATE");
    let options = Options::default().with_cwd(dir.path()).with_mcp_server("s", server);
    let as_user = |name: &str| {
        Host::new(options.clone()).with_transport(subprocess.clone().with_user(name)).query("hi").text()
    };
    let nobody = as_user("nobody").await;
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        assert_eq!(nobody.unwrap(), "65534 65534 [65534] True");
    } else {
        assert!(nobody.is_err());
    }
    let error = as_user("no such user").await.unwrap_err();
    assert!(error.to_string().contains("unknown user: `no such user`"), "{error}");
}
