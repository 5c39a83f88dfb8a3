//! The threads that drain the output pipes: a blocking poll loop, one thread per running child.

use std::io::{self, PipeReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::capture::Pipe;
use crate::lines::LineQueue;
use crate::sink::{DrainedOutput, Sink};
use crate::wake::{self, WakeReceiver, Waker};

/// Initial buffer size. A child that fills it gets a large buffer and a large pipe.
const SMALL_BUFFER: usize = 16 << 10;
const LARGE_BUFFER: usize = 256 << 10;
/// The large pipe size. The default of 64 KiB halves the throughput.
#[cfg(unix)]
const PIPE_SIZE: usize = 1 << 20;
/// How long an idle thread waits for its next child. Starting a thread costs more than draining a short
/// output.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The idle threads.
static IDLE_THREADS: Mutex<Vec<PumpThread>> = Mutex::new(Vec::new());

fn idle_threads() -> MutexGuard<'static, Vec<PumpThread>> {
    IDLE_THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle to a thread that drains one child at a time. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct PumpThread {
    thread: ThreadId,
    waker: Waker,
    jobs: mpsc::Sender<DrainJob>,
}

/// One child to drain.
struct DrainJob {
    task: DrainTask,
    stdout: PipeReader,
    stderr: PipeReader,
    drained: oneshot::Sender<(DrainedOutput, DrainOutcome)>,
    worker: PumpThread,
}

impl PumpThread {
    /// Takes an idle thread or starts a new one.
    pub(crate) fn take() -> io::Result<Self> {
        if let Some(worker) = idle_threads().pop() {
            return Ok(worker);
        }
        let (wake, waker) = wake::pair()?;
        let (jobs, receiver) = mpsc::channel();
        let thread =
            thread::Builder::new().name("yb-pump".to_owned()).spawn(move || run_thread(&wake, &receiver))?;
        Ok(Self { thread: thread.thread().id(), waker, jobs })
    }

    /// Returns a waker that makes the thread check its child's consumer again.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

fn run_thread(wake: &WakeReceiver, receiver: &mpsc::Receiver<DrainJob>) {
    let mut buffer = vec![0; SMALL_BUFFER];
    loop {
        match receiver.recv_timeout(IDLE_TIMEOUT) {
            Ok(DrainJob { task, stdout, stderr, drained, worker }) => {
                let result = task.run(stdout, stderr, wake, &mut buffer);
                // Before the result is sent: its receiver may start the next child.
                idle_threads().push(worker);
                let _ = drained.send(result);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // The thread exits unless it was taken in the meantime.
                idle_threads().retain(|worker| worker.thread != thread::current().id());
            }
        }
    }
}

/// The host's handle to the draining of one child.
#[derive(Debug)]
pub(crate) struct Pump {
    stop: Arc<AtomicBool>,
    waker: Waker,
    queue: Option<Arc<LineQueue>>,
    drained: oneshot::Receiver<(DrainedOutput, DrainOutcome)>,
}

/// How draining ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainOutcome {
    /// EOF on both pipes.
    Eof,
    /// Stopped while a process still held a pipe open.
    Stopped,
}

impl Pump {
    /// Starts draining.
    pub(crate) fn start(
        worker: PumpThread,
        stdout: PipeReader,
        stderr: PipeReader,
        sink: Sink,
        queue: Option<Arc<LineQueue>>,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, drained) = oneshot::channel();
        let (waker, jobs) = (worker.waker(), worker.jobs.clone());
        let task = DrainTask { stop: stop.clone(), queue: queue.clone(), sink };
        let job = DrainJob { task, stdout, stderr, drained: sender, worker };
        jobs.send(job).map_err(|_| io::Error::other("the pump thread has exited"))?;
        Ok(Self { stop, waker, queue, drained })
    }

    /// Disables backpressure: the tree is dead, and a slow consumer must not delay the report.
    pub(crate) fn stop_waiting_for_consumer(&self) {
        if let Some(queue) = &self.queue {
            queue.lift_limit();
        }
    }

    /// Waits until both pipes are drained. Cancel-safe.
    pub(crate) async fn drained(&mut self) -> Option<(DrainedOutput, DrainOutcome)> {
        (&mut self.drained).await.ok()
    }

    /// Closes the pipes, even if a process still holds them open.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // Otherwise the thread may already be draining another child.
        if !self.drained.is_terminated() {
            self.stop();
        }
    }
}

struct DrainTask {
    stop: Arc<AtomicBool>,
    queue: Option<Arc<LineQueue>>,
    sink: Sink,
}

impl DrainTask {
    #[cfg(unix)]
    fn run(
        mut self,
        stdout: PipeReader,
        stderr: PipeReader,
        wake: &WakeReceiver,
        buffer: &mut Vec<u8>,
    ) -> (DrainedOutput, DrainOutcome) {
        use rustix::event::{PollFd, PollFlags, poll};

        let mut pipes = [OpenPipe::new(Pipe::Stdout, stdout), OpenPipe::new(Pipe::Stderr, stderr)].map(Some);
        let mut outcome = DrainOutcome::Eof;
        while pipes.iter().any(Option::is_some) {
            if self.stop.load(Ordering::Acquire) {
                outcome = self.drain_available(&mut pipes, buffer);
                break;
            }
            let paused = self.queue.as_ref().is_some_and(|queue| queue.is_full());
            let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
            let mut polled = Vec::with_capacity(2);
            for (index, pipe) in pipes.iter().enumerate() {
                if let Some(open) = pipe
                    && !(paused && open.name == Pipe::Stdout)
                {
                    fds.push(PollFd::new(&open.reader, PollFlags::IN));
                    polled.push(index);
                }
            }
            if poll(&mut fds, None).is_err() {
                continue;
            }
            if !fds[0].revents().is_empty() {
                wake.clear();
            }
            let ready: Vec<usize> = polled
                .iter()
                .zip(&fds[1..])
                .filter(|(_, fd)| !fd.revents().is_empty())
                .map(|(i, _)| *i)
                .collect();
            for index in ready {
                self.read(&mut pipes[index], buffer);
            }
        }
        (self.sink.finish(), outcome)
    }

    /// Reads once and closes the pipe at EOF. Returns the number of bytes read.
    #[cfg(unix)]
    fn read(&mut self, pipe: &mut Option<OpenPipe>, buffer: &mut Vec<u8>) -> usize {
        let Some(open) = pipe else { return 0 };
        match open.reader.read(buffer) {
            Ok(length @ 1..) => {
                self.sink.push(open.name, &buffer[..length]);
                if length >= SMALL_BUFFER {
                    open.enlarge();
                    buffer.resize(LARGE_BUFFER, 0);
                }
                return length;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => {
                self.sink.end(open.name);
                *pipe = None;
            }
        }
        0
    }

    /// Drains at most what is in the pipes now, then closes them.
    #[cfg(unix)]
    fn drain_available(&mut self, pipes: &mut [Option<OpenPipe>], buffer: &mut Vec<u8>) -> DrainOutcome {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let mut outcome = DrainOutcome::Eof;
        for pipe in pipes {
            let mut taken = 0;
            while let Some(open) = pipe {
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                let ready = poll(&mut [PollFd::new(&open.reader, PollFlags::IN)], Some(&now));
                if !matches!(ready, Ok(1..)) || taken > PIPE_SIZE {
                    self.sink.end(open.name);
                    *pipe = None;
                    outcome = DrainOutcome::Stopped;
                    break;
                }
                taken += self.read(pipe, buffer);
            }
        }
        outcome
    }

    #[cfg(not(unix))]
    fn run(
        mut self,
        stdout: PipeReader,
        stderr: PipeReader,
        wake: &WakeReceiver,
        _: &mut Vec<u8>,
    ) -> (DrainedOutput, DrainOutcome) {
        let (sender, chunks) = mpsc::sync_channel::<(Pipe, Vec<u8>)>(4);
        let mut open = 2;
        for (name, mut pipe) in [(Pipe::Stdout, stdout), (Pipe::Stderr, stderr)] {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0; LARGE_BUFFER];
                loop {
                    let length = pipe.read(&mut buffer).unwrap_or(0);
                    if sender.send((name, buffer[..length].to_vec())).is_err() || length == 0 {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let tick = std::time::Duration::from_millis(20);
        while open > 0 {
            if self.stop.load(Ordering::Acquire) {
                self.sink.end(Pipe::Stdout);
                self.sink.end(Pipe::Stderr);
                return (self.sink.finish(), DrainOutcome::Stopped);
            }
            // Without a poll over both pipes, a full queue also blocks stderr.
            while self.queue.as_ref().is_some_and(|queue| queue.is_full())
                && !self.stop.load(Ordering::Acquire)
            {
                let _ = wake.0.recv_timeout(tick);
            }
            match chunks.recv_timeout(tick) {
                Ok((name, chunk)) if chunk.is_empty() => {
                    open -= 1;
                    self.sink.end(name);
                }
                Ok((name, chunk)) => self.sink.push(name, &chunk),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        (self.sink.finish(), DrainOutcome::Eof)
    }
}

/// A pipe that has not reached EOF.
#[cfg(unix)]
struct OpenPipe {
    name: Pipe,
    reader: PipeReader,
    large: bool,
}

#[cfg(unix)]
impl OpenPipe {
    fn new(name: Pipe, reader: PipeReader) -> Self {
        Self { name, reader, large: false }
    }

    /// Enlarges the pipe, as far as the user's limit allows.
    fn enlarge(&mut self) {
        if !std::mem::replace(&mut self.large, true) {
            #[cfg(target_os = "linux")]
            let _ = rustix::pipe::fcntl_setpipe_size(&self.reader, PIPE_SIZE);
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::capture::CapturedOutput;
    use crate::sink::{OutputRedactor, OutputTarget};

    /// Drains the output of a child through a pooled thread.
    async fn drain(output: &[u8]) -> (ThreadId, Vec<u8>) {
        let worker = PumpThread::take().unwrap();
        let thread = worker.thread;
        let target = OutputTarget::Capture(CapturedOutput::with_limit(usize::MAX));
        let redactors = [(); 2].map(|()| OutputRedactor::text(&yb_redact::Secrets::default()));
        let sink = Sink::new(redactors, None, target, None);
        let ((stdout, mut writer), (stderr, _)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let mut pump = Pump::start(worker, stdout, stderr, sink, None).unwrap();
        let output = output.to_owned();
        let child = thread::spawn(move || writer.write_all(&output).unwrap());
        let (drained, outcome) = pump.drained().await.unwrap();
        child.join().unwrap();
        assert_eq!(outcome, DrainOutcome::Eof);
        let crate::report::Output::Captured(captured) = drained.output else { panic!("not captured") };
        (thread, captured.stdout())
    }

    #[tokio::test]
    async fn pump_thread_is_reused_across_children_of_any_output_size() {
        let (mut threads, large) = (Vec::new(), vec![b'x'; 3 << 20]);
        for output in [&b"one"[..], &large, b"", b"two"] {
            let (thread, drained_bytes) = drain(output).await;
            assert!(drained_bytes == output, "{} bytes of {}", drained_bytes.len(), output.len());
            threads.push(thread);
        }
        threads.dedup();
        assert_eq!(threads.len(), 1, "one thread for all");
    }
}
