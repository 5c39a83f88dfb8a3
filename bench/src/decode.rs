//! Decoding of recorded messages into types, compared with decoding into a JSON tree.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use yb_claude::{Frame, Framer, Message};

use crate::Failure;
use crate::stats::{median, row};

const TOTAL: usize = 100_000_000;
const CHUNK: usize = 1 << 16;
const ROUNDS: usize = 7;

pub(crate) fn run() -> Result<(), Failure> {
    let recorded = recorded_lines()?;
    let mut stream = Vec::with_capacity(TOTAL + (1 << 20));
    while stream.len() < TOTAL {
        for line in &recorded {
            stream.extend_from_slice(line);
            stream.push(b'\n');
        }
    }
    let lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let (mut tree, mut typed, mut framed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        tree.push(timed(|| {
            for line in &lines {
                black_box(serde_json::from_slice::<Value>(line)?);
            }
            Ok(())
        })?);
        typed.push(timed(|| {
            for line in &lines {
                black_box(Message::parse(line)?);
            }
            Ok(())
        })?);
        framed.push(timed(|| {
            let mut framer = Framer::new();
            let mut messages = 0;
            for chunk in stream.chunks(CHUNK) {
                framer.push(chunk);
                for frame in framer.by_ref() {
                    messages += usize::from(matches!(black_box(frame), Frame::Message(_)));
                }
            }
            if messages == lines.len() { Ok(()) } else { Err("a line was lost".into()) }
        })?);
    }
    let (tree, typed, framed) = (median(&mut tree), median(&mut typed), median(&mut framed));
    let rate = |time: Duration| format!("{:.0} MB/s", stream.len() as f64 / 1e6 / time.as_secs_f64());
    row("serde_json::from_slice::<Value>", &rate(tree), None);
    for (name, time) in
        [("typed messages, line by line", typed), ("typed messages, framed from chunks", framed)]
    {
        let share = tree.as_secs_f64() / time.as_secs_f64();
        row(name, &rate(time), None);
        row("  / Value", &format!("{share:.2}"), Some(("at least 0.7", share >= 0.7)));
    }
    match official_sdk(&stream)? {
        Some(time) => {
            let factor = time.as_secs_f64() / typed.as_secs_f64();
            row("the official Python SDK's parser", &rate(time), None);
            row("typed messages / SDK", &format!("{factor:.1}"), Some(("at least 3", factor >= 3.0)));
        }
        None => {
            row("the official Python SDK's parser", "not installed", None);
            println!("    install it: {INSTALL}");
        }
    }
    Ok(())
}

const INSTALL: &str = "python3 -m venv .tools/sdk-python && .tools/sdk-python/bin/pip install \
                       --no-binary claude-agent-sdk claude-agent-sdk==0.2.182";

/// Parses the lines with the official Python SDK, if it is installed. Returns the median time.
fn official_sdk(stream: &[u8]) -> Result<Option<Duration>, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join(".tools/sdk-python/bin/python");
    if !python.exists() {
        return Ok(None);
    }
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("stream.jsonl");
    std::fs::write(&file, stream)?;
    let mut times = Vec::new();
    for _ in 0..3 {
        let output = Command::new(&python).arg(root.join("bench/src/decode.py")).arg(&file).output()?;
        let text = String::from_utf8(output.stdout)?;
        let seconds = text.split_whitespace().next().ok_or("the SDK's parser printed nothing")?;
        times.push(Duration::from_secs_f64(seconds.parse()?));
    }
    Ok(Some(median(&mut times)))
}

fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}

/// Returns all lines of all recorded streams.
pub(crate) fn recorded_lines() -> Result<Vec<Vec<u8>>, Failure> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/yb-claude/tests/fixtures/claude");
    let mut cases: Vec<_> = std::fs::read_dir(fixtures)?.collect::<Result<_, _>>()?;
    cases.sort_by_key(std::fs::DirEntry::file_name);
    let mut lines = Vec::new();
    for case in cases {
        let output = case.path().join("stdout");
        if output.exists() {
            let output = std::fs::read(output)?;
            lines.extend(
                output
                    .split(|byte| *byte == b'\n')
                    .filter(|line| line.starts_with(b"{\""))
                    .map(<[u8]>::to_vec),
            );
        }
    }
    if lines.is_empty() { Err("no recorded lines".into()) } else { Ok(lines) }
}
