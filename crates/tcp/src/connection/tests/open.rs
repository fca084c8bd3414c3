//! RFC 9293 §3.5, §3.10.7.2 and §3.10.7.3.

use wire::tcp::{Flags, Header, Options as HeaderOptions, Timestamps};

use super::harness::*;
use crate::{Config, EcnMode, Error, Event, Options, State};

fn syn(options: HeaderOptions) -> Header {
    Header {
        seq: IRS,
        flags: Flags::SYN,
        window: 65_535,
        options,
        ..Header::default()
    }
}

const ALL_OPTIONS: HeaderOptions = HeaderOptions {
    mss: Some(1400),
    window_scale: Some(7),
    sack_permitted: true,
    timestamps: Some(Timestamps {
        value: 500,
        echo: 0,
    }),
    sack: wire::tcp::SackBlocks::EMPTY,
    fast_open: None,
};

// Requirement: RFC 9293 MUST-14, MUST-67, SHLD-5; RFC 7323 2.3-1, 3.2-4
#[test]
fn active_open_sends_syn_with_the_options_of_linux_and_acknowledges_the_answer() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    let sent = solo.poll_one();
    assert_eq!(sent.brief(), (0, 0, Flags::SYN));
    assert_eq!(sent.window, 64_240);
    assert_eq!(sent.options.mss, Some(1460));
    assert_eq!(sent.options.window_scale, Some(7));
    assert!(sent.options.sack_permitted);
    assert_eq!(sent.options.timestamps.unwrap().echo, 0);

    let options = HeaderOptions {
        timestamps: Some(Timestamps {
            value: 500,
            echo: sent.options.timestamps.unwrap().value,
        }),
        ..ALL_OPTIONS
    };
    solo.receive(syn_ack(options));
    assert_eq!(solo.state(), State::Established);
    assert_eq!(solo.events(), [Event::Connected, Event::Writable]);
    let sent = solo.poll_one();
    assert_eq!((sent.brief(), sent.ack()), ((1, 0, ACK), 1));
    assert_eq!(sent.window, 64_256 >> 7);
    assert_eq!(sent.options.timestamps.unwrap().echo, 500);
    assert_eq!(solo.connection.info(solo.now).snd_mss, 1400 - 12);
}

// Requirement: RFC 7323 2.2-1, 3.2-2
#[test]
fn rfc7323_section2_options_are_off_unless_both_sides_have_them() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.poll();
    solo.receive(syn_ack(HeaderOptions::default()));
    let sent = solo.poll_one();
    assert_eq!(sent.window, 64_240);
    assert_eq!(sent.options, HeaderOptions::default());
    let info = solo.connection.info(solo.now);
    assert_eq!(
        (info.has_sack, info.window_scales, info.snd_mss),
        (false, None, 536)
    );
}

// Requirement: RFC 7323 2.3-3
#[test]
fn passive_open_answers_with_what_the_syn_offered() {
    let mut solo = Solo::accepting(Config::default(), &syn(ALL_OPTIONS));
    assert!(solo.connection.is_embryonic());
    let sent = solo.poll_one();
    assert_eq!(
        (sent.brief(), sent.ack()),
        ((0, 0, Flags::SYN | Flags::ACK), 1)
    );
    assert_eq!(sent.options.timestamps.unwrap().echo, 500);
    assert_eq!(sent.options.window_scale, Some(7));
    solo.timestamps = Some(Timestamps {
        value: 501,
        echo: sent.options.timestamps.unwrap().value,
    });
    solo.window = 100;
    solo.receive(ack(1, 1));
    assert_eq!(solo.state(), State::Established);
    assert!(!solo.connection.is_embryonic());
    assert_eq!(solo.connection.info(solo.now).snd_wnd, 100 << 7);
    solo.assert_silent();
}

// Requirement: RFC 7323 2.2-1
#[test]
fn passive_open_leaves_out_what_the_syn_did_not_offer() {
    let bare = syn(HeaderOptions::default());
    let sent = Solo::accepting(Config::default(), &bare).poll_one();
    let expected = HeaderOptions {
        mss: Some(1460),
        ..HeaderOptions::default()
    };
    assert_eq!(sent.options, expected);
}

#[test]
fn the_last_ack_may_bring_data_and_fin() {
    let mut solo = Solo::accepting(Config::default(), &syn(HeaderOptions::default()));
    solo.poll();
    let segment = Segment {
        flags: FIN_ACK,
        ..data(1, 1, b"hello")
    };
    solo.receive(segment);
    assert_eq!(solo.state(), State::CloseWait);
    assert_eq!(solo.read(), b"hello");
    solo.skip_to_timer();
    assert_eq!(solo.poll_one().ack(), 7);
}

#[test]
fn rfc9293_3_10_7_3_an_ack_of_something_else_is_reset() {
    for number in [0, 2, 77] {
        let mut solo = Solo::connecting(Config::default(), Options::default());
        solo.poll();
        solo.receive(Segment {
            ack: number,
            ..syn_ack(HeaderOptions::default())
        });
        let sent = solo.poll_one();
        assert_eq!(sent.brief(), (number, 0, Flags::RST));
        assert_eq!(solo.state(), State::SynSent);
    }
}

#[test]
fn rfc9293_3_10_7_3_a_reset_counts_with_an_acceptable_ack_only() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.poll();
    solo.receive(rst(0));
    solo.receive(Segment {
        ack: 5,
        flags: Flags::RST | Flags::ACK,
        ..Segment::default()
    });
    assert_eq!(solo.state(), State::SynSent);
    solo.assert_silent();
    solo.receive(Segment {
        ack: 1,
        flags: Flags::RST | Flags::ACK,
        ..Segment::default()
    });
    assert_eq!(solo.events(), [Event::Failed, Event::Closed]);
    assert_eq!(solo.connection.take_error(), Some(Error::Refused));
    solo.assert_silent();
}

// Requirement: RFC 9293 MUST-10
#[test]
fn rfc9293_figure8_simultaneous_open() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.poll();
    solo.receive(Segment {
        flags: Flags::SYN,
        ..Segment::default()
    });
    assert_eq!(solo.state(), State::SynReceived);
    let sent = solo.poll_one();
    assert_eq!(
        (sent.brief(), sent.ack()),
        ((0, 0, Flags::SYN | Flags::ACK), 1)
    );
    solo.receive(syn_ack(HeaderOptions::default()));
    assert_eq!(solo.state(), State::Established);
    assert!(solo.events().contains(&Event::Connected));
}

// Requirement: RFC 9293 MUST-22
#[test]
fn syn_is_repeated_with_equal_and_then_doubling_intervals_as_in_linux() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    solo.poll();
    for seconds in [1, 1, 1, 1, 1, 2, 4, 8, 16, 32] {
        assert_eq!(solo.skip_to_timer(), ms(1000 * seconds));
        assert_eq!(solo.poll_one().brief(), (0, 0, Flags::SYN));
    }
    assert_eq!(solo.skip_to_timer(), ms(64_000));
    assert_eq!(solo.events(), [Event::Failed, Event::Closed]);
    assert_eq!(solo.connection.take_error(), Some(Error::TimedOut));
}

#[test]
fn an_embryonic_connection_dies_silently() {
    let mut solo = Solo::accepting(Config::default(), &syn(HeaderOptions::default()));
    solo.poll();
    for _ in 0..5 {
        solo.skip_to_timer();
        assert_eq!(solo.poll_one().flags, Flags::SYN | Flags::ACK);
    }
    solo.skip_to_timer();
    assert_eq!(solo.events(), [Event::Closed]);
    assert_eq!(solo.connection.take_error(), None);

    let mut solo = Solo::accepting(Config::default(), &syn(HeaderOptions::default()));
    solo.poll();
    solo.receive(rst(1));
    assert_eq!(solo.events(), [Event::Closed]);
}

#[test]
fn a_repeated_syn_is_answered_again() {
    let mut solo = Solo::accepting(Config::default(), &syn(HeaderOptions::default()));
    solo.poll();
    solo.receive(Segment {
        flags: Flags::SYN,
        ..Segment::default()
    });
    assert_eq!(solo.poll_one().flags, Flags::SYN | Flags::ACK);
    assert_eq!(solo.state(), State::SynReceived);
}

#[test]
fn rfc9293_3_10_7_4_an_unacceptable_ack_in_syn_received_is_reset() {
    let mut solo = Solo::accepting(Config::default(), &syn(HeaderOptions::default()));
    solo.poll();
    solo.receive(ack(1, 2));
    assert_eq!(solo.poll_one().brief(), (2, 0, Flags::RST));
    assert_eq!(solo.state(), State::SynReceived);
}

// Requirement: RFC 9293 SHLD-8; RFC 3168 6.1.1-1
#[test]
fn rfc3168_6_1_1_ecn_is_asked_for_and_agreed_to() {
    let config = Config {
        ecn: EcnMode::On,
        ..Config::default()
    };
    let mut solo = Solo::connecting(config, Options::default());
    let ask = Flags::SYN | Flags::ECE | Flags::CWR;
    assert_eq!(solo.poll_one().flags, ask);
    let mut answer = syn_ack(HeaderOptions::default());
    answer.flags |= Flags::ECE;
    solo.receive(answer);
    assert!(solo.connection.info(solo.now).has_ecn);

    let mut passive = Solo::accepting(
        Config::default(),
        &Header {
            flags: ask,
            ..syn(HeaderOptions::default())
        },
    );
    assert_eq!(
        passive.poll_one().flags,
        Flags::SYN | Flags::ACK | Flags::ECE
    );
}

#[test]
fn two_connections_shake_hands() {
    let mut pair = Pair::established();
    let now = pair.now;
    for index in 0..2 {
        let info = pair.host(index).info(now);
        assert!(info.has_sack && info.has_timestamps && info.window_scales.is_some());
        assert_eq!(info.rtt, ms(20));
    }
}

/// RFC 5681 §3.1; as in Linux one lost SYN may be chance.
#[test]
fn data_begins_with_one_segment_after_two_lost_syns() {
    for (lost, expected) in [(1, 10), (2, 1)] {
        let mut solo = Solo::connecting(Config::default(), Options::default());
        solo.poll();
        for _ in 0..lost {
            solo.skip_to_timer();
            assert_eq!(solo.poll_one().flags, Flags::SYN);
        }
        solo.receive(syn_ack(HeaderOptions {
            mss: Some(1000),
            ..HeaderOptions::default()
        }));
        solo.poll();
        solo.write(&[0; 12_000]);
        assert_eq!(solo.poll().len(), expected, "{lost} lost");
    }
}
