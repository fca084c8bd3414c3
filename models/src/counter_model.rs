use std::sync::Arc;

use loom::thread;

use crate::counter::{Counter, Peak};
use crate::every_order;

/// What a reader sees was there, and later looks see no less.
#[test]
fn a_counter_is_never_torn_and_never_goes_back() {
    every_order(3, || {
        let counter = Arc::new(Counter::default());
        let writer = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || (0..3).for_each(|_| counter.add(1 << 33 | 1)))
        };
        let (first, second) = (counter.value(), counter.value());
        for seen in [first, second] {
            assert!(
                (0..=3).any(|adds| seen == adds * (1 << 33 | 1)),
                "{seen:#x}"
            );
        }
        assert!(first <= second);
        writer.join().unwrap();
        assert_eq!(counter.value(), 3 * (1 << 33 | 1));
    });
}

/// Whatever becomes of a request to begin anew, nothing is counted that was not.
#[test]
fn a_counter_that_begins_anew_never_has_more_than_was_counted() {
    every_order(2, || {
        let (counter, peak) = (Arc::new(Counter::default()), Arc::new(Peak::default()));
        counter.add(2);
        let writer = {
            let (counter, peak) = (Arc::clone(&counter), Arc::clone(&peak));
            thread::spawn(move || {
                counter.add(1);
                peak.raise_to(7);
            })
        };
        counter.begin_anew();
        peak.begin_anew();
        writer.join().unwrap();
        assert!(counter.value() <= 3, "{}", counter.value());
        assert!([0, 7].contains(&peak.value()), "{}", peak.value());
    });
}
