//! Calls that make descriptors of other kinds. The number of one may still stand for a socket that
//! was closed in a way that no hook has seen.

use libc::c_int;

use super::define::hook;
use super::numbers;
use crate::guard::contained;
use crate::{process_state, real};

/// Forgets what the numbers of two new descriptors stood for.
///
/// # Safety
/// If `result` is 0, `fds` must be readable for two descriptors.
#[inline]
unsafe fn both_reused(result: c_int, fds: *const c_int) -> c_int {
    if result == 0 {
        // SAFETY: the caller's promise.
        let fds = unsafe { fds.cast::<[c_int; 2]>().read() };
        fds.into_iter().for_each(numbers::forget);
    }
    result
}

hook! {
    /// `pipe(2)`
    fn pipe(fds: *mut c_int) -> c_int {
        // SAFETY: the argument is the caller's own.
        let result = unsafe { real::pipe(fds) };
        // SAFETY: the kernel has just written both.
        unsafe { both_reused(result, fds) }
    }
}

hook! {
    /// `pipe(2)` by another name
    fn __pipe(fds: *mut c_int) -> c_int {
        // SAFETY: the argument is the caller's own.
        unsafe { pipe(fds) }
    }
}

hook! {
    /// `pipe2(2)`
    fn pipe2(fds: *mut c_int, flags: c_int) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::pipe2(fds, flags) };
        // SAFETY: the kernel has just written both.
        unsafe { both_reused(result, fds) }
    }
}

hook! {
    /// `socketpair(2)`
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::socketpair(domain, kind, protocol, fds) };
        // SAFETY: the kernel has just written both.
        unsafe { both_reused(result, fds) }
    }
}

hook! {
    /// `epoll_create(2)`
    fn epoll_create(size: c_int) -> c_int {
        // SAFETY: an integer.
        epoll_made(unsafe { real::epoll_create(size) })
    }
}

hook! {
    /// `epoll_create1(2)`
    fn epoll_create1(flags: c_int) -> c_int {
        // SAFETY: an integer.
        epoll_made(unsafe { real::epoll_create1(flags) })
    }
}

fn epoll_made(fd: c_int) -> c_int {
    numbers::number_reused(fd);
    if fd >= 0
        && let Some(engine) = process_state::engine()
    {
        let _ = contained(|| engine.epoll_created(fd));
    }
    fd
}
