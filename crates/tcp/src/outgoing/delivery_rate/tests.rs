use super::*;

const LEN: u32 = 1000;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A sender of segments of [`LEN`] octets, numbered from 0.
#[derive(Default)]
struct Sender {
    rate: DeliveryRate,
    sent: u32,
    acked: u32,
}

impl Sender {
    fn send(&mut self, count: u32, millis: u64) {
        for _ in 0..count {
            let is_alone = self.sent == self.acked;
            self.sent += 1;
            let end = SeqNumber(self.sent * LEN);
            self.rate.on_sent(Sent { end, is_alone }, at(millis));
        }
    }

    fn ack(&mut self, count: u32, millis: u64) {
        self.acked += count;
        let snd_una = SeqNumber(self.acked * LEN);
        let min_rtt = || Some(Duration::from_millis(20));
        self.rate.on_ack(at(millis), snd_una, count * LEN, min_rtt);
    }
}

/// Times are measured in ticks that are no round numbers.
#[track_caller]
fn assert_near(rate: &DeliveryRate, expected: u64) {
    let rate = rate.octets_per_second();
    assert!(rate.abs_diff(expected) <= expected / 500, "{rate}");
}

#[test]
fn a_flight_that_is_acknowledged_at_once_gives_its_size_over_the_round_trip() {
    let mut sender = Sender::default();
    assert_eq!(sender.rate.octets_per_second(), 0);
    sender.send(10, 100);
    sender.ack(10, 120);
    assert_near(&sender.rate, 10_000 * 50);
}

#[test]
fn a_steady_stream_gives_its_rate() {
    let mut sender = Sender::default();
    sender.send(10, 100);
    // The network delivers a segment each 5 ms, and as many leave.
    for step in 0..100 {
        sender.ack(1, 150 + step * 5);
        sender.send(1, 150 + step * 5);
    }
    assert_near(&sender.rate, 1000 * 200);
}

#[test]
fn compressed_acknowledgements_do_not_raise_the_rate() {
    let mut sender = Sender::default();
    for step in 0..10 {
        sender.send(1, 100 + step * 10);
    }
    // They were sent over 90 ms and acknowledged within 10: of the first nothing shows that the way
    // was free before.
    sender.ack(5, 190);
    sender.send(5, 190);
    sender.ack(5, 200);
    sender.ack(5, 210);
    assert!(sender.rate.octets_per_second() <= 10_000 * 1000 / 89);
}

#[test]
fn what_the_application_holds_back_counts_only_if_it_is_fast() {
    let mut sender = Sender::default();
    sender.send(10, 100);
    sender.ack(10, 120);
    assert!(!sender.rate.is_app_limited());
    sender.rate.on_app_limited(0);
    sender.send(1, 200);
    sender.ack(1, 220);
    assert_near(&sender.rate, 500_000);
    sender.rate.on_app_limited(0);
    sender.send(20, 300);
    sender.ack(20, 320);
    assert_near(&sender.rate, 1_000_000);
    assert!(sender.rate.is_app_limited());
    // The bubble is gone.
    sender.send(2, 400);
    sender.ack(2, 420);
    assert_near(&sender.rate, 100_000);
    assert!(!sender.rate.is_app_limited());
}

#[test]
fn a_sample_shorter_than_any_round_trip_is_none() {
    let mut sender = Sender::default();
    sender.send(1, 100);
    sender.ack(1, 101);
    assert_eq!(sender.rate.octets_per_second(), 0);
}

#[test]
fn times_and_octets_wrap_around() {
    let mut sender = Sender::default();
    sender.rate.delivered = u32::MAX - 10;
    let ticks = u64::from(u32::MAX);
    let at = |micros: u64| Instant::from_nanos(((ticks - 10_000) << TICK_BITS) + micros * 1000);
    let (end, is_alone) = (SeqNumber(LEN), true);
    sender.rate.on_sent(Sent { end, is_alone }, at(0));
    sender.rate.on_ack(at(20_000), end, LEN, || None);
    assert_near(&sender.rate, 50_000);
}
