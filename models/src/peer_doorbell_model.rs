use std::sync::Arc;

use loom::thread;

use crate::every_order;
use crate::peer_doorbell::Doorbell;
use crate::sync::{AtomicU32, Ordering};

/// Two processes: what one writes, and how it tells the other.
struct Pair {
    doorbell: Doorbell,
    written: AtomicU32,
}

impl Pair {
    /// Returns whether a sleeper is woken.
    fn write(&self) -> bool {
        self.written.fetch_add(1, Ordering::Release);
        self.doorbell.ring(5)
    }

    /// What there is to read in the slots that have news.
    fn look(&self) -> u32 {
        let mut seen = 0;
        self.doorbell.take(|slot| {
            assert_eq!(slot, 5);
            seen = self.written.load(Ordering::Acquire);
        });
        seen
    }
}

#[test]
fn who_goes_to_sleep_is_woken_or_sees_the_news() {
    every_order(3, || {
        let pair = Arc::new(Pair {
            doorbell: Doorbell::new(),
            written: AtomicU32::new(0),
        });
        let writer = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let first = pair.write();
                pair.write() || first
            })
        };
        let mut seen = pair.look();
        pair.doorbell.sleeps();
        seen = seen.max(pair.look());
        let is_woken = writer.join().unwrap();
        assert!(seen == 2 || is_woken, "it sleeps for ever");
        // Awake, it sees everything.
        assert_eq!(seen.max(pair.look()), 2);
    });
}
