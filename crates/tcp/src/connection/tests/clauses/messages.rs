//! ICMP: RFC 9293 §3.9.2.2, RFC 5927.

use super::super::harness::*;
use crate::{Error, IcmpError, SeqNumber, State};

const SOFT: [(IcmpError, Error); 5] = [
    (IcmpError::NetUnreachable, Error::NetUnreachable),
    (IcmpError::HostUnreachable, Error::HostUnreachable),
    (IcmpError::TimeExceeded, Error::HostUnreachable),
    (IcmpError::ParameterProblem, Error::Protocol),
    (IcmpError::Prohibited, Error::Prohibited),
];

fn with_data_outstanding() -> Solo {
    let mut solo = Solo::established();
    solo.write(b"data");
    solo.poll();
    solo
}

// Requirement: RFC 9293 MUST-56, MUST-47, SHLD-25
#[test]
fn no_soft_error_aborts_and_each_can_be_asked_for() {
    for (message, error) in SOFT {
        let mut solo = with_data_outstanding();
        let seq = SeqNumber(ISS.wrapping_add(1));
        solo.connection.on_icmp(message, seq);
        assert_eq!(solo.state(), State::Established);
        assert!(!solo.connection.has_error(), "{message:?}");
        assert_eq!(solo.connection.take_error(), Some(error));
        solo.receive(ack(1, 5));
        solo.write(b"more");
        assert_eq!(solo.poll_one().payload, b"more");
    }
}

#[test]
fn who_asks_for_errors_is_told_of_each_once() {
    use crate::{Event, ReadError, SocketOption, WriteError};
    for (message, error) in SOFT {
        let mut solo = with_data_outstanding();
        let seq = SeqNumber(ISS.wrapping_add(1));
        let on = SocketOption::ReportErrors(true);
        solo.connection.set_option(solo.now, on).unwrap();
        let other = SocketOption::ReportErrorsOfIpv6(true);
        solo.connection.set_option(solo.now, other).unwrap();
        while solo.connection.poll_event().is_some() {}
        solo.connection.on_icmp(message, seq);
        assert_eq!(solo.connection.poll_event(), Some(Event::Failed));
        assert!(solo.connection.has_error() && !solo.connection.is_readable());
        let (now, data) = (solo.now, &mut [0; 8]);
        let failed = solo.connection.read(now, data);
        assert_eq!(failed, Err(ReadError::Failed(error)));
        let nothing = solo.connection.read(now, data);
        assert_eq!(nothing, Err(ReadError::WouldBlock));
        solo.connection.on_icmp(message, seq);
        let failed = solo.connection.write(now, b"lost");
        assert_eq!(failed, Err(WriteError::Failed(error)));
        assert_eq!(solo.state(), State::Established);
        solo.receive(ack(1, 5));
        solo.write(b"more");
        assert_eq!(solo.poll_one().payload, b"more");
        // One of the other version of IP says nothing.
        let mut solo = with_data_outstanding();
        solo.connection.set_option(solo.now, other).unwrap();
        solo.connection.on_icmp(message, seq);
        assert!(!solo.connection.has_error());
    }
}

// Requirement: RFC 9293 SHLD-26
#[test]
fn hard_errors_do_not_abort_an_open_connection_either() {
    for message in [IcmpError::ProtocolUnreachable, IcmpError::PortUnreachable] {
        let mut solo = with_data_outstanding();
        let seq = SeqNumber(ISS.wrapping_add(1));
        solo.connection.on_icmp(message, seq);
        assert_eq!(solo.state(), State::Established, "{message:?}");
    }
}
