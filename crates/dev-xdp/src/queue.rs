//! The single-producer, single-consumer rings that a process shares with the kernel
//! (`include/uapi/linux/if_xdp.h`, `net/xdp/xsk_queue.h`). Each side exposes the legal half only:
//! we produce to the fill and TX rings and consume from the completion and RX rings.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the parts of a ring lie in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<T> {
    pub(crate) producer: NonNull<AtomicU32>,
    pub(crate) consumer: NonNull<AtomicU32>,
    pub(crate) flags: NonNull<AtomicU32>,
    pub(crate) entries: NonNull<T>,
    /// Number of entries, a power of two.
    pub(crate) size: u32,
}

/// `XDP_RING_NEED_WAKEUP`: the kernel asks for a system call before it goes on.
const NEED_WAKEUP: u32 = 1;

/// The side of a ring that writes entries.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    layout: Layout<T>,
    /// Next entry to write; ahead of what is published by what is staged.
    next: u32,
    /// What we last saw of the other side.
    consumer_seen: u32,
}

// SAFETY: a Producer is the only writer of its side of the ring and holds no thread-bound state.
unsafe impl<T: Send> Send for Producer<T> {}

impl<T: Copy> Producer<T> {
    /// # Safety
    /// The layout must point at a live ring of `size` entries whose producer side nobody else
    /// writes, and stay mapped as long as the value lives.
    pub(crate) unsafe fn new(layout: Layout<T>) -> Self {
        debug_assert!(layout.size.is_power_of_two());
        // SAFETY: the caller says that the ring is live.
        let next = unsafe { layout.producer.as_ref() }.load(Ordering::Relaxed);
        // SAFETY: as above.
        let consumer_seen = unsafe { layout.consumer.as_ref() }.load(Ordering::Acquire);
        Self {
            layout,
            next,
            consumer_seen,
        }
    }

    /// Entries that can be written for certain, when up to `wanted` are asked for; they may be
    /// more. What the other side has consumed is not room yet: the kernel says so later than it
    /// hands on what it made of it (`xsk_flush` in `net/xdp/xsk.c` shows a received frame before it
    /// releases the fill ring's entry, and a kick releases the TX ring's at its end).
    #[inline]
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        let used = self.next.wrapping_sub(self.consumer_seen);
        match self.layout.size.checked_sub(used) {
            Some(room) if room >= wanted => room,
            _ => self.refresh(),
        }
    }

    /// Writes an entry without publishing it. `false`: the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        let index = (self.next & (self.layout.size - 1)) as usize;
        // SAFETY: `index < size`.
        let slot = unsafe { self.layout.entries.add(index) };
        // SAFETY: the slot is free: the other side has consumed it (checked above) and will not
        // look at it before it is published.
        unsafe { slot.write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// What was written as entry number `number` of all so far, or at its place since.
    #[inline]
    pub(crate) fn written(&self, number: u32) -> T {
        let index = (number & (self.layout.size - 1)) as usize;
        // SAFETY: `index < size`.
        let slot = unsafe { self.layout.entries.add(index) };
        // SAFETY: only this side writes to the entries.
        unsafe { slot.read() }
    }

    /// Shows what was written to the other side.
    #[inline]
    pub(crate) fn publish(&mut self) {
        // SAFETY: the ring is live (contract of `new`).
        unsafe { self.layout.producer.as_ref() }.store(self.next, Ordering::Release);
    }

    /// Whether the kernel wants a system call before it looks at the ring.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        // SAFETY: the ring is live (contract of `new`).
        let flags = unsafe { self.layout.flags.as_ref() }.load(Ordering::Relaxed);
        flags & NEED_WAKEUP != 0
    }

    /// Number of entries.
    pub(crate) fn size(&self) -> u32 {
        self.layout.size
    }

    /// Of a ring whose producers take turns under a lock: goes on where the last one has stopped.
    /// Returns how many entries the other side has not consumed yet.
    pub(crate) fn take_turn(&mut self) -> u32 {
        // SAFETY: the ring is live (contract of `new`).
        self.next = unsafe { self.layout.producer.as_ref() }.load(Ordering::Acquire);
        self.layout.size - self.refresh()
    }

    /// The number of the entry that is written next, of all so far.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Looks at the other side again; returns the number of free entries.
    #[cold]
    fn refresh(&mut self) -> u32 {
        // SAFETY: the ring is live (contract of `new`).
        self.consumer_seen = unsafe { self.layout.consumer.as_ref() }.load(Ordering::Acquire);
        let used = self.next.wrapping_sub(self.consumer_seen);
        // A consumer index outside the ring would be a broken kernel; treat the ring as full.
        self.layout.size.saturating_sub(used)
    }
}

/// The side of a ring that reads entries.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    layout: Layout<T>,
    next: u32,
    producer_seen: u32,
}

// SAFETY: a Consumer is the only reader of its side of the ring and holds no thread-bound state.
unsafe impl<T: Send> Send for Consumer<T> {}

impl<T: Copy> Consumer<T> {
    /// # Safety
    /// As for [`Producer::new`], for the consumer side.
    pub(crate) unsafe fn new(layout: Layout<T>) -> Self {
        debug_assert!(layout.size.is_power_of_two());
        // SAFETY: the caller says that the ring is live.
        let next = unsafe { layout.consumer.as_ref() }.load(Ordering::Relaxed);
        Self {
            layout,
            next,
            producer_seen: next,
        }
    }

    /// The number of the entry that [`Consumer::pop`] returns next, of all so far, if it is there.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u32> {
        if self.next == self.producer_seen {
            // SAFETY: the ring is live (contract of `new`).
            self.producer_seen = unsafe { self.layout.producer.as_ref() }.load(Ordering::Acquire);
        }
        (self.next != self.producer_seen).then_some(self.next)
    }

    /// Reads the oldest entry. Its slot is the other side's again after [`Consumer::release`].
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.peek()?;
        let index = (self.next & (self.layout.size - 1)) as usize;
        // SAFETY: `index < size`.
        let slot = unsafe { self.layout.entries.add(index) };
        // SAFETY: the entry was published before the producer index that we acquired.
        let entry = unsafe { slot.read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Entries that are known to wait and were not read yet.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.producer_seen.wrapping_sub(self.next)
    }

    /// Entries that wait right now, at most as many as the ring has.
    pub(crate) fn present(&mut self) -> u32 {
        // SAFETY: the ring is live (contract of `new`).
        self.producer_seen = unsafe { self.layout.producer.as_ref() }.load(Ordering::Acquire);
        self.waiting().min(self.layout.size)
    }

    /// Of a ring that another process reads: how many entries that has read so far, and how many
    /// wait.
    pub(crate) fn look(&self) -> (u32, u32) {
        // SAFETY: the ring is live (contract of `new`).
        let read = unsafe { self.layout.consumer.as_ref() }.load(Ordering::Acquire);
        // SAFETY: as above.
        let written = unsafe { self.layout.producer.as_ref() }.load(Ordering::Acquire);
        (read, written.wrapping_sub(read))
    }

    /// Of a ring whose consumers take turns under a lock: goes on where the last one has stopped.
    pub(crate) fn take_turn(&mut self) {
        // SAFETY: the ring is live (contract of `new`).
        self.next = unsafe { self.layout.consumer.as_ref() }.load(Ordering::Acquire);
        self.producer_seen = self.next;
    }

    /// For others who want to know whether entries wait.
    pub(crate) fn watch(&self) -> ConsumerWatch {
        ConsumerWatch {
            producer: self.layout.producer,
            consumer: self.layout.consumer,
            size: self.layout.size,
        }
    }

    /// Gives the slots of the entries read so far back to the other side.
    #[inline]
    pub(crate) fn release(&mut self) {
        // SAFETY: the ring is live (contract of `new`).
        unsafe { self.layout.consumer.as_ref() }.store(self.next, Ordering::Release);
    }
}

/// Sees whether entries wait for a [`Consumer`] that somebody else uses.
#[derive(Debug)]
pub(crate) struct ConsumerWatch {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    size: u32,
}

// SAFETY: it only reads two atomics, which live as long as the ring's mapping (contract of
// `Consumer::new`: for good).
unsafe impl Send for ConsumerWatch {}
// SAFETY: as above.
unsafe impl Sync for ConsumerWatch {}

impl ConsumerWatch {
    /// Entries that wait, and the number of the first of them.
    ///
    /// Entries are handed on before their slots are released (`RxQueue::take`), so one that was
    /// handed on only in part still waits here. Both indexes are acquired:
    /// * The consumer's, because it pairs with the store of [`Consumer::release`]: who finds that
    ///   nothing waits sees what was done with the entries, a socket's readiness above all, and may
    ///   go to sleep on it.
    /// * The producer's, because it keeps the load of the consumer's behind it. What is taken
    ///   between the two makes the answer smaller, so nobody takes a lock for entries that were
    ///   gone before. What the kernel adds meanwhile is for the next look, or for the descriptor
    ///   that the caller sleeps on.
    ///
    /// The entries themselves are read by who holds the consumer's lock, and has acquired the
    /// producer's index anew.
    #[inline]
    pub(crate) fn waiting(&self) -> (u32, u32) {
        // SAFETY: the ring is live (contract of `Consumer::new`).
        let produced = unsafe { self.producer.as_ref() }.load(Ordering::Acquire);
        // SAFETY: as above.
        let consumed = unsafe { self.consumer.as_ref() }.load(Ordering::Acquire);
        let count = produced.wrapping_sub(consumed);
        // More than there can be: they were taken meanwhile.
        (if count > self.size { 0 } else { count }, consumed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Both ends of a ring over ordinary memory, in place of the kernel.
    struct Memory {
        indexes: Box<[AtomicU32; 3]>,
        entries: Vec<u64>,
    }

    impl Memory {
        fn new(size: u32, start: u32) -> Self {
            let index = || AtomicU32::new(start);
            Self {
                indexes: Box::new([index(), index(), AtomicU32::new(0)]),
                entries: vec![0; size as usize],
            }
        }

        fn ends(&mut self) -> (Producer<u64>, Consumer<u64>) {
            let layout = Layout {
                producer: NonNull::from(&self.indexes[0]),
                consumer: NonNull::from(&self.indexes[1]),
                flags: NonNull::from(&self.indexes[2]),
                size: u32::try_from(self.entries.len()).unwrap(),
                entries: NonNull::new(self.entries.as_mut_ptr()).unwrap(),
            };
            // SAFETY: the memory outlives both ends in every test, and each side has one end.
            let producer = unsafe { Producer::new(layout) };
            // SAFETY: as above.
            let consumer = unsafe { Consumer::new(layout) };
            (producer, consumer)
        }
    }

    #[test]
    fn agrees_with_a_deque_across_index_wrap() {
        for start in [0, u32::MAX - 5] {
            let mut memory = Memory::new(8, start);
            let (mut producer, mut consumer) = memory.ends();
            let (mut staged, mut visible, mut unreleased) = (0u32, VecDeque::new(), 0u32);
            let mut seed = 42u64;
            for value in 0..10_000u64 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                match (seed >> 33) % 4 {
                    0 => {
                        let room = u32::try_from(visible.len()).unwrap() + unreleased < 8;
                        assert_eq!(producer.push(value), room);
                        if room {
                            visible.push_back(value);
                            staged += 1;
                        }
                    }
                    1 => {
                        producer.publish();
                        staged = 0;
                    }
                    2 => {
                        let expected = if visible.len() > staged as usize {
                            visible.pop_front()
                        } else {
                            None
                        };
                        assert_eq!(consumer.pop(), expected);
                        unreleased += u32::from(expected.is_some());
                    }
                    _ => {
                        consumer.release();
                        unreleased = 0;
                    }
                }
            }
        }
    }

    #[test]
    fn threads_pass_every_value_in_order() {
        let count = if cfg!(miri) { 200 } else { 200_000u64 };
        let mut memory = Memory::new(16, 0);
        let (mut producer, mut consumer) = memory.ends();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for value in 0..count {
                    while !producer.push(value) {
                        std::thread::yield_now();
                    }
                    producer.publish();
                }
            });
            for expected in 0..count {
                let value = loop {
                    match consumer.pop() {
                        Some(value) => break value,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(value, expected);
                consumer.release();
            }
        });
    }

    #[test]
    fn what_waits_is_seen_from_outside() {
        for start in [0, u32::MAX - 2] {
            let mut memory = Memory::new(4, start);
            let (mut producer, mut consumer) = memory.ends();
            let watch = consumer.watch();
            for value in 0..20u32 {
                let first = start.wrapping_add(value);
                assert_eq!(watch.waiting(), (0, first));
                assert!(producer.push(value.into()));
                assert_eq!(watch.waiting(), (0, first), "not published");
                producer.publish();
                assert_eq!(watch.waiting(), (1, first));
                assert_eq!(consumer.pop(), Some(value.into()));
                assert_eq!(watch.waiting(), (1, first), "not released");
                consumer.release();
            }
            memory.indexes[0].store(start, Ordering::Relaxed);
            assert_eq!(watch.waiting().0, 0, "an older index of the producer");
        }
    }

    #[test]
    fn a_nonsense_consumer_index_means_full() {
        let mut memory = Memory::new(8, 0);
        let (mut producer, _) = memory.ends();
        for value in 0..8 {
            assert!(producer.push(value));
        }
        memory.indexes[1].store(100, Ordering::Relaxed);
        assert!(!producer.push(9));
    }
}
