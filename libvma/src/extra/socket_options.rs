//! Options of sockets that are the extra API's own: the kernel knows of none.

use engine::user_memory::{is_readable, is_writable};
use engine::{AnySocket, Engine, Reason};
use libc::{c_int, c_void, socklen_t};
use vma_api::abi::{
    SO_VMA_FLOW_TAG, SO_VMA_RING_USER_MEMORY, SO_VMA_SHUTDOWN_RX, SO_VMA_USER_DATA,
};

use super::packets::socket_behind;
use super::unsupported::unsupported;
use crate::guard::{contained, fail};
use crate::process_state::Device;

/// As many bits as a flow's number has.
const FLOW_TAG_MAX: u32 = (1 << 20) - 1;

/// A `setsockopt(2)` of level `SOL_SOCKET`. `None`: it is none of these options, or no socket of
/// ours.
///
/// # Safety
/// `value` must be the caller's own.
#[inline]
pub(crate) unsafe fn set_option(
    fd: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Option<c_int> {
    match name {
        SO_VMA_USER_DATA | SO_VMA_FLOW_TAG | SO_VMA_SHUTDOWN_RX | SO_VMA_RING_USER_MEMORY => {
            // SAFETY: the caller's promise.
            unsafe { set(socket_behind(fd)?, name, value, len) }
        }
        _ => None,
    }
}

/// # Safety
/// That of [`set_option`].
#[cold]
unsafe fn set(
    (engine, socket): (&'static Engine<Device>, AnySocket<Device>),
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Option<c_int> {
    Some(match name {
        SO_VMA_USER_DATA => {
            // SAFETY: the caller's promise.
            match unsafe { read::<u64>(value, len) } {
                Ok(data) => done(|| engine.set_user_data(socket, data)),
                Err(errno) => fail(errno),
            }
        }
        SO_VMA_FLOW_TAG => {
            // SAFETY: the caller's promise.
            match unsafe { read::<u32>(value, len) } {
                Ok(0 | FLOW_TAG_MAX) => fail(libc::EINVAL),
                Ok(tag) => done(|| engine.set_flow_tag(socket, tag)),
                Err(errno) => fail(errno),
            }
        }
        SO_VMA_SHUTDOWN_RX => done(|| engine.leave_to_kernel(socket, Reason::ShutDown)),
        _ => unsupported("SO_VMA_RING_USER_MEMORY"),
    })
}

fn done(act: impl FnOnce()) -> c_int {
    match contained(act) {
        Ok(()) => 0,
        Err(_) => fail(libc::EINVAL),
    }
}

/// The value of an option that is as long as that. `Err`: `EINVAL`, it is not, or there is none;
/// `EFAULT`, it is not readable.
///
/// # Safety
/// `value` must be the caller's own, and all octets are values of `T`.
unsafe fn read<T: Copy>(value: *const c_void, len: socklen_t) -> Result<T, c_int> {
    if value.is_null() || len as usize != size_of::<T>() {
        return Err(libc::EINVAL);
    }
    if !is_readable(value, size_of::<T>()) {
        return Err(libc::EFAULT);
    }
    // SAFETY: readable (checked above), and the caller's own.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// A `getsockopt(2)` of level `SOL_SOCKET`. `None`: as for [`set_option`].
///
/// # Safety
/// What the pointers lead to must be the caller's own.
#[inline]
pub(crate) unsafe fn get_option(
    fd: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Option<c_int> {
    if name != SO_VMA_FLOW_TAG && name != SO_VMA_USER_DATA {
        return None;
    }
    let (engine, socket) = socket_behind(fd)?;
    let told = match name {
        SO_VMA_FLOW_TAG => {
            let tag = contained(|| engine.flow_tag(socket)).unwrap_or(0);
            // SAFETY: the caller's promise.
            unsafe { write(tag, value, len) }
        }
        _ => {
            let data = contained(|| engine.user_data(socket)).unwrap_or(0);
            // SAFETY: the caller's promise.
            unsafe { write(data, value, len) }
        }
    };
    Some(told.map_or_else(fail, |()| 0))
}

/// Leaves a value where there is room for it. `Err`: `EINVAL`, there is none; `EFAULT`.
///
/// # Safety
/// What the pointers lead to must be the caller's own.
unsafe fn write<T: Copy>(told: T, value: *mut c_void, len: *mut socklen_t) -> Result<(), c_int> {
    if !is_readable(len, size_of::<socklen_t>()) || !is_writable(len, size_of::<socklen_t>()) {
        return Err(libc::EFAULT);
    }
    // SAFETY: readable (checked above), and the caller's own.
    if (unsafe { len.read_unaligned() } as usize) < size_of::<T>() {
        return Err(libc::EINVAL);
    }
    if !is_writable(value, size_of::<T>()) {
        return Err(libc::EFAULT);
    }
    // SAFETY: writable (checked above), and the caller's own.
    unsafe { value.cast::<T>().write_unaligned(told) };
    // SAFETY: the same.
    unsafe { len.write_unaligned(size_of::<T>() as socklen_t) };
    Ok(())
}
