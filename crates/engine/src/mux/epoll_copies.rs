//! What the hooks have seen of epoll sets that are the kernel's alone.
//!
//! A set becomes ours with its first socket of ours. Whether there are copies of its descriptor by
//! then, or another set that it is in, only `/proc` tells, which takes long. Some have had no
//! chance to get either. That another process has one, nothing tells.

use std::sync::atomic::{AtomicU8, Ordering};

use descriptors::DescriptorTable;
use libc::c_int;

static MARKS: DescriptorTable<AtomicU8> = DescriptorTable::new();

/// Only the descriptor with which it was made stands for it.
const ALONE: u8 = 1;
/// It was passed to another process, perhaps.
const PASSED: u8 = 2;

/// `epoll_create(2)` has returned the descriptor.
pub(crate) fn epoll_created(fd: c_int) {
    if let Some(mark) = MARKS.get_or_make(fd) {
        mark.store(ALONE, Ordering::Relaxed);
    }
}

/// The number stands for another file from here on, or may get company: it is copied, or put into a
/// set.
#[inline]
pub fn epoll_may_be_shared(fd: c_int) {
    if let Some(mark) = MARKS.get(fd)
        && mark.load(Ordering::Relaxed) == ALONE
    {
        mark.store(0, Ordering::Relaxed);
    }
}

/// `new` is a copy of `old`.
pub(crate) fn epoll_copied(old: c_int, new: c_int) {
    if let Some(mark) = MARKS.get(old)
        && mark.load(Ordering::Relaxed) == PASSED
    {
        epoll_passed(new);
    }
}

/// A descriptor goes to another process.
pub(crate) fn epoll_passed(fd: c_int) {
    if let Some(mark) = MARKS.get_or_make(fd) {
        mark.store(PASSED, Ordering::Relaxed);
    }
}

/// Whether nothing else can lead to the set.
pub(crate) fn is_unshared(epfd: c_int) -> bool {
    is_marked(epfd, ALONE)
}

/// Whether another process may have what the number stands for, or did stand for when a hook last
/// saw it.
pub(crate) fn is_passed(epfd: c_int) -> bool {
    is_marked(epfd, PASSED)
}

fn is_marked(fd: c_int, with: u8) -> bool {
    MARKS
        .get(fd)
        .is_some_and(|mark| mark.load(Ordering::Relaxed) == with)
}
