use super::*;
use crate::measure::recorder::{WARM_UP_PACKETS, Window};

fn flight(burst: u32) -> Flight {
    let mut flight = Flight::new(1, 1);
    begin(&mut flight, burst, 100);
    flight
}

fn begin(flight: &mut Flight, burst: u32, tx_nsec: u64) {
    (0..u64::from(burst)).for_each(|index| flight.push(tx_nsec + index, 0));
}

/// A recorder whose next events count.
fn warm_recorder() -> Recorder {
    let mut recorder = Recorder::new(Window::Packets(1000), None, None).unwrap();
    for _ in 0..WARM_UP_PACKETS {
        recorder.record(Event {
            tx_nsec: 0,
            lag_nsec: 0,
            outcome: Outcome::Dropped,
        });
    }
    recorder
}

#[test]
fn first_reply_is_in_time_second_is_duplicate() {
    let mut flight = flight(1);
    let mut recorder = warm_recorder();
    assert_eq!(flight.outstanding(), 1);
    assert_eq!(flight.receive(1, 200), Reply::InTime);
    assert_eq!(flight.outstanding(), 0);
    assert_eq!(flight.receive(1, 300), Reply::Duplicate);
    flight.settle(&mut recorder, Unanswered::Wait);
    begin(&mut flight, 1, 400);
    assert_eq!(flight.receive(1, 500), Reply::Duplicate);
    assert_eq!(flight.receive(2, 500), Reply::InTime);
}

#[test]
fn reply_to_a_dropped_message_is_late_once() {
    let mut flight = flight(1);
    flight.settle(&mut warm_recorder(), Unanswered::Drop);
    begin(&mut flight, 1, 400);
    assert_eq!(flight.receive(1, 500), Reply::Late);
    assert_eq!(flight.receive(1, 500), Reply::Duplicate);
    assert_eq!(flight.outstanding(), 1);
}

#[test]
fn unsent_numbers_are_unexpected() {
    let mut flight = flight(2);
    for sequence in [0, 3, u64::MAX] {
        assert_eq!(
            flight.receive(sequence, 200),
            Reply::Unexpected,
            "{sequence}"
        );
    }
    flight.unpush();
    assert_eq!(flight.receive(2, 200), Reply::Unexpected);
    assert_eq!((flight.count(), flight.outstanding()), (1, 1));
}

#[test]
fn only_every_so_many_messages_have_a_reply() {
    let mut flight = Flight::new(10, 1);
    begin(&mut flight, 3, 100);
    for sequence in [0, 1, 9, 11, 40] {
        assert_eq!(flight.receive(sequence, 200), Reply::Unexpected);
    }
    for sequence in [20, 10, 30] {
        assert_eq!(flight.receive(sequence, 200), Reply::InTime);
    }
}

#[test]
fn history_reaches_back_65536_messages() {
    let mut flight = Flight::new(1, 1);
    let mut recorder = warm_recorder();
    for _ in 0..=HISTORY_LEN {
        begin(&mut flight, 1, 100);
        flight.settle(&mut recorder, Unanswered::Drop);
    }
    assert_eq!(flight.receive(2, 200), Reply::Late);
    assert_eq!(flight.receive(1, 200), Reply::Duplicate);
}

#[test]
fn settle_tells_loss_from_reordering() {
    let mut flight = flight(4);
    flight.receive(1, 300);
    flight.receive(3, 250);
    flight.receive(4, 310);
    let mut recorder = warm_recorder();
    flight.settle(&mut recorder, Unanswered::Wait);
    assert_eq!((flight.unsettled(), flight.outstanding()), (3, 1));
    flight.settle(&mut recorder, Unanswered::Drop);
    let valid = recorder.finish(0);
    assert_eq!((valid.sent, valid.dropped, valid.out_of_order), (4, 1, 1));
    assert_eq!(valid.round_trips.count, 2);
    assert_eq!(valid.round_trips.sum_nsec, 200 + 207);
}

#[test]
fn settle_at_the_end_of_the_test_drops_nothing() {
    let mut flight = flight(2);
    flight.receive(1, 300);
    let mut recorder = warm_recorder();
    flight.settle(&mut recorder, Unanswered::Forget);
    assert_eq!((flight.count(), flight.outstanding()), (2, 0));
    let valid = recorder.finish(0);
    assert_eq!(
        (valid.sent, valid.dropped, valid.round_trips.count),
        (1, 0, 1)
    );
}

#[test]
fn a_lost_message_does_not_hold_up_the_later_ones() {
    // Sent at 100, 101, ...
    let mut flight = flight(5);
    flight.receive(3, 300);
    let mut recorder = warm_recorder();
    flight.settle_overtaken(&mut recorder, 101);
    assert_eq!(flight.unsettled(), 4);
    // Nothing later than the third has a reply: that may just be slow.
    flight.settle_overtaken(&mut recorder, 1000);
    flight.settle(&mut recorder, Unanswered::Wait);
    assert_eq!(flight.unsettled(), 2);
    let valid = recorder.finish(0);
    assert_eq!((valid.dropped, valid.round_trips.count), (2, 1));
}

#[test]
fn memory_of_messages_without_reply_is_bounded() {
    let mut flight = flight(10);
    flight.receive(2, 300);
    let mut recorder = warm_recorder();
    flight.settle_down_to(4, &mut recorder);
    assert_eq!((flight.unsettled(), flight.outstanding()), (4, 4));
    let valid = recorder.finish(0);
    assert_eq!((valid.dropped, valid.round_trips.count), (5, 1));
}
