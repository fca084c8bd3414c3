//! Message headers for calls that have none.

use std::slice;

use libc::{c_int, iovec, msghdr};

/// A header for one buffer and no address.
pub(super) fn one(part: &mut iovec) -> msghdr {
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header
}

/// A header for the buffers of `readv(2)` or `writev(2)`. `None`: there is no byte in them, and the kernel does not even
/// look at the socket.
///
/// # Safety
/// `parts` must be null or readable for `count` entries.
pub(super) unsafe fn vector(parts: *const iovec, count: c_int) -> Option<msghdr> {
    let count = usize::try_from(count).ok().filter(|_| !parts.is_null())?;
    // SAFETY: not null, and readable for `count` entries (the caller's promise).
    let list = unsafe { slice::from_raw_parts(parts, count) };
    if list.iter().all(|part| part.iov_len == 0) {
        return None;
    }
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.cast_mut();
    header.msg_iovlen = count;
    Some(header)
}
