//! The states, on a path.

use super::*;

const RATE: u64 = 10_000_000;
const RTT: Duration = Duration::from_millis(20);

/// `actual` is at most `percent` away from `expected`.
fn assert_close(actual: u64, expected: u64, percent: u64) {
    let tolerance = expected * percent / 100;
    assert!(
        actual.abs_diff(expected) <= tolerance,
        "{actual} instead of {expected}"
    );
}

// Requirement: draft-ietf-ccwg-bbr 5.3.1-1, 5.3.2-1
#[test]
fn startup_finds_the_rate_and_drain_empties_the_queue() {
    let mut path = Path::new(RATE, RTT);
    assert_eq!(path.bbr.pacing_gain(), 277);
    // Down is over at once: nothing is too much.
    path.run_until(State::ProbeBw(Cycle::Cruise));
    let is_short = matches!(
        path.states[..],
        [
            State::Startup,
            State::Drain { .. },
            State::ProbeBw(Cycle::Cruise)
        ]
    );
    assert!(is_short, "{:?}", path.states);
    assert_close(path.bbr.bandwidth.max(), RATE, 2);
    let rtt = path.bbr.min_rtt.nanos().expect("it was measured");
    assert_close(rtt, 20_000_000, 2);
    assert!(path.in_flight() <= path.bbr.inflight(path.bbr.bw, 100));
    // Doubling each round trip, ten segments are 200 after five; three more show that it is all.
    assert!(path.bbr.rounds.count <= 14, "{}", path.bbr.rounds.count);
    assert_eq!(path.lost, 0);
}

// Requirement: draft-ietf-ccwg-bbr 5.3.2-2
#[test]
fn drain_ends_after_three_round_trips_whatever_is_in_flight() {
    let mut path = Path::new(RATE, RTT);
    while !matches!(path.bbr.state, State::Drain { .. }) {
        path.step();
    }
    let much = At {
        now: path.now,
        in_flight: 10 * path.bdp(),
        is_window_limited: false,
    };
    for _ in 0..=3 {
        path.bbr.check_drain_done(&much);
        assert!(matches!(path.bbr.state, State::Drain { .. }));
        path.bbr.rounds.count += 1;
    }
    path.bbr.check_drain_done(&much);
    assert_eq!(path.bbr.state, State::ProbeBw(Cycle::Down));
}

// Requirement: draft-ietf-ccwg-bbr 5.3.1-2
#[test]
fn startup_ends_by_losses_of_many_ranges_and_remembers_what_was_in_flight() {
    let mut path = Path::new(RATE, RTT);
    path.run_for(RTT * 4);
    let lossy = samples::Sample {
        has_data: true,
        lost: 2_100,
        in_flight: 100_000,
        ..Default::default()
    };
    path.bbr.latest.has_round_started = true;
    path.bbr.losses.recovering_since = Some(path.bbr.rounds.count - 1);
    path.bbr.losses.ranges_in_round = 5;
    path.bbr.check_startup_done(&lossy);
    assert_eq!(path.bbr.state, State::Startup);
    path.bbr.losses.ranges_in_round = 6;
    path.bbr.check_startup_done(&lossy);
    assert!(matches!(path.bbr.state, State::Drain { .. }));
    assert_ne!(path.bbr.bounds.inflight_longterm, UNBOUNDED);
    // A few losses are noise.
    let mut noisy = Path::new(RATE, RTT);
    noisy.lose_every = 150;
    noisy.run_until(State::ProbeBw(Cycle::Cruise));
    assert_eq!(noisy.bbr.bounds.inflight_longterm, UNBOUNDED);
    assert_close(noisy.bbr.bandwidth.max(), RATE, 5);
}

// Requirement: draft-ietf-ccwg-bbr 5.3.3-1, 5.3.3-2, 5.3.3-3, 5.3.3-4
#[test]
fn the_cycle_goes_down_cruises_refills_and_goes_up() {
    let mut path = Path::cruising();
    path.states.clear();
    let begun = path.bbr.probing.since;
    path.run_until(State::ProbeBw(Cycle::Refill));
    let waited = path.now.saturating_since(begun);
    assert!(waited <= Duration::from_millis(3_100), "{waited:?}");
    assert_eq!(path.bbr.probing.ack_phase, AckPhase::Refilling);
    let round = path.bbr.rounds.count;
    path.run_until(State::ProbeBw(Cycle::Up));
    assert_eq!(path.bbr.rounds.count, round + 1);
    assert_eq!((path.bbr.pacing_gain(), path.bbr.cwnd_gain()), (125, 225));
    path.run_until(State::ProbeBw(Cycle::Down));
    assert_eq!(path.bbr.pacing_gain(), 90);
    path.run_until(State::ProbeBw(Cycle::Cruise));
    let [.., refill, up, down, cruise] = path.states[..] else {
        panic!("{:?}", path.states);
    };
    assert_eq!(
        [refill, up, down, cruise],
        [Cycle::Refill, Cycle::Up, Cycle::Down, Cycle::Cruise].map(State::ProbeBw)
    );
    assert_close(path.bbr.bandwidth.max(), RATE, 2);
}

// Requirement: draft-ietf-ccwg-bbr 5.5.3-1
#[test]
fn a_path_that_becomes_faster_or_slower_is_followed() {
    let mut path = Path::cruising();
    path.rate = 2 * RATE;
    path.run_for(Duration::from_secs(12));
    assert_close(path.bbr.bandwidth.max(), 2 * RATE, 10);
    path.rate = RATE / 2;
    path.run_for(Duration::from_secs(15));
    assert_close(path.bbr.bandwidth.max(), RATE / 2, 30);
}

// Requirement: draft-ietf-ccwg-bbr 5.3.4-1, 5.3.4-2
#[test]
fn the_round_trip_is_looked_for_every_five_seconds_with_half_of_the_path_in_flight() {
    let mut path = Path::cruising();
    let begun = path.now;
    path.run_until(State::ProbeRtt);
    let waited = path.now.saturating_since(begun);
    assert!(waited <= Duration::from_millis(5_100), "{waited:?}");
    let entered = path.now;
    path.run_for(Duration::from_millis(100));
    assert!(path.in_flight() <= path.bdp() / 2 + 4 * MSS);
    while path.bbr.state == State::ProbeRtt {
        path.step();
    }
    let lasted = path.now.saturating_since(entered);
    assert!(lasted >= Duration::from_millis(200), "{lasted:?}");
    assert!(lasted <= Duration::from_millis(300), "{lasted:?}");
    assert_eq!(path.bbr.state, State::ProbeBw(Cycle::Cruise));
    path.run_for(Duration::from_millis(500));
    assert!(path.in_flight() > path.bdp() * 8 / 10, "the window is back");
}

// Requirement: draft-ietf-ccwg-bbr 5.5.7-1
#[test]
fn a_longer_path_is_believed_after_ten_seconds() {
    let mut path = Path::cruising();
    path.rtt = 2 * RTT;
    path.run_for(Duration::from_secs(16));
    let rtt = path.bbr.min_rtt.nanos().expect("it was measured");
    assert!(rtt >= 39_000_000, "{rtt}");
}

// Requirement: draft-ietf-ccwg-bbr 5.5.10-1
#[test]
fn more_than_two_percent_of_loss_while_probing_bounds_what_is_in_flight() {
    let mut path = Path::cruising();
    path.run_until(State::ProbeBw(Cycle::Up));
    path.queue = 10;
    path.run_until(State::ProbeBw(Cycle::Down));
    assert!(path.bbr.probing.was_too_high);
    let longterm = path.bbr.bounds.inflight_longterm;
    assert!(longterm >= path.bdp() * 7 / 10, "{longterm}");
    assert!(longterm <= path.bdp() * 14 / 10, "{longterm}");
    path.run_until(State::ProbeBw(Cycle::Cruise));
    path.run_for(RTT);
    assert!(
        path.window.cwnd <= longterm - longterm * 15 / 100,
        "headroom"
    );
}

// Requirement: draft-ietf-ccwg-bbr 5.3.3-5
#[test]
fn the_probe_after_one_that_went_too_high_ends_at_that_level_and_the_next_goes_on() {
    let mut path = Path::cruising();
    // Acknowledgements still tell of the queue of Startup.
    path.run_for(RTT * 3);
    path.bbr.probing.was_too_high = true;
    path.bbr.bounds.inflight_longterm = path.bdp();
    path.run_until(State::ProbeBw(Cycle::Up));
    path.run_until(State::ProbeBw(Cycle::Down));
    assert!(!path.bbr.probing.was_too_high);
    let down_at = path.now;
    path.run_until(State::ProbeBw(Cycle::Refill));
    let waited = path.now.saturating_since(down_at);
    assert!(waited <= 4 * RTT, "at once: {waited:?}");
    path.run_until(State::ProbeBw(Cycle::Up));
    path.run_until(State::ProbeBw(Cycle::Down));
    assert!(path.bbr.bounds.inflight_longterm > path.bdp());
}

// Requirement: draft-ietf-ccwg-bbr 5.5.10-2
#[test]
fn losses_while_cruising_lower_the_short_term_bounds_until_the_next_probe() {
    let mut path = Path::cruising();
    path.lose_every = 20;
    path.run_for(6 * RTT);
    assert_eq!(path.bbr.state, State::ProbeBw(Cycle::Cruise));
    let bounds = path.bbr.bounds;
    assert!(bounds.bw_shortterm < RATE, "{}", bounds.bw_shortterm);
    assert!(bounds.bw_shortterm > RATE / 2, "{}", bounds.bw_shortterm);
    assert!(bounds.inflight_shortterm != UNBOUNDED);
    assert_eq!(bounds.inflight_longterm, UNBOUNDED);
    path.run_until(State::ProbeBw(Cycle::Refill));
    assert_eq!(path.bbr.bounds.bw_shortterm, UNBOUNDED_RATE);
    assert_eq!(path.bbr.bounds.inflight_shortterm, UNBOUNDED);
}

/// One percent of loss by chance leaves most of the path, however long that lasts.
#[test]
fn one_percent_of_loss_costs_little() {
    let mut path = Path::cruising();
    path.lose_every = 100;
    path.run_for(Duration::from_secs(5));
    let (sent, begun) = (path.sent, path.now);
    path.run_for(Duration::from_secs(20));
    let octets = (path.sent - sent) * u64::from(MSS);
    let elapsed = path.now.saturating_since(begun).as_secs_f64();
    let share = octets as f64 / elapsed / RATE as f64;
    assert!(share > 0.85, "{share}");
}

// Requirement: draft-ietf-ccwg-bbr 5.4.1-1
#[test]
fn after_idleness_it_sends_at_the_rate_of_the_path() {
    let mut path = Path::cruising();
    while !path.under_way.is_empty() {
        path.acknowledge();
    }
    path.bbr.on_app_limited(0);
    path.bbr.pacing_rate = 1;
    path.now = path.now + Duration::from_secs(30);
    let cwnd = path.window.cwnd;
    path.send();
    assert_close(path.bbr.pacing_rate(), RATE, 2);
    assert_eq!(path.window.cwnd, cwnd);
    path.acknowledge();
    assert_ne!(
        path.bbr.state,
        State::ProbeRtt,
        "idleness has emptied the queue"
    );
}

// Requirement: draft-ietf-ccwg-bbr 5.5.4-1
#[test]
fn what_the_application_holds_back_does_not_lower_the_rate() {
    let mut path = Path::cruising();
    let known = path.bbr.bandwidth.max();
    for _ in 0..2_000 {
        while !path.under_way.is_empty() {
            path.acknowledge();
        }
        path.bbr.on_app_limited(0);
        path.now = path.now + RTT;
        path.send();
    }
    assert_eq!(path.bbr.bandwidth.max(), known);
}

// Requirement: draft-ietf-ccwg-bbr 5.5.11-1
#[test]
fn a_recovery_that_was_not_needed_is_taken_back() {
    let mut path = Path::cruising();
    path.run_until(State::ProbeBw(Cycle::Up));
    path.run_for(RTT * 2);
    assert_eq!(path.bbr.state, State::ProbeBw(Cycle::Up));
    let cwnd = path.window.cwnd;
    for segment in path.under_way.iter().take(20) {
        let lost = LostSegment {
            seq: segment.end - MSS,
            len: MSS,
            sent_at: segment.sent_at,
        };
        path.bbr.on_lost(&path.window, &lost, path.now);
    }
    path.bbr.on_recovery_begins(&path.window);
    assert_eq!(path.bbr.state, State::ProbeBw(Cycle::Down));
    assert_ne!(path.bbr.bounds.inflight_longterm, UNBOUNDED);
    path.window.cwnd = MSS;
    path.bbr.on_spurious(&mut path.window);
    assert_eq!(path.window.cwnd, cwnd);
    assert_eq!(path.bbr.bounds.inflight_longterm, UNBOUNDED);
    assert_eq!(path.bbr.state, State::ProbeBw(Cycle::Refill));
    // Only once.
    path.window.cwnd = MSS;
    path.bbr.on_spurious(&mut path.window);
    assert_eq!(path.window.cwnd, MSS);
}

/// The draft leaves the reaction to marks open, but there must be one.
// Requirement: draft-ietf-ccwg-bbr 3.7-1
#[test]
fn a_congestion_mark_counts_as_too_many_losses() {
    let mut path = Path::new(RATE, RTT);
    path.run_for(RTT * 3);
    path.bbr.on_mark(&path.window, path.in_flight(), path.now);
    assert!(path.bbr.full_pipe.is_reached);
    let mut path = Path::cruising();
    path.run_until(State::ProbeBw(Cycle::Up));
    path.bbr.on_mark(&path.window, path.in_flight(), path.now);
    assert_eq!(path.bbr.state, State::ProbeBw(Cycle::Down));
    assert_ne!(path.bbr.bounds.inflight_longterm, UNBOUNDED);
    let mut path = Path::cruising();
    path.bbr.on_mark(&path.window, path.in_flight(), path.now);
    path.run_for(RTT * 2);
    assert_ne!(path.bbr.bounds.inflight_shortterm, UNBOUNDED);
}
