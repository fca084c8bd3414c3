//! Urgent data as Linux has it: RFC 9293 §3.8.5, RFC 6093.

use super::harness::*;
use crate::{Event, ReadError, SocketOption, UrgentError};
use wire::tcp::Flags;

// Requirement: RFC 9293 MUST-30, MUST-33
#[test]
fn urgent_data_as_linux_has_it() {
    let mut solo = Solo::established();
    solo.receive(urgent(1, 4, b"abcXdef"));
    assert_eq!(solo.events(), [Event::Readable, Event::Urgent]);
    assert!(solo.connection.has_urgent());
    assert_eq!(solo.connection.peek_urgent(), Ok(b'X'));
    // A read stops before the mark.
    assert_eq!(solo.read(), b"abc");
    assert!(solo.connection.is_at_mark());
    assert_eq!(solo.connection.read_urgent(), Ok(b'X'));
    assert_eq!(solo.connection.read_urgent(), Err(UrgentError::None));
    assert_eq!(solo.read(), b"def");
    assert!(!solo.connection.is_at_mark());

    let count = solo.connection.write_urgent(solo.now, b"stop");
    assert_eq!(count, Ok(4));
    let sent = solo.poll_one();
    assert_eq!((sent.flags, sent.urgent), (PSH_ACK | Flags::URG, 4));
}

#[test]
fn urgent_data_stays_in_the_stream_with_oobinline() {
    let mut solo = Solo::established();
    solo.set(SocketOption::OobInline(true));
    solo.receive(urgent(1, 4, b"abcXdef"));
    assert_eq!(solo.connection.read_urgent(), Err(UrgentError::None));
    assert_eq!(solo.read(), b"abc");
    assert!(solo.connection.is_at_mark());
    assert_eq!(solo.read(), b"Xdef");
}

// Requirement: RFC 9293 MUST-32
#[test]
fn urgent_data_may_be_announced_before_it_comes() {
    let mut solo = Solo::established();
    solo.receive(urgent(1, 3, b""));
    assert_eq!(solo.events(), [Event::Urgent]);
    assert_eq!(solo.connection.read_urgent(), Err(UrgentError::NotReceived));
    solo.receive(data(1, 1, b"abX"));
    assert_eq!(solo.connection.read_urgent(), Ok(b'X'));
}

#[test]
fn an_urgent_octet_alone_is_not_readable() {
    let mut solo = Solo::established();
    solo.receive(urgent(1, 1, b"X"));
    assert!(!solo.connection.is_readable() && solo.connection.has_urgent());
    assert_eq!(solo.connection.peek().count(), 0);
    let nothing = solo.connection.read(solo.now, &mut [0; 9]);
    assert_eq!(nothing, Err(ReadError::WouldBlock));
    // Read past the octet, it is gone.
    assert!(!solo.connection.has_urgent());
    solo.receive(data(2, 1, b"abc"));
    assert_eq!(solo.read(), b"abc");
}

#[test]
fn an_octet_that_is_not_urgent_any_more_and_was_not_passed_is_left_out() {
    let mut solo = Solo::established();
    solo.receive(urgent(1, 3, b"abX"));
    assert_eq!(solo.read(), b"ab");
    assert!(solo.connection.is_at_mark());
    solo.receive(urgent(4, 3, b"cdY"));
    assert_eq!(solo.read(), b"cd");
    // One that was not reached is read like any other.
    solo.receive(urgent(7, 2, b"eZ"));
    solo.receive(urgent(9, 2, b"fU"));
    assert_eq!(solo.read(), b"eZf");
}

#[test]
fn an_urgent_octet_that_comes_after_its_announcement_wakes() {
    let mut solo = Solo::established();
    solo.receive(urgent(1, 3, b""));
    assert_eq!(solo.events(), [Event::Urgent]);
    assert!(!solo.connection.has_urgent());
    // Behind a gap, so that nothing else can be read.
    solo.receive(data(3, 1, b"Xyz"));
    assert!(solo.connection.has_urgent());
    assert_eq!(solo.events(), [Event::Readable]);
}

#[test]
fn urgent_data_goes_in_single_segments() {
    let mut solo = Solo::offloading();
    solo.write(&[1; 2500]);
    assert_eq!(solo.connection.write_urgent(solo.now, b"!"), Ok(1));
    let pointers: Vec<_> = solo.poll().iter().map(|sent| sent.urgent).collect();
    assert_eq!(pointers, [2501, 1501, 501]);
    solo.set(SocketOption::NoDelay(true));
    solo.write(b"not urgent");
    assert_eq!(solo.poll_one().flags, PSH_ACK);
}
