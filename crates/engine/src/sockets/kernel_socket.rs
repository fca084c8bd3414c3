//! What is known of a socket's kernel socket.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use sys::Errno;

/// What the kernel's socket says about a descriptor that the engine needs for every call.
#[derive(Debug, Default)]
pub(crate) struct KernelSocket {
    /// The descriptor, as long as it is open.
    pub(crate) fd: AtomicI32,
    /// The socket's inode number: another one behind the descriptor is another socket.
    pub(crate) inode: AtomicU64,
    /// It is one of `AF_INET6`.
    pub(super) is_inet6: AtomicBool,
    /// `O_NONBLOCK`
    pub(crate) nonblocking: AtomicBool,
    /// `O_APPEND`
    pub(crate) appends: AtomicBool,
    /// `SO_RCVTIMEO` in nanoseconds, 0 for none.
    pub(crate) receive_timeout_nsec: AtomicU64,
    /// `SO_SNDTIMEO` in nanoseconds, 0 for none.
    pub(crate) send_timeout_nsec: AtomicU64,
    /// What the kernel says of its socket's readiness is not true: nobody asks it.
    pub(crate) is_silent: AtomicBool,
    /// It says that sending is possible, and it is not: the queue of a sender with a rate is full.
    pub(crate) is_full: AtomicBool,
    /// `poll(2)` or its like said that the kernel's socket has something to read.
    pub(crate) readable_hint: AtomicBool,
    /// The errno with which the next call is to fail, 0 for none: what the kernel keeps in
    /// `sk_err`.
    pub(super) postponed_error: AtomicI32,
}

impl KernelSocket {
    /// The kernel has other timeouts.
    pub(crate) fn read_timeouts(&self) {
        let fd = self.fd.load(Ordering::Relaxed);
        let timeout = |name| sys::option_timeout_nsec(fd, name).unwrap_or(0);
        self.receive_timeout_nsec
            .store(timeout(libc::SO_RCVTIMEO), Ordering::Relaxed);
        self.send_timeout_nsec
            .store(timeout(libc::SO_SNDTIMEO), Ordering::Relaxed);
    }

    /// A call has met an error that it does not return, because it has received something before
    /// (recvmmsg(2)).
    pub(crate) fn postpone_error(&self, errno: Errno) {
        self.postponed_error.store(errno.0, Ordering::Relaxed);
        self.readable_hint.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_postponed_error(&self) -> Option<Errno> {
        let errno = self.postponed_error.swap(0, Ordering::Relaxed);
        (errno != 0).then_some(Errno(errno))
    }
}
