//! The epoll set of kernel sockets that an administrator may end.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;

use descriptors::OwnDescriptor;

/// The set.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Destroyed {
    set: OnceLock<OwnDescriptor>,
}

impl Destroyed {
    pub(in crate::tcp) fn fd(&self) -> Option<RawFd> {
        self.set.get().map(AsRawFd::as_raw_fd)
    }

    /// Makes the set, if there is none.
    pub(in crate::tcp) fn prepare(&self) {
        if self.set.get().is_none()
            && let Ok(set) = sys::epoll()
        {
            self.set.get_or_init(|| set);
        }
    }
}
