use super::*;

const MSS: u32 = 1000;

fn millis(value: u64) -> Duration {
    Duration::from_millis(value)
}

fn at(value: u64) -> Instant {
    Instant::ZERO + millis(value)
}

/// An estimator whose variance term is not hidden by the lower bound.
fn precise() -> RttEstimator {
    RttEstimator::new(millis(1), DEFAULT_MAX_RTO)
}

/// RFC 6298 §2.1
// Requirement: RFC 6298 2-1
#[test]
fn without_a_measurement_the_timeout_is_one_second() {
    let estimator = RttEstimator::default();
    assert_eq!(estimator.rto(), Duration::from_secs(1));
    assert_eq!(estimator.srtt(), None);
    assert_eq!(estimator.min_rtt(), None);
}

/// RFC 6298 §2.2
// Requirement: RFC 9293 MUST-18; RFC 6298 2-2
#[test]
fn the_first_measurement_sets_both_estimates() {
    let mut estimator = precise();
    estimator.on_sample(at(0), millis(100), MSS, MSS);
    assert_eq!(estimator.srtt(), Some(millis(100)));
    assert_eq!(estimator.rttvar(), Some(millis(50)));
    assert_eq!(estimator.rto(), millis(300));
}

/// RFC 6298 §2.3
// Requirement: RFC 6298 2-3
#[test]
fn later_measurements_are_smoothed() {
    let mut estimator = precise();
    estimator.on_sample(at(0), millis(100), MSS, MSS);
    estimator.on_sample(at(100), millis(180), MSS, MSS);
    // RTTVAR = 3/4 * 50 + 1/4 * |100 - 180|; SRTT = 7/8 * 100 + 1/8 * 180
    assert_eq!(estimator.rttvar(), Some(Duration::from_micros(57_500)));
    assert_eq!(estimator.srtt(), Some(millis(110)));
    estimator.on_sample(at(200), millis(30), MSS, MSS);
    // RTTVAR = 3/4 * 57.5 + 1/4 * 80; SRTT = 7/8 * 110 + 1/8 * 30
    assert_eq!(estimator.rttvar(), Some(Duration::from_micros(63_125)));
    assert_eq!(estimator.srtt(), Some(millis(100)));
    assert_eq!(estimator.rto(), Duration::from_micros(100_000 + 4 * 63_125));
}

// Requirement: RFC 6298 2-4, 4-1
#[test]
fn the_timeout_stays_the_minimum_above_the_round_trip() {
    let mut estimator = RttEstimator::default();
    for round in 0..100 {
        estimator.on_sample(at(round), millis(10), MSS, MSS);
    }
    assert!(estimator.rttvar().unwrap() < millis(1));
    assert_eq!(estimator.rto(), millis(210));
    estimator.set_min_rto(millis(5));
    assert_eq!(estimator.rto(), millis(15));
    estimator.set_min_rto(Duration::ZERO);
    assert_eq!(estimator.rto(), millis(11));
}

/// RFC 6298 §5.5, §2.5
// Requirement: RFC 9293 MUST-19; RFC 6298 2-5, 5-5
#[test]
fn each_timeout_doubles_up_to_two_minutes() {
    let mut estimator = RttEstimator::default();
    for seconds in [1, 2, 4, 8, 16, 32, 64, 120, 120, 120] {
        assert_eq!(estimator.rto(), Duration::from_secs(seconds));
        estimator.on_timeout();
    }
    for _ in 0..1000 {
        estimator.on_timeout();
    }
    assert_eq!(estimator.rto(), DEFAULT_MAX_RTO);
    estimator.on_sample(at(0), millis(100), MSS, MSS);
    assert_eq!(estimator.rto(), millis(300));
    assert_eq!(estimator.backoff(), 0);
}

/// RFC 6298 §5.7
// Requirement: RFC 6298 5-7
#[test]
fn data_begins_at_three_seconds_after_a_lost_syn() {
    let mut estimator = RttEstimator::default();
    estimator.on_timeout();
    assert_eq!(estimator.rto(), Duration::from_secs(2));
    estimator.on_handshake_retransmitted();
    assert_eq!(estimator.rto(), Duration::from_secs(3));
    estimator.on_sample(at(0), millis(100), MSS, MSS);
    assert_eq!(estimator.rto(), millis(300));
}

/// RFC 7323 appendix G
#[test]
fn many_samples_per_round_trip_weigh_as_one() {
    let mut one = precise();
    one.on_sample(at(0), millis(100), MSS, MSS);
    let mut many = one.clone();
    // One round trip: one sample, or one per two of forty segments.
    one.on_sample(at(100), millis(200), MSS, MSS);
    for sample in 0..20 {
        many.on_sample(at(100 + sample), millis(200), 40 * MSS, MSS);
    }
    let difference = one.srtt().unwrap().abs_diff(many.srtt().unwrap());
    assert!(difference < millis(1), "{difference:?}");
    assert_eq!(one.srtt(), Some(Duration::from_micros(112_500)));
}

#[test]
fn expected_samples_round_up() {
    assert_eq!(expected_samples(0, 1000), 1);
    assert_eq!(expected_samples(2000, 1000), 1);
    assert_eq!(expected_samples(2001, 1000), 2);
    assert_eq!(expected_samples(u32::MAX, 0), 1 << 31);
}

#[test]
fn absurd_measurements_do_no_harm() {
    let mut estimator = precise();
    estimator.on_sample(at(0), Duration::MAX, u32::MAX, 0);
    assert_eq!(estimator.rto(), DEFAULT_MAX_RTO);
    estimator.on_sample(at(0), Duration::ZERO, 0, u32::MAX);
    assert!(estimator.rto() <= DEFAULT_MAX_RTO);
    estimator.on_timeout();
    assert_eq!(estimator.rto(), DEFAULT_MAX_RTO);
}

#[test]
fn the_minimum_takes_samples_that_the_average_must_not_see() {
    let mut estimator = precise();
    estimator.on_sample(at(0), millis(100), MSS, MSS);
    estimator.on_min_rtt_sample(at(1), millis(60));
    assert_eq!(estimator.min_rtt(), Some(millis(60)));
    assert_eq!(estimator.srtt(), Some(millis(100)));
}

#[test]
fn the_upper_bound_can_be_lowered_but_not_below_the_lower() {
    let mut estimator = RttEstimator::new(millis(200), Duration::from_secs(3));
    for seconds in [1, 2, 3, 3] {
        assert_eq!(estimator.rto(), Duration::from_secs(seconds));
        estimator.on_timeout();
    }
    assert_eq!(
        RttEstimator::new(millis(500), millis(100)).rto(),
        millis(500)
    );
}
