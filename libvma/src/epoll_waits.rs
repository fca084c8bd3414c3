//! How many threads wait in the kernel for each epoll descriptor, so that they can be called back when a first socket of ours
//! comes into the set.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::c_int;

const CHUNK_LEN: usize = 1024;
/// As far as the table of descriptors reaches; sets beyond it hold no socket of ours.
const CHUNK_COUNT: usize = 4096;

type Chunk = [AtomicU32; CHUNK_LEN];

static CHUNKS: [AtomicPtr<Chunk>; CHUNK_COUNT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; CHUNK_COUNT];

/// A thread is about to wait. It must look once more whether the set is still the kernel's alone: either it sees that it is
/// not, or whoever made the change sees the thread counted.
pub(crate) fn enter(epfd: c_int) {
    if let Some(count) = counter(epfd, true) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// The thread is back. Returns how many still wait.
pub(crate) fn leave(epfd: c_int) -> u32 {
    counter(epfd, false).map_or(0, |count| {
        count.fetch_sub(1, Ordering::SeqCst).saturating_sub(1)
    })
}

/// How many threads wait. To be asked after the set became one of ours.
pub(crate) fn waiting(epfd: c_int) -> u32 {
    std::sync::atomic::fence(Ordering::SeqCst);
    counter(epfd, false).map_or(0, |count| count.load(Ordering::SeqCst))
}

fn counter(epfd: c_int, make: bool) -> Option<&'static AtomicU32> {
    let index = usize::try_from(epfd).ok()?;
    let slot = CHUNKS.get(index / CHUNK_LEN)?;
    let mut chunk = slot.load(Ordering::Acquire);
    if chunk.is_null() {
        if !make {
            return None;
        }
        let fresh = Box::into_raw(Box::new([const { AtomicU32::new(0) }; CHUNK_LEN]));
        match slot.compare_exchange(chunk, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => chunk = fresh,
            Err(other) => {
                // SAFETY: `fresh` came from Box::into_raw above and was not published.
                drop(unsafe { Box::from_raw(fresh) });
                chunk = other;
            }
        }
    }
    // SAFETY: a published chunk is never freed.
    let chunk = unsafe { &*chunk };
    chunk.get(index % CHUNK_LEN)
}
