//! Output, input and dump steps of the fake agent.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use yb_testkit::fake_agent;

use crate::support::{AgentDir, run, stderr, stdout};

#[test]
fn print_writes_every_content_kind_to_either_stream() {
    let output = run(r"
- print: a line
- print: {text: no newline}
- print: {escaped: 'a\xff\0\r'}
- print: {hex: 'c3 28'}
- print: {json: {type: result, ok: true}}
- print: {line: to the other, to: stderr}
- print: {text: x, to: both, times: 3, every_ms: 1}
- exit: 3
");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"a line\nno newlinea\xff\0\r\xc3(\x7b\"ok\":true,\"type\":\"result\"}\nxxx");
    assert_eq!(stderr(&output), "to the other\nxxx");
}

#[test]
fn repeated_prints_are_delayed() {
    let start = Instant::now();
    run("- print: {line: a, times: 3, every_ms: 100}\n- sleep_ms: 100");
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[test]
fn flood_writes_exact_number_of_bytes() {
    let output = run("
- flood: {bytes: 3000001, line: 1000}
- flood: {bytes: 700000, to: stderr, line: 300001}
");
    assert_eq!(output.stdout.len(), 3_000_001);
    let lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').collect();
    assert!(lines[..3000].iter().all(|line| line.len() == 999));
    assert_eq!(lines[3000..], [b"x"]);
    let lengths: Vec<usize> = output.stderr.split(|byte| *byte == b'\n').map(<[u8]>::len).collect();
    assert_eq!(lengths, [300_000, 300_000, 99_998]);

    let output = run("- flood: {bytes: 1000000, to: both}");
    assert_eq!((output.stdout.len(), output.stderr.len()), (1_000_000, 1_000_000));
    assert!(!output.stdout.contains(&b'\n'));
}

#[test]
fn broken_pipe_ends_flood_but_not_agent() {
    let agent = AgentDir::new(
        "
- flood: {bytes: 100000000}
- write: {path: after, text: done}
- exit: 4
",
    );
    let mut child = agent.spawn();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(agent.text("after"), "done");
}

#[test]
fn closed_stream_reaches_eof_while_agent_runs() {
    let agent = AgentDir::new(
        "
- print: last
- close: [stdout, stderr]
- print: lost
- read_stdin: {}
- exit: 5
",
    );
    let mut child = agent.command().stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    let mut text = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut text).unwrap();
    assert_eq!(text, "last\n");
    assert!(child.try_wait().unwrap().is_none());
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(5));

    let agent = AgentDir::new(
        "
- close: [stdin]
- write: {path: closed, text: ''}
- wait_for_file: {path: go}
",
    );
    let mut child = agent.command().stdin(Stdio::piped()).spawn().unwrap();
    crate::support::wait_for(&agent.path("closed"));
    let mut stdin = child.stdin.take().unwrap();
    assert_eq!(stdin.write_all(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    std::fs::write(agent.path("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn dump_has_exact_process_state() {
    let agent = AgentDir::new("- dump: {path: d.json, read_stdin: true}");
    let mut command = agent.command();
    let odd = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    let odd: &std::ffi::OsStr = odd;
    command.args(["-p", "two words", "--flag=ü"]).arg(odd).env("A", "1").env("ODD", odd);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"prompt\xff\n").unwrap();
    let pid = child.id();
    assert!(child.wait().unwrap().success());

    let dump = agent.json("d.json");
    let program = agent.program.to_str().unwrap();
    assert_eq!(dump["argv"], json!([program, "-p", "two words", "--flag=ü", {"hex": "ff"}]));
    assert_eq!(dump["env"], json!({"A": "1", "ODD": {"hex": "ff"}}));
    assert_eq!(dump["cwd"], json!(agent.dir.path()));
    assert_eq!(dump["stdin"], json!({"bytes": 8, "text": "prompt\u{fffd}\n"}));
    assert_eq!((&dump["pid"], &dump["ppid"]), (&json!(pid), &json!(std::process::id())));
    assert!(dump["fds"]["1"].as_str().unwrap().starts_with("pipe:"));
    assert_eq!(dump["signals"]["blocked"], json!([]));
}

#[test]
fn stdin_can_be_read_fully_partly_slowly_or_never() {
    let input = vec![b'y'; 1_000_000];
    let agent = AgentDir::new("- read_stdin: {}\n- dump: d.json");
    assert!(agent.run_with(&input).status.success());
    assert_eq!(agent.json("d.json")["stdin"]["bytes"], 1_000_000);

    let agent = AgentDir::new("- read_stdin: {bytes: 30, chunk: 10, every_ms: 50}\n- dump: d.json");
    let start = Instant::now();
    assert!(agent.run_with(&input).status.success());
    assert!(start.elapsed() >= Duration::from_millis(150));
    assert_eq!(agent.json("d.json")["stdin"]["bytes"], 30);

    let agent = AgentDir::new("- dump: d.json");
    assert!(agent.run_with(&input).status.success());
    assert_eq!(agent.json("d.json")["stdin"]["bytes"], 0);
}

#[test]
fn expect_matches_line_and_captures_fields() {
    let agent = AgentDir::new(
        r#"
- expect:
    contains: initialize
    fields: {/type: control_request, /request/subtype: initialize}
    capture: {id: /request_id, n: /n}
- print: {json: {type: control_response, response: {request_id: "{{id}}", n: "{{n}}"}}}
- expect: {fields: {/type: user}, skip_others: true}
- print: "{{id}} and {{n}}"
- write: {path: "{{id}}.txt", line: "{{n}}"}
- child: {wait: true, steps: [{print: "child knows {{id}}"}]}
"#,
    );
    let output = agent.run_with(
        b"{\"type\":\"control_request\",\"request_id\":\"r7\",\"n\":[1],\"request\":{\"subtype\":\"initialize\"}}\nnoise\n{\"type\":\"user\"}",
    );
    assert_eq!(stderr(&output), "");
    let expect = "{\"response\":{\"n\":[1],\"request_id\":\"r7\"},\"type\":\"control_response\"}\nr7 and [1]\nchild knows r7\n";
    assert_eq!(stdout(&output), expect);
    assert_eq!(agent.text("r7.txt"), "[1]\n");
}

#[test]
fn unexpected_line_or_timeout_has_its_own_exit_code() {
    let check = |script: &str, input: &[u8], expect: &str| {
        let output = AgentDir::new(script).run_with(input);
        assert_eq!(output.status.code(), Some(fake_agent::EXIT_UNEXPECTED));
        assert!(stderr(&output).contains(expect), "{}", stderr(&output));
    };
    check("- expect: {contains: yes}", b"no\n", "expected the text `yes` in line: no");
    check("- expect: {fields: {/a: 1}}", b"{\"a\":2}\n", "expected 1 at `/a`, found 2");
    check("- expect: {fields: {/a: 1}}", b"not json\n", "expected 1 at `/a`, found nothing");
    check("- expect: {capture: {x: /a}}", b"{}\n", "no value to capture at `/a`");
    check("- expect: {contains: x, skip_others: true}", b"a\nb\n", "stdin ended before the expected line");

    let agent = AgentDir::new("- expect: {timeout_ms: 100}");
    let mut child = agent.command().stdin(Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(fake_agent::EXIT_UNEXPECTED));
    drop(held);
}
