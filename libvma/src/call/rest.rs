//! The rest of a call that has done a part when its connection went to the kernel: there it would
//! have waited for all, and so it does.

use std::ptr;

use libc::{c_int, c_void, iovec, msghdr, ssize_t};

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
    let receive = |rest: &mut msghdr, _| {
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
        let flags = match is_last {
            true => flags,
            false => flags & !(libc::MSG_OOB | libc::MSG_EOR) | libc::MSG_MORE,
        };
        // SAFETY: the buffers are the caller's. Of a call that has sent something no signal tells.
        unsafe { real::sendmsg(fd, rest, flags | libc::MSG_NOSIGNAL) }
    };
    // SAFETY: the caller's promise.
    unsafe { go_on(header, done, send) }
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
        if more > 0 {
            done += more;
        }
        if !is_cut || usize::try_from(more) != Ok(cut.iov_len) {
            break;
        }
        skip = 0;
        (parts, count) = (parts.wrapping_add(1), count - 1);
    }
    set_errno(saved);
    done
}
