//! What a peer knows of the stack under test, in relative numbers.

use packetdrill::Segment;
use packetdrill::script::{TcpOption, flags};

#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// Behind what the stack sent.
    pub(crate) sent_end: u32,
    /// Of what was sent: first numbers and ends.
    pub(crate) sent: Vec<(u32, u32)>,
    /// The highest acknowledgement that we sent.
    pub(crate) acked: u32,
    /// The highest acknowledgement that the stack sent.
    pub(crate) their_ack: u32,
    /// Its window as last told, in octets.
    pub(crate) window: u32,
    pub(crate) scale: u8,
    /// What we sent.
    pub(crate) ours: Vec<(u32, u32)>,
    pub(crate) our_fin: Option<u32>,
    pub(crate) has_syn: bool,
}

impl View {
    pub(crate) fn on_sent(&mut self, segment: &Segment) {
        if segment.flags & flags::RST != 0 {
            return;
        }
        let is_syn = segment.flags & flags::SYN != 0;
        if is_syn {
            self.has_syn = true;
            for option in &segment.options {
                if let TcpOption::WindowScale(scale) = option {
                    self.scale = *scale;
                }
            }
        }
        let len = u32::try_from(segment.payload.len()).unwrap();
        let len = len + u32::from(is_syn) + u32::from(segment.flags & flags::FIN != 0);
        let end = segment.seq.wrapping_add(len);
        if len > 0 {
            self.sent.push((segment.seq, end));
        }
        if after(end, self.sent_end) {
            self.sent_end = end;
        }
        if segment.flags & flags::ACK != 0 {
            if after(segment.ack, self.their_ack) {
                self.their_ack = segment.ack;
            }
            let scale = if is_syn { 0 } else { self.scale };
            self.window = u32::from(segment.window) << scale;
        }
    }

    pub(crate) fn on_injected(&mut self, segment: &Segment) {
        let is_syn = segment.flags & flags::SYN != 0;
        let len = u32::try_from(segment.payload.len()).unwrap();
        let start = segment.seq.wrapping_add(u32::from(is_syn));
        if len > 0 {
            self.ours.push((start, start.wrapping_add(len)));
        }
        if segment.flags & flags::FIN != 0 {
            self.our_fin = Some(start.wrapping_add(len));
        }
        if segment.flags & flags::ACK != 0
            && after(segment.ack, self.acked)
            && !after(segment.ack, self.sent_end)
        {
            self.acked = segment.ack;
        }
    }

    /// The first octet that we have not sent.
    pub(crate) fn next(&self) -> u32 {
        let mut next = self.their_ack.max(1);
        loop {
            let covering = self
                .ours
                .iter()
                .find(|(start, end)| !after(*start, next) && after(*end, next));
            match covering {
                Some((_, end)) => next = *end,
                None => break,
            }
        }
        if self.our_fin == Some(next) {
            next + 1
        } else {
            next
        }
    }

    /// Behind all that we sent.
    pub(crate) fn last(&self) -> u32 {
        let mut last = self.next();
        for (_, end) in &self.ours {
            if after(*end, last) {
                last = *end;
            }
        }
        last
    }

    /// Where segments ended that we have not acknowledged.
    pub(crate) fn unacked(&self) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = self
            .sent
            .iter()
            .copied()
            .filter(|(_, end)| after(*end, self.acked))
            .collect();
        ranges.sort_unstable();
        ranges.dedup();
        ranges
    }
}

pub(crate) fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
