//! What is lost and sent again, and when that is given up: RFC 9293 §3.8.3; RFC 5482; RFC 5681; RFC
//! 8985; RFC 3708.

use std::time::Duration;

use super::harness::*;
use crate::{Config, Error, Event, Options, SocketOption, State};

// Requirement: RFC 9293 MUST-20
#[test]
fn what_is_not_acknowledged_is_sent_again_until_retries2() {
    let mut solo = Solo::established();
    solo.lose_and_probe();
    let rto = solo.skip_to_timer();
    assert_eq!(solo.poll_one().payload, b"data");
    let first_timeout_at = solo.now;
    let mut retransmissions = 1;
    while solo.state() != State::Closed {
        solo.skip_to_timer();
        let again = solo.poll();
        retransmissions += again.len();
        assert!(again.iter().all(|sent| sent.payload == b"data"));
    }
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
    assert!(solo.events().contains(&Event::Failed));
    // ip-sysctl.rst: 924.6 s for the default of 15, of which the first timeout is over.
    let elapsed = solo.now - first_timeout_at;
    assert!(elapsed >= Duration::from_millis(924_600), "{elapsed:?}");
    assert!(
        elapsed < Duration::from_millis(924_600) + Duration::from_secs(120),
        "{elapsed:?}"
    );
    assert!(
        (14..=15).contains(&retransmissions),
        "{retransmissions} from {rto:?} on"
    );
}

/// Linux rounds timeouts up, and so ends with the retransmission that `tcp_retries2` is reckoned
/// for, also where a round trip takes next to nothing. One more would take two minutes.
#[test]
fn a_short_path_is_given_up_with_the_same_retransmission() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.poll();
    solo.now = solo.now + Duration::from_micros(20);
    solo.receive(syn_ack(wire::tcp::Options::default()));
    solo.poll();
    solo.write(b"data");
    solo.poll();
    let since = solo.now;
    while solo.state() != State::Closed {
        solo.skip_to_timer();
        solo.poll();
    }
    let elapsed = solo.now - since;
    assert!(elapsed >= Duration::from_millis(924_600), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(926), "{elapsed:?}");
}

// Requirement: RFC 9293 MUST-21; RFC 5482 3-1
#[test]
fn rfc5482_user_timeout_bounds_the_time_without_acknowledgement() {
    let mut solo = Solo::established();
    solo.set(SocketOption::UserTimeout(ms(5000)));
    solo.write(b"data");
    solo.poll();
    solo.advance(ms(4000));
    assert_eq!(solo.state(), State::Established);
    solo.advance(ms(15_000));
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
}

// Requirement: RFC 5681 3.2-1
#[test]
fn three_duplicates_send_the_first_segment_again_at_once() {
    let mut solo = Solo::with_in_flight(10);
    for end in [2001, 3001] {
        solo.receive(sack(1, &[(1001, end)]));
        let sent = solo.poll();
        assert!(sent.iter().all(|segment| segment.seq() > 1), "{sent:?}");
    }
    solo.receive(sack(1, &[(1001, 4001)]));
    let sent = solo.poll();
    assert_eq!(sent[0].brief(), (1, 1000, ACK));
    let info = solo.connection.info(solo.now);
    assert_eq!(info.duplicate_acks, 3);
    assert_eq!(info.total_retrans, 1);
    assert!(info.snd_ssthresh < 10);
}

#[test]
fn rfc8985_7_a_tail_loss_is_probed_before_the_timeout() {
    let mut solo = Solo::with_three_in_flight();
    let delay = solo.skip_to_timer();
    assert!(delay < ms(100), "{delay:?}");
    assert_eq!(solo.poll_one().seq(), 3001);
}

#[test]
fn a_large_transfer_arrives_whole() {
    let mut pair = Pair::established();
    let time = pair.transfer(0, 3_000_000);
    assert!(time < Duration::from_secs(3), "{time:?}");
    let now = pair.now;
    let info = pair.host(0).info(now);
    assert_eq!(info.total_retrans, 0);
}

#[test]
fn a_transfer_survives_loss() {
    for percent in [1, 5, 20] {
        let mut pair = Pair::established();
        pair.drops = random_loss(42, percent);
        let time = pair.transfer(0, 500_000);
        assert!(time < Duration::from_secs(600), "{percent} %: {time:?}");
    }
}

#[test]
fn transfers_in_both_directions_survive_loss_without_sack_and_timestamps() {
    let config = Config {
        sack: false,
        timestamps: false,
        ..Config::default()
    };
    let mut pair = Pair::new(config, ms(5));
    pair.run(ms(100));
    pair.drops = random_loss(7, 2);
    pair.transfer(0, 300_000);
    pair.transfer(1, 300_000);
}

/// RFC 8985 §7.4.2: the duplicate's report comes when nothing is outstanding any more.
// Requirement: RFC 8985 7.4-2
#[test]
fn rfc8985_section7_4_2_a_probe_of_what_had_arrived_reduces_nothing() {
    for has_duplicate_report in [true, false] {
        let mut solo = Solo::established();
        solo.write(&[1; 10_000]);
        assert_eq!(solo.poll().len(), 10);
        let passed = solo.skip_to_timer();
        assert!(passed < ms(200), "{passed:?}");
        let probe = solo.poll_one();
        assert_eq!(probe.brief().0, 9001);
        solo.receive(ack(1, 10_001));
        let blocks: &[(u32, u32)] = if has_duplicate_report {
            &[(9001, 10_001)]
        } else {
            &[]
        };
        solo.receive(sack(10_001, blocks));
        solo.write(&[1; 1000]);
        solo.poll();
        solo.receive(ack(1, 11_001));
        let info = solo.connection.info(solo.now);
        assert_eq!(info.snd_ssthresh, u32::MAX / 2, "{has_duplicate_report}");
    }
}

/// RFC 3708 §2
#[test]
fn rfc3708_a_duplicate_reported_after_everything_arrived_undoes_the_reduction() {
    let mut solo = Solo::with_in_flight(10);
    solo.receive(sack(1, &[(1001, 4001)]));
    assert_eq!(solo.poll_one().brief().0, 1);
    solo.receive(ack(1, 10_001));
    assert!(solo.connection.info(solo.now).snd_ssthresh < 10);
    solo.receive(sack(10_001, &[(1, 1001)]));
    let info = solo.connection.info(solo.now);
    assert_eq!(info.snd_ssthresh, u32::MAX / 2);
    assert_eq!(info.dsack_duplicates, 1);
}

/// The driver does not poll for segments: its device has no room.
#[test]
fn a_timeout_whose_segment_had_no_room_is_not_backed_off_again() {
    let mut solo = Solo::established();
    solo.lose_and_probe();
    let rto = solo.skip_to_timer();
    for _ in 0..10 {
        assert_eq!(solo.skip_to_timer(), rto * 2);
    }
    assert_eq!(solo.poll_one().payload, b"data");
    assert_eq!(solo.skip_to_timer(), rto * 2);
    assert_eq!(solo.poll_one().payload, b"data");
    assert_eq!(solo.skip_to_timer(), rto * 4);
    assert_eq!(solo.state(), State::Established);
}

#[test]
fn a_window_probe_that_had_no_room_does_not_count() {
    let mut solo = Solo::established();
    solo.block();
    let first = solo.skip_to_timer();
    for _ in 0..100 {
        assert_eq!(solo.skip_to_timer(), first * 2);
    }
    assert_eq!(solo.state(), State::Established);
    assert_eq!(solo.poll_one().payload, b"");
    assert_eq!(solo.skip_to_timer(), first * 2);
    assert_eq!(solo.poll_one().payload, b"");
    assert_eq!(solo.skip_to_timer(), first * 4);
}
