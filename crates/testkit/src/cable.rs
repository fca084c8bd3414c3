//! A cable between two links, in user space: what it does to frames, a [`Relay`] does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::link::Conditions;
use crate::namespace::Namespace;
use crate::raw_link::RawLink;
use crate::relay::{Port, Relay};
use crate::sys;

impl Port for RawLink {
    fn receive(&mut self, _now: Duration, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match sys::receive(self.as_fd(), buffer) {
            Ok(len) => Ok(Some(len.min(buffer.len()))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn send(&mut self, _now: Duration, packet: &[u8]) -> io::Result<()> {
        match Self::send(self, packet) {
            // A queue is full, as it may be on any link.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

/// Joins the peers `ma` and `mb` of two links, which are in a namespace of their own.
#[derive(Debug)]
pub(crate) struct Cable {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<bool>>>,
    _middle: Namespace,
}

/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(1 << 20);

impl Cable {
    /// `ends`: the links, and where they are.
    pub(crate) fn new(
        middle: Namespace,
        ends: [(&Namespace, &str); 2],
        conditions: Conditions,
        seed: u64,
    ) -> io::Result<Self> {
        for (namespace, link) in ends {
            namespace.make_whole_frames(link)?;
        }
        for link in ["ma", "mb"] {
            // So that the kernel sends nothing on its own. In a batch `ip` does not find the link.
            middle.ip(&["link", "set", "dev", link, "addrgenmode", "none", "up"])?;
        }
        let open = |link| RawLink::open(&middle, link);
        let mut relay = Relay::new(open("ma")?, open("mb")?, conditions, seed);
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let run = move || relay.run_until(FOREVER, |_| is_over.load(Ordering::Relaxed));
        Ok(Self {
            stop,
            thread: Some(thread::spawn(run)),
            _middle: middle,
        })
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let end = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            assert!(
                matches!(end, Some(Ok(Ok(true)))),
                "the cable broke: {end:?}"
            );
        }
    }
}
