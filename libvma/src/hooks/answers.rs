//! What the library knows beside the kernel's answers to `getsockopt(2)` about datagram sockets.

use engine::calls::{GetOption, meminfo_additions};
use engine::{Engine, Errno, UdpSocket};
use libc::{c_int, c_void, socklen_t};

use crate::guard::contained;
use crate::process_state::Device;
use crate::{call, runtime};

/// Adds it to an answer.
///
/// # Safety
/// The kernel has just given this answer.
#[inline]
pub(super) unsafe fn complete(
    fd: c_int,
    option: GetOption,
    value: *mut c_void,
    len: *const socklen_t,
) {
    if matches!(option, GetOption::Error | GetOption::Memory)
        && let Some((engine, socket)) = runtime::own_udp(fd)
    {
        // SAFETY: the kernel has just written the length.
        let len = unsafe { len.read_unaligned() } as usize;
        match option {
            // SAFETY: the kernel has just written so many bytes there.
            GetOption::Error => unsafe { complete_error(engine, socket, value.cast(), len) },
            // SAFETY: the same.
            _ => unsafe { complete_memory(socket, value.cast(), len) },
        }
    }
}

/// The kernel has said how much memory it uses.
///
/// # Safety
/// There are so many bytes at the pointer, which the kernel has written.
unsafe fn complete_memory(socket: &UdpSocket<Device>, value: *mut u32, len: usize) {
    let Ok((charged, lost)) = contained(|| socket.memory_after_poll()) else {
        return;
    };
    for (index, more) in meminfo_additions(len, charged, lost) {
        let word = value.wrapping_add(index);
        // SAFETY: the caller's promise.
        let kernels = unsafe { word.read_unaligned() };
        // SAFETY: the same.
        unsafe { word.write_unaligned(kernels.wrapping_add(more)) };
    }
}

/// The kernel has said what error it knows of. There may be another that it does not.
///
/// # Safety
/// There are so many bytes at the pointer, which the kernel has written.
unsafe fn complete_error(
    engine: &'static Engine<Device>,
    socket: &'static UdpSocket<Device>,
    value: *mut u8,
    len: usize,
) {
    let mut error = [0; size_of::<c_int>()];
    let len = len.min(error.len());
    // SAFETY: the caller's promise.
    unsafe { error.as_mut_ptr().copy_from_nonoverlapping(value, len) };
    call::note_failure(engine, socket, c_int::from_ne_bytes(error));
    if let Some(Errno(error)) = socket.take_postponed_error() {
        let from = (&raw const error).cast::<u8>();
        // SAFETY: the caller's promise.
        unsafe { value.copy_from_nonoverlapping(from, len) };
    }
}
