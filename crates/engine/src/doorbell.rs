//! When a device is told of the frames in its sending ring.
//!
//! Telling it is a system call, a quarter of what a small datagram costs on AF_XDP. A sender that pauses now and then gets
//! each datagram out at once. A sender that has not paused for [`STREAK_MIN`] datagrams is after throughput: its frames
//! are told of in batches, and the internal thread tells of the last ones when no more come.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::sys;

/// Datagrams without a pause that make a bulk sender: two milliseconds of AF_XDP at full speed.
const STREAK_MIN: u32 = 1024;
/// A pause halves the streak, so that an interrupt does not make a bulk sender an ordinary one.
const STREAK_MAX: u32 = 4 * STREAK_MIN;
/// Frames of a bulk sender that the device is told of at once.
const BULK_BATCH: u32 = 8;
/// Frames of one `sendmmsg(2)` that the device is told of at once: what AF_XDP takes with one system call.
const CALL_BATCH: u32 = 32;
/// A pause is what takes longer than this part of telling the device of one frame.
const PAUSE_DIVISOR: u64 = 4;

/// What to do about a frame that is in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
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

/// The bell of one sending ring. Several threads may use it: what they lose of each other's counts makes a batch
/// longer or shorter, and never leaves a frame uncounted that no later kick takes along.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
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
    /// A frame has been queued at `now`. `watch`: there is an internal thread that would look after it.
    #[inline]
    pub(crate) fn frame_queued(&self, now: u64, follows: Follows, watch: bool) -> Ring {
        let waiting = self.waiting.load(Ordering::Relaxed);
        if follows == Follows::Message && waiting < CALL_BATCH - 1 {
            self.waiting.store(waiting + 1, Ordering::Relaxed);
            return Ring::Later;
        }
        let pause = now.wrapping_sub(self.quiet_since.load(Ordering::Relaxed));
        let streak = self.streak.load(Ordering::Relaxed);
        if pause > self.kick_ticks.load(Ordering::Relaxed) / PAUSE_DIVISOR {
            self.streak.store(streak / 2, Ordering::Relaxed);
            return Ring::Now;
        }
        if streak < STREAK_MAX {
            self.streak.store(streak + 1, Ordering::Relaxed);
        }
        if streak < STREAK_MIN || !watch || waiting >= BULK_BATCH - 1 {
            return Ring::Now;
        }
        self.waiting.store(waiting + 1, Ordering::Relaxed);
        self.quiet_since.store(now, Ordering::Relaxed);
        // After the count: either this sees that nobody looks, or the one who stops looking sees the frame.
        if self.watched.swap(true, Ordering::SeqCst) {
            Ring::Later
        } else {
            Ring::LaterAndWatch
        }
    }

    /// The device is about to be told of all that is in the ring. Returns how many frames that are at least.
    #[inline]
    pub(crate) fn rings(&self) -> u32 {
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting != 0 {
            self.waiting.store(0, Ordering::Relaxed);
        }
        waiting + 1
    }

    /// The device has been told of `frames`.
    #[inline]
    pub(crate) fn rung(&self, frames: u32, begun: u64, ended: u64) {
        let ticks = ended.wrapping_sub(begun) / u64::from(frames);
        self.kick_ticks.store(ticks, Ordering::Relaxed);
        self.quiet_since.store(ended, Ordering::Relaxed);
    }

    /// Whether the device has yet to be told of frames.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// The internal thread looks. Returns whether it has to look again soon.
    pub(crate) fn look(&self, kick: impl FnOnce()) -> bool {
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

/// The clock of the bell. Its unit does not matter.
#[inline]
pub(crate) fn ticks() -> u64 {
    sys::cycle_counter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks that telling of a frame takes, and a pause that is none.
    const KICK: u64 = 2000;
    const NO_PAUSE: u64 = 100;

    struct Sender {
        bell: Doorbell,
        now: u64,
        in_ring: u32,
        told: Vec<u32>,
    }

    impl Sender {
        fn new() -> Self {
            Self {
                bell: Doorbell::default(),
                now: 1_000_000,
                in_ring: 0,
                told: Vec::new(),
            }
        }

        fn kick(&mut self) {
            let frames = self.bell.rings();
            let begun = self.now;
            self.now += KICK * u64::from(self.in_ring);
            self.told.push(self.in_ring);
            self.in_ring = 0;
            self.bell.rung(frames, begun, self.now);
        }

        fn send(&mut self, pause: u64, follows: Follows) -> Ring {
            self.now += pause;
            self.in_ring += 1;
            let ring = self.bell.frame_queued(self.now, follows, true);
            if ring == Ring::Now {
                self.kick();
            }
            ring
        }

        fn send_many(&mut self, count: u32, pause: u64) {
            (0..count).for_each(|_| {
                self.send(pause, Follows::Unknown);
            });
        }
    }

    #[test]
    fn a_sender_that_pauses_gets_every_frame_out_at_once() {
        let mut sender = Sender::new();
        sender.send_many(10 * STREAK_MIN, KICK / PAUSE_DIVISOR + 1);
        assert!(sender.told.iter().all(|frames| *frames == 1));
    }

    #[test]
    fn a_fan_out_gets_every_frame_out_at_once() {
        let mut sender = Sender::new();
        for _ in 0..100 {
            sender.now += KICK;
            sender.send_many(STREAK_MIN / 2, NO_PAUSE);
        }
        assert!(sender.told.iter().all(|frames| *frames == 1));
    }

    #[test]
    fn a_bulk_sender_s_frames_go_in_batches_until_it_pauses() {
        let mut sender = Sender::new();
        sender.send_many(STREAK_MIN + 1, NO_PAUSE);
        sender.told.clear();
        assert_eq!(
            sender.send(NO_PAUSE, Follows::Unknown),
            Ring::LaterAndWatch,
            "the first one left waiting"
        );
        assert_eq!(sender.send(NO_PAUSE, Follows::Unknown), Ring::Later);
        sender.send_many(10 * BULK_BATCH - 2, NO_PAUSE);
        assert_eq!(sender.told, [BULK_BATCH; 10]);
        sender.send_many(3, NO_PAUSE);
        assert_eq!((sender.in_ring, sender.told.len()), (3, 10));
        // The pause: this one takes the waiting ones along.
        sender.send(KICK, Follows::Unknown);
        assert_eq!(sender.told.last(), Some(&4));
        assert_eq!(sender.send(NO_PAUSE, Follows::Unknown), Ring::Now);
    }

    #[test]
    fn an_interrupt_leaves_a_bulk_sender_one() {
        let mut sender = Sender::new();
        sender.send_many(2 * STREAK_MAX, NO_PAUSE);
        sender.send(KICK, Follows::Unknown);
        assert_ne!(sender.send(NO_PAUSE, Follows::Unknown), Ring::Now);
    }

    #[test]
    fn nothing_waits_where_nobody_looks_after_it() {
        let bell = Doorbell::default();
        bell.rung(1, 0, KICK);
        for _ in 0..3 * STREAK_MIN {
            assert_eq!(bell.frame_queued(KICK, Follows::Unknown, false), Ring::Now);
        }
    }

    #[test]
    fn the_internal_thread_tells_of_the_last_frames() {
        let mut sender = Sender::new();
        sender.send_many(STREAK_MIN + 4, NO_PAUSE);
        assert!(sender.bell.is_waiting());
        let mut kicks = 0;
        assert!(sender.bell.look(|| kicks += 1), "there was news");
        assert!(!sender.bell.look(|| kicks += 1));
        assert_eq!(kicks, 1);
        sender.kick();
        assert!(!sender.bell.look(|| kicks += 1), "nothing to look after");
        assert_eq!(kicks, 1);
        // The sender has to be a bulk sender again before anything waits.
        sender.told.clear();
        sender.send_many(STREAK_MIN, NO_PAUSE);
        assert!(sender.told.iter().all(|frames| *frames == 1));
    }

    #[test]
    fn messages_of_one_call_go_together() {
        let mut sender = Sender::new();
        for _ in 0..CALL_BATCH - 1 {
            assert_eq!(sender.send(NO_PAUSE, Follows::Message), Ring::Later);
        }
        assert_eq!(sender.send(NO_PAUSE, Follows::Message), Ring::Now);
        assert_eq!(sender.send(NO_PAUSE, Follows::Message), Ring::Later);
        assert_eq!(sender.send(NO_PAUSE, Follows::Unknown), Ring::Now);
        assert_eq!(sender.told, [CALL_BATCH, 2]);
    }
}
