//! Runs a call on a socket of ours to its end: lets the engine decide, sleeps in the application's
//! own system call, and hands over to the kernel what is the kernel's.

mod rest;
mod stream;

use std::mem::offset_of;
use std::net::IpAddr;

use engine::{
    Engine, Errno, ExceptionAction, Follows, Message, MuxCall, MuxOutcome, PacketSink, Reason,
    RecvCall, RecvOutcome, Request, RoomOutcome, SendCall, SendOutcome, UdpSocket,
};
use libc::{c_int, c_uint, mmsghdr, msghdr, sigset_t, ssize_t};

use crate::guard::{self, NotRun, contained, fail};
use crate::process_state::Device;
use crate::show_packets::show_unseen;
use crate::sleep::sleep_until_woken;
use crate::{internal_thread, real, start};

pub(crate) use stream::{
    accept, finish_connect, receive_into_pipe, receive_stream, receive_stream_here,
    receive_stream_into, send_file, send_pipe, send_stream,
};

/// Where a thread that is to be cancelled ends: at the beginning of a call, as in the C library,
/// whether or not the call would wait. Calls that the kernel makes have a point of their own.
#[inline]
pub(crate) fn cancellation_point() {
    // SAFETY: takes nothing; hooks have nothing yet that a cancelled thread would leave behind.
    unsafe { real::pthread_testcancel() };
}

/// A receive call on the socket that was found behind `fd`. `kernel` makes the same call to the
/// kernel.
///
/// # Safety
/// `header` must be valid for `recvmsg(2)`.
#[inline]
pub(crate) unsafe fn receive(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static UdpSocket<Device>,
    header: &mut msghdr,
    flags: c_int,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    cancellation_point();
    // SAFETY: the caller's promise.
    unsafe { receive_here(engine, fd, socket, header, flags) }
        .unwrap_or_else(|| received_by_kernel(socket, kernel()))
}

/// Counts what the kernel answered to a receive call.
#[inline]
pub(crate) fn received_by_kernel(socket: &UdpSocket<Device>, result: ssize_t) -> ssize_t {
    socket.count_os_receive(outcome(result));
    result
}

/// The same for `recvmmsg(2)`, which `received` messages came of.
///
/// # Safety
/// The kernel must have filled that many messages in.
pub(crate) unsafe fn messages_received_by_kernel(
    socket: &UdpSocket<Device>,
    messages: *const mmsghdr,
    received: c_int,
) {
    let count = |result| socket.count_os_receive(result);
    // SAFETY: the caller's promise.
    unsafe { count_messages(messages, received, count) };
}

/// The part of a receive call that is not the kernel's. `None`: the call is for the kernel, and
/// nothing has happened to `header`.
///
/// # Safety
/// `header` must be valid for `recvmsg(2)`.
#[inline]
pub(crate) unsafe fn receive_here(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static UdpSocket<Device>,
    header: &mut msghdr,
    flags: c_int,
) -> Option<ssize_t> {
    // SAFETY: the caller's promise.
    unsafe { receive_into(engine, fd, socket, (header, None), flags) }
}

/// The same for a call that may take packets as they are.
///
/// # Safety
/// That of [`receive_here`].
#[inline]
pub(crate) unsafe fn receive_into(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static UdpSocket<Device>,
    (header, mut sink): (&mut msghdr, Option<&mut PacketSink>),
    flags: c_int,
) -> Option<ssize_t> {
    if socket.is_left_to_kernel() {
        return None;
    }
    let mut call = RecvCall::begin(engine, fd, socket, flags);
    let mut ended = None;
    loop {
        show_unseen(engine);
        let attempt = contained(|| {
            // SAFETY: the caller's promise.
            let mut message = unsafe { Message::with_sink(header, sink.as_deref_mut()) };
            match ended {
                None => socket.receive(engine, &mut call, &mut message, flags),
                Some(errno) => socket.last_look(&call, &mut message, flags, errno),
            }
        });
        match attempt {
            Ok(RecvOutcome::Done(len)) => {
                // The kernel begins with this flag of the call (net/socket.c).
                header.msg_flags |= flags & libc::MSG_CMSG_CLOEXEC;
                return Some(len.cast_signed());
            }
            Ok(RecvOutcome::Fail(Errno(errno))) => {
                note_failure(engine, socket, errno);
                return Some(fail(errno));
            }
            Ok(RecvOutcome::Kernel) | Err(NotRun::Reentered) => return None,
            // SAFETY: nothing is held here that a cancelled thread would leave behind.
            Ok(RecvOutcome::Again) => unsafe { real::pthread_testcancel() },
            Ok(RecvOutcome::Sleep(sleep)) => {
                let slept =
                    sleep_until_woken(sleep, None, || call.interrupted(), || call.any_handler());
                if slept.is_interrupted {
                    ended = Some(Errno(libc::EINTR));
                }
            }
            Err(NotRun::Panicked) => return Some(poisoned(engine, socket)),
        }
    }
}

/// A send call on the socket that was found behind `fd`. `kernel` makes the same call to the
/// kernel.
///
/// # Safety
/// `header` must be valid for `sendmsg(2)`.
#[inline]
pub(crate) unsafe fn send(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static UdpSocket<Device>,
    header: &mut msghdr,
    flags: c_int,
    follows: Follows,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    if flags & libc::MSG_MORE != 0 && is_refused(engine, socket, Request::MoreToCome) {
        return fail(libc::EINVAL);
    }
    let mut attempt = || {
        contained(|| {
            // SAFETY: the caller's promise.
            let message = unsafe { Message::new(header) };
            socket.send(engine, fd, &message, flags, follows)
        })
    };
    let sent = match attempt() {
        Ok(SendOutcome::Full) => match send_when_room(engine, fd, socket, flags, attempt) {
            Ok(sent) => sent,
            Err(errno) => return fail(errno),
        },
        sent => sent,
    };
    match sent {
        Ok(SendOutcome::Done(len)) => len.cast_signed(),
        Ok(SendOutcome::Full) => fail(libc::EAGAIN),
        Ok(SendOutcome::Fail(Errno(errno))) => fail(errno),
        Ok(SendOutcome::Kernel(reason)) => {
            let result = kernel();
            socket.count_os_send_for(reason, outcome(result));
            if reason == Reason::NotBound && result >= 0 {
                // The first send has bound the socket.
                addresses_changed(engine, socket);
            }
            if result < 0 {
                let errno = guard::errno();
                note_failure(engine, socket, errno);
                return fail(errno);
            }
            result
        }
        Err(NotRun::Reentered) => sent_by_kernel(socket, kernel()),
        Err(NotRun::Panicked) => poisoned(engine, socket),
    }
}

/// The rest of a send call that has found no room: it waits until there is some, if it may.
#[cold]
fn send_when_room(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static UdpSocket<Device>,
    flags: c_int,
    mut attempt: impl FnMut() -> Result<SendOutcome, NotRun>,
) -> Result<Result<SendOutcome, NotRun>, c_int> {
    let Ok(mut call) = contained(|| SendCall::begin(engine, fd, socket, flags)) else {
        return Err(libc::EIO);
    };
    loop {
        match contained(|| socket.wait_for_room(engine, &mut call)) {
            Ok(RoomOutcome::Room) => match attempt() {
                Ok(SendOutcome::Full) => {}
                sent => return Ok(sent),
            },
            Ok(RoomOutcome::Fail(Errno(errno))) => return Err(errno),
            // SAFETY: nothing is held here that a cancelled thread would leave behind.
            Ok(RoomOutcome::Again) => unsafe { real::pthread_testcancel() },
            Ok(RoomOutcome::Sleep(sleep)) => {
                let slept =
                    sleep_until_woken(sleep, None, || call.interrupted(), || call.any_handler());
                if slept.is_interrupted {
                    call.end(Errno(libc::EINTR));
                }
            }
            Err(not_run) => return Ok(Err(not_run)),
        }
    }
}

/// Counts what the kernel answered to a send call.
#[inline]
pub(crate) fn sent_by_kernel(socket: &UdpSocket<Device>, result: ssize_t) -> ssize_t {
    socket.count_os_send(outcome(result));
    result
}

/// The same for `sendmmsg(2)`, which has sent `sent` messages.
///
/// # Safety
/// The kernel must have taken that many messages.
pub(crate) unsafe fn messages_sent_by_kernel(
    socket: &UdpSocket<Device>,
    messages: *const mmsghdr,
    sent: c_int,
) {
    let count = |result| socket.count_os_send(result);
    // SAFETY: the caller's promise.
    unsafe { count_messages(messages, sent, count) };
}

/// Shows what became of each of the messages of a call of the kernel's.
///
/// # Safety
/// If `done` is positive, that many messages must be readable.
unsafe fn count_messages(
    messages: *const mmsghdr,
    done: c_int,
    count: impl Fn(Result<usize, Errno>),
) {
    let Ok(done) = usize::try_from(done) else {
        return count(Err(Errno(guard::errno())));
    };
    for index in 0..done {
        let message = messages.wrapping_add(index);
        // SAFETY: the caller's promise.
        let len = unsafe { received_len(message).read_unaligned() };
        count(Ok(len as usize));
    }
}

/// Where a call leaves how many bytes it has sent or received. Nothing is known of the alignment.
pub(crate) fn received_len(message: *const mmsghdr) -> *mut c_uint {
    message
        .wrapping_byte_add(offset_of!(mmsghdr, msg_len))
        .cast_mut()
        .cast()
}

/// Where it leaves the flags of a received message.
pub(crate) fn message_flags(message: *const mmsghdr) -> *mut c_int {
    message
        .wrapping_byte_add(offset_of!(mmsghdr, msg_hdr) + offset_of!(msghdr, msg_flags))
        .cast_mut()
        .cast()
}

/// `poll(2)` and its like. `attempt` lets the engine decide; the caller copies results.
#[inline]
pub(crate) fn wait(
    call: &mut MuxCall,
    mask: Option<*const sigset_t>,
    engine: &'static Engine<Device>,
    mut attempt: impl FnMut(&mut MuxCall) -> MuxOutcome,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    loop {
        show_unseen(engine);
        match contained(|| attempt(call)) {
            Ok(MuxOutcome::Done(count)) => return c_int::try_from(count).unwrap_or(c_int::MAX),
            Ok(MuxOutcome::Fail(Errno(errno))) => return fail(errno),
            // SAFETY: nothing is held here that a cancelled thread would leave behind but the
            // call's own list of descriptors.
            Ok(MuxOutcome::Again) => unsafe { real::pthread_testcancel() },
            Ok(MuxOutcome::Sleep(sleep)) => {
                let interrupted = || call.interrupted();
                let slept = sleep_until_woken(sleep, mask, interrupted, interrupted);
                call.woke(slept.woken);
                if slept.is_interrupted {
                    call.end_after_last_look();
                }
            }
            Err(NotRun::Reentered | NotRun::Panicked) => return kernel(),
        }
    }
}

/// Whether `VMA_EXCEPTION_HANDLING` has a request fail, with `EINVAL`. Does not return if it has
/// the program end.
pub(crate) fn is_refused(
    engine: &'static Engine<Device>,
    socket: &'static UdpSocket<Device>,
    request: Request,
) -> bool {
    match contained(|| engine.exception_action(socket, request)) {
        Ok(Some(ExceptionAction::Fail)) => true,
        // SAFETY: abort has no preconditions, and nothing of ours is alive here.
        Ok(Some(ExceptionAction::Abort)) => unsafe { libc::abort() },
        _ => false,
    }
}

/// The kernel's socket may have other addresses now.
pub(crate) fn addresses_changed(
    engine: &'static Engine<Device>,
    socket: &'static UdpSocket<Device>,
) {
    let _ = contained(|| {
        engine.addresses_changed(socket);
        internal_thread::start_when_needed(engine);
    });
    start::end_if_start_failed();
}

/// This is what a call has failed with, or what the kernel's socket has kept of an error. When an
/// administrator ends a socket (`ss -K`), its connection is dissolved, and its address gone if the
/// program has not chosen it.
pub(crate) fn note_failure(
    engine: &'static Engine<Device>,
    socket: &'static UdpSocket<Device>,
    errno: c_int,
) {
    let may_be_ended = match errno {
        libc::ECONNABORTED => true,
        // What any socket says that has no peer.
        libc::EDESTADDRREQ => socket.is_connected(),
        _ => false,
    };
    if may_be_ended {
        addresses_changed(engine, socket);
    }
}

/// The kernel's socket has become a member of a multicast group, is one no longer, or gets what
/// others send.
pub(crate) fn membership_changed(
    engine: &'static Engine<Device>,
    socket: &'static UdpSocket<Device>,
    group: IpAddr,
    joins: bool,
) {
    let _ = contained(|| {
        engine.membership_changed(socket, group);
        internal_thread::start_when_needed(engine);
    });
    start::end_if_start_failed();
    let wait = engine.settings().wait_after_join;
    if joins && !wait.is_zero() {
        std::thread::sleep(wait);
    }
}

#[inline]
fn outcome(result: ssize_t) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno(guard::errno()))
}

/// A decision about the socket panicked: it is left alone from here on.
#[cold]
fn poisoned(engine: &'static Engine<Device>, socket: &'static UdpSocket<Device>) -> ssize_t {
    let _ = contained(|| engine.leave_to_kernel(socket, Reason::Poisoned));
    fail(libc::EIO)
}
