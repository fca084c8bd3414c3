use super::*;

const MSEC: u64 = 1_000_000;
const TIME: Window = Window::AfterWarmUp {
    warm_up_nsec: 400 * MSEC,
};

fn received(tx_nsec: u64, rtt_nsec: u64) -> Event {
    Event {
        tx_nsec,
        lag_nsec: 1_000_000,
        outcome: Outcome::Received(rtt_nsec),
    }
}

#[test]
fn time_window_cuts_400_msec_and_50_msec() {
    let mut recorder = Recorder::new(TIME, None, None).unwrap();
    let start = 7 * MSEC;
    for msec in 0..=1000 {
        recorder.record(received(start + msec * MSEC, 10_000 + msec));
    }
    let valid = recorder.finish(start + 1000 * MSEC);
    // 400, 401, ... 950 ms after the first one.
    assert_eq!(valid.sent, 551);
    assert_eq!(valid.round_trips.min_nsec, 10_400);
    assert_eq!(valid.round_trips.max_nsec, 10_950);
    assert_eq!(valid.run_time_nsec(), 550 * MSEC + 10_950);
}

#[test]
fn time_window_ends_before_an_unanswered_last_message() {
    let mut recorder = Recorder::new(TIME, None, None).unwrap();
    for msec in 0..=500 {
        recorder.record(received(msec * MSEC, 1));
    }
    let valid = recorder.finish(530 * MSEC);
    assert_eq!(valid.sent, 81);
}

#[test]
fn short_run_has_no_valid_sample() {
    let mut recorder = Recorder::new(TIME, None, None).unwrap();
    for msec in 0..=420 {
        recorder.record(received(msec * MSEC, 1));
    }
    let valid = recorder.finish(420 * MSEC);
    assert_eq!(
        (valid.sent, valid.round_trips.count, valid.run_time_nsec()),
        (0, 0, 0)
    );
}

#[test]
fn packet_window_skips_8000_and_keeps_n() {
    let mut recorder = Recorder::new(Window::Packets(3), None, None).unwrap();
    for index in 0..9003 {
        recorder.record(received(index, index));
    }
    let valid = recorder.finish(9003);
    assert_eq!(valid.sent, 3);
    assert_eq!(
        (valid.round_trips.min_nsec, valid.round_trips.max_nsec),
        (8000, 8002)
    );
}

#[test]
fn losses_and_reordering_are_not_samples() {
    let mut recorder = Recorder::new(Window::Packets(4), None, None).unwrap();
    for index in 0..8000 {
        recorder.record(received(index, 1));
    }
    recorder.record(received(8000, 5));
    recorder.record(Event {
        tx_nsec: 8001,
        lag_nsec: 0,
        outcome: Outcome::OutOfOrder,
    });
    recorder.record(received(8002, 7));
    recorder.record(Event {
        tx_nsec: 9000,
        lag_nsec: 0,
        outcome: Outcome::Dropped,
    });
    let valid = recorder.finish(9000);
    assert_eq!((valid.sent, valid.round_trips.count), (4, 2));
    assert_eq!((valid.dropped, valid.out_of_order), (1, 1));
    assert_eq!(valid.run_time_nsec(), 1000);
}

#[test]
fn corrected_times_count_from_the_plan() {
    let recorder = Recorder::new(Window::Everything, None, None).unwrap();
    let mut recorder = recorder.with_corrected(1).unwrap();
    recorder.record(received(5, 100));
    let valid = recorder.finish(5);
    assert_eq!(valid.round_trips.max_nsec, 100);
    assert_eq!(valid.corrected.unwrap().max_nsec, 1_000_100);
}

#[test]
fn delay_line_is_bounded() {
    let mut recorder = Recorder::new(TIME, None, None).unwrap();
    recorder.record(received(0, 1));
    let capacity = recorder.pending.capacity();
    for index in 0..PENDING_CAPACITY as u64 + 10 {
        recorder.record(received(400 * MSEC + index, 1));
    }
    assert_eq!(recorder.pending.capacity(), capacity);
    assert_eq!(recorder.finish(400 * MSEC).sent, 10);
}

#[test]
fn log_stops_at_its_capacity() {
    let log = SampleLog::with_capacity(2).unwrap();
    let mut recorder = Recorder::new(Window::Packets(5), None, Some(log)).unwrap();
    for index in 0..8005 {
        recorder.record(received(index, 2));
    }
    let log = recorder.finish(9000).log.unwrap();
    assert_eq!(log.samples.len() as u64 + log.omitted, 5);
    assert_eq!(log.samples[..2], [(8000, 2), (8001, 2)]);
}

#[test]
fn threads_add_up() {
    let valid = |times: &[(u64, u64)]| {
        let log = SampleLog::with_capacity(10).unwrap();
        let mut recorder = Recorder::new(Window::Everything, None, Some(log)).unwrap();
        for &(tx_nsec, rtt_nsec) in times {
            recorder.record(received(tx_nsec, rtt_nsec));
        }
        recorder.record(Event {
            tx_nsec: 900,
            lag_nsec: 0,
            outcome: Outcome::Dropped,
        });
        recorder.finish(u64::MAX)
    };
    let mut sum = valid(&[(100, 50), (300, 10)]);
    sum.add(valid(&[(80, 700), (200, 20)]));
    sum.add(
        Recorder::new(Window::Everything, None, None)
            .unwrap()
            .finish(0),
    );
    assert_eq!((sum.sent, sum.dropped, sum.round_trips.count), (6, 2, 4));
    assert_eq!(
        (sum.round_trips.min_nsec, sum.round_trips.max_nsec),
        (10, 700)
    );
    assert_eq!(sum.round_trips.sum_nsec, 780);
    assert_eq!(sum.round_trips.histogram.len(), 4);
    assert_eq!(sum.run_time_nsec(), 900 - 80);
    let order: Vec<u64> = sum.log.unwrap().samples.iter().map(|it| it.0).collect();
    assert_eq!(order, [80, 100, 200, 300]);
}

#[test]
fn another_warm_up_time_is_cut() {
    let window = Window::AfterWarmUp { warm_up_nsec: 0 };
    let mut recorder = Recorder::new(window, None, None).unwrap();
    for msec in 0..=1000 {
        recorder.record(received(msec * MSEC, 10_000));
    }
    let valid = recorder.finish(1000 * MSEC);
    assert_eq!(valid.sent, 951);
    assert_eq!(valid.settling.unwrap().settled_after_sec, 0.0);
}
