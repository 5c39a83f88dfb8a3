//! Unbuffered access to the standard streams.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio;

use super::script::Stream;

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Complete,
    /// The reader is gone; the agent continues.
    BrokenPipe,
}

/// Writes all bytes to an output.
pub(crate) fn send(stream: Stream, bytes: &[u8]) -> Result<WriteOutcome, String> {
    for output in stream.outputs() {
        let fd = if *output == Stream::Stderr { stdio::stderr() } else { stdio::stdout() };
        match write_all(fd, bytes) {
            Ok(()) => {}
            Err(Errno::PIPE) => return Ok(WriteOutcome::BrokenPipe),
            Err(error) => return Err(format!("write to {output:?}: {error}")),
        }
    }
    Ok(WriteOutcome::Complete)
}

/// Writes all bytes to a descriptor, also to a non-blocking one.
pub(crate) fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(fd, PollFlags::OUT, None).map(drop)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Redirects a stream to `/dev/null`: the peer sees EOF, and later writes are discarded.
pub(crate) fn close(stream: Stream) -> Result<(), String> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| format!("/dev/null: {error}"))?;
    match stream {
        Stream::Stdin => stdio::dup2_stdin(&null),
        Stream::Stdout => stdio::dup2_stdout(&null),
        Stream::Stderr => stdio::dup2_stderr(&null),
        Stream::Both => stdio::dup2_stdout(&null).and_then(|()| stdio::dup2_stderr(&null)),
    }
    .map_err(|error| format!("close {stream:?}: {error}"))
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineRead {
    Line(Vec<u8>),
    Eof,
    TimedOut,
}

/// Standard input. Keeps everything that was read, for `dump`.
#[derive(Debug, Default)]
pub(crate) struct Stdin {
    seen: Vec<u8>,
    /// Bytes of `seen` that were returned as lines.
    taken: usize,
}

impl Stdin {
    /// Returns all bytes read so far.
    pub(crate) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// Reads at most `most` bytes; returns 0 at EOF.
    pub(crate) fn read(&mut self, most: usize) -> Result<usize, String> {
        let mut chunk = vec![0; most];
        let count = loop {
            match rustix::io::read(stdio::stdin(), &mut chunk) {
                Ok(count) => break count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    wait(stdio::stdin(), PollFlags::IN, None)
                        .map_err(|error| format!("poll stdin: {error}"))?;
                }
                Err(error) => return Err(format!("read stdin: {error}")),
            }
        };
        self.seen.extend_from_slice(&chunk[..count]);
        Ok(count)
    }

    /// Reads the next line, without its newline.
    pub(crate) fn line(&mut self, deadline_ms: u64) -> Result<LineRead, String> {
        loop {
            let rest = &self.seen[self.taken..];
            if let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest[..length].to_vec();
                self.taken += length + 1;
                return Ok(LineRead::Line(line));
            }
            let left_ms = deadline_ms.saturating_sub(super::scheduler::now_ms());
            let readable = wait(stdio::stdin(), PollFlags::IN, Some(left_ms));
            if !readable.map_err(|error| format!("poll stdin: {error}"))? {
                return Ok(LineRead::TimedOut);
            }
            if self.read(64 * 1024)? == 0 {
                let line = self.seen[self.taken..].to_vec();
                self.taken = self.seen.len();
                return Ok(if line.is_empty() { LineRead::Eof } else { LineRead::Line(line) });
            }
        }
    }
}

/// Waits until a descriptor is ready; returns `false` on timeout.
fn wait(fd: BorrowedFd<'_>, flags: PollFlags, millis: Option<u64>) -> Result<bool, Errno> {
    let millis = millis.map(|millis| i64::try_from(millis).unwrap_or(i64::MAX));
    let timeout = millis.map(|millis| Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 });
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
