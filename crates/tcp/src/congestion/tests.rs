use super::*;

const MSS: u32 = 1000;

/// Drives a [`Congestion`] through round trips in which every segment arrives, until told
/// otherwise.
struct Flow {
    congestion: Congestion,
    now: Instant,
    snd_una: SeqNumber,
    snd_nxt: SeqNumber,
}

impl Flow {
    fn new(algorithm: CongestionAlgorithm) -> Self {
        Self {
            congestion: Congestion::new(algorithm, MSS, 10),
            now: Instant::ZERO,
            // The flow crosses the wrap of sequence numbers.
            snd_una: SeqNumber(u32::MAX - 5_000),
            snd_nxt: SeqNumber(u32::MAX - 5_000),
        }
    }

    fn in_flight(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    fn send(&mut self, segments: u32) {
        for _ in 0..segments {
            self.snd_nxt += MSS;
            self.congestion.on_sent(&Transmission {
                now: self.now,
                octets: MSS,
                end: self.snd_nxt,
                is_alone: self.in_flight() == MSS,
                in_flight: self.in_flight(),
                snd_una: self.snd_una,
                snd_nxt: self.snd_nxt,
            });
        }
    }

    fn fill(&mut self) {
        let room = self.congestion.cwnd().saturating_sub(self.in_flight());
        self.send(room / MSS);
    }

    fn acknowledge(&mut self, octets: u32) {
        self.snd_una += octets;
        self.congestion.on_ack(&Ack {
            now: self.now,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            acked: octets,
            delivered: octets,
            in_flight: self.in_flight(),
            is_safe: true,
            rtt: Some(Duration::from_millis(100)),
            newest: None,
        });
    }

    fn round(&mut self) {
        self.fill();
        self.now = self.now + Duration::from_millis(100);
        for _ in 0..self.in_flight() / MSS {
            self.acknowledge(MSS);
        }
    }

    fn reduction(&self) -> Reduction {
        Reduction {
            now: self.now,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            in_flight: self.in_flight() - MSS,
            recover_flight_size: self.in_flight(),
            is_last_in_doubt: false,
            is_mark: false,
        }
    }

    fn lose(&mut self) -> bool {
        self.congestion.on_congestion_event(&self.reduction())
    }

    fn time_out(&mut self) {
        let at = Reduction {
            in_flight: 0,
            ..self.reduction()
        };
        self.congestion.on_rto(&at);
    }
}

/// RFC 6928 §2
// Requirement: RFC 5681 3.1-1; RFC 6928 2-1
#[test]
fn the_initial_window_is_ten_segments_or_fewer_large_ones() {
    assert_eq!(initial_window(1460, 10), 14_600);
    assert_eq!(initial_window(536, 10), 5_360);
    assert_eq!(initial_window(8960, 10), 17_920);
    assert_eq!(initial_window(3000, 10), 14_600);
    let mut congestion = Congestion::new(CongestionAlgorithm::NewReno, 1460, 10);
    congestion.on_handshake_retransmitted();
    assert_eq!(congestion.cwnd(), 1460);
}

// Requirement: RFC 9293 MUST-19; RFC 5681 3.1-3
#[test]
fn slow_start_doubles_each_round() {
    for algorithm in [CongestionAlgorithm::NewReno, CongestionAlgorithm::Cubic] {
        let mut flow = Flow::new(algorithm);
        for round in 0..6 {
            assert_eq!(flow.congestion.cwnd(), (10 << round) * MSS, "{algorithm:?}");
            flow.round();
        }
    }
}

/// RFC 5681 §3.1, equations 3 and 4
// Requirement: RFC 9293 MUST-19; RFC 5681 3.1-4, 3.1-5
#[test]
fn new_reno_halves_and_grows_by_one_segment_per_round() {
    let mut flow = Flow::new(CongestionAlgorithm::NewReno);
    flow.fill();
    assert!(flow.lose());
    assert_eq!(flow.congestion.ssthresh(), 5 * MSS);
    flow.acknowledge(flow.in_flight());
    assert_eq!(flow.congestion.cwnd(), 5 * MSS);
    for segments in 6..20 {
        flow.round();
        assert_eq!(flow.congestion.cwnd(), segments * MSS);
    }
}

/// RFC 5681 §4.3, RFC 3168 §6.1.2
// Requirement: RFC 6582 3.2-2; RFC 6675 5-1
#[test]
fn one_window_of_data_is_reduced_once() {
    let mut flow = Flow::new(CongestionAlgorithm::NewReno);
    flow.fill();
    assert!(flow.lose());
    assert!(!flow.lose());
    flow.acknowledge(MSS);
    assert!(!flow.lose());
    assert_eq!(flow.congestion.ssthresh(), 5 * MSS);
    flow.acknowledge(flow.in_flight());
    flow.fill();
    assert!(flow.lose());
    assert_eq!(flow.congestion.ssthresh(), 2500);
}

// Requirement: RFC 5681 3.1-5
#[test]
fn no_threshold_is_below_two_segments() {
    for algorithm in [CongestionAlgorithm::NewReno, CongestionAlgorithm::Cubic] {
        let mut flow = Flow::new(algorithm);
        for _ in 0..10 {
            flow.fill();
            flow.lose();
            flow.acknowledge(flow.in_flight());
        }
        assert_eq!(flow.congestion.ssthresh(), 2 * MSS);
        assert_eq!(flow.congestion.cwnd(), 2 * MSS);
    }
}

/// RFC 9937 §6: after a recovery the window is `ssthresh`; during it one segment leaves for about
/// two delivered.
// Requirement: RFC 9937 6-1
#[test]
fn recovery_reduces_the_window_in_proportion() {
    let mut flow = Flow::new(CongestionAlgorithm::NewReno);
    flow.round();
    flow.fill();
    assert_eq!(flow.in_flight(), 20 * MSS);
    assert!(flow.lose());
    let mut sent = 0;
    let mut in_flight = 19 * MSS;
    let mut snd_nxt = flow.snd_nxt;
    for _ in 0..19 {
        in_flight -= MSS;
        flow.congestion.on_ack(&Ack {
            now: flow.now,
            snd_una: flow.snd_una,
            snd_nxt,
            acked: 0,
            delivered: MSS,
            in_flight,
            is_safe: false,
            rtt: None,
            newest: None,
        });
        while in_flight + MSS <= flow.congestion.cwnd() {
            in_flight += MSS;
            snd_nxt += MSS;
            sent += 1;
            flow.congestion.on_sent(&Transmission {
                now: flow.now,
                octets: MSS,
                end: snd_nxt,
                is_alone: false,
                in_flight,
                snd_una: flow.snd_una,
                snd_nxt,
            });
        }
    }
    // ssthresh is 10 of the 20; 19 of 20 were delivered.
    assert_eq!(sent, 10);
    assert_eq!(in_flight, 10 * MSS);
}

/// RFC 9937 §6: below `ssthresh` the conservative bound sends what was delivered, and one more per
/// safe acknowledgement.
// Requirement: RFC 9937 6-2
#[test]
fn heavy_loss_is_followed_by_slow_start_only_while_acknowledgements_are_safe() {
    let event = Reduction {
        now: Instant::ZERO,
        snd_una: SeqNumber(0),
        snd_nxt: SeqNumber(20 * MSS),
        in_flight: 2 * MSS,
        recover_flight_size: 20 * MSS,
        is_last_in_doubt: false,
        is_mark: false,
    };
    let ack = Ack {
        now: Instant::ZERO,
        snd_una: SeqNumber(MSS),
        snd_nxt: SeqNumber(20 * MSS),
        acked: MSS,
        delivered: MSS,
        in_flight: 2 * MSS,
        is_safe: true,
        rtt: None,
        newest: None,
    };
    let mut congestion = Congestion::new(CongestionAlgorithm::NewReno, MSS, 10);
    congestion.window.cwnd = 20 * MSS;
    congestion.on_congestion_event(&event);
    let mut unsafe_acks = congestion.clone();
    congestion.on_ack(&ack);
    assert_eq!(congestion.cwnd(), 4 * MSS);
    unsafe_acks.on_ack(&Ack {
        is_safe: false,
        ..ack
    });
    assert_eq!(unsafe_acks.cwnd(), 3 * MSS);
}

// Requirement: RFC 6675 5-2; RFC 9937 6-3
#[test]
fn entering_recovery_lets_one_segment_leave() {
    let mut flow = Flow::new(CongestionAlgorithm::NewReno);
    flow.fill();
    flow.lose();
    assert_eq!(flow.congestion.cwnd(), 10 * MSS);
    // Nothing that was delivered makes up a segment yet.
    flow.congestion.on_ack(&Ack {
        now: flow.now,
        snd_una: flow.snd_una,
        snd_nxt: flow.snd_nxt,
        acked: 0,
        delivered: 1,
        in_flight: 9 * MSS - 1,
        is_safe: false,
        rtt: None,
        newest: None,
    });
    assert_eq!(flow.congestion.cwnd(), 10 * MSS - 1);
}

/// RFC 5681 §3.1: the threshold is lowered by the first timeout only.
// Requirement: RFC 5681 3.1-7
#[test]
fn a_second_timeout_keeps_the_threshold() {
    let mut flow = Flow::new(CongestionAlgorithm::NewReno);
    flow.fill();
    flow.time_out();
    assert_eq!(flow.congestion.cwnd(), MSS);
    assert_eq!(flow.congestion.ssthresh(), 5 * MSS);
    flow.time_out();
    assert_eq!(flow.congestion.cwnd(), MSS);
    assert_eq!(flow.congestion.ssthresh(), 5 * MSS);
    // Slow start up to the threshold.
    flow.congestion.on_sent(&Transmission {
        now: flow.now,
        octets: MSS,
        end: flow.snd_una + MSS,
        is_alone: false,
        in_flight: MSS,
        snd_una: flow.snd_una,
        snd_nxt: flow.snd_nxt,
    });
    flow.acknowledge(MSS);
    assert_eq!(flow.congestion.cwnd(), 2 * MSS);
}

/// RFC 4015 §3.2, RFC 9438 §4.9.2
// Requirement: RFC 9438 4.9-1
#[test]
fn a_spurious_reduction_is_undone() {
    for algorithm in [CongestionAlgorithm::NewReno, CongestionAlgorithm::Cubic] {
        for timeout in [false, true] {
            let mut flow = Flow::new(algorithm);
            flow.round();
            flow.fill();
            if timeout {
                flow.time_out();
                flow.time_out();
            } else {
                flow.lose();
            }
            flow.congestion.on_spurious();
            assert_eq!(flow.congestion.cwnd(), 20 * MSS, "{algorithm:?} {timeout}");
            assert_eq!(flow.congestion.ssthresh(), u32::MAX);
            // Once only.
            flow.congestion.window.cwnd = MSS;
            flow.congestion.on_spurious();
            assert_eq!(flow.congestion.cwnd(), MSS);
        }
    }
}

/// The last reduction stands, as one of the window from before both; then it is taken back as well.
#[test]
fn a_spurious_reduction_before_the_last_is_undone_alone() {
    for algorithm in [CongestionAlgorithm::NewReno, CongestionAlgorithm::Cubic] {
        let mut flow = Flow::new(algorithm);
        flow.round();
        flow.fill();
        let mut once = flow.congestion.clone();
        once.on_congestion_event(&flow.reduction());
        flow.lose();
        flow.acknowledge(flow.in_flight());
        flow.fill();
        let again = Reduction {
            is_last_in_doubt: true,
            ..flow.reduction()
        };
        assert!(flow.congestion.on_congestion_event(&again));
        assert!(flow.congestion.ssthresh() < once.ssthresh());
        let cwnd = flow.congestion.cwnd();
        flow.congestion.on_earlier_spurious(flow.now);
        assert_eq!(flow.congestion.ssthresh(), once.ssthresh(), "{algorithm:?}");
        assert_eq!(flow.congestion.cwnd(), cwnd, "no burst");
        flow.congestion.on_spurious();
        assert_eq!(flow.congestion.cwnd(), 20 * MSS, "{algorithm:?}");
        assert_eq!(flow.congestion.ssthresh(), u32::MAX);
    }
}

#[test]
fn a_confirmed_reduction_is_not_undone() {
    let mut flow = Flow::new(CongestionAlgorithm::Cubic);
    flow.fill();
    flow.lose();
    flow.congestion.confirm();
    let ssthresh = flow.congestion.ssthresh();
    flow.congestion.on_spurious();
    assert_eq!(flow.congestion.ssthresh(), ssthresh);
}

/// RFC 7661 §1
#[test]
fn an_unused_window_does_not_grow() {
    for algorithm in [CongestionAlgorithm::NewReno, CongestionAlgorithm::Cubic] {
        let mut flow = Flow::new(algorithm);
        for _ in 0..50 {
            flow.send(2);
            flow.now = flow.now + Duration::from_millis(100);
            flow.acknowledge(2 * MSS);
        }
        assert_eq!(flow.congestion.cwnd(), 10 * MSS, "{algorithm:?}");
    }
}

#[test]
fn half_a_window_in_use_grows_in_slow_start_only() {
    let mut flow = Flow::new(CongestionAlgorithm::NewReno);
    flow.send(6);
    flow.acknowledge(6 * MSS);
    assert_eq!(flow.congestion.cwnd(), 16 * MSS);

    let mut flow = Flow::new(CongestionAlgorithm::NewReno);
    flow.congestion.window.ssthresh = 10 * MSS;
    for _ in 0..20 {
        flow.send(6);
        flow.acknowledge(6 * MSS);
    }
    assert_eq!(flow.congestion.cwnd(), 10 * MSS);
}

/// RFC 2861 §3, RFC 5681 §4.1
// Requirement: RFC 5681 4.1-1
#[test]
fn idleness_halves_the_window_per_timeout_down_to_the_restart_window() {
    let rto = Duration::from_millis(200);
    let mut flow = Flow::new(CongestionAlgorithm::NewReno);
    for _ in 0..3 {
        flow.round();
    }
    assert_eq!(flow.congestion.cwnd(), 80 * MSS);
    let mut idle = flow.congestion.clone();
    idle.after_idle(rto, rto);
    assert_eq!(idle.cwnd(), 80 * MSS);
    idle.after_idle(Duration::from_millis(450), rto);
    assert_eq!(idle.cwnd(), 20 * MSS);
    assert_eq!(idle.ssthresh(), u32::MAX);
    for far in [Duration::from_secs(10), Duration::MAX] {
        let mut idle = flow.congestion.clone();
        idle.window.ssthresh = 40 * MSS;
        idle.after_idle(far, rto);
        assert_eq!(idle.cwnd(), 10 * MSS);
        assert_eq!(idle.ssthresh(), 60 * MSS);
    }
    let mut small = Congestion::new(CongestionAlgorithm::NewReno, MSS, 10);
    small.window.cwnd = 3 * MSS;
    small.after_idle(Duration::from_secs(10), Duration::ZERO);
    assert_eq!(small.cwnd(), 3 * MSS);
}

#[test]
fn without_control_nothing_changes_the_window() {
    let mut flow = Flow::new(CongestionAlgorithm::None);
    flow.send(10);
    assert!(flow.lose());
    assert_eq!(flow.congestion.cwnd(), MAX_CWND);
    assert!(!flow.lose());
    flow.acknowledge(MSS);
    flow.time_out();
    assert_eq!(flow.congestion.cwnd(), MAX_CWND);
    flow.congestion.on_spurious();
    flow.congestion
        .after_idle(Duration::from_secs(100), Duration::from_millis(1));
    flow.congestion.on_handshake_retransmitted();
    assert_eq!(flow.congestion.cwnd(), MAX_CWND);
    assert_eq!(flow.congestion.ssthresh(), u32::MAX);
}

/// RFC 3465 §2.1
#[test]
fn the_size_of_acknowledgements_does_not_matter_in_congestion_avoidance() {
    let grown_by = |octets: u32| {
        let mut flow = Flow::new(CongestionAlgorithm::NewReno);
        flow.congestion.window.ssthresh = 10 * MSS;
        for _ in 0..100_000 / octets {
            flow.fill();
            flow.acknowledge(octets);
        }
        flow.congestion.cwnd()
    };
    assert_eq!(grown_by(10), grown_by(1000));
    assert_eq!(grown_by(1000), grown_by(5000));
}

#[test]
fn names_and_numbers_are_those_of_vma_and_linux() {
    for (value, algorithm, name) in [
        (0, CongestionAlgorithm::NewReno, "reno"),
        (1, CongestionAlgorithm::Cubic, "cubic"),
        (2, CongestionAlgorithm::None, "none"),
        (3, CongestionAlgorithm::Bbr, "bbr"),
    ] {
        let by_number = CongestionAlgorithm::from_vma_value(value);
        assert_eq!(by_number, (value < 3).then_some(algorithm));
        assert_eq!(algorithm.name(), name);
        assert_eq!(
            CongestionAlgorithm::from_name(name.as_bytes()),
            Some(algorithm)
        );
        assert_eq!(Congestion::new(algorithm, MSS, 10).algorithm(), algorithm);
    }
    assert_eq!(CongestionAlgorithm::from_name(b"dctcp"), None);
}

#[test]
fn a_longer_segment_fits_into_the_window_of_a_timeout() {
    let mut congestion = Congestion::new(CongestionAlgorithm::NewReno, 536, 10);
    congestion.on_rto(&Reduction {
        now: Instant::ZERO,
        snd_una: SeqNumber(0),
        snd_nxt: SeqNumber(5360),
        in_flight: 0,
        recover_flight_size: 5360,
        is_last_in_doubt: false,
        is_mark: false,
    });
    assert_eq!(congestion.cwnd(), 536);
    congestion.set_mss(1460);
    assert_eq!(congestion.cwnd(), 1460);
}

/// The peer's window holds new data back during recovery: nothing is in flight at its end.
#[test]
fn a_window_that_opens_at_the_end_of_recovery_is_not_filled_at_once() {
    for algorithm in [CongestionAlgorithm::NewReno, CongestionAlgorithm::Cubic] {
        let mut flow = Flow::new(algorithm);
        for _ in 0..4 {
            flow.round();
        }
        flow.fill();
        flow.lose();
        let ssthresh = flow.congestion.ssthresh();
        flow.acknowledge(flow.in_flight());
        assert_eq!(flow.congestion.cwnd(), ssthresh / 2, "{algorithm:?}");
        // Slow start brings the rest in a round trip.
        flow.round();
        assert!(
            flow.congestion.cwnd() >= ssthresh - MSS,
            "{algorithm:?}: {} of {ssthresh}",
            flow.congestion.cwnd()
        );
    }
}

/// A few segments are no burst.
#[test]
fn a_small_window_is_filled_at_once_after_recovery() {
    let mut flow = Flow::new(CongestionAlgorithm::Cubic);
    flow.round();
    flow.fill();
    flow.lose();
    flow.acknowledge(flow.in_flight());
    assert_eq!(
        flow.congestion.cwnd(),
        flow.congestion.ssthresh().min(10 * MSS)
    );
}

/// The peer's window lets 30 segments go.
#[test]
fn slow_start_into_a_closed_window_is_reduced_to_a_part_of_what_was_used() {
    let mut flow = Flow::new(CongestionAlgorithm::NewReno);
    for _ in 0..6 {
        flow.now = flow.now + Duration::from_millis(100);
        let room = flow.congestion.cwnd() / MSS;
        flow.send(room.min(30));
        for _ in 0..flow.in_flight() / MSS {
            flow.acknowledge(MSS);
        }
    }
    assert!(flow.congestion.cwnd() > 50 * MSS);
    flow.send(30);
    let before = flow.congestion.cwnd();
    flow.lose();
    assert_eq!(flow.congestion.ssthresh(), 15 * MSS);
    flow.congestion.on_spurious();
    assert_eq!(flow.congestion.cwnd(), before);
}
