//! The packets that pass by the kernel, for who asks to see them.
//!
//! A ring of records behind the sections of the segment's file. It has memory only while somebody
//! captures. Writers never wait and never look at what readers do: a reader that is too slow finds
//! older records overwritten, and counts them. Readers need read permission only, and there may be
//! several.
//!
//! ```text
//! page 0   magic, key, next position, next number
//! data     records of multiples of 32 octets, which go on at the beginning where the data end
//! ```
//!
//! A record is complete when its first word is its position, mixed with the key: neither an older
//! record nor the contents of a packet look like that.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::mapping::{Region, Shared, sys};

mod reader;

pub use reader::{CaptureReader, CapturedPacket};

/// Octets of the ring's records.
const DATA_BYTES: usize = 16 << 20;
/// Where they begin.
const DATA_AT: usize = 4096;
/// What the file has behind its sections.
pub(crate) const AREA_BYTES: usize = DATA_AT + DATA_BYTES;
/// Records begin at multiples of this, which is what stands before a packet, too.
const RECORD_BYTES: usize = 32;
const RECORD_WORDS: usize = 4;
/// The most octets of a packet that are kept.
pub const SNAP_MAX: u32 = 256 << 10;
/// How long a request holds: whoever captures repeats it.
const LEASE_NSEC: u64 = 3_000_000_000;

const MAGIC: u64 = u64::from_ne_bytes(*b"vmacapt\x01");

/// The first page.
#[derive(Debug)]
#[repr(C, align(64))]
struct Head {
    magic: AtomicU64,
    key: AtomicU64,
    _line: [AtomicU64; 6],
    /// Octets of records so far.
    next: AtomicU64,
    /// Records so far.
    count: AtomicU64,
}

// SAFETY: `repr(C)`, atomics only, aligned to a cache line.
#[allow(unsafe_code, reason = "what it promises is seen above")]
unsafe impl Shared for Head {}
// SAFETY: an atomic.
#[allow(unsafe_code, reason = "what it promises is seen here")]
unsafe impl Shared for AtomicU64 {}

/// Words of [`Head`], for readers.
const KEY_WORD: usize = 1;
const NEXT_WORD: usize = 8;

/// In the last word of a record, above the link's index: the packet was sent.
const SENT: u64 = 1 << 63;
/// The record's number, modulo a power of two.
const NUMBER_BITS: u32 = 31;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Received,
    Sent,
}

/// The writer's side.
#[derive(Debug)]
pub struct CaptureRing {
    memory: Region,
    /// From the beginning of the file.
    offset: usize,
    key: u64,
    /// Octets of a packet that are kept; 0: nobody captures.
    snap: AtomicU32,
    /// When it ends unless it is asked for again.
    ends_nsec: AtomicU64,
}

impl CaptureRing {
    /// In the part of the file that begins at `offset`. Takes address space, and no memory.
    pub(crate) fn reserve(fd: &sys::Fd, offset: usize) -> io::Result<Self> {
        Ok(Self {
            memory: Region::reserve(fd, offset, AREA_BYTES)?,
            offset,
            // Without random numbers, a packet that was made for it could look like a record.
            key: sys::random().unwrap_or_else(sys::now_nsec),
            snap: AtomicU32::new(0),
            ends_nsec: AtomicU64::new(0),
        })
    }

    /// Where it is in the file.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Somebody wants so many octets of each packet, for some seconds from now on. Times are those
    /// of one clock that never goes back.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn begin(&self, snap: u32, now_nsec: u64) -> io::Result<()> {
        if !self.is_wanted() {
            self.memory.open()?;
            if let Some(head) = self.head() {
                head.key.store(self.key, Ordering::Relaxed);
                head.magic.store(MAGIC, Ordering::Release);
            }
        }
        // Of several, who wants most is content.
        self.snap
            .fetch_max(snap.clamp(1, SNAP_MAX), Ordering::Relaxed);
        self.ends_nsec
            .store(now_nsec.saturating_add(LEASE_NSEC), Ordering::Relaxed);
        Ok(())
    }

    /// Whether packets are to be recorded.
    pub fn is_wanted(&self) -> bool {
        self.snap.load(Ordering::Relaxed) > 0
    }

    /// Nobody has asked for too long. Returns whether packets were recorded until now.
    pub fn end_if_due(&self, now_nsec: u64) -> bool {
        now_nsec >= self.ends_nsec.load(Ordering::Relaxed)
            && self.snap.swap(0, Ordering::Relaxed) > 0
    }

    /// Gives the memory back. A thread that is recording still gets some anew.
    pub fn give_back(&self) {
        // The place goes on: what a reader has seen does not come again.
        self.memory.give_back(DATA_AT, DATA_BYTES);
    }

    /// Takes a packet of `len` octets, whose beginning is in `parts`.
    pub fn record<'a>(
        &self,
        direction: Direction,
        link_index: u32,
        len: usize,
        parts: impl Iterator<Item = &'a [u8]>,
    ) {
        let snap = self.snap.load(Ordering::Relaxed) as usize;
        let Some(head) = self.head().filter(|_| snap > 0) else {
            return;
        };
        let kept = len.min(snap);
        let bytes = (RECORD_BYTES + kept).next_multiple_of(RECORD_BYTES);
        let number = head.count.fetch_add(1, Ordering::Relaxed) & NUMBER_MASK;
        let at = head.next.fetch_add(bytes as u64, Ordering::Relaxed);
        // Who finds anything of what follows finds the new position, too.
        fence(Ordering::Release);
        let nsec = sys::now_nsec();
        let mut to = RECORD_BYTES;
        let mut left = kept;
        for part in parts {
            let part = part.get(..left).unwrap_or(part);
            self.copy(at, to, part);
            to += part.len();
            left -= part.len();
        }
        // Less came than was said.
        let kept = kept - left;
        let sent = if direction == Direction::Sent {
            SENT
        } else {
            0
        };
        let words = [
            at ^ self.key,
            nsec,
            len as u64 | (kept as u64) << 32,
            u64::from(link_index) | number << 32 | sent,
        ];
        let record = self
            .memory
            .slice::<AtomicU64>(DATA_AT + offset_of(at), RECORD_WORDS);
        let Some([position, others @ ..]) = record else {
            return;
        };
        for (word, value) in others.iter().zip(&words[1..]) {
            word.store(*value, Ordering::Relaxed);
        }
        position.store(words[0], Ordering::Release);
    }

    /// Puts octets behind the beginning of a record. What passes the end goes on at the beginning.
    fn copy(&self, at: u64, behind: usize, bytes: &[u8]) {
        let begin = offset_of(at.wrapping_add(behind as u64));
        let (first, second) = bytes.split_at(bytes.len().min(DATA_BYTES - begin));
        self.memory.copy_in(DATA_AT + begin, first);
        self.memory.copy_in(DATA_AT, second);
    }

    fn head(&self) -> Option<&'static Head> {
        self.memory.slice(0, 1)?.first()
    }
}

/// The place of a position in the data.
#[allow(
    clippy::cast_possible_truncation,
    reason = "it is smaller than the data are long"
)]
fn offset_of(position: u64) -> usize {
    (position % DATA_BYTES as u64) as usize
}

#[cfg(test)]
mod tests;
