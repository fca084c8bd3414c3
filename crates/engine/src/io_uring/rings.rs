//! Rings that were made through the C library, and what waits in their submission queues.
//!
//! The library maps the queues of each once more: the program may take its own mapping away at any
//! time.

use std::hint;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use libc::{c_int, c_void};

use crate::io_uring::operations::{ENTRY_LEN, Operation};

static RINGS: Mutex<Vec<Ring>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// What `io_uring_setup(2)` reads and writes.
const PARAMETERS_LEN: usize = 120;
/// `IORING_OFF_SQES`
const ENTRIES_OFFSET: i64 = 0x1000_0000;
/// `IORING_SETUP_SQE128`
const LONG_ENTRIES: u32 = 1 << 10;
/// `IORING_SETUP_NO_SQARRAY`
const NO_ARRAY: u32 = 1 << 16;
/// Flags with which the queue is where it is looked for, and the kernel takes from it when it is
/// told to. Not so with `SQPOLL`, where a thread of the kernel's takes from it at any time,
/// `NO_MMAP`, and what is not known yet.
const KNOWN_FLAGS: u32 = 1
    | 1 << 3
    | 1 << 4
    | 1 << 5
    | 1 << 6
    | 1 << 7
    | 1 << 8
    | 1 << 9
    | LONG_ENTRIES
    | 1 << 11
    | 1 << 12
    | 1 << 13
    | NO_ARRAY
    | 1 << 17
    | 1 << 18;

/// How often a lock is tried that another thread holds for a moment, or held when this process was
/// forked.
const TRIES: u32 = 100_000;

#[derive(Debug)]
struct Ring {
    fd: c_int,
    inode: u64,
    queue: Mapping,
    entries: Mapping,
    head: usize,
    tail: usize,
    array: Option<usize>,
    len: u32,
    entry_len: usize,
}

/// A ring whose operations cannot be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unseen;

/// `io_uring_setup(2)` has returned `fd`, and has been given these parameters.
///
/// # Errors
/// Its operations cannot be seen.
///
/// # Safety
/// `parameters` must be as the kernel has left them.
pub unsafe fn made(fd: c_int, parameters: *const c_void) -> Result<(), Unseen> {
    // SAFETY: the kernel has just written as many octets.
    let octets = unsafe { parameters.cast::<[u8; PARAMETERS_LEN]>().read_unaligned() };
    let ring = Ring::new(fd, &octets).ok_or(Unseen)?;
    let mut rings = lock().ok_or(Unseen)?;
    rings.push(ring);
    COUNT.store(rings.len(), Ordering::Release);
    Ok(())
}

/// Whether there is any.
#[inline]
pub fn has_any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Whether a descriptor with this inode number is one.
pub(super) fn is_known(inode: u64) -> bool {
    lock().is_none_or(|rings| rings.iter().any(|ring| ring.inode == inode))
}

/// Numbers are closed, or stand for something else. Gives memory back to the kernel only.
pub fn range_closes(first: u32, last: u32) {
    if let Some(mut rings) = lock() {
        while let Some(at) =
            (rings.iter()).position(|it| (first..=last).contains(&it.fd.cast_unsigned()))
        {
            rings.swap_remove(at);
        }
        COUNT.store(rings.len(), Ordering::Release);
    }
}

/// The kernel is about to be told of `count` more operations of a ring. Returns those that are
/// `wanted`, with their places.
///
/// # Errors
/// It is none that is known.
pub fn submitted(
    fd: c_int,
    count: u32,
    wanted: impl Fn(&Operation) -> bool,
) -> Result<Vec<(u32, Operation)>, Unseen> {
    with_ring(fd, |ring| ring.waiting(count, wanted))
}

/// Puts other operations into the places.
///
/// # Errors
/// The ring is gone.
pub fn replace(fd: c_int, operations: &[(u32, Operation)]) -> Result<(), Unseen> {
    with_ring(fd, |ring| ring.replace(operations))
}

fn with_ring<R>(fd: c_int, act: impl FnOnce(&Ring) -> R) -> Result<R, Unseen> {
    let rings = lock().ok_or(Unseen)?;
    let found = rings.iter().find(|ring| ring.fd == fd).or_else(|| {
        let inode = sys::inode(fd);
        rings.iter().find(|ring| ring.inode == inode)
    });
    found.map(act).ok_or(Unseen)
}

fn lock() -> Option<MutexGuard<'static, Vec<Ring>>> {
    for _ in 0..TRIES {
        match RINGS.try_lock() {
            Ok(rings) => return Some(rings),
            Err(TryLockError::Poisoned(rings)) => return Some(rings.into_inner()),
            Err(TryLockError::WouldBlock) => hint::spin_loop(),
        }
    }
    None
}

impl Ring {
    fn new(fd: c_int, parameters: &[u8; PARAMETERS_LEN]) -> Option<Self> {
        let number = |at: usize| {
            let octets = parameters[at..].first_chunk();
            octets.map_or(0, |octets| u32::from_ne_bytes(*octets))
        };
        let offset = |at| number(at) as usize;
        let (len, flags) = (number(0), number(8));
        if flags & !KNOWN_FLAGS != 0 || !len.is_power_of_two() {
            return None;
        }
        let array = (flags & NO_ARRAY == 0).then(|| offset(64));
        let (head, tail) = (offset(40), offset(44));
        let array_end = array.map_or(0, |array| array + len as usize * size_of::<u32>());
        let queue_len = array_end.max(head + 4).max(tail + 4);
        let entry_len = if flags & LONG_ENTRIES == 0 {
            ENTRY_LEN
        } else {
            2 * ENTRY_LEN
        };
        Some(Self {
            fd,
            inode: sys::inode(fd),
            queue: Mapping::new(fd, 0, queue_len)?,
            entries: Mapping::new(fd, ENTRIES_OFFSET, len as usize * entry_len)?,
            head,
            tail,
            array,
            len,
            entry_len,
        })
    }

    fn waiting(&self, count: u32, wanted: impl Fn(&Operation) -> bool) -> Vec<(u32, Operation)> {
        let head = self.queue.number(self.head).load(Ordering::Acquire);
        let tail = self.queue.number(self.tail).load(Ordering::Acquire);
        let count = count.min(tail.wrapping_sub(head)).min(self.len);
        let places = (0..count).map(|index| {
            let place = head.wrapping_add(index) & (self.len - 1);
            self.array.map_or(place, |array| {
                let at = array + place as usize * size_of::<u32>();
                self.queue.number(at).load(Ordering::Relaxed)
            })
        });
        // The kernel drops others.
        places
            .filter(|place| *place < self.len)
            .map(|place| (place, self.read(place)))
            .filter(|(_, operation)| wanted(operation))
            .collect()
    }

    fn read(&self, place: u32) -> Operation {
        // SAFETY: within the mapping. Whoever changes an entry meanwhile breaks the kernel's rules,
        // and is read in part at worst.
        Operation(unsafe { self.entry(place).read_volatile() })
    }

    fn replace(&self, operations: &[(u32, Operation)]) {
        for (place, operation) in operations {
            // SAFETY: as above.
            unsafe { self.entry(*place).write_volatile(operation.0) };
        }
    }

    fn entry(&self, place: u32) -> *mut [u8; ENTRY_LEN] {
        let at = place as usize * self.entry_len;
        assert!(at + ENTRY_LEN <= self.entries.len, "inside the queue");
        self.entries.at.wrapping_add(at).cast()
    }
}

/// Memory that is shared with the kernel and the program.
#[derive(Debug)]
struct Mapping {
    at: *mut u8,
    len: usize,
}

// SAFETY: it is the address of memory that every thread may use, with atomic operations or by the
// kernel's rules.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(fd: c_int, offset: i64, len: usize) -> Option<Self> {
        let at = sys::map_shared(fd, offset, len)?;
        Some(Self { at, len })
    }

    fn number(&self, at: usize) -> &AtomicU32 {
        assert!(
            at.is_multiple_of(4) && at + 4 <= self.len,
            "inside the queue"
        );
        // SAFETY: aligned and within the mapping (checked above), which lives as long as this.
        unsafe { AtomicU32::from_ptr(self.at.wrapping_add(at).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is the mapping that this has made, and nobody else uses.
        unsafe { sys::unmap(self.at, self.len) };
    }
}
