//! Which descriptors are ours.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use descriptors::DescriptorTable;

/// Maps descriptors to `'static` objects, without locks.
#[derive(Debug)]
pub(crate) struct FdTable<T: 'static> {
    /// Only `&'static T` are stored.
    entries: Box<DescriptorTable<AtomicPtr<T>>>,
    /// The highest descriptor that ever was in the table; -1 for none.
    highest: AtomicI32,
    _objects: PhantomData<&'static T>,
}

impl<T> FdTable<T> {
    pub(crate) fn new() -> Self {
        Self {
            entries: DescriptorTable::boxed(),
            highest: AtomicI32::new(-1),
            _objects: PhantomData,
        }
    }

    /// The object behind a descriptor, if it is one of ours.
    #[inline]
    pub(crate) fn get(&self, fd: libc::c_int) -> Option<&'static T> {
        object(self.entries.get(fd)?.load(Ordering::Acquire))
    }

    /// Makes `fd` stand for `object`; returns what it stood for. `Err`: the descriptor is beyond
    /// the table.
    pub(crate) fn insert(
        &self,
        fd: libc::c_int,
        new: &'static T,
    ) -> Result<Option<&'static T>, ()> {
        let entry = self.entries.get_or_make(fd).ok_or(())?;
        self.highest.fetch_max(fd, Ordering::Relaxed);
        Ok(object(
            entry.swap(ptr::from_ref(new).cast_mut(), Ordering::AcqRel),
        ))
    }

    /// Forgets a descriptor; returns what it stood for.
    pub(crate) fn remove(&self, fd: libc::c_int) -> Option<&'static T> {
        object(
            self.entries
                .get(fd)?
                .swap(ptr::null_mut(), Ordering::AcqRel),
        )
    }

    /// No descriptor above this one was ever in the table; -1 if none was.
    #[inline]
    pub(crate) fn highest(&self) -> libc::c_int {
        self.highest.load(Ordering::Relaxed)
    }

    /// The descriptors in use from `first` to `last`, in order.
    pub(crate) fn range(&self, first: u32, last: u32) -> impl Iterator<Item = libc::c_int> + '_ {
        self.entries
            .range(first, last)
            .filter(|(_, entry)| !entry.load(Ordering::Acquire).is_null())
            .map(|(fd, _)| fd)
    }
}

#[inline]
fn object<T>(stored: *mut T) -> Option<&'static T> {
    // SAFETY: null, or one of the `&'static T` that the table stores.
    NonNull::new(stored).map(|object| unsafe { object.as_ref() })
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
        table.insert(5000, &OBJECTS[0]).unwrap();
        assert_eq!(table.range(0, u32::MAX).collect::<Vec<_>>(), [5, 5000]);
        assert_eq!(table.remove(5), Some(&11));
        assert_eq!(table.remove(5), None);
        assert_eq!(table.remove(70_000), None);
        assert_eq!(table.range(0, u32::MAX).collect::<Vec<_>>(), [5000]);
        assert_eq!(table.highest(), 5000);
    }
}
