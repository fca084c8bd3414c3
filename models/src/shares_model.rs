use std::sync::Arc;

use loom::thread;

use crate::counter::Counter;
use crate::every_order;
use crate::shares::{SHARES, Shares};

/// One of three threads has a share of its own, the others count in everybody's: none of their
/// counts is lost.
#[test]
fn no_count_is_lost() {
    every_order(3, || {
        let shares = Arc::new(Shares::new());
        let counters: Arc<[Counter; SHARES]> =
            Arc::new(std::array::from_fn(|_| Counter::default()));
        let count = |token: usize| {
            let (shares, counters) = (Arc::clone(&shares), Arc::clone(&counters));
            move || {
                for _ in 0..2 {
                    let share = shares.of_thread(token);
                    share.add(&counters[share.index()], 1);
                }
            }
        };
        let threads = [thread::spawn(count(11)), thread::spawn(count(12))];
        count(13)();
        for thread in threads {
            thread.join().unwrap();
        }
        let total: u64 = counters.iter().map(Counter::value).sum();
        assert_eq!(total, 6);
        assert_eq!(counters[1].value(), 2, "one thread has a share of its own");
    });
}
