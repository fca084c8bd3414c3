//! `recvmmsg(2)`, message by message.

use std::time::Instant;

use engine::calls::{ReceiveMany, ReceiveTime, Received};
use engine::user_memory::{is_readable, is_writable};
use engine::{Errno, TcpSocket, UdpSocket};
use libc::{c_int, c_uint, mmsghdr, msghdr, timespec};

use super::define::hook;
use super::passed;
use super::receive::receive_message;
use crate::guard::{contained, errno, fail, set_errno};
use crate::process_state::Device;
use crate::{adoption, call, real, runtime};

/// A socket of ours that messages are asked of.
#[derive(Clone, Copy)]
enum Ours {
    Datagrams(&'static UdpSocket<Device>),
    Stream(&'static TcpSocket<Device>),
}

impl Ours {
    /// `None`: there is none, or a stream that the kernel has.
    #[inline]
    fn find(fd: c_int) -> Option<Self> {
        if let Some((_, socket)) = adoption::udp_to_receive(fd) {
            return Some(Self::Datagrams(socket));
        }
        let (_, socket) = runtime::stream(fd)?;
        (!socket.is_left_to_kernel()).then_some(Self::Stream(socket))
    }

    #[inline]
    fn is_left_to_kernel(self) -> bool {
        match self {
            Self::Datagrams(socket) => socket.is_left_to_kernel(),
            Self::Stream(socket) => socket.is_left_to_kernel(),
        }
    }

    /// Whether it is a stream with nothing to be read but its error.
    fn has_only_failed(self) -> bool {
        match self {
            Self::Datagrams(_) => false,
            Self::Stream(socket) => contained(|| socket.has_only_failed()).unwrap_or(false),
        }
    }

    /// The error that a stream tells before it is received from.
    fn take_failure(self, flags: c_int) -> Option<c_int> {
        match self {
            Self::Stream(socket) if flags & libc::MSG_ERRQUEUE == 0 => {
                let failure = contained(|| socket.take_failure()).ok().flatten();
                failure.map(|Errno(errno)| errno)
            }
            _ => None,
        }
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
        let Some(ours) = Ours::find(fd) else {
            let received = kernel();
            // SAFETY: the kernel has just filled that many messages in.
            unsafe { passed::messages_arrived(messages, received) };
            return received;
        };
        // SAFETY: the arguments are the caller's own.
        unsafe { receive_ours(fd, ours, messages, count, flags, timeout, kernel) }
    }
}

/// `recvmmsg(2)` on a socket of ours; `kernel` makes the same call to the kernel.
///
/// # Safety
/// The arguments must be the caller's own.
#[inline(never)]
unsafe fn receive_ours(
    fd: c_int,
    ours: Ours,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
    kernel: impl Fn() -> c_int,
) -> c_int {
    // What the kernel refuses before it looks for a datagram is its to say.
    if ours.is_left_to_kernel() || is_refused(messages, count, timeout) {
        let received = kernel();
        if let Ours::Datagrams(socket) = ours {
            // SAFETY: the kernel has just filled that many messages in.
            unsafe { call::messages_received_by_kernel(socket, messages, received) };
        }
        return received;
    }
    // SAFETY: readable (checked above), and the caller's own.
    let Ok(time) = (unsafe { time_at(timeout) }) else {
        return kernel();
    };
    call::cancellation_point();
    if let Some(errno) = ours.take_failure(flags) {
        return fail(errno);
    }
    let many = ReceiveMany::begin(count, flags, time);
    // SAFETY: the caller gave `count` messages.
    let received = unsafe { receive_all(fd, ours, messages, many) };
    // SAFETY: the timeout is the caller's own.
    unsafe { tell(ours, received, timeout) }
}

fn is_refused(messages: *const mmsghdr, count: c_uint, timeout: *const timespec) -> bool {
    let is_bad_time = !timeout.is_null() && !is_readable(timeout, size_of::<timespec>());
    count == 0 || is_bad_time || !is_readable(messages, size_of::<mmsghdr>())
}

/// `Err`: not a time, which the kernel says itself.
///
/// # Safety
/// The timeout must be null or readable.
unsafe fn time_at(timeout: *const timespec) -> Result<Option<ReceiveTime>, ()> {
    if timeout.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let asked = unsafe { timeout.read_unaligned() };
    ReceiveTime::begin(asked, Instant::now())
        .map(Some)
        .ok_or(())
}

/// # Safety
/// What `messages` leads to must be the program's own.
#[inline]
unsafe fn receive_all(
    fd: c_int,
    ours: Ours,
    messages: *mut mmsghdr,
    mut many: ReceiveMany,
) -> Received {
    while let Some((index, flags)) = many.next(|| ours.has_only_failed()) {
        // SAFETY: the caller's promise.
        match unsafe { receive_one(fd, messages.wrapping_add(index), flags) } {
            Ok(flags) => many.received(flags, Instant::now),
            Err(error) => many.failed(error),
        }
    }
    many.end()
}

/// Returns the flags of the message that has come, or the errno, which is kept from the program.
///
/// # Safety
/// The message must be the program's own.
#[inline]
unsafe fn receive_one(fd: c_int, message: *mut mmsghdr, flags: c_int) -> Result<c_int, Errno> {
    if !is_readable(message, size_of::<mmsghdr>()) {
        return Err(Errno(libc::EFAULT));
    }
    let saved = errno();
    // SAFETY: the message is the caller's own; the header is the first field.
    let result = unsafe { receive_message(fd, message.cast::<msghdr>(), flags) };
    let Ok(len) = c_uint::try_from(result) else {
        let error = Errno(errno());
        set_errno(saved);
        return Err(error);
    };
    if !is_writable(message, size_of::<mmsghdr>()) {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: writable (checked above), and the caller's own.
    unsafe { call::received_len(message).write_unaligned(len) };
    // SAFETY: as above.
    Ok(unsafe { call::message_flags(message).read_unaligned() })
}

/// Tells the program what has become of the call.
///
/// # Safety
/// The timeout must be the caller's own.
#[inline]
unsafe fn tell(ours: Ours, received: Received, timeout: *mut timespec) -> c_int {
    if let (Some(error), Ours::Datagrams(socket)) = (received.postponed, ours) {
        // As the kernel does, but for EINTR, which Linux would return from a later call as 512.
        socket.postpone_error(error);
    }
    if let Some(left) = received.left {
        if !is_writable(timeout, size_of::<timespec>()) {
            return fail(libc::EFAULT);
        }
        // SAFETY: writable (checked above).
        unsafe { timeout.write_unaligned(left) };
    }
    received.result.unwrap_or_else(|Errno(errno)| fail(errno))
}
