//! How many threads wait in the kernel for each epoll descriptor, so that they can be called back when a first socket of ours
//! comes into the set.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use descriptors::DescriptorTable;
use libc::c_int;

static WAITING: DescriptorTable<AtomicU32> = DescriptorTable::new();

/// A thread is about to wait. It must look once more whether the set is still the kernel's alone: either it sees that it is
/// not, or whoever made the change sees the thread counted.
pub(crate) fn enter(epfd: c_int) {
    if let Some(count) = WAITING.get_or_make(epfd) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// The thread is back. Returns how many still wait.
pub(crate) fn leave(epfd: c_int) -> u32 {
    WAITING.get(epfd).map_or(0, |count| {
        count.fetch_sub(1, Ordering::SeqCst).saturating_sub(1)
    })
}

/// How many threads wait. To be asked after the set became one of ours.
pub(crate) fn waiting(epfd: c_int) -> u32 {
    fence(Ordering::SeqCst);
    WAITING
        .get(epfd)
        .map_or(0, |count| count.load(Ordering::SeqCst))
}
