//! `io_uring(7)` of the program's: what it does to a descriptor no hook sees, for the kernel reads it from memory.
//!
//! Rings that are made through the C library's `syscall(2)` are known from their beginning, and before the kernel is told of new
//! operations, these are looked at. Of others, made by instructions of the program's own as liburing does, only the descriptor tells.

mod operations;
mod rings;

use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;
pub use operations::{Operation, Target};
pub use rings::{Unseen, has_any, made, range_closes, replace, submitted};

use crate::sys;

static IS_UNSEEN: AtomicBool = AtomicBool::new(false);

/// What a ring does cannot be looked at. Returns whether that is new.
pub fn becomes_unseen() -> bool {
    !IS_UNSEEN.swap(true, Ordering::AcqRel)
}

/// Whether that was so of any.
#[inline]
pub fn is_unseen() -> bool {
    IS_UNSEEN.load(Ordering::Acquire)
}

/// How many numbers are looked at.
const NUMBERS: c_int = 1024;

/// The number of a ring that was made unseen, if the process has one among its lower numbers. A system call a number.
pub(crate) fn find_unseen() -> Option<c_int> {
    let (device, shared_inode) = anonymous_file()?;
    (0..NUMBERS).find(|fd| {
        // Files without a name share one inode, but for rings and very few others.
        let is_one = |(of, inode)| of == device && inode != shared_inode && !rings::is_known(inode);
        sys::device_and_inode(*fd).is_some_and(is_one) && is_ring(*fd)
    })
}

fn is_ring(fd: c_int) -> bool {
    // Where `/proc` is not to be had it is as good as one.
    std::fs::read_link(format!("/proc/self/fd/{fd}"))
        .map_or(true, |link| link.as_os_str() == "anon_inode:[io_uring]")
}

/// Device and inode number of those that share them.
fn anonymous_file() -> Option<(u64, u64)> {
    static KNOWN: OnceLock<Option<(u64, u64)>> = OnceLock::new();
    *KNOWN.get_or_init(|| sys::device_and_inode(sys::eventfd().ok()?.as_raw_fd()))
}
