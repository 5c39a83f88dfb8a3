//! The thread that drains a child's output pipes: a plain loop over blocking calls, one per child.

use std::io::{self, PipeReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use crate::capture::Pipe;
use crate::lines::Queue;
use crate::sink::{Drained, Sink};
use crate::wake::{Receiver, Waker};

const BUFFER: usize = 256 << 10;

/// The host's hold on a pump.
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
        stdout: PipeReader,
        stderr: PipeReader,
        sink: Sink,
        queue: Option<Arc<Queue>>,
        wake: (Receiver, Waker),
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, drained) = oneshot::channel();
        let (receiver, waker) = wake;
        let task = Task { stop: stop.clone(), queue: queue.clone(), wake: receiver, sink };
        std::thread::Builder::new().name("yb-pump".to_owned()).spawn(move || {
            let _ = sender.send(task.run(stdout, stderr));
        })?;
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
        self.stop();
    }
}

struct Task {
    stop: Arc<AtomicBool>,
    queue: Option<Arc<Queue>>,
    wake: Receiver,
    sink: Sink,
}

impl Task {
    #[cfg(unix)]
    fn run(mut self, stdout: PipeReader, stderr: PipeReader) -> (Drained, Ended) {
        use rustix::event::{PollFd, PollFlags, poll};

        let mut pipes = [(Pipe::Stdout, Some(stdout)), (Pipe::Stderr, Some(stderr))];
        let mut buffer = vec![0; BUFFER];
        let mut ended = Ended::ByItself;
        while pipes.iter().any(|(_, pipe)| pipe.is_some()) {
            if self.stop.load(Ordering::Acquire) {
                ended = self.take_what_is_there(&mut pipes, &mut buffer);
                break;
            }
            let paused = self.queue.as_ref().is_some_and(|queue| queue.is_full());
            let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
            let mut polled = Vec::with_capacity(2);
            for (index, (name, pipe)) in pipes.iter().enumerate() {
                if let Some(pipe) = pipe
                    && !(paused && *name == Pipe::Stdout)
                {
                    fds.push(PollFd::new(pipe, PollFlags::IN));
                    polled.push(index);
                }
            }
            if poll(&mut fds, None).is_err() {
                continue;
            }
            if !fds[0].revents().is_empty() {
                self.wake.clear();
            }
            let ready: Vec<usize> = polled
                .iter()
                .zip(&fds[1..])
                .filter(|(_, fd)| !fd.revents().is_empty())
                .map(|(i, _)| *i)
                .collect();
            for index in ready {
                let (name, pipe) = &mut pipes[index];
                self.read(*name, pipe, &mut buffer);
            }
        }
        (self.sink.finish(), ended)
    }

    /// One read; a pipe that has ended is closed. Returns how many bytes there were.
    #[cfg(unix)]
    fn read(&mut self, name: Pipe, pipe: &mut Option<PipeReader>, buffer: &mut [u8]) -> usize {
        match pipe.as_mut().map(|pipe| pipe.read(buffer)) {
            Some(Ok(length @ 1..)) => {
                self.sink.push(name, &buffer[..length]);
                return length;
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => {
                *pipe = None;
                self.sink.end(name);
            }
        }
        0
    }

    /// The last look at pipes that somebody still holds: at most what is in them now.
    #[cfg(unix)]
    fn take_what_is_there(&mut self, pipes: &mut [(Pipe, Option<PipeReader>)], buffer: &mut [u8]) -> Ended {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let mut ended = Ended::ByItself;
        for (name, pipe) in pipes {
            let mut taken = 0;
            while let Some(open) = pipe.as_ref() {
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                let ready = poll(&mut [PollFd::new(open, PollFlags::IN)], Some(&now));
                if !matches!(ready, Ok(1..)) || taken > PIPE_SIZE {
                    *pipe = None;
                    self.sink.end(*name);
                    ended = Ended::Stopped;
                    break;
                }
                taken += self.read(*name, pipe, buffer);
            }
        }
        ended
    }

    #[cfg(not(unix))]
    fn run(mut self, stdout: PipeReader, stderr: PipeReader) -> (Drained, Ended) {
        use std::sync::mpsc;

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
                let _ = self.wake.0.recv_timeout(tick);
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

/// What we ask the kernel for, and the most that can be in a pipe: the default of 64 KiB halves the throughput.
#[cfg(unix)]
const PIPE_SIZE: usize = 1 << 20;

/// A large pipe, as far as the user's limit allows.
pub(crate) fn output_pipe() -> io::Result<(PipeReader, io::PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE_SIZE);
    Ok((reader, writer))
}
