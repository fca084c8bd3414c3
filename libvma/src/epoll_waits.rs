//! How many threads wait in the kernel for each epoll descriptor, so that they can be called back
//! when a first socket of ours comes into the set. A set has several descriptors, perhaps: one is
//! waited on while another is used to change it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use descriptors::DescriptorTable;
use libc::c_int;

/// By number: how many threads wait for what it stands for, in the lower half, and how often it has
/// stood for something that threads were waiting for, in the upper half.
static WAITING: DescriptorTable<AtomicU64> = DescriptorTable::new();

/// Threads that wait for what a number stood for that was closed meanwhile. Which sets these are,
/// nobody knows.
static UNDER_CLOSED_NUMBERS: AtomicU32 = AtomicU32::new(0);

const ONCE: u64 = 1 << 32;

/// A thread that waits. It is no guard: the thread may be cancelled, and then counts for ever.
#[derive(Clone, Copy)]
pub(crate) struct Wait(Option<(&'static AtomicU64, u32)>);

/// A thread is about to wait. It must look once more whether the set is still the kernel's alone:
/// either it sees that it is not, or whoever made the change sees the thread counted.
#[inline]
pub(crate) fn enter(epfd: c_int) -> Wait {
    let entry = WAITING.get_or_make(epfd);
    Wait(entry.map(|entry| (entry, times(entry.fetch_add(1, Ordering::SeqCst)))))
}

impl Wait {
    /// The thread is back. Returns whether the number still stands for what it did.
    #[inline]
    pub(crate) fn leave(self) -> bool {
        let Some((entry, begun)) = self.0 else {
            return true;
        };
        let less = |known: u64| (times(known) == begun).then(|| known.saturating_sub(1));
        let stands = entry
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
            .is_ok();
        if !stands {
            UNDER_CLOSED_NUMBERS.fetch_sub(1, Ordering::SeqCst);
        }
        stands
    }
}

/// A number is closed, or stands for something else. Takes no memory and no lock.
#[inline]
pub(crate) fn number_closes(fd: c_int) {
    if let Some(entry) = WAITING.get(fd)
        && waiting(entry.load(Ordering::SeqCst)) > 0
    {
        closes(entry);
    }
}

/// The same for each number from `first` to `last`.
pub(crate) fn numbers_close(first: u32, last: u32) {
    for (_, entry) in WAITING.range(first, last) {
        if waiting(entry.load(Ordering::SeqCst)) > 0 {
            closes(entry);
        }
    }
}

#[cold]
fn closes(entry: &AtomicU64) {
    // Counted twice for a moment rather than not at all.
    let count = waiting(entry.load(Ordering::SeqCst));
    UNDER_CLOSED_NUMBERS.fetch_add(count, Ordering::SeqCst);
    let next = |known: u64| Some((known & !(ONCE - 1)).wrapping_add(ONCE));
    let known = entry.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    let moved = known.map_or(0, waiting);
    UNDER_CLOSED_NUMBERS.fetch_add(moved.wrapping_sub(count), Ordering::SeqCst);
}

/// Whether threads wait under a number of which `may_be` says that it stands for the set. To be
/// asked after the set became one of ours.
pub(crate) fn any(may_be: impl Fn(c_int) -> bool) -> bool {
    fence(Ordering::SeqCst);
    UNDER_CLOSED_NUMBERS.load(Ordering::SeqCst) > 0
        || WAITING
            .range(0, u32::MAX)
            .any(|(fd, entry)| waiting(entry.load(Ordering::SeqCst)) > 0 && may_be(fd))
}

fn times(entry: u64) -> u32 {
    (entry >> 32) as u32
}

fn waiting(entry: u64) -> u32 {
    (entry & (ONCE - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, for the table is everybody's.
    #[test]
    fn threads_are_found_under_every_number_also_when_it_is_closed() {
        let is = |wanted: c_int| move |fd: c_int| fd == wanted;
        let (first, second) = (enter(700), enter(700));
        assert!(any(is(700)) && !any(is(701)));
        assert!(first.leave() && any(is(700)));
        number_closes(700);
        let third = enter(700);
        assert!(any(is(701)), "it may be any set's");
        assert!(!second.leave() && !any(is(701)) && any(is(700)));
        numbers_close(650, 720);
        assert!(any(|_| false) && !third.leave() && !any(|_| true));
        number_closes(700);
        assert!(!any(|_| true) && enter(700).leave());
    }
}
