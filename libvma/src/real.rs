//! The C library's own functions, behind ours.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    FILE, aiocb, c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec,
    mmsghdr, mode_t, msghdr, nfds_t, off64_t, pid_t, pollfd, sigevent, sighandler_t, sigset_t,
    size_t, sockaddr, socklen_t, ssize_t, timespec, timeval, uid_t,
};

use crate::interposed::interposed;

macro_rules! real_functions {
    ($(
        $(#[$why:meta])+
        fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty => $hook:ident;
    )*) => {
        /// Where the functions are; null as long as they were not looked up.
        #[allow(non_snake_case, reason = "the C library's names")]
        struct Addresses {
            $($name: AtomicPtr<c_void>,)*
        }

        static ADDRESSES: Addresses = Addresses {
            $($name: AtomicPtr::new(ptr::null_mut()),)*
        };

        /// Looks every function up, so that no hook has to do it at a bad moment, in a signal
        /// handler for example.
        pub(crate) fn resolve_all() {
            $(resolve(&ADDRESSES.$name, concat!(stringify!($name), "\0"));)*
        }

        $(
            /// # Safety
            /// That of the C library's function of this name.
            #[inline]
            #[allow(dead_code, reason = "a hook may do with another function what that of its own name does")]
            #[allow(non_snake_case, reason = "the C library's names")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                let mut address = ADDRESSES.$name.load(Ordering::Relaxed);
                if address.is_null() {
                    address = resolve(&ADDRESSES.$name, concat!(stringify!($name), "\0"));
                }
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                // SAFETY: the dynamic linker found the function by its name, and the type is its
                // prototype (libc headers). A stand-in for a missing function ignores its
                // arguments.
                let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
                // SAFETY: the caller's promise.
                unsafe { function($($argument),*) }
            }
        )*
    };
}
interposed!(real_functions);

#[cold]
fn resolve(address: &AtomicPtr<c_void>, name: &'static str) -> *mut c_void {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c"");
    // SAFETY: a name that ends with a null byte; RTLD_NEXT is the object after this one.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        found = missing as *mut c_void;
    }
    address.store(found, Ordering::Relaxed);
    found
}

/// Stands in for a function that an older C library does not have.
extern "C" fn missing() -> ssize_t {
    crate::guard::set_errno(libc::ENOSYS);
    -1
}
