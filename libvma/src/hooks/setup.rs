//! Calls that set a socket up.

use engine::Reason;
use libc::{c_int, sockaddr, socklen_t};

use super::define::hook;
use super::trace::traced;
use super::{numbers, stream_calls};
use crate::guard::{contained, errno, fail};
use crate::{call, internal_thread, real, runtime};

hook! {
    /// `bind(2)`
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        runtime::recall(fd);
        // SAFETY: the arguments are the caller's own.
        followed("bind", fd, unsafe { real::bind(fd, address, len) })
    }
}

hook! {
    /// `connect(2)`
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        runtime::recall(fd);
        // SAFETY: the address is the caller's own.
        if let Some(result) = unsafe { stream_calls::connect(fd, address, len) } {
            return traced("connect", fd, result);
        }
        // SAFETY: the arguments are the caller's own.
        let result = followed("connect", fd, unsafe { real::connect(fd, address, len) });
        if result == 0 {
            // To `AF_UNSPEC`, perhaps.
            stream_calls::may_have_stopped_listening(fd);
        }
        result
    }
}

hook! {
    /// `connect(2)` by another name
    fn __connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: the arguments are the caller's own.
        unsafe { connect(fd, address, len) }
    }
}

/// The kernel's socket has other addresses now, if the call succeeded.
fn followed(name: &str, fd: c_int, result: c_int) -> c_int {
    traced(name, fd, result);
    if result == 0 {
        runtime::look_for_shared_port(fd);
    }
    if result == 0
        && let Some((engine, socket)) = runtime::udp(fd)
    {
        call::addresses_changed(engine, socket);
    }
    result
}

hook! {
    /// `shutdown(2)`: what it ends are calls on the kernel's socket, so they must be the kernel's
    /// from here on.
    fn shutdown(fd: c_int, how: c_int) -> c_int {
        runtime::recall(fd);
        if let Some(result) = stream_calls::shut_down(fd, how) {
            return traced("shutdown", fd, result);
        }
        // SAFETY: integers.
        let result = traced("shutdown", fd, unsafe { real::shutdown(fd, how) });
        if result == 0 {
            stream_calls::may_have_stopped_listening(fd);
        }
        // An unconnected socket is shut down, too, in spite of the error.
        if (result == 0 || errno() == libc::ENOTCONN)
            && let Some((engine, socket)) = runtime::udp(fd) {
            let _ = contained(|| engine.leave_to_kernel(socket, Reason::ShutDown));
        }
        result
    }
}

hook! {
    /// `getsockname(2)`
    fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        if let Some((engine, socket)) = runtime::own_udp(fd)
            && engine.settings().getsockname_dummy_send
        {
            let _ = contained(|| socket.dummy_send_one());
        }
        // SAFETY: the arguments are the caller's own.
        traced("getsockname", fd, unsafe { real::getsockname(fd, address, len) })
    }
}

hook! {
    /// `getpeername(2)`
    fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        if stream_calls::has_no_peer(fd) {
            return traced("getpeername", fd, fail(libc::ENOTCONN));
        }
        // SAFETY: the arguments are the caller's own.
        traced("getpeername", fd, unsafe { real::getpeername(fd, address, len) })
    }
}

hook! {
    /// `accept(2)`
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the pointers are the caller's own.
        if let Some(result) = unsafe { stream_calls::accept(fd, address, len, 0) } {
            return result;
        }
        // SAFETY: the arguments are the caller's own.
        let accepted = numbers::number_reused(unsafe { real::accept(fd, address, len) });
        stream_calls::kernel_has_accepted(fd, accepted, 0)
    }
}

hook! {
    /// `accept4(2)`
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: the pointers are the caller's own.
        if let Some(result) = unsafe { stream_calls::accept(fd, address, len, flags) } {
            return result;
        }
        // SAFETY: the arguments are the caller's own.
        let accepted = numbers::number_reused(unsafe { real::accept4(fd, address, len, flags) });
        stream_calls::kernel_has_accepted(fd, accepted, flags)
    }
}

hook! {
    /// `listen(2)`
    fn listen(fd: c_int, backlog: c_int) -> c_int {
        runtime::recall(fd);
        // Before, if it has its port: what comes from here on must not find the kernel's socket
        // alone.
        let listens = |is_made: bool| {
            if let Some((engine, socket)) = runtime::stream(fd) {
                let _ = contained(|| {
                    socket.listens(engine, fd, backlog, is_made);
                    internal_thread::start_when_needed(engine);
                });
            }
        };
        listens(false);
        // SAFETY: integers.
        let result = traced("listen", fd, unsafe { real::listen(fd, backlog) });
        if result == 0 {
            listens(true);
        } else if let Some((engine, socket)) = runtime::stream(fd)
            && (socket.is_listener() || socket.waits_to_listen())
        {
            let _ = contained(|| engine.leave_to_kernel(socket, Reason::Message));
        }
        result
    }
}
