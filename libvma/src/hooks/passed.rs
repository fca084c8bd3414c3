//! Descriptors in messages (`SCM_RIGHTS`): whoever receives one sees the kernel's socket only, and
//! has a new number for it.

use engine::user_memory::is_readable;
use libc::{c_int, c_uint, cmsghdr, mmsghdr, msghdr};

use super::numbers;
use crate::guard::contained;
use crate::{process_state, runtime};

/// Leaves the sockets whose descriptors a message carries to the kernel.
///
/// # Safety
/// `message` must be null or valid for `sendmsg(2)`.
pub(super) unsafe fn leave_to_kernel(message: *const msghdr) {
    let pass = |fds: &[c_int]| {
        runtime::recall_all(fds.iter().copied());
        if let Some(engine) = process_state::engine() {
            let _ = contained(|| fds.iter().for_each(|fd| engine.descriptor_passed(*fd)));
        }
    };
    // SAFETY: the caller's promise.
    unsafe { for_each(message, pass) };
}

/// The same for each of several messages.
///
/// # Safety
/// What `messages` leads to must be the program's own.
pub(super) unsafe fn leave_all_to_kernel(messages: *const mmsghdr, count: c_uint) {
    for index in 0..count {
        let message = messages.wrapping_add(index as usize);
        // SAFETY: the caller's promise; the header is the first field.
        unsafe { leave_to_kernel(message.cast::<msghdr>()) };
    }
}

/// Forgets what the numbers of received descriptors stood for.
///
/// # Safety
/// `message` must be null or as `recvmsg(2)` has left it.
pub(super) unsafe fn descriptors_arrived(message: *const msghdr) {
    // SAFETY: the caller's promise.
    unsafe {
        for_each(message, |fds| {
            fds.iter().for_each(|fd| numbers::forget(*fd))
        })
    };
}

/// The same for each of several messages, of which `recvmmsg(2)` has received `received`.
///
/// # Safety
/// The kernel must have filled that many messages in.
pub(super) unsafe fn messages_arrived(messages: *const mmsghdr, received: c_int) {
    for index in 0..usize::try_from(received).unwrap_or(0) {
        let message = messages.wrapping_add(index);
        // SAFETY: the caller's promise; the header is the first field.
        unsafe { descriptors_arrived(message.cast::<msghdr>()) };
    }
}

/// More than the kernel takes (`net.core.optmem_max`).
const CONTROL_BYTES_MAX: usize = 1 << 20;

/// Shows the lists of descriptors in a message, if the library is at work.
///
/// # Safety
/// What `message` leads to must be the program's own.
#[inline]
unsafe fn for_each(message: *const msghdr, each: impl FnMut(&[c_int])) {
    let is_at_work = process_state::engine().is_some() || runtime::has_ancestors();
    // Bad pointers are the kernel's to find.
    if !is_at_work || !is_readable(message, size_of::<msghdr>()) {
        return;
    }
    // SAFETY: readable (checked above), and the program's own.
    let header = unsafe { message.read_unaligned() };
    let len = header.msg_controllen;
    if len == 0 || len > CONTROL_BYTES_MAX || !is_readable(header.msg_control, len) {
        return;
    }
    // SAFETY: the control data are readable for their length (checked above).
    unsafe { for_each_part(header.msg_control.cast(), len, each) };
}

/// # Safety
/// `len` bytes must be readable.
#[cold]
unsafe fn for_each_part(control: *const u8, len: usize, mut each: impl FnMut(&[c_int])) {
    /// Of a part of the control data: its length, and two numbers. Then come its data, and the next
    /// part at a multiple of this from the first on (cmsg(3)).
    const HEAD_LEN: usize = size_of::<cmsghdr>().next_multiple_of(ALIGNMENT);
    const ALIGNMENT: usize = size_of::<usize>();
    let mut start = 0usize;
    while let Some(room) = len.checked_sub(start).filter(|room| *room >= HEAD_LEN) {
        let part = control.wrapping_add(start);
        // SAFETY: the head of a part lies within the control data (checked above).
        let head = unsafe { part.cast::<cmsghdr>().read_unaligned() };
        #[allow(
            clippy::unnecessary_cast,
            reason = "the field is a socklen_t on other C libraries"
        )]
        let part_len = head.cmsg_len as usize;
        if part_len < HEAD_LEN {
            return;
        }
        if head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_RIGHTS {
            let data = part.wrapping_add(HEAD_LEN).cast::<c_int>();
            let count = (part_len.min(room) - HEAD_LEN) / size_of::<c_int>();
            // SAFETY: `count` descriptors lie within the control data.
            let fd = |index| unsafe { data.wrapping_add(index).read_unaligned() };
            let fds: Vec<_> = (0..count).map(fd).collect();
            each(&fds);
        }
        let Some(next) = part_len.checked_next_multiple_of(ALIGNMENT) else {
            return;
        };
        start = start.saturating_add(next);
    }
}
