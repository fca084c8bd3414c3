//! `send(2)` and its relatives.

use libc::{
    c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t,
};

use engine::calls::{MESSAGES_MAX, SendMany};
use engine::user_memory::{is_readable, is_writable};
use engine::{DUMMY_SEND, Errno, Follows, Reason};

use super::define::hook;
use super::{header, passed, stream_calls as stream, transfer};
use crate::guard::{errno, fail, set_errno};
use crate::{call, real, runtime};

hook! {
    /// `sendto(2)`
    fn sendto(
        fd: c_int,
        buffer: *const c_void,
        len: size_t,
        flags: c_int,
        to: *const sockaddr,
        to_len: socklen_t,
    ) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::sendto(fd, buffer, len, flags, to, to_len) };
        let mut part = iovec { iov_base: buffer.cast_mut(), iov_len: len };
        let Some((engine, socket)) = runtime::own_udp(fd) else {
            // SAFETY: the buffer is the caller's, valid for sendto(2). Of a stream the address
            // means nothing.
            return unsafe { stream::send(fd, &mut header::one(&mut part), flags, kernel) };
        };
        let mut header = header::one(&mut part);
        if !to.is_null() {
            header.msg_name = to.cast_mut().cast();
            header.msg_namelen = to_len;
        }
        call::cancellation_point();
        // SAFETY: buffer and address are the caller's, valid for sendto(2).
        unsafe { call::send(engine, fd, socket, &mut header, flags, Follows::Unknown, kernel) }
    }
}

hook! {
    /// `send(2)`
    fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        if runtime::own_udp(fd).is_none() {
            let mut part = iovec { iov_base: buffer.cast_mut(), iov_len: len };
            // SAFETY: the arguments are the caller's own.
            let kernel = || unsafe { real::send(fd, buffer, len, flags) };
            // SAFETY: the buffer is the caller's, valid for send(2).
            return unsafe { stream::send(fd, &mut header::one(&mut part), flags, kernel) };
        }
        // SAFETY: send(2) is sendto(2) without an address.
        unsafe { sendto(fd, buffer, len, flags, std::ptr::null(), 0) }
    }
}

hook! {
    /// `send(2)` by another name
    fn __send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        unsafe { send(fd, buffer, len, flags) }
    }
}

hook! {
    /// `sendmsg(2)`
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        if runtime::own_udp(fd).is_some() || runtime::stream(fd).is_some() {
            call::cancellation_point();
        }
        // SAFETY: the message is the caller's own.
        unsafe { send_message(fd, message, flags, Follows::Unknown) }
    }
}

/// # Safety
/// That of `sendmsg(2)`.
unsafe fn send_message(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
    follows: Follows,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let kernel = || unsafe { real::sendmsg(fd, message, flags) };
    let Some((engine, socket)) = runtime::own_udp(fd) else {
        // SAFETY: the message is the caller's, null or valid for sendmsg(2).
        unsafe { passed::leave_to_kernel(message) };
        if runtime::stream(fd).is_none() || !is_readable(message, size_of::<msghdr>()) {
            return kernel();
        }
        // SAFETY: readable (checked above), and the caller's own.
        let mut header = unsafe { message.read_unaligned() };
        // SAFETY: as above; the copy points at the same buffers.
        return unsafe { stream::send_one(fd, &mut header, flags, kernel) };
    };
    let is_kernels = flags & DUMMY_SEND == 0 && socket.is_sent_by_kernel(engine);
    if is_kernels || !is_readable(message, size_of::<msghdr>()) {
        return call::sent_by_kernel(socket, kernel());
    }
    // SAFETY: readable (checked above), and the caller's own.
    let mut header = unsafe { message.read_unaligned() };
    // SAFETY: as above; the copy points at the same buffers.
    unsafe { call::send(engine, fd, socket, &mut header, flags, follows, kernel) }
}

hook! {
    /// `sendmmsg(2)`
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::sendmmsg(fd, messages, count, flags) };
        let ours = runtime::own_udp(fd);
        let is_dummy_send = flags & DUMMY_SEND != 0;
        if let Some((engine, socket)) = ours
            && (!is_dummy_send && socket.is_sent_by_kernel(engine) || !is_writable(messages, size_of::<mmsghdr>()))
        {
            let sent = kernel();
            // SAFETY: the kernel has just filled that many messages in.
            unsafe { call::messages_sent_by_kernel(socket, messages, sent) };
            return sent;
        }
        if ours.is_none() && runtime::stream(fd).is_none() {
            // SAFETY: the messages are the caller's own.
            unsafe { passed::leave_all_to_kernel(messages, count.min(MESSAGES_MAX)) };
            return kernel();
        }
        call::cancellation_point();
        // SAFETY: the messages are the caller's own.
        unsafe { send_all(fd, messages, flags, SendMany::begin(count)) }
    }
}

/// # Safety
/// What `messages` leads to must be the program's own.
#[inline]
unsafe fn send_all(fd: c_int, messages: *mut mmsghdr, flags: c_int, mut many: SendMany) -> c_int {
    while let Some((index, follows)) = many.next() {
        let message = messages.wrapping_add(index);
        if !is_writable(message, size_of::<mmsghdr>()) {
            // The first one is good.
            break;
        }
        let saved = errno();
        // SAFETY: the message is the caller's, valid for sendmsg(2); the header is the first field.
        let result = unsafe { send_message(fd, message.cast::<msghdr>(), flags, follows) };
        if let Ok(len) = c_uint::try_from(result) {
            // SAFETY: writable (checked above), and the caller's own.
            unsafe { call::received_len(message).write_unaligned(len) };
            many.sent();
        } else {
            many.failed(Errno(errno()));
            set_errno(saved);
        }
    }
    many.end().unwrap_or_else(|Errno(errno)| fail(errno))
}

hook! {
    /// `write(2)`
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
        if runtime::own_udp(fd).is_none() {
            let mut part = iovec { iov_base: buffer.cast_mut(), iov_len: len };
            // SAFETY: the arguments are the caller's own.
            let kernel = || unsafe { real::write(fd, buffer, len) };
            // SAFETY: the buffer is the caller's, valid for write(2).
            return unsafe { stream::send(fd, &mut header::one(&mut part), 0, kernel) };
        }
        // SAFETY: write(2) is sendto(2) without flags and an address, also for an empty datagram.
        unsafe { sendto(fd, buffer, len, 0, std::ptr::null(), 0) }
    }
}

hook! {
    /// `write(2)` by another name
    fn __write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        unsafe { write(fd, buffer, len) }
    }
}

hook! {
    /// `writev(2)`
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::writev(fd, parts, count) };
        let Some((engine, socket)) = runtime::own_udp(fd) else {
            if runtime::stream(fd).is_none() {
                return kernel();
            }
            // SAFETY: the buffers are the caller's.
            let Some(mut header) = (unsafe { header::vector(parts, count) }) else {
                return kernel();
            };
            // SAFETY: the buffers are the caller's, valid for writev(2).
            return unsafe { stream::send(fd, &mut header, 0, kernel) };
        };
        // SAFETY: the buffers are the caller's.
        let Some(mut header) = (unsafe { header::vector(parts, count) }) else { return kernel() };
        call::cancellation_point();
        // SAFETY: the buffers are the caller's, valid for writev(2).
        unsafe { call::send(engine, fd, socket, &mut header, 0, Follows::Unknown, kernel) }
    }
}

hook! {
    /// `pwritev2(2)`: a socket has no offsets but -1, which is none.
    fn pwritev2(
        fd: c_int,
        parts: *const iovec,
        count: c_int,
        offset: off64_t,
        flags: c_int,
    ) -> ssize_t {
        let is_ours = runtime::own_udp(fd).is_some() || runtime::stream(fd).is_some();
        if offset == -1 && flags == 0 && is_ours {
            // SAFETY: the arguments are the caller's own.
            return unsafe { writev(fd, parts, count) };
        }
        if runtime::stream(fd).is_some() {
            transfer::leave_to_kernel(fd, Reason::Message);
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { real::pwritev2(fd, parts, count, offset, flags) }
    }
}

hook! {
    /// `pwritev2(2)` of programs built for 64-bit file offsets
    fn pwritev64v2(
        fd: c_int,
        parts: *const iovec,
        count: c_int,
        offset: off64_t,
        flags: c_int,
    ) -> ssize_t {
        // SAFETY: the arguments are the caller's own, and offsets have 64 bits here anyway.
        unsafe { pwritev2(fd, parts, count, offset, flags) }
    }
}
