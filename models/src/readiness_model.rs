use std::sync::Arc;

use links::wait::Waiter;
use loom::thread;

use crate::every_order;
use crate::sockets::readiness::{Readiness, Watcher};
use crate::sync::{AtomicU32, Mutex, Ordering};

const IN: u32 = 1;

/// A place in an epoll set: how often it was put into the ready list.
#[derive(Debug, Default)]
struct Place {
    told: AtomicU32,
}

impl Watcher for Place {
    fn became_ready(self: &Arc<Self>, events: u32) {
        assert_eq!(events, IN);
        self.told.fetch_add(1, Ordering::AcqRel);
    }
}

/// A socket: its queue under its lock, and its readiness.
struct Socket {
    waiting: Mutex<u32>,
    readiness: Readiness<Place>,
}

impl Socket {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::new(0),
            readiness: Readiness::new(0),
        })
    }

    fn deliver(&self) {
        let mut waiting = self.waiting.lock().unwrap();
        *waiting += 1;
        self.readiness.set(IN);
        drop(waiting);
        self.readiness.announce(IN);
    }

    /// `false`: nothing waits.
    fn take(&self) -> bool {
        if self.readiness.now() & IN == 0 {
            return false;
        }
        let mut waiting = self.waiting.lock().unwrap();
        if *waiting == 0 {
            return false;
        }
        *waiting -= 1;
        if *waiting == 0 {
            self.readiness.clear(IN);
        }
        true
    }

    /// As `Stack::look`.
    fn look(&self) -> u32 {
        let _waiting = self.waiting.lock().unwrap();
        self.readiness.now()
    }

    /// Whether the thread, which would sleep now if it saw nothing, has been or will be woken is
    /// seen after all threads have ended.
    fn prepare_to_sleep(&self, waiter: &Arc<Waiter>) -> bool {
        self.readiness.sleepers.add(waiter);
        self.look() & IN != 0
    }

    /// As an epoll set does it.
    fn add(&self, place: &Arc<Place>) {
        self.readiness.add_watcher(Arc::clone(place));
        let bits = self.look();
        if bits != 0 {
            place.became_ready(bits);
        }
    }
}

fn delivering(socket: &Arc<Socket>) -> thread::JoinHandle<()> {
    let socket = Arc::clone(socket);
    thread::spawn(move || socket.deliver())
}

#[test]
fn a_sleeper_sees_the_delivery_or_is_woken() {
    every_order(4, || {
        let socket = Socket::new();
        let waiter = Arc::new(Waiter::default());
        let deliverer = delivering(&socket);
        let has_seen = socket.prepare_to_sleep(&waiter);
        deliverer.join().unwrap();
        assert!(has_seen || waiter.is_woken.load(Ordering::Acquire));
    });
}

/// The second datagram finds the bit set, or the first one taken.
#[test]
fn a_sleeper_does_not_miss_what_comes_while_another_thread_reads() {
    every_order(3, || {
        let socket = Socket::new();
        socket.deliver();
        let waiter = Arc::new(Waiter::default());
        let deliverer = delivering(&socket);
        let reader = {
            let socket = Arc::clone(&socket);
            thread::spawn(move || assert!(socket.take()))
        };
        let has_seen = socket.prepare_to_sleep(&waiter);
        deliverer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(*socket.waiting.lock().unwrap(), 1);
        assert!(has_seen || waiter.is_woken.load(Ordering::Acquire));
    });
}

#[test]
fn the_bit_says_at_last_whether_something_waits() {
    every_order(3, || {
        let socket = Socket::new();
        let deliverers = [delivering(&socket), delivering(&socket)];
        let taken = u32::from(socket.take());
        for deliverer in deliverers {
            deliverer.join().unwrap();
        }
        let waiting = *socket.waiting.lock().unwrap();
        assert_eq!(waiting, 2 - taken);
        assert_eq!(socket.readiness.now() & IN != 0, waiting > 0);
    });
}

/// A socket that comes into an epoll set while a datagram comes: the set learns of it, whoever is
/// first.
#[test]
fn a_new_watcher_is_told_of_what_waits() {
    every_order(4, || {
        let socket = Socket::new();
        let deliverer = delivering(&socket);
        let place = Arc::new(Place::default());
        socket.add(&place);
        deliverer.join().unwrap();
        assert!(place.told.load(Ordering::Acquire) >= 1);
    });
}

/// Edge-triggered: each delivery is told of, though the bit does not change.
#[test]
fn every_delivery_is_told_of() {
    every_order(3, || {
        let socket = Socket::new();
        let place = Arc::new(Place::default());
        socket.readiness.add_watcher(Arc::clone(&place));
        let deliverers = [delivering(&socket), delivering(&socket)];
        socket.take();
        for deliverer in deliverers {
            deliverer.join().unwrap();
        }
        assert_eq!(place.told.load(Ordering::Acquire), 2);
    });
}

#[test]
fn a_watcher_that_is_removed_takes_nobody_along() {
    every_order(3, || {
        let socket = Socket::new();
        let (leaving, staying) = (Arc::new(Place::default()), Arc::new(Place::default()));
        socket.readiness.add_watcher(Arc::clone(&leaving));
        let leaver = {
            let socket = Arc::clone(&socket);
            thread::spawn(move || socket.readiness.remove_watcher(&leaving))
        };
        let deliverer = delivering(&socket);
        socket.add(&staying);
        deliverer.join().unwrap();
        leaver.join().unwrap();
        assert!(staying.told.load(Ordering::Acquire) >= 1);
    });
}
