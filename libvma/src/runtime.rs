//! What a descriptor stands for in this process, or stood for in those that it descends from.

use engine::{Engine, EpollSet, Object, TcpSocket, UdpSocket};
use libc::{c_int, c_uint};

use crate::process_state::{self, Device, engine};
use crate::{guard, started_with};

/// Whether this process may have inherited sockets that another has in user space: as its child, or
/// as a program that it started.
#[inline]
pub(crate) fn has_ancestors() -> bool {
    process_state::has_ancestors() || started_with::has_any()
}

/// The UDP socket behind a descriptor that is about to be used, if it is one of ours. One that
/// ancestors have in user space comes back to the kernel.
#[inline]
pub(crate) fn udp(fd: c_int) -> Option<(&'static Engine<Device>, &'static UdpSocket<Device>)> {
    let found = own_udp(fd);
    if found.is_none() {
        recall(fd);
    }
    found
}

/// The same, where an ancestor may keep it: for sending, which the kernel can do for a descendant
/// while its ancestor receives.
#[inline]
pub(crate) fn own_udp(fd: c_int) -> Option<(&'static Engine<Device>, &'static UdpSocket<Device>)> {
    let engine = engine()?;
    engine.udp(fd).map(|socket| (engine, socket))
}

/// The TCP socket behind a descriptor that is about to be used, if it is one of ours. One that
/// ancestors have in user space comes back to the kernel, whatever it is used for: its octets are
/// in order.
#[inline]
pub(crate) fn stream(fd: c_int) -> Option<(&'static Engine<Device>, &'static TcpSocket<Device>)> {
    let found = engine().and_then(|engine| Some((engine, engine.tcp(fd)?)));
    if found.is_none() {
        recall_stream(fd);
    }
    found
}

/// A stream of an ancestor's is about to be used.
#[inline]
fn recall_stream(fd: c_int) {
    if has_ancestors() {
        if process_state::ancestors().any(|engine| engine.tcp(fd).is_some()) {
            recall_from_ancestors(fd);
        }
        started_with::stream_is_used(fd);
    }
}

/// The engine, if a descriptor stands for something of ours.
#[inline]
pub(crate) fn look_up(fd: c_int) -> Option<&'static Engine<Device>> {
    engine().filter(|engine| engine.look_up(fd).is_some())
}

/// The epoll set behind a descriptor that is about to be used, if sockets of ours are in it.
#[inline]
pub(crate) fn epoll(fd: c_int) -> Option<(&'static Engine<Device>, &'static EpollSet<Device>)> {
    if let Some(engine) = engine()
        && let Some(object) = engine.look_up(fd)
    {
        return match object {
            Object::Epoll(set) => Some((engine, set)),
            Object::Udp(_) | Object::Tcp(_) => None,
        };
    }
    recall(fd);
    None
}

/// A descriptor is about to be used: what an ancestor of this process has in user space of it comes
/// back to the kernel first.
#[inline]
pub(crate) fn recall(fd: c_int) {
    recall_from_descendants(fd);
    if has_ancestors() {
        recall_from_ancestors(fd);
    }
}

/// The same of one of this process's own, which a descendant may have adopted.
#[inline]
fn recall_from_descendants(fd: c_int) {
    if let Some(engine) = look_up(fd) {
        let _ = guard::contained(|| engine.recall_from_descendants(fd));
    }
}

#[cold]
fn recall_from_ancestors(fd: c_int) {
    for engine in process_state::ancestors().filter(|engine| engine.look_up(fd).is_some()) {
        let _ = guard::contained(|| engine.inherited_is_used(fd));
    }
    started_with::ask_if_inherited(fd);
}

/// What this process has inherited of ancestors' sockets comes back to the kernel, all of it.
pub(crate) fn everything_inherited_is_used() {
    for engine in process_state::ancestors() {
        for fd in 0..=engine.highest_descriptor() {
            if engine.look_up(fd).is_some() {
                engine.inherited_is_used(fd);
            }
        }
    }
    started_with::all_are_used();
}

/// A socket has got an address. If others may share its port, ancestors of this process look
/// whether it is one of theirs.
#[inline]
pub(crate) fn look_for_shared_port(fd: c_int) {
    if has_ancestors() {
        tell_ancestors_of_port(fd);
    }
}

#[cold]
fn tell_ancestors_of_port(fd: c_int) {
    let option = |name: c_int| {
        let (mut value, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
        let (at, room) = (&raw mut value, &raw mut len);
        // SAFETY: the kernel writes at most `len` bytes to `value`.
        let result = unsafe {
            libc::syscall(
                libc::SYS_getsockopt,
                fd,
                libc::SOL_SOCKET,
                name,
                at.cast::<c_int>(),
                room,
            )
        };
        (result == 0).then_some(value)
    };
    let saved = guard::errno();
    let shares = option(libc::SO_TYPE) == Some(libc::SOCK_DGRAM)
        && option(libc::SO_REUSEADDR) == Some(1)
        && !process_state::is_vfork_child();
    if shares {
        for engine in process_state::ancestors() {
            let _ = guard::contained(|| engine.inherited_port_is_bound());
        }
    }
    guard::set_errno(saved);
}

/// What an ancestor has in user space of a descriptor comes back to the kernel, from where this
/// process may take it past that later.
#[inline]
pub(crate) fn comes_back(fd: c_int) {
    recall_from_descendants(fd);
    if has_ancestors() {
        for engine in process_state::ancestors().filter(|engine| engine.look_up(fd).is_some()) {
            let _ = guard::contained(|| engine.inherited_comes_back(fd));
        }
        started_with::ask_if_inherited(fd);
    }
}

/// Several are about to be passed to another process.
#[inline]
pub(crate) fn recall_all(fds: impl Iterator<Item = c_int>) {
    if has_ancestors() {
        fds.for_each(recall_from_ancestors);
    }
}

/// Descriptors from `first` to `last` are about to be closed, which ancestors need not know of.
#[inline]
pub(crate) fn forget_inherited(first: c_uint, last: c_uint) {
    if has_ancestors() {
        forget_ancestors(first, last);
    }
}

#[cold]
fn forget_ancestors(first: c_uint, last: c_uint) {
    for engine in process_state::ancestors().filter(|engine| engine.has_any(first, last)) {
        if !process_state::is_vfork_child() {
            engine.inherited_close(first, last);
        }
    }
    // The second question is a system call.
    if started_with::has_any() && !process_state::is_vfork_child() {
        started_with::close(first, last);
    }
}
