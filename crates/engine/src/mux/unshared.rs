//! Epoll sets that only the descriptor stands for with which they were made.
//!
//! A set becomes ours with its first socket of ours. Whether there are copies of its descriptor by then, or another set that it
//! is in, only `/proc` tells, which takes long. These sets have had no chance to get either.

use std::sync::atomic::{AtomicBool, Ordering};

use descriptors::DescriptorTable;
use libc::c_int;

static UNSHARED: DescriptorTable<AtomicBool> = DescriptorTable::new();

/// `epoll_create(2)` has returned the descriptor.
pub(crate) fn epoll_created(fd: c_int) {
    if let Some(mark) = UNSHARED.get_or_make(fd) {
        mark.store(true, Ordering::Relaxed);
    }
}

/// The number stands for another file from here on, or may get company: it is copied, passed on, or put into a set.
#[inline]
pub fn epoll_may_be_shared(fd: c_int) {
    if let Some(mark) = UNSHARED.get(fd)
        && mark.load(Ordering::Relaxed)
    {
        mark.store(false, Ordering::Relaxed);
    }
}

/// Whether nothing else can lead to the set.
pub(crate) fn is_unshared(epfd: c_int) -> bool {
    UNSHARED
        .get(epfd)
        .is_some_and(|mark| mark.load(Ordering::Relaxed))
}
