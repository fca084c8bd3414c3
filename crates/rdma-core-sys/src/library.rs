//! The functions of `libibverbs.so.1`, by name and version of the interface.

use std::ffi::CStr;
use std::fmt;
use std::mem::transmute_copy;
use std::ptr::NonNull;

use libc::{c_char, c_int, c_uint, c_void};

use crate::structures::{
    ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_mr,
    ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};

const LIBRARY: &CStr = c"libibverbs.so.1";

/// Why there is no verbs library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $version:literal: fn($($parameter:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library. It stays loaded.
        #[derive(Debug)]
        #[allow(clippy::type_complexity, reason = "prototypes are as long as in C")]
        pub struct Verbs {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($parameter),*) $(-> $result)?,)*
        }

        impl Verbs {
            fn of(library: NonNull<c_void>) -> Result<Self, Missing> {
                Ok(Self {
                    $($name: {
                        let symbol = symbol(
                            library,
                            concat!(stringify!($name), "\0"),
                            concat!($version, "\0"),
                        )?;
                        // SAFETY: it is a function's address, and that version of the function has
                        // this prototype.
                        unsafe { transmute_copy(&symbol) }
                    },)*
                })
            }

            /// Names and versions of all of them.
            pub const SYMBOLS: &[(&str, &str)] = &[$((stringify!($name), $version)),*];
        }
    };
}

functions! {
    ibv_fork_init, "IBVERBS_1.1": fn() -> c_int;
    ibv_get_device_list, "IBVERBS_1.1": fn(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list, "IBVERBS_1.1": fn(*mut *mut ibv_device);
    ibv_open_device, "IBVERBS_1.1": fn(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device, "IBVERBS_1.1": fn(*mut ibv_context) -> c_int;
    ibv_query_device, "IBVERBS_1.1": fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    ibv_get_async_event, "IBVERBS_1.1": fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
    ibv_ack_async_event, "IBVERBS_1.1": fn(*mut ibv_async_event);
    ibv_alloc_pd, "IBVERBS_1.1": fn(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd, "IBVERBS_1.1": fn(*mut ibv_pd) -> c_int;
    ibv_reg_mr, "IBVERBS_1.1": fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    ibv_dereg_mr, "IBVERBS_1.1": fn(*mut ibv_mr) -> c_int;
    ibv_create_comp_channel, "IBVERBS_1.0": fn(*mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel, "IBVERBS_1.0": fn(*mut ibv_comp_channel) -> c_int;
    ibv_create_cq, "IBVERBS_1.1":
        fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    ibv_destroy_cq, "IBVERBS_1.1": fn(*mut ibv_cq) -> c_int;
    ibv_get_cq_event, "IBVERBS_1.1":
        fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events, "IBVERBS_1.1": fn(*mut ibv_cq, c_uint);
    ibv_create_qp, "IBVERBS_1.1": fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp, "IBVERBS_1.1": fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_destroy_qp, "IBVERBS_1.1": fn(*mut ibv_qp) -> c_int;
    ibv_wc_status_str, "IBVERBS_1.1": fn(u32) -> *const c_char;
}

impl Verbs {
    /// Loads the library.
    ///
    /// # Errors
    /// It is not installed, or lacks a function.
    pub fn load() -> Result<Self, Missing> {
        // SAFETY: the library's constructors look at the environment, nothing else.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let library = NonNull::new(library).ok_or_else(last_error)?;
        Self::of(library)
    }
}

fn symbol(library: NonNull<c_void>, name: &str, version: &str) -> Result<NonNull<c_void>, Missing> {
    let (name, version) = (name.as_ptr().cast(), version.as_ptr().cast());
    // SAFETY: both end with a zero byte, and the library is loaded.
    let address = unsafe { libc::dlvsym(library.as_ptr(), name, version) };
    NonNull::new(address).ok_or_else(last_error)
}

fn last_error() -> Missing {
    // SAFETY: the text is the thread's own, until its next call.
    let text = unsafe { libc::dlerror().as_ref() };
    // SAFETY: a text of the C library's ends with a zero byte.
    let text = text.map(|text| unsafe { CStr::from_ptr(text) });
    let text = text.map_or_else(|| LIBRARY.to_string_lossy(), CStr::to_string_lossy);
    Missing(text.into_owned())
}
