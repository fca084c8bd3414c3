//! The C library's own functions, behind ours.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    FILE, c_char, c_int, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr,
    nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

macro_rules! real_functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// Where the functions are; null as long as they were not looked up.
        struct Addresses {
            $($name: AtomicPtr<c_void>,)*
        }

        static ADDRESSES: Addresses = Addresses {
            $($name: AtomicPtr::new(ptr::null_mut()),)*
        };

        /// Looks every function up, so that no hook has to do it at a bad moment, in a signal handler for example.
        pub(crate) fn resolve_all() {
            $(resolve(&ADDRESSES.$name, concat!(stringify!($name), "\0"));)*
        }

        $(
            /// # Safety
            /// That of the C library's function of this name.
            #[inline]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                let mut address = ADDRESSES.$name.load(Ordering::Relaxed);
                if address.is_null() {
                    address = resolve(&ADDRESSES.$name, concat!(stringify!($name), "\0"));
                }
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                // SAFETY: the dynamic linker found the function by its name, and the type is its prototype (libc
                // headers). A stand-in for a missing function ignores its arguments.
                let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
                // SAFETY: the caller's promise.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

real_functions! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn closefrom(first: c_int) -> ();
    fn dup(fd: c_int) -> c_int;
    fn dup2(old: c_int, new: c_int) -> c_int;
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int;
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t;
    fn __read_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t) -> ssize_t;
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn __recv_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    fn __recvfrom_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, size: size_t) -> c_int;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, size: size_t) -> c_int;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn epoll_ctl(epfd: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fn siginterrupt(signal: c_int, flag: c_int) -> c_int;
    fn pthread_testcancel() -> ();
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
}

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
