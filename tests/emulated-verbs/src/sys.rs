//! System calls past the C library, whose functions the library under test replaces.

use std::io;

use libc::c_long;

/// Above the descriptors that programs have, as far as their limit lets it be.
const LOWEST_NUMBERS: [c_long; 4] = [700, 200, 60, 0];

/// Evaluates to the result, or the error.
macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {{
        // SAFETY: the arguments are as the system call's manual page says.
        let result = unsafe { libc::syscall($number $(, $argument)*) };
        $crate::sys::check(result)
    }};
}
pub(crate) use call;

pub(crate) fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Another descriptor of the same, out of the program's way.
pub(crate) fn copy(fd: c_long) -> io::Result<i32> {
    let mut copies = LOWEST_NUMBERS
        .into_iter()
        .map(|least| call!(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, least));
    let copy = copies
        .find(Result::is_ok)
        .unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()))?;
    Ok(i32::try_from(copy).unwrap_or(-1))
}

/// The same descriptor out of the program's way.
pub(crate) fn out_of_the_way(fd: c_long) -> io::Result<i32> {
    let moved = copy(fd)?;
    call!(libc::SYS_close, fd)?;
    Ok(moved)
}

pub(crate) fn event(flags: i32) -> io::Result<i32> {
    out_of_the_way(call!(libc::SYS_eventfd2, 0, flags | libc::EFD_CLOEXEC)?)
}

/// Where it cannot be written nobody reads.
pub(crate) fn write(fd: i32, bytes: &[u8]) {
    let _ = call!(libc::SYS_write, fd, bytes.as_ptr(), bytes.len());
}

pub(crate) fn close(fd: i32) {
    let _ = call!(libc::SYS_close, fd);
}

/// Begins a thread that no signal of the program's interrupts: a new one has its maker's mask.
pub(crate) fn spawn(body: impl FnOnce() + Send + 'static) {
    let every = u64::MAX;
    let mut before = 0_u64;
    let (set, size) = (libc::SIG_SETMASK, size_of_val(&every));
    let none = std::ptr::null_mut::<u64>();
    let from = &raw const every;
    let _ = call!(libc::SYS_rt_sigprocmask, set, from, &raw mut before, size);
    std::thread::spawn(body);
    let from = &raw const before;
    let _ = call!(libc::SYS_rt_sigprocmask, set, from, none, size);
}
