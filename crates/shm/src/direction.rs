//! One direction of a connection: how its octets move from the kernel's connection to a ring, and
//! back.
//!
//! `epoch` is odd while the ring is open. The writer opens it when the reader has acknowledged the
//! even epoch before, and has taken every octet that went through the kernel. To close it, it sets
//! [`CLOSED`] in `head`: the reader, which moves `head` by compare-exchange, takes nothing of the
//! ring from then on, and what is unread is the writer's again. The writer may end between any two
//! of its stores.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Octets of a ring.
pub const RING_BYTES: usize = 1 << 16;

/// In `head`: the writer has taken back what is unread.
const CLOSED: u64 = 1 << 63;

/// In `wants_kernel`: the reader reads nothing any more.
const REFUSES: u32 = 2;

/// What the writer writes. A line of the cache of its own.
#[repr(C, align(64))]
#[derive(Debug)]
struct WriterLine {
    /// Octets put into the ring since the beginning.
    tail: AtomicU64,
    /// The position that is at the ring's first octet. It changes while the ring is empty only: so
    /// short messages use the same lines of the cache again and again.
    base: AtomicU64,
    /// Odd: the ring is open.
    epoch: AtomicU32,
    /// The writer waits for room.
    wants_room: AtomicU32,
}

/// What the reader writes.
#[repr(C, align(64))]
#[derive(Debug)]
struct ReaderLine {
    /// Octets taken out of the ring since the beginning, and [`CLOSED`].
    head: AtomicU64,
    /// Octets that the reader has taken from the kernel.
    taken: AtomicU64,
    /// One more than the last even epoch that the reader has understood. 0: there is no reader yet.
    ack: AtomicU32,
    /// The reader asks the writer to close the ring.
    wants_kernel: AtomicU32,
}

/// One direction of a connection, in shared memory. All zero is its beginning.
#[repr(C)]
#[derive(Debug)]
pub struct Direction {
    writer: WriterLine,
    reader: ReaderLine,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Direction>() == 128 && align_of::<Direction>() == 64);
    assert!(std::mem::offset_of!(Direction, reader) == 64);
    assert!(std::mem::offset_of!(WriterLine, epoch) == 16);
    assert!(std::mem::offset_of!(ReaderLine, ack) == 16);
};

/// The other process has written what it cannot mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hostile;

/// Where a reader's next octet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// From the kernel.
    Kernel,
    /// From the ring, which has so many.
    Ring(usize),
}

impl Direction {
    /// Begins anew: for one that nobody uses.
    pub fn reset(&self) {
        let (writer, reader) = (&self.writer, &self.reader);
        for word in [&writer.tail, &writer.base, &reader.head, &reader.taken] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [&writer.epoch, &writer.wants_room, &reader.wants_kernel] {
            word.store(0, Ordering::Relaxed);
        }
        reader.ack.store(0, Ordering::Release);
    }

    #[cfg(any(loom, test))]
    pub(crate) fn new() -> Self {
        Self {
            writer: WriterLine {
                tail: AtomicU64::new(0),
                base: AtomicU64::new(0),
                epoch: AtomicU32::new(0),
                wants_room: AtomicU32::new(0),
            },
            reader: ReaderLine {
                head: AtomicU64::new(0),
                taken: AtomicU64::new(0),
                ack: AtomicU32::new(0),
                wants_kernel: AtomicU32::new(0),
            },
        }
    }

    /// The reader asks for the end of the ring.
    /// Either the writer that is just opening it sees this, or a look that follows sees it open.
    pub fn ask_for_kernel(&self) {
        self.reader.wants_kernel.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The same of one that reads nothing any more, and resets the connection: what is unread is
    /// nobody's.
    pub fn refuse(&self) {
        self.reader.wants_kernel.store(REFUSES, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Whether the reader has said that.
    pub fn is_refused(&self) -> bool {
        self.reader.wants_kernel.load(Ordering::Acquire) == REFUSES
    }

    /// Whether the reader has asked for it.
    #[inline]
    pub fn is_kernel_wanted(&self) -> bool {
        self.reader.wants_kernel.load(Ordering::Acquire) != 0
    }
}

/// The writer's end.
#[derive(Debug)]
pub struct Outgoing {
    tail: u64,
    base: u64,
    epoch: u32,
    /// Octets that the ring may hold: no more than the kernel's connection takes at once.
    capacity: u64,
    is_open: bool,
    /// Octets that went through the kernel.
    sent: u64,
}

impl Outgoing {
    /// Of a direction through which `sent` octets have gone by the kernel.
    pub fn new(sent: u64, capacity: usize) -> Self {
        Self {
            tail: 0,
            base: 0,
            epoch: 0,
            capacity: capacity.min(RING_BYTES) as u64,
            is_open: false,
            sent,
        }
    }

    /// Whether octets go into the ring.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the ring was open, and is no more.
    pub fn is_over(&self) -> bool {
        !self.is_open && self.epoch > 0
    }

    /// So many octets more went through the kernel.
    pub fn note_sent(&mut self, count: usize) {
        self.sent += count as u64;
    }

    /// Opens the ring if the reader is ready for it. Never waits.
    pub fn open(&mut self, direction: &Direction) -> bool {
        let (writer, reader) = (&direction.writer, &direction.reader);
        let is_ready = reader.ack.load(Ordering::Acquire) == self.epoch.wrapping_add(1)
            && reader.taken.load(Ordering::Acquire) == self.sent
            && !direction.is_kernel_wanted();
        if self.is_open || !is_ready {
            return self.is_open;
        }
        self.base = self.tail;
        writer.base.store(self.base, Ordering::Relaxed);
        reader.head.store(self.tail, Ordering::Relaxed);
        self.epoch += 1;
        writer.epoch.store(self.epoch, Ordering::SeqCst);
        self.is_open = true;
        fence(Ordering::SeqCst);
        if direction.is_kernel_wanted() {
            // Nothing was written.
            let _ = self.close(direction);
        }
        self.is_open
    }

    /// Octets for which the ring has room. An empty ring begins at its first octet again.
    #[inline]
    pub fn room(&mut self, direction: &Direction) -> Result<usize, Hostile> {
        let unread = self.unread(direction)?;
        if unread == 0 && self.base != self.tail {
            self.base = self.tail;
            direction.writer.base.store(self.base, Ordering::Relaxed);
        }
        Ok(self.capacity.saturating_sub(unread) as usize)
    }

    /// Octets that the reader has not taken.
    #[inline]
    pub fn unread(&self, direction: &Direction) -> Result<u64, Hostile> {
        let head = direction.reader.head.load(Ordering::Acquire) & !CLOSED;
        let unread = self.tail.wrapping_sub(head);
        match unread <= RING_BYTES as u64 {
            true => Ok(unread),
            false => Err(Hostile),
        }
    }

    /// Where in the ring the octet is that follows `after` more, and how many follow it without a
    /// break.
    #[inline]
    pub fn next(&self, after: usize) -> (usize, usize) {
        place(self.tail + after as u64, self.base)
    }

    /// So many octets more are in the ring, for the reader to see.
    #[inline]
    pub fn publish(&mut self, direction: &Direction, count: usize) {
        self.tail += count as u64;
        direction.writer.tail.store(self.tail, Ordering::Release);
    }

    /// The writer is about to wait for room. It looks once more after this.
    pub fn want_room(&self, direction: &Direction) {
        direction.writer.wants_room.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Closes the ring. What is unread is to go through the kernel: from its first octet on, so
    /// many, in pieces by [`unread_piece`](Self::unread_piece).
    pub fn close(&mut self, direction: &Direction) -> Result<(u64, u64), Hostile> {
        if !self.is_open {
            return Ok((self.tail, 0));
        }
        let head = direction.reader.head.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        self.is_open = false;
        self.epoch += 1;
        direction.writer.epoch.store(self.epoch, Ordering::Release);
        let unread = self.tail.wrapping_sub(head);
        match unread <= RING_BYTES as u64 {
            true => Ok((head, unread)),
            false => Err(Hostile),
        }
    }

    /// Where in the ring the octet at a position is, and how many follow it without a break.
    pub fn unread_piece(&self, position: u64) -> (usize, usize) {
        place(position, self.base)
    }
}

#[inline]
fn place(position: u64, base: u64) -> (usize, usize) {
    let offset = position.wrapping_sub(base) as usize % RING_BYTES;
    (offset, RING_BYTES - offset)
}

/// The reader's end.
#[derive(Debug)]
pub struct Incoming {
    head: u64,
    /// The even epoch that was acknowledged last.
    seen: u32,
    is_open: bool,
    /// Octets taken from the kernel.
    taken: u64,
}

impl Incoming {
    /// Of a direction out of which `taken` octets have come by the kernel. From here on the writer
    /// may open the ring.
    pub fn begin(direction: &Direction, taken: u64) -> Self {
        direction.reader.taken.store(taken, Ordering::Relaxed);
        direction.reader.ack.store(1, Ordering::Release);
        Self {
            head: 0,
            seen: 0,
            is_open: false,
            taken,
        }
    }

    /// Whether octets come out of the ring, as of the last look.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the ring was open, and is no more.
    pub fn is_over(&self) -> bool {
        !self.is_open && self.seen > 0
    }

    /// So many octets more came through the kernel.
    pub fn note_taken(&mut self, direction: &Direction, count: usize) {
        self.taken += count as u64;
        direction.reader.taken.store(self.taken, Ordering::Release);
    }

    /// Where the next octet comes from.
    #[inline]
    pub fn look(&mut self, direction: &Direction) -> Result<Place, Hostile> {
        let (writer, reader) = (&direction.writer, &direction.reader);
        if !self.is_open {
            let epoch = writer.epoch.load(Ordering::Acquire);
            match epoch.wrapping_sub(self.seen) {
                // The writer is just closing the ring, or has.
                0 | u32::MAX => return Ok(Place::Kernel),
                1 => {}
                2 => {
                    self.acknowledge(direction);
                    return Ok(Place::Kernel);
                }
                _ => return Err(Hostile),
            }
            self.head = reader.head.load(Ordering::Acquire) & !CLOSED;
            self.is_open = true;
        }
        let head = reader.head.load(Ordering::Acquire);
        if head & !CLOSED != self.head {
            return Err(Hostile);
        }
        if head & CLOSED != 0 {
            self.is_open = false;
            self.acknowledge(direction);
            return Ok(Place::Kernel);
        }
        let readable = writer.tail.load(Ordering::Acquire).wrapping_sub(self.head);
        match readable <= RING_BYTES as u64 {
            true => Ok(Place::Ring(readable as usize)),
            false => Err(Hostile),
        }
    }

    fn acknowledge(&mut self, direction: &Direction) {
        self.seen = self.seen.wrapping_add(2);
        let ack = self.seen.wrapping_add(1);
        direction.reader.ack.store(ack, Ordering::Release);
    }

    /// Where in the ring the octet is that follows `after` others, and how many follow it without a
    /// break. After [`look`](Self::look) has said that there are so many.
    #[inline]
    pub fn next(&self, direction: &Direction, after: usize) -> (usize, usize) {
        let base = direction.writer.base.load(Ordering::Relaxed);
        place(self.head.wrapping_add(after as u64), base)
    }

    /// Takes so many octets out of the ring. `false`: the writer has closed it meanwhile, and they
    /// come through the kernel.
    #[inline]
    pub fn commit(&mut self, direction: &Direction, count: usize) -> Result<bool, Hostile> {
        let next = self.head.wrapping_add(count as u64);
        let taken = direction.reader.head.compare_exchange(
            self.head,
            next,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        match taken {
            Ok(_) => self.head = next,
            // Else a reader would try for ever.
            Err(head) if head != self.head | CLOSED => return Err(Hostile),
            Err(_) => {}
        }
        Ok(taken.is_ok())
    }

    /// Whether the writer is to be told that there is room: it waits for that, and half of the ring
    /// is free.
    #[inline]
    pub fn owes_room(&self, direction: &Direction) -> bool {
        let writer = &direction.writer;
        fence(Ordering::SeqCst);
        if writer.wants_room.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let unread = writer.tail.load(Ordering::Acquire).wrapping_sub(self.head);
        unread <= RING_BYTES as u64 / 4 && writer.wants_room.swap(0, Ordering::Relaxed) != 0
    }
}

#[cfg(all(test, not(loom)))]
#[path = "direction/tests.rs"]
mod tests;
