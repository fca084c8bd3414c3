use std::sync::Arc;

use links::doorbell::{Doorbell, Follows, Notify};
use loom::thread;

use crate::every_order;
use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// The clock stands still: no sender ever pauses.
const NOW: u64 = 1000;

/// A sending ring as `Interface` uses it.
#[derive(Default)]
struct Sending {
    doorbell: Doorbell,
    /// Frames in the ring, put there under its lock.
    queued: AtomicU32,
    /// Frames that the device knows of.
    told: AtomicU32,
    /// The internal thread has been asked to look.
    is_asked: AtomicBool,
}

impl Sending {
    fn of_a_bulk_sender() -> Self {
        let sending = Self::default();
        sending.doorbell.kick_ended(1, 0, NOW);
        sending.send(Follows::Unknown);
        sending
    }

    fn kick(&self) {
        let frames = self.doorbell.kick_begins();
        self.told
            .fetch_max(self.queued.load(Ordering::Acquire), Ordering::AcqRel);
        self.doorbell.kick_ended(frames, 0, NOW);
    }

    fn send(&self, follows: Follows) {
        self.queued.fetch_add(1, Ordering::AcqRel);
        match self.doorbell.frame_queued(NOW, follows, true) {
            Notify::Now => self.kick(),
            Notify::Later => {}
            // As the kernel writes an eventfd: nothing comes between what it was and what it is.
            Notify::LaterAndWatch => drop(self.is_asked.swap(true, Ordering::AcqRel)),
        }
    }

    /// What the internal thread does when it wakes up.
    fn look_until_quiet(&self) {
        if self.is_asked.swap(false, Ordering::AcqRel) {
            while self.doorbell.look(|| self.kick()) {}
        }
    }

    fn assert_nothing_stays_behind(&self) {
        self.look_until_quiet();
        let [queued, told] = [&self.queued, &self.told].map(|count| count.load(Ordering::Acquire));
        assert_eq!(queued, told, "frames that nobody will tell the device of");
    }
}

#[test]
fn the_internal_thread_does_not_miss_the_last_frame() {
    every_order(3, || {
        let sending = Arc::new(Sending::of_a_bulk_sender());
        let internal = {
            let sending = Arc::clone(&sending);
            thread::spawn(move || sending.look_until_quiet())
        };
        sending.send(Follows::Unknown);
        sending.send(Follows::Unknown);
        internal.join().unwrap();
        sending.assert_nothing_stays_behind();
    });
}

#[test]
fn another_thread_s_kick_does_not_hide_a_frame() {
    every_order(3, || {
        let sending = Arc::new(Sending::of_a_bulk_sender());
        let other = {
            let sending = Arc::clone(&sending);
            thread::spawn(move || sending.kick())
        };
        sending.send(Follows::Unknown);
        sending.send(Follows::Unknown);
        other.join().unwrap();
        sending.assert_nothing_stays_behind();
    });
}

#[test]
fn frames_of_two_senders_are_told_of() {
    every_order(2, || {
        let sending = Arc::new(Sending::of_a_bulk_sender());
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let sending = Arc::clone(&sending);
                thread::spawn(move || sending.send(Follows::Unknown))
            })
            .collect();
        sending.look_until_quiet();
        senders
            .into_iter()
            .for_each(|sender| sender.join().unwrap());
        sending.assert_nothing_stays_behind();
    });
}
