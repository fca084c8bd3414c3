//! Calls on streams.

use std::net::SocketAddr;

use engine::{
    Accepting, DUMMY_SEND, Direction, Engine, Errno, FileRange, Message, PacketSink, Pipe, Reason,
    StreamCall, StreamOutcome, TcpSocket,
};
use libc::{c_int, msghdr, ssize_t};

use crate::guard::{self, NotRun, contained, fail};
use crate::process_state::Device;
use crate::real;
use crate::show_packets::show_unseen;
use crate::sleep::sleep_until_woken;

use super::rest;

/// A receive call on the stream that was found behind `fd`. `kernel` makes the same call to the
/// kernel.
///
/// # Safety
/// `header` must be valid for `recvmsg(2)`.
#[inline]
pub(crate) unsafe fn receive_stream(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static TcpSocket<Device>,
    header: &mut msghdr,
    flags: c_int,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { receive_stream_here(engine, fd, socket, header, flags) }.unwrap_or_else(kernel)
}

/// The part of it that is not the kernel's. `None`: the call is for the kernel, and nothing has
/// happened to `header`.
///
/// # Safety
/// `header` must be valid for `recvmsg(2)`.
#[inline]
pub(crate) unsafe fn receive_stream_here(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static TcpSocket<Device>,
    header: &mut msghdr,
    flags: c_int,
) -> Option<ssize_t> {
    // SAFETY: the caller's promise.
    unsafe { receive_stream_into(engine, fd, socket, (header, None), flags) }
}

/// The same for a call that may take packets as they are.
///
/// # Safety
/// That of [`receive_stream_here`].
#[inline]
pub(crate) unsafe fn receive_stream_into(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static TcpSocket<Device>,
    (header, mut sink): (&mut msghdr, Option<&mut PacketSink>),
    flags: c_int,
) -> Option<ssize_t> {
    if socket.is_left_to_kernel() {
        return None;
    }
    let mut call = StreamCall::begin(engine, fd, socket, Direction::In, flags);
    let received = run(engine, socket, &mut call, |call| {
        // SAFETY: the caller's promise.
        let mut message = unsafe { Message::with_sink(header, sink.as_deref_mut()) };
        socket.receive(engine, call, &mut message, flags)
    })?;
    if call.goes_on_in_kernel() {
        // SAFETY: the caller's promise.
        return Some(unsafe { rest::receive(fd, header, flags, received) });
    }
    Some(received)
}

/// A send call on the stream that was found behind `fd`. `kernel` makes the same call to the
/// kernel.
///
/// # Safety
/// `header` must be valid for `sendmsg(2)`.
#[inline]
pub(crate) unsafe fn send_stream(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static TcpSocket<Device>,
    header: &mut msghdr,
    flags: c_int,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    if socket.is_left_to_kernel() {
        return if flags & DUMMY_SEND == 0 {
            kernel()
        } else {
            fail(libc::EINVAL)
        };
    }
    let mut call = StreamCall::begin(engine, fd, socket, Direction::Out, flags);
    let attempt = |call: &mut StreamCall| {
        // SAFETY: the caller's promise.
        let message = unsafe { Message::new(header) };
        socket.send(engine, call, &message, flags)
    };
    let Some(sent) = run(engine, socket, &mut call, attempt) else {
        return kernel();
    };
    if call.goes_on_in_kernel() {
        // SAFETY: the caller's promise.
        return unsafe { rest::send(fd, header, flags, sent) };
    }
    sent
}

/// A call that sends octets of a file into a stream. `None`: it is for the kernel. `true`: the rest
/// of it is.
pub(crate) fn send_file(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static TcpSocket<Device>,
    range: &mut FileRange,
) -> Option<(ssize_t, bool)> {
    let mut call = StreamCall::begin(engine, fd, socket, Direction::Out, 0);
    let sent = run(engine, socket, &mut call, |call| {
        socket.send_file(engine, call, range)
    });
    sent.map(|sent| (sent, call.goes_on_in_kernel()))
}

/// A call that moves octets from a pipe into a stream. `None`: it is for the kernel.
pub(crate) fn send_pipe(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static TcpSocket<Device>,
    pipe: &mut Pipe,
) -> Option<ssize_t> {
    let mut call = StreamCall::begin(engine, fd, socket, Direction::Out, 0);
    run(engine, socket, &mut call, |call| {
        socket.send_pipe(engine, call, pipe)
    })
}

/// A call that moves octets from a stream into a pipe. `None`: it is for the kernel.
pub(crate) fn receive_into_pipe(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static TcpSocket<Device>,
    pipe: &mut Pipe,
) -> Option<ssize_t> {
    let mut call = StreamCall::begin(engine, fd, socket, Direction::In, 0);
    run(engine, socket, &mut call, |call| {
        socket.receive_into_pipe(engine, call, pipe)
    })
}

/// `accept4(2)`: the new descriptor and its peer, or an errno. `None`: the kernel has a connection,
/// or the listener.
pub(crate) fn accept(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static TcpSocket<Device>,
    flags: c_int,
) -> Option<Result<(c_int, SocketAddr), c_int>> {
    let mut call = StreamCall::begin(engine, fd, socket, Direction::In, 0);
    loop {
        let mut accepted = None;
        let waited = run(engine, socket, &mut call, |call| {
            match socket.wait_for_connection(call) {
                Accepting::Ready => {
                    accepted = engine.accept(socket, flags);
                    match &accepted {
                        Some(_) => StreamOutcome::Done(0),
                        None => StreamOutcome::Again,
                    }
                }
                Accepting::Other(outcome) => outcome,
            }
        });
        match accepted {
            Some(result) => {
                let form = |(fd, peer)| (fd, socket.family().form(peer));
                return Some(result.map(form).map_err(|Errno(errno)| errno));
            }
            None if waited? < 0 => return Some(Err(guard::errno())),
            None => {}
        }
    }
}

/// The rest of a blocking `connect(2)`. `None`: the kernel's socket has it.
pub(crate) fn finish_connect(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static TcpSocket<Device>,
) -> Option<ssize_t> {
    let mut call = StreamCall::begin(engine, fd, socket, Direction::Out, 0);
    run(engine, socket, &mut call, |call| {
        socket.finish_connect(engine, call)
    })
}

/// Runs a call on a stream to its end. `None`: it is for the kernel.
#[inline]
fn run(
    engine: &'static Engine<Device>,
    socket: &'static TcpSocket<Device>,
    call: &mut StreamCall,
    mut attempt: impl FnMut(&mut StreamCall) -> StreamOutcome,
) -> Option<ssize_t> {
    loop {
        show_unseen(engine);
        match contained(|| attempt(call)) {
            Ok(StreamOutcome::Done(len)) => return Some(len.cast_signed()),
            Ok(StreamOutcome::Fail(Errno(errno))) => return Some(fail(errno)),
            Ok(StreamOutcome::BrokenPipe) => {
                raise_broken_pipe();
                return Some(fail(libc::EPIPE));
            }
            Ok(StreamOutcome::Kernel) | Err(NotRun::Reentered) => return None,
            // SAFETY: nothing is held here that a cancelled thread would leave behind.
            Ok(StreamOutcome::Again) => unsafe { real::pthread_testcancel() },
            Ok(StreamOutcome::Idle) => {
                let _ = contained(|| engine.use_idle_moment());
            }
            Ok(StreamOutcome::Sleep(sleep)) => {
                let slept =
                    sleep_until_woken(sleep, None, || call.interrupted(), || call.any_handler());
                if slept.is_interrupted {
                    call.end_with(Errno(libc::EINTR));
                }
            }
            Err(NotRun::Panicked) => {
                let _ = contained(|| engine.leave_to_kernel(socket, Reason::Poisoned));
                return Some(fail(libc::EIO));
            }
        }
    }
}

/// The signal of a thread that writes where nobody reads.
#[cold]
fn raise_broken_pipe() {
    let process = stats::process_id();
    // SAFETY: takes nothing.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    // SAFETY: integers.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGPIPE) };
}
