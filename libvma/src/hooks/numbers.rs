//! Descriptors by their numbers: which are the library's own, and what ends when a number is closed
//! or given out anew.

use descriptors::own;
use engine::{epoll_may_be_shared, io_uring};
use libc::{c_int, c_uint};

use crate::guard::{self, contained};
use crate::{epoll_waits, process_state, runtime};

/// Whether a descriptor belongs to the library, and the caller does not. A child of `vfork(2)` has
/// descriptors of its own, of which the library uses none.
#[inline]
pub(super) fn is_own(fd: c_int) -> bool {
    own::contains(fd) && is_the_programs_call()
}

#[cold]
fn is_the_programs_call() -> bool {
    !guard::is_inside() && !process_state::is_vfork_child()
}

/// Ends what a descriptor stands for, before the kernel can give its number to another thread.
pub(super) fn forget(fd: c_int) {
    epoll_may_be_shared(fd);
    epoll_waits::number_closes(fd);
    if let Ok(number) = c_uint::try_from(fd) {
        ring_closes(number, number);
        runtime::forget_inherited(number, number);
    }
    let Some(engine) = process_state::engine() else {
        return;
    };
    if engine.look_up(fd).is_some() {
        let _ = contained(|| engine.descriptor_closes(fd));
    } else if engine.is_listed(fd) {
        let _ = contained(|| engine.listed_closes(fd));
    }
}

/// A ring of the program's is closed, perhaps. Takes no memory.
#[inline]
pub(super) fn ring_closes(first: c_uint, last: c_uint) {
    if io_uring::has_any() && !process_state::is_vfork_child() {
        io_uring::range_closes(first, last);
    }
}

/// Forgets what a new descriptor's number stood for.
#[inline]
pub(super) fn number_reused(fd: c_int) -> c_int {
    forget(fd);
    fd
}
