//! What a fake agent prints, reads and dumps.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use yb_testkit::fake_agent;

use crate::support::{Stage, run, stderr, stdout};

#[test]
fn prints_lines_text_bytes_and_frames_to_either_stream() {
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
fn a_delay_lies_between_prints() {
    let start = Instant::now();
    run("- print: {line: a, times: 3, every_ms: 100}\n- sleep_ms: 100");
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[test]
fn floods_exactly_so_many_bytes() {
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
fn a_broken_pipe_ends_the_flood_but_not_the_agent() {
    let stage = Stage::new(
        "
- flood: {bytes: 100000000}
- write: {path: after, text: done}
- exit: 4
",
    );
    let mut child = stage.spawn();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(stage.text("after"), "done");
}

#[test]
fn a_closed_stream_ends_for_the_other_side_while_the_agent_lives() {
    let stage = Stage::new(
        "
- print: last
- close: [stdout, stderr]
- print: lost
- read_stdin: {}
- exit: 5
",
    );
    let mut child = stage.command().stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    let mut text = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut text).unwrap();
    assert_eq!(text, "last\n");
    assert!(child.try_wait().unwrap().is_none());
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(5));

    let stage = Stage::new(
        "
- close: [stdin]
- write: {path: closed, text: ''}
- wait_for_file: {path: go}
",
    );
    let mut child = stage.command().stdin(Stdio::piped()).spawn().unwrap();
    crate::support::wait_for(&stage.path("closed"));
    let mut stdin = child.stdin.take().unwrap();
    assert_eq!(stdin.write_all(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    std::fs::write(stage.path("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_dump_says_exactly_what_was_passed() {
    let stage = Stage::new("- dump: {path: d.json, read_stdin: true}");
    let mut command = stage.command();
    let odd = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    let odd: &std::ffi::OsStr = odd;
    command.args(["-p", "two words", "--flag=ü"]).arg(odd).env("A", "1").env("ODD", odd);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"prompt\xff\n").unwrap();
    let pid = child.id();
    assert!(child.wait().unwrap().success());

    let dump = stage.json("d.json");
    let program = stage.program.to_str().unwrap();
    assert_eq!(dump["argv"], json!([program, "-p", "two words", "--flag=ü", {"hex": "ff"}]));
    assert_eq!(dump["env"], json!({"A": "1", "ODD": {"hex": "ff"}}));
    assert_eq!(dump["cwd"], json!(stage.dir.path()));
    assert_eq!(dump["stdin"], json!({"bytes": 8, "text": "prompt\u{fffd}\n"}));
    assert_eq!((&dump["pid"], &dump["ppid"]), (&json!(pid), &json!(std::process::id())));
    assert!(dump["fds"]["1"].as_str().unwrap().starts_with("pipe:"));
    assert_eq!(dump["signals"]["blocked"], json!([]));
}

#[test]
fn stdin_is_read_fully_partly_slowly_or_never() {
    let input = vec![b'y'; 1_000_000];
    let stage = Stage::new("- read_stdin: {}\n- dump: d.json");
    assert!(stage.run_with(&input).status.success());
    assert_eq!(stage.json("d.json")["stdin"]["bytes"], 1_000_000);

    let stage = Stage::new("- read_stdin: {bytes: 30, chunk: 10, every_ms: 50}\n- dump: d.json");
    let start = Instant::now();
    assert!(stage.run_with(&input).status.success());
    assert!(start.elapsed() >= Duration::from_millis(150));
    assert_eq!(stage.json("d.json")["stdin"]["bytes"], 30);

    let stage = Stage::new("- dump: d.json");
    assert!(stage.run_with(&input).status.success());
    assert_eq!(stage.json("d.json")["stdin"]["bytes"], 0);
}

#[test]
fn an_expected_line_is_matched_and_its_fields_are_used_later() {
    let stage = Stage::new(
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
    let output = stage.run_with(
        b"{\"type\":\"control_request\",\"request_id\":\"r7\",\"n\":[1],\"request\":{\"subtype\":\"initialize\"}}\nnoise\n{\"type\":\"user\"}",
    );
    assert_eq!(stderr(&output), "");
    let expect = "{\"response\":{\"n\":[1],\"request_id\":\"r7\"},\"type\":\"control_response\"}\nr7 and [1]\nchild knows r7\n";
    assert_eq!(stdout(&output), expect);
    assert_eq!(stage.text("r7.txt"), "[1]\n");
}

#[test]
fn an_unexpected_line_or_silence_is_a_failure_of_its_own() {
    let check = |script: &str, input: &[u8], expect: &str| {
        let output = Stage::new(script).run_with(input);
        assert_eq!(output.status.code(), Some(fake_agent::EXIT_UNEXPECTED));
        assert!(stderr(&output).contains(expect), "{}", stderr(&output));
    };
    check("- expect: {contains: yes}", b"no\n", "expected the text `yes`, in the line: no");
    check("- expect: {fields: {/a: 1}}", b"{\"a\":2}\n", "expected 1 at `/a`, found 2");
    check("- expect: {fields: {/a: 1}}", b"not json\n", "expected 1 at `/a`, found nothing");
    check("- expect: {capture: {x: /a}}", b"{}\n", "nothing at `/a` to capture");
    check("- expect: {contains: x, skip_others: true}", b"a\nb\n", "stdin ended before the expected line");

    let stage = Stage::new("- expect: {timeout_ms: 100}");
    let mut child = stage.command().stdin(Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(fake_agent::EXIT_UNEXPECTED));
    drop(held);
}
