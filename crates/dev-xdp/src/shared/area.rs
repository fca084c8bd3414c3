//! The memory that the processes of an interface share: the frames that the kernel writes to and
//! sends from, and who has which of them.
//!
//! No process keeps a received frame: it copies what has come into memory of its own, and gives the
//! frame back. So one that is late, or stopped, keeps no more than its RX ring holds. Whoever can
//! write here can spoil it for the others, and read what they get: the processes of an area trust
//! each other. What is read here is checked before it is used all the same.
//!
//! ```text
//! header │ free frames (a stack) │ owner of each received frame │ state of each sent one │ frames
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// How many frames an area has, and of which length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) frame_bytes: u32,
    /// For receiving; the first ones.
    pub(crate) rx_frames: u32,
    /// For sending; those behind.
    pub(crate) tx_frames: u32,
}

/// More than any area has: what a length is computed from does not overflow.
const FRAMES_MAX: u32 = 1 << 20;

/// Where what begins, in bytes from the start of the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    free: usize,
    owners: usize,
    states: usize,
    frames: usize,
    end: usize,
}

impl Shape {
    fn is_good(self) -> bool {
        matches!(self.frame_bytes, 2048 | 4096)
            && (1..=FRAMES_MAX).contains(&self.rx_frames)
            && (1..=FRAMES_MAX).contains(&self.tx_frames)
    }

    fn places(self) -> Places {
        let (rx, tx) = (self.rx_frames as usize, self.tx_frames as usize);
        let free = size_of::<Header>();
        let owners = free + rx * size_of::<AtomicU32>();
        let states = owners + rx;
        let frames = (states + tx).next_multiple_of(PAGE_BYTES);
        Places {
            free,
            owners,
            states,
            frames,
            end: frames + self.frames_bytes(),
        }
    }

    /// Bytes of all frames.
    pub(crate) fn frames_bytes(self) -> usize {
        (self.rx_frames as usize + self.tx_frames as usize) * self.frame_bytes as usize
    }

    /// The received frame that an address in the area's frames lies in.
    pub(crate) fn rx_frame(self, address: u64) -> Option<u32> {
        let frame = u32::try_from(address / u64::from(self.frame_bytes)).ok()?;
        (frame < self.rx_frames).then_some(frame)
    }

    /// The number of the sent frame that an address lies in.
    pub(crate) fn tx_frame(self, address: u64) -> Option<u32> {
        let frame = u32::try_from(address / u64::from(self.frame_bytes)).ok()?;
        let number = frame.checked_sub(self.rx_frames)?;
        (number < self.tx_frames).then_some(number)
    }

    /// Where a received frame begins.
    pub(crate) fn rx_address(self, frame: u32) -> u64 {
        u64::from(frame) * u64::from(self.frame_bytes)
    }

    /// Where a sent frame begins.
    pub(crate) fn tx_address(self, number: u32) -> u64 {
        u64::from(self.rx_frames + number) * u64::from(self.frame_bytes)
    }
}

const PAGE_BYTES: usize = 4096;

/// What all share. Each in a cache line of its own, but for what is touched under the lock only.
#[repr(C, align(64))]
struct Header {
    /// Who holds the lock.
    lock: Line,
    /// The broker is about to end.
    ending: AtomicU32,
    /// Under the lock: frames in the stack of free ones.
    free_count: AtomicU32,
    /// Under the lock: frames that the kernel is to have of each queue.
    level: AtomicU32,
    /// Under the lock: frames received while the kernel had enough since the level was changed.
    calm: AtomicU32,
    /// Under the lock: a move of frames to the kernel that has begun, so that it can be seen
    /// whether it was done when its process died: the queue and both ends in its fill ring.
    moving: [AtomicU32; 3],
}

/// What may lie in memory that others write to.
trait Atomic {}
impl Atomic for AtomicU8 {}
impl Atomic for AtomicU32 {}

#[repr(C, align(64))]
struct Line(AtomicU32);

const _: () = assert!(size_of::<Header>() == 128 && align_of::<Header>() == 64);

/// A mapping of it.
#[derive(Debug)]
pub(crate) struct Area {
    base: NonNull<u8>,
    shape: Shape,
    places: Places,
}

// SAFETY: the mapping is plain memory of the kernel's shared file; what is in front of the frames
// is touched through atomics only, the frames through copies by raw pointers.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Makes one: a file without a name, which can neither shrink nor grow, so that nobody who has
    /// it mapped can be ended by another.
    pub(crate) fn create(shape: Shape) -> io::Result<(OwnedFd, Self)> {
        let places = checked(shape)?.places();
        // SAFETY: the name is a string that ends with a zero.
        let fd = unsafe {
            libc::memfd_create(
                c"vma-frames".as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let len = libc::off_t::try_from(places.end).map_err(io::Error::other)?;
        // SAFETY: integers.
        let sized = unsafe { libc::ftruncate(fd.as_raw_fd(), len) };
        // SAFETY: integers.
        let sealed = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) };
        if sized < 0 || sealed < 0 {
            return Err(io::Error::last_os_error());
        }
        let area = Self::map(&fd, shape)?;
        for frame in 0..shape.rx_frames {
            area.push_free(frame);
        }
        area.header().level.store(LEVEL_MIN, Ordering::Relaxed);
        Ok((fd, area))
    }

    /// Maps one of another process.
    ///
    /// # Errors
    /// It is not of this shape, or could shrink.
    pub(crate) fn map(fd: &impl AsFd, shape: Shape) -> io::Result<Self> {
        let places = checked(shape)?.places();
        let number = fd.as_fd().as_raw_fd();
        // SAFETY: all-zero is a value of this struct of integers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one structure.
        if unsafe { libc::fstat(number, &raw mut stat) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: integers.
        let seals = unsafe { libc::fcntl(number, libc::F_GET_SEALS) };
        let len = usize::try_from(stat.st_size).unwrap_or(0);
        if len != places.end || seals & SEALS != SEALS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let none = std::ptr::null_mut();
        // SAFETY: a mapping at an address of the kernel's choice touches no existing memory.
        let address = unsafe { libc::mmap(none, len, access, libc::MAP_SHARED, number, 0) };
        let base = match NonNull::new(address.cast::<u8>()) {
            Some(base) if address != libc::MAP_FAILED => base,
            _ => return Err(io::Error::last_os_error()),
        };
        // A forked child is another process, with an area of its own if it has one.
        // SAFETY: the range is the mapping made above.
        unsafe { libc::madvise(address, len, libc::MADV_DONTFORK) };
        Ok(Self {
            base,
            shape,
            places,
        })
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Puts empty memory of this process's own in its place, which takes no room before it is
    /// written to.
    pub(super) fn forget(&self) -> io::Result<()> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let place = self.base.as_ptr().cast::<libc::c_void>();
        // SAFETY: the range is the mapping made in `map`, whose contents others may change at any
        // time anyway.
        let mapped = unsafe { libc::mmap(place, self.places.end, access, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        unsafe { libc::madvise(place, self.places.end, libc::MADV_DONTFORK) };
        Ok(())
    }

    /// The first frame, for registration with a device.
    pub(crate) fn frames(&self) -> NonNull<u8> {
        // SAFETY: the frames lie in the mapping.
        unsafe { self.base.add(self.places.frames) }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with one, is aligned as a page, lives as long as `self`, and
        // atomics may be changed by anybody.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    pub(super) fn lock(&self) -> &AtomicU32 {
        &self.header().lock.0
    }

    /// Whether the broker is about to end.
    pub(super) fn is_ending(&self) -> bool {
        self.header().ending.load(Ordering::Acquire) != 0
    }

    pub(super) fn ends(&self) {
        self.header().ending.store(1, Ordering::Release);
    }

    pub(super) fn level(&self) -> &AtomicU32 {
        &self.header().level
    }

    pub(super) fn calm(&self) -> &AtomicU32 {
        &self.header().calm
    }

    pub(super) fn moving(&self) -> &[AtomicU32; 3] {
        &self.header().moving
    }

    fn free_count(&self) -> u32 {
        let count = self.header().free_count.load(Ordering::Relaxed);
        count.min(self.shape.rx_frames)
    }

    fn free_slot(&self, index: u32) -> &AtomicU32 {
        &self.array(self.places.free, self.shape.rx_frames)[index as usize]
    }

    /// Who has a received frame; 0: the kernel, or nobody.
    #[inline]
    pub(super) fn owner(&self, frame: u32) -> &AtomicU8 {
        &self.array(self.places.owners, self.shape.rx_frames)[frame as usize]
    }

    /// What became of a sent frame.
    #[inline]
    pub(super) fn state(&self, number: u32) -> &AtomicU8 {
        &self.array(self.places.states, self.shape.tx_frames)[number as usize]
    }

    #[inline]
    fn array<T: Atomic>(&self, place: usize, len: u32) -> &[T] {
        // SAFETY: one of the places lies in the mapping.
        let first = unsafe { self.base.add(place) }.cast::<T>();
        // SAFETY: at the place there are as many, aligned as they are (`Shape::places`), which live
        // as long as `self`; atomics may be changed by anybody.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), len as usize) }
    }

    /// Under the lock: a frame is free. Shown to be before it counts: who dies between the two
    /// leaves it out.
    pub(super) fn push_free(&self, frame: u32) {
        let count = self.free_count();
        if count < self.shape.rx_frames {
            self.free_slot(count).store(frame, Ordering::Relaxed);
            let counted = &self.header().free_count;
            counted.store(count + 1, Ordering::Release);
        }
    }

    /// Under the lock: the frame that was freed last, from here on `owner`'s.
    pub(super) fn pop_free(&self, owner: u8) -> Option<u32> {
        let count = self.free_count().checked_sub(1)?;
        let frame = self.free_slot(count).load(Ordering::Relaxed);
        if frame >= self.shape.rx_frames {
            // Somebody has spoilt it.
            self.header().free_count.store(count, Ordering::Relaxed);
            return None;
        }
        self.owner(frame).store(owner, Ordering::Relaxed);
        self.header().free_count.store(count, Ordering::Release);
        Some(frame)
    }

    /// Under the lock: those that are free.
    pub(super) fn free_frames(&self) -> impl Iterator<Item = u32> {
        (0..self.free_count()).map(|index| self.free_slot(index).load(Ordering::Relaxed))
    }

    /// Where `len` bytes at an address are, if they are in one frame.
    pub(super) fn bytes_at(&self, address: u64, len: usize) -> Option<NonNull<u8>> {
        let start = usize::try_from(address).ok()?;
        let frame_bytes = self.shape.frame_bytes as usize;
        let fits = start < self.shape.frames_bytes() && start % frame_bytes + len <= frame_bytes;
        // SAFETY: the frames lie behind each other in the mapping, and this is in one of them.
        fits.then(|| unsafe { self.frames().add(start) })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping made in `map`, and nobody has it but through `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.places.end) };
    }
}

fn checked(shape: Shape) -> io::Result<Shape> {
    match shape.is_good() {
        true => Ok(shape),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Frames that the kernel has at first, and at least: it uses them in turn, so this is a
/// ping-pong's cache footprint.
pub(super) const LEVEL_MIN: u32 = 1024;

const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        frame_bytes: 2048,
        rx_frames: 8,
        tx_frames: 4,
    };

    #[test]
    fn all_frames_are_free_at_first_and_each_once() {
        let (fd, area) = Area::create(SHAPE).unwrap();
        let other = Area::map(&fd, SHAPE).unwrap();
        let mut taken: Vec<_> = std::iter::from_fn(|| area.pop_free(3)).collect();
        assert_eq!(other.pop_free(1), None);
        assert!(
            taken
                .iter()
                .all(|frame| other.owner(*frame).load(Ordering::Relaxed) == 3)
        );
        taken.sort_unstable();
        assert_eq!(taken, (0..8).collect::<Vec<_>>());
        other.push_free(5);
        assert_eq!((area.pop_free(2), area.pop_free(2)), (Some(5), None));
    }

    #[test]
    fn addresses_are_those_of_one_frame() {
        let (_fd, area) = Area::create(SHAPE).unwrap();
        assert!(area.bytes_at(0, 2048).is_some());
        assert!(area.bytes_at(1, 2048).is_none(), "two frames");
        assert!(area.bytes_at(11 * 2048, 2048).is_some());
        assert!(area.bytes_at(12 * 2048, 1).is_none(), "behind the last");
        assert!(area.bytes_at(u64::MAX, 1).is_none());
        assert_eq!(
            (SHAPE.rx_frame(7 * 2048 + 300), SHAPE.rx_frame(8 * 2048)),
            (Some(7), None)
        );
        assert_eq!(
            (SHAPE.tx_frame(7 * 2048), SHAPE.tx_frame(8 * 2048)),
            (None, Some(0))
        );
        assert_eq!(
            (SHAPE.tx_frame(12 * 2048), SHAPE.tx_address(3)),
            (None, 11 * 2048)
        );
    }

    #[test]
    fn what_is_forgotten_is_empty_here_alone() {
        let (fd, area) = Area::create(SHAPE).unwrap();
        let other = Area::map(&fd, SHAPE).unwrap();
        other.forget().unwrap();
        assert_eq!((other.free_count(), area.free_count()), (0, 8));
        other.push_free(3);
        assert_eq!(area.pop_free(1), Some(7));
    }

    #[test]
    fn one_that_could_shrink_or_is_of_another_shape_is_refused() {
        let (fd, _area) = Area::create(SHAPE).unwrap();
        for shape in [
            Shape {
                rx_frames: 9,
                ..SHAPE
            },
            Shape {
                rx_frames: u32::MAX,
                ..SHAPE
            },
            Shape {
                frame_bytes: 0,
                ..SHAPE
            },
        ] {
            assert!(Area::map(&fd, shape).is_err(), "{shape:?}");
        }
        // SAFETY: integers.
        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), 0) }, -1);
        let unsealed = tempfile_of(SHAPE.places().end);
        assert!(Area::map(&unsealed, SHAPE).is_err());
    }

    #[test]
    fn a_spoilt_stack_costs_no_more_than_its_frames() {
        let (_fd, area) = Area::create(SHAPE).unwrap();
        area.free_slot(7).store(u32::MAX, Ordering::Relaxed);
        assert_eq!(area.pop_free(1), None);
        assert_eq!(area.pop_free(1), Some(6));
        area.header().free_count.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(area.free_frames().count(), 8);
        area.push_free(0);
    }

    fn tempfile_of(len: usize) -> OwnedFd {
        // SAFETY: as in `create`.
        let fd = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: the descriptor is new and ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: integers.
        unsafe { libc::ftruncate(fd.as_raw_fd(), i64::try_from(len).unwrap()) };
        fd
    }
}
