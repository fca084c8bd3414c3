//! RFC 6298, RFC 9293 §3.8.1 and §3.8.3.

use std::time::Duration;

use super::super::harness::*;
use crate::{Config, Error};

// Requirement: RFC 9293 MUST-18
#[test]
fn what_was_sent_twice_measures_nothing_without_timestamps() {
    let mut solo = Solo::established();
    let before = solo.connection.info(solo.now);
    solo.write(b"data");
    solo.poll();
    // The probe, the timeout, and an answer that may be to any of the three.
    let again = solo.advance(ms(700));
    assert!(again.len() >= 2, "{again:?}");
    let backed_off = solo.connection.info(solo.now).rto;
    assert!(backed_off >= before.rto * 2);
    solo.receive(ack(1, 5));
    let after = solo.connection.info(solo.now);
    assert_eq!(
        (after.rtt, after.rtt_variance),
        (before.rtt, before.rtt_variance)
    );
}

// Requirement: RFC 9293 SHLD-10, SHLD-11
#[test]
fn r1_is_three_retransmissions_and_r2_is_beyond_100_seconds() {
    assert_eq!(Config::default().retries1, 3);
    let mut solo = Solo::established();
    solo.write(b"data");
    solo.poll();
    solo.advance(Duration::from_secs(100));
    assert_eq!(solo.connection.take_error(), None);
    solo.advance(Duration::from_secs(1000));
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
}
