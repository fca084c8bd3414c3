//! The reader's side: believes nothing of what it finds.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};

use super::{
    AREA_BYTES, DATA_AT, DATA_BYTES, Direction, KEY_WORD, MAGIC, NEXT_WORD, NUMBER_MASK,
    RECORD_BYTES, SENT, SNAP_MAX, offset_of,
};
use crate::mapping::ReadMapping;
use crate::reader::Reader;

/// How far behind the writer a reader goes on that was too slow: not where the next record is
/// overwritten at once.
const KEPT_BYTES: u64 = (DATA_BYTES / 2) as u64;
const WORD: usize = size_of::<u64>();
/// Packets that are taken out at once.
const BATCH: usize = 256;

/// Reads the packets of a process from the moment on at which it was made.
#[derive(Debug)]
pub struct CaptureReader {
    reader: Reader,
    offset: usize,
    /// The position of the next record.
    at: u64,
    /// The number of the record before it.
    number: Option<u64>,
    lost: u64,
    /// What was taken out, and not asked for yet.
    ready: VecDeque<CapturedPacket>,
}

/// A packet that passed by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Since 1970.
    pub nsec: u64,
    pub direction: Direction,
    /// The interface's index.
    pub link_index: u32,
    /// Its length on its way; of `bytes` there may be fewer.
    pub len: u32,
    pub bytes: Vec<u8>,
}

/// What stands at a position.
enum Found {
    Packet(CapturedPacket, u64),
    /// Nothing yet, or not all of it.
    Nothing,
    /// What stood there is overwritten.
    Gone,
}

impl CaptureReader {
    /// `offset`: where the process has its ring. `None`: there is none.
    pub fn new(reader: Reader, offset: usize) -> Option<Self> {
        let is_place = offset.is_multiple_of(DATA_AT)
            && offset.checked_add(AREA_BYTES)? <= reader.mapped_bytes();
        let mut ring = Self {
            reader,
            offset,
            at: 0,
            number: None,
            lost: 0,
            ready: VecDeque::new(),
        };
        if !is_place || ring.word(0) != MAGIC {
            return None;
        }
        fence(Ordering::Acquire);
        ring.at = ring.next();
        Some(ring)
    }

    /// The statistics of the same process.
    pub fn statistics(&self) -> &Reader {
        &self.reader
    }

    /// Packets that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The next packet, if it is there.
    pub fn take(&mut self) -> Option<CapturedPacket> {
        while self.ready.is_empty() && self.take_batch() {}
        self.ready.pop_front()
    }

    /// Takes out what is there, up to a batch. The writer's positions are in a line that it changes
    /// with every packet: it waits for each look at that, so there are few.
    /// `false`: there is nothing.
    fn take_batch(&mut self) -> bool {
        let mut taken: Vec<(u64, CapturedPacket, u64)> = Vec::new();
        let mut next = self.next();
        while taken.len() < BATCH {
            let at = self.at;
            match self.look(next) {
                Found::Packet(packet, number) => taken.push((at, packet, number)),
                Found::Nothing => break,
                Found::Gone if !taken.is_empty() => break,
                Found::Gone => {
                    if !self.find_record() {
                        return false;
                    }
                    next = self.next();
                }
            }
        }
        if taken.is_empty() {
            return false;
        }
        fence(Ordering::Acquire);
        let next = self.next();
        let is_whole = |at: u64| next.wrapping_sub(at) <= DATA_BYTES as u64;
        if let Some((at, ..)) = taken.last()
            && !is_whole(*at)
        {
            // Its length may be none: it is looked for anew where to go on.
            self.at = *at;
        }
        for (at, packet, number) in taken {
            // Else it may have been overwritten meanwhile.
            if is_whole(at) {
                self.count_lost(number);
                self.ready.push_back(packet);
            }
        }
        true
    }

    fn count_lost(&mut self, number: u64) {
        if let Some(before) = self.number {
            let missed = number.wrapping_sub(before + 1) & NUMBER_MASK;
            // Two threads may have their numbers and their places in another order.
            if missed <= NUMBER_MASK / 2 {
                self.lost += missed;
            } else {
                self.lost = self.lost.saturating_sub(1);
                return;
            }
        }
        self.number = Some(number);
    }

    /// `next`: where the writer was a moment ago.
    fn look(&mut self, next: u64) -> Found {
        let record = offset_of(self.at);
        if next == self.at {
            return Found::Nothing;
        }
        let behind = next.wrapping_sub(self.at);
        if behind > DATA_BYTES as u64 {
            return Found::Gone;
        }
        if self.data_word(record) != self.at ^ self.word(KEY_WORD) {
            return Found::Nothing;
        }
        fence(Ordering::Acquire);
        let (nsec, lens, rest) = (
            self.data_word(record + WORD),
            self.data_word(record + 2 * WORD),
            self.data_word(record + 3 * WORD),
        );
        let (len, kept) = (low(lens), low(lens >> 32));
        if kept > SNAP_MAX || kept > len {
            return Found::Gone;
        }
        let bytes = self.copy_out(kept as usize);
        // What a process is stopped at while it writes has the room of what it has said.
        self.at += (RECORD_BYTES + kept as usize).next_multiple_of(RECORD_BYTES) as u64;
        let direction = match rest & SENT {
            0 => Direction::Received,
            _ => Direction::Sent,
        };
        let packet = CapturedPacket {
            nsec,
            direction,
            link_index: low(rest),
            len,
            bytes,
        };
        Found::Packet(packet, rest >> 32 & NUMBER_MASK)
    }

    /// Octets behind the beginning of the record.
    fn copy_out(&self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + WORD);
        let mut from = self.at + RECORD_BYTES as u64;
        while bytes.len() < len {
            bytes.extend_from_slice(&self.data_word(offset_of(from)).to_ne_bytes());
            from += WORD as u64;
        }
        bytes.truncate(len);
        bytes
    }

    /// Goes on at the first record that is not about to be overwritten. `false`: there is none.
    fn find_record(&mut self) -> bool {
        let (next, key) = (self.next(), self.word(KEY_WORD));
        let first = next
            .saturating_sub(KEPT_BYTES)
            .max(self.at.saturating_add(1).min(next));
        let mut at = first.next_multiple_of(RECORD_BYTES as u64);
        while at < next && self.data_word(offset_of(at)) != at ^ key {
            at += RECORD_BYTES as u64;
        }
        self.at = at.min(next);
        at < next
    }

    fn next(&self) -> u64 {
        // Whatever else stands there is no position.
        self.word(NEXT_WORD) / RECORD_BYTES as u64 * RECORD_BYTES as u64
    }

    fn data_word(&self, offset: usize) -> u64 {
        self.mapping()
            .load_u64(self.offset + DATA_AT + offset)
            .unwrap_or(0)
    }

    fn word(&self, number: usize) -> u64 {
        self.mapping()
            .load_u64(self.offset + number * WORD)
            .unwrap_or(0)
    }

    fn mapping(&self) -> &ReadMapping {
        self.reader.mapping()
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn low(word: u64) -> u32 {
    word as u32
}
