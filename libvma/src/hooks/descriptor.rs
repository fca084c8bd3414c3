//! Calls that make, change, copy and close descriptors.

use engine::{Reason, Request, own_descriptors};
use libc::{c_int, c_uint, c_ulong, c_void, sockaddr, socklen_t};

use super::hook;
use crate::call;
use crate::guard::{self, contained, errno, fail};
use crate::log_sink;
use crate::real;
use crate::runtime;

hook! {
    /// `socket(2)`
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: integers.
        let fd = unsafe { real::socket(domain, kind, protocol) };
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let is_udp = domain == libc::AF_INET
            && kind & !flags == libc::SOCK_DGRAM
            && matches!(protocol, 0 | libc::IPPROTO_UDP);
        if fd >= 0 && is_udp {
            let _ = contained(|| {
                if let Some(engine) = runtime::start() {
                    engine.socket_opened(fd, kind & libc::SOCK_NONBLOCK != 0);
                }
            });
            runtime::end_if_start_failed();
        } else if fd >= 0 && let Some(engine) = runtime::engine() && engine.look_up(fd).is_some() {
            // The number was closed in a way that no hook has seen.
            let _ = contained(|| engine.descriptor_closes(fd));
        }
        fd
    }
}

hook! {
    /// `close(2)`
    fn close(fd: c_int) -> c_int {
        if is_own(fd) {
            // Programs that close every number there is must not take the interface away from their own sockets.
            return fail(libc::EBADF);
        }
        forget(fd);
        // SAFETY: an integer.
        unsafe { real::close(fd) }
    }
}

/// Whether a descriptor belongs to the library, and the caller does not.
fn is_own(fd: c_int) -> bool {
    runtime::engine().is_some() && own_descriptors::contains(fd) && !guard::is_inside()
}

/// Ends what a descriptor stands for, before the kernel can give its number to another thread.
fn forget(fd: c_int) {
    if let Some(engine) = runtime::engine()
        && engine.look_up(fd).is_some()
    {
        let _ = contained(|| engine.descriptor_closes(fd));
    }
}

hook! {
    /// `close_range(2)`; the library's own descriptors stay open.
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        const CLOEXEC: c_int = 1 << 2;
        let Some(engine) = runtime::engine().filter(|_| flags & CLOEXEC == 0) else {
            // SAFETY: integers.
            return unsafe { real::close_range(first, last, flags) };
        };
        let mut gaps = Vec::new();
        let _ = contained(|| {
            engine.descriptors_close(first, last);
            gaps = own_descriptors::ranges_without(first, last);
        });
        if gaps.is_empty() {
            gaps.push((first, last));
        }
        for (first, last) in gaps {
            // SAFETY: integers.
            let result = unsafe { real::close_range(first, last, flags) };
            if result != 0 {
                return result;
            }
        }
        0
    }
}

hook! {
    /// `closefrom(3)`
    fn closefrom(first: c_int) -> () {
        // SAFETY: integers.
        if unsafe { close_range(first.max(0).cast_unsigned(), c_uint::MAX, 0) } != 0 {
            // SAFETY: an integer.
            unsafe { real::closefrom(first) };
        }
    }
}

/// `new` is another descriptor of what `old` stands for, if `new` is one at all.
fn duplicated(old: c_int, new: c_int) -> c_int {
    if new == libc::STDERR_FILENO && old != new {
        log_sink::standard_error_is_for_the_log();
    }
    if new >= 0
        && let Some(engine) = runtime::engine()
        && engine.look_up(old).is_some()
    {
        let _ = contained(|| engine.descriptor_duplicated(old, new));
    }
    new
}

hook! {
    /// `dup(2)`
    fn dup(fd: c_int) -> c_int {
        // SAFETY: an integer.
        duplicated(fd, unsafe { real::dup(fd) })
    }
}

hook! {
    /// `dup2(2)`
    fn dup2(old: c_int, new: c_int) -> c_int {
        if is_own(new) {
            return fail(libc::EBUSY);
        }
        if old != new {
            forget(new);
        }
        // SAFETY: integers.
        duplicated(old, unsafe { real::dup2(old, new) })
    }
}

hook! {
    /// `dup3(2)`
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
        if is_own(new) {
            return fail(libc::EBUSY);
        }
        if old != new {
            forget(new);
        }
        // SAFETY: integers.
        duplicated(old, unsafe { real::dup3(old, new, flags) })
    }
}

hook! {
    /// `bind(2)`
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::bind(fd, address, len) };
        followed(fd, result)
    }
}

hook! {
    /// `connect(2)`
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::connect(fd, address, len) };
        followed(fd, result)
    }
}

/// The kernel's socket has other addresses now, if the call succeeded.
fn followed(fd: c_int, result: c_int) -> c_int {
    if result == 0
        && let Some((engine, socket)) = runtime::udp(fd)
    {
        call::addresses_changed(engine, socket);
    }
    result
}

hook! {
    /// `shutdown(2)`: what it ends are calls on the kernel's socket, so they must be the kernel's from here on.
    fn shutdown(fd: c_int, how: c_int) -> c_int {
        // SAFETY: integers.
        let result = unsafe { real::shutdown(fd, how) };
        // An unconnected socket is shut down, too, in spite of the error.
        if (result == 0 || errno() == libc::ENOTCONN)
            && let Some((engine, socket)) = runtime::udp(fd) {
            let _ = contained(|| engine.leave_to_kernel(socket, Reason::ShutDown));
        }
        result
    }
}

hook! {
    /// `setsockopt(2)`
    fn setsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        len: socklen_t,
    ) -> c_int {
        if is_refused(fd, Request::Option { level, name }) {
            return fail(libc::EINVAL);
        }
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::setsockopt(fd, level, name, value, len) };
        if result == 0 && let Some((engine, socket)) = runtime::udp(fd) {
            let _ = contained(|| engine.option_was_set(socket, level, name));
        }
        result
    }
}

/// Whether a request is not even to be tried.
fn is_refused(fd: c_int, request: Request) -> bool {
    runtime::udp(fd).is_some_and(|(engine, socket)| call::is_refused(engine, socket, request))
}

/// Whether an `fcntl(2)` is not even to be tried.
fn is_refused_control(fd: c_int, command: c_int, argument: *mut c_void) -> bool {
    command == libc::F_SETFL
        && argument.addr() & libc::O_ASYNC as usize != 0
        && is_refused(fd, Request::SignalDriven)
}

/// What follows a successful `fcntl(2)`.
fn controlled(fd: c_int, command: c_int, result: c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(fd, result),
        libc::F_SETFL if result == 0 => flags_changed(fd, result),
        _ => result,
    }
}

fn flags_changed(fd: c_int, result: c_int) -> c_int {
    if let Some((engine, socket)) = runtime::udp(fd) {
        let _ = contained(|| engine.status_flags_changed(socket));
    }
    result
}

hook! {
    /// `fcntl(2)`. It takes its third argument in the same register whether that is variadic or not.
    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        if is_refused_control(fd, command, argument) {
            return fail(libc::EINVAL);
        }
        // SAFETY: the arguments are the caller's own.
        controlled(fd, command, unsafe { real::fcntl(fd, command, argument) })
    }
}

hook! {
    /// `fcntl(2)` of programs built for 64-bit file offsets
    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        if is_refused_control(fd, command, argument) {
            return fail(libc::EINVAL);
        }
        // SAFETY: the arguments are the caller's own.
        controlled(fd, command, unsafe { real::fcntl64(fd, command, argument) })
    }
}

hook! {
    /// `ioctl(2)`. It takes its third argument in the same register whether that is variadic or not.
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        if request == libc::FIOASYNC
            && !argument.is_null()
            // SAFETY: the caller passes an int.
            && unsafe { argument.cast::<c_int>().read_unaligned() } != 0
            && is_refused(fd, Request::SignalDriven)
        {
            return fail(libc::EINVAL);
        }
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::ioctl(fd, request, argument) };
        if result != 0 {
            return result;
        }
        match request {
            libc::FIONBIO | libc::FIOASYNC => flags_changed(fd, result),
            libc::FIONREAD => {
                let next = runtime::udp(fd)
                    .and_then(|(_, socket)| contained(|| socket.next_len_after_poll()).ok().flatten());
                if let Some(len) = next {
                    // SAFETY: the kernel has just written an int there.
                    unsafe { *argument.cast::<c_int>() = c_int::try_from(len).unwrap_or(c_int::MAX) };
                }
                result
            }
            _ => result,
        }
    }
}
