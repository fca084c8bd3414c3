//! Options on the wire: RFC 9293 §3.1, RFC 7323 §1.3, RFC 2018 §2.

use super::super::harness::*;
use crate::{Config, Options};
use wire::tcp::Options as HeaderOptions;

// Requirement: RFC 9293 MUST-4, MUST-6, MUST-64, MUST-68
#[test]
fn unknown_options_are_skipped_wherever_they_are() {
    // Kind 253 (RFC 4727), with one octet of data or none, moves MSS off every boundary.
    for unknown in [&[253, 2][..], &[253, 3, 9], &[1, 253, 5, 1, 2, 3]] {
        let list = [unknown, &[2, 4, 0x05, 0xb4], unknown, &[1, 0]].concat();
        let parsed = HeaderOptions::parse(&list, true);
        let expected = HeaderOptions {
            mss: Some(1460),
            ..HeaderOptions::default()
        };
        assert_eq!(parsed, expected, "{list:?}");
    }
}

// Requirement: RFC 2018 2-1, 2-2
#[test]
fn without_permission_nothing_is_reported() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    assert!(solo.poll_one().options.sack_permitted);
    solo.receive(syn_ack(HeaderOptions::default()));
    solo.poll();
    solo.receive(data(1001, 1, &[0; 1000]));
    let sent = solo.poll_one();
    assert_eq!((sent.ack(), sent.sack()), (1, vec![]));
}

// Requirement: RFC 7323 2.2-1, 2.3-1, 2.3-3
#[test]
fn windows_are_scaled_but_for_those_of_syns() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    let syn = solo.poll_one();
    let shift = syn.options.window_scale.unwrap();
    assert!(shift > 0);
    solo.window = 1000;
    solo.receive(syn_ack(HeaderOptions {
        window_scale: Some(3),
        ..HeaderOptions::default()
    }));
    assert_eq!(solo.connection.info(solo.now).snd_wnd, 1000);
    let sent = solo.poll_one();
    assert_eq!(sent.options.window_scale, None);
    let offered = u32::from(sent.window) << shift;
    assert!(offered >= u32::from(syn.window), "{offered}");
    solo.receive(ack(1, 1));
    assert_eq!(solo.connection.info(solo.now).snd_wnd, 1000 << 3);
}
