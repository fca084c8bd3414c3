//! Raw memory: the writer's region, the reader's mapping, and entries that outlive both.
//!
//! Everything that is not safe Rust is here and in the modules below. The rest of the crate sees
//! `&'static` references to structures of atomics (writer) and bounds-checked loads (reader).

use std::fs;
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::cache_line::CACHE_LINE_BYTES;

mod entries;
pub(crate) mod sys;
mod truncation;

pub use sys::{Credentials, Message, Sender, process_id, receive_with_credentials, send_to};
pub use truncation::{survive_truncation, survive_truncations};

/// A structure that may lie in a segment.
///
/// # Safety
/// The implementor MUST be `repr(C)`, valid for every bit pattern, hold nothing but atomics, have
/// no drop code, and have an alignment of at most a cache line.
pub(crate) unsafe trait Shared: Sync + 'static {}

/// Zeroed, writable memory of a segment, valid until the process ends.
///
/// It is never unmapped, on purpose: sockets hold entries until the very end, when threads still
/// run while `exit` already tears things down, and a process has one segment. In exchange an entry
/// is a plain reference, without a count that every socket would have to touch.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region is memory that is valid for good; it is reached through atomics only.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Memory of this process only.
    pub(crate) fn private(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(CACHE_LINE_BYTES);
        // Zeros that the system has not handed out yet cost nothing until they are written.
        let words = vec![0_u64; (bytes + CACHE_LINE_BYTES) / size_of::<u64>()];
        let base = NonNull::from(Box::leak(words.into_boxed_slice())).cast::<u8>();
        // SAFETY: an allocation has a cache line more than its region.
        let base = unsafe { base.add(base.align_offset(CACHE_LINE_BYTES)) };
        Self { base, bytes }
    }

    /// Maps the first `bytes` of a file that has at least that size.
    pub(crate) fn of_file(fd: &sys::Fd, bytes: usize) -> io::Result<Self> {
        let base = sys::map_shared(fd, bytes)?;
        truncation::protect(base, bytes, true);
        Ok(Self { base, bytes })
    }

    /// Address space for a part of a file, which can be used when it is [opened](Self::open). Who
    /// has all of a process's memory locked locks none of this.
    pub(crate) fn reserve(fd: &sys::Fd, offset: usize, bytes: usize) -> io::Result<Self> {
        let base = sys::map_reserved(fd, offset, bytes)?;
        truncation::protect(base, bytes, true);
        Ok(Self { base, bytes })
    }

    /// Makes what was reserved memory.
    pub(crate) fn open(&self) -> io::Result<()> {
        sys::make_writable(self.base, self.bytes)?;
        sys::populate(self.base.as_ptr(), self.bytes)
    }

    /// The system has the memory of a range back; it is zeros from then on. Who uses it gets new
    /// one.
    pub(crate) fn give_back(&self, offset: usize, bytes: usize) {
        if offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes)
        {
            // SAFETY: the range is in the region.
            sys::remove(unsafe { self.base.add(offset) }, bytes);
        }
    }

    /// Copies octets to a place of a region that is open. What does not fit is not copied.
    pub(crate) fn copy_in(&self, offset: usize, bytes: &[u8]) {
        if offset
            .checked_add(bytes.len())
            .is_some_and(|end| end <= self.bytes)
        {
            // SAFETY: the place is in the region.
            let to = unsafe { self.base.add(offset) };
            // SAFETY: the range is in the region, which is never unmapped. Nobody in this process
            // has references to its octets but those to atomics, which are at least as far away as
            // a record is long.
            unsafe {
                to.as_ptr()
                    .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
            };
        }
    }

    /// The entries at `offset`, or `None` when they do not lie in the region on a cache line.
    pub(crate) fn slice<T: Shared>(&self, offset: usize, entries: usize) -> Option<&'static [T]> {
        let wanted = size_of::<T>().checked_mul(entries)?.checked_add(offset)?;
        if wanted > self.bytes || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: offset <= bytes, so the result is in or one past the region.
        let first = unsafe { self.base.add(offset) };
        // SAFETY: the range is in the region, which is never unmapped; the base is page or
        // cache-line aligned and the offset a multiple of the alignment; `Shared` types are valid
        // for every bit pattern and written through atomics only.
        Some(unsafe { std::slice::from_raw_parts(first.cast().as_ptr(), entries) })
    }
}

/// Gets memory for entries of a region whose file has none for them yet: a full disk is an error
/// here, not a SIGBUS later.
pub(crate) fn populate<T: Shared>(entries: &'static [T]) -> io::Result<()> {
    sys::populate(entries.as_ptr().cast(), size_of_val(entries))
}

/// An entry in a region or on the heap. One pointer either way, so that the packet path does not
/// care.
#[derive(Debug)]
pub(crate) struct EntryRef<T> {
    entry: NonNull<T>,
    on_heap: bool,
}

impl<T> EntryRef<T> {
    pub(crate) fn in_region(entry: &'static T) -> Self {
        Self {
            entry: NonNull::from(entry),
            on_heap: false,
        }
    }

    pub(crate) fn on_heap(entry: T) -> Self {
        Self {
            entry: NonNull::from(Box::leak(Box::new(entry))),
            on_heap: true,
        }
    }

    /// The entry for good, if it lies in a region, which is never unmapped.
    pub(crate) fn lasting(&self) -> Option<&'static T> {
        if self.on_heap {
            return None;
        }
        // SAFETY: an entry that is not on the heap came as `&'static T` (see `in_region`).
        Some(unsafe { self.entry.as_ref() })
    }
}

impl<T> Deref for EntryRef<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the entry is valid for good (region) or until `drop` (heap).
        unsafe { self.entry.as_ref() }
    }
}

impl<T> Drop for EntryRef<T> {
    fn drop(&mut self) {
        if self.on_heap {
            // SAFETY: the pointer came out of a box and nothing else frees it.
            drop(unsafe { Box::from_raw(self.entry.as_ptr()) });
        }
    }
}

// SAFETY: gives out shared references only, and drops the entry in whichever thread drops it last.
unsafe impl<T: Send + Sync> Send for EntryRef<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for EntryRef<T> {}

/// A file mapped for reading. Loads are bounds-checked and relaxed: the only atomic accesses that
/// are defined on read-only memory. Order comes from fences at the call sites.
#[derive(Debug)]
pub(crate) struct ReadMapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: read-only memory that stays mapped until the value is dropped.
unsafe impl Send for ReadMapping {}
// SAFETY: as above.
unsafe impl Sync for ReadMapping {}

impl ReadMapping {
    /// `bytes` must not exceed the file's size at this moment. A file that shrinks later raises
    /// SIGBUS when the missing part is read; callers check the size again before each snapshot.
    pub(crate) fn new(file: &fs::File, bytes: usize) -> io::Result<Self> {
        let base = sys::map_for_reading(file.as_fd(), bytes)?;
        truncation::protect(base, bytes, false);
        Ok(Self { base, bytes })
    }

    pub(crate) fn load_u64(&self, offset: usize) -> Option<u64> {
        let word: *const AtomicU64 = self.at(offset, size_of::<u64>())?.cast();
        // SAFETY: in the mapping and aligned; concurrent writers use atomics of the same size.
        let word = unsafe { &*word };
        Some(word.load(Ordering::Relaxed))
    }

    pub(crate) fn load_u32(&self, offset: usize) -> Option<u32> {
        let word: *const AtomicU32 = self.at(offset, size_of::<u32>())?.cast();
        // SAFETY: in the mapping and aligned; concurrent writers use atomics of the same size.
        let word = unsafe { &*word };
        Some(word.load(Ordering::Relaxed))
    }

    /// The address of a word that lies in the mapping and is aligned to its size.
    fn at(&self, offset: usize, bytes: usize) -> Option<*const u8> {
        if offset.checked_add(bytes)? > self.bytes || !offset.is_multiple_of(bytes) {
            return None;
        }
        // SAFETY: offset < bytes of the mapping.
        Some(unsafe { self.base.add(offset) }.as_ptr())
    }
}

impl Drop for ReadMapping {
    fn drop(&mut self) {
        truncation::forget(self.base);
        sys::unmap(self.base, self.bytes);
    }
}

/// A part of a mapped file: one entry, or the header. What lies behind its end reads as 0, which is
/// what a field means that the writer's version does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryView<'a> {
    pub(crate) mapping: &'a ReadMapping,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl EntryView<'_> {
    pub(crate) fn load_u64(&self, offset: usize) -> u64 {
        self.place(offset, 8)
            .and_then(|at| self.mapping.load_u64(at))
            .unwrap_or(0)
    }

    pub(crate) fn load_u32(&self, offset: usize) -> u32 {
        self.place(offset, 4)
            .and_then(|at| self.mapping.load_u32(at))
            .unwrap_or(0)
    }

    fn place(&self, offset: usize, bytes: usize) -> Option<usize> {
        let end = offset.checked_add(bytes)?;
        if end > self.bytes {
            None
        } else {
            self.offset.checked_add(offset)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::schema::PoolStats;

    #[test]
    fn region_slices_are_bounded_and_aligned() {
        let region = Region::private(256);
        assert!(region.slice::<PoolStats>(0, 4).is_some());
        assert!(region.slice::<PoolStats>(64, 4).is_none());
        assert!(region.slice::<PoolStats>(32, 1).is_none());
        assert!(region.slice::<PoolStats>(usize::MAX - 63, 1).is_none());
        assert!(region.slice::<PoolStats>(0, usize::MAX / 2).is_none());
        assert_eq!(region.slice::<PoolStats>(256, 0).map(<[_]>::len), Some(0));
    }

    #[test]
    fn heap_entry_is_freed_by_its_owner() {
        let counted = std::sync::Arc::new(());
        let entry = EntryRef::on_heap(std::sync::Arc::clone(&counted));
        assert_eq!(std::sync::Arc::strong_count(&entry), 2);
        drop(entry);
        assert_eq!(std::sync::Arc::strong_count(&counted), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    fn read_mapping_loads_are_bounded_and_aligned() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 24]).unwrap();
        let mapping = ReadMapping::new(&file, 24).unwrap();
        assert_eq!(mapping.load_u64(16), Some(0x0101_0101_0101_0101));
        assert_eq!(mapping.load_u32(20), Some(0x0101_0101));
        for outside in [4, 20, 24, usize::MAX, usize::MAX - 7] {
            assert_eq!(mapping.load_u64(outside), None, "{outside}");
        }
        let view = EntryView {
            mapping: &mapping,
            offset: 8,
            bytes: 12,
        };
        assert_eq!(view.load_u64(0), 0x0101_0101_0101_0101);
        assert_eq!(view.load_u32(8), 0x0101_0101);
        assert_eq!(view.load_u64(8), 0, "behind the end of the entry");
    }
}
