use core::time::Duration;

use super::*;
use crate::Instant;

const MSS: u32 = 1000;

struct Start {
    hystart: HyStart,
    window: Window,
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
            snd_una: SeqNumber(u32::MAX - 10_000),
        }
    }

    /// A round in which every segment is acknowledged after that time.
    fn round(&mut self, rtt_millis: u64) {
        self.round_in(Duration::from_millis(rtt_millis));
    }

    fn round_in(&mut self, rtt: Duration) {
        let segments = self.window.cwnd / MSS;
        let snd_nxt = self.snd_una + 2 * segments * MSS;
        for _ in 0..segments {
            self.snd_una += MSS;
            self.hystart.on_ack(
                &mut self.window,
                &Ack {
                    now: Instant::ZERO,
                    snd_una: self.snd_una,
                    snd_nxt: snd_nxt.min(self.snd_una + segments * MSS),
                    acked: MSS,
                    delivered: MSS,
                    in_flight: segments * MSS,
                    is_safe: true,
                    rtt: Some(rtt),
                },
            );
        }
    }

    fn is_conservative(&self) -> bool {
        self.hystart.conservative.is_some()
    }
}

#[test]
fn constant_round_trips_keep_the_window_doubling() {
    let mut start = Start::new();
    for round in 0..8 {
        assert_eq!(start.window.cwnd, (16 << round) * MSS);
        start.round(40);
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
        start.round_in(Duration::from_micros(first));
        start.round_in(Duration::from_micros(first));
        start.round_in(Duration::from_micros(second));
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
    start.round(10);
    start.window.cwnd = 4 * MSS;
    start.round(100);
    assert!(!start.is_conservative());
}

// Requirement: RFC 9406 4.2-3, 4.2-4
#[test]
fn conservative_slow_start_grows_by_a_quarter_and_ends_after_five_rounds() {
    let mut start = Start::new();
    start.round(10);
    start.round(10);
    start.round(30);
    assert!(start.is_conservative());
    let mut rounds = 0;
    while start.window.in_slow_start() {
        let before = start.window.cwnd;
        start.round(30);
        rounds += 1;
        assert!(start.window.cwnd <= before + before / 4 + MSS);
        assert!(rounds <= 5);
    }
    assert!(rounds >= 4, "{rounds}");
    assert_eq!(start.window.ssthresh, start.window.cwnd);
}

/// RFC 9406 §4.2: "If currentRoundMinRTT < cssBaselineMinRtt: resume slow start"
// Requirement: RFC 9406 4.2-5
#[test]
fn shorter_round_trips_resume_slow_start() {
    let mut start = Start::new();
    start.round(10);
    start.round(10);
    start.round(30);
    assert!(start.is_conservative());
    start.round(12);
    assert!(!start.is_conservative());
    assert!(start.window.in_slow_start());
}
