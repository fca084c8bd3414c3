//! RFC 3168 §6.1: what is ECN-capable, and what marks do.

use super::super::harness::*;
use crate::{Config, Ecn, EcnMode, Options};
use wire::tcp::{Flags, Options as HeaderOptions};

fn config() -> Config {
    Config {
        ecn: EcnMode::On,
        ..Config::default()
    }
}

fn answer(flags: Flags) -> Segment {
    let mut answer = syn_ack(HeaderOptions {
        mss: Some(1000),
        ..HeaderOptions::default()
    });
    answer.flags |= flags;
    answer
}

fn agreed() -> Solo {
    let mut solo = Solo::connecting(config(), Options::default());
    solo.poll();
    solo.receive(answer(Flags::ECE));
    solo.poll();
    solo
}

// Requirement: RFC 3168 6.1.1-2
#[test]
fn without_agreement_nothing_is_ecn_capable() {
    for flags in [Flags::NONE, Flags::ECE | Flags::CWR] {
        let mut solo = Solo::connecting(config(), Options::default());
        solo.poll();
        solo.receive(answer(flags));
        solo.write(&[0; 3000]);
        let sent = solo.poll();
        assert!(sent.len() >= 3);
        assert!(sent.iter().all(|sent| sent.ecn == Ecn::NotEct), "{flags:?}");
    }
}

// Requirement: RFC 3168 6.1.1-3
#[test]
fn syns_are_not_ecn_capable() {
    let mut active = Solo::connecting(config(), Options::default());
    assert_eq!(active.poll_one().ecn, Ecn::NotEct);
    let syn = wire::tcp::Header {
        seq: IRS,
        flags: Flags::SYN | Flags::ECE | Flags::CWR,
        ..wire::tcp::Header::default()
    };
    assert_eq!(Solo::accepting(config(), &syn).poll_one().ecn, Ecn::NotEct);
}

// Requirement: RFC 3168 6.1.1-4
#[test]
fn a_repeated_syn_does_not_ask() {
    let mut solo = Solo::connecting(config(), Options::default());
    assert!(solo.poll_one().flags.contains(Flags::ECE | Flags::CWR));
    solo.skip_to_timer();
    assert_eq!(solo.poll_one().flags, Flags::SYN);
}

// Requirement: RFC 3168 6.1.4-1
#[test]
fn pure_acknowledgements_are_not_ecn_capable() {
    let mut solo = agreed();
    solo.receive_marked(data(1, 1, b"data"), Ecn::Ce);
    assert_eq!(solo.poll_one().ecn, Ecn::NotEct);
}

// Requirement: RFC 3168 6.1.5-1
#[test]
fn retransmissions_are_not_ecn_capable() {
    let mut solo = agreed();
    solo.write(b"data");
    assert_eq!(solo.poll_one().ecn, Ecn::Ect0);
    let again = solo.advance(ms(3000));
    assert!(again.len() >= 2);
    assert!(again.iter().all(|sent| sent.ecn == Ecn::NotEct));
}

// Requirement: RFC 3168 6.1.6-1
#[test]
fn window_probes_are_not_ecn_capable() {
    let mut solo = agreed();
    solo.block();
    solo.skip_to_timer();
    assert_eq!(solo.poll_one().ecn, Ecn::NotEct);
}

// Requirement: RFC 3168 6.1.2-2, 6.1.3-1
#[test]
fn rfc3168_6_1_3_a_mark_is_echoed_until_the_window_is_reduced() {
    let mut solo = agreed();
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
