//! Parts without a path.

use super::super::control::without_margin;
use super::super::full_pipe::FullPipe;
use super::super::samples::Sample;
use super::*;

fn sample(rate: u64) -> Sample {
    Sample {
        has_data: true,
        rate,
        ..Sample::default()
    }
}

// Requirement: draft-ietf-ccwg-bbr 5.3.1-3
#[test]
fn three_round_trips_without_a_quarter_more_are_a_full_pipe() {
    let mut pipe = FullPipe::default();
    for rate in [100, 125, 157] {
        pipe.check(&sample(rate), true);
    }
    for _ in 0..2 {
        pipe.check(&sample(190), true);
        // Neither within a round trip nor of what the application holds back.
        pipe.check(&sample(1_000), false);
        let limited = Sample {
            is_app_limited: true,
            ..sample(10)
        };
        pipe.check(&limited, true);
        assert!(!pipe.is_reached);
    }
    pipe.check(&sample(190), true);
    assert!(pipe.is_now && pipe.is_reached);
    pipe.reset(0);
    assert!(!pipe.is_now && pipe.is_reached);
}

#[test]
fn the_highest_rate_of_two_cycles_counts() {
    let mut path = Path::cruising();
    let high = path.bbr.bandwidth.max();
    path.bbr.bandwidth.advance();
    assert_eq!(path.bbr.bandwidth.max(), high);
    path.bbr.bandwidth.advance();
    assert_eq!(path.bbr.bandwidth.max(), high, "a cycle without samples");
    path.run_for(Duration::from_millis(60));
    path.bbr.bandwidth.advance();
    assert!(path.bbr.bandwidth.max() <= high);
    assert!(path.bbr.bandwidth.max() > 0);
}

// Requirement: draft-ietf-ccwg-bbr 5.6.2-1, 5.6.3-1
#[test]
fn the_rate_is_below_the_models_by_a_margin_and_the_quantum_a_millisecond() {
    let mut path = Path::cruising();
    path.bbr.bw = 10_000_000;
    path.bbr.set_pacing_rate_with_gain(100);
    assert_eq!(path.bbr.pacing_rate(), 9_900_000);
    assert_eq!(without_margin(9_900_000), 10_000_000);
    assert_eq!(path.bbr.send_quantum(), 9_900);
    path.bbr.pacing_rate = 1_000;
    assert_eq!(path.bbr.send_quantum(), 2 * MSS);
    path.bbr.pacing_rate = u64::MAX;
    assert_eq!(path.bbr.send_quantum(), 65_536);
}

#[test]
fn the_first_rate_is_the_initial_window_in_a_round_trip_with_the_gain() {
    let path = Path::new(1_000_000, Duration::from_millis(10));
    assert_eq!(path.bbr.pacing_rate(), 10_000 * 100 * 277 / 100);
    let unknown = Bbr::new(&path.window, 10_000);
    assert_eq!(unknown.pacing_rate(), 10_000 * 1_000 * 277 / 100);
    assert_eq!(unknown.bdp(100), 10_000, "the initial window");
}

// Requirement: draft-ietf-ccwg-bbr 5.6.4-1
#[test]
fn the_window_grows_by_what_is_delivered_and_is_never_below_four_segments() {
    let mut path = Path::cruising();
    path.window.cwnd = 4 * MSS;
    path.bbr.set_cwnd(&mut path.window, 3 * MSS);
    assert_eq!(path.window.cwnd, 7 * MSS);
    path.window.cwnd = MAX;
    path.bbr.set_cwnd(&mut path.window, MSS);
    let most = 2 * path.bdp() + path.bbr.aggregation.extra_acked();
    assert!(path.window.cwnd <= most + most / 50);
    path.bbr.bounds.inflight_shortterm = 1;
    path.bbr.set_cwnd(&mut path.window, MSS);
    assert_eq!(path.window.cwnd, 4 * MSS);
}

const MAX: u32 = crate::congestion::MAX_CWND;

// Requirement: draft-ietf-ccwg-bbr 5.3.3-6
#[test]
fn connections_wait_for_different_times_of_two_to_three_seconds() {
    let waits = [1, 2, 3, 4].map(|seed| {
        let mut path = Path::cruising();
        path.bbr.probing.seed(seed);
        path.bbr.start_down(path.now);
        path.bbr.probing_wait()
    });
    for wait in waits {
        assert!((2_000_000_000..3_000_000_000).contains(&wait), "{wait}");
    }
    assert!(waits.windows(2).all(|pair| pair[0] != pair[1]), "{waits:?}");
}

// Requirement: draft-ietf-ccwg-bbr 4.1-1
#[test]
fn a_sample_is_what_was_delivered_since_the_segment_left() {
    let mut sampler = Sampler::default();
    let at = |millis: u64| Instant::from_nanos(1_000_000 * millis);
    let sent = |sampler: &mut Sampler, millis, end: u32, is_alone| {
        sampler.on_sent(&Transmission {
            now: at(millis),
            octets: MSS,
            end: SeqNumber(end * MSS),
            is_alone,
            in_flight: end * MSS,
            snd_una: SeqNumber(0),
            snd_nxt: SeqNumber(end * MSS),
        });
    };
    sent(&mut sampler, 0, 1, true);
    sent(&mut sampler, 0, 2, false);
    sent(&mut sampler, 5, 3, false);
    let acked = |sampler: &mut Sampler, millis, sent_at, end: u32, delivered| {
        sampler.on_delivered(delivered, at(millis));
        let ack = Ack {
            now: at(millis),
            snd_una: SeqNumber(end * MSS),
            snd_nxt: SeqNumber(3 * MSS),
            acked: delivered,
            delivered,
            in_flight: 0,
            is_safe: true,
            rtt: Some(Duration::from_millis(10)),
            newest: Some((at(sent_at), SeqNumber(end * MSS))),
        };
        sampler.on_ack(&ack, None)
    };
    let first = acked(&mut sampler, 10, 0, 1, MSS);
    assert_eq!((first.rate, first.in_flight), (100_000, MSS));
    let second = acked(&mut sampler, 12, 0, 2, MSS);
    assert_eq!((second.delivered, second.in_flight), (2_000, 2 * MSS));
    assert_eq!(second.rate, 166_666);
    // The rest of a burst: not faster than a round trip allows.
    let third = acked(&mut sampler, 15, 5, 3, MSS);
    assert_eq!((third.delivered, third.prior_delivered), (3_000, 0));
    assert_eq!(third.rate, 200_000);
    let nothing = acked(&mut sampler, 16, 5, 3, 0);
    assert!(!nothing.has_data);
    let unknown = acked(&mut sampler, 17, 4, 3, MSS);
    assert!(!unknown.has_data && unknown.newly_acked == MSS);
}

/// A connection without SACK, which shows no losses but the first, believes each.
#[test]
fn without_reports_each_loss_is_one_too_many() {
    let mut path = Path::cruising();
    assert!(!path.bbr.is_inflight_too_high(1_000, 100_000));
    assert!(!path.bbr.is_inflight_too_high(2_000, 100_000));
    assert!(path.bbr.is_inflight_too_high(2_001, 100_000));
    path.bbr.has_sack = false;
    assert!(path.bbr.is_inflight_too_high(1, 100_000));
    assert!(!path.bbr.is_inflight_too_high(0, 100_000));
}

/// No number that comes from times or amounts overflows.
#[test]
fn extreme_rates_and_times_are_bounded() {
    assert_eq!(octets_in(u64::MAX, 1), 18_446_744_073);
    assert!(octets_in(u64::MAX, u64::MAX) > 0);
    assert_eq!(octets_in(1_000_000_000, 1_000_000_000), 1_000_000_000);
    assert_eq!(octets(u64::MAX), UNBOUNDED);
    let mut path = Path::new(1, Duration::from_secs(100));
    path.send();
    path.acknowledge();
    assert!(path.bbr.pacing_rate() > 0);
    assert!(path.window.cwnd >= 4 * MSS);
}
