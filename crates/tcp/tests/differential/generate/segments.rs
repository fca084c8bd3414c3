//! Segments of a peer that is not quite as it should be.

use packetdrill::Segment;
use packetdrill::script::{TcpOption, flags};

use super::Generator;
use crate::plan::Action;
use crate::view;

impl Generator {
    /// A segment as it should be.
    pub(super) fn segment(&mut self, bits: u8) -> Segment {
        let options = if self.uses_timestamps {
            vec![
                TcpOption::Nop,
                TcpOption::Nop,
                TcpOption::Timestamp {
                    val: self.clock,
                    ecr: 0,
                },
            ]
        } else {
            Vec::new()
        };
        Segment {
            seq: self.view.next(),
            ack: if bits & flags::ACK != 0 {
                self.view.acked.max(1)
            } else {
                0
            },
            flags: bits,
            window: self.window,
            options,
            ..Segment::default()
        }
    }

    pub(super) fn change_window(&mut self) {
        if self.rng.chance(120_000) {
            self.window = self.rng.pick(&[0, 0, 1, 5, 50, 257, 1000, 10_000, 65_535]);
        }
    }

    pub(super) fn acknowledge(&mut self) -> Action {
        self.change_window();
        let mut ack = self.segment(flags::ACK);
        let ranges = self.view.unacked();
        let all = self.view.sent_end.max(1);
        ack.ack = match self.rng.between(0, 99) {
            0..=44 => all,
            45..=64 if !ranges.is_empty() => {
                let index = usize::try_from(self.rng.between(0, ranges.len() as u64 - 1)).unwrap();
                ranges[index].1
            }
            // Linux takes the timestamp of some of them.
            70..=74 if self.uses_timestamps => all,
            70..=74 => self
                .view
                .acked
                .max(1)
                .wrapping_sub(self.rng.pick(&[1, 1000, 100_000])),
            75..=76 => all.wrapping_add(self.rng.pick(&[1, 1000, 1_000_000])),
            _ => self.view.acked.max(1),
        };
        // With both Linux measures RACK's round trip by the acknowledged ones.
        if self.uses_sack && ack.ack == self.view.acked.max(1) && self.rng.chance(700_000) {
            self.add_sack(&mut ack);
        }
        if self.ecn && self.rng.chance(80_000) {
            ack.flags |= flags::ECE;
        }
        self.disturb_timestamp(&mut ack);
        Action::Inject(ack)
    }

    pub(super) fn disturb_timestamp(&mut self, segment: &mut Segment) {
        if !self.uses_timestamps || !self.rng.chance(60_000) {
            return;
        }
        match self.rng.between(0, 4) {
            0 => segment.options.clear(),
            change => {
                for option in &mut segment.options {
                    if let TcpOption::Timestamp { val, ecr } = option {
                        match change {
                            1 => *val = val.wrapping_sub(5),
                            2 => *val = val.wrapping_sub(5000),
                            3 => *ecr = ecr.wrapping_sub(10),
                            _ => *ecr = ecr.wrapping_add(100_000),
                        }
                    }
                }
            }
        }
    }

    pub(super) fn add_sack(&mut self, ack: &mut Segment) {
        let ranges: Vec<(u32, u32)> = self
            .view
            .unacked()
            .into_iter()
            .filter(|(start, _)| view::after(*start, ack.ack))
            .collect();
        let mut blocks: Vec<(u32, u32)> = Vec::new();
        for number in 0..self.rng.between(1, 3) {
            if number == 0 && self.rng.chance(50_000) {
                // Wrong ones, and what came twice.
                let una = ack.ack;
                blocks.push(self.rng.pick(&[
                    (una.wrapping_sub(1000), una),
                    (self.view.sent_end, self.view.sent_end.wrapping_add(1000)),
                    (una.wrapping_add(1000), una.wrapping_add(500)),
                ]));
                continue;
            }
            if ranges.is_empty() {
                break;
            }
            let from = usize::try_from(self.rng.between(0, ranges.len() as u64 - 1)).unwrap();
            let to =
                (from + usize::try_from(self.rng.between(0, 3)).unwrap()).min(ranges.len() - 1);
            let block = (ranges[from].0, ranges[to].1);
            if blocks
                .iter()
                .all(|(start, end)| block.1 < *start || *end < block.0)
            {
                blocks.push(block);
            }
        }
        if blocks.is_empty() {
            return;
        }
        ack.options.push(TcpOption::Nop);
        ack.options.push(TcpOption::Nop);
        ack.options.push(TcpOption::Sack(blocks));
    }

    pub(super) fn data(&mut self) -> Action {
        if self.view.our_fin.is_some() {
            return self.acknowledge();
        }
        self.change_window();
        let len = self
            .rng
            .pick(&[1, 10, 100, 500, self.full_len, self.full_len, self.full_len]);
        let push = if len < self.full_len {
            flags::PSH
        } else {
            self.rng.pick(&[0, 0, flags::PSH])
        };
        let mut segment = self.segment(flags::ACK | push);
        let next = self.view.next();
        segment.seq = match self.rng.between(0, 99) {
            0..=54 => next,
            55..=69 => self.view.last(),
            70..=84 => self
                .view
                .last()
                .wrapping_add(self.rng.pick(&[1, 500, 1000, 3000])),
            85..=89 => next.wrapping_sub(self.rng.pick(&[1, 500, 1000])).max(1),
            90 => next
                .wrapping_add(self.view.window)
                // Well beyond: Linux's window depends on the memory that packets take.
                .wrapping_add(self.rng.pick(&[100_000, 200_000])),
            _ => next.wrapping_add(self.rng.pick(&[500, 1000, 1000, 2000])),
        };
        segment.payload = vec![0; len];
        if self.rng.chance(600_000) {
            segment.ack = self.view.sent_end.max(1);
        }
        if self.rng.chance(20_000) {
            segment.flags |= flags::URG;
            segment.urgent = self.rng.pick(&[1, 5, 1000, 2000]);
        }
        if self.ecn {
            segment.tos = self.rng.pick(&[2, 2, 2, 2, 3, 0]);
            if self.rng.chance(50_000) {
                segment.flags |= flags::CWR;
            }
        }
        self.disturb_timestamp(&mut segment);
        Action::Inject(segment)
    }
}
