//! Which threads are inside the library, as others see it: so that one that has changed something
//! can wait until nobody acts upon what was before.
//!
//! A thread that goes in and out writes to memory of its own and pays for nothing else. Who wants
//! to know makes every thread run a barrier (`membarrier(2)`) and looks.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use descriptors::DescriptorTable;
use libc::{c_int, c_void};

use super::{INSIDE, THREAD, Thread, change_mask};

/// The threads that have been inside and have not ended, each at a place of its own. Changed and
/// followed under [`locked`].
static THREADS: DescriptorTable<AtomicPtr<Thread>> = DescriptorTable::new();

/// How many threads are listed. Of more than that, the others are not waited for.
const THREADS_MAX: c_int = 1 << 16;

/// The key whose destructor takes a thread off the list when it ends, plus one; 0: there is none
/// yet.
static KEY: AtomicU32 = AtomicU32::new(0);

/// At the process's beginning: the list has room for most programs. A thread may come to be on it
/// in a signal handler, where nothing should be allocated.
pub(crate) fn prepare() {
    let _ = THREADS.get_or_make(0);
    locked(|| {
        let _ = key();
    });
}

/// Puts the calling thread on the list.
pub(super) fn list(thread: &Thread) {
    locked(|| {
        let Some(key) = key() else { return };
        let address = ptr::from_ref(thread).cast_mut();
        for number in 0..THREADS_MAX {
            let Some(place) = THREADS.get_or_make(number) else {
                return;
            };
            if place.load(Ordering::Relaxed).is_null() {
                let value = ptr::without_provenance::<c_void>(number as usize + 1);
                // SAFETY: the key exists.
                if unsafe { libc::pthread_setspecific(key, value) } == 0 {
                    place.store(address, Ordering::Relaxed);
                }
                return;
            }
        }
    });
}

fn key() -> Option<libc::pthread_key_t> {
    let known = KEY.load(Ordering::Relaxed);
    if known != 0 {
        return Some(known - 1);
    }
    let mut key = 0;
    // SAFETY: the key is writable, and the function lives as long as the library, which is never
    // unloaded.
    let result = unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) };
    (result == 0).then(|| {
        KEY.store(key + 1, Ordering::Relaxed);
        key
    })
}

/// The thread ends, and its memory with it. It may still be inside now and then, in other
/// destructors: unseen.
extern "C" fn ended(value: *mut c_void) {
    let place = c_int::try_from(value.addr()).ok();
    if let Some(place) = place.and_then(|number| THREADS.get(number - 1)) {
        locked(|| place.store(ptr::null_mut(), Ordering::Relaxed));
    }
}

/// In a child that has its parent's memory, but none of its other threads.
pub(crate) fn process_is_new() {
    LOCK.store(0, Ordering::Relaxed);
    let own = THREAD.try_with(|thread| ptr::from_ref(thread).cast_mut());
    let own = own.unwrap_or(ptr::null_mut());
    for (_, place) in THREADS.range(0, u32::MAX) {
        if place.load(Ordering::Relaxed) != own {
            place.store(ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

/// The threads that were inside at one time, with their states.
#[derive(Debug)]
pub(crate) struct Inside(Vec<(c_int, *const Thread, u64)>);

impl Inside {
    /// Those of now. One that enters later finds whatever was stored before this call.
    pub(crate) fn now() -> Self {
        dev_core::order_all_threads();
        let mut inside = Vec::with_capacity(64);
        locked(|| {
            for (number, place) in THREADS.range(0, u32::MAX) {
                let thread = place.load(Ordering::Relaxed);
                if let Some(state) = state_of(thread).filter(|state| state & INSIDE != 0) {
                    inside.push((number, thread.cast_const(), state));
                }
            }
        });
        Self(inside)
    }

    /// Whether there were none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of them have left.
    pub(crate) fn have_left(&mut self) -> bool {
        locked(|| {
            self.0.retain(|(number, thread, state)| {
                let place = THREADS.get(*number);
                let present = place.map_or(ptr::null_mut(), |place| place.load(Ordering::Relaxed));
                ptr::eq(present, *thread) && state_of(present) == Some(*state)
            });
        });
        self.0.is_empty()
    }
}

/// Under the lock.
fn state_of(thread: *const Thread) -> Option<u64> {
    // SAFETY: null, or of a thread that has not taken itself off the list, which takes the lock.
    let thread = unsafe { thread.as_ref() }?;
    Some(thread.state.load(Ordering::Acquire))
}

/// 1 while a thread has it. Not a mutex: a child has to be able to open it.
static LOCK: AtomicU32 = AtomicU32::new(0);

/// A signal handler of the same thread may come here, too: none runs meanwhile.
fn locked(act: impl FnOnce()) {
    let mask = change_mask(libc::SIG_SETMASK, !0);
    while LOCK.swap(1, Ordering::Acquire) != 0 {
        // SAFETY: sched_yield has no preconditions.
        unsafe { libc::sched_yield() };
    }
    act();
    LOCK.store(0, Ordering::Release);
    change_mask(libc::SIG_SETMASK, mask);
}
