//! RFC 9293 §3.5, §3.7.1, §3.8.3.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::super::harness::*;
use crate::demux::Demux;
use crate::{Config, Error, Options, Path, SocketOption, State};
use wire::tcp::{Flags, Options as HeaderOptions};

// Requirement: RFC 9293 MUST-15(IPv6)
#[test]
fn without_mss_an_ipv6_peer_takes_1220_octets() {
    let path = Path::ipv6(1500);
    let mut solo = Solo::connecting(Config::default(), Options::default());
    let config = Arc::new(Config::default());
    solo.connection = Conn::connect(solo.now, config, Options::default(), path, secrets(ISS));
    assert_eq!(solo.poll_one().options.mss, Some(1440));
    solo.receive(syn_ack(HeaderOptions::default()));
    solo.poll();
    solo.write(&[0; 3000]);
    assert_eq!(solo.poll()[0].payload.len(), 1220);
}

// Requirement: RFC 9293 MUST-23
#[test]
fn an_application_can_have_its_syn_repeated_for_three_minutes() {
    let time_with = |count: Option<u8>| {
        let mut solo = Solo::connecting(Config::default(), Options::default());
        if let Some(count) = count {
            solo.set(SocketOption::SynCount(count));
        }
        solo.poll();
        let start = solo.now;
        while solo.state() != State::Closed {
            solo.skip_to_timer();
            solo.poll();
        }
        assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
        solo.now - start
    };
    assert_eq!(time_with(None), Duration::from_secs(131));
    assert!(time_with(Some(7)) >= Duration::from_secs(180));
}

// Requirement: RFC 9293 MUST-41, MUST-42
#[test]
fn a_port_can_be_listened_on_beside_connections_and_once() {
    let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let (local, remote) = (address("192.0.2.1:80"), address("192.0.2.2:4000"));
    let mut demux = Demux::new([1; 16]);
    // In SYN-SENT or SYN-RECEIVED: the table does not ask.
    demux.insert(local, remote, 1).unwrap();
    demux.listen(local, 2).unwrap();
    assert_eq!(demux.listen(local, 3), Err(2));
    assert_eq!(demux.listener(local), Some(2));
    assert_eq!(demux.connection(local, remote), Some(1));
}

// Requirement: RFC 9293 SHLD-2
#[test]
fn a_reset_may_carry_data() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        payload: b"the reason".to_vec(),
        ..rst(1)
    });
    assert_eq!(solo.state(), State::Closed);
    assert_eq!(solo.connection.take_error(), Some(Error::Reset));
    assert_eq!(solo.connection.readable_len(), 0);

    let mut opening = Solo::connecting(Config::default(), Options::default());
    opening.poll();
    opening.receive(Segment {
        ack: 1,
        flags: Flags::RST | Flags::ACK,
        payload: b"the reason".to_vec(),
        ..Segment::default()
    });
    assert_eq!(opening.connection.take_error(), Some(Error::Refused));
}
