//! The three standard streams as bytes, without buffers that could hide what was really sent.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio;

use super::script::Stream;

/// Whether the other side still listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    All,
    /// Nobody reads any more: an agent goes on with its work then.
    Broken,
}

/// Writes everything to an output.
pub(crate) fn send(stream: Stream, bytes: &[u8]) -> Result<Sent, String> {
    for output in stream.outputs() {
        let fd = if *output == Stream::Stderr { stdio::stderr() } else { stdio::stdout() };
        match write_all(fd, bytes) {
            Ok(()) => {}
            Err(Errno::PIPE) => return Ok(Sent::Broken),
            Err(error) => return Err(format!("write to {output:?}: {error}")),
        }
    }
    Ok(Sent::All)
}

/// Writes everything to a descriptor, also to one that does not block.
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

/// Lets go of a stream: the other side sees the end, later writes go nowhere.
pub(crate) fn close(stream: Stream) -> Result<(), String> {
    let nowhere = std::fs::File::options().read(true).write(true).open("/dev/null");
    let nowhere = nowhere.map_err(|error| format!("/dev/null: {error}"))?;
    match stream {
        Stream::Stdin => stdio::dup2_stdin(&nowhere),
        Stream::Stdout => stdio::dup2_stdout(&nowhere),
        Stream::Stderr => stdio::dup2_stderr(&nowhere),
        Stream::Both => stdio::dup2_stdout(&nowhere).and_then(|()| stdio::dup2_stderr(&nowhere)),
    }
    .map_err(|error| format!("close {stream:?}: {error}"))
}

/// What one attempt to get a line gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Read(Vec<u8>),
    End,
    TimedOut,
}

/// Standard input; it keeps all that was read, for `dump`.
#[derive(Debug, Default)]
pub(crate) struct Stdin {
    seen: Vec<u8>,
    /// How much of `seen` was handed out as lines.
    taken: usize,
}

impl Stdin {
    /// All bytes that were read so far.
    pub(crate) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// Reads at most so many bytes; 0 at the end.
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

    /// The next line, without its newline.
    pub(crate) fn line(&mut self, deadline_ms: u64) -> Result<Line, String> {
        loop {
            let rest = &self.seen[self.taken..];
            if let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest[..length].to_vec();
                self.taken += length + 1;
                return Ok(Line::Read(line));
            }
            let left_ms = deadline_ms.saturating_sub(super::stage::now_ms());
            let readable = wait(stdio::stdin(), PollFlags::IN, Some(left_ms));
            if !readable.map_err(|error| format!("poll stdin: {error}"))? {
                return Ok(Line::TimedOut);
            }
            if self.read(64 * 1024)? == 0 {
                let line = self.seen[self.taken..].to_vec();
                self.taken = self.seen.len();
                return Ok(if line.is_empty() { Line::End } else { Line::Read(line) });
            }
        }
    }
}

/// Waits until a descriptor is ready; false when the time is over.
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
