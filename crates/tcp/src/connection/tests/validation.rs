//! Segments that are not believed: RFC 9293 §3.10.7.4, RFC 5961, RFC 7323 §5, RFC 5927.

use std::sync::Arc;

use super::harness::*;
use crate::{Config, Error, IcmpError, Options, Path, SeqNumber, State};
use wire::tcp::{Flags, Options as HeaderOptions, Timestamps};

// Requirement: RFC 5961 3.2-1, 3.2-2, 3.2-3
#[test]
fn rfc5961_3_2_a_reset_counts_at_rcv_nxt_only() {
    let mut solo = Solo::established();
    solo.receive(rst(2));
    assert_eq!(solo.state(), State::Established);
    let sent = solo.poll_one();
    assert_eq!((sent.brief(), sent.ack()), ((1, 0, ACK), 1));
    // Outside of the window it is not even answered.
    solo.now = solo.now + ms(1000);
    solo.receive(rst(200_000));
    solo.assert_silent();
    solo.receive(rst(1));
    assert_eq!(solo.state(), State::Closed);
    assert_eq!(solo.connection.take_error(), Some(Error::Reset));
}

// Requirement: RFC 5961 4.2-1
#[test]
fn rfc5961_4_2_a_syn_is_challenged() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        seq: 500,
        flags: Flags::SYN,
        ..Segment::default()
    });
    let sent = solo.poll_one();
    assert_eq!((sent.brief(), sent.ack()), ((1, 0, ACK), 1));
    assert_eq!(solo.state(), State::Established);
}

// Requirement: RFC 5961 5.2-1, 5.2-2
#[test]
fn rfc5961_5_2_acknowledgements_far_off_are_challenged_and_their_data_dropped() {
    for number in [2u32, 0u32.wrapping_sub(70_000)] {
        let mut solo = Solo::established();
        solo.receive(data(1, number, b"evil"));
        assert_eq!(solo.connection.readable_len(), 0);
        assert_eq!(solo.poll_one().brief(), (1, 0, ACK));
    }
    let mut solo = Solo::established();
    solo.write(b"x");
    solo.poll();
    solo.receive(ack(1, 2));
    // Old but believable: the data counts.
    solo.receive(data(1, 1, b"good"));
    assert_eq!(solo.connection.readable_len(), 4);
}

// Requirement: RFC 5961 7-1
#[test]
fn rfc5961_7_challenges_are_limited() {
    let mut solo = Solo::established();
    for _ in 0..10 {
        solo.receive(rst(2));
    }
    assert_eq!(solo.poll().len(), 1);
    solo.now = solo.now + ms(499);
    solo.receive(rst(2));
    solo.assert_silent();
    solo.now = solo.now + ms(1);
    solo.receive(rst(2));
    assert_eq!(solo.poll().len(), 1);
}

#[test]
fn rfc9293_3_4_segments_outside_of_the_window_are_answered_and_dropped() {
    let mut solo = Solo::established();
    solo.receive(data(70_000, 1, b"beyond"));
    assert_eq!(solo.poll_one().ack(), 1);
    solo.receive(data(1, 1, b"in"));
    solo.poll();
    solo.receive(data(1, 1, b"in"));
    assert_eq!(solo.poll_one().ack(), 3);
    assert_eq!(solo.read(), b"in");
}

#[test]
fn rfc9293_3_10_7_4_data_beyond_the_window_is_trimmed() {
    let mut solo = Solo::established();
    let window = solo.connection.info(solo.now).rcv_wnd;
    solo.receive(data(1, 1, &vec![0; window as usize + 1000]));
    assert_eq!(solo.connection.readable_len(), window as usize);
}

#[test]
fn rfc9293_3_10_7_4_segments_without_ack_are_dropped() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        flags: Flags::PSH,
        ..data(1, 0, b"data")
    });
    solo.assert_silent();
    assert_eq!(solo.connection.readable_len(), 0);
}

fn with_timestamps() -> Solo {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    let echo = solo.poll_one().options.timestamps.unwrap().value;
    solo.timestamps = Some(Timestamps { value: 1000, echo });
    solo.receive(syn_ack(HeaderOptions::default()));
    solo.poll();
    solo
}

// Requirement: RFC 7323 5.3-1
#[test]
fn rfc7323_5_3_paws_drops_old_duplicates_with_an_answer() {
    let mut solo = with_timestamps();
    solo.timestamps = Some(Timestamps {
        value: 2000,
        echo: 0,
    });
    solo.receive(data(1, 1, b"new"));
    solo.poll();
    solo.timestamps = Some(Timestamps {
        value: 1990,
        echo: 0,
    });
    solo.receive(data(4, 1, b"old"));
    assert_eq!(solo.connection.readable_len(), 3);
    assert_eq!(solo.poll_one().ack(), 4);
    // R1: "If RST [...] is set, skip".
    solo.receive(rst(4));
    assert_eq!(solo.state(), State::Closed);
}

/// Later data that was sent before the retransmission of earlier data, and comes after it.
#[test]
fn data_that_a_retransmission_has_overtaken_is_not_old() {
    let mut solo = with_timestamps();
    let mut receive = |value, seq, text: &[u8]| {
        solo.timestamps = Some(Timestamps { value, echo: 0 });
        solo.receive(data(seq, 1, text));
        solo.poll();
        solo.connection.readable_len()
    };
    assert_eq!(receive(1100, 4, b"def"), 0);
    assert_eq!(receive(1200, 1, b"abc"), 6);
    // Ticks of tolerance do not do for this one.
    assert_eq!(receive(1110, 7, b"ghi"), 9);
    // Older than what came before the gap.
    assert_eq!(receive(990, 10, b"jkl"), 9);
}

// Requirement: RFC 7323 4.3-1
#[test]
fn rfc7323_4_3_the_echo_is_that_of_the_segment_at_the_left_edge() {
    let mut solo = with_timestamps();
    solo.timestamps = Some(Timestamps {
        value: 1100,
        echo: 0,
    });
    solo.receive(data(11, 1, b"ahead"));
    assert_eq!(solo.poll_one().options.timestamps.unwrap().echo, 1000);
    solo.timestamps = Some(Timestamps {
        value: 1200,
        echo: 0,
    });
    solo.receive(data(1, 1, &[0; 10]));
    assert_eq!(solo.poll_one().options.timestamps.unwrap().echo, 1200);
}

// Requirement: RFC 7323 5.5-1
#[test]
fn rfc7323_5_5_timestamps_older_than_24_days_are_not_compared_with() {
    let mut solo = with_timestamps();
    solo.now = solo.now + std::time::Duration::from_secs(25 * 24 * 3600);
    solo.timestamps = Some(Timestamps {
        value: 1000u32.wrapping_sub(100_000),
        echo: 0,
    });
    solo.receive(data(1, 1, b"data"));
    assert_eq!(solo.connection.readable_len(), 4);
    // What came counts from here on.
    solo.timestamps = Some(Timestamps {
        value: 1000u32.wrapping_sub(100_010),
        echo: 0,
    });
    solo.receive(data(5, 1, b"old"));
    assert_eq!(solo.connection.readable_len(), 4);
}

// Requirement: RFC 9293 MUST-47, MUST-56, SHLD-25
#[test]
fn rfc5927_icmp_errors_do_not_end_an_open_connection() {
    let mut solo = Solo::established();
    solo.write(b"data");
    solo.poll();
    let seq = SeqNumber(ISS.wrapping_add(1));
    solo.connection.on_icmp(IcmpError::HostUnreachable, seq);
    assert_eq!(solo.state(), State::Established);
    assert!(!solo.connection.has_error());
    // It is the reason when the connection times out.
    solo.advance(std::time::Duration::from_secs(3600));
    assert_eq!(solo.connection.take_error(), Some(Error::HostUnreachable));
}

// Requirement: RFC 9293 MUST-54, MUST-56(SYN-SENT)
#[test]
fn an_icmp_error_ends_a_connection_that_is_being_opened() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.poll();
    solo.connection
        .on_icmp(IcmpError::PortUnreachable, SeqNumber(ISS.wrapping_sub(1)));
    assert_eq!(solo.state(), State::SynSent);
    solo.connection
        .on_icmp(IcmpError::PortUnreachable, SeqNumber(ISS));
    assert_eq!(solo.connection.take_error(), Some(Error::Refused));
}

// Requirement: RFC 1191 3-2, 3-3
#[test]
fn rfc1191_a_router_cannot_make_packets_larger_nor_tiny() {
    let mut solo = Solo::established();
    solo.write(&[0; 2000]);
    solo.poll();
    let first = SeqNumber(ISS.wrapping_add(1));
    let mut told = |mtu| {
        let error = IcmpError::PacketTooBig { mtu };
        solo.connection.on_icmp(error, first);
        solo.poll();
        solo.connection.info(solo.now).path_mtu
    };
    assert_eq!(told(9000), 1500);
    assert_eq!(told(1200), 1200);
    assert_eq!(told(1201), 1200);
    // `min_pmtu`
    assert_eq!(told(0), 552);
}

/// RFC 8201 §4: "A node must not reduce its estimate of the Path MTU below the IPv6 minimum link
/// MTU".
#[test]
fn over_ipv6_a_message_that_tells_of_less_than_1280_octets_is_none() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    let (config, path) = (Arc::new(Config::default()), Path::ipv6(1500));
    solo.connection = Conn::connect(solo.now, config, Options::default(), path, secrets(ISS));
    solo.poll();
    solo.receive(syn_ack(HeaderOptions {
        mss: Some(1440),
        ..HeaderOptions::default()
    }));
    solo.poll();
    solo.write(&[0; 2000]);
    solo.poll();
    let first = SeqNumber(ISS.wrapping_add(1));
    for (mtu, path_mtu) in [
        (1279, 1500),
        (0, 1500),
        (1400, 1400),
        (1280, 1280),
        (1000, 1280),
    ] {
        let error = IcmpError::PacketTooBig { mtu };
        solo.connection.on_icmp(error, first);
        solo.poll();
        assert_eq!(solo.connection.info(solo.now).path_mtu, path_mtu, "{mtu}");
    }
}

// Requirement: RFC 9293 MUST-54, SHLD-6; RFC 1191 3-1, 6.4-1
#[test]
fn rfc1191_a_smaller_path_mtu_sends_again_in_smaller_segments() {
    let mut solo = Solo::established();
    solo.write(&[0; 2000]);
    assert_eq!(solo.poll().len(), 2);
    let mtu = 600;
    solo.connection.on_icmp(
        IcmpError::PacketTooBig { mtu },
        SeqNumber(ISS.wrapping_add(1)),
    );
    let sent = solo.poll();
    assert!(!sent.is_empty());
    assert!(
        sent.iter().all(|segment| segment.payload.len() <= 560),
        "{:?}",
        briefs(&sent)
    );
    assert_eq!(sent[0].seq(), 1);
}
