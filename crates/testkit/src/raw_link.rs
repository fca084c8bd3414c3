//! Ethernet frames as they are, malformed ones too.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::namespace::Namespace;
use crate::sys;

/// Room for the largest frame a link without segmentation offload carries.
const FRAME_CAPACITY_BYTES: usize = 64 * 1024 + 18;

/// One end of a cable, below the kernel's network stack: sends any bytes as a frame, and sees each
/// frame that arrives (the kernel's own stack sees it too). An 802.1Q tag is not part of what is
/// received: the kernel strips it.
#[derive(Debug)]
pub struct RawLink {
    socket: OwnedFd,
    mac: [u8; 6],
}

impl RawLink {
    /// Opens interface `link` of `namespace`. It stays there whatever thread uses it.
    pub fn open(namespace: &Namespace, link: &str) -> io::Result<Self> {
        let name = CString::new(link)?;
        let (socket, mac) = namespace.enter(|| sys::packet_socket(&name))?;
        Ok(Self { socket, mac })
    }

    /// The hardware address of the interface.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Sends `frame`, which begins with the destination address. Nothing is checked or filled in,
    /// but the kernel refuses less than a header (14 bytes) and more than the MTU allows.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let sent = sys::send(self.socket.as_fd(), frame)?;
        assert_eq!(
            sent,
            frame.len(),
            "a packet socket sends all of a frame or nothing"
        );
        Ok(())
    }

    /// The next frame, or `None` if none comes within `timeout`.
    pub fn receive(&self, timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        self.receive_matching(timeout, |_| true)
    }

    /// The next frame that `wanted` accepts, discarding others; `None` if none comes within
    /// `timeout`.
    pub fn receive_matching(
        &self,
        timeout: Duration,
        mut wanted: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + timeout;
        let mut frame = vec![0; FRAME_CAPACITY_BYTES];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !sys::wait_readable(self.socket.as_fd(), left)? {
                return Ok(None);
            }
            let length = match sys::receive(self.socket.as_fd(), &mut frame) {
                Ok(length) => length.min(frame.len()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            if wanted(&frame[..length]) {
                frame.truncate(length);
                return Ok(Some(frame));
            }
        }
    }
}

impl AsFd for RawLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
