//! Changes of a ring (`vma_modify_ring`).

use std::time::Duration;

use engine::user_memory::is_readable;
use engine::{Errno, Moderation};
use libc::c_int;
use vma_api::abi::ModifyRingAttr;

use super::unsupported::unsupported;
use crate::guard::{contained, fail};
use crate::process_state::engine;

/// `VMA_MODIFY_RING_CQ_MODERATION`, `VMA_MODIFY_RING_CQ_ARM`
const MODERATION: u32 = 1;
const ARM: u32 = 2;

/// Changes how wake-ups by a ring are moderated. A ring of AF_XDP need not be armed.
pub(super) unsafe extern "C" fn vma_modify_ring(attr: *mut ModifyRingAttr) -> c_int {
    if !is_readable(attr, size_of::<ModifyRingAttr>()) {
        return fail(libc::EINVAL);
    }
    // SAFETY: readable (checked above), and the program's own.
    let attr = unsafe { attr.read_unaligned() };
    match attr.comp_bit_mask {
        mask if mask & ARM != 0 => return unsupported("VMA_MODIFY_RING_CQ_ARM"),
        mask if mask & MODERATION == 0 => return fail(libc::EINVAL),
        _ => {}
    }
    let moderation = Moderation {
        period: Duration::from_micros(attr.cq_moderation_period_usec.into()),
        packets: attr.cq_moderation_count,
    };
    let changed = contained(|| {
        let engine = engine().ok_or(Errno(libc::EBADFD))?;
        engine.moderate_ring(attr.ring_fd, moderation)
    });
    match changed {
        Ok(Ok(())) => 0,
        Ok(Err(Errno(errno))) => fail(errno),
        Err(_) => fail(libc::EINVAL),
    }
}
