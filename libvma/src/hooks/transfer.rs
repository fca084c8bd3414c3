//! Calls whose data no hook sees: the kernel or the C library moves them.

use std::mem::offset_of;

use engine::user_memory::{is_readable, is_writable};
use engine::{FileToSend, Pipe, PipeEnd, Reason};
use libc::{aiocb, c_int, c_uint, off64_t, pollfd, sigevent, size_t, ssize_t};

use super::define::hook;
use super::numbers::is_own;
use crate::guard::{contained, errno, fail, set_errno};
use crate::{call, real, runtime};

/// Leaves a socket of ours to the kernel, with all that is queued.
pub(super) fn leave_to_kernel(fd: c_int, reason: Reason) {
    match runtime::look_up(fd) {
        Some(engine) => {
            let _ = contained(|| engine.leave_descriptor_to_kernel(fd, reason));
        }
        None => runtime::recall(fd),
    }
}

/// Flags that `splice(2)` knows.
const SPLICE_FLAGS: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// `splice(2)` without offsets of which one end is a stream of ours. `None`: it is the kernel's.
/// `kernel` makes the same call to it, which does not come to the stream where the other end is no
/// pipe.
fn splice_here(
    from: c_int,
    to: c_int,
    len: size_t,
    flags: c_uint,
    kernel: impl Fn() -> ssize_t,
) -> Option<ssize_t> {
    let is_ours = |fd| runtime::stream(fd).filter(|(_, socket)| !socket.is_left_to_kernel());
    let is_refused = len == 0 || flags & !SPLICE_FLAGS != 0;
    let find = |fd, end| {
        let find = || Pipe::find(fd, end, len, flags);
        if is_refused {
            None
        } else {
            contained(find).ok().flatten()
        }
    };
    let Some((engine, socket)) = is_ours(to) else {
        let (engine, socket) = is_ours(from)?;
        let Some(mut pipe) = find(to, PipeEnd::In) else {
            return Some(kernel());
        };
        let received = call::receive_into_pipe(engine, from, socket, &mut pipe);
        pipe.release();
        return received.or_else(|| (!pipe.is_kernels()).then(kernel));
    };
    let Some(mut pipe) = find(from, PipeEnd::Out).filter(|_| !socket.appends()) else {
        return Some(kernel());
    };
    let sent = call::send_pipe(engine, to, socket, &mut pipe).or_else(|| {
        let (moved, rest) = pipe.rest();
        match moved + send_by_kernel(to, rest) {
            0 => (!pipe.is_kernels()).then(kernel),
            moved => Some(moved.cast_signed()),
        }
    });
    pipe.release();
    sent
}

/// Has the kernel send octets that were a pipe's. Returns how many it has taken.
fn send_by_kernel(fd: c_int, octets: &[u8]) -> usize {
    let mut sent = 0;
    while let Some(rest) = octets.get(sent..).filter(|rest| !rest.is_empty()) {
        let (at, len) = (rest.as_ptr().cast(), rest.len());
        // SAFETY: readable for its length.
        let count = unsafe { real::send(fd, at, len, libc::MSG_NOSIGNAL) };
        match usize::try_from(count) {
            Ok(count) => sent += count,
            Err(_) if matches!(errno(), libc::EAGAIN | libc::EINTR) => {
                let mut polled = pollfd {
                    fd,
                    events: libc::POLLOUT,
                    revents: 0,
                };
                // SAFETY: one entry.
                unsafe { real::poll(&raw mut polled, 1, -1) };
            }
            Err(_) => break,
        }
    }
    sent
}

hook! {
    /// `splice(2)`
    fn splice(
        from: c_int,
        from_offset: *mut off64_t,
        to: c_int,
        to_offset: *mut off64_t,
        len: size_t,
        flags: c_uint,
    ) -> ssize_t {
        if is_own(from) || is_own(to) {
            return fail(libc::EBADF);
        }
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::splice(from, from_offset, to, to_offset, len, flags) };
        if from_offset.is_null()
            && to_offset.is_null()
            && let Some(result) = splice_here(from, to, len, flags, kernel)
        {
            return result;
        }
        leave_to_kernel(from, Reason::InKernel);
        leave_to_kernel(to, Reason::InKernel);
        kernel()
    }
}

/// `sendfile(2)` to a stream of ours. `None`: it is the kernel's.
///
/// # Safety
/// `offset` must be null or the caller's own.
unsafe fn send_file_here(
    to: c_int,
    from: c_int,
    offset: *mut off64_t,
    count: size_t,
) -> Option<ssize_t> {
    let (engine, socket) = runtime::stream(to)?;
    if socket.is_left_to_kernel() || runtime::look_up(from).is_some() {
        return None;
    }
    // SAFETY: the arguments are the caller's own. It does not come to the stream, whose kernel's
    // socket would refuse data.
    let refused = || Some(unsafe { real::sendfile(to, from, offset, count) });
    if socket.appends() || !offset.is_null() && !is_readable(offset, size_of::<off64_t>()) {
        return refused();
    }
    // SAFETY: readable (checked above), and the caller's own.
    let start = (!offset.is_null()).then(|| unsafe { offset.read_unaligned() });
    let mut range = match contained(|| FileToSend::find(from, start, count)).ok()? {
        FileToSend::Unsuitable => return refused(),
        FileToSend::Kernels => return None,
        FileToSend::Ended => return Some(0),
        FileToSend::Range(range) => range,
    };
    let result = call::send_file(engine, to, socket, &mut range);
    range.release();
    let goes_on = result.is_some_and(|(_, goes_on)| goes_on);
    let result = result.map(|(result, _)| result);
    let Some(sent) = result.and_then(|result| usize::try_from(result).ok()) else {
        // A stream that is not connected says so itself.
        return result.or_else(|| if range.is_kernels() { None } else { refused() });
    };
    let position = range.sent(sent);
    if !offset.is_null() {
        if !is_writable(offset, size_of::<off64_t>()) {
            return Some(fail(libc::EFAULT));
        }
        // SAFETY: writable (checked above), and the caller's own.
        unsafe { offset.write_unaligned(position) };
    }
    if goes_on {
        let saved = errno();
        // SAFETY: the arguments are the caller's own.
        let more = unsafe { real::sendfile(to, from, offset, count - sent) };
        set_errno(saved);
        return result.map(|sent| sent + more.max(0));
    }
    result
}

hook! {
    /// `sendfile(2)`
    fn sendfile(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
        if is_own(from) || is_own(to) {
            return fail(libc::EBADF);
        }
        // SAFETY: the arguments are the caller's own.
        if let Some(result) = unsafe { send_file_here(to, from, offset, count) } {
            return result;
        }
        leave_to_kernel(from, Reason::InKernel);
        leave_to_kernel(to, Reason::InKernel);
        // SAFETY: the arguments are the caller's own.
        unsafe { real::sendfile(to, from, offset, count) }
    }
}

hook! {
    /// `sendfile(2)` of programs built for 64-bit file offsets
    fn sendfile64(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
        // SAFETY: the arguments are the caller's own, and offsets have 64 bits here anyway.
        unsafe { sendfile(to, from, offset, count) }
    }
}

/// Whether the C library may use the descriptor: not if that is the library's.
///
/// # Safety
/// What `control` leads to must be the program's own.
unsafe fn is_left_to_aio(control: *const aiocb, operation: c_int) -> bool {
    if !is_readable(control, size_of::<aiocb>()) {
        return true;
    }
    let fd = control.wrapping_byte_add(offset_of!(aiocb, aio_fildes));
    // SAFETY: within what is readable (checked above).
    let fd = unsafe { fd.cast::<c_int>().read_unaligned() };
    if is_own(fd) {
        return false;
    }
    // The kernel can always send datagrams.
    if operation == libc::LIO_READ || runtime::stream(fd).is_some() {
        leave_to_kernel(fd, Reason::InLibc);
    }
    true
}

hook! {
    /// `aio_read(3)`
    fn aio_read(control: *mut aiocb) -> c_int {
        // SAFETY: the control block is the caller's, readable for aio_read(3).
        if unsafe { !is_left_to_aio(control, libc::LIO_READ) } {
            return fail(libc::EBADF);
        }
        // SAFETY: as above.
        unsafe { real::aio_read(control) }
    }
}

hook! {
    /// `aio_read(3)` of programs built for 64-bit file offsets
    fn aio_read64(control: *mut aiocb) -> c_int {
        // SAFETY: the argument is the caller's own, and offsets have 64 bits here anyway.
        unsafe { aio_read(control) }
    }
}

hook! {
    /// `aio_write(3)`
    fn aio_write(control: *mut aiocb) -> c_int {
        // SAFETY: the control block is the caller's, readable for aio_write(3).
        if unsafe { !is_left_to_aio(control, libc::LIO_WRITE) } {
            return fail(libc::EBADF);
        }
        // SAFETY: as above.
        unsafe { real::aio_write(control) }
    }
}

hook! {
    /// `aio_write(3)` of programs built for 64-bit file offsets
    fn aio_write64(control: *mut aiocb) -> c_int {
        // SAFETY: the argument is the caller's own, and offsets have 64 bits here anyway.
        unsafe { aio_write(control) }
    }
}

hook! {
    /// `lio_listio(3)`
    fn lio_listio(
        mode: c_int,
        list: *const *mut aiocb,
        count: c_int,
        event: *mut sigevent,
    ) -> c_int {
        for index in 0..usize::try_from(count).unwrap_or(0) {
            let entry = list.wrapping_add(index);
            if !is_readable(entry, size_of::<*mut aiocb>()) {
                break;
            }
            // SAFETY: readable (checked above), and the caller's own.
            let control = unsafe { entry.read_unaligned() };
            // SAFETY: what it leads to is the caller's own.
            if unsafe { !is_left_to_aio(control, libc::LIO_READ) } {
                return fail(libc::EBADF);
            }
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { real::lio_listio(mode, list, count, event) }
    }
}

hook! {
    /// `lio_listio(3)` of programs built for 64-bit file offsets
    fn lio_listio64(
        mode: c_int,
        list: *const *mut aiocb,
        count: c_int,
        event: *mut sigevent,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own, and offsets have 64 bits here anyway.
        unsafe { lio_listio(mode, list, count, event) }
    }
}
