//! What has no meaning on rings of AF_XDP: it says so, once each in the log.

use std::sync::Mutex;

use libc::{c_int, c_void, size_t};

use crate::guard::{contained, fail};

/// `EOPNOTSUPP`
pub(super) fn unsupported(name: &'static str) -> c_int {
    static TOLD: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let is_new = TOLD.lock().is_ok_and(|mut told| {
        let is_new = !told.contains(&name);
        if is_new {
            told.push(name);
        }
        is_new
    });
    if is_new {
        let _ = contained(|| {
            log::warn!("{name} of the extra API has no meaning on rings of AF_XDP");
        });
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
}
