//! Calls that set a socket up.

use std::net::IpAddr;
use std::time::SystemTime;

use engine::user_memory::{is_readable, is_writable};
use engine::{
    AnySocket, RING_ASK_BYTES, Reason, Request, RingAsk, SO_VMA_RING_ALLOC_LOGIC,
    changes_membership, group_offset, is_asked_for_later, joins,
};
use libc::{c_int, c_ulong, c_void, sockaddr, socklen_t};

use super::{answers, create, descriptor, hook, stream_calls};
use crate::guard::{contained, errno, fail};
use crate::{call, internal_thread, real, runtime};
use stream_calls::SIOCATMARK;

/// Shows a call on a socket of ours in the log at level fine, as `strace(1)` would, and passes its
/// result on.
#[inline]
pub(super) fn traced(name: &str, fd: c_int, result: c_int) -> c_int {
    if log::log_enabled!(log::Level::Trace) {
        show(name, fd, result);
    }
    result
}

#[cold]
fn show(name: &str, fd: c_int, result: c_int) {
    if runtime::look_up(fd).is_none() {
        return;
    }
    let errno = errno();
    let _ = contained(|| match result {
        0.. => log::trace!("{name}(fd {fd}) = {result}"),
        _ => log::trace!("{name}(fd {fd}) = {result}, errno {errno}"),
    });
}

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

/// `SO_VMA_RING_ALLOC_LOGIC`. `None`: it is no socket of ours, and no option of the kernel's.
///
/// # Safety
/// `value` must be the caller's own.
unsafe fn ask_for_rings(fd: c_int, value: *const c_void, len: socklen_t) -> Option<c_int> {
    let udp = runtime::own_udp(fd).map(|(engine, socket)| (engine, AnySocket::from(socket)));
    let stream = || runtime::stream(fd).map(|(engine, socket)| (engine, socket.into()));
    let (engine, socket) = udp.or_else(stream)?;
    if value.is_null() || len as usize != RING_ASK_BYTES {
        return Some(fail(libc::EINVAL));
    }
    if !is_readable(value, RING_ASK_BYTES) {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: readable (checked above), and the caller's own.
    let value = unsafe { value.cast::<[u8; RING_ASK_BYTES]>().read_unaligned() };
    let Some(ask) = RingAsk::parse(&value) else {
        return Some(fail(libc::EINVAL));
    };
    let _ = contained(|| engine.rings_are_asked_for(socket, ask));
    Some(0)
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
        // The owner of a socket that was inherited would not learn of it.
        if is_asked_for_later(level, name) {
            runtime::comes_back(fd);
        } else {
            runtime::recall(fd);
        }
        if level == libc::SOL_SOCKET && name == SO_VMA_RING_ALLOC_LOGIC {
            // SAFETY: the value is the caller's own.
            if let Some(result) = unsafe { ask_for_rings(fd, value, len) } {
                return traced("setsockopt", fd, result);
            }
        }
        if is_refused(fd, Request::Option { level, name }) {
            return fail(libc::EINVAL);
        }
        // SAFETY: the value is the caller's own.
        if let Some(result) = unsafe { stream_calls::set_option(fd, level, name, value, len) } {
            return traced("setsockopt", fd, result);
        }
        // SAFETY: the arguments are the caller's own.
        let result = traced("setsockopt", fd, unsafe { real::setsockopt(fd, level, name, value, len) });
        if result == 0 && let Some((engine, socket)) = runtime::own_udp(fd) {
            if level == libc::IPPROTO_IP && name == libc::IP_MULTICAST_IF {
                let len = (len as usize).min(MREQN_LEN);
                // SAFETY: the kernel has just read so many bytes there.
                let value = unsafe { std::slice::from_raw_parts(value.cast(), len) };
                let _ = contained(|| socket.group_interface_was_set(engine, value));
            }
            if level == libc::IPPROTO_IPV6 && name == libc::IPV6_MTU {
                // SAFETY: the kernel has just read an int there, which is not negative.
                let len = unsafe { value.cast::<u32>().read_unaligned() };
                let _ = contained(|| socket.packet_len_was_set(len));
            }
            let _ = contained(|| engine.option_was_set(socket, level, name));
            if changes_membership(level, name) {
                let group = value.cast::<u8>().wrapping_add(group_offset(level, name));
                // SAFETY: the kernel has just read the group's address there.
                let group = unsafe { group_at(group, level) };
                call::membership_changed(engine, socket, group, joins(level, name));
            }
        } else if result == 0 {
            stream_calls::option_was_set(fd, level, name);
        }
        result
    }
}

hook! {
    /// `getsockopt(2)`
    fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> c_int {
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_SAVED_SYN)
            // SAFETY: what the pointers lead to is the caller's own.
            && let Some(result) = unsafe { stream_calls::saved_syn(fd, value, len) } {
            return traced("getsockopt", fd, result);
        }
        // SAFETY: what the pointers lead to is the caller's own.
        if let Some(result) = unsafe { stream_calls::option(fd, level, name, value, len) } {
            return traced("getsockopt", fd, result);
        }
        // SAFETY: the arguments are the caller's own.
        let result = traced("getsockopt", fd, unsafe { real::getsockopt(fd, level, name, value, len) });
        if result == 0 && level == libc::SOL_SOCKET {
            // SAFETY: the kernel has just given this answer.
            unsafe { answers::complete(fd, name, value, len) };
        }
        result
    }
}

/// The group that the value of an option names, of IPv4 or of IPv6 by its level.
///
/// # Safety
/// There is such an address at the pointer.
unsafe fn group_at(address: *const u8, level: c_int) -> IpAddr {
    if level == libc::IPPROTO_IP {
        // SAFETY: the caller's promise.
        return unsafe { address.cast::<[u8; 4]>().read_unaligned() }.into();
    }
    // SAFETY: the caller's promise.
    unsafe { address.cast::<[u8; 16]>().read_unaligned() }.into()
}

/// `struct ip_mreqn`
const MREQN_LEN: usize = size_of::<libc::ip_mreqn>();

/// Whether a request is not even to be tried.
fn is_refused(fd: c_int, request: Request) -> bool {
    runtime::own_udp(fd).is_some_and(|(engine, socket)| call::is_refused(engine, socket, request))
}

/// Whether an `fcntl(2)` is not even to be tried.
pub(super) fn is_refused_control(fd: c_int, command: c_int, argument: *mut c_void) -> bool {
    command == libc::F_SETFL
        && argument.addr() & libc::O_ASYNC as usize != 0
        && is_refused(fd, Request::SignalDriven)
}

pub(super) fn flags_changed(fd: c_int, result: c_int) -> c_int {
    if let Some((engine, socket)) = runtime::udp(fd) {
        let _ = contained(|| engine.status_flags_changed(socket));
    } else if let Some((engine, socket)) = runtime::stream(fd) {
        let _ = contained(|| engine.status_flags_changed(socket));
    }
    result
}

pub(super) fn owner_changed(fd: c_int, result: c_int) -> c_int {
    if let Some((engine, socket)) = runtime::stream(fd) {
        let _ = contained(|| socket.owner_was_set(engine));
    }
    result
}

// include/uapi/asm-generic/sockios.h
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;

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
    /// `sockatmark(3)`: the C library asks the kernel's socket.
    fn sockatmark(fd: c_int) -> c_int {
        runtime::recall(fd);
        let mut is_at_mark: c_int = 0;
        let argument = (&raw mut is_at_mark).cast::<c_void>();
        // SAFETY: the argument has room for an int.
        match unsafe { stream_calls::amount(fd, SIOCATMARK, argument) } {
            Some(0) => is_at_mark,
            Some(result) => result,
            // SAFETY: an integer.
            None => unsafe { real::sockatmark(fd) },
        }
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
        let accepted = create::number_reused(unsafe { real::accept(fd, address, len) });
        stream_calls::kernel_has_accepted(fd, accepted)
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
        let accepted = create::number_reused(unsafe { real::accept4(fd, address, len, flags) });
        stream_calls::kernel_has_accepted(fd, accepted)
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

/// For the requests for the time of the last datagram: nanoseconds in the unit of the second word
/// of the answer.
fn stamp_unit(request: c_ulong) -> Option<u64> {
    // include/uapi/asm-generic/sockios.h and linux/sockios.h: the old forms, and those with 64
    // bits.
    match request {
        0x8906 | 0x8010_8906 => Some(1000),
        0x8907 | 0x8010_8907 => Some(1),
        _ => None,
    }
}

hook! {
    /// `ioctl(2)`. It takes its third argument in the same register whether that is variadic or
    /// not.
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        match request {
            libc::FIONBIO | libc::FIOASYNC | libc::FIONREAD | FIOSETOWN | SIOCSPGRP => {
                runtime::recall(fd);
            }
            libc::FIONCLEX => descriptor::handed_down(fd),
            _ => {}
        }
        if request == libc::FIOASYNC
            && runtime::udp(fd).is_some()
            && is_readable(argument, size_of::<c_int>())
            // SAFETY: readable (checked above).
            && unsafe { argument.cast::<c_int>().read_unaligned() } != 0
            && is_refused(fd, Request::SignalDriven)
        {
            return fail(libc::EINVAL);
        }
        if let Some(unit) = stamp_unit(request)
            && let Some((engine, socket)) = runtime::udp(fd)
        {
            if is_refused(fd, Request::LastStamp) {
                return fail(libc::EINVAL);
            }
            let was_ours = contained(|| engine.last_stamp_wanted(socket)).unwrap_or(false);
            // SAFETY: the argument is the caller's own.
            let result = unsafe { real::ioctl(fd, request, argument) };
            if result == 0 || errno() != libc::ENOENT || !was_ours {
                return result;
            }
            if !is_writable(argument, size_of::<[i64; 2]>()) {
                return fail(libc::EFAULT);
            }
            // Also the kernel knows of none before the first call, and says the time of the call.
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let time = [now.as_secs(), u64::from(now.subsec_nanos()) / unit];
            // SAFETY: writable (checked above).
            unsafe { argument.cast::<[u64; 2]>().write_unaligned(time) };
            return 0;
        }
        // SAFETY: the argument is the caller's own.
        if let Some(result) = unsafe { stream_calls::amount(fd, request, argument) } {
            return result;
        }
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::ioctl(fd, request, argument) };
        if result != 0 {
            return result;
        }
        match request {
            libc::FIONBIO | libc::FIOASYNC => flags_changed(fd, result),
            FIOSETOWN | SIOCSPGRP => owner_changed(fd, result),
            libc::FIONREAD => {
                let next = runtime::udp(fd)
                    .and_then(|(_, socket)| contained(|| socket.next_len_after_poll()).ok().flatten());
                if let Some(len) = next {
                    // SAFETY: the kernel has just written an int there.
                    unsafe { argument.cast::<c_int>().write_unaligned(c_int::try_from(len).unwrap_or(c_int::MAX)) };
                }
                result
            }
            _ => result,
        }
    }
}
