//! What the library knows beside the kernel's answers to `getsockopt(2)` about datagram sockets.

use engine::{Engine, Errno, UdpSocket};
use libc::{c_int, c_void, socklen_t};

use crate::guard::contained;
use crate::process_state::Device;
use crate::{call, runtime};

// include/uapi/asm-generic/socket.h, include/uapi/linux/sock_diag.h
const SO_MEMINFO: c_int = 55;
const SK_MEMINFO_RMEM_ALLOC: usize = 0;
const SK_MEMINFO_DROPS: usize = 8;

/// Adds it to an answer of level `SOL_SOCKET`.
///
/// # Safety
/// The kernel has just given this answer.
pub(super) unsafe fn complete(fd: c_int, name: c_int, value: *mut c_void, len: *const socklen_t) {
    if name != libc::SO_ERROR && name != SO_MEMINFO {
        return;
    }
    let Some((engine, socket)) = runtime::own_udp(fd) else {
        return;
    };
    // SAFETY: the kernel has just written the length.
    let len = unsafe { len.read_unaligned() } as usize;
    if name == libc::SO_ERROR {
        // SAFETY: the kernel has just written so many bytes there.
        return unsafe { complete_error(engine, socket, value.cast(), len) };
    }
    let Ok((charged, lost)) = contained(|| socket.memory_after_poll()) else {
        return;
    };
    for (index, more) in [(SK_MEMINFO_RMEM_ALLOC, charged), (SK_MEMINFO_DROPS, lost)] {
        if (index + 1) * size_of::<u32>() > len {
            continue;
        }
        let word = value.cast::<u32>().wrapping_add(index);
        // SAFETY: the kernel has just written it.
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
