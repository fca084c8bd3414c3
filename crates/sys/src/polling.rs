//! What is ready of descriptors: `poll(2)` and `select(2)`.

use std::ptr;
use std::time::Duration;

use libc::{c_int, c_void};

use super::{Errno, check, now_nsec};

/// `poll(2)` without waiting: how many descriptors are ready.
///
/// # Errors
/// Those of `ppoll(2)`.
pub fn poll_now(fds: &mut [libc::pollfd]) -> Result<usize, Errno> {
    poll(fds, Duration::ZERO)
}

/// What is ready of one descriptor now, of these events and those that `poll(2)` always tells; 0:
/// nothing.
pub fn poll_one(fd: c_int, events: libc::c_short) -> Result<libc::c_short, Errno> {
    let mut polled = [libc::pollfd {
        fd,
        events,
        revents: 0,
    }];
    poll_now(&mut polled).map(|_| polled[0].revents)
}

/// Waits for descriptors. Where a filter (seccomp(2)) denies `ppoll(2)`, the older call may still
/// be allowed.
fn poll(fds: &mut [libc::pollfd], timeout: Duration) -> Result<usize, Errno> {
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let (mask, mask_len) = (ptr::null::<libc::sigset_t>(), 0usize);
    // SAFETY: the kernel writes `revents` of `fds`, which we hold mutably, and reads `time`.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            fds.as_mut_ptr(),
            fds.len(),
            &raw const time,
            mask,
            mask_len,
        )
    };
    let result = check(ready).map(|count| count as usize);
    #[cfg(target_arch = "x86_64")]
    if let Err(Errno(libc::EPERM | libc::EACCES | libc::ENOSYS)) = result {
        let msec = c_int::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
        // SAFETY: the kernel writes `revents` of `fds`, which we hold mutably.
        let ready = unsafe { libc::syscall(libc::SYS_poll, fds.as_mut_ptr(), fds.len(), msec) };
        return check(ready).map(|count| count as usize);
    }
    result
}

/// `select(2)` without waiting, for reading, for writing and for exceptions.
///
/// # Safety
/// Each set must have room for `count` descriptors.
pub unsafe fn select_now(
    count: c_int,
    [read, write, except]: [*mut libc::fd_set; 3],
) -> Result<usize, Errno> {
    let none = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the sets are the caller's promise, and the kernel reads `none`; there is no mask.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_pselect6,
            count,
            read,
            write,
            except,
            &raw const none,
            ptr::null::<c_void>(),
        )
    };
    check(ready).map(|count| count as usize)
}

/// `poll(2)` for the library's own thread.
pub fn wait(fds: &mut [libc::pollfd], timeout: Duration) {
    match poll(fds, timeout) {
        Ok(_) | Err(Errno(libc::EINTR)) => {}
        // More than the program allows itself now (`RLIMIT_NOFILE`).
        Err(Errno(libc::EINVAL)) if fds.len() > 1 => wait_one_by_one(fds, timeout),
        // The caller would come back at once, for ever.
        Err(_) => {
            fds.iter_mut().for_each(|fd| fd.revents = 0);
            std::thread::sleep(timeout.max(Duration::from_millis(1)));
        }
    }
}

/// The same, with a delay.
#[cold]
fn wait_one_by_one(fds: &mut [libc::pollfd], timeout: Duration) {
    const INTERVAL: Duration = Duration::from_millis(5);
    let deadline = now_nsec().saturating_add(timeout.as_nanos() as u64);
    loop {
        let mut is_ready = false;
        for fd in fds.chunks_mut(1) {
            match poll_now(fd) {
                Ok(count) => is_ready |= count > 0,
                Err(_) => fd[0].revents = 0,
            }
        }
        let now = now_nsec();
        if is_ready || now >= deadline {
            return;
        }
        std::thread::sleep(INTERVAL.min(Duration::from_nanos(deadline - now)));
    }
}
