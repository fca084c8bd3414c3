//! `recvmmsg(2)`, message by message.

use std::time::{Duration, Instant};

use engine::user_memory::{is_readable, is_writable};
use engine::{Errno, TcpSocket, UdpSocket};
use libc::{c_int, c_uint, mmsghdr, msghdr, time_t, timespec};

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
    /// `None`: there is no stream of ours, or the kernel has it.
    fn stream(fd: c_int) -> Option<Self> {
        let (_, socket) = runtime::stream(fd)?;
        (!socket.is_left_to_kernel()).then_some(Self::Stream(socket))
    }

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
}

/// The time of a `recvmmsg(2)`: it is looked at after each message only, and what was left of it
/// then is given back.
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

    fn runs_out(&mut self) -> bool {
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
        let ours = adoption::udp_to_receive(fd).map(|(_, socket)| Ours::Datagrams(socket));
        let Some(ours) = ours.or_else(|| Ours::stream(fd)) else {
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
        if ours.is_left_to_kernel()
            || count == 0
            || is_bad(timeout)
            || !is_readable(messages, size_of::<mmsghdr>())
        {
            let received = kernel();
            if let Ours::Datagrams(socket) = ours {
                // SAFETY: the kernel has just filled that many messages in.
                unsafe { call::messages_received_by_kernel(socket, messages, received) };
            }
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
        if let Ours::Stream(socket) = ours
            && flags & libc::MSG_ERRQUEUE == 0
            && let Ok(Some(Errno(error))) = contained(|| socket.take_failure())
        {
            return fail(error);
        }
        // SAFETY: the caller gave `count` messages.
        let (received, error) = unsafe { receive_many(fd, ours, messages, count, flags, time.as_mut()) };
        if let (Some(error), Ours::Datagrams(socket)) = (error, ours) {
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

/// Returns the call's result, and the error with which it has ended behind the first message, if
/// that is worth another call's while.
///
/// # Safety
/// What `messages` leads to must be the program's own.
unsafe fn receive_many(
    fd: c_int,
    ours: Ours,
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
        if index > 0 && ours.has_only_failed() {
            // That stays for the next call.
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
        // SAFETY: as above.
        if unsafe { call::message_flags(message).read_unaligned() } & libc::MSG_OOB != 0 {
            break;
        }
        if time.as_mut().is_some_and(|time| time.runs_out()) {
            break;
        }
    }
    (received, error)
}
