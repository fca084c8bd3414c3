//! Closing in all orders: RFC 9293 §3.6, §3.10.4, §3.10.7.4; RFC 2525 §2.17.

use std::time::Duration;

use super::harness::*;
use crate::{Error, Event, ReadError, Shutdown, SocketOption, State, WriteError};
use wire::tcp::Flags;

// Requirement: RFC 9293 MUST-13
#[test]
fn rfc9293_figure12_normal_close() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Write);
    assert_eq!(solo.state(), State::FinWait1);
    assert_eq!(solo.poll_one().brief(), (1, 0, FIN_ACK));
    solo.events();
    solo.receive(ack(1, 2));
    assert_eq!(solo.state(), State::FinWait2);
    // Who lingers need not any more.
    assert_eq!(solo.events(), [Event::FinWait2]);
    // Half-closed: data still comes.
    solo.receive(data(1, 2, b"late"));
    assert_eq!(solo.read(), b"late");
    solo.poll();
    solo.receive(fin(5, 2));
    assert_eq!(solo.state(), State::TimeWait);
    let sent = solo.poll_one();
    assert_eq!((sent.brief(), sent.ack()), ((2, 0, ACK), 6));
    assert!(solo.events().contains(&Event::TimeWait));
    assert_eq!(solo.connection.read(solo.now, &mut [0]), Ok(0));
    assert_eq!(solo.skip_to_timer(), Duration::from_secs(60));
    assert_eq!(solo.events(), [Event::Closed]);
}

// Requirement: RFC 9293 MUST-12
#[test]
fn passive_close() {
    let mut solo = Solo::established();
    solo.receive(data(1, 1, b"hello"));
    assert_eq!(solo.poll_one().ack(), 6);
    assert_eq!(solo.read(), b"hello");
    solo.events();
    solo.receive(fin(6, 1));
    assert_eq!(solo.state(), State::CloseWait);
    assert_eq!(solo.events(), [Event::Readable, Event::PeerClosed]);
    // What the application may send at the end carries the acknowledgement, unless that takes long.
    solo.assert_silent();
    assert_eq!(solo.skip_to_timer(), ms(40));
    assert_eq!(solo.poll_one().ack(), 7);
    assert_eq!(solo.connection.read(solo.now, &mut [0]), Ok(0));
    solo.write(b"bye");
    assert_eq!(solo.poll_one().payload, b"bye");
    solo.connection.close(solo.now);
    assert_eq!(solo.state(), State::LastAck);
    assert_eq!(solo.poll_one().brief(), (4, 0, FIN_ACK));
    solo.receive(ack(7, 5));
    assert_eq!(solo.state(), State::Closed);
    assert_eq!(solo.events(), [Event::Closed]);
    assert_eq!(solo.connection.poll_timeout(), None);
}

#[test]
fn rfc9293_figure13_simultaneous_close() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Write);
    solo.poll();
    solo.receive(fin(1, 1));
    assert_eq!(solo.state(), State::Closing);
    let sent = solo.poll_one();
    assert_eq!((sent.brief(), sent.ack()), ((2, 0, ACK), 2));
    solo.receive(ack(2, 2));
    assert_eq!(solo.state(), State::TimeWait);
}

#[test]
fn fin_and_its_ack_in_one_segment_go_straight_to_time_wait() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Write);
    solo.poll();
    solo.receive(fin(1, 2));
    assert_eq!(solo.state(), State::TimeWait);
    assert_eq!(solo.poll_one().ack(), 2);
}

#[test]
fn fin_rides_on_the_last_data() {
    let mut solo = Solo::established();
    solo.write(b"last");
    solo.connection.close(solo.now);
    assert_eq!(solo.poll_one().brief(), (1, 4, FIN_ACK | Flags::PSH));
    solo.receive(ack(1, 6));
    assert_eq!(solo.state(), State::FinWait2);
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut solo = Solo::established();
    solo.write(b"last");
    solo.poll();
    solo.connection.close(solo.now);
    assert_eq!(solo.poll_one().brief(), (5, 0, FIN_ACK));
    solo.receive(ack(1, 5));
    let again = solo.advance(ms(1500));
    assert!(!again.is_empty());
    assert!(
        again.iter().all(|sent| sent.brief() == (5, 0, FIN_ACK)),
        "{again:?}"
    );
}

#[test]
fn a_fin_ahead_of_a_gap_waits_for_the_data() {
    let mut solo = Solo::established();
    solo.receive(fin(5, 1));
    assert_eq!(solo.state(), State::Established);
    assert_eq!(solo.poll_one().ack(), 1);
    solo.receive(data(1, 1, b"data"));
    assert_eq!(solo.state(), State::CloseWait);
    assert_eq!(solo.poll_one().ack(), 6);
    assert_eq!(solo.read(), b"data");
    assert_eq!(solo.connection.read(solo.now, &mut [0]), Ok(0));
}

#[test]
fn a_repeated_fin_is_acknowledged_again() {
    let mut solo = Solo::established();
    solo.receive(fin(1, 1));
    solo.poll();
    solo.receive(fin(1, 1));
    assert_eq!(solo.poll_one().ack(), 2);
    assert_eq!(solo.state(), State::CloseWait);
}

// Requirement: RFC 9293 SHLD-3
#[test]
fn rfc2525_2_17_close_with_unread_data_resets() {
    let mut solo = Solo::established();
    solo.receive(data(1, 1, b"unread"));
    solo.poll();
    solo.connection.close(solo.now);
    assert_eq!(solo.poll_one().brief(), (1, 0, Flags::RST | ACK));
    assert_eq!(solo.state(), State::Closed);
    assert_eq!(solo.connection.poll_timeout(), None);
}

#[test]
fn data_for_an_application_that_is_gone_is_reset() {
    let mut solo = Solo::established();
    solo.connection.close(solo.now);
    solo.poll();
    solo.receive(data(1, 2, b"data"));
    assert_eq!(solo.poll_one().brief(), (2, 0, Flags::RST));
    assert_eq!(solo.state(), State::Closed);
    // CLOSED answers as if there were no connection.
    solo.receive(data(1, 2, b"data"));
    assert_eq!(solo.poll_one().brief(), (2, 0, Flags::RST));
    solo.receive(rst(1));
    solo.assert_silent();
}

#[test]
fn linger_zero_resets() {
    let mut solo = Solo::established();
    solo.write(b"data");
    solo.connection.abort();
    assert_eq!(solo.poll_one().flags, Flags::RST | ACK);
    assert_eq!(solo.events().last(), Some(&Event::Closed));
}

#[test]
fn an_orphan_in_fin_wait_2_is_given_up_after_its_time() {
    let mut solo = Solo::established();
    solo.connection.close(solo.now);
    solo.poll();
    solo.receive(ack(1, 2));
    assert_eq!(solo.state(), State::FinWait2);
    assert_eq!(solo.skip_to_timer(), Duration::from_secs(60));
    assert_eq!(solo.state(), State::Closed);
    solo.assert_silent();

    let mut solo = Solo::established();
    solo.set(SocketOption::Linger2(Some(Duration::from_secs(3))));
    solo.connection.close(solo.now);
    solo.poll();
    solo.receive(ack(1, 2));
    assert_eq!(solo.skip_to_timer(), Duration::from_secs(3));

    let mut solo = Solo::established();
    solo.set(SocketOption::Linger2(None));
    solo.connection.close(solo.now);
    solo.poll();
    solo.receive(ack(1, 2));
    let reset = solo.poll_one();
    assert_eq!((reset.seq(), reset.flags), (2, Flags::RST));
    assert_eq!(solo.state(), State::Closed);

    let mut solo = Solo::established();
    solo.set(SocketOption::Linger2(None));
    solo.connection.shutdown(solo.now, Shutdown::Write);
    solo.poll();
    solo.receive(ack(1, 2));
    solo.connection.close(solo.now);
    assert_eq!(solo.poll_one().flags, Flags::RST | ACK);
    assert_eq!(solo.state(), State::Closed);
}

#[test]
fn nobody_keeps_an_orphan_alive() {
    let mut solo = Solo::established();
    solo.set(SocketOption::KeepAlive(true));
    solo.set(SocketOption::KeepIdle(Duration::from_secs(10)));
    solo.connection.shutdown(solo.now, Shutdown::Write);
    solo.poll();
    solo.receive(ack(1, 2));
    solo.connection.close(solo.now);
    assert!(solo.advance(Duration::from_secs(59)).is_empty());
    assert_eq!(solo.state(), State::FinWait2);
}

/// For the network the connection is over.
#[test]
fn what_was_not_read_in_time_wait_is_no_reason_for_a_reset() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Write);
    solo.poll();
    solo.receive(data(1, 2, b"not read"));
    solo.receive(fin(9, 2));
    solo.poll();
    assert_eq!(solo.state(), State::TimeWait);
    solo.connection.close(solo.now);
    solo.assert_silent();
    assert_eq!(solo.state(), State::TimeWait);
}

#[test]
fn a_half_closed_application_may_wait_for_ever() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Write);
    solo.poll();
    solo.receive(ack(1, 2));
    assert_eq!(solo.connection.poll_timeout(), None);
}

#[test]
fn results_after_the_ends_are_those_of_linux() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Write);
    let write = solo.connection.write(solo.now, b"x");
    assert_eq!(write, Err(WriteError::BrokenPipe));
    assert_eq!(
        solo.connection.read(solo.now, &mut [0]),
        Err(ReadError::WouldBlock)
    );
    solo.poll();
    solo.receive(rst(1));
    assert_eq!(
        solo.connection.read(solo.now, &mut [0]),
        Err(ReadError::Failed(Error::Reset))
    );
    assert_eq!(solo.connection.read(solo.now, &mut [0]), Ok(0));
    let write = solo.connection.write(solo.now, b"x");
    assert_eq!(write, Err(WriteError::BrokenPipe));
    assert!(!solo.connection.shutdown(solo.now, Shutdown::Both));
}

// Requirement: RFC 9293 MUST-12
#[test]
fn what_was_received_before_a_reset_can_be_read() {
    let mut solo = Solo::established();
    solo.receive(data(1, 1, b"data"));
    solo.receive(rst(5));
    assert_eq!(solo.read(), b"data");
    assert_eq!(
        solo.connection.read(solo.now, &mut [0]),
        Err(ReadError::Failed(Error::Reset))
    );
}

#[test]
fn a_reset_after_the_peers_fin_is_a_broken_pipe() {
    let mut solo = Solo::established();
    solo.receive(fin(1, 1));
    solo.receive(rst(2));
    assert_eq!(solo.connection.take_error(), Some(Error::BrokenPipe));
}

#[test]
fn shutdown_of_reading_ends_the_stream_but_keeps_what_comes() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Read);
    assert!(solo.connection.is_readable());
    assert_eq!(solo.connection.read(solo.now, &mut [0]), Ok(0));
    solo.receive(data(1, 1, b"data"));
    assert_eq!(solo.poll_one().ack(), 5);
    assert_eq!(solo.read(), b"data");
}

#[test]
fn close_before_the_handshake_is_over() {
    let mut solo = Solo::connecting(crate::Config::default(), crate::Options::default());
    solo.poll();
    solo.connection.close(solo.now);
    assert_eq!(solo.state(), State::Closed);
    solo.assert_silent();
}

#[test]
fn rfc9293_3_10_7_4_time_wait_acknowledges_the_fin_again_and_starts_over() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Write);
    solo.poll();
    solo.receive(fin(1, 2));
    solo.poll();
    solo.advance(Duration::from_secs(50));
    solo.receive(fin(1, 2));
    assert_eq!(solo.poll_one().ack(), 2);
    assert_eq!(solo.skip_to_timer(), Duration::from_secs(60));
}

/// As `tcp_timewait_check_oow_rate_limit`: two that wait for each other's end must not answer each
/// other for ever.
#[test]
fn time_wait_answers_stray_acknowledgements_seldom() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Write);
    solo.poll();
    solo.receive(fin(1, 2));
    solo.poll();
    solo.receive(ack(5000, 2));
    assert_eq!(solo.poll_one().ack(), 2);
    solo.receive(ack(5000, 2));
    solo.assert_silent();
    solo.receive(fin(1, 2));
    assert_eq!(solo.poll_one().ack(), 2);
}

// Requirement: RFC 9293 SHLD-4; RFC 6191 2-2
#[test]
fn rfc6191_time_wait_ends_for_a_newer_syn() {
    let mut solo = Solo::established();
    solo.connection.shutdown(solo.now, Shutdown::Write);
    solo.poll();
    solo.receive(fin(1, 2));
    let syn = |seq: u32| wire::tcp::Header {
        seq: IRS.wrapping_add(seq),
        flags: Flags::SYN,
        ..wire::tcp::Header::default()
    };
    assert!(solo.connection.accepts_syn(&syn(3)));
    assert!(!solo.connection.accepts_syn(&syn(2)));
    assert!(!solo.connection.accepts_syn(&wire::tcp::Header {
        flags: Flags::SYN | ACK,
        ..syn(3)
    }));
}

#[test]
fn two_connections_close_whoever_begins() {
    for first in 0..2 {
        let mut pair = Pair::established();
        pair.transfer(0, 10_000);
        let now = pair.now;
        pair.host(first).close(now);
        pair.run(ms(200));
        assert_eq!(pair.host(first).state(), State::FinWait2);
        let now = pair.now;
        pair.host(1 - first).close(now);
        pair.run(ms(50));
        // An orphan keeps its own time in FIN-WAIT-2, then TIME-WAIT.
        assert_eq!(pair.host(first).state(), State::TimeWait);
        assert_eq!(pair.host(1 - first).state(), State::Closed);
        pair.run(Duration::from_secs(61));
        assert_eq!(pair.host(first).state(), State::Closed);
    }
}

/// Linux's `tcp_abort`
#[test]
fn who_is_destroyed_resets_a_peer_that_may_wait_for_something() {
    let ended = |prepare: fn(&mut Solo)| {
        let mut solo = Solo::established();
        prepare(&mut solo);
        solo.poll();
        solo.events();
        solo.connection.destroy();
        assert_eq!(solo.state(), State::Closed);
        let events = solo.events();
        assert!(events.contains(&Event::Failed) && events.contains(&Event::Closed));
        assert!(solo.connection.has_error());
        let reset = briefs(&solo.poll());
        solo.connection.destroy();
        solo.assert_silent();
        assert_eq!(solo.connection.take_error(), Some(Error::Aborted));
        assert_eq!(solo.connection.take_error(), None);
        reset
    };
    const RST_ACK: Flags = Flags::RST.union(Flags::ACK);
    let shut = |solo: &mut Solo| {
        solo.connection.shutdown(solo.now, Shutdown::Write);
    };
    assert_eq!(ended(|_| {}), [(1, 0, RST_ACK)]);
    assert_eq!(ended(|solo| solo.write(b"lost")), [(5, 0, RST_ACK)]);
    assert_eq!(ended(|solo| solo.receive(fin(1, 1))), [(1, 0, RST_ACK)]);
    assert_eq!(ended(shut), [(2, 0, RST_ACK)]);
    // The peer has said, and may have been told, everything.
    let last_ack = |solo: &mut Solo| {
        solo.receive(fin(1, 1));
        solo.connection.shutdown(solo.now, Shutdown::Write);
    };
    assert_eq!(ended(last_ack), []);
}

#[test]
fn what_came_before_it_was_destroyed_can_be_read() {
    let mut solo = Solo::established();
    solo.receive(data(1, 1, b"left"));
    solo.connection.destroy();
    assert_eq!(solo.read(), b"left");
    let failed = solo.connection.read(solo.now, &mut [0]);
    assert_eq!(failed, Err(ReadError::Failed(Error::Aborted)));
    assert_eq!(solo.connection.read(solo.now, &mut [0]), Ok(0));
    let mut connecting = Solo::connecting(crate::Config::default(), crate::Options::default());
    connecting.poll();
    connecting.connection.destroy();
    connecting.assert_silent();
    assert_eq!(connecting.connection.take_error(), Some(Error::Aborted));
}

/// As with Linux it gives up when the interval of probes cannot grow any more: such peers could
/// hold memory without end.
#[test]
fn an_orphan_does_not_wait_for_ever_for_a_peer_that_lives_and_takes_nothing() {
    // What is left waits for the window, or was sent before that closed.
    for acked in [3001, 1001] {
        let mut solo = Solo::established();
        solo.write(&[0; 3000]);
        solo.poll();
        solo.window = 0;
        solo.receive(ack(1, acked));
        solo.write(&[0; 1000]);
        solo.connection.close(solo.now);
        let start = solo.now;
        solo.poll();
        while solo.state() != State::Closed {
            assert!(solo.now - start < Duration::from_secs(900), "{acked}");
            solo.skip_to_timer();
            if !solo.poll().is_empty() {
                solo.receive(ack(1, acked));
                solo.poll();
            }
        }
        assert!(solo.now - start > Duration::from_secs(60), "{acked}");
    }
}
