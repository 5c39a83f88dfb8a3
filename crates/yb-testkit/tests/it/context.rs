//! Hermetic runs of command-line programs, and their snapshots.

use std::time::{Duration, Instant};

use serde_json::json;
use yb_testkit::{FakeAgent, TestContext};

#[test]
fn environment_is_cleared() {
    let context = TestContext::new();
    let program =
        FakeAgent::in_dir(context.root().join("bin")).script("- dump: {path: d.json, read_stdin: true}");
    let outcome = context.command(program).args(["a", "b"]).env("MINE", "1").stdin("input").run();
    assert!(outcome.success());
    let dump: serde_json::Value = serde_json::from_str(&context.read("d.json")).unwrap();
    let mut names: Vec<&String> = dump["env"].as_object().unwrap().keys().collect();
    names.retain(|name| *name != "LLVM_PROFILE_FILE");
    assert_eq!(names, ["HOME", "LANG", "MINE", "PATH", "TERM", "TMPDIR"]);
    assert_eq!(dump["env"]["HOME"], json!(context.home()));
    assert_eq!(dump["cwd"], json!(context.dir()));
    assert_eq!(dump["stdin"]["text"], "input");
    assert_eq!(dump["argv"].as_array().unwrap().len(), 3);
}

#[test]
fn snapshot_is_deterministic() {
    let mut context = TestContext::new();
    context.filter("secret-[a-z]+", "[SECRET]");
    let dir = context.dir();
    let script = format!(
        "- print: 'wrote {}/log in 12.5 ms'\n- print: {{line: 'pid {{{{pid}}}} listens on 127.0.0.1:40123, secret-abc', to: stderr}}\n- exit: 3",
        dir.display()
    );
    let program = FakeAgent::in_dir(context.root().join("bin")).script(&script);
    insta::assert_snapshot!(context.run(program, ["-p"]).snapshot(), @r"
    exit code: 3
    ----- stdout -----
    wrote [TEMP]/work/log in [TIME]
    ----- stderr -----
    pid [PID] listens on 127.0.0.1:[PORT], [SECRET]
    ");
}

#[test]
fn snapshot_shows_death_by_signal() {
    let context = TestContext::new();
    let program = FakeAgent::in_dir(context.root().join("bin")).script("- die: KILL");
    let outcome = context.run(program, [""; 0]);
    assert_eq!((outcome.code, outcome.signal), (None, Some(9)));
    assert!(outcome.snapshot().starts_with("exit code: signal 9\n"));
}

#[test]
fn large_stdin_does_not_hang_program_that_never_reads() {
    let context = TestContext::new();
    let program = FakeAgent::in_dir(context.root().join("bin")).script("- print: done");
    assert_eq!(context.command(program).stdin(vec![b'x'; 10_000_000]).run().stdout, "done\n");
}

#[test]
fn hung_program_is_killed_with_its_group() {
    let context = TestContext::new();
    let script = "
- print: so far
- child: {steps: [{pid_file: child.pid}, {sleep_ms: 60000}]}
- sleep_ms: 60000
";
    let program = FakeAgent::in_dir(context.root().join("bin")).script(script);
    let start = Instant::now();
    let hung =
        std::panic::catch_unwind(|| context.command(&program).timeout(Duration::from_millis(500)).run());
    let message = *hung.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("hung") && message.contains("so far"), "{message}");
    assert!(start.elapsed() < Duration::from_secs(40));
    yb_testkit::assert_no_process_in(context.root());
}

#[test]
fn process_that_holds_pipes_is_reported() {
    let context = TestContext::new();
    let program = FakeAgent::in_dir(context.root().join("bin"))
        .script("- child: {steps: [{sleep_ms: 60000}]}\n- print: gone");
    let held = std::panic::catch_unwind(|| context.run(&program, [""; 0]));
    let message = *held.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("holds its pipes") && message.contains("gone"), "{message}");
    yb_testkit::assert_no_process_in(context.root());
}
