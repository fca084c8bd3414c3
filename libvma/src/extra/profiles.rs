//! Kinds of rings. Those of AF_XDP bring packets, in memory of the library's.

use engine::PACKET_RING_PROFILE;
use engine::user_memory::{is_readable, is_writable};
use libc::c_int;
use vma_api::abi::RingTypeAttr;

use crate::guard::fail;

/// `VMA_RING_PACKET`
const PACKETS: u32 = 0;

/// Gives the number of a kind of rings, for `SO_VMA_RING_ALLOC_LOGIC`.
pub(super) unsafe extern "C" fn vma_add_ring_profile(
    profile: *mut RingTypeAttr,
    key: *mut c_int,
) -> c_int {
    if !is_readable(profile, size_of::<RingTypeAttr>()) || !is_writable(key, size_of::<c_int>()) {
        return fail(libc::EINVAL);
    }
    // SAFETY: readable (checked above), and the program's own.
    let profile = unsafe { profile.read_unaligned() };
    if profile.ring_type != PACKETS {
        return fail(libc::EOPNOTSUPP);
    }
    // SAFETY: writable (checked above), and the program's own.
    unsafe { key.write_unaligned(PACKET_RING_PROFILE) };
    0
}
