//! Memory that two processes share: their doorbells, and slots, one for each connection.
//!
//! The file has no name, and is sealed: it can neither shrink nor grow, so that no access ends the
//! process. Its pages come to be when they are touched.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;

use rustix::fs::memfd_create;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::direction::{Direction, RING_BYTES};
use crate::doorbell::Doorbell;

const PAGE: usize = 4096;
/// The head of the file: the two doorbells, a page each.
const HEAD_BYTES: usize = 2 * PAGE;
/// A slot: a page with both directions, and their rings.
const SLOT_BYTES: usize = PAGE + 2 * RING_BYTES;
/// Connections of an arena.
pub const SLOTS: u32 = Doorbell::SLOTS;
const BYTES: usize = HEAD_BYTES + SLOTS as usize * SLOT_BYTES;

const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

const _: () = {
    assert!(size_of::<Doorbell>() <= PAGE && 2 * size_of::<Direction>() <= PAGE);
    assert!(SLOT_BYTES.is_multiple_of(PAGE));
};

/// Which of the two processes: the first has made the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    First,
    Second,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::First => 0,
            Self::Second => 1,
        }
    }
}

/// Memory that two processes share.
#[derive(Debug)]
pub struct Arena {
    start: *mut u8,
}

// SAFETY: the mapping is plain memory of a shared file. What is in front of the rings is touched
// through atomics only, the rings through copies by raw pointers.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Makes one.
    ///
    /// # Errors
    /// The system has no memory or descriptor for it.
    pub fn create() -> io::Result<(OwnedFd, Self)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("vma-streams", flags)?;
        ftruncate(&file, BYTES as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let arena = Self::map(&file)?;
        Ok((file, arena))
    }

    /// Maps that of another process.
    ///
    /// # Errors
    /// It is none, or could shrink.
    pub fn map(file: &impl AsFd) -> io::Result<Self> {
        let is_sealed = fcntl_get_seals(file)?.contains(SEALS);
        if !is_sealed || fstat(file)?.st_size != BYTES as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where, and replaces nothing.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                BYTES,
                protection,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                0,
            )
        }?;
        Ok(Self {
            start: start.cast(),
        })
    }

    /// News for one of the processes.
    #[inline]
    pub fn doorbell(&self, of: Side) -> &Doorbell {
        let doorbell = self.start.wrapping_add(of.index() * PAGE).cast();
        // SAFETY: within the mapping, aligned to a page; all atomics.
        unsafe { &*doorbell }
    }

    /// A connection's memory. `None`: there is no such slot.
    pub fn slot(&self, number: u32) -> Option<Slot<'_>> {
        let offset = HEAD_BYTES + number as usize * SLOT_BYTES;
        let slot = |_| Slot {
            arena: self,
            offset,
        };
        (number < SLOTS).then_some(()).map(slot)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody borrows it any more.
        let _ = unsafe { munmap(self.start.cast(), BYTES) };
    }
}

/// A connection's memory.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    arena: &'a Arena,
    offset: usize,
}

impl<'a> Slot<'a> {
    /// The direction that this side writes.
    #[inline]
    pub fn direction(self, writer: Side) -> &'a Direction {
        let offset = self.offset + writer.index() * size_of::<Direction>();
        let direction = self.arena.start.wrapping_add(offset).cast();
        // SAFETY: within the mapping (`Arena::slot`), aligned; all atomics.
        unsafe { &*direction }
    }

    /// The first octet of its ring.
    #[inline]
    fn ring(self, writer: Side) -> *mut u8 {
        let offset = self.offset + PAGE + writer.index() * RING_BYTES;
        self.arena.start.wrapping_add(offset)
    }

    /// Copies octets into the ring that this side writes, from `at` on.
    ///
    /// # Panics
    /// They do not fit behind `at`.
    #[inline]
    pub fn write(self, writer: Side, at: usize, octets: &[u8]) {
        assert!(at <= RING_BYTES && octets.len() <= RING_BYTES - at);
        let place = self.ring(writer).wrapping_add(at);
        // SAFETY: within the ring (checked above), which is not the caller's memory.
        unsafe { ptr::copy_nonoverlapping(octets.as_ptr(), place, octets.len()) };
    }

    /// Copies octets out of the ring that this side writes, from `at` on. What they are the other
    /// process may change meanwhile.
    ///
    /// # Panics
    /// There are not so many behind `at`.
    #[inline]
    pub fn read(self, writer: Side, at: usize, room: &mut [u8]) {
        assert!(at <= RING_BYTES && room.len() <= RING_BYTES - at);
        let place = self.ring(writer).wrapping_add(at);
        // SAFETY: within the ring (checked above), which is not the caller's memory.
        unsafe { ptr::copy_nonoverlapping(place, room.as_mut_ptr(), room.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (file, first) = Arena::create().unwrap();
        let second = Arena::map(&file).unwrap();
        let [ours, theirs] = [&first, &second].map(|arena| arena.slot(SLOTS - 1).unwrap());
        ours.write(Side::First, RING_BYTES - 3, b"abc");
        let mut read = [0; 3];
        theirs.read(Side::First, RING_BYTES - 3, &mut read);
        assert_eq!(&read, b"abc");
        assert!(!first.doorbell(Side::Second).ring(7));
        assert!(second.doorbell(Side::Second).has_rung());
        assert!(!second.doorbell(Side::First).has_rung());
        assert!(first.slot(SLOTS).is_none());
    }

    #[test]
    fn a_file_that_could_shrink_is_refused() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, BYTES as u64).unwrap();
        assert!(Arena::map(&file).is_err());
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        assert!(Arena::map(&file).is_err());
        fcntl_add_seals(&file, SEALS).unwrap();
        assert!(Arena::map(&file).is_ok());
    }

    #[test]
    fn a_file_of_another_length_is_refused() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, PAGE as u64).unwrap();
        fcntl_add_seals(&file, SEALS).unwrap();
        assert!(Arena::map(&file).is_err());
    }
}
