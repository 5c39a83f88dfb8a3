//! Pages of `yb view` over a run of 10,000 trials: size, CPU time of the server, memory.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use yb_testkit::RecordedRun;
use yb_view::{ViewOptions, ViewServer};

use crate::Failure;
use crate::stats::{ms, row};

const RUN: &str = "/runs/nightly-2026-11-15-1794765306041";

pub(crate) fn run() -> Result<(), Failure> {
    let root = tempfile::tempdir()?;
    let recorded = RecordedRun {
        cases: (0..500).map(|number| format!("case-{number}")).collect(),
        variants: ["sonnet", "opus", "haiku", "other"].map(str::to_owned).to_vec(),
        repeats: 5,
        hostile: String::new(),
        extra_messages: 0,
    };
    let _ = recorded.write(root.path());
    let server = ViewServer::start(&ViewOptions::new(root.path().to_owned()))?;
    let pages = [
        ("all runs", "/".to_owned()),
        ("the run", RUN.to_owned()),
        ("the run, filtered and sorted", format!("{RUN}?outcome=failed&sort=-cost&page=2")),
        ("a trial", format!("{RUN}/trials/case-7--opus--1")),
        ("the queue of reviewers", format!("{RUN}/review")),
    ];
    for (name, path) in &pages {
        let before = cpu()?;
        get(&server, path)?;
        let first = cpu()?.saturating_sub(before);
        let before = cpu()?;
        let size = get(&server, path)?;
        let again = cpu()?.saturating_sub(before);
        row(&format!("{name}, first time"), &ms(first), None);
        row(
            &format!("{name}, again"),
            &ms(again),
            Some(("below 100 ms", again < Duration::from_millis(100))),
        );
        row(name, &format!("{:.1} KB", size as f64 / 1e3), Some(("below 300 KB", size < 300_000)));
    }
    let resident = resident()?;
    row(
        "resident",
        &format!("{:.1} MB", resident as f64 / 1e6),
        Some(("below 100 MB", resident < 100_000_000)),
    );
    Ok(())
}

/// Requests a page and returns its size.
fn get(server: &ViewServer, path: &str) -> Result<usize, Failure> {
    let token = server.url(None).split_once("token=").map(|(_, token)| token.to_owned()).unwrap_or_default();
    let mut stream = TcpStream::connect(server.address())?;
    let port = server.address().port();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: yb-view-{port}={token}\r\nConnection: close\r\n\r\n"
    )?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    if !page.starts_with(b"HTTP/1.1 200") {
        return Err(format!("no page: {path}").into());
    }
    Ok(page.len())
}

/// The CPU time of this process, all threads together.
fn cpu() -> Result<Duration, Failure> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanoseconds += text.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

fn resident() -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes: u64 = line.split_whitespace().next().unwrap_or("0").parse()?;
    Ok(kilobytes * 1024)
}
