//! RFC 9293 §3.10.7.4: each kind of segment in each state.

use super::super::harness::*;
use crate::{Config, Options, Shutdown, State};
use wire::tcp::{Flags, Header};

fn synchronized_states() -> impl Iterator<Item = State> {
    State::ALL
        .into_iter()
        .filter(|state| state.is_synchronized())
}

/// A connection in a state, with the numbers that both sides expect next.
struct Fixture {
    solo: Solo,
    /// What the peer sends next.
    seq: u32,
    /// What acknowledges all that was sent but for a FIN.
    ack: u32,
}

fn in_state(state: State) -> Fixture {
    let mut solo = match state {
        State::SynReceived => {
            let syn = Header {
                seq: IRS,
                flags: Flags::SYN,
                window: 60_000,
                ..Header::default()
            };
            Solo::accepting(Config::default(), &syn)
        }
        State::SynSent => Solo::connecting(Config::default(), Options::default()),
        _ => Solo::established(),
    };
    solo.poll();
    let mut seq = 1;
    if matches!(state, State::CloseWait | State::LastAck) {
        solo.receive(fin(1, 1));
        seq = 2;
    }
    if !matches!(
        state,
        State::SynSent | State::SynReceived | State::Established | State::CloseWait
    ) {
        solo.connection.shutdown(solo.now, Shutdown::Write);
        solo.poll();
    }
    match state {
        State::FinWait2 => solo.receive(ack(1, 2)),
        State::Closing => solo.receive(fin(1, 1)),
        State::TimeWait => solo.receive(fin(1, 2)),
        _ => {}
    }
    if matches!(state, State::Closing | State::TimeWait) {
        seq = 2;
    }
    solo.poll();
    solo.events();
    assert_eq!(solo.state(), state);
    // Long enough for another challenge.
    solo.now = solo.now + ms(600);
    let ack = if matches!(state, State::FinWait2 | State::TimeWait) {
        2
    } else {
        1
    };
    Fixture { solo, seq, ack }
}

// Requirement: RFC 5961 3.2-2; RFC 9293 MUST-12
#[test]
fn an_exact_reset_ends_every_state() {
    for state in synchronized_states().chain([State::SynReceived]) {
        let Fixture { mut solo, seq, .. } = in_state(state);
        solo.receive(rst(seq));
        assert_eq!(solo.state(), State::Closed, "{state:?}");
        solo.assert_silent();
        // In TIME-WAIT both sides were done; of an embryo nobody knows.
        let is_told = !matches!(state, State::TimeWait | State::SynReceived);
        assert_eq!(solo.connection.take_error().is_some(), is_told, "{state:?}");
    }
}

// Requirement: RFC 5961 3.2-1, 3.2-3
#[test]
fn no_other_reset_ends_a_state() {
    for state in synchronized_states().chain([State::SynReceived]) {
        let Fixture { mut solo, seq, .. } = in_state(state);
        solo.receive(rst(seq + 100));
        assert_eq!(solo.state(), state);
        // TIME-WAIT need not answer: there is no data that could be lost.
        if state != State::TimeWait {
            assert_eq!(solo.poll_one().ack(), seq, "{state:?}");
        }
        solo.now = solo.now + ms(600);
        solo.receive(rst(seq + 1_000_000));
        assert_eq!(solo.state(), state);
        assert!(
            solo.poll().iter().all(|sent| sent.flags != ACK),
            "{state:?}"
        );
    }
}

// Requirement: RFC 5961 4.2-1
#[test]
fn a_syn_is_challenged_in_every_state() {
    for state in synchronized_states() {
        for offset in [0, 100, 1_000_000] {
            let Fixture { mut solo, seq, .. } = in_state(state);
            solo.receive(Segment {
                seq: seq + offset,
                flags: Flags::SYN,
                ..Segment::default()
            });
            assert_eq!(solo.state(), state);
            let sent = solo.poll();
            assert!(
                sent.iter()
                    .any(|sent| sent.ack() == seq && sent.payload.is_empty()),
                "{state:?}, {offset}: {sent:?}"
            );
            assert!(sent.iter().all(|sent| !sent.flags.contains(Flags::RST)));
        }
    }
}

// Requirement: RFC 5961 5.2-1
#[test]
fn an_acknowledgement_of_what_was_not_sent_changes_no_state() {
    for state in synchronized_states().filter(|state| *state != State::TimeWait) {
        let Fixture {
            mut solo,
            seq,
            ack: una,
        } = in_state(state);
        solo.receive(ack(seq, una + 1000));
        assert_eq!(solo.state(), state);
        assert_eq!(solo.poll_one().ack(), seq, "{state:?}");
        assert_eq!(solo.connection.take_error(), None);
    }
}

// Requirement: RFC 9293 3.10.7.4-1
#[test]
fn a_segment_without_ack_is_dropped_in_every_state() {
    for state in synchronized_states().chain([State::SynReceived]) {
        let Fixture { mut solo, seq, .. } = in_state(state);
        solo.receive(Segment {
            flags: Flags::PSH,
            ..data(seq, 0, b"data")
        });
        assert_eq!(solo.state(), state);
        assert_eq!(solo.connection.readable_len(), 0, "{state:?}");
    }
}

// Requirement: RFC 9293 3.10.7.4-2
#[test]
fn what_is_outside_of_the_window_is_answered_in_every_state() {
    for state in synchronized_states() {
        let Fixture {
            mut solo,
            seq,
            ack: una,
        } = in_state(state);
        solo.receive(data(seq + 1_000_000, una, b"data"));
        assert_eq!(solo.state(), state);
        let sent = solo.poll_one();
        assert_eq!((sent.flags, sent.ack()), (ACK, seq), "{state:?}");
        assert_eq!(solo.connection.readable_len(), 0);
    }
}

// Requirement: RFC 9293 3.10.7.4-3
#[test]
fn data_counts_until_the_peer_has_closed() {
    for state in synchronized_states() {
        let Fixture {
            mut solo,
            seq,
            ack: una,
        } = in_state(state);
        solo.receive(data(seq, una, b"data"));
        let has_peer_fin = !matches!(
            state,
            State::Established | State::FinWait1 | State::FinWait2
        );
        let expected = if has_peer_fin { 0 } else { 4 };
        assert_eq!(solo.connection.readable_len(), expected, "{state:?}");
        assert_eq!(solo.state(), state);
    }
}

// Requirement: RFC 9293 3.10.7.4-4
#[test]
fn a_fin_leads_where_figure_5_says() {
    for (state, acknowledged, next) in [
        (State::SynReceived, 1, State::CloseWait),
        (State::Established, 1, State::CloseWait),
        (State::FinWait1, 1, State::Closing),
        (State::FinWait1, 2, State::TimeWait),
        (State::FinWait2, 2, State::TimeWait),
    ] {
        let Fixture { mut solo, seq, .. } = in_state(state);
        solo.receive(fin(seq, acknowledged));
        assert_eq!(solo.state(), next, "{state:?}");
        if next == State::CloseWait {
            solo.skip_to_timer();
        }
        let sent = solo.poll_one();
        assert_eq!((sent.flags, sent.ack()), (ACK, seq + 1), "{state:?}");
    }
    for state in [
        State::CloseWait,
        State::Closing,
        State::LastAck,
        State::TimeWait,
    ] {
        let Fixture {
            mut solo,
            seq,
            ack: una,
        } = in_state(state);
        solo.receive(fin(seq - 1, una));
        assert_eq!(solo.state(), state);
        assert_eq!(solo.poll_one().ack(), seq, "{state:?}");
    }
}

// Requirement: RFC 9293 3.10.7.4-5
#[test]
fn the_acknowledgement_of_our_fin_leads_where_figure_5_says() {
    for (state, next) in [
        (State::FinWait1, State::FinWait2),
        (State::Closing, State::TimeWait),
        (State::LastAck, State::Closed),
    ] {
        let Fixture { mut solo, seq, .. } = in_state(state);
        solo.receive(ack(seq, 2));
        assert_eq!(solo.state(), next, "{state:?}");
        assert_eq!(solo.connection.take_error(), None);
    }
}

// Requirement: RFC 9293 3.10.7.3-1
#[test]
fn syn_sent_hears_nothing_but_syn_and_a_reset_of_its_own() {
    for segment in [
        ack(1, 1),
        data(1, 1, b"data"),
        rst(1),
        Segment {
            flags: Flags::PSH,
            ..data(1, 0, b"data")
        },
    ] {
        let Fixture { mut solo, .. } = in_state(State::SynSent);
        solo.receive(segment.clone());
        assert_eq!(solo.state(), State::SynSent, "{segment:?}");
        solo.assert_silent();
    }
}
