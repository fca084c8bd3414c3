//! A model of a link: what it does to packets, as pure computation. Time is a [`Duration`] since an
//! origin of the caller, virtual (simulations) or real ([`Relay`](crate::Relay)).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// What a link is like, in one direction. The default is a perfect one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Packets leave one after another at this rate; `None`: at once.
    pub rate_bits_per_second: Option<u64>,
    /// From leaving to arriving.
    pub delay: Duration,
    /// How much may wait for the rate, in octets; a packet that has no room is dropped.
    pub queue_octets: u64,
    /// What does not arrive although it left.
    pub loss: Loss,
    /// Probability that a packet arrives up to `reorder_delay` late, behind some that left after
    /// it.
    pub reorder: f64,
    pub reorder_delay: Duration,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
}

/// Packets that do not arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    #[default]
    None,
    /// Each with this probability, independently.
    Random(f64),
    /// Many in a row (Gilbert's model): a burst begins with probability `start` at each packet and
    /// ends with probability `end`; nothing arrives in between. Its mean length is 1 / `end`, the
    /// mean loss `start` / (`start` + `end`).
    Burst { start: f64, end: f64 },
    /// Always `len` in a row, from each packet on that is hit with probability `start`.
    Run { start: f64, len: u32 },
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            rate_bits_per_second: None,
            delay: Duration::ZERO,
            queue_octets: 1_000_000,
            loss: Loss::None,
            reorder: 0.0,
            reorder_delay: Duration::ZERO,
            duplicate: 0.0,
        }
    }
}

/// What happened to packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Came in.
    pub packets: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Made late.
    pub reordered: u64,
    /// Arrived twice.
    pub duplicated: u64,
}

/// Decides what becomes of packets in one direction of a link. The same seed and the same packets
/// have the same fate.
#[derive(Clone, Debug)]
pub struct Fate {
    conditions: Conditions,
    random: Random,
    is_in_burst: bool,
    /// Packets of a run that are still to be lost.
    run_left: u32,
    /// When the last of the packets that wait for the rate has left.
    busy_until: Duration,
    counts: LinkCounts,
}

/// One direction of a link: a [`Fate`], and the packets `T` on their way.
#[derive(Debug)]
pub struct Link<T> {
    fate: Fate,
    on_the_way: BinaryHeap<Reverse<Arrival<T>>>,
    next_number: u64,
}

#[derive(Debug)]
struct Arrival<T> {
    at: Duration,
    /// Those of one instant arrive in the order in which they left.
    number: u64,
    packet: T,
}

impl<T> PartialEq for Arrival<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Arrival<T> {}

impl<T> PartialOrd for Arrival<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Arrival<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Fate {
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        Self {
            conditions,
            random: Random::new(seed),
            is_in_burst: false,
            run_left: 0,
            busy_until: Duration::ZERO,
            counts: LinkCounts::default(),
        }
    }

    /// Other conditions for the packets to come.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// When a packet of `len_bytes` that comes to the link at `now` arrives: never, once or twice.
    /// Time must not go back from call to call.
    pub fn arrivals(&mut self, now: Duration, len_bytes: usize) -> [Option<Duration>; 2] {
        self.counts.packets += 1;
        let Some(departure) = self.departure(now, len_bytes) else {
            self.counts.dropped += 1;
            return [None; 2];
        };
        if self.loses() {
            self.counts.lost += 1;
            return [None; 2];
        }
        let punctual = departure + self.conditions.delay;
        let is_duplicated = self.random.happens(self.conditions.duplicate);
        self.counts.duplicated += u64::from(is_duplicated);
        let mut at = punctual;
        if self.random.happens(self.conditions.reorder) {
            self.counts.reordered += 1;
            at += self.conditions.reorder_delay.mul_f64(self.random.unit());
        }
        [is_duplicated.then_some(punctual), Some(at)]
    }

    /// What happened so far.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// When the packet leaves; `None` if the queue is full.
    fn departure(&mut self, now: Duration, len_bytes: usize) -> Option<Duration> {
        let Some(rate) = self.conditions.rate_bits_per_second else {
            return Some(now);
        };
        let waiting = self.busy_until.saturating_sub(now);
        let queued = u128::from(rate) * waiting.as_nanos() / (8 * NANOS);
        if queued + len_bytes as u128 > u128::from(self.conditions.queue_octets) {
            return None;
        }
        let nanos = len_bytes as u128 * 8 * NANOS / u128::from(rate.max(1));
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.busy_until = self.busy_until.max(now) + time;
        Some(self.busy_until)
    }

    fn loses(&mut self) -> bool {
        match self.conditions.loss {
            Loss::None => false,
            Loss::Random(probability) => self.random.happens(probability),
            Loss::Burst { start, end } => {
                let turn = if self.is_in_burst { end } else { start };
                self.is_in_burst ^= self.random.happens(turn);
                self.is_in_burst
            }
            Loss::Run { start, len } => {
                if self.random.happens(start) {
                    self.run_left = len;
                }
                let is_lost = self.run_left > 0;
                self.run_left = self.run_left.saturating_sub(1);
                is_lost
            }
        }
    }
}

impl<T: Clone> Link<T> {
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        Self {
            fate: Fate::new(conditions, seed),
            on_the_way: BinaryHeap::new(),
            next_number: 0,
        }
    }

    /// Other conditions for the packets to come.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.fate.set_conditions(conditions);
    }

    /// A packet of `len_bytes` comes to the link. Time must not go back from call to call.
    pub fn push(&mut self, now: Duration, len_bytes: usize, packet: T) {
        let [second, first] = self.fate.arrivals(now, len_bytes);
        if let Some(at) = second {
            self.arrive(at, packet.clone());
        }
        if let Some(at) = first {
            self.arrive(at, packet);
        }
    }

    /// When the next packet arrives.
    pub fn next_at(&self) -> Option<Duration> {
        self.on_the_way.peek().map(|Reverse(arrival)| arrival.at)
    }

    /// The next packet that has arrived at `now`.
    pub fn pop(&mut self, now: Duration) -> Option<T> {
        self.next_at().filter(|at| *at <= now)?;
        self.on_the_way.pop().map(|Reverse(arrival)| arrival.packet)
    }

    /// What happened so far.
    pub fn counts(&self) -> LinkCounts {
        self.fate.counts()
    }

    fn arrive(&mut self, at: Duration, packet: T) {
        let number = self.next_number;
        self.next_number += 1;
        self.on_the_way
            .push(Reverse(Arrival { at, number, packet }));
    }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number; all are equally likely.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True with `probability`.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// From 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what a f64 holds exactly.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const NANOS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Sends `count` packets of 1250 octets, one each `interval`; when and which arrived.
    fn arrivals(conditions: Conditions, count: u32, interval: Duration) -> Vec<(Duration, u32)> {
        let mut link = Link::new(conditions, 7);
        for number in 0..count {
            link.push(interval * number, 1250, number);
        }
        let mut arrived = Vec::new();
        while let Some(at) = link.next_at() {
            arrived.push((at, link.pop(at).unwrap()));
        }
        arrived
    }

    #[test]
    fn a_perfect_link_delivers_at_once_and_in_order() {
        let arrived = arrivals(Conditions::default(), 100, Duration::ZERO);
        assert_eq!(
            arrived,
            (0..100).map(|n| (Duration::ZERO, n)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn rate_delay_and_queue_add_up() {
        let conditions = Conditions {
            rate_bits_per_second: Some(10_000_000),
            delay: 5 * MS,
            queue_octets: 3 * 1250,
            ..Conditions::default()
        };
        // 1250 octets take a millisecond; three of those that come together have room.
        let expected = [(6 * MS, 0), (7 * MS, 1), (8 * MS, 2)];
        assert_eq!(arrivals(conditions, 10, Duration::ZERO), expected);
        // Those that come as fast as they leave all have room.
        assert_eq!(arrivals(conditions, 10, MS).len(), 10);
    }

    #[test]
    fn nothing_is_delivered_early() {
        let conditions = Conditions {
            delay: MS,
            ..Conditions::default()
        };
        let mut link = Link::new(conditions, 1);
        link.push(Duration::ZERO, 100, "packet");
        assert_eq!(link.pop(MS - Duration::from_nanos(1)), None);
        assert_eq!(link.pop(MS), Some("packet"));
    }

    #[test]
    fn random_loss_is_as_frequent_as_asked_for() {
        let conditions = Conditions {
            loss: Loss::Random(0.03),
            ..Conditions::default()
        };
        let arrived = arrivals(conditions, 100_000, Duration::ZERO).len();
        assert!((96_500..97_500).contains(&arrived), "{arrived}");
    }

    #[test]
    fn burst_loss_comes_in_bursts() {
        let conditions = Conditions {
            loss: Loss::Burst {
                start: 0.002,
                end: 0.2,
            },
            ..Conditions::default()
        };
        let arrived = arrivals(conditions, 100_000, Duration::ZERO);
        let lost = 100_000 - arrived.len();
        assert!((700..1300).contains(&lost), "{lost}");
        let bursts = arrived.windows(2).filter(|pair| pair[1].1 - pair[0].1 > 1);
        let bursts = bursts.count();
        assert!((3..8).contains(&(lost / bursts)), "{lost} in {bursts}");
    }

    #[test]
    fn runs_of_losses_have_their_length() {
        let conditions = Conditions {
            loss: Loss::Run {
                start: 0.001,
                len: 8,
            },
            ..Conditions::default()
        };
        let arrived = arrivals(conditions, 100_000, Duration::ZERO);
        let gaps = arrived.windows(2).map(|pair| pair[1].1 - pair[0].1 - 1);
        let runs: Vec<u32> = gaps.filter(|gap| *gap > 0).collect();
        assert!((60..140).contains(&runs.len()), "{}", runs.len());
        // Some begin within others.
        let exact = runs.iter().filter(|run| **run == 8).count();
        assert!(exact * 10 > runs.len() * 9, "{runs:?}");
    }

    #[test]
    fn a_late_packet_is_overtaken() {
        let conditions = Conditions {
            delay: MS,
            reorder: 0.3,
            reorder_delay: MS / 2,
            ..Conditions::default()
        };
        let arrived = arrivals(conditions, 1000, MS / 10);
        let overtaken = arrived.windows(2).filter(|pair| pair[0].1 > pair[1].1);
        assert!(overtaken.count() > 100);
        assert_eq!(arrived.len(), 1000);
    }

    #[test]
    fn a_duplicate_arrives_twice() {
        let conditions = Conditions {
            duplicate: 1.0,
            ..Conditions::default()
        };
        let arrived = arrivals(conditions, 3, MS);
        assert_eq!(
            arrived.iter().map(|it| it.1).collect::<Vec<_>>(),
            [0, 0, 1, 1, 2, 2]
        );
    }

    #[test]
    fn a_seed_decides_everything() {
        let conditions = Conditions {
            loss: Loss::Random(0.5),
            reorder: 0.5,
            reorder_delay: MS,
            ..Conditions::default()
        };
        let once = arrivals(conditions, 1000, MS / 10);
        assert_eq!(once, arrivals(conditions, 1000, MS / 10));
    }
}
