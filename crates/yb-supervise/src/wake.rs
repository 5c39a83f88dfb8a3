//! Wakes the thread that waits for a child's output.

use std::io;
use std::sync::Arc;

#[cfg(unix)]
mod platform {
    use std::io::{self, Read, Write};
    use std::os::unix::net::UnixStream;

    #[derive(Debug)]
    pub(crate) struct Sender(UnixStream);
    #[derive(Debug)]
    pub(crate) struct Receiver(UnixStream);

    pub(super) fn pair() -> io::Result<(Receiver, Sender)> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        Ok((Receiver(receiver), Sender(sender)))
    }

    impl Sender {
        pub(super) fn wake(&self) {
            // Full means that a wake-up is already under way.
            let _ = (&self.0).write(&[1]);
        }
    }

    impl Receiver {
        /// Forgets the wake-ups so far.
        pub(crate) fn clear(&self) {
            while matches!((&self.0).read(&mut [0; 64]), Ok(1..)) {}
        }
    }

    impl std::os::fd::AsFd for Receiver {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use std::io;
    use std::sync::mpsc;

    #[derive(Debug)]
    pub(crate) struct Sender(mpsc::Sender<()>);
    #[derive(Debug)]
    pub(crate) struct Receiver(pub(crate) mpsc::Receiver<()>);

    pub(super) fn pair() -> io::Result<(Receiver, Sender)> {
        let (sender, receiver) = mpsc::channel();
        Ok((Receiver(receiver), Sender(sender)))
    }

    impl Sender {
        pub(super) fn wake(&self) {
            let _ = self.0.send(());
        }
    }
}

pub(crate) use platform::Receiver;

/// Wakes the other end; cheap to clone and to call.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Arc<platform::Sender>);

impl Waker {
    pub(crate) fn wake(&self) {
        self.0.wake();
    }
}

pub(crate) fn pair() -> io::Result<(Receiver, Waker)> {
    let (receiver, sender) = platform::pair()?;
    Ok((receiver, Waker(Arc::new(sender))))
}
