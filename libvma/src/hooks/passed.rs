//! Descriptors in messages (`SCM_RIGHTS`): whoever receives one sees the kernel's socket only.

use std::slice;

use libc::{c_int, msghdr};

use crate::guard::contained;
use crate::runtime;

/// Leaves the sockets whose descriptors a message carries to the kernel.
///
/// # Safety
/// `message` must be null or valid for `sendmsg(2)`.
pub(super) unsafe fn leave_to_kernel(message: *const msghdr) {
    // SAFETY: the caller's promise.
    let Some(header) = (unsafe { message.as_ref() }) else {
        return;
    };
    if header.msg_controllen == 0 || header.msg_control.is_null() {
        return;
    }
    let Some(engine) = runtime::engine() else {
        return;
    };
    // SAFETY: the control data are readable for their length (sendmsg(2)); the macros stay within it.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(message) };
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
            let descriptors = unsafe { slice::from_raw_parts(data, count) };
            let _ = contained(|| {
                descriptors
                    .iter()
                    .for_each(|fd| engine.descriptor_passed(*fd))
            });
        }
        // SAFETY: as above.
        control = unsafe { libc::CMSG_NXTHDR(message, control) };
    }
}
