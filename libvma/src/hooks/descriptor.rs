//! Calls that make sockets, and copy and close descriptors.

use descriptors::own;
use engine::calls::SocketKind;
use engine::{Family, epoll_may_be_shared};
use libc::{c_int, c_uint};

use super::define::hook;
use super::numbers::{self, is_own};
use crate::extra;
use crate::guard::{self, contained, errno, fail, set_errno};
use crate::{epoll_waits, fd_relocation, log_sink, process_state, real, runtime, start};

hook! {
    /// `socket(2)`
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: integers.
        let fd = numbers::number_reused(unsafe { real::socket(domain, kind, protocol) });
        if fd >= 0 {
            opened(fd, domain, kind, protocol);
        }
        fd
    }
}

/// A socket has been made.
fn opened(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
    let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
    opened_as(fd, (domain, kind, protocol), nonblocking);
    extra::follow_thread(fd);
}

fn opened_as(fd: c_int, (domain, kind, protocol): (c_int, c_int, c_int), nonblocking: bool) {
    match SocketKind::of(domain, kind, protocol) {
        SocketKind::Udp(family) => {
            let _ = contained(|| {
                if let Some(engine) = start::start() {
                    engine.socket_opened(fd, family, nonblocking);
                }
            });
            start::end_if_start_failed();
        }
        SocketKind::Tcp(family) if stream_opened(fd, family, nonblocking) => {}
        SocketKind::Tcp(_) | SocketKind::OtherInternet => {
            if let Some(engine) = process_state::engine() {
                let _ = contained(|| engine.other_socket_opened(fd, domain, kind, protocol));
            }
        }
        SocketKind::Other => {}
    }
}

/// Whether a new TCP socket may be accelerated. The library starts for it only if rules leave any
/// to it.
fn stream_opened(fd: c_int, family: Family, nonblocking: bool) -> bool {
    contained(|| {
        let engine = match process_state::engine() {
            Some(engine) => Some(engine),
            None if start::may_accelerate_streams() => start::start(),
            None => None,
        };
        engine.is_some_and(|engine| engine.stream_opened(fd, family, nonblocking))
    })
    .unwrap_or(false)
}

hook! {
    /// `close(2)`
    fn close(fd: c_int) -> c_int {
        if is_own(fd) {
            // Programs that close every number there is must not take the interface away from their
            // own sockets.
            return fail(libc::EBADF);
        }
        numbers::forget(fd);
        // SAFETY: an integer.
        unsafe { real::close(fd) }
    }
}

hook! {
    /// `close(2)` by another name
    fn __close(fd: c_int) -> c_int {
        // SAFETY: an integer.
        unsafe { close(fd) }
    }
}

const CLOSE_RANGE_UNSHARE: c_int = 1 << 1;

hook! {
    /// `close_range(2)`; the library's own descriptors stay open.
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        // Flags that leave descriptors open, or what the kernel will refuse.
        let closes = flags & !CLOSE_RANGE_UNSHARE == 0 && first <= last;
        let engine = process_state::engine();
        if closes {
            epoll_waits::numbers_close(first, last);
            numbers::ring_closes(first, last);
        }
        if !closes || (engine.is_none() && !own::any()) {
            // SAFETY: integers.
            return unsafe { real::close_range(first, last, flags) };
        }
        runtime::forget_inherited(first, last);
        if let Some(engine) = engine {
            let _ = contained(|| engine.descriptors_close(first, last));
        }
        if guard::is_inside() {
            // SAFETY: integers.
            return unsafe { real::close_range(first, last, flags) };
        }
        // Nothing to close is a success, too.
        for (first, last) in own::ranges_without(first, last) {
            // SAFETY: integers.
            let result = unsafe { real::close_range(first, last, flags) };
            if result != 0 {
                return result;
            }
        }
        0
    }
}

hook! {
    /// `closefrom(3)`
    fn closefrom(first: c_int) -> () {
        // SAFETY: integers.
        if unsafe { close_range(first.max(0).cast_unsigned(), c_uint::MAX, 0) } != 0 {
            // SAFETY: an integer.
            unsafe { real::closefrom(first) };
        }
    }
}

/// `new` is another descriptor of what `old` stands for, if `new` is one at all.
pub(super) fn duplicated(old: c_int, new: c_int) -> c_int {
    epoll_may_be_shared(old);
    epoll_may_be_shared(new);
    if new == libc::STDERR_FILENO && old != new {
        log_sink::standard_error_is_for_the_log();
    }
    match runtime::look_up(old).filter(|_| new >= 0) {
        Some(engine) => {
            let _ = contained(|| engine.descriptor_duplicated(old, new));
            new
        }
        None => {
            numbers::number_reused(new);
            if let Some(engine) = process_state::engine().filter(|_| new >= 0) {
                engine.other_duplicated(old, new);
            }
            new
        }
    }
}

/// Ends what `new` stands for, which is about to become a copy of `old`, unless the kernel will
/// refuse that.
fn replaced(old: c_int, new: c_int) {
    if old != new && (runtime::look_up(new).is_some() || runtime::has_ancestors()) && is_open(old) {
        numbers::forget(new);
    }
}

fn is_open(fd: c_int) -> bool {
    let saved = errno();
    // SAFETY: F_GETFD has no third argument.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFD, std::ptr::null_mut()) };
    set_errno(saved);
    flags >= 0
}

hook! {
    /// `dup(2)`
    fn dup(fd: c_int) -> c_int {
        if is_own(fd) {
            return fail(libc::EBADF);
        }
        runtime::recall(fd);
        // SAFETY: an integer.
        duplicated(fd, unsafe { real::dup(fd) })
    }
}

/// `new`, a descriptor of the library's, is about to become a copy of `old`.
///
/// # Errors
/// The errno of the call that cannot be.
#[cold]
fn make_room(old: c_int, new: c_int) -> Result<(), c_int> {
    if !is_open(old) {
        return Err(libc::EBADF);
    }
    fd_relocation::make(new)
}

/// `result` of an `fcntl(2)` is the lowest number from `from` on that is free, but for those of the
/// library, which make room.
pub(super) fn lowest(fd: c_int, from: c_int, flags: c_int, result: c_int) -> c_int {
    if result < 0 && errno() != libc::EMFILE {
        return result;
    }
    let end = c_int::try_from(result.cast_unsigned()).unwrap_or(c_int::MAX);
    match own::first_in(from, end) {
        Some(number) if is_own(number) => lower(fd, number, flags, result),
        _ => result,
    }
}

#[cold]
fn lower(fd: c_int, number: c_int, flags: c_int, result: c_int) -> c_int {
    let saved = errno();
    if fd_relocation::make(number).is_err() {
        set_errno(saved);
        return result;
    }
    // SAFETY: integers.
    let copy = unsafe { real::dup3(fd, number, flags) };
    if copy >= 0 && result >= 0 {
        // SAFETY: the kernel has just given it out, and nobody knows it.
        unsafe { real::close(result) };
    }
    copy
}

hook! {
    /// `dup2(2)`
    fn dup2(old: c_int, new: c_int) -> c_int {
        if is_own(old) {
            return fail(libc::EBADF);
        }
        if is_own(new) && let Err(errno) = make_room(old, new) {
            return fail(errno);
        }
        runtime::recall(old);
        replaced(old, new);
        // SAFETY: integers.
        duplicated(old, unsafe { real::dup2(old, new) })
    }
}

hook! {
    /// `dup2(2)` by another name
    fn __dup2(old: c_int, new: c_int) -> c_int {
        // SAFETY: integers.
        unsafe { dup2(old, new) }
    }
}

hook! {
    /// `dup3(2)`
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
        if flags & !libc::O_CLOEXEC == 0 && old != new {
            if is_own(old) {
                return fail(libc::EBADF);
            }
            if is_own(new) && let Err(errno) = make_room(old, new) {
                return fail(errno);
            }
        }
        runtime::recall(old);
        if flags & !libc::O_CLOEXEC == 0 {
            replaced(old, new);
        }
        // SAFETY: integers.
        duplicated(old, unsafe { real::dup3(old, new, flags) })
    }
}
