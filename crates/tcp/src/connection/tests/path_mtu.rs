//! The segment size of the path: RFC 1191, RFC 4821.

use std::time::Duration;

use super::harness::*;
use crate::{CaState, Config, MtuProbing, Options};

/// ESTABLISHED with a peer that takes all that an Ethernet does, after enough was acknowledged for
/// a window of eleven segments.
fn probing() -> Solo {
    let config = Config {
        mtu_probing: MtuProbing::Always,
        base_mss: 512,
        ..Config::default()
    };
    let mut solo = Solo::established_with_peer(config, Options::default(), 1460);
    solo.write(&[0; 5120]);
    assert_eq!(lens(&solo.poll()), [512; 10]);
    solo.now = solo.now + ms(20);
    solo.receive(ack(1, 5121));
    solo
}

fn lens(sent: &[Sent]) -> Vec<usize> {
    sent.iter().map(|sent| sent.payload.len()).collect()
}

// Requirement: RFC 4821 7.7-1
#[test]
fn rfc4821_a_path_that_swallows_large_segments_gets_smaller_ones() {
    let config = Config {
        mtu_probing: MtuProbing::AfterBlackHole,
        ..Config::default()
    };
    let mut solo = Solo::established_with(config, Options::default());
    solo.write(&[0; 3000]);
    solo.poll();
    let sent = solo.advance(Duration::from_secs(30));
    let last = sent.last().expect("it was sent again");
    assert!(last.payload.len() < 800, "{sent:?}");
    assert_eq!(last.seq(), 1);
}

#[test]
fn a_path_mtu_that_grows_again_is_used() {
    let mut solo = Solo::established();
    solo.connection.set_path_mtu(600);
    solo.write(&[0; 1000]);
    assert_eq!(briefs(&solo.poll()), [(1, 560, ACK), (561, 440, PSH_ACK)]);
    solo.receive(ack(1, 1001));
    solo.connection.set_path_mtu(1500);
    solo.write(&[0; 1000]);
    assert_eq!(solo.poll_one().payload.len(), 1000);
}

// Requirement: RFC 4821 7.3-1, 7.6.1-1
#[test]
fn rfc4821_7_6_1_segments_grow_to_what_has_arrived() {
    let mut solo = probing();
    solo.write(&[0; 8000]);
    // (552 + 1500) / 2 = 1026
    let sent = lens(&solo.poll());
    assert_eq!(sent[..3], [986, 512, 512]);
    assert_eq!(sent.iter().sum::<usize>(), 8000);
    solo.now = solo.now + ms(20);
    solo.receive(ack(1, 13_121));
    assert_eq!(solo.connection.info(solo.now).snd_mss, 986);
    // (1026 + 1500) / 2 = 1263
    solo.write(&[0; 9000]);
    assert_eq!(lens(&solo.poll())[..3], [1223, 986, 986]);
}

// Requirement: RFC 4821 7.6.2-1
#[test]
fn rfc4821_7_6_2_the_loss_of_a_probe_alone_is_not_congestion() {
    let mut solo = probing();
    solo.write(&[0; 4000]);
    solo.poll();
    let cwnd = |solo: &Solo| solo.connection.info(solo.now).snd_cwnd;
    let before = cwnd(&solo);
    solo.now = solo.now + ms(20);
    let start = 5121;
    for count in 1..=3 {
        let block = (start + 986, start + 986 + 512 * count);
        solo.receive(sack(start, &[block]));
    }
    // Again, in segments that are known to arrive.
    assert_eq!(
        briefs(&solo.poll()),
        [(start, 512, ACK), (start + 512, 474, ACK)]
    );
    assert_eq!(cwnd(&solo), before);
    assert_eq!(solo.connection.info(solo.now).ca_state, CaState::Disorder);
    solo.now = solo.now + ms(20);
    solo.receive(ack(1, start + 4000));
    assert_eq!(solo.connection.info(solo.now).ca_state, CaState::Open);
    assert!(cwnd(&solo) >= before);
    // (552 + 1025) / 2 = 788
    solo.write(&[0; 4000]);
    assert_eq!(lens(&solo.poll())[..2], [748, 512]);
}

// Requirement: RFC 4821 7.6.4-1
#[test]
fn rfc4821_7_6_4_a_probe_that_is_lost_with_others_is_tried_again() {
    let mut solo = probing();
    solo.write(&[0; 4000]);
    solo.poll();
    let sent = solo.advance(Duration::from_secs(1));
    let again = sent.iter().find(|sent| sent.seq() == 5121);
    assert_eq!(again.map(|sent| sent.payload.len()), Some(512), "{sent:?}");
    solo.receive(ack(1, 9121));
    assert_eq!(solo.connection.info(solo.now).snd_mss, 512);
    // The window after the timeout is too small for a probe at first.
    let mut acked = 9121;
    let mut sizes = Vec::new();
    for _ in 0..10 {
        solo.write(&[0; 5000]);
        sizes.extend(lens(&solo.poll()));
        acked += 5000;
        solo.now = solo.now + ms(20);
        while solo.connection.unacknowledged_len() > 0 {
            let unsent = u32::try_from(solo.connection.unsent_len()).unwrap();
            solo.receive(ack(1, acked - unsent));
            sizes.extend(lens(&solo.poll()));
        }
    }
    let largest: Vec<usize> = sizes.iter().copied().filter(|len| *len > 512).collect();
    assert_eq!(largest.first(), Some(&986), "{sizes:?}");
}

#[test]
fn rfc4821_7_7_after_a_black_hole_segments_grow_again() {
    let config = Config {
        mtu_probing: MtuProbing::AfterBlackHole,
        base_mss: 512,
        ..Config::default()
    };
    let mut solo = Solo::established_with(config, Options::default());
    solo.write(&[0; 1000]);
    assert_eq!(lens(&solo.poll()), [1000]);
    let mut sent = Vec::new();
    while lens(&sent).iter().all(|len| *len > 512) {
        solo.skip_to_timer();
        sent = solo.poll();
    }
    assert_eq!(lens(&sent), [512, 488]);
    let mut acked = 1;
    let mut largest = 0;
    for _ in 0..40 {
        solo.now = solo.now + ms(20);
        acked += 15_000;
        solo.write(&[0; 15_000]);
        while solo.connection.unacknowledged_len() > 0 {
            let unsent = u32::try_from(solo.connection.unsent_len()).unwrap();
            solo.receive(ack(1, acked + 1000 - unsent));
            let sent = lens(&solo.poll());
            largest = largest.max(sent.into_iter().max().unwrap_or(0));
        }
    }
    // The bounds are so close that there is nothing to gain.
    assert!(largest > 990, "{largest}");
    assert_eq!(solo.connection.info(solo.now).snd_mss as usize, largest);
}

#[test]
fn rfc1191_a_router_that_refuses_a_probe_ends_it() {
    let mut solo = probing();
    solo.write(&[0; 4000]);
    solo.poll();
    let seq = crate::SeqNumber(ISS.wrapping_add(5121));
    let error = crate::IcmpError::PacketTooBig { mtu: 900 };
    solo.connection.on_icmp(error, seq);
    assert_eq!(briefs(&solo.poll()), [(5121, 512, ACK), (5633, 474, ACK)]);
    solo.now = solo.now + ms(20);
    solo.receive(ack(1, 9121));
    // (552 + 900) / 2 = 726
    solo.write(&[0; 4000]);
    assert_eq!(lens(&solo.poll())[..2], [686, 512]);
}

#[test]
fn without_sack_nobody_would_know_what_was_lost() {
    let config = Config {
        mtu_probing: MtuProbing::Always,
        sack: false,
        ..Config::default()
    };
    let mut solo = Solo::established_with(config, Options::default());
    for round in 0..20 {
        solo.write(&[0; 8000]);
        assert!(lens(&solo.poll()).iter().all(|len| *len <= 1000));
        solo.receive(ack(1, 1 + 8000 * (round + 1)));
    }
}

// Requirement: RFC 4821 7.4-1
#[test]
fn a_probe_needs_data_and_window_behind_it() {
    let mut solo = probing();
    // Four segments of 512 octets follow one of 986.
    solo.write(&[0; 986 + 4 * 512 - 1]);
    assert!(lens(&solo.poll()).iter().all(|len| *len <= 512));
    let mut acked = 5121 + 986 + 4 * 512 - 1;
    solo.receive(ack(1, acked));
    solo.window = 986 + 4 * 512 - 1;
    solo.receive(ack(1, acked));
    solo.write(&[0; 2000]);
    assert!(lens(&solo.poll()).iter().all(|len| *len <= 512));
    acked += 2000;
    solo.window = 20_000;
    solo.receive(ack(1, acked));
    solo.write(&[0; 6000]);
    let sent = lens(&solo.poll());
    assert_eq!(sent[0], 986);
    assert!(sent[1..].iter().all(|len| *len <= 512), "one at a time");
}
