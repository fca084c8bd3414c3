//! Requirements of RFC 9293 that no other test is about. Which test holds which requirement is in
//! `docs/tcp-requirements.md`.

use super::harness::*;
use crate::{Config, Error, Event, Options, State};
use wire::tcp::{Flags, Options as HeaderOptions, Timestamps};

/// MUST-1: "The window size MUST be treated as an unsigned number".
// Requirement: RFC 9293 MUST-1
#[test]
fn must_1_a_window_beyond_the_sign_bit_is_large() {
    let mut solo = Solo::established();
    solo.window = 0xffff;
    solo.receive(ack(1, 1));
    solo.write(&[0; 16_000]);
    // The initial congestion window of ten segments is what limits.
    assert_eq!(solo.poll().len(), 10);
    assert_eq!(solo.connection.info(solo.now).snd_wnd, 0xffff);

    // Scaled as far as can be: 2^30 less a little.
    let mut scaled = Solo::connecting(Config::default(), Options::default());
    scaled.poll();
    scaled.receive(syn_ack(HeaderOptions {
        window_scale: Some(14),
        ..HeaderOptions::default()
    }));
    scaled.receive(ack(1, 1));
    assert_eq!(scaled.connection.info(scaled.now).snd_wnd, 0xffff << 14);
}

/// MUST-11: "a TCP implementation MUST keep track of whether a connection has reached SYN-RECEIVED
/// state as the result of a passive OPEN or an active OPEN."
// Requirement: RFC 9293 MUST-11
#[test]
fn must_11_a_reset_in_syn_received_means_what_the_open_was() {
    let mut active = Solo::connecting(Config::default(), Options::default());
    active.poll();
    active.receive(Segment {
        flags: Flags::SYN,
        ..Segment::default()
    });
    active.poll();
    assert_eq!(active.state(), State::SynReceived);
    active.receive(rst(1));
    assert_eq!(active.connection.take_error(), Some(Error::Reset));

    let syn = wire::tcp::Header {
        seq: IRS,
        flags: Flags::SYN,
        window: 1000,
        ..wire::tcp::Header::default()
    };
    let mut passive = Solo::accepting(Config::default(), &syn);
    passive.poll();
    passive.receive(rst(1));
    assert_eq!(passive.connection.take_error(), None);
    assert_eq!(passive.events(), [Event::Closed]);
}

/// MUST-15: "If an MSS Option is not received at connection setup, TCP implementations MUST assume
/// a default send MSS of 536".
// Requirement: RFC 9293 MUST-15
#[test]
fn must_15_without_the_option_segments_have_536_octets() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.poll();
    solo.receive(syn_ack(HeaderOptions::default()));
    solo.poll();
    solo.write(&[0; 2000]);
    assert_eq!(solo.poll_one_len_of_first(), 536);
}

/// MUST-16: "The maximum size of a segment that a TCP endpoint really sends, the 'effective send
/// MSS', MUST be the smaller of the send MSS [...] and the largest transmission size permitted by
/// the IP layer", less the options in each segment.
// Requirement: RFC 9293 MUST-16
#[test]
fn must_16_segments_fit_the_peer_the_path_and_their_options() {
    for (announced, has_timestamps, expected) in [
        (1000, false, 1000),
        (1000, true, 988),
        (9000, false, 1460),
        (9000, true, 1448),
    ] {
        let mut solo = Solo::connecting(Config::default(), Options::default());
        let syn = solo.poll_one();
        solo.timestamps = has_timestamps.then(|| Timestamps {
            value: 1,
            echo: syn.options.timestamps.unwrap().value,
        });
        solo.receive(syn_ack(HeaderOptions {
            mss: Some(announced),
            ..HeaderOptions::default()
        }));
        solo.poll();
        solo.write(&[0; 3000]);
        assert_eq!(solo.poll_one_len_of_first(), expected);
    }
}

/// MUST-34: "A sending TCP peer MUST be robust against window shrinking".
// Requirement: RFC 9293 MUST-34, MUST-35, SHLD-15, SHLD-16, SHLD-17
#[test]
fn must_34_a_window_that_is_taken_back_stops_new_data_only() {
    let mut solo = Solo::established();
    solo.window = 5000;
    solo.receive(ack(1, 1));
    solo.write(&[0; 8000]);
    assert_eq!(solo.poll().len(), 5);
    // All but one segment of it is taken back.
    solo.window = 0;
    solo.receive(ack(1, 1001));
    solo.assert_silent();
    // What was sent beyond the edge is not lost: it is acknowledged, or sent again when its time
    // comes.
    solo.window = 1000;
    solo.receive(ack(1, 5001));
    let sent = solo.poll_one();
    assert_eq!(sent.brief().0, 5001);
    assert_eq!(sent.payload.len(), 1000);

    let mut silent = Solo::established();
    silent.window = 3000;
    silent.receive(ack(1, 1));
    silent.write(&[0; 3000]);
    assert_eq!(silent.poll().len(), 3);
    silent.window = 0;
    silent.receive(ack(1, 1001));
    let again = silent.advance(ms(5000));
    assert!(!again.is_empty());
    // SHLD-16: of what is outstanding only the first segment knocks at the closed window.
    assert!(again.iter().all(|sent| sent.seq() == 1001), "{again:?}");
    assert_eq!(silent.state(), State::Established);
}

/// MUST-37: "As long as the receiving TCP peer continues to send acknowledgments in response to the
/// probe segments, the sending TCP peer MUST allow the connection to stay open."
// Requirement: RFC 9293 MUST-37
#[test]
fn must_37_a_window_may_stay_closed_while_probes_are_answered() {
    let mut solo = Solo::established();
    solo.block();
    let start = solo.now;
    let mut probes = 0;
    while solo.now - start < std::time::Duration::from_secs(24 * 3600) {
        solo.skip_to_timer();
        assert_eq!(solo.poll_one().payload.len(), 0);
        solo.receive(ack(1, 1));
        solo.assert_silent();
        probes += 1;
    }
    // Two minutes apart after the first few.
    assert!((700..760).contains(&probes), "{probes}");
    solo.window = 1000;
    solo.receive(ack(1, 1));
    assert_eq!(solo.poll_one().payload, b"data");
}

/// MUST-59: "a TCP endpoint MUST process all queued segments before sending any ACK".
// Requirement: RFC 9293 MUST-58, MUST-59; RFC 5681 4.2-4
#[test]
fn must_59_segments_that_came_together_get_one_acknowledgement() {
    let mut solo = Solo::established();
    for index in 0..6 {
        solo.receive(data(1 + index * 1000, 1, &[0; 1000]));
    }
    assert_eq!(solo.poll_one().ack(), 6001);
}

/// MUST-60, MUST-61: "A TCP endpoint MUST NOT buffer data indefinitely", "and MUST set the PSH bit
/// in the last buffered segment".
// Requirement: RFC 9293 MUST-61, SHLD-27, SHLD-28
#[test]
fn must_61_the_last_segment_is_pushed() {
    let mut solo = Solo::established();
    solo.write(&[0; 2500]);
    let sent = solo.poll();
    let pushed: Vec<_> = sent
        .iter()
        .map(|segment| segment.flags.contains(Flags::PSH))
        .collect();
    assert_eq!(pushed, [false, false, true]);
}

/// MUST-62: the urgent pointer points behind the urgent data. MUST-31: which may be as long as one
/// likes.
// Requirement: RFC 9293 MUST-31, MUST-62
#[test]
fn must_62_the_pointer_is_behind_urgent_data_of_any_length() {
    let mut solo = Solo::established();
    let count = solo.connection.write_urgent(solo.now, &[0; 5000]);
    assert_eq!(count, Ok(5000));
    let sent = solo.poll();
    let pointed: Vec<_> = sent
        .iter()
        .map(|segment| segment.seq() + u32::from(segment.urgent))
        .collect();
    assert_eq!(pointed, [5001; 5]);
    assert!(
        sent.iter()
            .all(|segment| segment.flags.contains(Flags::URG))
    );
}

/// MUST-65: "The MSS Option [...] MUST NOT be sent" on segments without SYN; nor are the other
/// options of the handshake.
// Requirement: RFC 9293 MUST-65; RFC 7323 2.2-1; RFC 2018 2-1
#[test]
fn must_65_only_syns_carry_options_of_the_handshake() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    assert!(solo.poll_one().options.mss.is_some());
    solo.receive(syn_ack(HeaderOptions {
        mss: Some(1000),
        window_scale: Some(7),
        sack_permitted: true,
        ..HeaderOptions::default()
    }));
    solo.write(&[0; 2500]);
    solo.connection.shutdown(solo.now, crate::Shutdown::Write);
    let sent = solo.poll();
    assert!(sent.len() >= 3);
    for segment in sent {
        assert_eq!(segment.options.mss, None);
        assert_eq!(segment.options.window_scale, None);
        assert!(!segment.options.sack_permitted);
    }
}

/// MUST-66: "A TCP receiver MUST process the RST and URG fields of all incoming segments, even when
/// the receive window is zero".
// Requirement: RFC 9293 MUST-66
#[test]
fn must_66_a_closed_window_still_hears_resets_acknowledgements_and_urgency() {
    let closed = || {
        let mut solo = Solo::established();
        let (mut seq, mut window) = (1, u32::from(u16::MAX));
        while window > 0 {
            let len = window.min(1000);
            solo.receive(data(seq, 1, &vec![0; len as usize]));
            seq += len;
            let mut sent = solo.poll();
            sent.extend(solo.advance(ms(500)));
            window = sent.last().map_or(window, |sent| u32::from(sent.window));
        }
        solo.events();
        (solo, seq)
    };
    let (mut solo, seq) = closed();
    solo.receive(rst(seq));
    assert_eq!(solo.connection.take_error(), Some(Error::Reset));

    let (mut solo, seq) = closed();
    solo.receive(urgent(seq, 10, b""));
    assert_eq!(solo.events(), [Event::Urgent]);

    let (mut solo, seq) = closed();
    solo.write(b"data");
    solo.poll();
    solo.receive(ack(seq, 5));
    assert_eq!(solo.connection.unacknowledged_len(), 0);
}

impl Solo {
    /// The payload of the first segment that is sent now.
    fn poll_one_len_of_first(&mut self) -> usize {
        self.poll().first().expect("a segment").payload.len()
    }
}
