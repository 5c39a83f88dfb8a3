//! The threads that drain the output pipes of children: a plain loop over blocking calls, one thread for each child.

use std::io::{self, PipeReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::capture::Pipe;
use crate::lines::Queue;
use crate::sink::{Drained, Sink};
use crate::wake::{self, Receiver, Waker};

/// Most children say little. One that fills this gets the large buffer, and a large pipe.
const FIRST_BUFFER: usize = 16 << 10;
const BUFFER: usize = 256 << 10;
/// What we ask the kernel for then, and the most that can be in a pipe: the default of 64 KiB halves the throughput.
#[cfg(unix)]
const PIPE_SIZE: usize = 1 << 20;
/// How long a thread waits for its next child: to start one costs more than to drain a short answer.
const IDLE: Duration = Duration::from_secs(2);

/// The threads that wait for a child.
static FREE: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

fn free() -> MutexGuard<'static, Vec<Worker>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hold on a thread that drains one child after the other. Without it, the thread ends.
#[derive(Debug)]
pub(crate) struct Worker {
    thread: ThreadId,
    waker: Waker,
    jobs: mpsc::Sender<Job>,
}

/// One child for a thread.
struct Job {
    task: Task,
    stdout: PipeReader,
    stderr: PipeReader,
    drained: oneshot::Sender<(Drained, Ended)>,
    worker: Worker,
}

impl Worker {
    /// A thread that waits, or a new one.
    pub(crate) fn take() -> io::Result<Self> {
        if let Some(worker) = free().pop() {
            return Ok(worker);
        }
        let (wake, waker) = wake::pair()?;
        let (jobs, given) = mpsc::channel();
        let thread = thread::Builder::new().name("yb-pump".to_owned()).spawn(move || work(&wake, &given))?;
        Ok(Self { thread: thread.thread().id(), waker, jobs })
    }

    /// What makes it look at its child's consumer again.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

fn work(wake: &Receiver, given: &mpsc::Receiver<Job>) {
    let mut buffer = vec![0; FIRST_BUFFER];
    loop {
        match given.recv_timeout(IDLE) {
            Ok(Job { task, stdout, stderr, drained, worker }) => {
                let result = task.run(stdout, stderr, wake, &mut buffer);
                // First: whoever hears of the end may start the next child.
                free().push(worker);
                let _ = drained.send(result);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // Unless it was just taken, nobody needs it.
                free().retain(|worker| worker.thread != thread::current().id());
            }
        }
    }
}

/// The host's hold on the draining of one child.
#[derive(Debug)]
pub(crate) struct Pump {
    stop: Arc<AtomicBool>,
    waker: Waker,
    queue: Option<Arc<Queue>>,
    drained: oneshot::Receiver<(Drained, Ended)>,
}

/// How the draining ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Both pipes were closed by everyone who could write to them.
    ByItself,
    /// We stopped reading while somebody still held a pipe.
    Stopped,
}

impl Pump {
    /// Starts draining.
    pub(crate) fn start(
        worker: Worker,
        stdout: PipeReader,
        stderr: PipeReader,
        sink: Sink,
        queue: Option<Arc<Queue>>,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, drained) = oneshot::channel();
        let (waker, jobs) = (worker.waker(), worker.jobs.clone());
        let task = Task { stop: stop.clone(), queue: queue.clone(), sink };
        let job = Job { task, stdout, stderr, drained: sender, worker };
        jobs.send(job).map_err(|_| io::Error::other("the thread has ended"))?;
        Ok(Self { stop, waker, queue, drained })
    }

    /// The tree is dead: a slow consumer must not hold up the end of its output.
    pub(crate) fn stop_waiting_for_consumer(&self) {
        if let Some(queue) = &self.queue {
            queue.lift_limit();
        }
    }

    /// Waits until both pipes have ended; cancel-safe.
    pub(crate) async fn drained(&mut self) -> Option<(Drained, Ended)> {
        (&mut self.drained).await.ok()
    }

    /// Closes the pipes, whoever still holds them.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // The thread may have another child by now.
        if !self.drained.is_terminated() {
            self.stop();
        }
    }
}

struct Task {
    stop: Arc<AtomicBool>,
    queue: Option<Arc<Queue>>,
    sink: Sink,
}

impl Task {
    #[cfg(unix)]
    fn run(
        mut self,
        stdout: PipeReader,
        stderr: PipeReader,
        wake: &Receiver,
        buffer: &mut Vec<u8>,
    ) -> (Drained, Ended) {
        use rustix::event::{PollFd, PollFlags, poll};

        let mut pipes = [Open::new(Pipe::Stdout, stdout), Open::new(Pipe::Stderr, stderr)].map(Some);
        let mut ended = Ended::ByItself;
        while pipes.iter().any(Option::is_some) {
            if self.stop.load(Ordering::Acquire) {
                ended = self.take_what_is_there(&mut pipes, buffer);
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
        (self.sink.finish(), ended)
    }

    /// One read; a pipe that has ended is closed. Returns how many bytes there were.
    #[cfg(unix)]
    fn read(&mut self, pipe: &mut Option<Open>, buffer: &mut Vec<u8>) -> usize {
        let Some(open) = pipe else { return 0 };
        match open.reader.read(buffer) {
            Ok(length @ 1..) => {
                self.sink.push(open.name, &buffer[..length]);
                if length >= FIRST_BUFFER {
                    open.enlarge();
                    buffer.resize(BUFFER, 0);
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

    /// The last look at pipes that somebody still holds: at most what is in them now.
    #[cfg(unix)]
    fn take_what_is_there(&mut self, pipes: &mut [Option<Open>], buffer: &mut Vec<u8>) -> Ended {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let mut ended = Ended::ByItself;
        for pipe in pipes {
            let mut taken = 0;
            while let Some(open) = pipe {
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                let ready = poll(&mut [PollFd::new(&open.reader, PollFlags::IN)], Some(&now));
                if !matches!(ready, Ok(1..)) || taken > PIPE_SIZE {
                    self.sink.end(open.name);
                    *pipe = None;
                    ended = Ended::Stopped;
                    break;
                }
                taken += self.read(pipe, buffer);
            }
        }
        ended
    }

    #[cfg(not(unix))]
    fn run(
        mut self,
        stdout: PipeReader,
        stderr: PipeReader,
        wake: &Receiver,
        _: &mut Vec<u8>,
    ) -> (Drained, Ended) {
        let (sender, chunks) = mpsc::sync_channel::<(Pipe, Vec<u8>)>(4);
        let mut open = 2;
        for (name, mut pipe) in [(Pipe::Stdout, stdout), (Pipe::Stderr, stderr)] {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0; BUFFER];
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
                return (self.sink.finish(), Ended::Stopped);
            }
            // Without a poll that covers both pipes a full queue holds up stderr too.
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
        (self.sink.finish(), Ended::ByItself)
    }
}

/// A pipe that has not ended.
#[cfg(unix)]
struct Open {
    name: Pipe,
    reader: PipeReader,
    large: bool,
}

#[cfg(unix)]
impl Open {
    fn new(name: Pipe, reader: PipeReader) -> Self {
        Self { name, reader, large: false }
    }

    /// As far as the user's limit allows.
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
    use crate::capture::Captured;
    use crate::redact::{Redactor, Secrets};
    use crate::sink::Keep;

    /// What a child says through a thread that may have had another before.
    async fn drain(said: &[u8]) -> (ThreadId, Vec<u8>) {
        let worker = Worker::take().unwrap();
        let thread = worker.thread;
        let keep = Keep::Capture(Captured::with_limit(usize::MAX));
        let sink = Sink::new(|| Redactor::new(Secrets::new(&[])), None, keep, None);
        let ((stdout, mut writer), (stderr, _)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let mut pump = Pump::start(worker, stdout, stderr, sink, None).unwrap();
        let said = said.to_owned();
        let child = thread::spawn(move || writer.write_all(&said).unwrap());
        let (drained, ended) = pump.drained().await.unwrap();
        child.join().unwrap();
        assert_eq!(ended, Ended::ByItself);
        let crate::report::Output::Captured(captured) = drained.output else { panic!("not captured") };
        (thread, captured.stdout())
    }

    #[tokio::test]
    async fn a_thread_drains_one_child_after_the_other_however_much_they_say() {
        let (mut threads, large) = (Vec::new(), vec![b'x'; 3 << 20]);
        for said in [&b"one"[..], &large, b"", b"two"] {
            let (thread, heard) = drain(said).await;
            assert!(heard == said, "{} bytes of {}", heard.len(), said.len());
            threads.push(thread);
        }
        threads.dedup();
        assert_eq!(threads.len(), 1, "one thread for all");
    }
}
