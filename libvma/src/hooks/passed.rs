//! Descriptors in messages (`SCM_RIGHTS`): whoever receives one sees the kernel's socket only, and has a new number for it.

use std::slice;

use engine::user_memory::is_readable;
use libc::{c_int, msghdr};

use super::descriptor;
use crate::guard::contained;
use crate::runtime;

/// Leaves the sockets whose descriptors a message carries to the kernel.
///
/// # Safety
/// `message` must be null or valid for `sendmsg(2)`.
pub(super) unsafe fn leave_to_kernel(message: *const msghdr) {
    let pass = |fds: &[c_int]| {
        runtime::recall_all(fds.iter().copied());
        if let Some(engine) = runtime::engine() {
            let _ = contained(|| fds.iter().for_each(|fd| engine.descriptor_passed(*fd)));
        }
    };
    // SAFETY: the caller's promise.
    unsafe { for_each(message, pass) };
}

/// Forgets what the numbers of received descriptors stood for.
///
/// # Safety
/// `message` must be null or as `recvmsg(2)` has left it.
pub(super) unsafe fn descriptors_arrived(message: *const msghdr) {
    // SAFETY: the caller's promise.
    unsafe {
        for_each(message, |fds| {
            fds.iter().for_each(|fd| descriptor::forget(*fd))
        })
    };
}

/// More than the kernel takes (`net.core.optmem_max`).
const CONTROL_BYTES_MAX: usize = 1 << 20;

/// Shows the lists of descriptors in a message, if the library is at work.
///
/// # Safety
/// What `message` leads to must be the program's own.
#[inline]
unsafe fn for_each(message: *const msghdr, each: impl FnMut(&[c_int])) {
    let is_at_work = runtime::engine().is_some() || runtime::has_ancestors();
    // Bad pointers are the kernel's to find.
    if !is_at_work || !is_readable(message, size_of::<msghdr>()) {
        return;
    }
    // SAFETY: readable (checked above), and the program's own.
    let header = unsafe { &*message };
    let len = header.msg_controllen;
    if len == 0 || len > CONTROL_BYTES_MAX || !is_readable(header.msg_control, len) {
        return;
    }
    // SAFETY: the control data are readable for their length (checked above).
    unsafe { for_each_part(header, each) };
}

/// # Safety
/// The control data must be readable for their length.
#[cold]
unsafe fn for_each_part(header: &msghdr, mut each: impl FnMut(&[c_int])) {
    // SAFETY: the control data are readable for their length (the caller's promise); the macros stay within it.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null, or a header within the control data.
    while let Some(part) = unsafe { control.as_ref() } {
        // SAFETY: integers.
        let head_len = unsafe { libc::CMSG_LEN(0) } as usize;
        let data_len = part.cmsg_len.saturating_sub(head_len);
        if part.cmsg_level == libc::SOL_SOCKET && part.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: the part is a header within the control data.
            let data = unsafe { libc::CMSG_DATA(control) }.cast::<c_int>();
            let room =
                (header.msg_control.addr() + header.msg_controllen).saturating_sub(data.addr());
            let count = data_len.min(room) / size_of::<c_int>();
            // SAFETY: `count` descriptors lie within the control data, which are aligned for them (cmsg(3)).
            each(unsafe { slice::from_raw_parts(data, count) });
        }
        // SAFETY: as above.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
}
