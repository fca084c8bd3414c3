//! The exported functions. Each finds out whether the descriptor is ours; if not, it is a jump to
//! the C library.

mod answers;
#[cfg(target_arch = "x86_64")]
mod by_number;
mod control;
mod create;
mod define;
mod descriptor;
mod epoll;
mod filter;
mod header;
mod list;
mod numbers;
mod options;
mod passed;
mod poll;
mod process;
mod program;
#[cfg(target_arch = "x86_64")]
mod rate_limit;
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
#[cfg(target_arch = "x86_64")]
mod straight;
mod stream;
mod stream_calls;
mod thread;
mod trace;
mod transfer;
mod waits;

use libc::{
    FILE, aiocb, c_char, c_int, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr,
    mode_t, msghdr, nfds_t, off64_t, pid_t, pollfd, sigevent, sighandler_t, sigset_t, size_t,
    sockaddr, socklen_t, ssize_t, timespec, timeval, uid_t,
};

use crate::interposed::interposed;

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
    (@hook creates, $name:ident $arguments:tt) => { numbers::number_reused(crate::real::$name $arguments) };
    (@hook setup, $name:ident $arguments:tt) => { exports!(@open setup, $name $arguments) };
    (@hook control, $name:ident $arguments:tt) => { exports!(@open control, $name $arguments) };
    (@hook options, $name:ident $arguments:tt) => { exports!(@open options, $name $arguments) };
    (@hook receive, $name:ident $arguments:tt) => { exports!(@open receive, $name $arguments) };
    (@hook receive_many, $name:ident $arguments:tt) => { exports!(@open receive_many, $name $arguments) };
    (@hook send, $name:ident $arguments:tt) => { exports!(@open send, $name $arguments) };
    (@open $module:ident, $name:ident($fd:ident $(, $argument:ident)*)) => {
        match numbers::is_own($fd) {
            // To the program the number is not open.
            true => crate::guard::fail(libc::EBADF),
            false => $module::$name($fd $(, $argument)*),
        }
    };
    (@hook $module:ident, $name:ident $arguments:tt) => { $module::$name $arguments };
}
interposed!(exports);
