//! What else leads to an epoll set that was the kernel's alone so far: copies of its descriptor,
//! and sets that it is in.

use std::os::fd::AsRawFd;

use descriptors::own;
use libc::{c_int, epoll_event};

/// What the other epoll descriptors of this process have to do with one of them.
#[derive(Debug, Default)]
pub(crate) struct OtherEpolls {
    /// Descriptors that stand for the same set.
    pub(crate) copies: Vec<c_int>,
    /// The set is in another one.
    pub(crate) contain_it: bool,
}

/// Where `/proc` is not to be had, the numbers below this are tried.
const NUMBERS_TRIED: c_int = 4096;

/// Looks through `/proc/self/fd`, which costs time by the number of descriptors: once a set.
/// `None`: nobody knows, for there is no descriptor left.
pub(crate) fn other_epolls(epfd: c_int) -> Option<OtherEpolls> {
    let mut others = OtherEpolls::default();
    // It is in no other set, and reports nothing.
    let eventfd = sys::eventfd().ok()?;
    let probe = eventfd.as_raw_fd();
    if !sys::epoll_add(epfd, probe, nothing()) {
        return None;
    }
    for fd in other_sets() {
        if fd == epfd || own::contains(fd) {
            continue;
        }
        // Only the same set knows it.
        if sys::epoll_modify(fd, probe, nothing()).is_ok() {
            others.copies.push(fd);
        } else {
            others.contain_it |= {
                let members = sys::set_members(fd);
                members.iter().any(|member| member.fd == epfd)
            };
        }
    }
    sys::epoll_remove(epfd, probe);
    Some(others)
}

/// The epoll descriptors of this process, and perhaps others.
fn other_sets() -> Vec<c_int> {
    sys::epoll_sets().unwrap_or_else(|| (0..NUMBERS_TRIED).collect())
}

fn nothing() -> epoll_event {
    epoll_event { events: 0, u64: 0 }
}
