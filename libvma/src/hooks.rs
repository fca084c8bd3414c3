//! The exported functions. Each finds out whether the descriptor is ours; if not, it is a jump to
//! the C library.

mod answers;
#[cfg(target_arch = "x86_64")]
pub(crate) mod by_number;
mod create;
mod descriptor;
mod epoll;
mod filter;
mod header;
mod list;
mod passed;
mod poll;
mod process;
mod program;
#[cfg(target_arch = "x86_64")]
mod raw;
mod receive;
mod receive_many;
mod rights;
#[cfg(target_arch = "x86_64")]
mod ring;
mod select;
mod send;
mod setup;
mod signal;
mod spawn;
mod stream;
mod stream_calls;
mod thread;
mod transfer;
mod waits;

use libc::{
    FILE, aiocb, c_char, c_int, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr,
    mode_t, msghdr, nfds_t, off64_t, pid_t, pollfd, sigevent, sighandler_t, sigset_t, size_t,
    sockaddr, socklen_t, ssize_t, timespec, timeval, uid_t,
};

use crate::interposed::interposed;

/// A hook: the function of the C library's name that the table of interposed functions exports.
macro_rules! hook {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// That of the C library's function of this name.
        #[inline]
        pub(super) unsafe fn $name($($argument: $type),*) -> $result $body
    };
}
use hook;

/// Exports the table's functions under their C names.
macro_rules! exports {
    ($($(#[$why:meta])+ fn $name:ident $arguments:tt -> $result:ty => $hook:ident;)*) => {
        $(exports! { @export $hook, $name $arguments -> $result })*
    };
    (@export called, $($prototype:tt)*) => {};
    (@export variadic, $($prototype:tt)*) => {};
    (@export $hook:ident, $name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
        /// # Safety
        /// That of the C library's function of this name.
        #[unsafe(no_mangle)]
        #[allow(unreachable_pub, reason = "exported by its C name")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller's promise.
            unsafe { exports!(@hook $hook, $name($($argument),*)) }
        }
    };
    (@hook creates, $name:ident $arguments:tt) => { create::number_reused(crate::real::$name $arguments) };
    (@hook setup, $name:ident $arguments:tt) => { exports!(@open setup, $name $arguments) };
    (@hook receive, $name:ident $arguments:tt) => { exports!(@open receive, $name $arguments) };
    (@hook receive_many, $name:ident $arguments:tt) => { exports!(@open receive_many, $name $arguments) };
    (@hook send, $name:ident $arguments:tt) => { exports!(@open send, $name $arguments) };
    (@open $module:ident, $name:ident($fd:ident $(, $argument:ident)*)) => {
        match descriptor::is_own($fd) {
            // To the program the number is not open.
            true => crate::guard::fail(libc::EBADF),
            false => $module::$name($fd $(, $argument)*),
        }
    };
    (@hook $module:ident, $name:ident $arguments:tt) => { $module::$name $arguments };
}
interposed!(exports);
