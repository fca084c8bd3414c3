//! RFC 9293 §3.8.6.3, §3.10.7.4.

use std::time::Duration;

use super::super::harness::*;
use crate::{Config, Options, SocketOption};
use wire::tcp::Options as HeaderOptions;

// Requirement: RFC 9293 MUST-40; RFC 5681 4.2-1
#[test]
fn no_delay_reaches_half_a_second() {
    let mut longest = Duration::ZERO;
    // A long round trip allows for long delays.
    for (round_trip, gap) in [20, 3000]
        .into_iter()
        .flat_map(|round_trip| [1, 10, 50, 150, 300, 450, 900, 2000].map(|gap| (round_trip, gap)))
    {
        let mut solo = Solo::connecting(Config::default(), Options::default());
        solo.poll();
        solo.now = solo.now + ms(round_trip);
        solo.connection
            .set_option(solo.now, SocketOption::QuickAck(false))
            .unwrap();
        solo.receive(syn_ack(HeaderOptions::default()));
        solo.poll();
        for round in 0..60 {
            solo.receive(data(1 + round, 1, b"x"));
            solo.read();
            let arrival = solo.now;
            let mut waited = Duration::ZERO;
            if solo.poll().is_empty() {
                waited = solo.skip_to_timer();
                assert_eq!(solo.poll_one().ack(), 2 + round);
            }
            assert!(
                waited < ms(500),
                "{waited:?} with {gap} ms between segments"
            );
            longest = longest.max(waited);
            solo.now = solo.now.max(arrival + ms(gap));
        }
    }
    assert!(
        longest > ms(200),
        "nothing was delayed for long: {longest:?}"
    );
}

// Requirement: RFC 9293 MUST-59
#[test]
fn what_fills_a_gap_is_acknowledged_with_what_waited_behind_it() {
    let mut solo = Solo::established();
    solo.receive(data(1001, 1, &[0; 1000]));
    solo.receive(data(1, 1, &[0; 1000]));
    solo.receive(data(2001, 1, &[0; 1000]));
    let sent = solo.poll();
    assert!(sent.iter().all(|sent| sent.ack() == 3001), "{sent:?}");
}
