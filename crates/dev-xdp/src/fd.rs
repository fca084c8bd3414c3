//! Descriptors of the library inside a foreign process.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Where the library's own descriptors begin, if the limits allow.
const HIGH_FD: libc::c_int = 1000;

/// Moves a descriptor to a high number, so that the program sees the numbers it would see without the library. Where
/// the limit on descriptors does not allow it, it stays where it is.
pub(crate) fn move_out_of_the_way(fd: OwnedFd) -> OwnedFd {
    // SAFETY: F_DUPFD_CLOEXEC touches no memory.
    let moved = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH_FD) };
    if moved < 0 {
        return fd;
    }
    // SAFETY: the descriptor is new and ours alone.
    unsafe { OwnedFd::from_raw_fd(moved) }
}
