//! RFC 9293 §3.8.6.3, §3.10.7.4.

use std::time::Duration;

use super::super::harness::*;

// Requirement: RFC 9293 MUST-40; RFC 5681 4.2-1
#[test]
fn no_delay_reaches_half_a_second() {
    for gap in [1, 10, 50, 150, 300, 450, 900, 2000] {
        let mut solo = Solo::established();
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
            solo.now = solo.now.max(arrival + ms(gap));
        }
    }
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
