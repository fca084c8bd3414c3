//! Calls on TCP sockets of ours, for the hooks of calls that any socket may be behind.

use engine::user_memory::{is_readable, is_writable};
use engine::{Amount, ConnectOutcome, Errno, Sockaddr};
use libc::{c_int, c_void, msghdr, sockaddr, sockaddr_in6, socklen_t, ssize_t};

use crate::guard::{contained, fail};
use crate::{adoption, call, internal_thread, process_state, runtime};

/// A receive call; the kernel's if there is no stream of ours.
///
/// # Safety
/// `header` must be valid for `recvmsg(2)`.
#[inline]
pub(super) unsafe fn receive(
    fd: c_int,
    header: &mut msghdr,
    flags: c_int,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    let Some((engine, socket)) = runtime::stream(fd) else {
        return kernel();
    };
    call::cancellation_point();
    // SAFETY: the caller's promise.
    unsafe { call::receive_stream(engine, fd, socket, header, flags, kernel) }
}

/// `recvfrom(2)`, which tells of no address.
///
/// # Safety
/// `header` must be valid for `recvmsg(2)`, `from_len` be the caller's own.
#[inline]
pub(super) unsafe fn receive_from(
    fd: c_int,
    header: &mut msghdr,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    let Some((engine, socket)) = runtime::stream(fd) else {
        return kernel();
    };
    call::cancellation_point();
    // SAFETY: the caller's promise.
    let received = unsafe { call::receive_stream_here(engine, fd, socket, header, flags) };
    let Some(result) = received else {
        return kernel();
    };
    if result >= 0 && !from.is_null() {
        // The kernel, too, looks at the length only when it has taken the octets.
        if !is_writable(from_len, size_of::<socklen_t>()) {
            return fail(libc::EFAULT);
        }
        // SAFETY: readable (checked above), and the caller's own.
        if unsafe { from_len.read_unaligned() }.cast_signed() < 0 {
            return fail(libc::EINVAL);
        }
        // SAFETY: writable (checked above), and the caller's own.
        unsafe { from_len.write_unaligned(0) };
    }
    result
}

/// `recvmsg(2)`. `None`: it is the kernel's.
///
/// # Safety
/// `message` must be the caller's own.
pub(super) unsafe fn receive_message(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> Option<ssize_t> {
    let (engine, socket) = runtime::stream(fd)?;
    if !is_readable(message, size_of::<msghdr>()) {
        return None;
    }
    // SAFETY: readable (checked above), and the caller's own.
    let mut header = unsafe { message.read_unaligned() };
    if !header.msg_name.is_null() && header.msg_namelen.cast_signed() < 0 {
        // The kernel refuses it before it looks at the socket.
        return None;
    }
    // SAFETY: the buffers are the caller's, valid for recvmsg(2).
    let result = unsafe { call::receive_stream_here(engine, fd, socket, &mut header, flags) }?;
    if result < 0 {
        return Some(result);
    }
    if !is_writable(message, size_of::<msghdr>()) {
        return Some(fail(libc::EFAULT));
    }
    header.msg_flags |= flags & libc::MSG_CMSG_CLOEXEC;
    // SAFETY: writable (checked above), and the caller's own.
    unsafe { message.write_unaligned(header) };
    Some(result)
}

/// A send call; the kernel's if there is no stream of ours.
///
/// # Safety
/// `header` must be valid for `sendmsg(2)`.
#[inline]
pub(super) unsafe fn send(
    fd: c_int,
    header: &mut msghdr,
    flags: c_int,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    if runtime::stream(fd).is_none() {
        return kernel();
    }
    call::cancellation_point();
    // SAFETY: the caller's promise.
    unsafe { send_one(fd, header, flags, kernel) }
}

/// The same for one of several messages, between which nobody is cancelled.
///
/// # Safety
/// That of [`send`].
#[inline]
pub(super) unsafe fn send_one(
    fd: c_int,
    header: &mut msghdr,
    flags: c_int,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    let Some((engine, socket)) = runtime::stream(fd) else {
        return kernel();
    };
    // SAFETY: the caller's promise.
    unsafe { call::send_stream(engine, fd, socket, header, flags, kernel) }
}

/// `connect(2)`. `None`: it is the kernel's.
///
/// # Safety
/// `address` must be the caller's own.
pub(super) unsafe fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> Option<c_int> {
    let (engine, socket) = runtime::stream(fd)?;
    if socket.is_left_to_kernel() {
        return None;
    }
    let size = len as usize;
    if size < size_of::<libc::sa_family_t>()
        || !is_readable(address, size.min(size_of::<sockaddr_in6>()))
    {
        // The kernel says what is wrong.
        return None;
    }
    // SAFETY: readable (checked above), and the caller's own.
    let peer = unsafe { engine::socket_address(address.cast::<c_void>(), len) };
    let peer = peer.filter(|peer| socket.family().is_of(peer));
    // SAFETY: as above; every address begins with its family.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    if peer.is_none() && c_int::from(family) != libc::AF_UNSPEC {
        return None;
    }
    call::cancellation_point();
    let outcome = contained(|| {
        let outcome = socket.connect(engine, fd, peer);
        internal_thread::start_when_needed(engine);
        outcome
    });
    match outcome.ok()? {
        ConnectOutcome::Kernel => None,
        ConnectOutcome::Done => Some(0),
        ConnectOutcome::Fail(Errno(errno)) => Some(fail(errno)),
        ConnectOutcome::Wait => {
            call::finish_connect(engine, fd, socket).map(|result| result as c_int)
        }
    }
}

/// `accept4(2)`. `None`: it is the kernel's.
///
/// # Safety
/// What the pointers lead to must be the caller's own.
pub(super) unsafe fn accept(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Option<c_int> {
    adoption::adopt_inherited(fd);
    let (engine, socket) = runtime::stream(fd)?;
    if socket.is_left_to_kernel() || flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return None;
    }
    if !address.is_null() && !is_writable(len, size_of::<socklen_t>()) {
        return None;
    }
    call::cancellation_point();
    let (accepted, peer) = match call::accept(engine, fd, socket, flags)? {
        Ok(accepted) => accepted,
        Err(errno) => return Some(fail(errno)),
    };
    if !address.is_null() {
        // SAFETY: readable (checked above), and the caller's own.
        let room = unsafe { len.read_unaligned() } as usize;
        let name = Sockaddr::from(peer);
        let name = name.as_bytes();
        let count = room.min(name.len());
        if is_writable(address, count) {
            // SAFETY: writable for `count` bytes (checked above), and the caller's own.
            unsafe {
                address
                    .cast::<u8>()
                    .copy_from_nonoverlapping(name.as_ptr(), count)
            };
        }
        // SAFETY: writable (checked above), and the caller's own.
        unsafe { len.write_unaligned(name.len() as socklen_t) };
    }
    Some(accepted)
}

/// What the kernel's `accept4(2)` has returned.
pub(super) fn kernel_has_accepted(listener: c_int, accepted: c_int, flags: c_int) -> c_int {
    if accepted >= 0
        && let Some((_, socket)) = runtime::stream(listener)
    {
        let _ = contained(|| socket.kernel_has_accepted(accepted));
    }
    if accepted >= 0
        && let Some(engine) = process_state::engine()
        && engine.settings().shares_memory
    {
        let _ = contained(|| {
            engine.kernel_has_accepted(listener, accepted, flags);
            internal_thread::start_when_needed(engine);
        });
    }
    accepted
}

/// `shutdown(2)`. `None`: it is the kernel's.
pub(super) fn shut_down(fd: c_int, how: c_int) -> Option<c_int> {
    let (engine, socket) = runtime::stream(fd)?;
    let result = contained(|| socket.shut_down(engine, how)).ok()??;
    Some(match result {
        Ok(()) => 0,
        Err(Errno(errno)) => fail(errno),
    })
}

/// The kernel has done a call that ends the listening of a listener.
pub(super) fn may_have_stopped_listening(fd: c_int) {
    if let Some((engine, socket)) = runtime::stream(fd) {
        let _ = contained(|| socket.follow_end_of_listening(engine));
    }
}

/// An `ioctl(2)` that asks how much there is. `None`: it is the kernel's.
///
/// # Safety
/// `argument` must be the caller's own.
pub(super) unsafe fn amount(fd: c_int, amount: Amount, argument: *mut c_void) -> Option<c_int> {
    let (_, socket) = runtime::stream(fd)?;
    let count = contained(|| socket.amount(amount)).ok()??;
    if !is_writable(argument, size_of::<c_int>()) {
        return Some(fail(libc::EFAULT));
    }
    let count = c_int::try_from(count).unwrap_or(c_int::MAX);
    // SAFETY: writable (checked above), and the caller's own.
    unsafe { argument.cast::<c_int>().write_unaligned(count) };
    Some(0)
}

/// `SO_KEEPALIVE`. `None`: it is for the kernel's socket.
///
/// # Safety
/// `value` must be the caller's own.
pub(super) unsafe fn set_keep_alive(
    fd: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Option<c_int> {
    let (engine, socket) = runtime::stream(fd)?;
    let size = size_of::<c_int>();
    if (len as usize) < size || !is_readable(value, size) {
        return None;
    }
    // SAFETY: readable (checked above), and the caller's own.
    let value = unsafe { value.cast::<c_int>().read_unaligned() };
    contained(|| socket.set_keep_alive(engine, value != 0)).ok()??;
    Some(0)
}

/// The kernel's socket is about to see an option with which it takes the connection over.
pub(super) fn option_takes_over(fd: c_int, level: c_int, name: c_int) {
    if let Some((engine, socket)) = runtime::stream(fd) {
        let _ = contained(|| socket.option_takes_over(engine, level, name));
    }
}

/// The kernel has accepted a `setsockopt(2)`.
///
/// # Safety
/// It has just read the value.
pub(super) unsafe fn option_was_set(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) {
    if let Some((engine, socket)) = runtime::stream(fd) {
        let is_int = len as usize == size_of::<c_int>();
        // SAFETY: so many bytes are readable.
        let value = is_int.then(|| unsafe { value.cast::<c_int>().read_unaligned() });
        let _ = contained(|| socket.option_was_set(engine, level, name, value));
    }
}

/// A `getsockopt(2)` of which the kernel's socket has another value. `None`: it has the right one.
///
/// # Safety
/// What the pointers lead to must be the caller's own.
pub(super) unsafe fn option(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Option<c_int> {
    let (_, socket) = runtime::stream(fd)?;
    let found = contained(|| socket.option(level, name)).ok()??;
    if !is_writable(len, size_of::<socklen_t>()) {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: readable (checked above), and the caller's own.
    let room = unsafe { len.read_unaligned() };
    let Ok(room) = usize::try_from(room.cast_signed()) else {
        return Some(fail(libc::EINVAL));
    };
    let count = room.min(found.len());
    if !is_writable(value, count) {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: writable for `count` bytes (checked above), and the caller's own.
    unsafe {
        value
            .cast::<u8>()
            .copy_from_nonoverlapping(found.as_ptr(), count)
    };
    // SAFETY: writable (checked above), and the caller's own.
    unsafe { len.write_unaligned(count as socklen_t) };
    Some(0)
}

/// A `getsockopt(2)` for the headers of the segment that has opened a connection past the kernel.
/// They are told once. `None`: the kernel's socket has them, or nobody.
///
/// # Safety
/// What the pointers lead to must be the caller's own.
pub(super) unsafe fn saved_syn(
    fd: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Option<c_int> {
    let (_, socket) = runtime::stream(fd)?;
    let size = contained(|| socket.saved_syn_len()).ok()??;
    if !is_writable(len, size_of::<socklen_t>()) {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: readable (checked above), and the caller's own.
    let room = unsafe { len.read_unaligned() }.cast_signed();
    // SAFETY: writable (checked above), and the caller's own.
    unsafe { len.write_unaligned(size as socklen_t) };
    if usize::try_from(room).map_or(true, |room| room < size) {
        return Some(fail(libc::EINVAL));
    }
    if !is_writable(value, size) {
        return Some(fail(libc::EFAULT));
    }
    let headers = contained(|| socket.take_saved_syn()).ok()??;
    let count = headers.len().min(size);
    // SAFETY: writable for `size` bytes (checked above), and the caller's own.
    unsafe {
        value
            .cast::<u8>()
            .copy_from_nonoverlapping(headers.as_ptr(), count);
    }
    Some(0)
}

/// Whether `getpeername(2)` is to fail, as the kernel's socket would not.
pub(super) fn has_no_peer(fd: c_int) -> bool {
    runtime::stream(fd).and_then(|(_, socket)| contained(|| socket.has_peer()).ok().flatten())
        == Some(false)
}
