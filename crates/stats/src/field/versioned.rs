//! Words that change together. `models/src/versioned_model.rs` tries every order.

use crate::sync::{AtomicU64, Ordering, fence};

/// Words of one copy.
pub(crate) const COPY_WORDS: usize = 3;

/// Two copies of the words exist and `version` says which one is current. The writer fills the
/// other copy and then moves on, so a reader that sees the same version before and after has an
/// untorn copy, and a writer that stops half-way (killed, preempted) never blocks a reader.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Versioned {
    version: AtomicU64,
    copies: [[AtomicU64; COPY_WORDS]; 2],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Versioned>() == 56 && align_of::<Versioned>() == 8);

impl Versioned {
    /// One thread at a time.
    pub(crate) fn store(&self, words: [u64; COPY_WORDS]) {
        let next = self.version.load(Ordering::Relaxed).wrapping_add(1);
        // Orders the previous version before the stores below: a reader of the copy that is being
        // overwritten then notices that its version has passed.
        fence(Ordering::Release);
        let [even, odd] = &self.copies;
        let copy = if next.is_multiple_of(2) { even } else { odd };
        for (slot, word) in copy.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.version.store(next, Ordering::Release);
    }

    pub(crate) fn load(&self) -> Option<[u64; COPY_WORDS]> {
        let [even, odd] = &self.copies;
        let words = || std::iter::once(&self.version).chain(even).chain(odd);
        read(|index| {
            words()
                .nth(index)
                .map_or(0, |word| word.load(Ordering::Relaxed))
        })
    }
}

/// `load` reads the word at an index counted from `version`, relaxed. `None`: the words change all
/// the time.
pub(crate) fn read(load: impl Fn(usize) -> u64) -> Option<[u64; COPY_WORDS]> {
    for _ in 0..ATTEMPTS {
        let version = load(0);
        fence(Ordering::Acquire);
        let base = if version.is_multiple_of(2) {
            1
        } else {
            1 + COPY_WORDS
        };
        let words = [load(base), load(base + 1), load(base + 2)];
        fence(Ordering::Acquire);
        if load(0) == version {
            return Some(words);
        }
        std::hint::spin_loop();
    }
    None
}

/// No program changes words this often while they are read; only a hostile one does.
const ATTEMPTS: usize = if cfg!(loom) { 2 } else { 1000 };
