use std::sync::Arc;

use links::lead::Lead;
use loom::thread;

use crate::every_order;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering};

/// An interface: its sleepers, a packet in its ring, and whether the ring is in the watch of the
/// internal thread.
#[derive(Default)]
struct Interface {
    lead: Lead,
    ring: Mutex<u32>,
    is_in_watch: Mutex<bool>,
    /// The watch has been woken.
    watch_wakes: AtomicU32,
    /// A leader sleeps in its seat.
    is_seated: AtomicBool,
    leader_wakes: AtomicU32,
}

impl Interface {
    /// The kernel wakes who watches; a ring that comes into the watch with a packet in it wakes,
    /// too.
    fn packet(&self) {
        // The ring's lock stands for the kernel's of its wait queue.
        let mut ring = self.ring.lock().unwrap();
        *ring += 1;
        if self.is_seated.load(Ordering::SeqCst) {
            self.leader_wakes.fetch_add(1, Ordering::SeqCst);
        } else if *self.is_in_watch.lock().unwrap() {
            self.watch_wakes.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn put_into_watch(&self, is_in: bool) {
        let ring = self.ring.lock().unwrap();
        *self.is_in_watch.lock().unwrap() = is_in;
        if is_in && *ring > 0 {
            self.watch_wakes.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn receive(&self) -> bool {
        std::mem::take(&mut *self.ring.lock().unwrap()) > 0
    }
}

#[derive(Default)]
struct Shared {
    interface: Interface,
    /// The watch's lock.
    changes: Mutex<()>,
}

impl Shared {
    /// Whether the follower, which would sleep now, has received before.
    fn follow(&self) -> bool {
        if self.interface.lead.joins() {
            let _changes = self.changes.lock().unwrap();
            if self.interface.lead.begin_watch() {
                self.interface.put_into_watch(true);
            }
        }
        self.interface.receive()
    }

    fn end_watch_if_unneeded(&self) {
        let _changes = self.changes.lock().unwrap();
        if self.interface.lead.end_watch() {
            self.interface.put_into_watch(false);
        }
    }

    fn watch_is_woken(&self) -> bool {
        self.interface.watch_wakes.load(Ordering::SeqCst) > 0
    }
}

/// A packet comes while a thread begins to follow and the internal thread would end the watch of
/// before.
#[test]
fn a_follower_receives_or_the_watch_is_woken() {
    every_order(3, || {
        let shared = Arc::new(Shared::default());
        shared.interface.lead.begin_watch();
        shared.interface.put_into_watch(true);
        let [watch, sender] = [Shared::end_watch_if_unneeded, |shared: &Shared| {
            shared.interface.packet();
        }]
        .map(|act| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || act(&shared))
        });
        let has_received = shared.follow();
        watch.join().unwrap();
        sender.join().unwrap();
        assert!(has_received || shared.watch_is_woken());
    });
}

/// Two followers, of whom one begins the watch for both.
#[test]
fn who_finds_the_watch_begun_misses_nothing() {
    every_order(3, || {
        let shared = Arc::new(Shared::default());
        let first = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.follow())
        };
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.interface.packet())
        };
        let second = shared.follow();
        let first = first.join().unwrap();
        sender.join().unwrap();
        assert!(first || second || shared.watch_is_woken());
    });
}

/// The leader leaves its seat while a packet comes: it receives what has come, as it does whatever
/// has woken it, or the watch is woken.
#[test]
fn a_leader_that_leaves_receives_or_the_watch_is_woken() {
    every_order(3, || {
        let shared = Arc::new(Shared::default());
        assert!(shared.interface.lead.take());
        shared.interface.is_seated.store(true, Ordering::SeqCst);
        assert!(!shared.follow());
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.interface.packet())
        };
        shared.interface.is_seated.store(false, Ordering::SeqCst);
        shared.interface.lead.leave();
        let has_received = shared.interface.receive();
        sender.join().unwrap();
        assert!(has_received || shared.watch_is_woken());
    });
}

#[test]
fn one_leads_at_a_time() {
    every_order(3, || {
        let lead = Arc::new(Lead::default());
        let other = {
            let lead = Arc::clone(&lead);
            thread::spawn(move || lead.take())
        };
        let both = [lead.take(), other.join().unwrap()];
        assert_eq!(both.iter().filter(|has| **has).count(), 1);
        lead.leave();
        assert!(lead.take() && lead.is_led());
    });
}
