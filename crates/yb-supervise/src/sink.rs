//! Where every byte of output goes: redaction first, then log, tee, memory or stream, and tap.

use crate::capture::{Captured, Pipe};
use crate::lines::Splitter;
use crate::logfile::LogFile;
use crate::redact::Redactor;
use crate::report::{LogSummary, Output, Warning};
use crate::tap::TapSender;
use crate::utf8::WholeCharacters;

/// How much of stderr is kept beside a stream.
const STDERR_TAIL: usize = 64 << 10;

/// What is kept of the output.
#[derive(Debug)]
pub(crate) enum Keep {
    Capture(Captured),
    Stream { lines: Splitter, tee: Option<LogFile>, stderr: Tail },
}

/// The last bytes of a pipe.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    dropped: u64,
}

impl Tail {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        // Cutting only at twice the size keeps this linear.
        if self.bytes.len() > 2 * STDERR_TAIL {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let surplus = self.bytes.len().saturating_sub(STDERR_TAIL);
        self.bytes.drain(..surplus);
        self.dropped += surplus as u64;
    }
}

/// Everything that happens to one child's output.
#[derive(Debug)]
pub(crate) struct Sink {
    stdout: Stages,
    stderr: Stages,
    rest: Destinations,
}

#[derive(Debug)]
struct Stages {
    redactor: Redactor,
    characters: WholeCharacters,
}

#[derive(Debug)]
struct Destinations {
    log: Option<LogFile>,
    keep: Keep,
    tap: Option<TapSender>,
}

/// What a sink has at the end.
#[derive(Debug)]
pub(crate) struct Drained {
    pub(crate) output: Output,
    pub(crate) log: LogSummary,
    pub(crate) warnings: Vec<Warning>,
}

impl Sink {
    pub(crate) fn new(
        redactor: impl Fn() -> Redactor,
        log: Option<LogFile>,
        keep: Keep,
        tap: Option<TapSender>,
    ) -> Self {
        let stages = || Stages { redactor: redactor(), characters: WholeCharacters::default() };
        Self { stdout: stages(), stderr: stages(), rest: Destinations { log, keep, tap } }
    }

    pub(crate) fn push(&mut self, pipe: Pipe, chunk: &[u8]) {
        let stages = if pipe == Pipe::Stdout { &mut self.stdout } else { &mut self.stderr };
        let rest = &mut self.rest;
        stages.redactor.push(chunk, &mut |piece| {
            stages.characters.push(piece, &mut |piece| rest.take(pipe, piece));
        });
    }

    /// The pipe has ended: nothing has to wait for a next chunk any more.
    pub(crate) fn end(&mut self, pipe: Pipe) {
        let stages = if pipe == Pipe::Stdout { &mut self.stdout } else { &mut self.stderr };
        let rest = &mut self.rest;
        stages.redactor.finish(&mut |piece| {
            stages.characters.push(piece, &mut |piece| rest.take(pipe, piece));
        });
        stages.characters.finish(&mut |piece| rest.take(pipe, piece));
        if let (Pipe::Stdout, Keep::Stream { lines, .. }) = (pipe, &mut rest.keep) {
            lines.finish();
        }
    }

    pub(crate) fn finish(self) -> Drained {
        let mut log = LogSummary::default();
        let mut warnings = Vec::new();
        if let Some(file) = self.rest.log {
            let (written, dropped, warning) = file.finish();
            (log.logged, log.not_logged) = (written, dropped);
            warnings.extend(warning);
        }
        let output = match self.rest.keep {
            Keep::Capture(captured) => Output::Captured(captured),
            Keep::Stream { tee, mut stderr, .. } => {
                if let Some(file) = tee {
                    let (written, dropped, warning) = file.finish();
                    (log.teed, log.not_teed) = (written, dropped);
                    warnings.extend(warning);
                }
                stderr.trim();
                Output::Streamed { stderr_tail: stderr.bytes, stderr_dropped: stderr.dropped }
            }
        };
        Drained { output, log, warnings }
    }
}

impl Destinations {
    fn take(&mut self, pipe: Pipe, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        if let Some(log) = &mut self.log {
            log.write(piece);
        }
        match (&mut self.keep, pipe) {
            (Keep::Capture(captured), pipe) => captured.push(pipe, piece),
            (Keep::Stream { lines, tee, .. }, Pipe::Stdout) => {
                if let Some(tee) = tee {
                    tee.write(piece);
                }
                lines.push(piece);
            }
            (Keep::Stream { stderr, .. }, Pipe::Stderr) => stderr.push(piece),
        }
        if let Some(tap) = &mut self.tap {
            tap.offer(pipe, piece);
        }
    }
}
