//! What should not come.

use packetdrill::script::flags;

use super::Generator;
use crate::plan::Action;
use crate::play::Player;

impl Generator {
    pub(super) fn hostile_handshake(&mut self, player: &mut Player<'_>) {
        for _ in 0..self.rng.between(1, 4) {
            let gap = self.gap();
            let bits = self.rng.pick(&[
                flags::SYN,
                flags::ACK,
                flags::RST,
                flags::RST | flags::ACK,
                flags::SYN | flags::ACK,
                flags::PSH | flags::URG | flags::ACK,
            ]);
            // A SYN-ACK that repeats the SYN, and simultaneous opens, are scripts of their own.
            let is_active = !self.plan.is_passive;
            if is_active && bits == flags::SYN || !is_active && bits == flags::SYN | flags::ACK {
                continue;
            }
            let mut segment = self.segment(bits);
            segment.seq = self.rng.pick(&[0, 1, 1, 2, u32::MAX, 100_000, 0x8000_0000]);
            segment.ack = self.rng.pick(&[0, 1, 1, 2, u32::MAX, 1000]);
            if bits & flags::SYN != 0 && self.rng.chance(800_000) {
                segment.options = self.our_syn_options();
            }
            if bits & (flags::RST | flags::SYN) == 0 && self.rng.chance(150_000) {
                segment.payload = vec![0; self.rng.pick(&[1, 100, 1000])];
            }
            self.step(player, gap, Action::Inject(segment));
        }
    }

    fn unreachable(&mut self) -> Action {
        let mtu = self.rng.pick(&[0, 500, 1000, 1200, 1400, 9000]);
        let code = self.rng.pick(&[0, 1, 2, 3, 4, 4, 4, 13]);
        let seq = self.rng.pick(&[
            self.view.acked.max(1),
            self.view.sent_end,
            self.view.sent_end.wrapping_add(5000),
        ]);
        // Linux believes one about what comes next, too.
        if self.view.acked.max(1) == self.view.sent_end {
            return Action::Wait;
        }
        Action::Unreachable {
            code,
            mtu: if code == 4 { mtu } else { 0 },
            seq,
        }
    }

    /// A segment or an ICMP message of an established connection's peer, or of somebody else.
    pub(super) fn odd(&mut self) -> Action {
        if self.view.our_fin.is_some() && self.rng.chance(800_000) {
            return self.acknowledge();
        }
        if self.rng.chance(150_000) {
            return self.unreachable();
        }
        let bits = self.rng.pick(&[
            flags::SYN,
            flags::SYN | flags::ACK,
            flags::RST,
            flags::RST | flags::ACK,
            flags::FIN | flags::ACK,
            flags::ACK,
            flags::ACK,
            flags::ACK | flags::URG,
            flags::ACK | flags::ECE,
            flags::ACK | flags::CWR,
        ]);
        let mut segment = self.segment(bits);
        let next = self.view.next();
        segment.seq = self.rng.pick(&[
            next,
            next,
            next.wrapping_sub(1),
            next.wrapping_add(1),
            next.wrapping_add(1000),
            next.wrapping_sub(1000),
            next.wrapping_add(self.view.window).wrapping_add(100_000),
            next.wrapping_add(0x7000_0000),
        ]);
        let una = self.view.acked.max(1);
        // Linux takes the timestamp of some acknowledgements that are too old.
        let uses_timestamps = self.uses_timestamps;
        let old = |by| una.wrapping_sub(if uses_timestamps { 0 } else { by });
        if bits & flags::ACK != 0 {
            segment.ack = self.rng.pick(&[
                una,
                self.view.sent_end,
                self.view.sent_end,
                self.view.sent_end.wrapping_add(1),
                old(1),
                old(1_000_000),
            ]);
        }
        let has_fin = bits & flags::FIN != 0;
        if (has_fin || self.view.our_fin.is_some()) && segment.seq.wrapping_sub(next) < 0x1000_0000
        {
            // Before data, or behind what is not the end.
            segment.seq = self.view.last();
        } else if bits & flags::RST == 0 && self.rng.chance(300_000) {
            segment.payload = vec![0; self.rng.pick(&[1, 100, 1000])];
            if segment.seq == next && bits & flags::ACK != 0 {
                // Linux's header prediction takes data whatever is acknowledged too late (RFC 5961
                // §5 forbids that).
                segment.ack = una;
            }
            segment.flags |= flags::PSH;
        }
        if bits & flags::URG != 0 {
            segment.urgent = self.rng.pick(&[0, 1, 5, 1000, 50_000]);
        }
        if bits & flags::SYN != 0 && self.rng.chance(500_000) {
            segment.options = self.our_syn_options();
        }
        Action::Inject(segment)
    }
}
