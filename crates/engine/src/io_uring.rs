//! `io_uring(7)` of the program's: what it does to a descriptor no hook sees, for the kernel reads
//! it from memory.
//!
//! Rings that are made through the C library's `syscall(2)` are known from their beginning, and
//! before the kernel is told of new operations, these are looked at. Of others, made by
//! instructions of the program's own as liburing does, only the descriptor tells.

mod operations;
mod rings;

use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;
pub use operations::{Operation, Target};
pub use rings::{Unseen, has_any, made, range_closes, replace, submitted};

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

/// How many numbers are looked at, and at how many in one call: as many as a low limit on
/// descriptors allows.
const NUMBERS: usize = 1024;
const AT_ONCE: usize = 256;

/// The number of a ring that was made unseen, if the process has one among its lower numbers. A
/// system call a descriptor that is open, and a few.
pub(crate) fn find_unseen() -> Option<c_int> {
    let (device, shared_inode) = anonymous_file()?;
    let is_one = |fd: &c_int| {
        // Files without a name share one inode, but for rings and very few others.
        let stands_out =
            |(of, inode)| of == device && inode != shared_inode && !rings::is_known(inode);
        sys::device_and_inode(*fd).is_some_and(stands_out) && is_ring(*fd)
    };
    let mut parts = (0..NUMBERS).step_by(AT_ONCE);
    parts.find_map(|first| open_from(first).find(is_one))
}

/// The descriptors that are open, as far as that can be found out, of the numbers from this one on.
/// Without the library's own: the device would take a look at its sockets for a reason to send.
fn open_from(first: usize) -> impl Iterator<Item = c_int> {
    let mut polled: [_; AT_ONCE] = std::array::from_fn(|place| {
        let fd = (first + place) as c_int;
        libc::pollfd {
            fd: if descriptors::own::contains(fd) {
                -1
            } else {
                fd
            },
            events: 0,
            revents: 0,
        }
    });
    let is_told = sys::poll_now(&mut polled).is_ok();
    let is_open =
        move |it: &libc::pollfd| it.fd >= 0 && !(is_told && it.revents & libc::POLLNVAL != 0);
    polled.into_iter().filter(is_open).map(|it| it.fd)
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use descriptors::OwnDescriptor;

    use super::*;

    #[test]
    fn descriptors_that_are_open_are_found_but_the_librarys() {
        let open = || File::open("/dev/null").unwrap();
        let (file, own) = (open(), OwnDescriptor::new(OwnedFd::from(open())));
        let found = |fd: c_int| {
            let first = usize::try_from(fd).unwrap() / AT_ONCE * AT_ONCE;
            let part: Vec<_> = open_from(first).collect();
            assert!(part.len() < AT_ONCE / 2, "{part:?}");
            part.contains(&fd)
        };
        assert!(found(file.as_raw_fd()));
        assert!(!found(own.as_raw_fd()));
    }
}
