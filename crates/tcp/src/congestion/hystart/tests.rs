use core::time::Duration;

use super::*;

const MSS: u32 = 1000;

struct Start {
    hystart: HyStart,
    window: Window,
    now: Instant,
    snd_una: SeqNumber,
}

impl Start {
    fn new() -> Self {
        Self {
            hystart: HyStart::default(),
            window: Window {
                cwnd: 16 * MSS,
                ssthresh: u32::MAX,
                mss: MSS,
            },
            now: Instant::ZERO + Duration::from_secs(1),
            snd_una: SeqNumber(u32::MAX - 10_000),
        }
    }

    /// A round in which every segment is acknowledged after that time, all at once.
    fn round(&mut self, rtt: Duration) {
        self.round_spaced(rtt, Duration::ZERO);
    }

    /// A round in which acknowledgements of a segment each, sent at once, come `spacing` apart.
    /// Nothing holds the sender back but its window.
    fn round_spaced(&mut self, rtt: Duration, spacing: Duration) {
        let segments = self.window.cwnd / MSS;
        let window_end = self.snd_una + segments * MSS;
        self.now = self.now + rtt.saturating_sub(spacing * segments);
        while self.snd_una < window_end {
            self.acknowledge(rtt, self.window.cwnd);
            self.now = self.now + spacing;
        }
    }

    /// `prior_in_flight` octets were in flight before the acknowledgement.
    fn acknowledge(&mut self, rtt: Duration, prior_in_flight: u32) {
        self.snd_una += MSS;
        let in_flight = prior_in_flight - MSS;
        self.hystart.on_ack(
            &mut self.window,
            &Ack {
                now: self.now,
                snd_una: self.snd_una,
                snd_nxt: self.snd_una + in_flight,
                acked: MSS,
                delivered: MSS,
                in_flight,
                is_safe: true,
                rtt: Some(rtt),
                newest: None,
            },
        );
    }

    fn is_conservative(&self) -> bool {
        self.hystart.conservative.is_some()
    }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn constant_round_trips_keep_the_window_doubling() {
    let mut start = Start::new();
    for round in 0..8 {
        assert_eq!(start.window.cwnd, (16 << round) * MSS);
        start.round(millis(40));
    }
    assert!(!start.is_conservative());
}

/// RFC 9406 §4.2, with the bounds of §4.3
// Requirement: RFC 9406 4.2-1
#[test]
fn an_eighth_more_delay_begins_conservative_slow_start() {
    // In microseconds.
    for (first, second, conservative) in [
        (80_000, 89_000, false),
        (80_000, 90_000, true),
        (800, 899, false),
        (800, 900, true),
        // Not less than 10 microseconds,
        (24, 33, false),
        (24, 34, true),
        // not more than 16 ms.
        (400_000, 415_000, false),
        (400_000, 416_000, true),
    ] {
        let mut start = Start::new();
        start.round(Duration::from_micros(first));
        start.round(Duration::from_micros(first));
        start.round(Duration::from_micros(second));
        assert_eq!(
            start.is_conservative(),
            conservative,
            "{first} us then {second} us"
        );
    }
}

// Requirement: RFC 9406 4.2-2
#[test]
fn too_few_samples_say_nothing() {
    let mut start = Start::new();
    start.window.cwnd = 4 * MSS;
    start.round(millis(10));
    start.window.cwnd = 4 * MSS;
    start.round(millis(100));
    assert!(!start.is_conservative());
}

/// RFC 9406 §4.2, with one round instead of five.
#[test]
fn slow_start_ends_if_round_trips_stay_long() {
    let mut start = Start::new();
    start.round(millis(10));
    start.round(millis(10));
    start.round(millis(30));
    assert!(start.is_conservative());
    let window = start.window.cwnd;
    start.round(millis(30));
    assert_eq!(start.window.ssthresh, window);
    assert!(!start.window.in_slow_start());
}

/// RFC 9406 §4.2: "If currentRoundMinRTT < cssBaselineMinRtt: resume slow start"
// Requirement: RFC 9406 4.2-5
#[test]
fn shorter_round_trips_resume_slow_start() {
    let mut start = Start::new();
    start.round(millis(10));
    start.round(millis(10));
    start.round(millis(30));
    assert!(start.is_conservative());
    let window = start.window.cwnd;
    start.round(millis(10));
    assert!(!start.is_conservative());
    assert!(start.window.in_slow_start());
    assert!(start.window.cwnd > window);
}

/// A peer that acknowledges dozens of segments at once gives too few samples to tell.
#[test]
fn a_round_without_enough_samples_resumes_slow_start() {
    let mut start = Start::new();
    start.round(millis(10));
    start.round(millis(10));
    start.round(millis(30));
    let window = start.window.cwnd;
    for _ in 0..2 {
        // The rest of the round is acknowledged with its last segment.
        start.snd_una += window;
        start.now = start.now + millis(30);
        start.acknowledge(millis(30), window);
    }
    assert!(!start.is_conservative());
    assert!(start.window.cwnd > window);
}

/// Segments that leave the bottleneck a millisecond apart: with round trips of 100 ms, a hundred
/// fill the path.
#[test]
fn slow_start_ends_at_one_and_a_half_times_what_the_path_holds() {
    for first_window in [20, 23, 27, 32, 37] {
        let mut start = Start::new();
        start.window.cwnd = first_window * MSS;
        for _ in 0..4 {
            start.round_spaced(millis(100), millis(1));
        }
        assert!(!start.window.in_slow_start());
        let segments = start.window.ssthresh / MSS;
        // A quarter more where a train begins just before that: so long it is measured.
        assert!((148..=176).contains(&segments), "{segments} segments");
    }
}

/// An application that writes as slowly as that has the rate of the train, too.
#[test]
fn the_rate_of_an_application_does_not_end_slow_start() {
    let mut start = Start::new();
    start.window.cwnd = 120 * MSS;
    for _ in 0..300 {
        start.acknowledge(millis(100), 100 * MSS);
        start.now = start.now + millis(1);
    }
    assert!(start.window.in_slow_start());
}

/// The next flight's acknowledgements tell nothing of the rate of this one's.
#[test]
fn a_pause_ends_the_train() {
    let mut start = Start::new();
    let acks = |start: &mut Start| {
        for _ in 0..20 {
            start.acknowledge(millis(100), start.window.cwnd);
            start.now = start.now + millis(1);
        }
    };
    start.window.cwnd = 60 * MSS;
    acks(&mut start);
    start.now = start.now + millis(60);
    acks(&mut start);
    assert!(start.window.in_slow_start());
}
