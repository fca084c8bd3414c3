use std::sync::Arc;

use loom::thread;

use crate::every_order;
use crate::sockets::shared_socket::SharedSocket;
use crate::sync::{AtomicU32, Ordering};

const GENERATION: u32 = 1;

/// Both at once would mean that the child reads from the kernel what the parent takes past it.
#[test]
fn a_wish_is_seen_or_the_socket_is_held() {
    every_order(4, || {
        let shared = Arc::new(SharedSocket::default());
        let descendant = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.request(GENERATION);
                shared.is_claimed(GENERATION)
            })
        };
        let owner_takes_it = shared.claim(GENERATION);
        let descendant_waits = descendant.join().unwrap();
        assert!(!owner_takes_it || descendant_waits);
    });
}

#[test]
fn what_the_owner_gave_to_the_kernel_is_there_when_the_wait_ends() {
    every_order(4, || {
        let shared = Arc::new(SharedSocket::default());
        let in_kernel = Arc::new(AtomicU32::new(0));
        assert!(shared.claim(GENERATION));
        let owner = {
            let (shared, in_kernel) = (Arc::clone(&shared), Arc::clone(&in_kernel));
            thread::spawn(move || {
                in_kernel.store(1, Ordering::Relaxed);
                shared.release();
            })
        };
        shared.request(GENERATION);
        if !shared.is_claimed(GENERATION) {
            assert_eq!(in_kernel.load(Ordering::Relaxed), 1);
        }
        owner.join().unwrap();
    });
}

#[test]
fn who_waits_for_the_release_is_woken() {
    every_order(4, || {
        sys::take_wakes();
        let shared = Arc::new(SharedSocket::default());
        assert!(shared.claim(GENERATION));
        let owner = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.release())
        };
        shared.request(GENERATION);
        let waits = shared.is_claimed(GENERATION);
        owner.join().unwrap();
        assert!(!waits || sys::take_wakes() == 1);
    });
}

const TAKER: u32 = 7;

/// Both at once would mean that one reads from the kernel what the other takes past it.
#[test]
fn whoever_else_uses_a_socket_is_seen_or_sees_who_has_adopted_it() {
    every_order(4, || {
        let shared = Arc::new(SharedSocket::default());
        assert!(shared.begin_taking(GENERATION, TAKER, |_| true));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.mark_taken_by_several(GENERATION);
                shared.adopter()
            })
        };
        let is_adopted = shared.adopt(GENERATION, TAKER);
        let waits_for = other.join().unwrap();
        assert!(!is_adopted || waits_for == Some(TAKER));
    });
}

#[test]
fn of_two_that_begin_to_take_one_at_most_adopts() {
    every_order(4, || {
        let shared = Arc::new(SharedSocket::default());
        let begin = |shared: &SharedSocket, process: u32| {
            shared.begin_taking(GENERATION, process, |_| true) && shared.adopt(GENERATION, process)
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || begin(&shared, TAKER + 1))
        };
        let first = begin(&shared, TAKER);
        let second = other.join().unwrap();
        assert!(!first || !second);
    });
}

#[test]
fn what_was_given_back_is_there_when_the_wait_ends() {
    every_order(4, || {
        let shared = Arc::new(SharedSocket::default());
        let in_kernel = Arc::new(AtomicU32::new(0));
        assert!(shared.begin_taking(GENERATION, TAKER, |_| true));
        assert!(shared.adopt(GENERATION, TAKER));
        let taker = {
            let (shared, in_kernel) = (Arc::clone(&shared), Arc::clone(&in_kernel));
            thread::spawn(move || {
                in_kernel.store(1, Ordering::Relaxed);
                shared.end_adoption(TAKER);
            })
        };
        shared.mark_taken_by_several(GENERATION);
        if shared.adopter().is_none() {
            assert_eq!(in_kernel.load(Ordering::Relaxed), 1);
        }
        taker.join().unwrap();
    });
}

/// Both at once would mean that one reads from the kernel what the other takes past it.
#[test]
fn whoever_uses_it_otherwise_is_seen_or_sees_that_some_have_parts() {
    every_order(4, || {
        let shared = Arc::new(SharedSocket::default());
        assert!(shared.begin_taking_together(GENERATION, |_| true));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.mark_taken_by_several(GENERATION);
                shared.adopter()
            })
        };
        let has_part = shared.begin_part(GENERATION);
        let waits_for = other.join().unwrap();
        assert!(!has_part || waits_for.is_some());
    });
}

#[test]
fn of_those_that_take_together_and_one_that_takes_alone_not_both_have_it() {
    every_order(4, || {
        let shared = Arc::new(SharedSocket::default());
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.begin_taking(GENERATION, TAKER, |_| true) && shared.adopt(GENERATION, TAKER)
            })
        };
        let begins = shared.begin_taking_together(GENERATION, |_| true);
        let has_part = begins && shared.begin_part(GENERATION);
        let is_alone = other.join().unwrap();
        assert!(!has_part || !is_alone);
    });
}

#[test]
fn the_last_part_to_end_wakes_who_waits() {
    every_order(4, || {
        sys::take_wakes();
        let shared = Arc::new(SharedSocket::default());
        assert!(shared.begin_taking_together(GENERATION, |_| true));
        assert!(shared.begin_part(GENERATION) && shared.begin_part(GENERATION));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.end_part())
        };
        shared.end_part();
        let _ = other.join().unwrap();
        assert_eq!(shared.adopter(), None);
        assert_eq!(sys::take_wakes(), 2);
    });
}
