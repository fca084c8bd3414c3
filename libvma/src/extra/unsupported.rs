//! Functions that the table has no bit for: they say so, once in the log.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void, size_t};
use vma_api::abi::ModifyRingAttr;

use crate::guard::{contained, fail};

static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// `EOPNOTSUPP`
fn unsupported(name: &str) -> c_int {
    if !IS_TOLD.swap(true, Ordering::Relaxed) {
        let _ = contained(|| log::warn!("{name} of the extra API is not supported yet"));
    }
    fail(libc::EOPNOTSUPP)
}

macro_rules! unsupported {
    ($($name:ident($($argument:ty),*);)+) => {$(
        pub(super) unsafe extern "C" fn $name($(_: $argument),*) -> c_int {
            unsupported(stringify!($name))
        }
    )+};
}

unsupported! {
    get_ring_direct_descriptors(c_int, *mut c_void);
    register_memory_on_ring(c_int, *mut c_void, size_t, *mut u32);
    deregister_memory_on_ring(c_int, *mut c_void, size_t);
    vma_modify_ring(*mut ModifyRingAttr);
    ioctl(*mut c_void, size_t);
}
