//! The path of output bytes: redaction first, then log, tee, memory or stream, and tap.

use yb_redact::{JsonLinesRedactor, Secrets, StreamRedactor};

use crate::capture::{CapturedOutput, Pipe};
use crate::lines::LineSplitter;
use crate::log_filter::LineFilter;
use crate::logfile::LogFile;
use crate::report::{LogSummary, Output, Warning};
use crate::tap::TapSender;
use crate::utf8::Utf8Chunker;

/// How much of stderr is kept in stream mode.
const STDERR_TAIL: usize = 64 << 10;

/// Where output is kept, by output mode.
#[derive(Debug)]
pub(crate) enum OutputTarget {
    Capture(CapturedOutput),
    Stream { lines: LineSplitter, tee: Option<LogFile>, stderr: TailBuffer },
}

/// The last bytes of a pipe.
#[derive(Debug, Default)]
pub(crate) struct TailBuffer {
    bytes: Vec<u8>,
    dropped: u64,
}

impl TailBuffer {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        // Trimming only at twice the size keeps this linear.
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

/// Processes all output of one child.
#[derive(Debug)]
pub(crate) struct Sink {
    stdout: PipeFilters,
    stderr: PipeFilters,
    destinations: Destinations,
}

/// Replaces the secrets in the output of one pipe.
#[derive(Debug)]
pub(crate) enum OutputRedactor {
    Text(Box<StreamRedactor>),
    JsonLines(Box<JsonLinesRedactor>),
}

impl OutputRedactor {
    pub(crate) fn text(secrets: &Secrets) -> Self {
        Self::Text(Box::new(secrets.stream()))
    }

    pub(crate) fn json_lines(secrets: &Secrets) -> Self {
        Self::JsonLines(Box::new(JsonLinesRedactor::new(secrets.clone())))
    }

    fn push(&mut self, chunk: &[u8], emit: &mut dyn FnMut(&[u8])) {
        match self {
            Self::Text(redactor) => redactor.push(chunk, emit),
            Self::JsonLines(redactor) => redactor.push(chunk, emit),
        }
    }

    fn finish(&mut self, emit: &mut dyn FnMut(&[u8])) {
        match self {
            Self::Text(redactor) => redactor.finish(emit),
            Self::JsonLines(redactor) => redactor.finish(emit),
        }
    }
}

#[derive(Debug)]
struct PipeFilters {
    redactor: OutputRedactor,
    utf8: Utf8Chunker,
}

#[derive(Debug)]
struct Destinations {
    log: Option<LogFile>,
    /// Lines of stdout that are not logged.
    log_filter: Option<LineFilter>,
    target: OutputTarget,
    tap: Option<TapSender>,
}

/// The result of a sink.
#[derive(Debug)]
pub(crate) struct DrainedOutput {
    pub(crate) output: Output,
    pub(crate) log: LogSummary,
    pub(crate) warnings: Vec<Warning>,
}

impl Sink {
    pub(crate) fn new(
        [stdout, stderr]: [OutputRedactor; 2],
        log: Option<LogFile>,
        target: OutputTarget,
        tap: Option<TapSender>,
    ) -> Self {
        let filters = |redactor| PipeFilters { redactor, utf8: Utf8Chunker::default() };
        Self {
            stdout: filters(stdout),
            stderr: filters(stderr),
            destinations: Destinations { log, log_filter: None, target, tap },
        }
    }

    /// Keeps lines of stdout that begin with this text out of the log.
    pub(crate) fn omit_from_log(mut self, prefix: Option<Vec<u8>>) -> Self {
        self.destinations.log_filter = prefix.map(LineFilter::new);
        self
    }

    pub(crate) fn push(&mut self, pipe: Pipe, chunk: &[u8]) {
        let filters = if pipe == Pipe::Stdout { &mut self.stdout } else { &mut self.stderr };
        let destinations = &mut self.destinations;
        filters.redactor.push(chunk, &mut |chunk| {
            filters.utf8.push(chunk, &mut |chunk| destinations.take(pipe, chunk));
        });
    }

    /// Flushes a pipe at EOF.
    pub(crate) fn end(&mut self, pipe: Pipe) {
        let filters = if pipe == Pipe::Stdout { &mut self.stdout } else { &mut self.stderr };
        let destinations = &mut self.destinations;
        filters.redactor.finish(&mut |chunk| {
            filters.utf8.push(chunk, &mut |chunk| destinations.take(pipe, chunk));
        });
        filters.utf8.finish(&mut |chunk| destinations.take(pipe, chunk));
        if let (Pipe::Stdout, Some(filter), Some(log)) =
            (pipe, &mut destinations.log_filter, &mut destinations.log)
        {
            filter.finish(&mut |chunk| log.write(chunk));
        }
        if let (Pipe::Stdout, OutputTarget::Stream { lines, .. }) = (pipe, &mut destinations.target) {
            lines.finish();
        }
    }

    pub(crate) fn finish(self) -> DrainedOutput {
        let mut log = LogSummary::default();
        let mut warnings = Vec::new();
        if let Some(file) = self.destinations.log {
            let (written, dropped, warning) = file.finish();
            (log.logged, log.not_logged) = (written, dropped);
            warnings.extend(warning);
        }
        log.omitted = self.destinations.log_filter.as_ref().map_or(0, LineFilter::omitted);
        let output = match self.destinations.target {
            OutputTarget::Capture(captured) => Output::Captured(captured),
            OutputTarget::Stream { tee, mut stderr, .. } => {
                if let Some(file) = tee {
                    let (written, dropped, warning) = file.finish();
                    (log.teed, log.not_teed) = (written, dropped);
                    warnings.extend(warning);
                }
                stderr.trim();
                Output::Streamed { stderr_tail: stderr.bytes, stderr_dropped: stderr.dropped }
            }
        };
        DrainedOutput { output, log, warnings }
    }
}

impl Destinations {
    fn take(&mut self, pipe: Pipe, chunk: &[u8]) {
        if chunk.is_empty() {
            return;
        }
        match (&mut self.log, &mut self.log_filter, pipe) {
            (Some(log), Some(filter), Pipe::Stdout) => filter.push(chunk, &mut |chunk| log.write(chunk)),
            (Some(log), ..) => log.write(chunk),
            (None, ..) => {}
        }
        match (&mut self.target, pipe) {
            (OutputTarget::Capture(captured), pipe) => captured.push(pipe, chunk),
            (OutputTarget::Stream { lines, tee, .. }, Pipe::Stdout) => {
                if let Some(tee) = tee {
                    tee.write(chunk);
                }
                lines.push(chunk);
            }
            (OutputTarget::Stream { stderr, .. }, Pipe::Stderr) => stderr.push(chunk),
        }
        if let Some(tap) = &mut self.tap {
            tap.offer(pipe, chunk);
        }
    }
}
