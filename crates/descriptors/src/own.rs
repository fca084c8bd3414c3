//! The library's own descriptors in the program's table: what `close(2)` and `close_range(2)` must
//! leave alone, what a forked child has to close so that an interface's packets stay with the
//! parent, and what moves to another number when the program wants its.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use crate::number::{duplicate_anywhere, duplicate_to_end, move_out_of_the_way};
use crate::table::DescriptorTable;

/// Not the library's.
const NONE: u8 = 0;
/// A forked child closes it.
const CLOSED_BY_CHILD: u8 = 1;
/// A forked child keeps it.
const KEPT_BY_CHILD: u8 = 2;

static KINDS: DescriptorTable<AtomicU8> = DescriptorTable::new();
/// Below it no number is, or ever was, the library's.
static LOWEST: AtomicI32 = AtomicI32::new(RawFd::MAX);
/// How many forks lie behind this memory since the library's first descriptor.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Where the owner of a number looks for it. Read and changed under [`changing`].
static PLACES: DescriptorTable<AtomicPtr<AtomicI32>> = DescriptorTable::new();

/// A descriptor of the library: closed on exec, and at a number that the program does not meet by
/// itself. The number changes when the program asks for it ([`move_away`]), so it is read anew for
/// each system call.
#[derive(Debug)]
pub struct OwnDescriptor {
    number: Box<AtomicI32>,
}

impl OwnDescriptor {
    /// Makes a descriptor one of the library's, which a forked child closes.
    pub fn new(fd: OwnedFd) -> Self {
        Self::with_kind(fd, CLOSED_BY_CHILD)
    }

    /// The same for one that a forked child keeps, such as that of the log.
    pub fn kept_by_child(fd: OwnedFd) -> Self {
        Self::with_kind(fd, KEPT_BY_CHILD)
    }

    /// A copy of one of the program's, in fewer calls than a copy that is moved. `None`: there is
    /// no number left.
    pub fn copy_of(fd: RawFd) -> Option<Self> {
        let _changing = changing();
        let copy = duplicate_to_end(fd, |number| kind(number) != NONE)?;
        Some(Self::at(copy, CLOSED_BY_CHILD))
    }

    fn with_kind(fd: OwnedFd, kind: u8) -> Self {
        // Also while a number is chosen: of two threads that find the last one free, the second
        // would get one beyond the table.
        let _changing = changing();
        let fd = move_out_of_the_way(fd, |number| self::kind(number) != NONE);
        Self::at(fd, kind)
    }

    /// One that is open at a number. The lock of changes is held.
    fn at(fd: RawFd, kind: u8) -> Self {
        let own = Self {
            number: Box::new(AtomicI32::new(fd)),
        };
        set(fd, kind, ptr::from_ref(&*own.number).cast_mut());
        own
    }

    /// Closes what it stands for and makes it a copy of another. Needs no other right than that to
    /// a descriptor.
    pub fn become_copy_of(&self, other: &Self) {
        let _changing = changing();
        let (from, to) = (other.as_raw_fd(), self.as_raw_fd());
        // SAFETY: dup3(2) touches no memory. The number is open before and after.
        unsafe { libc::syscall(libc::SYS_dup3, from, to, libc::O_CLOEXEC) };
    }
}

impl AsRawFd for OwnDescriptor {
    #[inline]
    fn as_raw_fd(&self) -> RawFd {
        self.number.load(Ordering::Relaxed)
    }
}

impl AsFd for OwnDescriptor {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open as long as `self` lives. Who moves it waits for those that use the old
        // number.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

impl Drop for OwnDescriptor {
    fn drop(&mut self) {
        // Until it is closed, nobody else may get the number.
        let _changing = changing();
        let fd = self.as_raw_fd();
        set(fd, NONE, ptr::null_mut());
        // SAFETY: closing touches no memory, and the descriptor is ours.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
}

/// A number that the library has left, but not closed: the file has another one.
#[derive(Debug)]
#[must_use = "it stays the library's until it is vacated"]
pub struct LeftNumber(RawFd);

/// Gives a descriptor of the library another number. Threads that have read the old one may be
/// about to use it: the caller waits for them before it calls [`LeftNumber::vacate`].
///
/// # Errors
/// `Err(None)`: the number is not the library's. `Err(Some(errno))`: there is no other one.
pub fn move_away(number: RawFd) -> Result<LeftNumber, Option<i32>> {
    let _changing = changing();
    let place = PLACES
        .get(number)
        .map_or(ptr::null_mut(), |place| place.load(Ordering::Relaxed));
    // SAFETY: null, or that of an owner, which takes it out under the lock that we hold before it
    // goes.
    let place = unsafe { place.as_ref() }.ok_or(None)?;
    let kind = kind(number);
    let copy = duplicate_anywhere(number).map_err(Some)?;
    set(copy, kind, ptr::from_ref(place).cast_mut());
    // The old number stays protected, but nobody's.
    set(number, kind, ptr::null_mut());
    place.store(copy, Ordering::SeqCst);
    Ok(LeftNumber(number))
}

impl LeftNumber {
    /// The number is the program's from here on. It is still open.
    pub fn vacate(self) {
        let _changing = changing();
        set(self.0, NONE, ptr::null_mut());
    }
}

/// Whether the library has descriptors.
pub fn any() -> bool {
    KINDS
        .range(0, u32::MAX)
        .any(|(_, kind)| kind.load(Ordering::Relaxed) != NONE)
}

/// Whether a descriptor is the library's: the program cannot have it. For most that it has a
/// comparison says so.
#[inline]
pub fn contains(fd: RawFd) -> bool {
    fd >= lowest() && kind(fd) != NONE
}

/// Below this number no descriptor is the library's.
#[inline]
pub fn lowest() -> RawFd {
    LOWEST.load(Ordering::Relaxed)
}

/// The lowest of the library's descriptors from `first` on, below `end`.
pub fn first_in(first: RawFd, end: RawFd) -> Option<RawFd> {
    let first = u32::try_from(first).ok()?;
    let last = u32::try_from(end).ok()?.checked_sub(1)?;
    KINDS
        .range(first, last)
        .find(|(_, kind)| kind.load(Ordering::Relaxed) != NONE)
        .map(|(fd, _)| fd)
}

/// Tells the descriptors of this process from those of the same memory before a fork, which are
/// closed. A child of vfork(2) has its parent's memory, and copies of the descriptors.
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// In a forked child: closes what it must not have. Async-signal-safe.
pub fn close_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    // A thread of the parent may have held it.
    CHANGING.store(false, Ordering::Relaxed);
    for (fd, kind) in KINDS.range(0, u32::MAX) {
        if kind.load(Ordering::Acquire) == CLOSED_BY_CHILD {
            set(fd, NONE, ptr::null_mut());
            // SAFETY: closing touches no memory, and the descriptor is ours.
            unsafe { libc::syscall(libc::SYS_close, fd) };
        }
    }
}

/// The parts of a range of descriptors in which none of the library's own lies, in order. Nothing
/// is allocated.
pub fn ranges_without(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut own = KINDS
        .range(first, last)
        .filter(|(_, kind)| kind.load(Ordering::Acquire) != NONE)
        .map(|(fd, _)| fd.cast_unsigned());
    let mut next = Some(first);
    std::iter::from_fn(move || {
        loop {
            let start = next.filter(|start| *start <= last)?;
            let Some(fd) = own.next() else {
                next = None;
                return Some((start, last));
            };
            next = fd.checked_add(1);
            if start < fd {
                return Some((start, fd - 1));
            }
        }
    })
}

#[inline]
fn kind(fd: RawFd) -> u8 {
    KINDS
        .get(fd)
        .map_or(NONE, |kind| kind.load(Ordering::Relaxed))
}

/// A descriptor beyond the tables is only less protected.
fn set(fd: RawFd, kind: u8, place: *mut AtomicI32) {
    if let (Some(kinds), Some(places)) = (KINDS.get_or_make(fd), PLACES.get_or_make(fd)) {
        if kind != NONE {
            LOWEST.fetch_min(fd, Ordering::Relaxed);
        }
        places.store(place, Ordering::Relaxed);
        kinds.store(kind, Ordering::Release);
    }
}

/// Somebody changes which numbers are the library's. Not a mutex: a forked child has to be able to
/// open it.
static CHANGING: AtomicBool = AtomicBool::new(false);

struct Changing;

fn changing() -> Changing {
    while CHANGING.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
    Changing
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGING.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{PipeReader, PipeWriter, Read, Write};

    use super::*;

    fn pipe() -> (OwnDescriptor, PipeWriter) {
        let (reader, writer) = std::io::pipe().unwrap();
        (OwnDescriptor::new(reader.into()), writer)
    }

    fn read_byte(own: &OwnDescriptor) -> u8 {
        let mut byte = [0];
        let mut file = File::from(own.as_fd().try_clone_to_owned().unwrap());
        file.read_exact(&mut byte).unwrap();
        byte[0]
    }

    #[test]
    fn ranges_leave_out_what_is_ours() {
        set(2_000_000, CLOSED_BY_CHILD, ptr::null_mut());
        set(2_000_002, KEPT_BY_CHILD, ptr::null_mut());
        assert!(contains(2_000_000) && contains(2_000_002) && !contains(2_000_001));
        assert_eq!(first_in(1_999_999, 2_000_010), Some(2_000_000));
        assert_eq!(first_in(2_000_001, 2_000_002), None);
        let ranges_without = |first, last| ranges_without(first, last).collect::<Vec<_>>();
        let parts = ranges_without(1_999_990, 2_000_010);
        assert_eq!(
            parts,
            [
                (1_999_990, 1_999_999),
                (2_000_001, 2_000_001),
                (2_000_003, 2_000_010)
            ]
        );
        assert_eq!(ranges_without(2_000_000, 2_000_000), []);
        set(2_000_000, NONE, ptr::null_mut());
        set(2_000_002, NONE, ptr::null_mut());
        assert_eq!(
            ranges_without(1_999_990, 2_000_010),
            [(1_999_990, 2_000_010)]
        );
        assert_eq!(
            ranges_without(4_000_000, u32::MAX),
            [(4_000_000, u32::MAX)],
            "also beyond the table"
        );
    }

    #[test]
    fn one_that_moves_is_the_same_file_under_another_number() {
        let (own, mut writer) = pipe();
        let first = own.as_raw_fd();
        let left = move_away(first).unwrap();
        let second = own.as_raw_fd();
        assert_ne!(first, second);
        assert!(contains(first) && contains(second));
        assert!(
            matches!(move_away(first), Err(None)),
            "it is nobody's any more"
        );
        left.vacate();
        assert!(!contains(first));
        // SAFETY: the number was left to us.
        unsafe { libc::close(first) };
        writer.write_all(b"x").unwrap();
        assert_eq!(read_byte(&own), b'x');
        drop(own);
        assert!(!contains(second));
        assert!(writer.write_all(b"y").is_err(), "nobody reads any more");
    }

    #[test]
    fn one_that_takes_the_place_of_another_keeps_its_number() {
        let ((own, mut first), (other, mut second)) = (pipe(), pipe());
        let number = own.as_raw_fd();
        own.become_copy_of(&other);
        assert_eq!(own.as_raw_fd(), number);
        assert!(first.write_all(b"x").is_err());
        second.write_all(b"y").unwrap();
        assert_eq!(read_byte(&own), b'y');
    }

    #[test]
    fn movers_and_owners_do_not_get_into_each_others_way() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let (reader, mut writer): (PipeReader, PipeWriter) =
                            std::io::pipe().unwrap();
                        let own = OwnDescriptor::new(reader.into());
                        // Another thread may have moved the number meanwhile, or be at it.
                        if let Ok(left) = move_away(own.as_raw_fd()) {
                            let number = left.0;
                            left.vacate();
                            // SAFETY: the number was left to us.
                            unsafe { libc::close(number) };
                        }
                        writer.write_all(b"z").unwrap();
                        assert_eq!(read_byte(&own), b'z');
                    }
                });
            }
        });
    }
}
