//! RFC 9293 §3.8.6; RFC 7323 §2.

use super::super::harness::*;
use crate::{Config, Options};
use wire::tcp::Options as HeaderOptions;

// Requirement: RFC 9293 SHLD-14
#[test]
fn the_right_edge_never_moves_back() {
    let mut solo = Solo::established();
    let mut edge = 1 + solo.connection.info(solo.now).rcv_wnd;
    let mut seq = 1;
    let mut buffer = [0; 700];
    for round in 0..200_u32 {
        let len = 1 + round * 37 % 1000;
        let len = len.min(edge.saturating_sub(seq));
        if len > 0 {
            solo.receive(data(seq, 1, &vec![0; len as usize]));
            seq += len;
        }
        if round % 3 == 0 {
            // Often there is nothing to read.
            let _ = solo.connection.read(solo.now, &mut buffer);
        }
        let mut sent = solo.poll();
        sent.extend(solo.advance(ms(100)));
        for sent in sent {
            let new = sent.ack() + u32::from(sent.window);
            assert!(new >= edge, "round {round}: from {edge} to {new}");
            edge = new;
        }
    }
    assert!(seq > edge / 2, "the window was never used: {seq} of {edge}");
}

// Requirement: RFC 9293 SHLD-29, MUST-35
#[test]
fn the_first_probe_comes_after_the_retransmission_timeout() {
    let mut solo = Solo::established();
    solo.block();
    let rto = solo.connection.info(solo.now).rto;
    assert_eq!(solo.skip_to_timer(), rto);
    assert_eq!(solo.poll_one().brief(), (0, 0, ACK));
}

// Requirement: RFC 7323 2.4-1
#[test]
fn all_data_within_a_scaled_window_is_taken() {
    let mut solo = Solo::connecting(Config::default(), Options::default());
    let shift = solo.poll_one().options.window_scale.unwrap();
    solo.receive(syn_ack(HeaderOptions {
        window_scale: Some(7),
        ..HeaderOptions::default()
    }));
    let mut edge = 1 + (u32::from(solo.poll_one().window) << shift);
    let mut seq = 1;
    // Sizes that no unit divides; nobody reads.
    while seq < edge {
        let len = 997.min(edge - seq);
        solo.receive(data(seq, 1, &vec![0; len as usize]));
        seq += len;
        assert_eq!(solo.connection.readable_len(), seq as usize - 1);
        let mut sent = solo.poll();
        sent.extend(solo.advance(ms(500)));
        for sent in sent {
            edge = edge.max(sent.ack() + (u32::from(sent.window) << shift));
        }
    }
    assert!(seq > 60_000);
}
