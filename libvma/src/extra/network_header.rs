//! The headers of what a connected socket sends.

use engine::user_memory::{is_readable, is_writable};
use libc::{c_int, c_void};

use super::packets::socket_behind;
use crate::guard::{contained, fail};

/// Leaves the headers in the program's memory, or how long they are if it gives none.
pub(super) unsafe extern "C" fn get_socket_network_header(
    fd: c_int,
    place: *mut c_void,
    len: *mut u16,
) -> c_int {
    if !is_readable(len, size_of::<u16>()) || !is_writable(len, size_of::<u16>()) {
        return fail(libc::EINVAL);
    }
    let Some((engine, socket)) = socket_behind(fd) else {
        return fail(libc::EINVAL);
    };
    let Ok(Some(header)) = contained(|| engine.network_header(socket)) else {
        return fail(libc::ENOTCONN);
    };
    // SAFETY: readable (checked above), and the caller's own.
    let room = usize::from(unsafe { len.read_unaligned() });
    let is_asked_for = !place.is_null();
    if is_asked_for && room < header.len() {
        return fail(libc::ENOBUFS);
    }
    if is_asked_for && !is_writable(place, header.len()) {
        return fail(libc::EFAULT);
    }
    if is_asked_for {
        // SAFETY: writable for so many bytes (checked above), and the caller's own.
        unsafe { place.cast::<u8>().copy_from(header.as_ptr(), header.len()) };
    }
    // SAFETY: writable (checked above), and the caller's own.
    unsafe { len.write_unaligned(header.len() as u16) };
    0
}
