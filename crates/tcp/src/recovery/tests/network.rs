//! A bulk transfer through a network that loses, delays and reorders by a seed: whatever happens,
//! all of it arrives, the sender never sends what cannot be missing, and the window is respected.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
struct Network {
    /// Of a thousand segments, and of a thousand acknowledgements.
    loss_per_mille: u64,
    ack_loss_per_mille: u64,
    delay_millis: u64,
    jitter_millis: u64,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Packet {
    Data {
        index: u32,
        timestamp: u32,
    },
    Ack {
        next: u32,
        blocks: [(u32, u32); 3],
        echo: u32,
    },
}

struct Transfer {
    network: Network,
    random: u64,
    flow: Flow,
    under_way: BinaryHeap<Reverse<(Instant, u64, Packet)>>,
    sent: u64,
    received: BTreeSet<u32>,
    next_expected: u32,
    next_new: u32,
    total: u32,
}

impl Transfer {
    fn random(&mut self, below: u64) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below.max(1)
    }

    fn put(&mut self, packet: Packet, loss_per_mille: u64) {
        self.sent += 1;
        if self.random(1000) < loss_per_mille {
            return;
        }
        let delay = self.network.delay_millis + self.random(self.network.jitter_millis + 1);
        let arrival = self.flow.now + Duration::from_millis(delay);
        self.under_way.push(Reverse((arrival, self.sent, packet)));
    }

    fn transmit(&mut self) {
        loop {
            let recovery = &mut self.flow.recovery;
            let can_send_new = self.next_new < self.total;
            let index = if let Some(segment) = recovery.next_to_retransmit(can_send_new) {
                assert!(!segment.was_sacked);
                let timestamp = self.flow.timestamp();
                let now = self.flow.now;
                self.flow
                    .recovery
                    .on_retransmitted(segment.seq, timestamp, now);
                (segment.seq - START) / MSS
            } else if can_send_new && recovery.room() >= MSS {
                recovery.before_sending(self.flow.now);
                let seq = START + self.next_new * MSS;
                recovery.on_sent(seq, MSS, false, self.flow.now);
                self.next_new += 1;
                self.next_new - 1
            } else {
                return;
            };
            let timestamp = u32::try_from(self.flow.now.as_nanos() / 1_000_000).unwrap();
            self.put(
                Packet::Data { index, timestamp },
                self.network.loss_per_mille,
            );
        }
    }

    fn receive(&mut self, index: u32, timestamp: u32) {
        let is_duplicate = index < self.next_expected || !self.received.insert(index);
        while self.received.remove(&self.next_expected) {
            self.next_expected += 1;
        }
        // RFC 2018 §4: the block of the last segment first; RFC 2883: or the duplicate.
        let mut blocks = Vec::new();
        if is_duplicate {
            blocks.push((index, index + 1));
        }
        let mut rest: Vec<(u32, u32)> = Vec::new();
        for &held in &self.received {
            match rest.last_mut() {
                Some((_, end)) if *end == held => *end += 1,
                Some(_) | None => rest.push((held, held + 1)),
            }
        }
        rest.sort_by_key(|&(first, end)| !(first..end).contains(&index));
        blocks.extend(rest);
        blocks.resize(3, (0, 0));
        let ack = Packet::Ack {
            next: self.next_expected,
            blocks: [blocks[0], blocks[1], blocks[2]],
            echo: timestamp,
        };
        self.put(ack, self.network.ack_loss_per_mille);
    }

    fn acknowledge(&mut self, next: u32, blocks: [(u32, u32); 3], echo: u32) {
        let blocks: Vec<_> = blocks
            .into_iter()
            .filter(|(first, end)| first < end)
            .collect();
        let millis = u32::try_from(self.flow.now.as_nanos() / 1_000_000).unwrap() - echo;
        let echo = (echo, Duration::from_millis(u64::from(millis)));
        let echo = self.flow.has_timestamps.then_some(echo);
        self.flow.ack_echoing(next, &blocks, echo);
    }

    /// Returns how long it took.
    fn run(&mut self) -> Duration {
        let start = self.flow.now;
        for _ in 0..200_000 {
            self.transmit();
            if self.flow.recovery.snd_una == START + self.total * MSS {
                return self.flow.now - start;
            }
            let arrival = self.under_way.peek().map(|Reverse((at, ..))| *at);
            let deadline = self.flow.recovery.deadline();
            let deadline = deadline.expect("data is outstanding but no timer runs");
            if arrival.is_none_or(|arrival| deadline < arrival) {
                self.flow.now = self.flow.now.max(deadline);
                let can_send_new = self.next_new < self.total;
                self.flow.recovery.on_timeout(self.flow.now, can_send_new);
                continue;
            }
            let Reverse((at, _, packet)) = self.under_way.pop().unwrap();
            self.flow.now = at;
            match packet {
                Packet::Data { index, timestamp } => self.receive(index, timestamp),
                Packet::Ack { next, blocks, echo } => self.acknowledge(next, blocks, echo),
            }
        }
        panic!("no progress: {:?}", self.network);
    }
}

fn transfer(
    network: Network,
    settings: Settings,
    has_timestamps: bool,
    total: u32,
) -> (Duration, Recovery) {
    let mut flow = Flow::with(settings);
    flow.has_timestamps = has_timestamps;
    let mut transfer = Transfer {
        random: network.seed | 1,
        network,
        flow,
        under_way: BinaryHeap::new(),
        sent: 0,
        received: BTreeSet::new(),
        next_expected: 0,
        next_new: 0,
        total,
    };
    let took = transfer.run();
    (took, transfer.flow.recovery)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn everything_arrives(
        loss_per_mille in prop::sample::select(vec![0_u64, 5, 30, 150, 400]),
        ack_loss_per_mille in prop::sample::select(vec![0_u64, 50, 300]),
        jitter_millis in prop::sample::select(vec![0_u64, 0, 3, 40]),
        seed in any::<u64>(),
        sack in any::<bool>(),
        has_timestamps in any::<bool>(),
        algorithm in prop::sample::select(vec![
            CongestionAlgorithm::NewReno,
            CongestionAlgorithm::Cubic,
            CongestionAlgorithm::None,
        ]),
    ) {
        let network = Network {
            loss_per_mille,
            ack_loss_per_mille,
            delay_millis: 20,
            jitter_millis,
            seed,
        };
        let settings = Settings { algorithm, sack, ..settings() };
        let (_, recovery) = transfer(network, settings, has_timestamps, 300);
        prop_assert_eq!(recovery.in_flight(), 0);
        prop_assert_eq!(recovery.deadline(), None);
        if loss_per_mille == 0 && ack_loss_per_mille == 0 && jitter_millis == 0 {
            prop_assert_eq!(recovery.total_retransmissions(), 0);
        }
    }
}

/// With SACK one loss in a hundred needs no timeouts: the transfer takes a few more round trips,
/// not a few more timeouts.
#[test]
fn moderate_loss_is_repaired_without_timeouts() {
    for seed in 1..20 {
        let network = Network {
            loss_per_mille: 10,
            ack_loss_per_mille: 0,
            delay_millis: 20,
            jitter_millis: 0,
            seed,
        };
        let (took, recovery) = transfer(network, settings(), true, 1000);
        assert!(took < Duration::from_secs(5), "seed {seed}: {took:?}");
        // What is sent again is what was lost, and now and then a probe.
        assert!(recovery.total_retransmissions() < 40, "seed {seed}");
    }
}

/// Reordering within a quarter of a round trip causes next to no retransmissions once it was seen.
#[test]
fn reordering_is_learnt() {
    for seed in 1..20 {
        let network = Network {
            loss_per_mille: 0,
            ack_loss_per_mille: 0,
            delay_millis: 40,
            jitter_millis: 15,
            seed,
        };
        let (_, recovery) = transfer(network, settings(), true, 2000);
        assert!(recovery.reorderings() > 0);
        let again = recovery.total_retransmissions();
        assert!(again < 60, "seed {seed}: {again} of 2000");
    }
}
