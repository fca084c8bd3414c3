//! Frames and the pool that owns them.
//!
//! A [`Frame`] is a token for one chunk of the pool's memory: there is one token per chunk, it is
//! not `Clone`, and a chunk whose token was given to a device belongs to the device until the
//! device names it again in a descriptor.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vma_config::MemoryKind;

use crate::lock::{Lock, Rank, ThreadMode};
use crate::memory::FrameMemory;
use crate::prefetch::prefetch;

/// A chunk of the pool and the part of it that holds data.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is dropped is lost to its pool"]
pub struct Frame {
    chunk: u32,
    offset: u16,
    /// With [`CONTINUES`] and [`IS_CHECKED`]
    len: u16,
}

/// The next frame of the ring holds more of the same packet. Frames are far shorter than this.
const CONTINUES: u16 = 1 << 15;
/// The device has found the packet's checksums right.
const IS_CHECKED: u16 = 1 << 14;

impl Frame {
    /// Bytes of data in the frame.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len & !(CONTINUES | IS_CHECKED))
    }

    /// Whether the frame holds no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves out the first `len` bytes of the data, or all if there are fewer.
    #[inline]
    pub fn skip(&mut self, len: u16) {
        let len = len.min(self.len & !(CONTINUES | IS_CHECKED));
        self.offset += len;
        self.len -= len;
    }

    /// Whether the next frame of the ring holds more of the same packet.
    #[inline]
    pub fn continues(&self) -> bool {
        self.len & CONTINUES != 0
    }

    /// Says that it does.
    #[inline]
    pub fn set_continues(&mut self) {
        self.len |= CONTINUES;
    }

    /// Whether the device has found the checksum of the frame's UDP or TCP packet right.
    #[inline]
    pub fn is_checked(&self) -> bool {
        self.len & IS_CHECKED != 0
    }

    /// Says that it has.
    #[inline]
    pub fn set_checked(&mut self) {
        self.len |= IS_CHECKED;
    }
}

/// Bytes in front of the data that [`FramePool::fill`] takes along.
pub const IN_FRONT: u16 = 16;

/// The frames of the process, shared by all its rings.
#[derive(Debug)]
pub struct FramePool {
    memory: FrameMemory,
    frame_bytes: u16,
    frame_count: u32,
    free: Lock<Vec<u32>>,
    exhausted: AtomicU64,
    /// Fewer than [`Self::reserve`] frames are free. Changes rarely, so that asking costs no shared
    /// cache line.
    scarce: AtomicBool,
}

impl FramePool {
    /// A pool of `frame_count` frames of `frame_bytes` each.
    ///
    /// # Errors
    /// The system refused the memory.
    ///
    /// # Panics
    /// If `frame_bytes` is not a power of two between 2048 and 4096, what AF_XDP takes as a chunk
    /// (kernel `net/xdp/xdp_umem.c`).
    pub fn new(frame_count: u32, frame_bytes: u16, mode: ThreadMode) -> io::Result<Self> {
        Self::with_pages(frame_count, frame_bytes, mode, MemoryKind::Ordinary)
    }

    /// The same in memory of a certain kind.
    ///
    /// # Errors
    /// There is none of that kind.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn with_pages(
        frame_count: u32,
        frame_bytes: u16,
        mode: ThreadMode,
        pages: MemoryKind,
    ) -> io::Result<Self> {
        let memory = FrameMemory::map(frame_count as usize * usize::from(frame_bytes), pages)?;
        Ok(Self::in_memory(memory, frame_bytes, mode))
    }

    /// The same in this memory, all of it.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn in_memory(memory: FrameMemory, frame_bytes: u16, mode: ThreadMode) -> Self {
        assert!(frame_bytes.is_power_of_two() && (2048..=4096).contains(&frame_bytes));
        let frame_count = u32::try_from(memory.len_bytes() / usize::from(frame_bytes));
        let frame_count = frame_count.unwrap_or(u32::MAX);
        // The most recently freed frame is the first to be used again: its lines are still in the
        // cache.
        let free = (0..frame_count).rev().collect();
        Self {
            memory,
            frame_bytes,
            frame_count,
            free: Lock::new(mode, free).ranked(Rank::Pool),
            exhausted: AtomicU64::new(0),
            scarce: AtomicBool::new(false),
        }
    }

    /// The memory behind the frames, for registration with a device.
    pub fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// Size of a frame in bytes.
    pub fn frame_bytes(&self) -> u16 {
        self.frame_bytes
    }

    /// Number of frames of the pool.
    pub fn frame_count(&self) -> u32 {
        self.frame_count
    }

    /// Number of frames that nobody holds.
    pub fn free_count(&self) -> usize {
        self.free.lock().len()
    }

    /// How often a request found too few frames.
    pub fn exhausted(&self) -> u64 {
        self.exhausted.load(Ordering::Relaxed)
    }

    #[cold]
    fn count_exhausted(&self) {
        self.exhausted.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the free frames are for the rings: who holds data for long keeps them elsewhere. A
    /// hint that may be a moment old.
    #[inline]
    pub fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::Relaxed)
    }

    /// Free frames that are kept for the rings: sockets that nobody reads must not take them. As
    /// small as can be, because with many queues few are free at the best of times, and large
    /// enough for bursts to deepen the rings.
    fn reserve(&self) -> usize {
        self.frame_count as usize / 8
    }

    /// After frames were taken; `free` are left.
    #[inline]
    fn frames_taken(&self, free: usize) {
        if free < self.reserve() && !self.is_scarce() {
            self.scarce.store(true, Ordering::Relaxed);
        }
    }

    /// After one was given back; `free` there are. A little above the reserve, so that the hint
    /// does not flutter.
    #[inline]
    fn frame_given(&self, free: usize) {
        if self.is_scarce() && free >= self.reserve() + self.reserve() / 2 {
            self.scarce.store(false, Ordering::Relaxed);
        }
    }

    /// Takes one frame, empty.
    #[inline]
    pub fn take(&self) -> Option<Frame> {
        let mut free = self.free.lock();
        let chunk = free.pop();
        self.frames_taken(free.len());
        drop(free);
        if chunk.is_none() {
            self.count_exhausted();
        }
        chunk.map(|chunk| Frame {
            chunk,
            offset: 0,
            len: 0,
        })
    }

    /// Takes up to `count` frames and hands each to `sink`; returns how many.
    #[inline]
    pub fn take_many(&self, count: usize, mut sink: impl FnMut(Frame)) -> usize {
        let mut free = self.free.lock();
        let first = free.len() - count.min(free.len());
        let taken = free.len() - first;
        if taken < count {
            self.count_exhausted();
        }
        self.frames_taken(first);
        for chunk in free.drain(first..).rev() {
            sink(Frame {
                chunk,
                offset: 0,
                len: 0,
            });
        }
        taken
    }

    /// Gives a frame back.
    #[inline]
    pub fn give(&self, frame: Frame) {
        debug_assert!(frame.chunk < self.frame_count);
        let mut free = self.free.lock();
        free.push(frame.chunk);
        self.frame_given(free.len());
    }

    /// The data of a frame.
    #[inline]
    pub fn data<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        debug_assert!(self.holds(frame));
        // SAFETY: every Frame lies inside its chunk (checked where it is made), the chunk inside
        // the mapping.
        let first = unsafe { self.memory.base().add(self.start(frame)) };
        // SAFETY: the bytes are mapped (above), and the token that is borrowed here is the only one
        // for the chunk, so nothing writes to them meanwhile.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), frame.len()) }
    }

    /// What lies in front of a frame's data. `None`: its chunk has less room there.
    pub fn in_front<const LEN: usize>(&self, frame: &Frame) -> Option<[u8; LEN]> {
        if usize::from(frame.offset) < LEN {
            return None;
        }
        // SAFETY: that much of the chunk lies before the data (checked above), and the chunk inside
        // the mapping.
        let first = unsafe { self.memory.base().add(self.start(frame) - LEN) };
        // SAFETY: as in `data`.
        Some(unsafe { first.cast::<[u8; LEN]>().read() })
    }

    /// Writes in front of a frame's data. Without as much room there nothing is written.
    #[inline]
    pub fn set_in_front<const LEN: usize>(&self, frame: &mut Frame, bytes: [u8; LEN]) {
        if usize::from(frame.offset) < LEN {
            return;
        }
        // SAFETY: as in `in_front`.
        let first = unsafe { self.memory.base().add(self.start(frame) - LEN) };
        // SAFETY: as in `data`, and the only token of the chunk is borrowed mutably.
        unsafe { first.cast::<[u8; LEN]>().write(bytes) };
    }

    /// A copy of a frame's data, and of `front` bytes in front of them. `None`: no frame is free.
    pub fn copy(&self, frame: &Frame, front: u16) -> Option<Frame> {
        let mut copy = self.take()?;
        (copy.offset, copy.len) = (frame.offset, frame.len);
        let front = usize::from(front.min(frame.offset));
        // SAFETY: that much of the chunk lies before the data, and the chunk inside the mapping.
        let from = unsafe { self.memory.base().add(self.start(frame) - front) };
        // SAFETY: as above: the copy lies in its chunk as the frame does in its own.
        let to = unsafe { self.memory.base().add(self.start(&copy) - front) };
        // SAFETY: mapped (above); the chunks are two, and nobody else has their tokens.
        unsafe { from.copy_to_nonoverlapping(to, front + frame.len()) };
        Some(copy)
    }

    /// Copies `len` bytes into a frame, and what lies in front of them, [`IN_FRONT`] bytes, in
    /// front of its data. What does not fit is cut off.
    ///
    /// # Safety
    /// All of that is readable. Others may write to it meanwhile: then nobody knows what is copied.
    #[inline]
    pub unsafe fn fill(&self, frame: &mut Frame, from: NonNull<u8>, len: usize) {
        self.set_len(frame, len.min(usize::from(self.frame_bytes - IN_FRONT)));
        frame.offset = IN_FRONT;
        let (len, front) = (frame.len(), usize::from(IN_FRONT));
        // SAFETY: the chunk begins that much before the data, and lies inside the mapping.
        let to = unsafe { self.memory.base().add(self.start(frame) - front) };
        // SAFETY: readable (the caller's promise).
        let from = unsafe { from.sub(front) };
        // SAFETY: readable, and mapped (above); the only token of the chunk is borrowed mutably, so
        // the two do not overlap.
        unsafe { from.copy_to_nonoverlapping(to, front + len) };
    }

    /// The data of a frame for changing in place.
    #[inline]
    pub fn data_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        debug_assert!(self.holds(frame));
        // SAFETY: as in `data`.
        let first = unsafe { self.memory.base().add(self.start(frame)) };
        // SAFETY: as in `data`, and the only token of the chunk is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), frame.len()) }
    }

    /// The whole chunk of a frame for writing; [`FramePool::set_len`] says afterwards how much of
    /// it is data.
    #[inline]
    pub fn chunk_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        frame.offset = 0;
        frame.len = 0;
        let len = usize::from(self.frame_bytes);
        // SAFETY: the chunk lies inside the mapping.
        let first = unsafe { self.memory.base().add(self.start(frame)) };
        // SAFETY: the chunk is mapped (above), and its only token is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), len) }
    }

    /// Says that the first `len` bytes of the chunk are data. Longer than the chunk is cut to the
    /// chunk.
    #[inline]
    pub fn set_len(&self, frame: &mut Frame, len: usize) {
        frame.offset = 0;
        frame.len = u16::try_from(len).unwrap_or(u16::MAX).min(self.frame_bytes);
    }

    /// Where the frame's data begin, in bytes from the start of the pool's memory.
    #[inline]
    pub fn address(&self, frame: &Frame) -> u64 {
        self.start(frame) as u64
    }

    /// Begins to bring `bytes` from an address, counted from the start of the pool's memory, into
    /// this core's cache. A hint that may be wrong: any address will do.
    #[inline]
    pub fn prefetch(&self, address: u64, bytes: usize) {
        let Ok(address) = usize::try_from(address) else {
            return;
        };
        let first = self.memory.base().as_ptr().wrapping_add(address);
        (0..bytes)
            .step_by(CACHE_LINE_BYTES)
            .for_each(|offset| prefetch(first.wrapping_add(offset)));
    }

    /// Gives a frame to a device: the address to put into its ring. The token is consumed; the
    /// chunk comes back through [`FramePool::reclaim`].
    #[inline]
    pub fn release_to_device(&self, frame: Frame) -> u64 {
        self.address(&frame)
    }

    /// Takes a frame back from a device that names it in a descriptor. `None`: the descriptor
    /// points outside a chunk.
    ///
    /// The device must name only what [`FramePool::release_to_device`] gave it, each once; the
    /// kernel does (AF_XDP checks every address that user space submits, `net/xdp/xsk_queue.h`).
    #[inline]
    pub fn reclaim(&self, address: u64, len: u32) -> Option<Frame> {
        let chunk = u32::try_from(address >> self.frame_bytes.trailing_zeros()).ok()?;
        let offset = u32::try_from(address & u64::from(self.frame_bytes - 1)).ok()?;
        let end = offset.checked_add(len)?;
        if chunk >= self.frame_count || end > u32::from(self.frame_bytes) {
            return None;
        }
        let (offset, len) = (u16::try_from(offset).ok()?, u16::try_from(len).ok()?);
        Some(Frame { chunk, offset, len })
    }

    #[inline]
    fn start(&self, frame: &Frame) -> usize {
        frame.chunk as usize * usize::from(self.frame_bytes) + usize::from(frame.offset)
    }

    fn holds(&self, frame: &Frame) -> bool {
        frame.chunk < self.frame_count
            && usize::from(frame.offset) + frame.len() <= usize::from(self.frame_bytes)
    }
}

const CACHE_LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests;
