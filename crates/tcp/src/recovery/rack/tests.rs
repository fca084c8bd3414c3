use super::*;

const MIN_RTT: Duration = Duration::from_millis(40);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn segment(index: u32, sent_at: Instant) -> SentSegment {
    SentSegment {
        seq: SeqNumber(u32::MAX - 500) + index * 100,
        len: 100,
        sent_at,
        is_retransmitted: false,
        was_sacked: false,
    }
}

fn round() -> Round {
    Round {
        snd_una: SeqNumber(0),
        snd_nxt: SeqNumber(1000),
        has_dsack: false,
        is_leaving_recovery: false,
        is_in_recovery: false,
        segments_sacked: 0,
        min_rtt: Some(MIN_RTT),
        srtt: Some(Duration::from_millis(60)),
    }
}

/// §6.2 step 4: "RACK.reo_wnd_mult * RACK.min_RTT / 4", not more than SRTT
// Requirement: RFC 8985 6.2-4
#[test]
fn the_reordering_window_is_a_quarter_of_the_round_trip() {
    let mut rack = Rack::new(3);
    rack.update_reo_wnd(&round());
    assert_eq!(rack.reo_wnd.duration(), Duration::from_millis(10));
}

// Requirement: RFC 8985 6.2-3
#[test]
fn in_order_networks_need_no_window_in_recovery_or_after_three_segments() {
    let mut rack = Rack::new(3);
    let cases = [(2, false, 10), (3, false, 0), (0, true, 0)];
    for (segments_sacked, is_in_recovery, millis) in cases {
        rack.update_reo_wnd(&Round {
            segments_sacked,
            is_in_recovery,
            ..round()
        });
        assert_eq!(rack.reo_wnd.duration(), Duration::from_millis(millis));
    }
    rack.note_reordering();
    rack.update_reo_wnd(&Round {
        segments_sacked: 9,
        is_in_recovery: true,
        ..round()
    });
    assert_eq!(rack.reo_wnd.duration(), Duration::from_millis(10));
}

// Requirement: RFC 8985 6.2-4
#[test]
fn duplicates_widen_the_window_once_a_round_and_for_sixteen_recoveries() {
    let mut rack = Rack::new(3);
    let duplicate = Round {
        has_dsack: true,
        ..round()
    };
    rack.update_reo_wnd(&duplicate);
    rack.update_reo_wnd(&duplicate);
    assert_eq!(rack.reo_wnd.duration(), Duration::from_millis(20));
    // The round ends at 1000.
    let next = Round {
        snd_una: SeqNumber(1000),
        snd_nxt: SeqNumber(2000),
        ..duplicate
    };
    rack.update_reo_wnd(&next);
    assert_eq!(rack.reo_wnd.duration(), Duration::from_millis(30));
    for _ in 0..20 {
        rack.update_reo_wnd(&Round {
            snd_una: rack.dsack_round,
            ..duplicate
        });
    }
    assert_eq!(
        rack.reo_wnd.duration(),
        Duration::from_millis(60),
        "not above SRTT"
    );
    let leaving = Round {
        is_leaving_recovery: true,
        ..round()
    };
    for _ in 0..15 {
        rack.update_reo_wnd(&leaving);
        assert_eq!(rack.reo_wnd.duration(), Duration::from_millis(60));
    }
    rack.update_reo_wnd(&leaving);
    assert_eq!(rack.reo_wnd.duration(), Duration::from_millis(10));
}

/// §6.2 step 3
// Requirement: RFC 8985 6.2-2
#[test]
fn an_original_behind_what_had_arrived_before_shows_reordering() {
    let mut rack = Rack::new(3);
    let fack = rack.fack();
    assert!(!rack.on_delivered(&segment(4, at(4)), fack, None, false, at(50)));
    // Reported by the same acknowledgement: no order is known.
    assert!(!rack.on_delivered(&segment(2, at(2)), fack, None, false, at(50)));
    let fack = rack.fack();
    let retransmitted = SentSegment {
        is_retransmitted: true,
        ..segment(1, at(1))
    };
    assert!(!rack.on_delivered(&retransmitted, fack, None, false, at(60)));
    assert_eq!(rack.reordering(100), 3);
    assert!(rack.on_delivered(&segment(3, at(3)), fack, None, false, at(60)));
    // From the start of the segment to the end of what overtook it.
    assert_eq!(rack.reordering(100), 3);
    assert_eq!(rack.reordering(40), 5);
    assert_eq!(rack.reordering(0), 200);
}

/// §6.2 steps 1 and 2
// Requirement: RFC 8985 6.2-1
#[test]
fn the_segment_sent_last_counts_unless_its_retransmission_cannot_have_arrived() {
    let mut rack = Rack::new(3);
    rack.on_delivered(&segment(5, at(5)), None, Some(MIN_RTT), false, at(65));
    assert_eq!(rack.newest.unwrap().0, at(5));
    assert_eq!(rack.rtt.duration(), Duration::from_millis(60));
    rack.on_delivered(&segment(3, at(3)), None, Some(MIN_RTT), false, at(66));
    assert_eq!(rack.newest.unwrap().0, at(5), "sent earlier");
    let retransmitted = SentSegment {
        is_retransmitted: true,
        ..segment(1, at(60))
    };
    rack.on_delivered(&retransmitted, None, Some(MIN_RTT), false, at(99));
    assert_eq!(rack.newest.unwrap().0, at(5), "after 39 ms");
    rack.on_delivered(&retransmitted, None, Some(MIN_RTT), true, at(101));
    assert_eq!(rack.newest.unwrap().0, at(5), "by its timestamp");
    rack.on_delivered(&retransmitted, None, Some(MIN_RTT), false, at(101));
    assert_eq!(rack.newest.unwrap().0, at(60));
    assert_eq!(rack.rtt.duration(), Duration::from_millis(41));
}

#[test]
fn held_back_reports_are_waited_for_if_the_order_is_not_kept() {
    let micros = Duration::from_micros;
    let mut rack = Rack::new(3);
    assert_eq!(rack.sack_delay(Some(micros(60_000))), Duration::ZERO);
    rack.note_reordering();
    for (srtt, delay) in [(60_000, 1_100), (1_000, 150), (30, 15)] {
        assert_eq!(rack.sack_delay(Some(micros(srtt))), micros(delay));
    }
    assert_eq!(rack.sack_delay(None), Duration::ZERO);
}
