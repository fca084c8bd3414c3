//! What a socket can be ready for: the masks of `poll(2)`, which are those of `epoll(7)`, too.
//!
//! One of the kernel's bits means the same as another where both are in a mask, and a program may
//! wait for any of them.

/// Something to read, a connection to accept, or the end of the stream.
pub(crate) const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
/// Room to write.
pub(crate) const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND) as u32;
/// Urgent data.
pub(crate) const PRI: u32 = libc::EPOLLPRI as u32;
/// The peer sends no more.
pub(crate) const RDHUP: u32 = libc::EPOLLRDHUP as u32;
/// Both directions are closed. Reported to everybody.
pub(crate) const HUP: u32 = libc::EPOLLHUP as u32;
/// An error waits to be read. Reported to everybody.
pub(crate) const ERR: u32 = libc::EPOLLERR as u32;

/// Reported whether they were asked for or not.
pub(crate) const ALWAYS: u32 = HUP | ERR;
/// All that there are.
pub(crate) const ALL: u32 = IN | OUT | PRI | RDHUP | ALWAYS;

const _: () = assert!(
    libc::EPOLLIN as i16 == libc::POLLIN
        && libc::EPOLLOUT as i16 == libc::POLLOUT
        && libc::EPOLLPRI as i16 == libc::POLLPRI
        && libc::EPOLLRDHUP as i16 == libc::POLLRDHUP
        && libc::EPOLLRDNORM as i16 == libc::POLLRDNORM
        && libc::EPOLLWRNORM as i16 == libc::POLLWRNORM
        && libc::EPOLLWRBAND as i16 == libc::POLLWRBAND
);
