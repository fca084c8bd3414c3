//! A table by descriptor number: two levels, looked up without locks, with memory up to the highest
//! number in use.

use std::alloc::{self, Layout};
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

const CHUNK_BITS: u32 = 10;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
const TOP_BITS: u32 = 12;
const CHUNK_COUNT: usize = 1 << TOP_BITS;

type Chunk<E> = [E; CHUNK_LEN];

/// One `E` for each descriptor, made when it is first asked for. An `E` is an atomic, whose default
/// says that nothing is there.
///
/// It reaches 4 Mi descriptors, beyond the kernel's default `fs.nr_open` of 1 Mi. Higher ones have
/// no place.
#[derive(Debug)]
pub struct DescriptorTable<E: 'static> {
    /// Chunks are never freed while the table lives.
    chunks: [AtomicPtr<Chunk<E>>; CHUNK_COUNT],
}

impl<E: Default + Sync> DescriptorTable<E> {
    /// The highest descriptor that has a place.
    pub const LAST: u32 = (1 << (TOP_BITS + CHUNK_BITS)) - 1;

    /// An empty table.
    pub const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNK_COUNT],
        }
    }

    /// An empty table of 32 KiB that was never on the stack, of which a thread may have no more
    /// than 16 KiB.
    pub fn boxed() -> Box<Self> {
        let layout = Layout::new::<Self>();
        // SAFETY: the layout is not of size zero.
        let table = unsafe { alloc::alloc_zeroed(layout) }.cast::<Self>();
        if table.is_null() {
            alloc::handle_alloc_error(layout);
        }
        // SAFETY: the global allocator gave the memory for this layout, and null pointers in every
        // place are an empty table.
        unsafe { Box::from_raw(table) }
    }

    /// The entry of a descriptor. `None`: there is no memory for it yet, so nothing is there.
    #[inline]
    pub fn get(&self, fd: RawFd) -> Option<&E> {
        let (chunk, index) = split(fd)?;
        self.chunk(chunk)?.get(index)
    }

    /// The entry of a descriptor. `None`: it is beyond the table.
    #[inline]
    pub fn get_or_make(&self, fd: RawFd) -> Option<&E> {
        let (chunk, index) = split(fd)?;
        match self.chunk(chunk) {
            Some(entries) => entries.get(index),
            None => self.make_chunk(chunk)?.get(index),
        }
    }

    /// The entries from `first` to `last` that there is memory for, in order.
    pub fn range(&self, first: u32, last: u32) -> impl Iterator<Item = (RawFd, &E)> {
        let last = last.min(Self::LAST);
        let chunks = (first >> CHUNK_BITS)..=(last >> CHUNK_BITS);
        let entries = chunks
            .filter_map(|chunk| Some((chunk, self.chunk(chunk as usize)?)))
            .flat_map(|(chunk, entries)| (chunk << CHUNK_BITS..).zip(entries));
        entries
            .skip_while(move |(fd, _)| *fd < first)
            .take_while(move |(fd, _)| *fd <= last)
            .map(|(fd, entry)| (fd.cast_signed(), entry))
    }

    #[inline]
    fn chunk(&self, chunk: usize) -> Option<&Chunk<E>> {
        let entries = NonNull::new(self.chunks.get(chunk)?.load(Ordering::Acquire))?;
        // SAFETY: a published chunk is initialized, and freed with the table only.
        Some(unsafe { entries.as_ref() })
    }

    #[cold]
    fn make_chunk(&self, chunk: usize) -> Option<&Chunk<E>> {
        let slot = self.chunks.get(chunk)?;
        let fresh = Box::into_raw(Box::new(std::array::from_fn(|_| E::default())));
        let published =
            slot.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire);
        if published.is_err() {
            // Another thread was faster.
            // SAFETY: `fresh` came from Box::into_raw above and was not published.
            drop(unsafe { Box::from_raw(fresh) });
        }
        self.chunk(chunk)
    }
}

impl<E: Default + Sync> Default for DescriptorTable<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Drop for DescriptorTable<E> {
    fn drop(&mut self) {
        for chunk in &mut self.chunks {
            let entries = std::mem::replace(chunk.get_mut(), ptr::null_mut());
            if !entries.is_null() {
                // SAFETY: published chunks came from Box::into_raw, and nobody borrows from a table
                // that is dropped.
                drop(unsafe { Box::from_raw(entries) });
            }
        }
    }
}

#[inline]
fn split(fd: RawFd) -> Option<(usize, usize)> {
    let fd = usize::try_from(fd).ok()?;
    Some((fd >> CHUNK_BITS, fd & (CHUNK_LEN - 1)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn entries_come_into_being_when_they_are_asked_for() {
        let table = DescriptorTable::<AtomicU32>::new();
        assert!(
            table.get(5).is_none() && table.get(-1).is_none() && table.get(RawFd::MAX).is_none()
        );
        table.get_or_make(5).unwrap().store(7, Ordering::Relaxed);
        assert_eq!(table.get(5).unwrap().load(Ordering::Relaxed), 7);
        assert_eq!(table.get(6).unwrap().load(Ordering::Relaxed), 0);
        assert!(table.get(1024).is_none());
        assert!(table.get_or_make(-1).is_none() && table.get_or_make(RawFd::MAX).is_none());
        let last = DescriptorTable::<AtomicU32>::LAST.cast_signed();
        assert!(table.get_or_make(last).is_some() && table.get_or_make(last + 1).is_none());
    }

    #[test]
    fn a_range_is_what_lies_in_it() {
        let table = DescriptorTable::<AtomicU32>::new();
        for fd in [3, 1023, 1024, 5000, 4_194_303] {
            table.get_or_make(fd).unwrap().store(1, Ordering::Relaxed);
        }
        let found = |first, last| -> Vec<RawFd> {
            let entries = table.range(first, last);
            let used = entries.filter(|(_, entry)| entry.load(Ordering::Relaxed) != 0);
            used.map(|(fd, _)| fd).collect()
        };
        assert_eq!(found(0, u32::MAX), [3, 1023, 1024, 5000, 4_194_303]);
        assert_eq!(found(4, 1024), [1023, 1024]);
        assert_eq!(found(1024, 1024), [1024]);
        assert!(found(5001, 4_194_302).is_empty());
        assert!(found(9, 8).is_empty() && found(5_000_000, u32::MAX).is_empty());
    }

    #[test]
    fn threads_share_what_the_first_has_made() {
        let table = DescriptorTable::<AtomicU32>::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for fd in 0..5000 {
                        table
                            .get_or_make(fd)
                            .unwrap()
                            .fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(
            table
                .range(0, 4999)
                .all(|(_, entry)| entry.load(Ordering::Relaxed) == 4)
        );
    }
}
