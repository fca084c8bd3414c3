//! `recv(2)` and its relatives.

use engine::user_memory::{is_readable, is_writable};
use engine::{Engine, Reason, UdpSocket};
use libc::{c_int, c_void, iovec, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t};

use super::define::hook;
use super::{header, passed, stream_calls as stream, transfer};
use crate::guard::{contained, errno, fail};
use crate::process_state::Device;
use crate::{adoption, call, real, runtime};

hook! {
    /// `recv(2)`
    fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::recv(fd, buffer, len, flags) };
        let mut part = iovec { iov_base: buffer, iov_len: len };
        let Some((engine, socket)) = adoption::udp_to_receive(fd) else {
            // SAFETY: the buffer is the caller's, valid for recv(2).
            return unsafe { stream::receive(fd, &mut header::one(&mut part), flags, kernel) };
        };
        // SAFETY: the buffer is the caller's, valid for recv(2).
        unsafe { call::receive(engine, fd, socket, &mut header::one(&mut part), flags, kernel) }
    }
}

hook! {
    /// `recv(2)` with `_FORTIFY_SOURCE`
    fn __recv_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t {
        if len > size {
            // SAFETY: the arguments are the caller's own; the C library ends a program that would
            // overflow.
            return unsafe { real::__recv_chk(fd, buffer, len, size, flags) };
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { recv(fd, buffer, len, flags) }
    }
}

hook! {
    /// `recvfrom(2)`
    fn recvfrom(
        fd: c_int,
        buffer: *mut c_void,
        len: size_t,
        flags: c_int,
        from: *mut sockaddr,
        from_len: *mut socklen_t,
    ) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::recvfrom(fd, buffer, len, flags, from, from_len) };
        let mut part = iovec { iov_base: buffer, iov_len: len };
        let message = &mut header::one(&mut part);
        let Some((engine, socket)) = adoption::udp_to_receive(fd) else {
            // SAFETY: the buffer is the caller's, valid for recv(2).
            return unsafe { stream::receive_from(fd, message, flags, from, from_len, kernel) };
        };
        // SAFETY: buffer and address are the caller's, valid for recvfrom(2).
        let received = unsafe { datagram_from(engine, fd, socket, message, flags, from, from_len) };
        // The kernel writes the length of the address itself.
        received.unwrap_or_else(|| call::received_by_kernel(socket, kernel()))
    }
}

/// `recvfrom(2)` of a datagram. `None`: it is for the kernel.
///
/// # Safety
/// `header` must be valid for `recvmsg(2)`, the address be the caller's own.
#[inline]
unsafe fn datagram_from(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static UdpSocket<Device>,
    header: &mut msghdr,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> Option<ssize_t> {
    if !from.is_null() && is_readable(from_len, size_of::<socklen_t>()) {
        // SAFETY: readable (checked above).
        let room = unsafe { from_len.read_unaligned() };
        if room.cast_signed() >= 0 {
            header.msg_name = from.cast();
            header.msg_namelen = room;
        }
    }
    call::cancellation_point();
    // SAFETY: the caller's promise.
    let result = unsafe { call::receive_here(engine, fd, socket, header, flags) }?;
    if result < 0 || from.is_null() {
        return Some(result);
    }
    // The kernel, too, looks at the length only when it has taken the datagram.
    if !is_writable(from_len, size_of::<socklen_t>()) {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: readable (checked above).
    if unsafe { from_len.read_unaligned() }.cast_signed() < 0 {
        return Some(fail(libc::EINVAL));
    }
    // SAFETY: writable (checked above).
    unsafe { from_len.write_unaligned(header.msg_namelen) };
    Some(result)
}

hook! {
    /// `recvfrom(2)` with `_FORTIFY_SOURCE`
    fn __recvfrom_chk(
        fd: c_int,
        buffer: *mut c_void,
        len: size_t,
        size: size_t,
        flags: c_int,
        from: *mut sockaddr,
        from_len: *mut socklen_t,
    ) -> ssize_t {
        if len > size {
            // SAFETY: the arguments are the caller's own; the C library ends a program that would
            // overflow.
            return unsafe { real::__recvfrom_chk(fd, buffer, len, size, flags, from, from_len) };
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { recvfrom(fd, buffer, len, flags, from, from_len) }
    }
}

hook! {
    /// `recvmsg(2)`
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        if adoption::udp_to_receive(fd).is_some() || runtime::stream(fd).is_some() {
            call::cancellation_point();
        }
        // SAFETY: the message is the caller's own.
        unsafe { receive_message(fd, message, flags) }
    }
}

/// # Safety
/// That of `recvmsg(2)`.
pub(super) unsafe fn receive_message(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let kernel = || unsafe { real::recvmsg(fd, message, flags) };
    let Some((engine, socket)) = adoption::udp_to_receive(fd) else {
        // SAFETY: the message is the caller's own.
        if let Some(result) = unsafe { stream::receive_message(fd, message, flags) } {
            return result;
        }
        let result = kernel();
        if result >= 0 {
            // SAFETY: the kernel has just filled the message in.
            unsafe { passed::descriptors_arrived(message) };
        }
        return result;
    };
    if socket.is_left_to_kernel() || !is_readable(message, size_of::<msghdr>()) {
        return call::received_by_kernel(socket, kernel());
    }
    // SAFETY: readable (checked above), and the caller's own.
    let mut header = unsafe { message.read_unaligned() };
    if !header.msg_name.is_null() && header.msg_namelen.cast_signed() < 0 {
        return kernel();
    }
    // SAFETY: the buffers are the caller's, valid for recvmsg(2).
    let received = unsafe { call::receive_here(engine, fd, socket, &mut header, flags) };
    let Some(result) = received else {
        return call::received_by_kernel(socket, kernel());
    };
    if result < 0 {
        return result;
    }
    // The datagram is gone all the same.
    if !is_writable(message, size_of::<msghdr>()) {
        return fail(libc::EFAULT);
    }
    // SAFETY: writable (checked above), and the caller's own.
    unsafe { message.write_unaligned(header) };
    result
}

hook! {
    /// `read(2)`
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::read(fd, buffer, len) };
        let Some((engine, socket)) = adoption::udp_to_receive(fd) else {
            if len == 0 {
                return kernel();
            }
            let mut part = iovec { iov_base: buffer, iov_len: len };
            // SAFETY: the buffer is the caller's, valid for read(2).
            return unsafe { stream::receive(fd, &mut header::one(&mut part), 0, kernel) };
        };
        if len == 0 {
            // Reads nothing and leaves the datagram where it is.
            return kernel();
        }
        let mut part = iovec { iov_base: buffer, iov_len: len };
        // SAFETY: the buffer is the caller's, valid for read(2).
        unsafe { call::receive(engine, fd, socket, &mut header::one(&mut part), 0, kernel) }
    }
}

hook! {
    /// `read(2)` by another name
    fn __read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        unsafe { read(fd, buffer, len) }
    }
}

hook! {
    /// `read(2)` with `_FORTIFY_SOURCE`
    fn __read_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t) -> ssize_t {
        if len > size {
            // SAFETY: the arguments are the caller's own; the C library ends a program that would
            // overflow.
            return unsafe { real::__read_chk(fd, buffer, len, size) };
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { read(fd, buffer, len) }
    }
}

hook! {
    /// `readv(2)`
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::readv(fd, parts, count) };
        let Some((engine, socket)) = adoption::udp_to_receive(fd) else {
            if runtime::stream(fd).is_none() {
                return kernel();
            }
            // SAFETY: the buffers are the caller's.
            let Some(mut header) = (unsafe { header::vector(parts, count) }) else {
                return kernel();
            };
            // SAFETY: the buffers are the caller's, valid for readv(2).
            return unsafe { stream::receive(fd, &mut header, 0, kernel) };
        };
        // SAFETY: the buffers are the caller's.
        let Some(mut header) = (unsafe { header::vector(parts, count) }) else { return kernel() };
        // SAFETY: the buffers are the caller's, valid for readv(2).
        unsafe { call::receive(engine, fd, socket, &mut header, 0, kernel) }
    }
}

hook! {
    /// `preadv2(2)`: a socket has no offsets but -1, which is none.
    fn preadv2(
        fd: c_int,
        parts: *const iovec,
        count: c_int,
        offset: off64_t,
        flags: c_int,
    ) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::preadv2(fd, parts, count, offset, flags) };
        let Some((engine, socket)) = adoption::udp_to_receive(fd) else {
            if offset == -1 && runtime::stream(fd).is_some() {
                if flags == 0 {
                    // SAFETY: the arguments are the caller's own.
                    return unsafe { readv(fd, parts, count) };
                }
                transfer::leave_to_kernel(fd, Reason::Message);
            }
            return kernel();
        };
        if offset != -1 {
            return kernel();
        }
        match flags {
            // SAFETY: the arguments are the caller's own.
            0 => unsafe { readv(fd, parts, count) },
            libc::RWF_NOWAIT => {
                // SAFETY: the buffers are the caller's, valid for preadv2(2).
                unsafe { read_without_waiting(engine, fd, socket, parts, count, kernel) }
            }
            _ => {
                let _ = contained(|| engine.leave_to_kernel(socket, Reason::Message));
                kernel()
            }
        }
    }
}

/// `preadv2(2)` with `RWF_NOWAIT`. Kernels before 6.5 do not have it for sockets, which is theirs
/// to say.
///
/// # Safety
/// The buffers must be valid for `preadv2(2)`.
unsafe fn read_without_waiting(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static UdpSocket<Device>,
    parts: *const iovec,
    count: c_int,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    let result = kernel();
    if result >= 0 || errno() != libc::EAGAIN {
        return result;
    }
    // SAFETY: the buffers are the caller's.
    let Some(mut header) = (unsafe { header::vector(parts, count) }) else {
        return result;
    };
    // SAFETY: the caller's promise.
    unsafe { call::receive(engine, fd, socket, &mut header, libc::MSG_DONTWAIT, kernel) }
}

hook! {
    /// `preadv2(2)` of programs built for 64-bit file offsets
    fn preadv64v2(
        fd: c_int,
        parts: *const iovec,
        count: c_int,
        offset: off64_t,
        flags: c_int,
    ) -> ssize_t {
        // SAFETY: the arguments are the caller's own, and offsets have 64 bits here anyway.
        unsafe { preadv2(fd, parts, count, offset, flags) }
    }
}
