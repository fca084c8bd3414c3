//! `recv(2)` and its relatives.

use engine::Reason;
use libc::{
    c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t,
    timespec,
};

use super::{header, hook, passed};
use crate::call;
use crate::guard::{contained, errno, fail, set_errno};
use crate::real;
use crate::runtime;

hook! {
    /// `recv(2)`
    fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::recv(fd, buffer, len, flags) };
        let Some((engine, socket)) = runtime::udp(fd) else { return kernel() };
        let mut part = iovec { iov_base: buffer, iov_len: len };
        // SAFETY: the buffer is the caller's, valid for recv(2).
        unsafe { call::receive(engine, fd, socket, &mut header::one(&mut part), flags, kernel) }
    }
}

hook! {
    /// `recv(2)` with `_FORTIFY_SOURCE`
    fn __recv_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t {
        if len > size || runtime::udp(fd).is_none() {
            // SAFETY: the arguments are the caller's own; the C library ends a program that would overflow.
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
        let Some((engine, socket)) = runtime::udp(fd) else { return kernel() };
        let mut part = iovec { iov_base: buffer, iov_len: len };
        let mut header = header::one(&mut part);
        if !from.is_null() {
            // SAFETY: null, or readable as recvfrom(2) asks.
            let room = unsafe { from_len.as_ref() }.copied();
            if let Some(room) = room.filter(|room| room.cast_signed() >= 0) {
                header.msg_name = from.cast();
                header.msg_namelen = room;
            }
        }
        // SAFETY: buffer and address are the caller's, valid for recvfrom(2).
        let result = unsafe { call::receive(engine, fd, socket, &mut header, flags, kernel) };
        if result < 0 || from.is_null() {
            return result;
        }
        // The kernel, too, looks at the length only when it has taken the datagram.
        // SAFETY: null, or writable as recvfrom(2) asks.
        match unsafe { from_len.as_mut() } {
            None => fail(libc::EFAULT),
            Some(len) if len.cast_signed() < 0 => fail(libc::EINVAL),
            Some(len) => {
                *len = header.msg_namelen;
                result
            }
        }
    }
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
        if len > size || runtime::udp(fd).is_none() {
            // SAFETY: the arguments are the caller's own; the C library ends a program that would overflow.
            return unsafe { real::__recvfrom_chk(fd, buffer, len, size, flags, from, from_len) };
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { recvfrom(fd, buffer, len, flags, from, from_len) }
    }
}

hook! {
    /// `recvmsg(2)`
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::recvmsg(fd, message, flags) };
        let Some((engine, socket)) = runtime::udp(fd) else {
            let result = kernel();
            if result >= 0 {
                // SAFETY: the kernel has just filled the message in.
                unsafe { passed::noted(message) };
            }
            return result;
        };
        // SAFETY: the message is the caller's, null or valid for recvmsg(2).
        let Some(header) = (unsafe { message.as_mut() }) else { return kernel() };
        if !header.msg_name.is_null() && header.msg_namelen.cast_signed() < 0 {
            return kernel();
        }
        // SAFETY: as above.
        unsafe { call::receive(engine, fd, socket, header, flags, kernel) }
    }
}

hook! {
    /// `recvmmsg(2)`: the timeout is looked at between messages only, as the kernel does.
    fn recvmmsg(
        fd: c_int,
        messages: *mut mmsghdr,
        count: c_uint,
        flags: c_int,
        timeout: *mut timespec,
    ) -> c_int {
        if runtime::udp(fd).is_none() || messages.is_null() {
            // SAFETY: the arguments are the caller's own.
            let result = unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
            for index in 0..usize::try_from(result).unwrap_or(0) {
                // SAFETY: the kernel has just filled that many messages in.
                let message = unsafe { messages.add(index) };
                // SAFETY: as above; the header is the first field.
                unsafe { passed::noted(message.cast::<msghdr>()) };
            }
            return result;
        }
        // SAFETY: null or readable, as recvmmsg(2) asks.
        let deadline = unsafe { timeout.as_ref() }.map(|timeout| {
            let nsec = timeout.tv_nsec.clamp(0, 999_999_999).unsigned_abs();
            let sec = timeout.tv_sec.max(0).unsigned_abs();
            std::time::Instant::now() + std::time::Duration::new(sec, nsec as u32)
        });
        let mut received = 0;
        // The kernel takes at most UIO_MAXIOV messages at once.
        for index in 0..count.min(1024) {
            let waits = index == 0 || flags & libc::MSG_WAITFORONE == 0;
            let one = flags & !libc::MSG_WAITFORONE | if waits { 0 } else { libc::MSG_DONTWAIT };
            // SAFETY: the caller gave `count` messages.
            let message = unsafe { messages.add(index as usize) };
            // SAFETY: as above.
            let message = unsafe { &mut *message };
            let saved = errno();
            // SAFETY: the message is the caller's, valid for recvmsg(2).
            let result = unsafe { recvmsg(fd, &raw mut message.msg_hdr, one) };
            let Ok(len) = c_uint::try_from(result) else {
                if received == 0 {
                    return -1;
                }
                set_errno(saved);
                break;
            };
            message.msg_len = len;
            received += 1;
            if deadline.is_some_and(|deadline| std::time::Instant::now() >= deadline) {
                break;
            }
        }
        received
    }
}

hook! {
    /// `read(2)`
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::read(fd, buffer, len) };
        let Some((engine, socket)) = runtime::udp(fd) else { return kernel() };
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
    /// `read(2)` with `_FORTIFY_SOURCE`
    fn __read_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t) -> ssize_t {
        if len > size || runtime::udp(fd).is_none() {
            // SAFETY: the arguments are the caller's own; the C library ends a program that would overflow.
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
        let Some((engine, socket)) = runtime::udp(fd) else { return kernel() };
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
        let Some((engine, socket)) = runtime::udp(fd) else { return kernel() };
        if offset != -1 {
            return kernel();
        }
        match flags {
            // SAFETY: the arguments are the caller's own.
            0 => unsafe { readv(fd, parts, count) },
            libc::RWF_NOWAIT => {
                // Kernels before 6.5 do not have it for sockets, which is theirs to say.
                let result = kernel();
                if result >= 0 || errno() != libc::EAGAIN {
                    return result;
                }
                // SAFETY: the buffers are the caller's.
                let Some(mut header) = (unsafe { header::vector(parts, count) }) else {
                    return result;
                };
                // SAFETY: the buffers are the caller's, valid for preadv2(2).
                unsafe { call::receive(engine, fd, socket, &mut header, libc::MSG_DONTWAIT, kernel) }
            }
            _ => {
                let _ = contained(|| engine.leave_to_kernel(socket, Reason::Message));
                kernel()
            }
        }
    }
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
