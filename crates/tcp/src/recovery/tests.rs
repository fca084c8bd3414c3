//! Recovery against a peer whose acknowledgements the tests write, and against one behind a network
//! that loses and reorders.

use core::time::Duration;

use wire::tcp::SackBlock;

use super::*;
use crate::rtt::{DEFAULT_MAX_RTO, DEFAULT_MIN_RTO};

mod network;

const MSS: u32 = 1000;
const RTT: Duration = Duration::from_millis(40);
/// So that the first window crosses the wrap.
const START: SeqNumber = SeqNumber(u32::MAX - 4_500);

fn settings() -> Settings {
    Settings {
        algorithm: CongestionAlgorithm::NewReno,
        mss: MSS,
        initial_window_segments: 10,
        sack: true,
        tail_loss_probe: true,
        slow_start_after_idle: true,
        dup_threshold: 3,
    }
}

/// A connection whose test counts in segments, from 0.
struct Flow {
    recovery: Recovery,
    now: Instant,
    has_timestamps: bool,
}

impl Flow {
    fn with(settings: Settings) -> Self {
        let mut rtt = RttEstimator::new(DEFAULT_MIN_RTO, DEFAULT_MAX_RTO);
        rtt.on_sample(Instant::ZERO, RTT, MSS, MSS);
        Self {
            recovery: Recovery::new(settings, rtt, START),
            now: Instant::ZERO + Duration::from_secs(1),
            has_timestamps: false,
        }
    }

    fn new() -> Self {
        Self::with(settings())
    }

    fn without_sack() -> Self {
        Self::with(Settings {
            sack: false,
            ..settings()
        })
    }

    fn timestamp(&self) -> Option<u32> {
        let millis = self.now.as_nanos() / 1_000_000;
        self.has_timestamps.then(|| u32::try_from(millis).unwrap())
    }

    /// Ten segments go out; the first seems lost, and is sent again.
    fn begin_recovery(&mut self) {
        self.send(10);
        self.wait(40);
        self.ack(0, &[(1, 4)]);
        assert_eq!(self.retransmit(true), [0]);
    }

    /// Three segments go out; the first arrives last.
    fn see_reordering(&mut self) {
        self.send(3);
        self.wait(40);
        self.ack(0, &[(1, 3)]);
        self.ack(3, &[]);
        assert_eq!(self.recovery.reorderings(), 1);
    }

    fn send(&mut self, segments: u32) {
        self.recovery.before_sending(self.now);
        for _ in 0..segments {
            assert!(self.recovery.room() >= MSS);
            self.recovery
                .on_sent(self.recovery.snd_nxt, MSS, false, self.now);
        }
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    /// Segments that have been acknowledged, and segments reported, as `first..end`.
    fn ack(&mut self, acked: u32, sack: &[(u32, u32)]) -> Outcome {
        self.ack_echoing(acked, sack, None)
    }

    fn ack_echoing(
        &mut self,
        acked: u32,
        sack: &[(u32, u32)],
        echo: Option<(u32, Duration)>,
    ) -> Outcome {
        let blocks: Vec<_> = sack
            .iter()
            .map(|&(first, end)| SackBlock {
                left: (START + first * MSS).0,
                right: (START + end * MSS).0,
            })
            .collect();
        self.recovery.on_ack(&Acknowledgement {
            now: self.now,
            ack: START + acked * MSS,
            sack: &blocks,
            is_plain: true,
            echo,
        })
    }

    /// What is sent again at once.
    fn retransmit(&mut self, can_send_new: bool) -> Vec<u32> {
        let mut sent = Vec::new();
        while let Some(segment) = self.recovery.next_to_retransmit(can_send_new) {
            sent.push((segment.seq - START) / MSS);
            self.recovery
                .on_retransmitted(segment.seq, self.timestamp(), self.now);
        }
        sent
    }

    fn until_deadline(&mut self, can_send_new: bool) -> Timeout {
        let deadline = self.recovery.deadline().unwrap();
        assert!(deadline > self.now, "in the past");
        self.now = deadline;
        self.recovery.on_timeout(self.now, can_send_new)
    }
}

#[test]
fn acknowledged_flights_measure_and_leave_nothing() {
    let mut flow = Flow::new();
    flow.send(4);
    assert_eq!(flow.recovery.in_flight(), 4 * MSS);
    flow.wait(50);
    let outcome = flow.ack(4, &[]);
    assert_eq!(outcome.acked, 4 * MSS);
    assert_eq!(outcome.delivered, 4 * MSS);
    assert_eq!(outcome.rtt, Some(Duration::from_millis(50)));
    assert_eq!(flow.recovery.in_flight(), 0);
    assert_eq!(flow.recovery.deadline(), None);
    assert_eq!(flow.recovery.ca_state(), CaState::Open);
}

#[test]
fn a_piece_that_the_device_cuts_is_several_segments() {
    let mut flow = Flow::new();
    flow.recovery.on_sent(START, 2 * MSS + 500, true, flow.now);
    let counts = flow.recovery.scoreboard().segments();
    assert_eq!(counts.outstanding, 3);
    assert_eq!(flow.recovery.in_flight(), 2 * MSS + 501);
    assert_eq!(flow.recovery.scoreboard().last().unwrap().len, 501);
    let mut full = Flow::new();
    full.recovery.on_sent(START, MSS, true, full.now);
    assert_eq!(full.recovery.scoreboard().segments().outstanding, 1);
    let mut bare = Flow::new();
    bare.recovery.on_sent(START, 0, true, bare.now);
    assert_eq!(bare.recovery.scoreboard().octets().outstanding, 1);
}

/// RFC 8985 §3.4's fast recovery, with RFC 5681's threshold for networks that keep the order.
// Requirement: RFC 6675 4-1
#[test]
fn three_segments_behind_a_hole_begin_recovery() {
    let mut flow = Flow::new();
    flow.send(10);
    flow.wait(40);
    assert_eq!(flow.ack(1, &[(2, 3)]).lost, 0);
    assert_eq!(flow.recovery.ca_state(), CaState::Disorder);
    assert_eq!(flow.ack(1, &[(2, 4)]).lost, 0);
    let outcome = flow.ack(1, &[(2, 5)]);
    assert_eq!(outcome.lost, 1);
    assert_eq!(flow.recovery.ca_state(), CaState::Recovery);
    assert_eq!(flow.retransmit(true), [1]);
    assert_eq!(flow.recovery.congestion.ssthresh(), 6000);
    flow.wait(40);
    flow.ack(10, &[]);
    assert_eq!(flow.recovery.ca_state(), CaState::Open);
    assert_eq!(flow.recovery.congestion.cwnd(), 6000);
    assert_eq!(flow.recovery.total_retransmissions(), 1);
}

/// RFC 8985 §6.2: fewer than three, but a quarter of a round trip has passed.
// Requirement: RFC 8985 6.2-6
#[test]
fn one_segment_behind_a_hole_begins_recovery_after_the_reordering_window() {
    let mut flow = Flow::new();
    flow.send(3);
    flow.wait(40);
    assert_eq!(flow.ack(0, &[(1, 2)]).lost, 0);
    assert_eq!(flow.until_deadline(false), Timeout::Overdue);
    assert_eq!(flow.now, Instant::ZERO + Duration::from_millis(1050));
    assert_eq!(flow.retransmit(false), [0]);
    assert_eq!(flow.recovery.ca_state(), CaState::Recovery);
}

#[test]
fn reordering_within_the_window_is_no_loss() {
    let mut flow = Flow::new();
    flow.send(3);
    flow.wait(40);
    flow.ack(0, &[(1, 3)]);
    flow.wait(5);
    flow.ack(3, &[]);
    assert_eq!(flow.recovery.reorderings(), 1);
    assert_eq!(flow.recovery.total_retransmissions(), 0);
    // From now on three segments mean nothing by themselves.
    flow.send(6);
    flow.wait(40);
    assert_eq!(flow.ack(3, &[(4, 8)]).lost, 0);
}

/// RFC 8985 §6.2: where the network reorders, the timer waits for what the peer may hold back: a
/// twentieth of a round trip, not more than a millisecond, and the tenth of one by which its timer
/// may be late.
// Requirement: RFC 8985 6.2-8
#[test]
fn the_reordering_timer_allows_for_reports_that_are_held_back() {
    let mut flow = Flow::new();
    flow.see_reordering();
    flow.send(3);
    let sent_at = flow.now;
    flow.wait(40);
    flow.ack(3, &[(4, 5)]);
    assert_eq!(flow.until_deadline(false), Timeout::Overdue);
    let window = Duration::from_millis(40 + 10);
    assert_eq!(flow.now - sent_at, window + Duration::from_micros(1100));
    assert_eq!(flow.retransmit(false), [3]);
}

/// An acknowledgement that comes before that shows what is lost by the reordering window alone.
// Requirement: RFC 8985 6.2-5
#[test]
fn acknowledgements_show_losses_before_the_reordering_timer() {
    let mut flow = Flow::new();
    flow.see_reordering();
    flow.send(2);
    flow.wait(10);
    flow.send(1);
    flow.wait(30);
    assert_eq!(flow.ack(3, &[(4, 5)]).lost, 0);
    flow.wait(10);
    assert!(flow.recovery.deadline().unwrap() > flow.now);
    assert_eq!(flow.ack(3, &[(4, 6)]).lost, 1);
}

/// RFC 8985 §6.2: "retransmitted segments that are lost again"
#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    let mut flow = Flow::new();
    flow.begin_recovery();
    flow.wait(1);
    flow.ack(0, &[(1, 10)]);
    flow.send(1);
    flow.wait(40);
    // The new segment arrives, what was sent before it has not.
    assert_eq!(flow.ack(0, &[(1, 11)]).lost, 1);
    assert_eq!(flow.retransmit(true), [0]);
}

/// RFC 8985 §7
#[test]
fn the_end_of_a_flight_is_probed_and_its_loss_recovered() {
    let mut flow = Flow::new();
    flow.send(4);
    flow.wait(40);
    flow.ack(2, &[]);
    assert_eq!(flow.until_deadline(false), Timeout::Probe);
    assert_eq!(flow.now, Instant::ZERO + Duration::from_millis(1040 + 82));
    assert_eq!(flow.retransmit(false), [3]);
    flow.wait(40);
    let outcome = flow.ack(2, &[(3, 4)]);
    assert_eq!(
        outcome.lost, 1,
        "the hole is behind what arrived by more than the window"
    );
    assert_eq!(flow.retransmit(false), [2]);
}

// Requirement: RFC 8985 7.3-1
#[test]
fn a_probe_prefers_new_data_and_ignores_the_window() {
    let mut flow = Flow::new();
    flow.send(10);
    assert_eq!(flow.recovery.room(), 0);
    assert_eq!(flow.until_deadline(true), Timeout::Probe);
    assert_eq!(flow.recovery.next_to_retransmit(true), None);
    assert_eq!(flow.recovery.room(), MSS);
    flow.send(1);
    assert_eq!(flow.recovery.room(), 0);
    // One probe at a time.
    assert_eq!(flow.until_deadline(true), Timeout::Retransmission);
}

/// RFC 8985 §7.4.2
// Requirement: RFC 8985 7.4-1
#[test]
fn a_loss_that_the_probe_repaired_reduces_the_window() {
    let mut flow = Flow::new();
    flow.send(10);
    flow.wait(40);
    flow.ack(9, &[]);
    flow.until_deadline(false);
    assert_eq!(flow.retransmit(false), [9]);
    flow.wait(40);
    flow.ack(10, &[]);
    assert_eq!(
        flow.recovery.congestion.ssthresh(),
        u32::MAX,
        "it may have been the original"
    );
    flow.send(1);
    flow.wait(40);
    flow.ack(11, &[]);
    assert!(flow.recovery.congestion.ssthresh() < u32::MAX);

    let mut duplicate = Flow::new();
    duplicate.send(10);
    duplicate.wait(40);
    duplicate.ack(9, &[]);
    duplicate.until_deadline(false);
    duplicate.retransmit(false);
    duplicate.wait(40);
    duplicate.ack(10, &[(9, 10)]);
    duplicate.send(1);
    duplicate.wait(40);
    duplicate.ack(11, &[]);
    assert_eq!(duplicate.recovery.congestion.ssthresh(), u32::MAX);
}

/// RFC 6298 §5
// Requirement: RFC 6298 5-4, 5-5; RFC 5681 3.1-6
#[test]
fn timeouts_double_and_send_the_first_segment() {
    let mut flow = Flow::with(Settings {
        tail_loss_probe: false,
        ..settings()
    });
    flow.send(4);
    let rto = flow.recovery.rtt.rto();
    for (doubled, timeouts) in [(1, 1), (2, 2), (4, 3)] {
        let before = flow.now;
        assert_eq!(flow.until_deadline(true), Timeout::Retransmission);
        assert_eq!(flow.now - before, rto * doubled);
        assert_eq!(flow.recovery.timeouts(), timeouts);
        assert_eq!(flow.recovery.congestion.cwnd(), MSS);
        assert_eq!(flow.retransmit(true), [0]);
        assert_eq!(flow.recovery.ca_state(), CaState::Loss);
    }
    flow.wait(40);
    // Karn: which transmission is acknowledged is not known.
    let outcome = flow.ack(1, &[]);
    assert_eq!(outcome.rtt, None);
    assert_eq!(flow.recovery.timeouts(), 0);
    assert_eq!(flow.recovery.rtt.backoff(), 3);
    assert_eq!(flow.retransmit(false), [1, 2]);
    flow.wait(40);
    flow.ack(4, &[]);
    assert_eq!(flow.recovery.ca_state(), CaState::Open);
}

/// RFC 7323 §4.1
// Requirement: RFC 7323 4.1-1; RFC 6298 3-1
#[test]
fn a_timestamp_measures_what_was_sent_twice() {
    let mut flow = Flow::new();
    flow.has_timestamps = true;
    flow.send(1);
    for expected in [Timeout::Probe, Timeout::Retransmission] {
        assert_eq!(flow.until_deadline(false), expected);
        assert_eq!(flow.retransmit(false), [0]);
    }
    flow.wait(70);
    let echo = (flow.timestamp().unwrap() - 70, Duration::from_millis(70));
    let outcome = flow.ack_echoing(1, &[], Some(echo));
    assert_eq!(outcome.rtt, Some(Duration::from_millis(70)));
    assert_eq!(flow.recovery.rtt.backoff(), 0);
}

/// RFC 3522 §3.2: the acknowledgement echoes the original's timestamp.
#[test]
fn a_spurious_timeout_is_undone_by_timestamps() {
    let mut flow = Flow::with(Settings {
        tail_loss_probe: false,
        ..settings()
    });
    flow.has_timestamps = true;
    flow.send(10);
    let original = flow.timestamp().unwrap();
    flow.until_deadline(false);
    assert_eq!(flow.retransmit(false), [0]);
    flow.wait(100);
    let delay = Duration::from_millis(u64::from(flow.timestamp().unwrap() - original));
    let outcome = flow.ack_echoing(1, &[], Some((original, delay)));
    assert!(outcome.was_spurious);
    assert_eq!(
        outcome.lost, 0,
        "RACK must not be misled by the retransmission"
    );
    assert_eq!(flow.recovery.ca_state(), CaState::Open);
    assert!(flow.recovery.congestion.cwnd() >= 10 * MSS);
    assert_eq!(flow.retransmit(false), [0; 0]);
    assert_eq!(flow.recovery.rtt.backoff(), 0);
}

/// RFC 5682 §3.1, without any option
#[test]
fn a_spurious_timeout_is_undone_by_what_was_not_sent_again() {
    let mut flow = Flow::without_sack();
    flow.send(10);
    assert_eq!(flow.until_deadline(true), Timeout::Retransmission);
    assert_eq!(flow.retransmit(true), [0]);
    flow.wait(100);
    // The original acknowledgement of the first segment comes: new data is tried.
    assert!(!flow.ack(1, &[]).was_spurious);
    assert_eq!(flow.retransmit(true), [0; 0]);
    flow.send(2);
    assert!(flow.ack(2, &[]).was_spurious);
    assert_eq!(flow.recovery.ca_state(), CaState::Open);
    assert!(flow.recovery.congestion.cwnd() >= 10 * MSS);
    assert_eq!(flow.retransmit(true), [0; 0]);
}

/// As Linux (`tcp_try_undo_loss`): what is acknowledged selectively undoes, too, and the next
/// timeout is the first of a series.
#[test]
fn a_timeout_that_is_undone_counts_no_more() {
    let mut flow = Flow::with(Settings {
        tail_loss_probe: false,
        ..settings()
    });
    flow.send(10);
    assert_eq!(flow.until_deadline(true), Timeout::Retransmission);
    assert_eq!(flow.recovery.timeouts(), 1);
    assert!(flow.ack(0, &[(5, 6)]).was_spurious);
    assert_eq!(flow.recovery.timeouts(), 0);
}

/// RFC 5682 §3.1 step 3a
#[test]
fn a_needed_timeout_goes_on_after_new_data_was_tried() {
    let mut flow = Flow::new();
    flow.send(10);
    assert_eq!(flow.until_deadline(false), Timeout::Probe);
    flow.retransmit(false);
    assert_eq!(flow.until_deadline(true), Timeout::Retransmission);
    assert_eq!(flow.retransmit(true), [0]);
    flow.wait(40);
    flow.ack(1, &[]);
    assert_eq!(flow.retransmit(true), [0; 0]);
    flow.send(2);
    flow.wait(40);
    assert!(!flow.ack(1, &[(10, 11)]).was_spurious);
    assert_eq!(flow.recovery.ca_state(), CaState::Loss);
    assert!(!flow.retransmit(true).is_empty());
}

#[test]
fn without_new_data_a_timeout_recovers_at_once() {
    let mut flow = Flow::new();
    flow.send(5);
    flow.until_deadline(false);
    flow.retransmit(false);
    flow.until_deadline(false);
    assert_eq!(flow.retransmit(false), [0]);
    flow.wait(40);
    flow.ack(1, &[]);
    assert_eq!(flow.retransmit(false), [1, 2]);
}

/// RFC 3708 §2, RFC 2883 §5
#[test]
fn duplicates_of_all_retransmissions_undo_the_reduction() {
    let mut flow = Flow::new();
    flow.send(10);
    flow.wait(40);
    flow.ack(0, &[(2, 5)]);
    let mut again = flow.retransmit(true);
    again.extend({
        flow.ack(0, &[(2, 8)]);
        flow.retransmit(true)
    });
    assert_eq!(again, [0, 1]);
    flow.wait(5);
    assert!(!flow.ack(10, &[]).was_spurious);
    flow.wait(40);
    let outcome = flow.ack(10, &[(0, 1)]);
    assert!(outcome.has_dsack && !outcome.was_spurious);
    assert!(flow.ack(10, &[(1, 2)]).was_spurious);
    assert_eq!(flow.recovery.congestion.ssthresh(), u32::MAX);
    assert_eq!(flow.recovery.dsack_duplicates(), 2);
}

/// The network begins to reorder: the second recovery begins before the duplicates of the first one
/// come.
#[test]
fn two_recoveries_that_follow_on_each_other_are_both_undone() {
    let mut flow = Flow::new();
    let before = flow.recovery.congestion.cwnd();
    flow.begin_recovery();
    flow.wait(1);
    flow.ack(10, &[]);
    flow.send(5);
    flow.wait(40);
    flow.ack(10, &[(11, 14)]);
    assert_eq!(flow.retransmit(true), [10]);
    let twice_reduced = flow.recovery.congestion.ssthresh();
    // The first one's: what was reduced once only remains.
    assert!(flow.ack(10, &[(0, 1), (11, 14)]).has_dsack);
    assert_eq!(flow.recovery.congestion.ssthresh(), before / 2);
    assert!(twice_reduced < before / 2);
    assert_eq!(flow.recovery.ca_state(), CaState::Recovery);
    flow.ack(15, &[]);
    assert!(flow.ack(15, &[(10, 11)]).was_spurious);
    assert_eq!(flow.recovery.congestion.ssthresh(), u32::MAX);
    assert!(flow.recovery.congestion.cwnd() >= before);
}

/// The first recovery was right, the second one was not.
#[test]
fn a_recovery_that_was_needed_is_not_undone_with_the_next() {
    let mut flow = Flow::new();
    flow.begin_recovery();
    flow.wait(40);
    flow.ack(10, &[]);
    let reduced = flow.recovery.congestion.ssthresh();
    flow.send(5);
    flow.wait(40);
    flow.ack(10, &[(11, 14)]);
    assert_eq!(flow.retransmit(true), [10]);
    flow.ack(15, &[]);
    assert!(flow.ack(15, &[(10, 11)]).was_spurious);
    assert_eq!(flow.recovery.congestion.ssthresh(), reduced);
}

/// A duplicate of what was sent again for nothing but its place in the order tells that the order
/// is not kept. It does not widen the reordering window, which there was not.
#[test]
fn a_duplicate_tells_of_reordering() {
    let mut flow = Flow::new();
    flow.begin_recovery();
    flow.wait(1);
    flow.ack(10, &[]);
    assert_eq!(flow.recovery.reorderings(), 0);
    flow.wait(40);
    flow.ack(10, &[(0, 1)]);
    assert_eq!(flow.recovery.reorderings(), 1);
    // A quarter of the round trip is waited for, not a half.
    flow.send(5);
    flow.wait(40);
    flow.ack(10, &[(11, 14)]);
    assert_eq!(flow.retransmit(true), []);
    let window = flow.recovery.deadline().unwrap() - flow.now;
    assert_eq!(window, RTT / 4 + Duration::from_micros(1100));
}

/// A recovery begins with the acknowledgement that ends another: it reduces the window that the
/// other one has left, not what is in flight at that moment.
#[test]
fn a_recovery_at_the_end_of_another_reduces_its_window() {
    let mut flow = Flow::new();
    flow.begin_recovery();
    let first = flow.recovery.congestion.ssthresh();
    flow.ack(0, &[(1, 10)]);
    flow.send(4);
    flow.wait(40);
    flow.ack(10, &[(11, 14)]);
    assert_eq!(flow.recovery.ca_state(), CaState::Recovery);
    assert_eq!(flow.recovery.congestion.ssthresh(), first / 2);
    assert!(flow.recovery.congestion.cwnd() >= MSS);
}

/// RFC 3168 §6.1.2
// Requirement: RFC 3168 6.1.2-1
#[test]
fn a_mark_reduces_once_a_round_and_is_not_undone() {
    let mut flow = Flow::new();
    flow.send(10);
    flow.wait(40);
    assert!(flow.recovery.on_ecn_echo(flow.now));
    assert_eq!(flow.recovery.ca_state(), CaState::Cwr);
    flow.ack(1, &[]);
    assert!(!flow.recovery.on_ecn_echo(flow.now));
    flow.ack(1, &[(0, 1)]);
    assert_eq!(flow.recovery.congestion.ssthresh(), 5 * MSS);
    flow.ack(10, &[]);
    assert_eq!(flow.recovery.congestion.cwnd(), 5 * MSS);
    assert_eq!(flow.recovery.ca_state(), CaState::Cwr);
    flow.send(1);
    flow.ack(11, &[]);
    assert_eq!(flow.recovery.ca_state(), CaState::Open);
    flow.send(1);
    assert!(flow.recovery.on_ecn_echo(flow.now));
}

/// RFC 6582 §3.2
// Requirement: RFC 6582 3.2-1, 3.2-3
#[test]
fn without_sack_each_partial_acknowledgement_shows_the_next_hole() {
    let mut flow = Flow::without_sack();
    flow.send(10);
    flow.wait(40);
    flow.ack(1, &[]);
    for _ in 0..2 {
        assert_eq!(flow.ack(1, &[]).lost, 0);
    }
    assert_eq!(flow.ack(1, &[]).lost, 1);
    assert_eq!(flow.retransmit(true), [1]);
    flow.wait(40);
    flow.ack(4, &[]);
    assert_eq!(flow.recovery.ca_state(), CaState::Recovery);
    assert_eq!(flow.retransmit(true), [4]);
    flow.wait(40);
    flow.ack(10, &[]);
    assert_eq!(flow.recovery.ca_state(), CaState::Open);
    // RFC 6582 §3.2 step 2: duplicates of the retransmissions begin nothing.
    flow.send(3);
    for _ in 0..5 {
        assert_eq!(flow.ack(10, &[]).lost, 0);
    }
}

/// RFC 5681 §2: what is no duplicate
#[test]
fn data_and_window_updates_are_no_duplicates() {
    let mut flow = Flow::without_sack();
    flow.send(10);
    for _ in 0..5 {
        flow.recovery.on_ack(&Acknowledgement {
            now: flow.now,
            ack: START,
            sack: &[],
            is_plain: false,
            echo: None,
        });
    }
    assert_eq!(flow.recovery.ca_state(), CaState::Open);
}

/// RFC 3042
// Requirement: RFC 5681 3.2-2
#[test]
fn the_first_duplicates_let_new_segments_out() {
    for mut flow in [Flow::new(), Flow::without_sack()] {
        flow.send(10);
        flow.wait(40);
        for duplicates in 1..3 {
            assert_eq!(flow.recovery.room(), 0);
            flow.ack(0, &[(1, 1 + duplicates)]);
            flow.send(1);
        }
    }
}

#[test]
fn a_smaller_path_sends_again_what_was_too_long() {
    let mut flow = Flow::new();
    flow.send(2);
    flow.recovery.set_mss(600, true);
    assert_eq!(flow.recovery.in_flight(), 0);
    let mut sent = 0;
    while let Some(segment) = flow.recovery.next_to_retransmit(false) {
        assert!(segment.len <= 600);
        flow.recovery.on_retransmitted(segment.seq, None, flow.now);
        sent += segment.len;
    }
    assert_eq!(sent, 2 * MSS);
    assert_eq!(flow.recovery.congestion.ssthresh(), u32::MAX);
}

// Requirement: RFC 5681 4.1-1
#[test]
fn an_idle_window_is_probed_anew() {
    let mut flow = Flow::new();
    for round in 0..4 {
        let segments = 10 << round;
        flow.send(segments);
        flow.wait(40);
        flow.ack(10 * ((2 << round) - 1), &[]);
    }
    assert_eq!(flow.recovery.congestion.cwnd(), 160 * MSS);
    flow.wait(10_000);
    flow.recovery.before_sending(flow.now);
    assert_eq!(flow.recovery.congestion.cwnd(), 10 * MSS);
    flow.recovery.before_sending(flow.now);
    assert_eq!(flow.recovery.congestion.cwnd(), 10 * MSS);
}

/// A hostile peer's blocks: reversed, before, beyond, huge, in part.
#[test]
fn invalid_blocks_are_ignored() {
    let mut flow = Flow::new();
    flow.send(10);
    let blocks = |left: u32, right: u32| SackBlock { left, right };
    let end = START + 10 * MSS;
    for sack in [
        [blocks((START + 5000).0, (START + 3000).0); 4],
        [blocks((START - 5000).0, end.0); 4],
        [blocks(START.0, (end + 1).0); 4],
        [blocks((START + 1).0, (START + MSS - 1).0); 4],
        [blocks(end.0, end.0); 4],
        [blocks(0, u32::MAX); 4],
        [blocks((START + 0x7fff_ffff).0, (START - 0x7fff_ffff).0); 4],
    ] {
        flow.recovery.on_ack(&Acknowledgement {
            now: flow.now,
            ack: START,
            sack: &sack,
            is_plain: true,
            echo: Some((u32::MAX, Duration::MAX)),
        });
        assert_eq!(flow.recovery.scoreboard().segments().sacked, 0, "{sack:?}");
        assert_eq!(flow.recovery.in_flight(), 10 * MSS);
    }
}
