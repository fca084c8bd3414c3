//! Options of sockets.

use std::net::IpAddr;

use engine::calls::{GetOption, SetOption};
use engine::user_memory::is_readable;
use engine::{AnySocket, RING_ASK_BYTES, Request, RingAsk, is_asked_for_later};
use libc::{c_int, c_void, socklen_t};
use vma_api::abi::SO_VMA_GET_API;

use super::define::hook;
use super::trace::traced;
use super::{answers, rate_limit, stream_calls};
use crate::guard::{contained, fail};
use crate::{call, extra, real, runtime};

/// `SO_VMA_RING_ALLOC_LOGIC`. `None`: it is no socket of ours, and no option of the kernel's.
///
/// # Safety
/// `value` must be the caller's own.
unsafe fn ask_for_rings(fd: c_int, value: *const c_void, len: socklen_t) -> Option<c_int> {
    let udp = runtime::own_udp(fd).map(|(engine, socket)| (engine, AnySocket::from(socket)));
    let stream = || runtime::stream(fd).map(|(engine, socket)| (engine, socket.into()));
    let (engine, socket) = udp.or_else(stream)?;
    if value.is_null() || len as usize != RING_ASK_BYTES {
        return Some(fail(libc::EINVAL));
    }
    if !is_readable(value, RING_ASK_BYTES) {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: readable (checked above), and the caller's own.
    let value = unsafe { value.cast::<[u8; RING_ASK_BYTES]>().read_unaligned() };
    let Some(ask) = RingAsk::parse(&value) else {
        return Some(fail(libc::EINVAL));
    };
    let _ = contained(|| engine.rings_are_asked_for(socket, ask));
    Some(0)
}

hook! {
    /// `setsockopt(2)`
    fn setsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        len: socklen_t,
    ) -> c_int {
        let option = SetOption::of(level, name);
        // The owner of a socket that was inherited would not learn of it.
        if is_asked_for_later(level, name) {
            runtime::comes_back(fd);
        } else {
            runtime::recall(fd);
        }
        // SAFETY: the value is the caller's own.
        if let Some(result) = unsafe { set_here(fd, option, (level, name), value, len) } {
            return result;
        }
        // SAFETY: the arguments are the caller's own.
        let result = traced("setsockopt", fd, unsafe { real::setsockopt(fd, level, name, value, len) });
        if result == 0 {
            // SAFETY: the kernel has just read the value.
            unsafe { follow_option(fd, option, (level, name), value, len) };
        }
        result
    }
}

/// What the kernel's socket must not see. `None`: it is to.
///
/// # Safety
/// `value` must be the caller's own.
unsafe fn set_here(
    fd: c_int,
    option: SetOption,
    (level, name): (c_int, c_int),
    value: *const c_void,
    len: socklen_t,
) -> Option<c_int> {
    if level == libc::SOL_SOCKET
        // SAFETY: the caller's promise.
        && let Some(result) = unsafe { extra::set_option(fd, name, value, len) }
    {
        return Some(traced("setsockopt", fd, result));
    }
    if option == SetOption::Rings
        // SAFETY: the caller's promise.
        && let Some(result) = unsafe { ask_for_rings(fd, value, len) }
    {
        return Some(traced("setsockopt", fd, result));
    }
    if is_refused(fd, Request::Option { level, name }) {
        return Some(fail(libc::EINVAL));
    }
    let result = match option {
        // SAFETY: the caller's promise.
        SetOption::Rate => unsafe { rate_limit::set(fd, value, len) }?,
        // SAFETY: the caller's promise.
        SetOption::KeepAlive => unsafe { stream_calls::set_keep_alive(fd, value, len) }?,
        SetOption::TakesOver => {
            stream_calls::option_takes_over(fd, level, name);
            return None;
        }
        _ => return None,
    };
    Some(traced("setsockopt", fd, result))
}

/// The kernel's socket has the option.
///
/// # Safety
/// The kernel has just read the value.
pub(super) unsafe fn follow_option(
    fd: c_int,
    option: SetOption,
    (level, name): (c_int, c_int),
    value: *const c_void,
    len: socklen_t,
) {
    let Some((engine, socket)) = runtime::own_udp(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { stream_calls::option_was_set(fd, level, name, value, len) };
    };
    match option {
        SetOption::GroupInterface => {
            let len = (len as usize).min(MREQN_LEN);
            // SAFETY: the kernel has just read so many bytes there.
            let value = unsafe { std::slice::from_raw_parts(value.cast(), len) };
            let _ = contained(|| socket.group_interface_was_set(engine, value));
        }
        SetOption::PacketLen => {
            // SAFETY: the kernel has just read an int there, which is not negative.
            let len = unsafe { value.cast::<u32>().read_unaligned() };
            let _ = contained(|| socket.packet_len_was_set(len));
        }
        _ => {}
    }
    let _ = contained(|| engine.option_was_set(socket, level, name));
    if let SetOption::Membership(membership) = option {
        let group = value.cast::<u8>().wrapping_add(membership.group_offset);
        // SAFETY: the kernel has just read the group's address there.
        let group = unsafe { group_at(group, membership.is_v6) };
        call::membership_changed(engine, socket, group, membership.joins);
    }
}

hook! {
    /// `getsockopt(2)`
    fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> c_int {
        let option = GetOption::of(level, name);
        // SAFETY: what the pointers lead to is the caller's own.
        if let Some(result) = unsafe { get_here(fd, option, (level, name), value, len) } {
            return traced("getsockopt", fd, result);
        }
        // SAFETY: the arguments are the caller's own.
        let result = traced("getsockopt", fd, unsafe { real::getsockopt(fd, level, name, value, len) });
        if result == 0 {
            // SAFETY: the kernel has just given this answer.
            unsafe { answers::complete(fd, option, value, len) };
        }
        result
    }
}

/// What the kernel's socket does not know. `None`: it does.
///
/// # Safety
/// What the pointers lead to must be the caller's own.
unsafe fn get_here(
    fd: c_int,
    option: GetOption,
    (level, name): (c_int, c_int),
    value: *mut c_void,
    len: *mut socklen_t,
) -> Option<c_int> {
    if (level, name) == (libc::SOL_SOCKET, SO_VMA_GET_API)
        // SAFETY: the caller's promise.
        && let Some(result) = unsafe { extra::give_table(value, len) }
    {
        return Some(result);
    }
    if level == libc::SOL_SOCKET
        // SAFETY: the caller's promise.
        && let Some(result) = unsafe { extra::get_option(fd, name, value, len) }
    {
        return Some(result);
    }
    if option == GetOption::Rate
        // SAFETY: the caller's promise.
        && let Some(result) = unsafe { rate_limit::get(fd, value, len) }
    {
        return Some(result);
    }
    if option == GetOption::SavedSyn
        // SAFETY: the caller's promise.
        && let Some(result) = unsafe { stream_calls::saved_syn(fd, value, len) }
    {
        return Some(result);
    }
    // SAFETY: the caller's promise.
    unsafe { stream_calls::option(fd, level, name, value, len) }
}

/// The group that the value of an option names.
///
/// # Safety
/// There is such an address at the pointer.
unsafe fn group_at(address: *const u8, is_v6: bool) -> IpAddr {
    if !is_v6 {
        // SAFETY: the caller's promise.
        return unsafe { address.cast::<[u8; 4]>().read_unaligned() }.into();
    }
    // SAFETY: the caller's promise.
    unsafe { address.cast::<[u8; 16]>().read_unaligned() }.into()
}

/// `struct ip_mreqn`
const MREQN_LEN: usize = size_of::<libc::ip_mreqn>();

/// Whether a request is not even to be tried.
pub(super) fn is_refused(fd: c_int, request: Request) -> bool {
    runtime::own_udp(fd).is_some_and(|(engine, socket)| call::is_refused(engine, socket, request))
}
