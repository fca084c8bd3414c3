//! The functions of `libibverbs.so.1` and `libmlx5.so.1`, by name and version of the interface.

use std::ffi::CStr;
use std::fmt;
use std::mem::transmute_copy;
use std::ptr::NonNull;

use libc::{c_char, c_int, c_uint, c_void};

use crate::mlx5::{mlx5dv_clock_info, mlx5dv_obj};
use crate::structures::{
    ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_mr,
    ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};

/// Why there is no such library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

macro_rules! functions {
    (
        $(#[$about:meta])*
        $library:ident of $file:literal {
            $($name:ident, $version:literal: fn($($parameter:ty),*) $(-> $result:ty)?;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        #[allow(clippy::type_complexity, reason = "prototypes are as long as in C")]
        pub struct $library {
            $(pub $name: unsafe extern "C" fn($($parameter),*) $(-> $result)?,)*
        }

        impl $library {
            /// Names and versions of all of them.
            pub const SYMBOLS: &[(&str, &str)] = &[$((stringify!($name), $version)),*];

            /// Loads the library, which stays loaded.
            ///
            /// # Errors
            /// It is not installed, or lacks a function.
            pub fn load() -> Result<Self, Missing> {
                let library = load($file)?;
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
        }
    };
}

functions! {
    /// The verbs.
    Verbs of c"libibverbs.so.1" {
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
}

functions! {
    /// What ConnectX cards have beside verbs: their queues, to be used without calls.
    Mlx5 of c"libmlx5.so.1" {
        mlx5dv_is_supported, "MLX5_1.8": fn(*mut ibv_device) -> bool;
        mlx5dv_init_obj, "MLX5_1.2": fn(*mut mlx5dv_obj, u64) -> c_int;
        mlx5dv_get_clock_info, "MLX5_1.4": fn(*mut ibv_context, *mut mlx5dv_clock_info) -> c_int;
    }
}

fn load(file: &CStr) -> Result<NonNull<c_void>, Missing> {
    // SAFETY: the libraries' constructors look at the environment, nothing else.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    NonNull::new(library).ok_or_else(|| last_error(file))
}

fn symbol(library: NonNull<c_void>, name: &str, version: &str) -> Result<NonNull<c_void>, Missing> {
    let (name, version) = (name.as_ptr().cast(), version.as_ptr().cast());
    // SAFETY: both end with a zero byte, and the library is loaded.
    let address = unsafe { libc::dlvsym(library.as_ptr(), name, version) };
    NonNull::new(address).ok_or_else(|| last_error(c"no reason"))
}

fn last_error(otherwise: &CStr) -> Missing {
    // SAFETY: the text is the thread's own, until its next call.
    let text = unsafe { libc::dlerror().as_ref() };
    // SAFETY: a text of the C library's ends with a zero byte.
    let text = text.map(|text| unsafe { CStr::from_ptr(text) });
    let text = text.unwrap_or(otherwise).to_string_lossy();
    Missing(text.into_owned())
}
