//! The rest of a call that has done a part when its connection went to the kernel: there it would
//! have waited for all, and so it does.

use std::ptr;

use libc::{c_int, c_short, c_void, iovec, msghdr, pollfd, ssize_t, timespec};

use crate::guard::{errno, set_errno};
use crate::real;

/// Receives behind the first `done` octets, for a call with `MSG_WAITALL`. Returns how many there
/// are then.
///
/// # Safety
/// `header` must be valid for `recvmsg(2)`, and the call have filled so many octets of its buffers.
#[cold]
pub(super) unsafe fn receive(fd: c_int, header: &msghdr, flags: c_int, done: ssize_t) -> ssize_t {
    if flags & libc::MSG_WAITALL == 0 {
        // It waited for a few more octets (`SO_RCVLOWAT`) than it has.
        return done;
    }
    let flags = flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    let receive = |rest: &mut msghdr, _| {
        let ready = waits(fd, libc::POLLIN, libc::SO_RCVTIMEO);
        // An error is the next call's.
        if ready == 0 || ready & libc::POLLERR != 0 && !has_octets(fd) {
            return 0;
        }
        // SAFETY: the buffers are the caller's.
        unsafe { real::recvmsg(fd, rest, flags) }
    };
    // SAFETY: the caller's promise.
    unsafe { go_on(header, done, receive) }
}

/// Sends what is behind the first `done` octets. Returns how many were sent then.
///
/// # Safety
/// `header` must be valid for `sendmsg(2)`, and the call have sent so many octets of its buffers.
#[cold]
pub(super) unsafe fn send(fd: c_int, header: &msghdr, flags: c_int, done: ssize_t) -> ssize_t {
    let send = |rest: &mut msghdr, is_last: bool| {
        let ready = waits(fd, libc::POLLOUT, libc::SO_SNDTIMEO);
        if ready == 0 || ready & (libc::POLLERR | libc::POLLHUP) != 0 {
            return 0;
        }
        let flags = match is_last {
            true => flags | libc::MSG_DONTWAIT,
            false => {
                (flags | libc::MSG_DONTWAIT) & !(libc::MSG_OOB | libc::MSG_EOR) | libc::MSG_MORE
            }
        };
        // SAFETY: the buffers are the caller's. Of a call that has sent something no signal tells.
        unsafe { real::sendmsg(fd, rest, flags | libc::MSG_NOSIGNAL) }
    };
    // SAFETY: the caller's promise.
    unsafe { go_on(header, done, send) }
}

/// Whether there is something to read in front of an error.
fn has_octets(fd: c_int) -> bool {
    let mut len: c_int = 0;
    // SAFETY: the argument is a place for an integer.
    let asked = unsafe { real::ioctl(fd, libc::FIONREAD, (&raw mut len).cast()) };
    asked == 0 && len > 0
}

/// Waits as the kernel's call would, as long as an option says. Returns what the socket is ready
/// for. A cancellation point.
fn waits(fd: c_int, events: c_short, option: c_int) -> c_short {
    let mut timeval = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut len = size_of::<libc::timeval>() as libc::socklen_t;
    let place = (&raw mut timeval).cast::<c_void>();
    // SAFETY: the place and its length are here.
    let _ = unsafe { real::getsockopt(fd, libc::SOL_SOCKET, option, place, &raw mut len) };
    let (sec, usec) = (timeval.tv_sec, timeval.tv_usec);
    let timeout = timespec {
        tv_sec: sec,
        tv_nsec: usec * 1000,
    };
    let timeout = match (sec, usec) {
        (0, 0) => ptr::null(),
        _ => ptr::from_ref(&timeout),
    };
    let mut polled = pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: all of it is here, or null.
    match unsafe { real::ppoll(&raw mut polled, 1, timeout, ptr::null()) } {
        1.. => polled.revents,
        _ => 0,
    }
}

/// Has `call` do what is behind the first `done` octets: what is left of a buffer, and then the
/// other buffers. It is told whether these are the last ones. If it fails, what was done before is
/// the result. Nothing is kept that a cancelled thread would leave behind.
///
/// # Safety
/// The buffers of `header` must be readable as a list.
unsafe fn go_on(
    header: &msghdr,
    mut done: ssize_t,
    call: impl Fn(&mut msghdr, bool) -> ssize_t,
) -> ssize_t {
    let saved = errno();
    let (mut parts, mut count) = (header.msg_iov, header.msg_iovlen);
    let mut skip = done.unsigned_abs();
    let mut rest = msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        ..*header
    };
    while count > 0 {
        // SAFETY: there are `count` entries from here on (contract), aligned or not.
        let part = unsafe { parts.read_unaligned() };
        if skip >= part.iov_len {
            skip -= part.iov_len;
            (parts, count) = (parts.wrapping_add(1), count - 1);
            continue;
        }
        let mut cut = iovec {
            iov_base: part.iov_base.wrapping_byte_add(skip).cast::<c_void>(),
            iov_len: part.iov_len - skip,
        };
        let is_cut = skip > 0;
        (rest.msg_iov, rest.msg_iovlen) = match is_cut {
            true => (&raw mut cut, 1),
            false => (parts, count),
        };
        let more = call(&mut rest, !is_cut || count == 1);
        if more <= 0 {
            break;
        }
        done += more;
        (parts, count) = (header.msg_iov, header.msg_iovlen);
        skip = done.unsigned_abs();
    }
    set_errno(saved);
    done
}
