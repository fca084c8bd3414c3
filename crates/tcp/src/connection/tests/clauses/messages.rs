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
