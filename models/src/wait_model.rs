use std::sync::Arc;

use links::wait::{WaitQueue, Waiter};
use loom::thread;

use crate::every_order;
use crate::sync::{Mutex, Ordering};

/// A socket: its queue under its lock, and who sleeps on it.
#[derive(Default)]
struct Socket {
    waiting: Mutex<u32>,
    sleepers: WaitQueue,
}

impl Socket {
    fn deliver(&self) {
        *self.waiting.lock().unwrap() += 1;
        self.sleepers.wake_all();
    }

    /// Whether the thread, which would sleep now if it saw nothing, has been or will be woken is
    /// seen after all threads have ended.
    fn prepare_to_sleep(&self, waiter: &Arc<Waiter>) -> bool {
        self.sleepers.add(waiter);
        *self.waiting.lock().unwrap() > 0
    }
}

#[test]
fn a_sleeper_sees_the_delivery_or_is_woken() {
    every_order(4, || {
        let socket = Arc::new(Socket::default());
        let waiter = Arc::new(Waiter::default());
        let deliverer = {
            let socket = Arc::clone(&socket);
            thread::spawn(move || socket.deliver())
        };
        let has_seen = socket.prepare_to_sleep(&waiter);
        deliverer.join().unwrap();
        assert!(has_seen || waiter.is_woken.load(Ordering::Acquire));
    });
}

#[test]
fn one_delivery_wakes_every_sleeper_that_did_not_see_it() {
    every_order(3, || {
        let socket = Arc::new(Socket::default());
        let waiters = [(); 2].map(|()| Arc::new(Waiter::default()));
        let sleeper = {
            let (socket, waiter) = (Arc::clone(&socket), Arc::clone(&waiters[0]));
            thread::spawn(move || socket.prepare_to_sleep(&waiter))
        };
        let deliverer = {
            let socket = Arc::clone(&socket);
            thread::spawn(move || socket.deliver())
        };
        let has_seen = socket.prepare_to_sleep(&waiters[1]);
        deliverer.join().unwrap();
        let have_seen = [sleeper.join().unwrap(), has_seen];
        for (has_seen, waiter) in have_seen.into_iter().zip(&waiters) {
            assert!(has_seen || waiter.is_woken.load(Ordering::Acquire));
        }
    });
}

/// The end of one sleeper's registration does not hide another's.
#[test]
fn a_sleeper_that_leaves_takes_nobody_along() {
    every_order(3, || {
        let socket = Arc::new(Socket::default());
        let (leaving, staying) = (Arc::new(Waiter::default()), Arc::new(Waiter::default()));
        socket.sleepers.add(&leaving);
        let leaver = {
            let socket = Arc::clone(&socket);
            thread::spawn(move || socket.sleepers.remove(&leaving))
        };
        let deliverer = {
            let socket = Arc::clone(&socket);
            thread::spawn(move || socket.deliver())
        };
        let has_seen = socket.prepare_to_sleep(&staying);
        deliverer.join().unwrap();
        leaver.join().unwrap();
        assert!(has_seen || staying.is_woken.load(Ordering::Acquire));
    });
}
