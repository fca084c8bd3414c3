//! `SO_MAX_PACING_RATE` in the words of VMA's extra API (`struct vma_rate_limit_t`): the kernel's
//! socket gets the rate, and what else there is stays here.

use engine::calls::SetOption;
use engine::user_memory::{is_readable, is_writable};
use engine::{AnySocket, Engine, RATE_LIMIT_BYTES, RateLimit};
use libc::{c_int, c_void, socklen_t};

use super::options::follow_option;
use crate::guard::{contained, fail};
use crate::process_state::Device;
use crate::{real, runtime};

/// The socket of ours behind a descriptor.
fn own(fd: c_int) -> Option<(&'static Engine<Device>, AnySocket<Device>)> {
    let udp = runtime::own_udp(fd).map(|(engine, socket)| (engine, AnySocket::from(socket)));
    udp.or_else(|| runtime::stream(fd).map(|(engine, socket)| (engine, socket.into())))
}

/// The rest of a `setsockopt(2)`. `None`: the value is one of the kernel's.
///
/// # Safety
/// `value` must be the caller's own.
pub(super) unsafe fn set(fd: c_int, value: *const c_void, len: socklen_t) -> Option<c_int> {
    let (engine, socket) = own(fd)?;
    if len as usize != RATE_LIMIT_BYTES {
        let _ = contained(|| engine.rate_limit_was_said(socket, None));
        return None;
    }
    if !is_readable(value, RATE_LIMIT_BYTES) {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: readable (checked above), and the caller's own.
    let limit = RateLimit(unsafe { value.cast::<[u8; RATE_LIMIT_BYTES]>().read_unaligned() });
    let rate = limit.octets_per_second();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    let (value, len) = (
        (&raw const rate).cast::<c_void>(),
        size_of_val(&rate) as socklen_t,
    );
    // SAFETY: the value is as long as that.
    let result = unsafe { real::setsockopt(fd, level, name, value, len) };
    if result == 0 {
        let _ = contained(|| engine.rate_limit_was_said(socket, Some(limit)));
        // SAFETY: the kernel has just read the value.
        unsafe { follow_option(fd, SetOption::Rate, (level, name), value, len) };
    }
    Some(result)
}

/// A `getsockopt(2)` with room for what was said in VMA's words. `None`: the kernel answers.
///
/// # Safety
/// What the pointers lead to must be the caller's own.
pub(super) unsafe fn get(fd: c_int, value: *mut c_void, len: *mut socklen_t) -> Option<c_int> {
    let (_, socket) = own(fd)?;
    let limit = contained(|| socket.rate_limit()).ok()??;
    if !is_writable(len, size_of::<socklen_t>()) {
        return None;
    }
    // SAFETY: readable (checked above), and the caller's own.
    let room = unsafe { len.read_unaligned() };
    if usize::try_from(room.cast_signed()).is_ok_and(|room| room < RATE_LIMIT_BYTES) {
        return None;
    }
    if !is_writable(value, RATE_LIMIT_BYTES) {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: writable (checked above), and the caller's own.
    unsafe {
        value
            .cast::<[u8; RATE_LIMIT_BYTES]>()
            .write_unaligned(limit.0)
    };
    // SAFETY: the same.
    unsafe { len.write_unaligned(RATE_LIMIT_BYTES as socklen_t) };
    Some(0)
}
