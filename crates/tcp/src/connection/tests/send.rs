//! What is sent, and when: RFC 9293 §3.7.4, §3.8.6; RFC 6928; devices that segment, pacing, and
//! what Linux adds.

use std::time::Duration;

use super::harness::*;
use crate::congestion::Congestion;
use crate::{Config, CongestionAlgorithm, Error, Event, Options, SocketOption, State, WriteError};

#[test]
fn data_is_cut_into_segments_and_pushed_at_the_end() {
    let mut solo = Solo::established();
    solo.write(&[7; 2500]);
    let sent = solo.poll();
    assert_eq!(
        briefs(&sent),
        [(1, 1000, ACK), (1001, 1000, ACK), (2001, 500, PSH_ACK)]
    );
    assert!(
        sent.iter()
            .all(|segment| segment.payload.iter().all(|octet| *octet == 7))
    );
    assert_eq!(solo.connection.unacknowledged_len(), 2500);
    solo.receive(ack(1, 2501));
    assert_eq!(solo.connection.unacknowledged_len(), 0);
    solo.assert_silent();
    assert_eq!(solo.connection.poll_timeout(), None);
}

/// As with Linux: `mss_clamp` is fixed by the SYN.
#[test]
fn tcp_maxseg_of_an_open_connection_changes_nothing() {
    let mut solo = Solo::established();
    solo.set(SocketOption::MaxSegment(500));
    solo.write(&[0; 1000]);
    assert_eq!(solo.poll_one().brief(), (1, 1000, PSH_ACK));
    let mut options = Options::default();
    options.set(SocketOption::MaxSegment(500)).unwrap();
    let mut solo = Solo::established_with(Config::default(), options);
    solo.write(&[0; 1000]);
    assert_eq!(solo.poll().len(), 2);
}

// Requirement: RFC 6928 2-1
#[test]
fn rfc6928_the_initial_window_is_ten_segments() {
    let mut solo = Solo::established();
    solo.write(&[0; 16_000]);
    assert_eq!(solo.poll().len(), 10);
    solo.receive(ack(1, 2001));
    // Slow start: each acknowledged segment lets two go.
    assert_eq!(solo.poll().len(), 4);
}

#[test]
fn with_nothing_in_flight_one_segment_may_go_however_small_the_window_is() {
    let mut solo = Solo::established();
    // A window that was left by the reduction of a flight of small segments.
    let algorithm = CongestionAlgorithm::NewReno;
    solo.connection.cold.recovery.congestion = Congestion::new(algorithm, 50, 10);
    solo.write(&[0; 2000]);
    assert_eq!(briefs(&solo.poll()), [(1, 1000, ACK)]);
    solo.receive(ack(1, 1001));
    assert_eq!(briefs(&solo.poll()), [(1001, 1000, PSH_ACK)]);
}

// Requirement: RFC 9293 MUST-17, SHLD-7
#[test]
fn rfc9293_3_7_4_nagle_holds_a_small_segment_while_one_is_outstanding() {
    let mut solo = Solo::established();
    solo.write(b"a");
    assert_eq!(solo.poll_one().brief(), (1, 1, PSH_ACK));
    solo.write(b"b");
    solo.write(b"c");
    solo.assert_silent();
    solo.receive(ack(1, 2));
    assert_eq!(solo.poll_one().brief(), (2, 2, PSH_ACK));
    solo.write(b"d");
    solo.assert_silent();
    solo.set(SocketOption::NoDelay(true));
    assert_eq!(solo.poll_one().brief(), (4, 1, PSH_ACK));
}

/// As `tcp_nagle_test`.
#[test]
fn nagle_does_not_hold_urgent_data() {
    let mut solo = Solo::established();
    solo.write(b"a");
    solo.poll();
    assert_eq!(solo.connection.write_urgent(solo.now, b"b"), Ok(1));
    assert_eq!(solo.poll_one().payload, b"b");
}

#[test]
fn minshall_full_segments_do_not_hold_back_a_small_one() {
    let mut solo = Solo::established();
    solo.write(&[0; 1500]);
    assert_eq!(briefs(&solo.poll()), [(1, 1000, ACK), (1001, 500, PSH_ACK)]);
}

// Requirement: RFC 9293 MUST-60
#[test]
fn cork_sends_full_segments_only_for_up_to_200_ms() {
    let mut solo = Solo::established();
    solo.set(SocketOption::Cork(true));
    solo.write(&[0; 1200]);
    assert_eq!(solo.poll_one().brief(), (1, 1000, ACK));
    solo.receive(ack(1, 1001));
    solo.assert_silent();
    assert_eq!(solo.skip_to_timer(), ms(200));
    assert_eq!(solo.poll_one().brief(), (1001, 200, PSH_ACK));
    solo.receive(ack(1, 1201));
    solo.write(b"more");
    solo.assert_silent();
    solo.set(SocketOption::Cork(false));
    assert_eq!(solo.poll_one().payload, b"more");
}

#[test]
fn msg_more_waits_for_the_rest() {
    let mut solo = Solo::established();
    assert_eq!(solo.connection.write_more(solo.now, b"head"), Ok(4));
    solo.assert_silent();
    solo.write(b"body");
    assert_eq!(solo.poll_one().payload, b"headbody");
}

#[test]
fn a_chunk_is_written_as_its_octets_are() {
    let mut solo = Solo::established();
    let now = solo.now;
    let room = solo.connection.room_to_write().unwrap();
    // A short one is copied.
    let mut chunk = b"head".to_vec();
    assert_eq!(solo.connection.write_chunk(now, &mut chunk, true), Ok(4));
    assert_eq!(chunk, b"head");
    solo.assert_silent();
    let mut body = vec![7; crate::CHUNK_MAX.min(room - 4)];
    let len = body.len();
    assert_eq!(solo.connection.write_chunk(now, &mut body, false), Ok(len));
    assert!(body.is_empty());
    let first = solo.poll().remove(0);
    assert!(first.payload.starts_with(b"head\x07\x07"));
    // Of what has too little room a part is copied, and the rest is still there.
    let room = solo.connection.room_to_write().unwrap_or(0);
    let mut rest = vec![8; room + 100];
    let written = solo.connection.write_chunk(now, &mut rest, false);
    let expected = if room > 0 {
        Ok(room)
    } else {
        Err(WriteError::WouldBlock)
    };
    assert_eq!(written, expected);
    assert_eq!(rest.len(), room + 100);
    let refused = solo.connection.write_chunk(now, &mut rest, false);
    assert_eq!(refused, Err(WriteError::WouldBlock));
    let none = solo.connection.room_to_write();
    assert_eq!(none, Err(WriteError::WouldBlock));
    // What cannot stay where it came from is taken even so.
    let queued = solo.connection.unacknowledged_len();
    let whole = solo.connection.write_whole(now, &mut rest, false);
    assert_eq!(whole, Ok(room + 100));
    assert_eq!(solo.connection.unacknowledged_len(), queued + room + 100);
}

#[test]
fn a_write_takes_what_has_room_and_says_when_there_is_more() {
    let mut solo = Solo::established();
    let size = solo.connection.options().send_buffer as usize;
    assert_eq!(
        solo.connection.write(solo.now, &vec![0; size + 10]),
        Ok(size)
    );
    let more = solo.connection.write(solo.now, b"x");
    assert_eq!(more, Err(WriteError::WouldBlock));
    assert!(!solo.connection.is_writable());
    let mut acked = 1;
    while !solo.connection.is_writable() {
        let sent = solo.poll();
        let last = sent.last().expect("the window is open");
        acked = last.seq() + u32::try_from(last.payload.len()).unwrap();
        assert!(solo.events().is_empty());
        solo.receive(ack(1, acked));
    }
    assert!(acked as usize > size / 4);
    assert_eq!(solo.events(), [Event::Writable]);
}

/// As Linux's, whose congestion window has segments.
#[test]
fn many_small_segments_in_flight_make_as_much_room_as_large_ones() {
    let mut solo = Solo::established();
    solo.set(SocketOption::NoDelay(true));
    let before = solo.connection.options().send_buffer;
    for _ in 0..100 {
        solo.write(&[0; 15]);
        assert_eq!(solo.poll().len(), 1);
    }
    solo.receive(ack(1, 1 + 15));
    let after = solo.connection.options().send_buffer;
    assert!(
        after >= 100 * 4 * 1000 && before < after / 4,
        "{before} {after}"
    );
}

/// `poll` says that there is no room; nothing was refused.
#[test]
fn who_waits_for_room_without_having_been_refused_any_is_told() {
    let mut solo = Solo::established();
    solo.set(SocketOption::NotSentLowWater(1000));
    solo.write(&[0; 10_000]);
    assert_eq!(solo.poll().len(), 10);
    solo.events();
    solo.write(&[0; 5000]);
    solo.poll();
    assert!(!solo.connection.is_writable());
    solo.receive(ack(1, 10_001));
    assert!(solo.events().is_empty());
    // There is room when it is sent, without another acknowledgement.
    assert_eq!(solo.poll().len(), 5);
    assert!(solo.connection.is_writable());
    assert_eq!(solo.events(), [Event::Writable]);
}

// Requirement: RFC 9293 MUST-36, SHLD-30
#[test]
fn rfc9293_3_8_6_1_a_closed_window_is_probed_with_growing_intervals() {
    let mut solo = Solo::established();
    solo.window = 1000;
    solo.write(&[0; 3000]);
    solo.receive(ack(1, 1));
    assert_eq!(solo.poll_one().brief(), (1, 1000, ACK));
    solo.window = 0;
    solo.receive(ack(1, 1001));
    solo.assert_silent();
    let mut last = Duration::ZERO;
    for _ in 0..5 {
        let delay = solo.skip_to_timer();
        assert!(delay >= last * 2 && delay >= ms(200), "{delay:?}");
        last = delay;
        assert_eq!(solo.poll_one().brief(), (1000, 0, ACK));
        solo.receive(ack(1, 1001));
        solo.assert_silent();
    }
    solo.window = 2000;
    solo.receive(ack(1, 1001));
    assert_eq!(solo.poll().len(), 2);
}

// Requirement: RFC 9293 MUST-38
#[test]
fn rfc9293_3_8_6_2_1_a_window_smaller_than_a_segment_waits_for_the_probe_timer() {
    let mut solo = Solo::established();
    solo.window = 300;
    solo.receive(ack(1, 1));
    solo.write(&[0; 1000]);
    solo.assert_silent();
    solo.skip_to_timer();
    assert_eq!(solo.poll_one().brief(), (1, 300, PSH_ACK));
}

#[test]
fn probes_without_an_answer_end_the_connection() {
    let mut solo = Solo::established();
    solo.block();
    let probes = solo.advance(Duration::from_secs(3600)).len();
    assert_eq!(probes, 15);
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
    assert_eq!(solo.state(), State::Closed);
}

#[test]
fn a_pacing_rate_spreads_segments_and_can_be_taken_back() {
    let mut solo = Solo::established();
    // 100 segments of 1000 octets a second: two at once, then one each 10 ms.
    solo.set(SocketOption::MaxPacingRate(100_000));
    solo.write(&[1; 10_000]);
    let first = solo.poll().len();
    assert!((2..=3).contains(&first), "{first}");
    solo.assert_silent();
    let start = solo.now;
    let mut sent = first;
    while sent < 6 {
        assert_eq!(solo.skip_to_timer(), ms(10));
        assert_eq!(solo.poll().len(), 1);
        sent += 1;
    }
    assert_eq!(solo.now - start, ms(10) * u32::try_from(6 - first).unwrap());
    solo.set(SocketOption::MaxPacingRate(u64::MAX));
    assert_eq!(solo.poll().len(), 4);
}

#[test]
fn a_device_that_segments_gets_pieces_of_whole_segments() {
    let mut solo = Solo::offloading();
    solo.set(SocketOption::SendBuffer(100_000));
    solo.write(&[0; 12_300]);
    // Ten segments are what the congestion window allows.
    assert_eq!(solo.poll_one().brief(), (1, 10_000, ACK));
    let info = solo.connection.info(solo.now);
    assert_eq!((info.unacked, info.octets_not_sent), (10, 2300));
    solo.receive(ack(1, 10_001));
    assert_eq!(solo.poll_one().brief(), (10_001, 2300, PSH_ACK));
    // Segments are lost one by one.
    solo.write(&[0; 10_000]);
    solo.poll();
    solo.now = solo.now + ms(20);
    for end in [14_301, 15_301, 16_301] {
        solo.receive(sack(12_301, &[(13_301, end)]));
    }
    let sent = solo.poll();
    assert_eq!(sent[0].brief(), (12_301, 1000, ACK));
}

#[test]
fn a_piece_ends_where_nagle_and_the_window_say() {
    let mut solo = Solo::offloading();
    solo.write(b"x");
    assert_eq!(solo.poll_one().payload.len(), 1);
    solo.write(&[0; 3500]);
    assert_eq!(solo.poll_one().brief(), (2, 3000, ACK));
    solo.window = 3999;
    solo.receive(ack(1, 3002));
    assert_eq!(solo.poll_one().payload.len(), 500);
    solo.receive(ack(1, 3502));
    solo.write(&[0; 8000]);
    assert_eq!(solo.poll_one().payload.len(), 3000);
}

/// As Linux (`tcp_tso_autosize`): a millisecond at the rate, but two segments.
#[test]
fn a_pacing_rate_bounds_a_piece() {
    for (rate, len) in [(5_000_000, 5000), (100_000, 2000), (u64::MAX, 10_000)] {
        let mut solo = Solo::offloading();
        solo.set(SocketOption::SendBuffer(100_000));
        solo.set(SocketOption::MaxPacingRate(rate));
        solo.write(&[0; 12_000]);
        assert_eq!(solo.poll()[0].payload.len(), len, "{rate}");
    }
}

#[test]
fn a_driver_with_two_ways_is_told_of_pieces() {
    let mut solo = Solo::established();
    solo.set(SocketOption::SendBuffer(100_000));
    solo.write(&[0; 1999]);
    assert!(!solo.connection.has_piece_to_send());
    solo.write(&[0; 1]);
    assert!(solo.connection.has_piece_to_send());
    solo.connection.set_max_offload_len(64_000);
    assert_eq!(solo.poll_one().brief(), (1, 2000, PSH_ACK));
    solo.write(&[0; 20_000]);
    assert!(solo.connection.has_piece_to_send());
    assert_eq!(solo.poll_one().brief(), (2001, 8000, ACK));
    // Neither window has room.
    assert!(!solo.connection.has_piece_to_send());
    solo.window = 8000;
    solo.receive(ack(1, 2001));
    assert!(!solo.connection.has_piece_to_send());
    solo.connection.set_max_offload_len(0);
    solo.window = 65_535;
    solo.receive(ack(1, 10_001));
    assert!(solo.poll().iter().all(|sent| sent.payload.len() == 1000));
}
