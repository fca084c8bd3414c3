//! When a device is told of the frames in its sending ring.
//!
//! Telling it is a system call, a quarter of what a small datagram costs on AF_XDP. A sender that
//! pauses now and then gets each datagram out at once. A sender that has not paused for
//! `STREAK_MIN` datagrams is after throughput: its frames are told of in batches, and the internal
//! thread tells of the last ones when no more come.

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Datagrams without a pause that make a bulk sender: two milliseconds of AF_XDP at full speed.
const STREAK_MIN: u32 = if cfg!(loom) { 1 } else { 1024 };
/// A pause halves the streak, so that an interrupt does not make a bulk sender an ordinary one.
const STREAK_MAX: u32 = 4 * STREAK_MIN;
/// Frames of a bulk sender that the device is told of at once.
const BULK_BATCH: u32 = 8;
/// What a received frame takes off a streak: whoever waits for answers is no bulk sender.
const ANSWER_WORTH: u32 = 16;
/// Frames of one `sendmmsg(2)` that the device is told of at once: what AF_XDP takes with one
/// system call.
const CALL_BATCH: u32 = 32;
/// A pause is what takes longer than this part of telling the device of one frame.
const PAUSE_DIVISOR: u64 = 4;

/// What to do about a frame that is in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Tell the device.
    Now,
    /// Leave it to a later call.
    Later,
    /// The same, and the internal thread is to look after it from here on.
    LaterAndWatch,
}

/// Whether more frames follow at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Nothing that is known of.
    Unknown,
    /// The next message of the same call.
    Message,
}

/// The doorbell of one sending ring. Several threads may use it: what they lose of each other's
/// streaks and times makes a batch longer or shorter. No frame is lost of those that wait;
/// `models/src/doorbell_model.rs` tries every order.
#[derive(Debug, Default)]
pub struct Doorbell {
    /// Frames queued without a pause, about.
    streak: AtomicU32,
    /// Frames in the ring that the device was not told of.
    waiting: AtomicU32,
    /// When the last frame was queued or the device had been told of it, in ticks.
    quiet_since: AtomicU64,
    /// What telling of one frame took last, in ticks.
    kick_ticks: AtomicU64,
    /// The internal thread looks after waiting frames.
    watched: AtomicBool,
    /// `quiet_since` as the internal thread saw it last.
    looked_at: AtomicU64,
}

impl Doorbell {
    /// A frame has been queued at `now`. `watch`: there is an internal thread that would look after
    /// it.
    #[inline]
    pub fn frame_queued(&self, now: u64, follows: Follows, watch: bool) -> Notify {
        let waiting = self.waiting.load(Ordering::Relaxed);
        if follows == Follows::Message && waiting < CALL_BATCH - 1 {
            self.count_waiting();
            return Notify::Later;
        }
        let pause = now.wrapping_sub(self.quiet_since.load(Ordering::Relaxed));
        let streak = self.streak.load(Ordering::Relaxed);
        if pause > self.kick_ticks.load(Ordering::Relaxed) / PAUSE_DIVISOR {
            self.streak.store(streak / 2, Ordering::Relaxed);
            return Notify::Now;
        }
        if streak < STREAK_MAX {
            self.streak.store(streak + 1, Ordering::Relaxed);
        }
        if streak < STREAK_MIN || !watch || waiting >= BULK_BATCH - 1 {
            return Notify::Now;
        }
        self.count_waiting();
        self.quiet_since.store(now, Ordering::Relaxed);
        // After the count: either this sees that nobody looks, or the one who stops looking sees
        // the frame.
        if self.watched.swap(true, Ordering::SeqCst) {
            Notify::Later
        } else {
            Notify::LaterAndWatch
        }
    }

    /// Frames have been received. A sender that is woken by the answer to each datagram, on a CPU
    /// that it shares, seems not to pause: all that happens meanwhile happens while the device is
    /// told.
    #[inline]
    pub fn frames_received(&self, count: usize) {
        let streak = self.streak.load(Ordering::Relaxed);
        if streak > 0 {
            let worth =
                u32::try_from(count).map_or(u32::MAX, |count| count.saturating_mul(ANSWER_WORTH));
            self.streak
                .store(streak.saturating_sub(worth), Ordering::Relaxed);
        }
    }

    /// The device is about to be told of all that is in the ring. Returns how many frames that are
    /// at least.
    #[inline]
    pub fn kick_begins(&self) -> u32 {
        // One that is not seen here waits on. One that is seen is in the ring before the device
        // looks.
        match self.waiting.load(Ordering::Relaxed) {
            0 => 1,
            _ => self.waiting.swap(0, Ordering::AcqRel) + 1,
        }
    }

    /// The frame is in the ring, and whoever takes it off the count finds it there.
    #[inline]
    fn count_waiting(&self) {
        self.waiting.fetch_add(1, Ordering::Release);
    }

    /// The device has been told of `frames`.
    #[inline]
    pub fn kick_ended(&self, frames: u32, begun: u64, ended: u64) {
        let ticks = ended.wrapping_sub(begun);
        // A division takes as long as the rest.
        let ticks = match frames {
            1 => ticks,
            frames => ticks / u64::from(frames),
        };
        self.kick_ticks.store(ticks, Ordering::Relaxed);
        self.quiet_since.store(ended, Ordering::Relaxed);
    }

    /// Whether the device has yet to be told of frames.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// The internal thread looks. Returns whether it has to look again soon.
    pub fn look(&self, kick: impl FnOnce()) -> bool {
        if !self.watched.load(Ordering::Relaxed) {
            return false;
        }
        let quiet_since = self.quiet_since.load(Ordering::Relaxed);
        if self.looked_at.swap(quiet_since, Ordering::Relaxed) != quiet_since {
            return true;
        }
        // Nothing was sent since the last look.
        self.streak.store(0, Ordering::Relaxed);
        self.watched.swap(false, Ordering::SeqCst);
        if self.is_waiting() {
            kick();
        }
        false
    }
}

/// The clock of the doorbell. Its unit does not matter.
#[inline]
pub fn ticks() -> u64 {
    sys::cycle_counter()
}

#[cfg(all(test, not(loom)))]
#[path = "doorbell/tests.rs"] // The models include this file from another place.
mod tests;
