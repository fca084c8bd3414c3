//! Who is woken by an interface's packets while threads sleep. `models/src/lead_model.rs` tries
//! every order.
//!
//! One sleeper, the leader, watches the interface's rings for all: it receives what has come, and
//! that wakes whoever it is for. The others, the followers, sleep until they are woken by name.
//! While the leader is awake, or there is none, the internal thread watches: a follower sees to
//! that before it looks at the rings for the last time.

use crate::sync::{AtomicBool, AtomicU32, Ordering, fence};

/// The sleepers of one interface.
#[derive(Debug)]
pub struct Lead {
    is_led: AtomicBool,
    followers: AtomicU32,
    /// The internal thread watches. Changed under the watch's lock.
    is_watched: AtomicBool,
}

impl Default for Lead {
    fn default() -> Self {
        Self {
            is_led: AtomicBool::new(false),
            followers: AtomicU32::new(0),
            is_watched: AtomicBool::new(false),
        }
    }
}

impl Lead {
    /// Makes the caller the leader if there is none.
    pub fn take(&self) -> bool {
        !self.is_led.load(Ordering::Relaxed) && !self.is_led.swap(true, Ordering::AcqRel)
    }

    /// The leader is awake.
    pub fn leave(&self) {
        self.is_led.store(false, Ordering::Release);
    }

    /// Whether a thread leads that sleeps, or has just been woken.
    pub fn is_led(&self) -> bool {
        self.is_led.load(Ordering::Relaxed)
    }

    /// Whether nobody but the leader sleeps, and nobody watches.
    pub fn is_alone(&self) -> bool {
        self.followers.load(Ordering::Relaxed) == 0 && !self.is_watched()
    }

    /// One more follows. Returns whether the watch has [to be begun](Self::begin_watch) before it
    /// sleeps.
    pub fn joins(&self) -> bool {
        self.followers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.is_watched.load(Ordering::Acquire)
    }

    /// A follower is awake.
    pub fn parts(&self) {
        self.followers.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Whether the caller is to put the rings into the watch. Under the watch's lock.
    pub fn begin_watch(&self) -> bool {
        !self.is_watched.swap(true, Ordering::AcqRel)
    }

    /// Whether the caller is to take the rings out of the watch: nobody follows. Under the watch's
    /// lock.
    pub fn end_watch(&self) -> bool {
        if !self.is_watched() || self.followers.load(Ordering::Relaxed) > 0 {
            return false;
        }
        self.is_watched.store(false, Ordering::Release);
        // Either this sees a follower that has come meanwhile, or the follower sees that nobody
        // watches.
        fence(Ordering::SeqCst);
        if self.followers.load(Ordering::Relaxed) > 0 {
            self.is_watched.store(true, Ordering::Release);
            return false;
        }
        true
    }
}
