//! `recv(2)` and its relatives.

use std::time::{Duration, Instant};

use engine::user_memory::{is_readable, is_writable};
use engine::{Errno, Reason};
use libc::{
    c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t,
    time_t, timespec,
};

use super::{header, hook, passed, stream_calls as stream, transfer};
use crate::call;
use crate::guard::{contained, errno, fail, set_errno};
use crate::real;
use crate::runtime;

hook! {
    /// `recv(2)`
    fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::recv(fd, buffer, len, flags) };
        let mut part = iovec { iov_base: buffer, iov_len: len };
        let Some((engine, socket)) = runtime::udp_to_receive(fd) else {
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
        let mut part = iovec { iov_base: buffer, iov_len: len };
        let Some((engine, socket)) = runtime::udp_to_receive(fd) else {
            // SAFETY: the buffer is the caller's, valid for recv(2).
            return unsafe {
                stream::receive_from(fd, &mut header::one(&mut part), flags, from, from_len, kernel)
            };
        };
        let mut header = header::one(&mut part);
        if !from.is_null() && is_readable(from_len, size_of::<socklen_t>()) {
            // SAFETY: readable (checked above).
            let room = Some(unsafe { from_len.read_unaligned() });
            if let Some(room) = room.filter(|room| room.cast_signed() >= 0) {
                header.msg_name = from.cast();
                header.msg_namelen = room;
            }
        }
        call::cancellation_point();
        // SAFETY: buffer and address are the caller's, valid for recvfrom(2).
        let Some(result) = (unsafe { call::receive_here(engine, fd, socket, &mut header, flags) })
        else {
            // The kernel writes the length of the address itself.
            return call::received_by_kernel(socket, kernel());
        };
        if result < 0 || from.is_null() {
            return result;
        }
        // The kernel, too, looks at the length only when it has taken the datagram.
        if !is_writable(from_len, size_of::<socklen_t>()) {
            return fail(libc::EFAULT);
        }
        // SAFETY: readable (checked above).
        if unsafe { from_len.read_unaligned() }.cast_signed() < 0 {
            return fail(libc::EINVAL);
        }
        // SAFETY: writable (checked above).
        unsafe { from_len.write_unaligned(header.msg_namelen) };
        result
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
        if len > size {
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
        if runtime::udp_to_receive(fd).is_some() {
            call::cancellation_point();
        }
        // SAFETY: the message is the caller's own.
        unsafe { receive_message(fd, message, flags) }
    }
}

/// # Safety
/// That of `recvmsg(2)`.
unsafe fn receive_message(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let kernel = || unsafe { real::recvmsg(fd, message, flags) };
    let Some((engine, socket)) = runtime::udp_to_receive(fd) else {
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

/// The time of a `recvmmsg(2)`: it is looked at after each message only, and what was left of it then is given back.
struct Time {
    begun: Instant,
    asked: Duration,
    left: Duration,
}

impl Time {
    /// `None`: not a time, which the kernel says itself.
    fn begin(asked: timespec) -> Option<Self> {
        let sec = u64::try_from(asked.tv_sec).ok()?;
        let nsec = u32::try_from(asked.tv_nsec).ok()?;
        let asked = (nsec < 1_000_000_000).then(|| Duration::new(sec, nsec))?;
        Some(Self {
            begun: Instant::now(),
            asked,
            left: asked,
        })
    }

    fn is_over(&mut self) -> bool {
        self.left = self.asked.saturating_sub(self.begun.elapsed());
        self.left.is_zero()
    }
}

fn timespec_of(time: Duration) -> timespec {
    timespec {
        tv_sec: time_t::try_from(time.as_secs()).unwrap_or(time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

hook! {
    /// `recvmmsg(2)`
    fn recvmmsg(
        fd: c_int,
        messages: *mut mmsghdr,
        count: c_uint,
        flags: c_int,
        timeout: *mut timespec,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
        let Some((_, socket)) = runtime::udp_to_receive(fd) else {
            if let Some((engine, socket)) = runtime::stream(fd)
                && !socket.is_left_to_kernel()
            {
                // Hardly a program asks a stream for several messages.
                let _ = contained(|| engine.leave_to_kernel(socket, Reason::Message));
            }
            let result = kernel();
            for index in 0..usize::try_from(result).unwrap_or(0) {
                // SAFETY: the kernel has just filled that many messages in.
                let message = unsafe { messages.add(index) };
                // SAFETY: as above; the header is the first field.
                unsafe { passed::descriptors_arrived(message.cast::<msghdr>()) };
            }
            return result;
        };
        // What the kernel refuses before it looks for a datagram is its to say.
        let is_bad = |timeout: *mut timespec| {
            !timeout.is_null() && !is_readable(timeout, size_of::<timespec>())
        };
        if socket.is_left_to_kernel()
            || count == 0
            || is_bad(timeout)
            || !is_readable(messages, size_of::<mmsghdr>())
        {
            let received = kernel();
            // SAFETY: the kernel has just filled that many messages in.
            unsafe { call::messages_received_by_kernel(socket, messages, received) };
            return received;
        }
        let mut time = None;
        if !timeout.is_null() {
            // SAFETY: readable (checked above), and the caller's own.
            let asked = unsafe { timeout.read_unaligned() };
            let Some(begun) = Time::begin(asked) else { return kernel() };
            time = Some(begun);
        }
        call::cancellation_point();
        // SAFETY: the caller gave `count` messages.
        let (received, error) = unsafe { receive_many(fd, messages, count, flags, time.as_mut()) };
        if let Some(error) = error {
            // As the kernel does, but for EINTR, which Linux would return from a later call as 512.
            socket.postpone_error(error);
        }
        if let Some(time) = time {
            if !is_writable(timeout, size_of::<timespec>()) {
                return fail(libc::EFAULT);
            }
            let saved = errno();
            // SAFETY: writable (checked above).
            unsafe { timeout.write_unaligned(timespec_of(time.left)) };
            set_errno(saved);
        }
        received
    }
}

/// Returns the call's result, and the error with which it has ended behind the first message, if that is worth another call's while.
///
/// # Safety
/// What `messages` leads to must be the program's own.
unsafe fn receive_many(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    mut time: Option<&mut Time>,
) -> (c_int, Option<Errno>) {
    let mut received = 0;
    let mut error = None;
    for index in 0..count {
        let waits = index == 0 || flags & libc::MSG_WAITFORONE == 0;
        let one = flags & !libc::MSG_WAITFORONE | if waits { 0 } else { libc::MSG_DONTWAIT };
        let message = messages.wrapping_add(index as usize);
        if !is_readable(message, size_of::<mmsghdr>()) {
            // The first one is good.
            error = Some(Errno(libc::EFAULT));
            break;
        }
        let saved = errno();
        // SAFETY: the message is the caller's own; the header is the first field.
        let mut result = unsafe { receive_message(fd, message.cast::<msghdr>(), one) };
        if result >= 0 && !is_writable(message, size_of::<mmsghdr>()) {
            result = fail(libc::EFAULT);
        }
        let Ok(len) = c_uint::try_from(result) else {
            if received == 0 {
                return (-1, None);
            }
            let is_lasting = |error: &Errno| !matches!(error.0, libc::EAGAIN | libc::EINTR);
            error = Some(Errno(errno())).filter(is_lasting);
            set_errno(saved);
            break;
        };
        // SAFETY: writable (checked above), and the caller's own.
        unsafe { call::received_len(message).write_unaligned(len) };
        received += 1;
        if time.as_mut().is_some_and(|time| time.is_over()) {
            break;
        }
    }
    (received, error)
}

hook! {
    /// `read(2)`
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::read(fd, buffer, len) };
        let Some((engine, socket)) = runtime::udp_to_receive(fd) else {
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
        let Some((engine, socket)) = runtime::udp_to_receive(fd) else {
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
        let Some((engine, socket)) = runtime::udp_to_receive(fd) else {
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
