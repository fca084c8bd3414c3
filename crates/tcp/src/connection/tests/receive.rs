//! What is received, acknowledged and read: RFC 9293 §3.8.6; RFC 5681 §4.2; RFC 2018; RFC 2883; and
//! what Linux adds.

use super::harness::*;
use crate::{Config, Ecn, Event, Options, ReadError, SocketOption, State};
use wire::tcp::Flags;

#[test]
fn received_data_is_read_in_order_and_the_first_segments_are_acknowledged_at_once() {
    let mut solo = Solo::established();
    solo.receive(data(1, 1, b"hello "));
    assert_eq!(solo.events(), [Event::Readable]);
    assert_eq!(solo.poll_one().brief(), (1, 0, ACK));
    solo.receive(data(7, 1, b"world"));
    assert_eq!(solo.read(), b"hello world");
    assert_eq!(
        solo.connection.read(solo.now, &mut [0; 4]),
        Err(ReadError::WouldBlock)
    );
    assert_eq!(solo.poll_one().ack(), 12);
}

/// Leaves the quick acknowledgements of the beginning behind; returns the next sequence number.
fn warm_up(solo: &mut Solo) -> u32 {
    let mut seq = 1;
    for _ in 0..20 {
        solo.receive(data(seq, 1, &[0; 1000]));
        solo.read();
        solo.poll();
        seq += 1000;
    }
    solo.advance(ms(60));
    solo.poll();
    seq
}

// Requirement: RFC 9293 SHLD-18, SHLD-19; RFC 5681 4.2-2
#[test]
fn rfc5681_section4_2_every_second_full_segment_is_acknowledged_and_others_after_a_delay() {
    let mut solo = Solo::established();
    let seq = warm_up(&mut solo);
    solo.receive(data(seq, 1, &[0; 1000]));
    solo.read();
    solo.assert_silent();
    solo.receive(data(seq + 1000, 1, &[0; 1000]));
    solo.read();
    assert_eq!(solo.poll_one().ack(), seq + 2000);
    solo.receive(data(seq + 2000, 1, &[0; 1000]));
    solo.read();
    solo.assert_silent();
    let delay = solo.skip_to_timer();
    assert!(ms(20) <= delay && delay <= ms(200), "{delay:?}");
    assert_eq!(solo.poll_one().ack(), seq + 3000);
}

// Requirement: RFC 9293 MUST-58
#[test]
fn an_acknowledgement_rides_on_data() {
    let mut solo = Solo::established();
    let seq = warm_up(&mut solo);
    solo.receive(data(seq, 1, b"request"));
    solo.read();
    solo.assert_silent();
    solo.write(b"reply");
    let sent = solo.poll_one();
    assert_eq!(
        (sent.payload.as_slice(), sent.ack()),
        (&b"reply"[..], seq + 7)
    );
    solo.receive(ack(seq + 7, 6));
    assert_eq!(solo.connection.poll_timeout(), None);
}

#[test]
fn quickack_acknowledges_at_once() {
    let mut solo = Solo::established();
    let seq = warm_up(&mut solo);
    solo.receive(data(seq, 1, &[0; 10]));
    solo.assert_silent();
    solo.set(SocketOption::QuickAck(true));
    assert_eq!(solo.poll_one().ack(), seq + 10);
}

// Requirement: RFC 9293 SHLD-31; RFC 2018 3-1, 4-1; RFC 5681 4.2-3
#[test]
fn rfc5681_section4_2_each_segment_behind_a_gap_gives_a_duplicate_with_sack() {
    let mut solo = Solo::established();
    solo.receive(data(1, 1, &[1; 100]));
    solo.poll();
    solo.receive(data(201, 1, &[3; 100]));
    solo.receive(data(401, 1, &[5; 100]));
    let sent = solo.poll();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|segment| segment.ack() == 101));
    assert_eq!(sent[0].sack(), [(401, 501), (201, 301)]);
    solo.receive(data(101, 1, &[2; 100]));
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.sack()), (301, vec![(401, 501)]));
    solo.receive(data(301, 1, &[4; 100]));
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.sack()), (501, vec![]));
    let read = solo.read();
    let expected: Vec<u8> = (1..=5).flat_map(|value| [value; 100]).collect();
    assert_eq!(read, expected);
}

/// It has a sequence number: without it the peer would not learn that its last segment has arrived.
#[test]
fn rfc2018_section3_a_fin_behind_a_gap_is_reported() {
    let mut solo = Solo::established();
    let mut last = data(101, 1, &[2; 100]);
    last.flags |= Flags::FIN;
    solo.receive(last);
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.sack()), (1, vec![(101, 202)]));
    solo.receive(data(1, 1, &[1; 100]));
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.sack()), (202, vec![]));
    assert_eq!(solo.state(), State::CloseWait);

    // Alone
    let mut solo = Solo::established();
    solo.receive(fin(101, 1));
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.sack()), (1, vec![(101, 102)]));
    solo.receive(data(1, 1, &[1; 100]));
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.sack()), (102, vec![]));
}

// Requirement: RFC 2883 4-2
#[test]
fn rfc2883_what_came_twice_is_reported() {
    let mut solo = Solo::established();
    solo.receive(data(1, 1, &[1; 100]));
    solo.poll();
    solo.receive(data(1, 1, &[1; 100]));
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.sack()), (101, vec![(1, 101)]));
    solo.receive(data(51, 1, &[1; 100]));
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.sack()), (151, vec![(51, 101)]));
}

// Requirement: RFC 9293 MUST-39
#[test]
fn the_window_closes_as_data_waits_and_opens_when_it_is_read() {
    let mut solo = Solo::established();
    let mut seq = 1;
    let mut window = u32::from(u16::MAX);
    while window > 0 {
        let len = window.min(1000);
        solo.receive(data(seq, 1, &vec![0; len as usize]));
        seq += len;
        let sent = solo.advance(ms(500));
        for segment in solo.poll().iter().chain(&sent) {
            window = u32::from(segment.window);
        }
    }
    // RFC 9293 §3.8.6: a segment beyond the window is answered and not taken.
    let waiting = solo.connection.readable_len();
    solo.receive(data(seq, 1, b"probe"));
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.window), (seq, 0));
    assert_eq!(solo.connection.readable_len(), waiting);
    // RFC 9293 §3.8.6.2.2: no update for little room.
    let mut buffer = [0; 100];
    solo.connection.read(solo.now, &mut buffer).unwrap();
    solo.assert_silent();
    assert_eq!(solo.read().len(), waiting - 100);
    let sent = solo.poll_one();
    assert!(sent.window > 30_000, "{}", sent.window);
}

#[test]
fn peeking_and_skipping_stop_where_reading_does() {
    let mut solo = Solo::established();
    solo.receive(urgent(1, 3, b"abXcd"));
    let peek = |solo: &Solo| solo.connection.peek().collect::<Vec<_>>().concat();
    assert_eq!(solo.connection.readable_len(), 2);
    assert_eq!(peek(&solo), b"ab");
    assert_eq!(solo.connection.skip(solo.now, 9), 2);
    assert_eq!(solo.connection.readable_len(), 0);
    assert_eq!(peek(&solo), b"cd");
    assert_eq!(solo.connection.skip(solo.now, 1), 1);
    assert_eq!(
        (solo.connection.readable_len(), peek(&solo)),
        (1, b"d".to_vec())
    );
}

#[test]
fn the_receive_buffer_grows_with_what_is_read() {
    let mut pair = Pair::established();
    let now = pair.now;
    let before = pair.host(1).info(now).rcv_wnd;
    pair.transfer(0, 10_000_000);
    let now = pair.now;
    let after = pair.host(1).info(now).rcv_wnd;
    assert!(after > before * 4, "{before} {after}");
}

#[test]
fn received_data_can_be_taken_as_it_is() {
    let mut solo = Solo::established();
    solo.receive(data(1, 1, b"first"));
    solo.receive(data(6, 1, b"second"));
    let peeked: Vec<u8> = solo.connection.peek().flatten().copied().collect();
    assert_eq!(peeked, b"firstsecond");
    assert_eq!(solo.connection.skip(solo.now, 2), 2);
    assert_eq!(
        solo.connection.read_payload(solo.now),
        Ok(Some(b"rst".to_vec()))
    );
    assert_eq!(
        solo.connection.read_payload(solo.now),
        Ok(Some(b"second".to_vec()))
    );
    assert_eq!(
        solo.connection.read_payload(solo.now),
        Err(ReadError::WouldBlock)
    );
}

#[test]
fn so_rcvlowat_holds_back_readiness() {
    let mut solo = Solo::established();
    solo.set(SocketOption::ReceiveLowWater(100));
    solo.receive(data(1, 1, &[0; 99]));
    assert!(solo.events().is_empty() && !solo.connection.is_readable());
    solo.receive(data(100, 1, &[0; 1]));
    assert_eq!(solo.events(), [Event::Readable]);
    assert!(solo.connection.is_readable());
}

#[test]
fn so_rcvlowat_that_is_lowered_wakes() {
    let mut solo = Solo::established();
    solo.set(SocketOption::ReceiveLowWater(100));
    solo.receive(data(1, 1, &[0; 50]));
    assert!(solo.events().is_empty());
    solo.set(SocketOption::ReceiveLowWater(50));
    assert_eq!(solo.events(), [Event::Readable]);
}

/// `tcp_epollin_ready`: the peer cannot send what is waited for.
#[test]
fn so_rcvlowat_of_more_than_has_room_does_not_wait_for_ever() {
    let mut options = Options::default();
    options.set(SocketOption::ReceiveBuffer(20_000)).unwrap();
    let mut solo = Solo::established_with(Config::default(), options);
    solo.set(SocketOption::ReceiveLowWater(1_000_000));
    let (mut seq, mut edge) = (1, 1 + solo.connection.info(solo.now).rcv_wnd);
    while edge - seq >= 1000 {
        assert!(solo.events().is_empty() && !solo.connection.is_readable());
        solo.receive(data(seq, 1, &[0; 1000]));
        seq += 1000;
        for sent in solo.advance(ms(500)) {
            edge = sent.ack() + u32::from(sent.window);
        }
    }
    // What fits is sent when the sender's patience is over.
    solo.receive(data(seq, 1, &vec![0; (edge - seq) as usize]));
    assert!(solo.connection.is_readable());
    assert_eq!(solo.events(), [Event::Readable]);
}

#[test]
fn many_small_segments_share_memory_and_do_not_exceed_it() {
    let mut solo = Solo::established();
    // Each handle keeps what a frame has, as a device's would.
    for index in 0..60_000u32 {
        let mut payload = Vec::with_capacity(2048);
        payload.push(1);
        let header = wire::tcp::Header {
            seq: IRS.wrapping_add(1 + index),
            ack: ISS.wrapping_add(1),
            flags: ACK,
            window: 65_535,
            ..wire::tcp::Header::default()
        };
        solo.connection
            .on_segment(solo.now, &header, Ecn::NotEct, Some(payload));
        solo.poll();
    }
    assert_eq!(solo.connection.readable_len(), 60_000);
    let frames = solo.connection.peek().count();
    assert!(frames < 200, "{frames}");
}

#[test]
fn an_acknowledgement_of_data_in_order_may_stand_for_more() {
    let mut solo = Solo::established();
    assert!(!solo.connection.has_plain_ack_to_send());
    solo.receive(data(1, 1, &[0; 1000]));
    assert!(solo.connection.has_plain_ack_to_send());
    solo.receive(data(1001, 1, &[0; 1000]));
    assert!(solo.connection.has_plain_ack_to_send());
    assert_eq!(solo.poll_one().ack(), 2001);
    // Each segment behind a gap has its own, and so has that which fills it.
    solo.receive(data(3001, 1, &[0; 1000]));
    assert!(!solo.connection.has_plain_ack_to_send());
    solo.receive(data(2001, 1, &[0; 1000]));
    assert!(!solo.connection.has_plain_ack_to_send());
    assert_eq!(solo.poll().len(), 2);
    // Data carries it.
    solo.receive(data(4001, 1, &[0; 1000]));
    solo.write(b"x");
    assert!(!solo.connection.has_plain_ack_to_send());
}

/// As Linux (`tcp_measure_rcv_mss`): segments that were merged on the way are several.
#[test]
fn merged_segments_are_acknowledged_at_once() {
    let mut solo = Solo::established();
    for number in 0..50 {
        solo.receive(data(1 + number * 4000, 1, &[0; 4000]));
        assert_eq!(solo.poll_one().ack(), 4001 + number * 4000);
        solo.read();
        solo.poll();
    }
}
