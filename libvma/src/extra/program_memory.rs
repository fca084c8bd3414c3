//! Frames in memory of the program's (`vma_api_t::ioctl` with `CMSG_VMA_IOCTL_USER_ALLOC`).

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::Allocate;
use engine::user_memory::is_readable;
use libc::{c_int, c_void, cmsghdr, size_t};

use crate::guard::fail;
use crate::process_state::engine;

/// `CMSG_VMA_IOCTL_USER_ALLOC`
const USER_ALLOC: c_int = 2900;
/// `VMA_IOCTL_USER_ALLOC_FLAG_TX`, `VMA_IOCTL_USER_ALLOC_FLAG_RX`: one pool is for both.
const DIRECTIONS: u8 = 1 | 2;
/// `struct vma_cmsg_ioctl_user_alloc_t`
const USER_ALLOC_BYTES: usize = 1 + 2 * size_of::<usize>();
const HEADER_BYTES: usize = size_of::<cmsghdr>();

/// The address of the program's function; 0 if it has not said any.
static ALLOCATE: AtomicUsize = AtomicUsize::new(0);

/// The function that gives the memory of frames, if the program has one.
pub(crate) fn program_memory() -> Option<Allocate> {
    let address = ALLOCATE.load(Ordering::Acquire);
    // SAFETY: 0, or a function of this type, as the program has said.
    unsafe { std::mem::transmute::<usize, Option<Allocate>>(address) }
}

/// What one control message asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// Nothing that is known here.
    Nothing,
    /// Frames are to be had of this function.
    Memory(usize),
    /// It is malformed.
    Malformed,
}

impl Asked {
    fn of(kind: c_int, data: &[u8]) -> Self {
        if kind != USER_ALLOC {
            return Self::Nothing;
        }
        let word = |at: usize| {
            let bytes = data.get(at..)?.first_chunk()?;
            Some(usize::from_ne_bytes(*bytes)).filter(|word| *word != 0)
        };
        let flags = data.first().copied().unwrap_or(0);
        let has_room = data.len() == USER_ALLOC_BYTES && flags & DIRECTIONS != 0;
        match (word(1), word(1 + size_of::<usize>())) {
            (Some(allocate), Some(_free)) if has_room => Self::Memory(allocate),
            _ => Self::Malformed,
        }
    }
}

/// Takes settings of the library, as control messages. They count for what is made later: with a
/// pool there is already, `EINVAL`.
pub(super) unsafe extern "C" fn ioctl(messages: *mut c_void, len: size_t) -> c_int {
    if messages.is_null() || !is_readable(messages, len) {
        return fail(libc::EINVAL);
    }
    let mut rest = len;
    let mut at = messages.cast_const().cast::<u8>();
    while rest >= HEADER_BYTES {
        // SAFETY: readable (checked above), and the program's own.
        let header = unsafe { at.cast::<cmsghdr>().read_unaligned() };
        let message_len = header.cmsg_len;
        if message_len < HEADER_BYTES || message_len > rest {
            return fail(libc::EINVAL);
        }
        let data = at.wrapping_add(HEADER_BYTES);
        // SAFETY: within what is readable (checked above), and the program's own.
        let data = unsafe { std::slice::from_raw_parts(data, message_len - HEADER_BYTES) };
        match Asked::of(header.cmsg_type, data) {
            Asked::Nothing => {}
            Asked::Memory(allocate) if engine().is_none() => {
                ALLOCATE.store(allocate, Ordering::Release);
            }
            Asked::Memory(_) | Asked::Malformed => return fail(libc::EINVAL),
        }
        let aligned = message_len.next_multiple_of(size_of::<usize>()).min(rest);
        at = at.wrapping_add(aligned);
        rest -= aligned;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_two_functions_and_a_direction() {
        let data = |flags: u8, allocate: usize, free: usize| {
            let words = [allocate.to_ne_bytes(), free.to_ne_bytes()].concat();
            [&[flags][..], &words].concat()
        };
        for (kind, data, expected) in [
            (USER_ALLOC, data(2, 77, 78), Asked::Memory(77)),
            (USER_ALLOC, data(3, 77, 78), Asked::Memory(77)),
            (USER_ALLOC, data(0, 77, 78), Asked::Malformed),
            (USER_ALLOC, data(4, 77, 78), Asked::Malformed),
            (USER_ALLOC, data(1, 0, 78), Asked::Malformed),
            (USER_ALLOC, data(1, 77, 0), Asked::Malformed),
            (USER_ALLOC, data(1, 77, 78)[..16].to_vec(), Asked::Malformed),
            (USER_ALLOC, Vec::new(), Asked::Malformed),
            (USER_ALLOC + 1, data(1, 77, 78), Asked::Nothing),
        ] {
            assert_eq!(Asked::of(kind, &data), expected, "{kind} {data:?}");
        }
    }
}
