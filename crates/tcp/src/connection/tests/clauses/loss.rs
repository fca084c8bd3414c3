//! RFC 6298, RFC 9293 §3.8.1 and §3.8.3.

use std::time::Duration;

use super::super::harness::*;
use crate::{Config, Error};

// Requirement: RFC 9293 MUST-18; RFC 6298 3-1
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

// Requirement: RFC 6298 5-1, 5-2, 5-3
#[test]
fn the_timer_runs_while_something_is_outstanding_and_starts_over_with_news() {
    let config = Config {
        tail_loss_probe: false,
        ..Config::default()
    };
    let mut solo = Solo::established_with(config, crate::Options::default());
    assert_eq!(solo.connection.poll_timeout(), None);
    solo.write(&[0; 2000]);
    assert_eq!(solo.poll().len(), 2);
    let rto = solo.connection.info(solo.now).rto;
    assert_eq!(solo.connection.poll_timeout(), Some(solo.now + rto));
    solo.now = solo.now + ms(20);
    solo.receive(ack(1, 1001));
    let rto = solo.connection.info(solo.now).rto;
    assert_eq!(solo.connection.poll_timeout(), Some(solo.now + rto));
    solo.receive(ack(1, 2001));
    assert_eq!(solo.connection.poll_timeout(), None);
}

// Requirement: RFC 2018 8-1; RFC 6675 3-1
#[test]
fn what_was_reported_is_kept_and_not_sent_again() {
    let mut solo = Solo::with_in_flight(10);
    solo.receive(sack(1, &[(2001, 10_001)]));
    let mut again = solo.poll();
    again.extend(solo.advance(ms(20)));
    assert_eq!(briefs(&again)[..2], [(1, 1000, ACK), (1001, 1000, ACK)]);
    assert!(again.iter().all(|sent| sent.seq() < 2001), "{again:?}");
    assert_eq!(solo.connection.unacknowledged_len(), 10_000);
}

// Requirement: RFC 2883 5-1
#[test]
fn blocks_below_the_acknowledgement_are_no_loss() {
    let mut solo = Solo::with_in_flight(4);
    for _ in 0..5 {
        solo.receive(sack(2001, &[(1, 1001)]));
    }
    solo.assert_silent();
    assert_eq!(solo.connection.info(solo.now).lost, 0);
}

// Requirement: RFC 8985 7.3-2
#[test]
fn a_probe_without_an_answer_is_followed_by_the_timeout() {
    let mut solo = Solo::with_three_in_flight();
    solo.skip_to_timer();
    assert_eq!(solo.poll_one().seq(), 3001);
    solo.skip_to_timer();
    assert_eq!(solo.poll_one().seq(), 1001);
    assert_eq!(solo.connection.info(solo.now).retransmits, 1);
}

// Requirement: RFC 6582 4-1
#[test]
fn duplicates_of_what_was_sent_before_a_timeout_begin_no_recovery() {
    let mut solo = Solo::connecting(Config::default(), crate::Options::default());
    solo.poll();
    solo.now = solo.now + ms(20);
    solo.receive(syn_ack(wire::tcp::Options {
        mss: Some(1000),
        ..wire::tcp::Options::default()
    }));
    solo.poll();
    solo.write(&[0; 10_000]);
    assert_eq!(solo.poll().len(), 10);
    while solo.connection.info(solo.now).retransmits == 0 {
        solo.skip_to_timer();
        solo.poll();
    }
    let before = solo.connection.info(solo.now);
    for _ in 0..6 {
        solo.receive(ack(1, 1));
        solo.assert_silent();
    }
    let after = solo.connection.info(solo.now);
    assert_eq!(
        (after.snd_ssthresh, after.total_retrans),
        (before.snd_ssthresh, before.total_retrans)
    );
}
