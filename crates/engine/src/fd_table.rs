//! Which descriptors are ours: a two-level table, looked up without locks, with memory for the descriptors in use only.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

const CHUNK_BITS: u32 = 10;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
/// 4 Mi descriptors: beyond the kernel's default `fs.nr_open` of 1 Mi. Higher ones are not accelerated.
const CHUNK_COUNT: usize = 4096;

type Chunk<T> = [AtomicPtr<T>; CHUNK_LEN];

/// Maps descriptors to `'static` objects.
#[derive(Debug)]
pub(crate) struct FdTable<T: 'static> {
    chunks: Box<[AtomicPtr<Chunk<T>>]>,
    _objects: PhantomData<&'static T>,
}

impl<T> FdTable<T> {
    pub(crate) fn new() -> Self {
        let chunks = (0..CHUNK_COUNT)
            .map(|_| AtomicPtr::new(ptr::null_mut()))
            .collect();
        Self {
            chunks,
            _objects: PhantomData,
        }
    }

    /// The object behind a descriptor, if it is one of ours.
    #[inline]
    pub(crate) fn get(&self, fd: libc::c_int) -> Option<&'static T> {
        let slot = self.slot(fd)?;
        let object = NonNull::new(slot.load(Ordering::Acquire))?;
        // SAFETY: only `&'static T` are stored (see `insert`).
        Some(unsafe { object.as_ref() })
    }

    /// Makes `fd` stand for `object`; returns what it stood for. `Err`: the descriptor is out of range.
    pub(crate) fn insert(
        &self,
        fd: libc::c_int,
        object: &'static T,
    ) -> Result<Option<&'static T>, ()> {
        let (chunk, index) = split(fd).ok_or(())?;
        let slot = self.chunks.get(chunk).ok_or(())?;
        let mut entries = slot.load(Ordering::Acquire);
        if entries.is_null() {
            let fresh: Box<Chunk<T>> =
                Box::new([const { AtomicPtr::new(ptr::null_mut()) }; CHUNK_LEN]);
            let fresh = Box::into_raw(fresh);
            match slot.compare_exchange(entries, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => entries = fresh,
                Err(other) => {
                    // SAFETY: `fresh` came from Box::into_raw above and was not published.
                    drop(unsafe { Box::from_raw(fresh) });
                    entries = other;
                }
            }
        }
        // SAFETY: a published chunk is never freed.
        let entries = unsafe { &*entries };
        let previous = entries[index].swap(ptr::from_ref(object).cast_mut(), Ordering::AcqRel);
        // SAFETY: only `&'static T` are stored.
        Ok(NonNull::new(previous).map(|object| unsafe { object.as_ref() }))
    }

    /// Forgets a descriptor; returns what it stood for.
    pub(crate) fn remove(&self, fd: libc::c_int) -> Option<&'static T> {
        let object = NonNull::new(self.slot(fd)?.swap(ptr::null_mut(), Ordering::AcqRel))?;
        // SAFETY: only `&'static T` are stored.
        Some(unsafe { object.as_ref() })
    }

    /// The descriptors in use from `first` to `last`, in order.
    pub(crate) fn range(&self, first: u32, last: u32) -> impl Iterator<Item = libc::c_int> + '_ {
        let last = last.min((CHUNK_COUNT * CHUNK_LEN - 1) as u32);
        let mut fd = first;
        std::iter::from_fn(move || {
            while fd <= last {
                let current = fd as libc::c_int;
                let chunk = self.chunks[fd as usize >> CHUNK_BITS].load(Ordering::Acquire);
                if chunk.is_null() {
                    // On to the next chunk.
                    fd = (fd | (CHUNK_LEN as u32 - 1)) + 1;
                    continue;
                }
                fd += 1;
                if self.get(current).is_some() {
                    return Some(current);
                }
            }
            None
        })
    }

    #[inline]
    fn slot(&self, fd: libc::c_int) -> Option<&AtomicPtr<T>> {
        let (chunk, index) = split(fd)?;
        let entries = NonNull::new(self.chunks.get(chunk)?.load(Ordering::Acquire))?;
        // SAFETY: a published chunk is never freed while the table lives.
        let entries: &Chunk<T> = unsafe { entries.as_ref() };
        entries.get(index)
    }
}

#[inline]
fn split(fd: libc::c_int) -> Option<(usize, usize)> {
    let fd = usize::try_from(fd).ok()?;
    Some((fd >> CHUNK_BITS, fd & (CHUNK_LEN - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    static OBJECTS: [u32; 2] = [10, 11];

    #[test]
    fn descriptors_come_and_go() {
        let table = FdTable::new();
        assert!(table.get(5).is_none() && table.get(-1).is_none() && table.get(i32::MAX).is_none());
        assert!(table.insert(5, &OBJECTS[0]).unwrap().is_none());
        assert_eq!(table.insert(5, &OBJECTS[1]).unwrap(), Some(&10));
        assert_eq!(table.get(5), Some(&11));
        assert!(table.insert(-1, &OBJECTS[0]).is_err());
        assert!(table.insert(i32::MAX, &OBJECTS[0]).is_err());
        assert_eq!(table.remove(5), Some(&11));
        assert_eq!(table.remove(5), None);
        assert_eq!(table.remove(70_000), None);
    }

    #[test]
    fn range_finds_what_is_there() {
        let table = FdTable::new();
        for fd in [3, 1023, 1024, 5000, 4_194_303] {
            table.insert(fd, &OBJECTS[0]).unwrap();
        }
        let found = |first, last| table.range(first, last).collect::<Vec<_>>();
        assert_eq!(found(0, u32::MAX), [3, 1023, 1024, 5000, 4_194_303]);
        assert_eq!(found(4, 1024), [1023, 1024]);
        assert!(found(5001, 4_194_302).is_empty());
    }
}
