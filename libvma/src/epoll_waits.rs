//! How many threads wait in the kernel for each epoll descriptor, so that they can be called back when a first socket of ours
//! comes into the set.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use descriptors::DescriptorTable;
use libc::c_int;

static WAITING: DescriptorTable<AtomicU32> = DescriptorTable::new();

/// A thread that waits. It is no guard: the thread may be cancelled, and then counts for ever.
#[derive(Clone, Copy)]
pub(crate) struct Wait(Option<&'static AtomicU32>);

/// A thread is about to wait. It must look once more whether the set is still the kernel's alone: either it sees that it is
/// not, or whoever made the change sees the thread counted.
#[inline]
pub(crate) fn enter(epfd: c_int) -> Wait {
    let count = WAITING.get_or_make(epfd);
    if let Some(count) = count {
        count.fetch_add(1, Ordering::SeqCst);
    }
    Wait(count)
}

impl Wait {
    /// The thread is back. Returns how many still wait.
    #[inline]
    pub(crate) fn leave(self) -> u32 {
        self.0.map_or(0, |count| {
            count.fetch_sub(1, Ordering::SeqCst).saturating_sub(1)
        })
    }
}

/// How many threads wait. To be asked after the set became one of ours.
pub(crate) fn waiting(epfd: c_int) -> u32 {
    fence(Ordering::SeqCst);
    WAITING
        .get(epfd)
        .map_or(0, |count| count.load(Ordering::SeqCst))
}
