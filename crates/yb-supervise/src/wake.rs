//! Wakes a pump thread that is blocked in poll.

use std::io;
use std::sync::Arc;

#[cfg(unix)]
mod platform {
    use std::io::{self, Read, Write};
    use std::os::unix::net::UnixStream;

    #[derive(Debug)]
    pub(crate) struct WakeSender(UnixStream);
    #[derive(Debug)]
    pub(crate) struct WakeReceiver(UnixStream);

    pub(super) fn pair() -> io::Result<(WakeReceiver, WakeSender)> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        Ok((WakeReceiver(receiver), WakeSender(sender)))
    }

    impl WakeSender {
        pub(super) fn wake(&self) {
            // A full buffer means that a wake-up is already pending.
            let _ = (&self.0).write(&[1]);
        }
    }

    impl WakeReceiver {
        /// Discards pending wake-ups.
        pub(crate) fn clear(&self) {
            while matches!((&self.0).read(&mut [0; 64]), Ok(1..)) {}
        }
    }

    impl std::os::fd::AsFd for WakeReceiver {
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
    pub(crate) struct WakeSender(mpsc::Sender<()>);
    #[derive(Debug)]
    pub(crate) struct WakeReceiver(pub(crate) mpsc::Receiver<()>);

    pub(super) fn pair() -> io::Result<(WakeReceiver, WakeSender)> {
        let (sender, receiver) = mpsc::channel();
        Ok((WakeReceiver(receiver), WakeSender(sender)))
    }

    impl WakeSender {
        pub(super) fn wake(&self) {
            let _ = self.0.send(());
        }
    }
}

pub(crate) use platform::WakeReceiver;

/// Wakes the receiver. Cheap to clone and to call.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Arc<platform::WakeSender>);

impl Waker {
    pub(crate) fn wake(&self) {
        self.0.wake();
    }
}

pub(crate) fn pair() -> io::Result<(WakeReceiver, Waker)> {
    let (receiver, sender) = platform::pair()?;
    Ok((receiver, Waker(Arc::new(sender))))
}
