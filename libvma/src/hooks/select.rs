//! `select(2)`.

use std::time::Instant;

use descriptors::own;
use engine::calls::{FdSets, nsec_of_timeval, timeval_of_nsec};
use engine::user_memory::is_writable;
use engine::{Engine, Errno};
use libc::{c_int, fd_set, sigset_t, timespec, timeval};

use super::define::hook;
use super::numbers::is_own;
use super::poll::poll_ours;
use super::waits::{is_bad_mask, timespec_at};
use crate::guard::{contained, fail};
use crate::process_state::{self, Device};
use crate::{adoption, call, real, runtime};

hook! {
    /// `select(2)`
    fn select(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::select(count, read, write, except, timeout) };
        let mut waits = None;
        let wait = || {
            // SAFETY: what the timeout leads to is the caller's own.
            let wait = unsafe { timeval_at(timeout) }?;
            waits = wait.map(|wait| (wait, Instant::now()));
            Ok(wait)
        };
        let sets = [read, write, except];
        // SAFETY: the sets are the caller's.
        let result = unsafe { select_any(count, sets, wait, std::ptr::null(), kernel) };
        let Some(result) = result else { return kernel() };
        // Linux leaves the time that was not slept.
        if let Some((wait, begun)) = waits {
            let passed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let left = timeval_of_nsec(wait.saturating_sub(passed));
            // SAFETY: there is a timeout, writable (checked above).
            unsafe { timeout.write_unaligned(left) };
        }
        result
    }
}

hook! {
    /// `select(2)` by another name
    fn __select(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        unsafe { select(count, read, write, except, timeout) }
    }
}

hook! {
    /// `pselect(2)`
    fn pselect(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::pselect(count, read, write, except, timeout, mask) };
        // SAFETY: what the timeout leads to is the caller's own.
        let wait = || unsafe { timespec_at(timeout) };
        // SAFETY: the sets are the caller's.
        let result = unsafe { select_any(count, [read, write, except], wait, mask, kernel) };
        result.unwrap_or_else(kernel)
    }
}

/// `select(2)` and `pselect(2)`. `wait` reads the timeout, if the call is ours. `None`: it is for
/// the kernel.
///
/// # Safety
/// The sets must be as [`with_ours`] asks.
#[inline]
unsafe fn select_any(
    count: c_int,
    sets: [*mut fd_set; 3],
    wait: impl FnOnce() -> Result<Option<u64>, ()>,
    mask: *const sigset_t,
    kernel: impl Fn() -> c_int + Copy,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { recall(count, sets) };
    // SAFETY: the caller's promise.
    let have_own = unsafe { have_own(count, sets) };
    let ours = process_state::engine().and_then(|engine| {
        // SAFETY: the caller's promise.
        let sets = unsafe { with_ours(engine, count, sets) };
        Some((engine, sets?))
    });
    if ours.is_none() && !have_own {
        return None;
    }
    let wait = wait().ok()?;
    if is_bad_mask(mask) {
        return None;
    }
    if have_own {
        return Some(fail(libc::EBADF));
    }
    let (engine, sets) = ours?;
    call::cancellation_point();
    select_ours(engine, sets, wait, mask, kernel)
}

/// A timeout of the caller's, in nanoseconds, with room for what is left of it. `Err`: the kernel
/// says what it thinks of it.
///
/// # Safety
/// What it leads to must be the caller's own.
unsafe fn timeval_at(timeout: *const timeval) -> Result<Option<u64>, ()> {
    if timeout.is_null() {
        return Ok(None);
    }
    if !is_writable(timeout, size_of::<timeval>()) {
        return Err(());
    }
    // SAFETY: readable (checked above), and the caller's own.
    let time = unsafe { timeout.read_unaligned() };
    nsec_of_timeval(time).map(Some).ok_or(())
}

/// `select(2)` with something of ours in the sets. `None`: it is for the kernel all the same.
fn select_ours(
    engine: &'static Engine<Device>,
    sets: FdSets,
    timeout_nsec: Option<u64>,
    mask: *const sigset_t,
    kernel: impl Fn() -> c_int + Copy,
) -> Option<c_int> {
    let (mut few, mut many) = ([FdSets::NONE; FdSets::FEW], Vec::new());
    let fds = sets.polled(&mut few, &mut many);
    let result = poll_ours(engine, fds, timeout_nsec, mask, true, kernel)?;
    if result < 0 {
        return Some(result);
    }
    Some(sets.store(fds).unwrap_or_else(|Errno(errno)| fail(errno)))
}

/// The sets, if a descriptor in them stands for something of ours.
///
/// # Safety
/// The sets must be null or valid for `count` descriptors, or for as many as the kernel's table of
/// them has.
#[inline]
unsafe fn with_ours(
    engine: &Engine<Device>,
    count: c_int,
    sets: [*mut fd_set; 3],
) -> Option<FdSets> {
    let reach = count.min(engine.highest_descriptor().saturating_add(1));
    // SAFETY: the caller's promise.
    let within_reach = unsafe { FdSets::new(reach, sets) }?;
    if !within_reach.any(|fd| engine.look_up(fd).is_some()) {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { FdSets::new(kernel_count(count), sets) }
}

/// Whether a number of the library's own is in the sets. To the program it is not open.
///
/// # Safety
/// That of [`with_ours`].
#[inline]
unsafe fn have_own(count: c_int, sets: [*mut fd_set; 3]) -> bool {
    let lowest = own::lowest();
    if count <= lowest {
        return false;
    }
    // SAFETY: the caller's promise.
    let all = unsafe { FdSets::new(kernel_count(count), sets) };
    all.is_some_and(|all| all.any_from(lowest, is_own))
}

/// The sets are about to be used, perhaps with something in them that ancestors of the process have
/// in user space.
///
/// # Safety
/// That of [`with_ours`].
#[inline]
unsafe fn recall(count: c_int, sets: [*mut fd_set; 3]) {
    if runtime::has_ancestors() {
        // SAFETY: the caller's promise.
        if let Some(all) = unsafe { FdSets::new(kernel_count(count), sets) } {
            adoption::adopt_or_recall(all.entries().map(|polled| polled.fd));
        }
    }
}

/// How many descriptors the kernel looks at: not more than its table has (`fs/select.c`). Programs
/// rely on that, which pass the limit on descriptors and sets of `FD_SETSIZE`.
fn kernel_count(count: c_int) -> c_int {
    if count <= libc::FD_SETSIZE as c_int {
        return count;
    }
    let size = contained(descriptors::table_size).ok().flatten();
    size.map_or(count, |size| count.min(size))
}
