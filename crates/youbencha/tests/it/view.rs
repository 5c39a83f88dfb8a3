//! `yb view`: address, errors and the end; `yb run --view` beside a run.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use yb_testkit::TestContext;

use crate::YB;

#[test]
fn view_serves_until_it_is_interrupted() {
    let context = TestContext::new();
    let mut child = Command::new(YB)
        .args(["view", "--no-open"])
        .env_clear()
        .env("HOME", context.home())
        .current_dir(context.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let (address, query) = line.trim().strip_prefix("view: http://").unwrap().split_once("/?").unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /?{query} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = child.wait().unwrap();
    let mut notes = String::new();
    child.stderr.take().unwrap().read_to_string(&mut notes).unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("No runs yet"), "{page}");
    assert_eq!(status.code(), Some(130));
    assert_snapshot!(notes, @r"
    no runs in `.youbencha-workspace` yet; hint: create one with: yb run FILE
    Press Ctrl-C to stop.
    ");
}

#[test]
fn view_names_what_is_wrong() {
    let context = TestContext::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let shown = context.run(YB, ["view", "--no-open", "--port", &port]).snapshot();
    assert_snapshot!(shown.replace(&port, "[PORT]"), @r"
    exit code: 4
    ----- stdout -----
    ----- stderr -----
    error: failed to listen on `127.0.0.1:[PORT]`
      caused by: Address already in use (os error 98)
    hint: omit `--port` to take any free one
    ");
    let missing = context.run(YB, ["view", "none", "--no-open"]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(missing.stderr.contains("none"), "{}", missing.stderr);
}
