use super::*;

const SHORT: u64 = LONG_NSEC / 10;
const MSEC: u64 = 1_000_000;

fn hit(contention: Contention, now_nsec: u64) -> Contention {
    contention.taken(now_nsec, SHORT, true)
}

/// Takes all offers, one after the other.
fn all_hits(contention: Contention, now_nsec: u64) -> Contention {
    (0..HITS).fold(contention, |contention, _| hit(contention, now_nsec))
}

#[test]
fn few_short_runs_are_not_enough() {
    let mut contention = Contention::NONE;
    let mut now = 0;
    // Threads of the kernel, some hundred in a second, which is more than there are on any CPU.
    for _ in 0..1000 {
        contention = hit(contention.at(now), now);
        assert!(!contention.is_shared());
        now += WINDOW_NSEC / (u64::from(HITS) - 1) + 1;
    }
    assert_eq!(contention.at(now + WINDOW_NSEC), Contention::NONE);
}

#[test]
fn offers_are_frequent_only_as_long_as_they_are_taken() {
    assert_eq!(Contention::NONE.offers(), Offers::After(INTERVAL_NSEC));
    let mut contention = hit(Contention::NONE, 0);
    for _ in 0..REFUSALS {
        assert_eq!(contention.offers(), Offers::After(0));
        contention = contention.refused();
    }
    assert_eq!(contention.offers(), Offers::After(INTERVAL_NSEC));
    // What was known is not forgotten yet.
    let again = (1..HITS).fold(contention, |state, _| hit(state, WINDOW_NSEC - 1));
    assert!(again.is_shared());
}

#[test]
fn pauses_grow_while_polling_is_disturbed_and_start_afresh_when_it_is_not() {
    let mut contention = Contention::NONE;
    let mut now = 0;
    let mut pauses = Vec::new();
    for _ in 0..7 {
        contention = all_hits(contention, now);
        let State::Shared { until_nsec, .. } = contention.state else {
            panic!("disturbed again");
        };
        pauses.push((until_nsec - now) / MSEC);
        assert_eq!(contention.at(until_nsec - 1), contention);
        now = until_nsec;
        contention = contention.at(now);
        assert!(!contention.is_shared());
        assert_eq!(contention.offers(), Offers::After(0));
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100]);
    assert_eq!(contention.at(now + WINDOW_NSEC), Contention::NONE);
}

/// A thread that polls all the time, of which others take `lost_nsec` in each sample, in so many
/// runs.
fn watch(contention: Contention, samples: u64, lost_nsec: u64, runs: u64) -> Contention {
    let mut usage = ThreadUsage {
        now_nsec: 1,
        ..ThreadUsage::NONE
    };
    let mut contention = contention;
    for _ in 0..=samples {
        contention = contention.watched(usage);
        usage.now_nsec += SAMPLE_NSEC;
        usage.cpu_nsec += SAMPLE_NSEC - lost_nsec;
        usage.involuntary += runs;
    }
    contention
}

#[test]
fn who_has_work_of_its_own_gets_no_offers() {
    let taken = Contention::NONE.taken(0, LONG_NSEC, true);
    assert!(matches!(taken.offers(), Offers::NoneButWatch { .. }));
    assert!(!taken.is_shared());
    let half = watch(taken, WATCH_NSEC / SAMPLE_NSEC, SAMPLE_NSEC / 2, 1);
    let State::Shared {
        until_nsec,
        busy: true,
    } = half.state
    else {
        panic!("{half:?}");
    };
    assert!(until_nsec >= LONG_PAUSE_MIN_NSEC);
    let again = half.at(until_nsec);
    assert!(matches!(again.offers(), Offers::NoneButWatch { .. }));
}

#[test]
fn one_of_low_priority_is_no_reason_to_sleep() {
    let mut contention = Contention::NONE.taken(0, LONG_NSEC, true);
    let mut usage = ThreadUsage::NONE;
    // The nice(1) value 19 has a weight of 15 beside 1024.
    for sample in 0..FORGET_NSEC / SAMPLE_NSEC + 5 {
        let is_its_turn = sample % 200 > 197;
        usage.now_nsec += SAMPLE_NSEC;
        usage.cpu_nsec += if is_its_turn { 0 } else { SAMPLE_NSEC };
        usage.involuntary += u64::from(is_its_turn);
        contention = contention.watched(usage);
        assert!(!contention.is_shared(), "{sample}");
    }
    assert_eq!(contention, Contention::NONE);
}

#[test]
fn a_sleeping_thread_loses_nothing() {
    let mut contention = Contention::NONE.taken(0, LONG_NSEC, true);
    let mut usage = ThreadUsage::NONE;
    for _ in 0..100 {
        usage.now_nsec += SAMPLE_NSEC;
        usage.voluntary += 1;
        usage.involuntary += 1;
        contention = contention.watched(usage);
        assert!(matches!(contention.offers(), Offers::NoneButWatch { .. }));
    }
}

#[test]
fn short_runs_end_the_watch_unless_they_did_in_vain() {
    let mut contention = Contention::NONE;
    for patience in [2, 4, 8, 16, 32, 64, 64] {
        contention = contention.taken(0, LONG_NSEC, true);
        let before = watch(contention, patience - 1, SHORT, 1);
        assert!(
            matches!(before.offers(), Offers::NoneButWatch { .. }),
            "{patience}"
        );
        contention = watch(contention, patience, SHORT, 1);
        assert_eq!(contention.offers(), Offers::After(0), "{patience}");
    }
}

#[test]
fn threads_that_poll_for_ever_meet_in_their_offers() {
    // Two that take each other for busy, from different times on, and at different ends of a row of
    // attempts.
    let mut patient = Contention::NONE;
    for _ in 0..20 {
        patient = patient.taken(0, LONG_NSEC, false);
    }
    let patient = patient.taken(123 * MSEC, LONG_NSEC, false);
    let State::Withheld { until_nsec } = patient.state else {
        panic!("{patient:?}");
    };
    assert!(until_nsec <= 123 * MSEC + WITHHELD_MAX_NSEC);
    let mut hasty = Contention::NONE;
    for now in (124 * MSEC..=until_nsec + MSEC).step_by(100_000) {
        assert!(!hasty.is_shared());
        hasty = hasty.at(now);
        if hasty.offers() == Offers::None {
            continue;
        }
        if now >= until_nsec {
            assert_eq!(patient.at(now).offers(), Offers::After(0));
            return;
        }
        hasty = hasty.taken(now, LONG_NSEC, false);
    }
    panic!("no offers");
}
