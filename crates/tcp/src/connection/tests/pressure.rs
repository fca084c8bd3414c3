//! An owner that is short of memory, and a peer that has thrown data away.

use wire::tcp::{Flags, Options as HeaderOptions};

use super::harness::*;
use crate::{Config, Event, Options, SocketOption, State};

/// A payload as it lies in a frame of a device, with unused memory behind it.
fn framed(octets: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(FRAME);
    payload.extend(octets);
    payload
}

const FRAME: usize = 2048;

fn arrive(solo: &mut Solo, seq: u32, octets: &[u8]) {
    solo.receive(Segment {
        payload: framed(octets),
        ..ack(seq, 1)
    });
}

#[test]
fn the_window_does_not_grow_while_memory_is_short_and_is_not_taken_back() {
    let mut solo = Solo::established();
    let window_end = |solo: &mut Solo, seq: u32| -> u32 {
        let sent = solo.poll_one();
        assert_eq!(sent.ack(), seq);
        seq + (u32::from(sent.window) << solo.connection.receiver.window.scale())
    };
    let mut seq = 1;
    let mut ends = Vec::new();
    for is_short in [false, true, false] {
        for _ in 0..100 {
            for _ in 0..2 {
                arrive(&mut solo, seq, &[7; 1000]);
                seq += 1000;
                if is_short {
                    assert_eq!(solo.connection.relieve(0), 0);
                }
                solo.read();
            }
            ends.push(window_end(&mut solo, seq));
        }
        assert!(ends.is_sorted(), "window was taken back");
        let offered = ends.last().unwrap() - seq;
        // Four segments of ours, which are larger than the peer's, and what rounding to the scale
        // adds.
        assert_eq!(offered < 4 * 1460 + 256, is_short, "{offered}");
    }
}

#[test]
fn memory_that_is_short_during_the_handshake_leaves_the_first_window() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.poll();
    solo.connection.relieve(usize::MAX);
    solo.receive(syn_ack(HeaderOptions::default()));
    solo.connection.relieve(0);
    assert!(solo.poll_one().window > 2 * 536);
    arrive(&mut solo, 1, &[7; 536]);
    assert_eq!(solo.read(), [7; 536]);
}

#[test]
fn data_out_of_order_is_given_back_the_furthest_first() {
    let mut solo = Solo::established();
    for seq in [2001, 4001, 5001, 7001] {
        arrive(&mut solo, seq, &[7; 1000]);
    }
    solo.poll();
    assert_eq!(solo.connection.received_footprint(), 4 * FRAME);
    // The second and the third share a frame, so that one more has to go.
    assert_eq!(solo.connection.relieve(FRAME + 1), 2 * FRAME);
    assert_eq!(solo.connection.received_footprint(), 2 * FRAME);
    arrive(&mut solo, 2001, &[7; 1000]);
    // The first block says that it came twice (RFC 2883).
    let blocks = solo.poll_one().sack();
    assert_eq!(blocks, [(2001, 3001), (2001, 3001), (4001, 6001)]);
    // All of it, if that is not enough.
    assert_eq!(solo.connection.relieve(usize::MAX), 2 * FRAME);
    assert_eq!(solo.connection.received_footprint(), 0);
    for seq in (1..8001).step_by(1000) {
        arrive(&mut solo, seq, &[7; 1000]);
    }
    assert_eq!(solo.read(), [7; 8000]);
}

#[test]
fn unread_data_shares_frames_and_is_never_given_back() {
    let mut solo = Solo::established();
    let mut expected = Vec::new();
    for number in 0..20u8 {
        arrive(&mut solo, 1 + u32::from(number) * 100, &[number; 100]);
        expected.extend([number; 100]);
    }
    assert_eq!(solo.connection.relieve(0), 0);
    assert_eq!(solo.connection.received_footprint(), 20 * FRAME);
    assert_eq!(solo.connection.relieve(10 * FRAME), 10 * FRAME);
    assert_eq!(solo.connection.relieve(usize::MAX), 9 * FRAME);
    assert_eq!(solo.connection.received_footprint(), FRAME);
    assert_eq!(solo.connection.relieve(usize::MAX), 0);
    solo.connection.check_invariants();
    assert_eq!(solo.read(), expected);
}

#[test]
fn a_fin_behind_data_that_was_given_back_counts_when_that_has_come_again() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        flags: Flags::ACK | Flags::FIN,
        payload: framed(&[7; 1000]),
        ..ack(1001, 1)
    });
    assert_eq!(solo.connection.relieve(usize::MAX), FRAME);
    arrive(&mut solo, 1, &[7; 1000]);
    assert_eq!(solo.state(), State::Established);
    arrive(&mut solo, 1001, &[7; 1000]);
    assert_eq!(solo.state(), State::CloseWait);
    assert_eq!(solo.read(), [7; 2000]);
}

#[test]
fn a_send_buffer_is_reduced_unless_the_application_chose_it() {
    let mut solo = Solo::established();
    let room = |solo: &mut Solo| {
        let data = vec![0; 10 << 20];
        solo.connection.write(solo.now, &data).unwrap_or(0)
    };
    let first = room(&mut solo);
    solo.connection.relieve(0);
    assert_eq!(room(&mut solo), 0, "more than half is queued");
    let sent = solo.poll().len();
    solo.now = solo.now + ms(20);
    let acked = u32::try_from(sent * 1000).unwrap();
    solo.receive(ack(1, 1 + acked));
    assert!(room(&mut solo) + first > 20_000, "the buffer grows again");

    let mut solo = Solo::established();
    solo.set(SocketOption::SendBuffer(100_000));
    assert_eq!(room(&mut solo), 100_000);
    solo.connection.relieve(usize::MAX);
    solo.poll();
    solo.receive(ack(1, 10_001));
    assert_eq!(room(&mut solo), 10_000);
}

/// Who waits for room by `POLLOUT` was refused none.
#[test]
fn who_waits_for_room_of_a_reduced_buffer_is_told_of_it() {
    let mut solo = Solo::established();
    let data = vec![0; 4000];
    assert_eq!(solo.connection.write(solo.now, &data), Ok(4000));
    let sent = solo.poll().len();
    assert!(solo.connection.is_writable());
    solo.events();
    solo.connection.relieve(0);
    assert!(!solo.connection.is_writable());
    assert_eq!(solo.events(), []);
    solo.now = solo.now + ms(20);
    solo.receive(ack(1, 4001));
    assert!(sent > 0 && solo.connection.is_writable());
    assert_eq!(solo.events(), [Event::Writable]);
}

#[test]
fn rfc2018_section8_what_the_peer_threw_away_is_sent_again_soon() {
    let mut solo = Solo::with_in_flight(4);
    // The first is lost, and retransmitted as others arrive.
    for right in [2001, 3001, 4001] {
        solo.receive(sack(1, &[(1001, right)]));
    }
    assert_eq!(solo.poll_one().seq(), 1);
    solo.now = solo.now + ms(20);
    // It arrives; the peer has none of the others any more.
    solo.receive(ack(1, 1001));
    solo.assert_silent();
    let timeout = solo.skip_to_timer();
    assert!(timeout <= ms(20), "{timeout:?}");
    let sent = solo.poll();
    assert_eq!(sent[0].seq(), 1001);
    solo.now = solo.now + ms(20);
    solo.receive(ack(1, 2001));
    let again: Vec<u32> = solo.poll().iter().map(Sent::seq).collect();
    assert_eq!(again, [2001, 3001]);
}
