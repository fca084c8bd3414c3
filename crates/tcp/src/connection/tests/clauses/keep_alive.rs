//! RFC 9293 §3.8.4.

use std::time::Duration;

use super::super::harness::*;
use crate::{Error, SocketOption, State};
use wire::tcp::Flags;

fn keep_alive() -> Solo {
    let mut solo = Solo::established();
    solo.set(SocketOption::KeepAlive(true));
    solo
}

// Requirement: RFC 9293 MUST-24, MUST-25
#[test]
fn nobody_is_probed_unless_the_application_asks() {
    let mut solo = Solo::established();
    assert_eq!(solo.connection.poll_timeout(), None);
    solo.set(SocketOption::KeepAlive(true));
    assert!(solo.connection.poll_timeout().is_some());
    solo.set(SocketOption::KeepAlive(false));
    assert_eq!(solo.connection.poll_timeout(), None);
}

// Requirement: RFC 9293 MUST-28
#[test]
fn the_first_probe_comes_after_two_hours() {
    let mut solo = keep_alive();
    let silence = Duration::from_secs(2 * 3600);
    assert!(solo.advance(silence - ms(1)).is_empty());
    assert_eq!(briefs(&solo.advance(ms(1))), [(0, 0, ACK)]);
}

// Requirement: RFC 9293 MUST-26
#[test]
fn what_arrives_puts_the_probe_off() {
    let mut solo = keep_alive();
    let hour = Duration::from_secs(3600);
    for round in 0..5 {
        assert!(solo.advance(hour).is_empty());
        solo.receive(data(1 + round, 1, b"x"));
        solo.read();
        solo.advance(ms(500));
        solo.poll();
    }
    assert!(solo.advance(hour).is_empty());
}

// Requirement: RFC 9293 MUST-26
#[test]
fn what_is_outstanding_is_not_joined_by_probes() {
    let mut solo = keep_alive();
    solo.set(SocketOption::KeepIdle(Duration::from_secs(1)));
    solo.write(b"data");
    solo.poll();
    let sent = solo.advance(Duration::from_secs(100));
    assert!(sent.len() > 3);
    assert!(
        sent.iter().all(|sent| sent.payload == b"data"),
        "{:?}",
        briefs(&sent)
    );
}

// Requirement: RFC 9293 MUST-29
#[test]
fn an_answer_to_the_last_probe_is_enough() {
    let mut solo = keep_alive();
    assert!(!solo.advance(Duration::from_secs(2 * 3600)).is_empty());
    // Nine in all by default.
    for _ in 0..8 {
        assert_eq!(solo.skip_to_timer(), Duration::from_secs(75));
        assert_eq!(solo.poll_one().brief(), (0, 0, ACK));
    }
    solo.receive(ack(1, 1));
    assert_eq!(solo.state(), State::Established);
    assert!(solo.advance(Duration::from_secs(7190)).is_empty());
}

// Requirement: RFC 9293 MUST-24, MUST-27, MUST-29, SHLD-12
#[test]
fn rfc9293_3_8_4_keepalive_probes_and_gives_up() {
    let options = [
        SocketOption::KeepAlive(true),
        SocketOption::KeepIdle(Duration::from_secs(10)),
        SocketOption::KeepInterval(Duration::from_secs(2)),
        SocketOption::KeepCount(3),
    ];
    let mut solo = Solo::established();
    for option in options {
        solo.set(option);
    }
    assert_eq!(solo.skip_to_timer(), Duration::from_secs(10));
    assert_eq!(solo.poll_one().brief(), (0, 0, ACK));
    solo.receive(ack(1, 1));
    // Ten seconds after the answer, not two.
    let sent = solo.advance(Duration::from_millis(9900));
    assert!(sent.is_empty(), "{sent:?}");
    let sent = solo.advance(Duration::from_secs(60));
    assert_eq!(
        briefs(&sent),
        [
            (0, 0, ACK),
            (0, 0, ACK),
            (0, 0, ACK),
            (1, 0, Flags::RST | ACK)
        ]
    );
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
}

/// The driver does not poll for segments: its device has no room.
#[test]
fn a_probe_that_had_no_room_does_not_count() {
    let mut solo = keep_alive();
    solo.set(SocketOption::KeepIdle(Duration::from_secs(1)));
    solo.set(SocketOption::KeepInterval(Duration::from_secs(2)));
    solo.set(SocketOption::KeepCount(3));
    solo.skip_to_timer();
    for _ in 0..10 {
        assert_eq!(solo.skip_to_timer(), Duration::from_secs(2));
    }
    assert_eq!(solo.state(), State::Established);
    for _ in 0..3 {
        solo.poll_one();
        solo.skip_to_timer();
    }
    assert_eq!(solo.state(), State::Closed);
}
