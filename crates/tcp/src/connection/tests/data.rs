//! Data in both directions: RFC 9293 §3.7.4, §3.8; RFC 5681; RFC 2018; Linux where these leave a choice.

use std::time::Duration;

use super::harness::*;
use crate::congestion::Congestion;
use crate::{
    Config, CongestionAlgorithm, Ecn, Error, Event, Options, ReadError, SocketOption, State,
    UrgentError, WriteError,
};
use wire::tcp::Flags;

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
    solo.connection.recovery.congestion = Congestion::new(algorithm, 50, 10);
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
    assert_eq!(solo.connection.write(solo.now, b"head", true), Ok(4));
    solo.assert_silent();
    solo.write(b"body");
    assert_eq!(solo.poll_one().payload, b"headbody");
}

#[test]
fn a_write_takes_what_has_room_and_says_when_there_is_more() {
    let mut solo = Solo::established();
    let size = solo.connection.options().send_buffer as usize;
    assert_eq!(
        solo.connection.write(solo.now, &vec![0; size + 10], false),
        Ok(size)
    );
    let more = solo.connection.write(solo.now, b"x", false);
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
    solo.window = 0;
    solo.receive(ack(1, 1));
    solo.write(b"data");
    solo.assert_silent();
    let probes = solo.advance(Duration::from_secs(3600)).len();
    assert_eq!(probes, 15);
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
    assert_eq!(solo.state(), State::Closed);
}

// Requirement: RFC 9293 MUST-20
#[test]
fn what_is_not_acknowledged_is_sent_again_until_retries2() {
    let mut solo = Solo::established();
    solo.write(b"data");
    solo.poll();
    let start = solo.now;
    let again = solo.advance(Duration::from_secs(3600));
    assert!(again.iter().all(|sent| sent.payload == b"data"));
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
    assert!(solo.events().contains(&Event::Failed));
    // 924.6 s as ip-sysctl.rst says, and the first timeout.
    let info = solo.connection.info(start);
    assert!(again.len() >= 15, "{} {info:?}", again.len());
}

// Requirement: RFC 9293 MUST-21; RFC 5482 3-1
#[test]
fn rfc5482_user_timeout_bounds_the_time_without_acknowledgement() {
    let mut solo = Solo::established();
    solo.set(SocketOption::UserTimeout(ms(5000)));
    solo.write(b"data");
    solo.poll();
    solo.advance(ms(4000));
    assert_eq!(solo.state(), State::Established);
    solo.advance(ms(15_000));
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
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

// Requirement: RFC 5681 3.2-1
#[test]
fn three_duplicates_send_the_first_segment_again_at_once() {
    let mut solo = Solo::established();
    solo.write(&[0; 10_000]);
    assert_eq!(solo.poll().len(), 10);
    solo.now = solo.now + ms(20);
    for end in [2001, 3001] {
        solo.receive(sack(1, &[(1001, end)]));
        let sent = solo.poll();
        assert!(sent.iter().all(|segment| segment.seq() > 1), "{sent:?}");
    }
    solo.receive(sack(1, &[(1001, 4001)]));
    let sent = solo.poll();
    assert_eq!(sent[0].brief(), (1, 1000, ACK));
    let info = solo.connection.info(solo.now);
    assert_eq!(info.total_retrans, 1);
    assert!(info.snd_ssthresh < 10);
}

#[test]
fn rfc8985_7_a_tail_loss_is_probed_before_the_timeout() {
    let mut solo = Solo::established();
    solo.write(&[0; 1000]);
    solo.poll();
    solo.now = solo.now + ms(20);
    solo.receive(ack(1, 1001));
    solo.write(&[0; 3000]);
    assert_eq!(solo.poll().len(), 3);
    let delay = solo.skip_to_timer();
    assert!(delay < ms(100), "{delay:?}");
    assert_eq!(solo.poll_one().seq(), 3001);
}

// Requirement: RFC 9293 MUST-30, MUST-33
#[test]
fn urgent_data_as_linux_has_it() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        flags: ACK | Flags::URG,
        urgent: 4,
        ..data(1, 1, b"abcXdef")
    });
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
    solo.receive(Segment {
        flags: ACK | Flags::URG,
        urgent: 4,
        ..data(1, 1, b"abcXdef")
    });
    assert_eq!(solo.connection.read_urgent(), Err(UrgentError::None));
    assert_eq!(solo.read(), b"abc");
    assert!(solo.connection.is_at_mark());
    assert_eq!(solo.read(), b"Xdef");
}

// Requirement: RFC 9293 MUST-32
#[test]
fn urgent_data_may_be_announced_before_it_comes() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        flags: ACK | Flags::URG,
        urgent: 3,
        ..ack(1, 1)
    });
    assert_eq!(solo.events(), [Event::Urgent]);
    assert_eq!(solo.connection.read_urgent(), Err(UrgentError::NotReceived));
    solo.receive(data(1, 1, b"abX"));
    assert_eq!(solo.connection.read_urgent(), Ok(b'X'));
}

#[test]
fn an_urgent_octet_alone_is_not_readable() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        flags: ACK | Flags::URG,
        urgent: 1,
        ..data(1, 1, b"X")
    });
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
fn peeking_and_skipping_stop_where_reading_does() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        flags: ACK | Flags::URG,
        urgent: 3,
        ..data(1, 1, b"abXcd")
    });
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
fn an_octet_that_is_not_urgent_any_more_and_was_not_passed_is_left_out() {
    let mut solo = Solo::established();
    let urgent = |seq, payload: &[u8], urgent| Segment {
        flags: ACK | Flags::URG,
        urgent,
        ..data(seq, 1, payload)
    };
    solo.receive(urgent(1, b"abX", 3));
    assert_eq!(solo.read(), b"ab");
    assert!(solo.connection.is_at_mark());
    solo.receive(urgent(4, b"cdY", 3));
    assert_eq!(solo.read(), b"cd");
    // One that was not reached is read like any other.
    solo.receive(urgent(7, b"eZ", 2));
    solo.receive(urgent(9, b"fU", 2));
    assert_eq!(solo.read(), b"eZf");
}

#[test]
fn an_urgent_octet_that_comes_after_its_announcement_wakes() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        flags: ACK | Flags::URG,
        urgent: 3,
        ..ack(1, 1)
    });
    assert_eq!(solo.events(), [Event::Urgent]);
    assert!(!solo.connection.has_urgent());
    // Behind a gap, so that nothing else can be read.
    solo.receive(data(3, 1, b"Xyz"));
    assert!(solo.connection.has_urgent());
    assert_eq!(solo.events(), [Event::Readable]);
}

// Requirement: RFC 3168 6.1.2-2, 6.1.3-1
#[test]
fn rfc3168_6_1_3_a_mark_is_echoed_until_the_window_is_reduced() {
    let config = Config {
        ecn: crate::EcnMode::On,
        ..Config::default()
    };
    let mut solo = Solo::connecting(config, Options::default());
    solo.poll();
    let mut answer = syn_ack(wire::tcp::Options {
        mss: Some(1000),
        ..wire::tcp::Options::default()
    });
    answer.flags |= Flags::ECE;
    solo.receive(answer);
    solo.poll();

    solo.receive_marked(data(1, 1, b"a"), Ecn::Ce);
    assert_eq!(solo.poll_one().flags, ACK | Flags::ECE);
    solo.receive_marked(data(2, 1, b"b"), Ecn::Ect0);
    assert_eq!(solo.poll_one().flags, ACK | Flags::ECE);
    let mut reduced = data(3, 1, b"c");
    reduced.flags |= Flags::CWR;
    solo.receive_marked(reduced, Ecn::Ect0);
    assert_eq!(solo.poll_one().flags, ACK);

    // The other way: an echo reduces the window once, and the next data says so.
    solo.write(&[0; 10_000]);
    let sent = solo.poll();
    assert!(sent.iter().all(|segment| segment.ecn == Ecn::Ect0));
    let before = solo.connection.info(solo.now).snd_cwnd;
    for number in [1001, 2001] {
        let mut echo = ack(4, number);
        echo.flags |= Flags::ECE;
        solo.receive(echo);
    }
    solo.write(&[0; 5000]);
    solo.receive(ack(4, 10_001));
    let sent = solo.poll();
    assert_eq!(sent[0].flags, ACK | Flags::CWR);
    assert!(
        sent[1..]
            .iter()
            .all(|segment| !segment.flags.contains(Flags::CWR))
    );
    assert!(solo.connection.info(solo.now).snd_cwnd < before);
}

#[test]
fn a_large_transfer_arrives_whole() {
    let mut pair = Pair::established();
    let time = pair.transfer(0, 3_000_000);
    assert!(time < Duration::from_secs(3), "{time:?}");
    let now = pair.now;
    let info = pair.host(0).info(now);
    assert_eq!(info.total_retrans, 0);
}

#[test]
fn a_transfer_survives_loss() {
    for percent in [1, 5, 20] {
        let mut pair = Pair::established();
        let mut seed = 42u64;
        pair.drops = Box::new(move |_, _, _| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % 100 < percent
        });
        let time = pair.transfer(0, 500_000);
        assert!(time < Duration::from_secs(600), "{percent} %: {time:?}");
    }
}

#[test]
fn transfers_in_both_directions_survive_loss_without_sack_and_timestamps() {
    let config = Config {
        sack: false,
        timestamps: false,
        ..Config::default()
    };
    let mut pair = Pair::new(config, ms(5));
    pair.run(ms(100));
    let mut seed = 7u64;
    pair.drops = Box::new(move |_, _, _| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33).is_multiple_of(50)
    });
    pair.transfer(0, 300_000);
    pair.transfer(1, 300_000);
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

/// RFC 8985 §7.4.2: the duplicate's report comes when nothing is outstanding any more.
// Requirement: RFC 8985 7.4-2
#[test]
fn rfc8985_section7_4_2_a_probe_of_what_had_arrived_reduces_nothing() {
    for has_duplicate_report in [true, false] {
        let mut solo = Solo::established();
        solo.write(&[1; 10_000]);
        assert_eq!(solo.poll().len(), 10);
        let passed = solo.skip_to_timer();
        assert!(passed < ms(200), "{passed:?}");
        let probe = solo.poll_one();
        assert_eq!(probe.brief().0, 9001);
        solo.receive(ack(1, 10_001));
        let blocks: &[(u32, u32)] = if has_duplicate_report {
            &[(9001, 10_001)]
        } else {
            &[]
        };
        solo.receive(sack(10_001, blocks));
        solo.write(&[1; 1000]);
        solo.poll();
        solo.receive(ack(1, 11_001));
        let info = solo.connection.info(solo.now);
        assert_eq!(info.snd_ssthresh, u32::MAX / 2, "{has_duplicate_report}");
    }
}

/// RFC 3708 §2
#[test]
fn rfc3708_a_duplicate_reported_after_everything_arrived_undoes_the_reduction() {
    let mut solo = Solo::established();
    solo.write(&[1; 10_000]);
    solo.poll();
    solo.now = solo.now + ms(20);
    solo.receive(sack(1, &[(1001, 4001)]));
    assert_eq!(solo.poll_one().brief().0, 1);
    solo.receive(ack(1, 10_001));
    assert!(solo.connection.info(solo.now).snd_ssthresh < 10);
    solo.receive(sack(10_001, &[(1, 1001)]));
    let info = solo.connection.info(solo.now);
    assert_eq!(info.snd_ssthresh, u32::MAX / 2);
    assert_eq!(info.dsack_duplicates, 1);
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

/// A connection over a device that cuts segments.
fn offloading() -> Solo {
    let mut solo = Solo::established();
    solo.connection.path.max_offload_len = 64_000;
    solo
}

#[test]
fn a_device_that_segments_gets_pieces_of_whole_segments() {
    let mut solo = offloading();
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
fn urgent_data_goes_in_single_segments() {
    let mut solo = offloading();
    solo.write(&[1; 2500]);
    assert_eq!(solo.connection.write_urgent(solo.now, b"!"), Ok(1));
    let pointers: Vec<_> = solo.poll().iter().map(|sent| sent.urgent).collect();
    assert_eq!(pointers, [2501, 1501, 501]);
    solo.set(SocketOption::NoDelay(true));
    solo.write(b"not urgent");
    assert_eq!(solo.poll_one().flags, PSH_ACK);
}

#[test]
fn a_piece_ends_where_nagle_and_the_window_say() {
    let mut solo = offloading();
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
