//! RFC 7323 §3 and §5.4.

use super::super::harness::*;
use crate::{Config, Options, Shutdown};
use wire::tcp::{Options as HeaderOptions, Timestamps};

fn agreed() -> Solo {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    let echo = solo.poll_one().options.timestamps.unwrap().value;
    solo.timestamps = Some(Timestamps { value: 1000, echo });
    solo.receive(syn_ack(HeaderOptions {
        mss: Some(1000),
        sack_permitted: true,
        ..HeaderOptions::default()
    }));
    solo
}

// Requirement: RFC 7323 3.2-1
#[test]
fn every_segment_has_timestamps_once_they_are_agreed_on() {
    let mut solo = agreed();
    let mut sent = solo.poll();
    solo.receive(data(1, 1, b"data"));
    sent.extend(solo.poll());
    solo.write(&[0; 1500]);
    sent.extend(solo.poll());
    sent.extend(solo.advance(ms(2000)));
    solo.connection.shutdown(solo.now, Shutdown::Write);
    sent.extend(solo.poll());
    assert!(sent.iter().any(|sent| sent.flags.contains(FIN_ACK)));
    assert!(sent.len() >= 6);
    assert!(sent.iter().all(|sent| sent.options.timestamps.is_some()));
}

// Requirement: RFC 7323 5.4-1
#[test]
fn the_clock_ticks_once_a_millisecond() {
    let mut solo = agreed();
    let first = solo.poll_one().options.timestamps.unwrap().value;
    solo.now = solo.now + ms(1234);
    solo.write(b"data");
    let second = solo.poll_one().options.timestamps.unwrap().value;
    assert_eq!(second.wrapping_sub(first), 1234);
}
