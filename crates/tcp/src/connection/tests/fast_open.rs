//! Data in the SYN (RFC 7413). What Linux does on the wire is in `tests/scripts/fast-open`.

use std::sync::Arc;

use wire::tcp::{FastOpen, Header, Options as HeaderOptions};

use super::harness::*;
use crate::{
    Config, Ecn, Error, Event, FastOpenAttempt, FastOpenEnd, FastOpenFailure, FastOpenReply, Flags,
    IcmpError, Options, Path, SeqNumber, State,
};

fn cookie() -> Option<FastOpen> {
    FastOpen::from_cookie(&[1, 2, 3, 4], false)
}

fn attempt(mss: Option<u16>) -> FastOpenAttempt {
    FastOpenAttempt {
        option: cookie(),
        sends_data: true,
        mss,
        is_check: false,
    }
}

/// A client that has sent `len` octets with its SYN.
fn client(len: usize) -> Solo {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    let data = vec![9; len];
    let taken = solo
        .connection
        .attempt_fast_open(&attempt(Some(1000)), &data, false);
    assert_eq!(taken, len);
    let syn = solo.poll_one();
    assert_eq!(syn.brief(), (0, len, Flags::SYN));
    assert_eq!(syn.options.fast_open, cookie());
    solo
}

/// The SYN-ACK, acknowledging up to `ack`.
fn answer(ack: u32) -> Segment {
    let options = HeaderOptions {
        mss: Some(1000),
        sack_permitted: true,
        ..HeaderOptions::default()
    };
    Segment {
        ack,
        ..syn_ack(options)
    }
}

/// A server that was opened by a SYN with `len` octets.
fn server(len: usize) -> Solo {
    let syn = Header {
        seq: IRS,
        flags: Flags::SYN,
        window: 10_000,
        options: HeaderOptions {
            mss: Some(1000),
            sack_permitted: true,
            ..HeaderOptions::default()
        },
        ..Header::default()
    };
    let mut solo = Solo::accepting(Config::default(), &syn);
    let reply = FastOpenReply {
        is_open: true,
        option: None,
    };
    let payload = (len > 0).then(|| vec![8; len]);
    solo.connection.open_fast(solo.now, &reply, payload);
    solo
}

// Requirement: RFC 7413 4.2.2-5
#[test]
fn the_syn_carries_what_the_server_s_mss_leaves_beside_all_options() {
    for (mss, user, expected) in [
        (Some(1000), 0, 960),
        (Some(9000), 0, 1420),
        (None, 0, 1420),
        (Some(1000), 500, 460),
        (Some(30), 0, 0),
    ] {
        let mut options = Options::default();
        options.set(crate::SocketOption::MaxSegment(user)).unwrap();
        let mut solo = Solo::connecting(Config::default(), options);
        let taken = solo
            .connection
            .attempt_fast_open(&attempt(mss), &[1; 3000], false);
        assert_eq!(taken, expected, "{mss:?} {user}");
        assert_eq!(solo.poll_one().brief(), (0, expected, Flags::SYN));
    }
}

#[test]
fn an_attempt_that_comes_too_late_is_none() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.poll();
    assert_eq!(
        solo.connection
            .attempt_fast_open(&attempt(None), b"abc", false),
        0
    );
    let mut solo = Solo::established();
    assert_eq!(
        solo.connection
            .attempt_fast_open(&attempt(None), b"abc", false),
        0
    );
    solo.assert_silent();
}

// Requirement: RFC 7413 4.2.2-6
#[test]
fn what_the_syn_ack_does_not_acknowledge_is_sent_again() {
    for acked in [1, 2, 500, 900, 901] {
        let mut solo = client(900);
        solo.receive(answer(acked));
        assert_eq!(solo.state(), State::Established);
        let rest = usize::try_from(901 - acked).unwrap();
        let sent = solo.poll_one();
        let flags = if rest > 0 { PSH_ACK } else { ACK };
        assert_eq!(sent.brief(), (acked, rest, flags));
        let info = solo.connection.info(solo.now);
        assert_eq!(info.has_syn_data, rest == 0);
        let failure = if rest > 0 {
            FastOpenFailure::NotAcknowledged
        } else {
            FastOpenFailure::None
        };
        assert_eq!(info.fast_open_failure, failure);
        // No congestion: the window is what it begins with.
        assert_eq!(info.snd_cwnd, 10);
        solo.receive(ack(1, 901));
        assert_eq!(solo.connection.unacknowledged_len(), 0);
        solo.assert_silent();
    }
}

#[test]
fn an_ack_beyond_the_syn_s_data_is_refused() {
    let mut solo = client(100);
    solo.receive(answer(102));
    assert_eq!(solo.poll_one().brief(), (102, 0, Flags::RST));
    assert_eq!(solo.state(), State::SynSent);
}

// Requirement: RFC 7413 4.1.3.1-2
#[test]
fn a_syn_that_is_sent_again_is_plain() {
    let mut solo = client(100);
    let again = solo.advance(ms(1100));
    assert_eq!(briefs(&again), [(0, 0, Flags::SYN)]);
    assert_eq!(again[0].options.fast_open, None);
    // The answer may still be to the first.
    solo.receive(answer(101));
    assert_eq!(solo.poll_one().brief(), (101, 0, ACK));
    assert!(solo.connection.info(solo.now).has_syn_data);
}

// Requirement: RFC 7413 4.2.1-3
#[test]
fn the_lesson_is_what_the_syn_ack_says() {
    let mut solo = client(100);
    assert_eq!(solo.connection.take_fast_open_lesson(), None);
    let mut answer = answer(101);
    answer.options.fast_open = FastOpen::from_cookie(&[5; 8], false);
    solo.receive(answer);
    let lesson = solo.connection.take_fast_open_lesson().unwrap();
    assert_eq!(lesson.cookie, FastOpen::from_cookie(&[5; 8], false));
    assert_eq!((lesson.is_answered, lesson.mss), (true, Some(1000)));
    assert!(!lesson.is_black_hole && lesson.refused.is_none());
    assert_eq!(solo.connection.take_fast_open_lesson(), None);
}

fn has_seen_black_hole(solo: &mut Solo) -> bool {
    let lesson = solo.connection.take_fast_open_lesson();
    lesson.is_some_and(|lesson| lesson.is_black_hole)
}

// Requirement: RFC 7413 4.1.3.1-1
#[test]
fn three_timeouts_in_a_row_look_like_a_black_hole() {
    let mut solo = client(100);
    solo.advance(ms(2500));
    assert_eq!(solo.connection.take_fast_open_lesson(), None);
    solo.advance(ms(1000));
    assert!(has_seen_black_hole(&mut solo));
    // And so behind the handshake.
    let mut solo = client(100);
    solo.receive(answer(101));
    solo.poll();
    solo.connection.take_fast_open_lesson();
    solo.write(&[1; 10]);
    solo.poll();
    solo.advance(ms(500));
    assert_eq!(solo.connection.take_fast_open_lesson(), None);
    solo.advance(ms(10_000));
    assert!(has_seen_black_hole(&mut solo));
}

#[test]
fn a_stream_whose_data_never_came_looks_like_a_black_hole_and_data_clears_it() {
    for has_data in [false, true] {
        let mut solo = Solo::connecting(Config::default(), Options::default());
        let check = FastOpenAttempt {
            is_check: true,
            ..attempt(None)
        };
        solo.connection.attempt_fast_open(&check, b"abc", false);
        solo.poll();
        solo.receive(answer(4));
        solo.connection.take_fast_open_lesson();
        if has_data {
            solo.receive(data(1, 4, b"xyz"));
        } else {
            solo.receive(fin(100, 4));
        }
        solo.connection.abort();
        let lesson = solo.connection.take_fast_open_lesson().unwrap();
        assert_eq!(
            (lesson.is_black_hole, lesson.is_cleared),
            (!has_data, has_data)
        );
    }
}

#[test]
fn the_last_ack_waits_for_data_that_is_about_to_be_written() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    let taken = solo
        .connection
        .attempt_fast_open(&attempt(Some(1000)), &[1; 2000], true);
    assert_eq!(taken, 960);
    solo.poll();
    solo.receive(answer(961));
    solo.assert_silent();
    solo.write(&[1; 1040]);
    assert_eq!(briefs(&solo.poll())[0], (961, 1000, ACK));
    // It does not wait for ever.
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.connection
        .attempt_fast_open(&attempt(Some(1000)), &[1; 2000], true);
    solo.poll();
    solo.receive(answer(961));
    assert_eq!(briefs(&solo.advance(ms(250))), [(961, 0, ACK)]);
}

#[test]
fn a_syn_that_was_too_big_goes_again_plain_and_at_once() {
    let mut solo = client(900);
    let at = SeqNumber(ISS);
    solo.connection
        .on_icmp(IcmpError::PacketTooBig { mtu: 600 }, at);
    let again = solo.poll_one();
    assert_eq!(again.brief(), (0, 0, Flags::SYN));
    assert_eq!(again.options.mss, Some(560));
    solo.receive(answer(1));
    assert_eq!(briefs(&solo.poll()), [(1, 560, ACK), (561, 340, PSH_ACK)]);
}

// Requirement: RFC 7413 4.2.2-3
#[test]
fn the_syn_s_data_is_delivered_and_acknowledged_by_the_syn_ack() {
    let mut solo = server(500);
    assert!(!solo.connection.is_embryonic());
    let events = solo.events();
    assert!(events.contains(&Event::Connected) && events.contains(&Event::Readable));
    let sent = solo.poll_one();
    assert_eq!((sent.brief(), sent.ack()), ((0, 0, Flags::SYN | ACK), 501));
    assert_eq!(solo.read(), [8; 500]);
    assert!(solo.connection.is_writable());
    solo.receive(ack(501, 1));
    assert_eq!(solo.state(), State::Established);
    assert!(solo.events().contains(&Event::Connected));
    let end = FastOpenEnd {
        was_reset: false,
        was_accepted: false,
    };
    assert_eq!(solo.connection.take_fast_open_end(), Some(end));
    assert_eq!(solo.connection.take_fast_open_end(), None);
    solo.receive(data(501, 1, b"more"));
    assert_eq!(solo.read(), b"more");
}

// Requirement: RFC 7413 4.2.2-4
#[test]
fn the_answer_goes_before_the_handshake_is_over_and_is_repaired_after_it() {
    let mut solo = server(500);
    solo.poll();
    solo.write(&[7; 3000]);
    let sent = solo.poll();
    assert_eq!(
        briefs(&sent),
        [(1, 1000, ACK), (1001, 1000, ACK), (2001, 1000, PSH_ACK)]
    );
    // Only the SYN-ACK is repeated.
    let again = solo.advance(ms(1100));
    assert_eq!(briefs(&again), [(0, 0, Flags::SYN | ACK)]);
    assert_eq!(again[0].ack(), 501);
    solo.receive(ack(501, 1));
    assert_eq!(solo.state(), State::Established);
    solo.assert_silent();
    let repaired = solo.advance(ms(4000));
    assert_eq!(repaired[0].seq(), 1, "{repaired:?}");
    solo.receive(ack(501, 3001));
    assert_eq!(solo.connection.unacknowledged_len(), 0);
}

#[test]
fn one_ack_may_end_the_handshake_and_acknowledge_data_and_fin() {
    let mut solo = server(5);
    solo.poll();
    solo.write(b"answer");
    assert!(solo.connection.shutdown(solo.now, crate::Shutdown::Write));
    assert_eq!(briefs(&solo.poll()), [(1, 6, PSH_ACK | Flags::FIN)]);
    solo.receive(ack(6, 8));
    assert_eq!(solo.state(), State::FinWait2);
    solo.receive(fin(6, 8));
    assert_eq!(solo.state(), State::TimeWait);
}

#[test]
fn an_ack_of_something_else_is_refused() {
    let mut solo = server(5);
    solo.poll();
    solo.receive(ack(6, 5));
    assert_eq!(solo.poll_one().brief(), (5, 0, Flags::RST));
    assert_eq!(solo.state(), State::SynReceived);
}

// Requirement: RFC 7413 5.1-2
#[test]
fn a_reset_is_told_to_the_application_and_the_listener() {
    for was_accepted in [false, true] {
        let mut solo = server(5);
        solo.poll();
        if was_accepted {
            solo.connection.on_accepted();
        }
        solo.receive(rst(6));
        assert_eq!(solo.state(), State::Closed);
        let end = FastOpenEnd {
            was_reset: true,
            was_accepted,
        };
        assert_eq!(solo.connection.take_fast_open_end(), Some(end));
        assert_eq!(solo.read(), [8; 5]);
        assert_eq!(solo.connection.take_error(), Some(Error::Reset));
    }
}

#[test]
fn an_icmp_error_is_hard_until_the_connection_is_accepted() {
    for was_accepted in [false, true] {
        let mut solo = server(5);
        solo.poll();
        if was_accepted {
            solo.connection.on_accepted();
        }
        solo.connection
            .on_icmp(IcmpError::HostUnreachable, SeqNumber(ISS));
        assert_eq!(solo.state() == State::Closed, !was_accepted);
        assert_eq!(solo.connection.take_error(), Some(Error::HostUnreachable));
    }
}

#[test]
fn an_icmp_error_ends_a_half_open_connection_without_a_word() {
    let (v4, v6) = (Path::ipv4(1500), Path::ipv6(1500));
    for (path, error, ends) in [
        (v4, IcmpError::HostUnreachable, true),
        (v4, IcmpError::NetUnreachable, true),
        (v4, IcmpError::PortUnreachable, false),
        (v6, IcmpError::HostUnreachable, false),
        (v6, IcmpError::NetUnreachable, false),
        (v6, IcmpError::PortUnreachable, true),
        (v6, IcmpError::Prohibited, true),
        (v6, IcmpError::ParameterProblem, true),
    ] {
        let syn = Header {
            seq: IRS,
            flags: Flags::SYN,
            window: 1000,
            ..Header::default()
        };
        let mut solo = Solo::accepting(Config::default(), &syn);
        let (config, options) = (Arc::new(Config::default()), Options::default());
        let (now, secrets) = (solo.now, secrets(ISS));
        solo.connection = Conn::accept(now, config, options, path, secrets, &syn, Ecn::NotEct);
        solo.poll();
        solo.connection.on_icmp(error, SeqNumber(ISS));
        assert_eq!(solo.state() == State::Closed, ends, "{error:?}");
        assert!(!solo.events().contains(&Event::Failed));
    }
}

#[test]
fn the_handshake_is_given_up_with_an_error_since_the_application_knows() {
    let mut solo = server(5);
    let syn_acks = solo.poll().len() + solo.advance(ms(300_000)).len();
    // One more than `tcp_synack_retries`.
    assert_eq!(syn_acks, 1 + 6);
    assert_eq!(solo.state(), State::Closed);
    assert_eq!(solo.read(), [8; 5]);
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
    assert!(solo.connection.take_fast_open_end().is_some());
}

#[test]
fn without_data_the_cookie_opens_as_well() {
    let mut solo = server(0);
    assert_eq!(solo.poll_one().ack(), 1);
    assert!(!solo.connection.info(solo.now).has_syn_data);
    solo.write(b"first");
    assert_eq!(solo.poll_one().brief(), (1, 5, PSH_ACK));
}

#[test]
fn a_plain_reply_only_gives_the_cookie_once() {
    let syn = Header {
        seq: IRS,
        flags: Flags::SYN,
        window: 1000,
        ..Header::default()
    };
    let mut solo = Solo::accepting(Config::default(), &syn);
    let reply = FastOpenReply {
        is_open: false,
        option: cookie(),
    };
    solo.connection
        .open_fast(solo.now, &reply, Some(vec![1; 10]));
    assert!(solo.connection.is_embryonic());
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.options.fast_open), (1, cookie()));
    assert_eq!(solo.advance(ms(1100))[0].options.fast_open, None);
    assert_eq!(solo.connection.readable_len(), 0);
}
