//! What stands for `crate::sync` of the crates whose files are modelled.

use std::ops::Deref;

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

pub(crate) const SPINS_BEFORE_YIELD: u32 = 1;

/// The two halves of `membarrier(2)` are like two full barriers.
pub(crate) fn owner_fence() {
    fence(Ordering::SeqCst);
}

pub(crate) mod membarrier {
    pub(crate) fn available() -> bool {
        true
    }

    pub(crate) fn all_threads() {
        super::fence(super::Ordering::SeqCst);
    }
}

/// A word that threads sleep on, with a sleep that ends with a wake-up only.
pub(crate) struct Futex {
    word: AtomicU32,
    bucket: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            bucket: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    pub(crate) fn wait(&self, expected: u32) {
        let bucket = self.bucket.lock().unwrap();
        if self.word.load(Ordering::Relaxed) == expected {
            drop(self.woken.wait(bucket).unwrap());
        }
    }

    pub(crate) fn wake_one(&self) {
        let _bucket = self.bucket.lock().unwrap();
        self.woken.notify_one();
    }
}

impl Deref for Futex {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

pub(crate) fn relax(tries: &mut u32) {
    *tries += 1;
    loom::thread::yield_now();
}

/// Neither 0 nor 1.
pub fn thread_token() -> usize {
    loom::thread_local!(static TOKEN: Box<u8> = Box::new(0));
    TOKEN.with(|token| std::ptr::from_ref(&**token).addr())
}
