//! Message headers for calls that have none.

use engine::user_memory::is_readable;
use libc::{c_int, iovec, msghdr};

/// Most bytes of one call (`MAX_RW_COUNT`).
const BYTES_MAX: usize = 0x7fff_f000;

/// A header for one buffer and no address. Of a longer buffer the kernel, too, looks at so much
/// only.
pub(super) fn one(part: &mut iovec) -> msghdr {
    part.iov_len = part.iov_len.min(BYTES_MAX);
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header
}

/// A header for the buffers of `readv(2)` or `writev(2)`. `None`: the call is for the kernel. There
/// is no byte in them, and it does not even look at the socket; or it refuses the list.
///
/// # Safety
/// What `parts` leads to must be the program's own.
pub(super) unsafe fn vector(parts: *const iovec, count: c_int) -> Option<msghdr> {
    let count = usize::try_from(count).ok()?;
    if !is_readable(parts, count.checked_mul(size_of::<iovec>())?) || parts.is_null() {
        return None;
    }
    // SAFETY: readable for `count` entries (checked above), aligned or not.
    let part = |index| unsafe { parts.wrapping_add(index).read_unaligned() };
    if (0..count).map(part).all(|part| part.iov_len == 0) {
        return None;
    }
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.cast_mut();
    header.msg_iovlen = count;
    Some(header)
}
