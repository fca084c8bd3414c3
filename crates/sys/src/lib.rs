//! System calls on the kernel's side of our sockets, past the library's own hooks: the C library's
//! symbols would lead back into them.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel's interfaces mix widths; what is cast is bounded by a structure's size or a system call's result"
)]

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use descriptors::OwnDescriptor;
use libc::{c_int, c_long};

mod address;
mod allowed;
mod cgroup_programs;
mod door;
mod epoll_sets;
mod files;
mod groups;
mod kernel_connection;
mod leader;
mod listener_filter;
mod namespace;
mod path_notices;
mod polling;
mod privileged_options;
mod process;
mod raw_socket;
mod rights;
mod routes;
mod scheduling;
pub mod streams;
mod thread_calls;
mod user_pages;

pub use address::Sockaddr;
pub use address::{SOCKADDR_IN_LEN, read_sockaddr, read_sockaddr_in, sockaddr_in};
pub use allowed::{do_without, may_call};
pub use cgroup_programs::has_cgroup_programs;
pub use door::{DoorMessage, DoorName, Sender, door_socket, send_to_door, take_from_door};
pub use epoll_sets::{SetMember, epoll_sets, set_members};
pub use files::{
    FileStatus, file_position, file_status, read_at, read_now, set_file_position, write_now,
};
pub use groups::{GROUP_OFFSET, V6_GROUP_OFFSET, group_filter, subscribe, unsubscribe};
pub use kernel_connection::{KernelConnection, Progress, kernel_connection, lose_all, progress};
pub use leader::{Leader, LeaderStatus, ProgramEnd};
pub use listener_filter::set_listener_filter;
pub use namespace::{NamespaceId, namespace_of, namespace_of_thread};
pub use path_notices::{PathNotice, PathNotices, SegmentError};
pub use polling::{poll_now, poll_one, select_now, wait};
pub use privileged_options::{BIND, has_helper_for_options, set_options_through};
pub use process::{
    FileId, closes_on_exec, file_id, futex_wait, futex_wake_all, is_running, lasting_message_pair,
    message_pair, parent_process_id, process_fd, send_message, take_message,
};
pub use raw_socket::RawSocket;
pub use rights::{
    CAP_NET_ADMIN, Capabilities, Raised, become_like, capabilities, secure_bits, users, with_rights,
};
pub use routes::{first_address, source_towards};
pub use scheduling::{
    Switches, ThreadUsage, allowed_cpus, become_ordinary_thread, current_cpu, run_on,
    thread_cpu_nsec, thread_usage, want_exact_timers, yield_cpu,
};
pub use stats::process_id;
pub use thread_calls::{
    SleepingCall, is_programs_own, may_ask_for_threads, read_memory, sleeping_call, threads,
};
pub use user_pages::{can_read, can_write};

/// An `errno` value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

impl Errno {
    fn last() -> Self {
        Self(
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        )
    }
}

fn check(result: c_long) -> Result<c_long, Errno> {
    if result < 0 {
        Err(Errno::last())
    } else {
        Ok(result)
    }
}

/// Takes a descriptor over that a system call has just made.
///
/// # Safety
/// It must be nobody else's.
unsafe fn owned(fd: c_long) -> OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { OwnedFd::from_raw_fd(fd as c_int) }
}

/// Closes a descriptor.
fn close(fd: c_int) {
    // SAFETY: closing touches no memory.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// A non-blocking eventfd of the library's.
pub fn eventfd() -> Result<OwnDescriptor, Errno> {
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    // SAFETY: eventfd2 takes integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_eventfd2, 0, flags) })?;
    // SAFETY: the kernel has just made it.
    Ok(OwnDescriptor::new(unsafe { owned(fd) }))
}

/// Async-signal-safe.
pub fn signal_eventfd(fd: c_int) {
    let one = 1u64;
    // SAFETY: the kernel reads the eight bytes of `one`.
    unsafe { libc::syscall(libc::SYS_write, fd, &raw const one, size_of::<u64>()) };
}

pub fn drain_eventfd(fd: c_int) {
    let mut count = 0u64;
    // SAFETY: the kernel writes at most eight bytes to `count`.
    unsafe { libc::syscall(libc::SYS_read, fd, &raw mut count, size_of::<u64>()) };
}

/// Receives from the kernel's socket into the application's buffers.
///
/// # Safety
/// `message` and what it points at must be valid for `recvmsg(2)`.
pub unsafe fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: the caller's promise is that of recvmsg(2).
    check(unsafe { libc::syscall(libc::SYS_recvmsg, fd, message, flags) }).map(|len| len as usize)
}

/// Local address of a socket; `None` if it is of another family than IPv4 and IPv6.
pub fn local_address(fd: c_int) -> Result<Option<SocketAddr>, Errno> {
    address(libc::SYS_getsockname, fd)
}

/// Peer of a connected socket; `None` if it has none.
pub fn peer_address(fd: c_int) -> Result<Option<SocketAddr>, Errno> {
    match address(libc::SYS_getpeername, fd) {
        Err(Errno(libc::ENOTCONN)) => Ok(None),
        other => other,
    }
}

fn address(call: c_long, fd: c_int) -> Result<Option<SocketAddr>, Errno> {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut len = size_of_val(&storage) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `storage`.
    check(unsafe { libc::syscall(call, fd, &raw mut storage, &raw mut len) })?;
    // SAFETY: `storage` is a readable sockaddr of its full size.
    Ok(unsafe { read_sockaddr((&raw const storage).cast(), len) })
}

const SO_BINDTOIFINDEX: c_int = 62;

/// `SO_BINDTODEVICE`: index of the interface that a socket is bound to, by whatever call, or 0.
pub fn bound_device(fd: c_int) -> u32 {
    let index = option_int(fd, libc::SOL_SOCKET, SO_BINDTOIFINDEX);
    index.unwrap_or(0).cast_unsigned()
}

/// An integer socket option.
pub fn option_int(fd: c_int, level: c_int, name: c_int) -> Result<c_int, Errno> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`.
    check(unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            level,
            name,
            &raw mut value,
            &raw mut len,
        )
    })?;
    Ok(value)
}

/// A timeout option in nanoseconds; 0 means none.
pub fn option_timeout_nsec(fd: c_int, name: c_int) -> Result<u64, Errno> {
    let mut value = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`.
    check(unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            libc::SOL_SOCKET,
            name,
            &raw mut value,
            &raw mut len,
        )
    })?;
    let seconds = (value.tv_sec as u64).saturating_mul(1_000_000_000);
    Ok(seconds.saturating_add(value.tv_usec as u64 * 1000))
}

/// File status flags (`F_GETFL`).
pub fn status_flags(fd: c_int) -> Result<c_int, Errno> {
    // SAFETY: fcntl with F_GETFL takes no pointer.
    check(unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) }).map(|flags| flags as c_int)
}

/// Whether somebody gets the signals of a descriptor (`F_SETOWN` and its like).
pub fn has_owner(fd: c_int) -> bool {
    owner(fd).is_some()
}

/// `struct f_owner_ex`: what kind of owner, and its number. `F_GETOWN` tells of a group with a
/// negative number, which a system call cannot.
fn owner(fd: c_int) -> Option<[c_int; 2]> {
    // include/uapi/asm-generic/fcntl.h
    const F_GETOWN_EX: c_int = 16;
    let mut owner: [c_int; 2] = [0; 2];
    // SAFETY: the kernel writes a `struct f_owner_ex`.
    let told =
        check(unsafe { libc::syscall(libc::SYS_fcntl, fd, F_GETOWN_EX, owner.as_mut_ptr()) });
    (told.is_ok() && owner[1] != 0).then_some(owner)
}

/// Nobody gets signals of a descriptor meanwhile.
pub fn without_owner<T>(fd: c_int, body: impl FnOnce() -> T) -> T {
    const F_SETOWN_EX: c_int = 15;
    let owner = owner(fd);
    let own = |owner: [c_int; 2]| {
        // SAFETY: the kernel reads a `struct f_owner_ex`.
        unsafe { libc::syscall(libc::SYS_fcntl, fd, F_SETOWN_EX, owner.as_ptr()) };
    };
    if let Some([kind, _]) = owner {
        own([kind, 0]);
    }
    let value = body();
    owner.into_iter().for_each(own);
    value
}

/// Inode number of a socket, as `/proc/net` shows it; 0 when unknown.
pub fn inode(fd: c_int) -> u64 {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one `struct stat`.
    let result = unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut status) };
    if result == 0 { status.st_ino } else { 0 }
}

/// Device and inode number of a file.
pub fn device_and_inode(fd: c_int) -> Option<(u64, u64)> {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one `struct stat`.
    let result = unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut status) };
    (result == 0).then_some((status.st_dev, status.st_ino))
}

/// Memory of a descriptor that whoever maps it shares; to be given back with [`unmap`].
pub fn map_shared(fd: c_int, offset: i64, len: usize) -> Option<*mut u8> {
    let (any, protection) = (ptr::null_mut::<u8>(), libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: the kernel chooses where, and replaces nothing.
    let at = unsafe { libc::syscall(libc::SYS_mmap, any, len, protection, flags, fd, offset) };
    (at != -1).then_some(at as *mut u8)
}

/// Ends a mapping of [`map_shared`].
///
/// # Safety
/// The mapping is the caller's, has this length, and is used no more.
pub unsafe fn unmap(at: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_munmap, at, len) };
}

/// `RLIMIT_MEMLOCK` in bytes; `None` without a limit.
pub fn locked_memory_limit_bytes() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit.
    let result =
        unsafe { libc::syscall(libc::SYS_getrlimit, libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Thread id.
pub fn thread_id() -> libc::pid_t {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// Whether the process has a thread of this number.
pub fn has_thread(thread: libc::pid_t) -> bool {
    // SAFETY: integers; no signal is sent.
    unsafe { libc::syscall(libc::SYS_tgkill, process_id(), thread, 0) == 0 }
}

/// Monotonic time in nanoseconds.
pub fn now_nsec() -> u64 {
    clock_nsec(libc::CLOCK_MONOTONIC)
}

/// Time since 1970 in nanoseconds.
pub fn wall_clock_nsec() -> u64 {
    clock_nsec(libc::CLOCK_REALTIME)
}

/// Monotonic time of the last tick of the kernel, in nanoseconds: a few milliseconds coarse, and
/// cheap.
pub fn tick_nsec() -> u64 {
    clock_nsec(libc::CLOCK_MONOTONIC_COARSE)
}

/// A time that is left.
#[inline]
pub fn timespec_of_nsec(nsec: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(nsec / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: (nsec % 1_000_000_000) as c_long,
    }
}

/// What a clock says in nanoseconds. `None`: there is none of this number.
pub fn time_of_clock(clock: c_int) -> Option<u64> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_TAI => Some(clock_nsec(clock)),
        _ => None,
    }
}

fn clock_nsec(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime writes one timespec; mostly the C library answers without a system
    // call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A counter that runs at a constant rate, of no particular unit, and takes a few nanoseconds to
/// read.
#[inline]
pub fn cycle_counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86_64 processor has the instruction.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    now_nsec()
}

/// An epoll instance.
pub fn epoll() -> Result<OwnDescriptor, Errno> {
    programs_epoll().map(OwnDescriptor::new)
}

/// The same, whose descriptor is the program's.
pub fn programs_epoll() -> Result<OwnedFd, Errno> {
    // SAFETY: epoll_create1 takes an integer.
    let fd = check(unsafe { libc::syscall(libc::SYS_epoll_create1, libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { owned(fd) })
}

/// Adds a descriptor of the library to an epoll instance, if it is not there. Returns whether it
/// was not.
pub fn epoll_add(epfd: c_int, fd: c_int, mut event: libc::epoll_event) -> bool {
    let event = &raw mut event;
    // SAFETY: the kernel reads one event.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, epfd, libc::EPOLL_CTL_ADD, fd, event) == 0 }
}

/// Takes it out again. Returns whether it was there.
pub fn epoll_remove(epfd: c_int, fd: c_int) -> bool {
    let none = ptr::null_mut::<libc::epoll_event>();
    // SAFETY: the kernel reads no event.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, epfd, libc::EPOLL_CTL_DEL, fd, none) == 0 }
}

/// Does something while no signal reaches the thread.
pub fn without_signals(act: impl FnOnce()) {
    let set_mask = |mask: &u64, before: *mut u64| {
        let (how, mask) = (libc::SIG_SETMASK, ptr::from_ref(mask));
        // SAFETY: the kernel reads and writes masks of eight bytes, or nothing.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                how,
                mask,
                before,
                size_of::<u64>(),
            )
        };
    };
    let mut before = 0u64;
    set_mask(&u64::MAX, &raw mut before);
    act();
    set_mask(&before, ptr::null_mut());
}

/// A random number from the kernel; the clock where it has none yet.
pub fn random() -> u64 {
    let mut value = 0u64;
    let (address, len) = (&raw mut value, size_of::<u64>());
    // SAFETY: the kernel writes at most eight bytes to `value`.
    let filled = unsafe { libc::syscall(libc::SYS_getrandom, address, len, libc::GRND_NONBLOCK) };
    if usize::try_from(filled) == Ok(len) {
        value
    } else {
        now_nsec()
    }
}

/// `epoll_wait(2)` without waiting.
pub fn epoll_now(epfd: c_int, events: &mut [libc::epoll_event]) -> Result<usize, Errno> {
    let max = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    let (mask, mask_len) = (ptr::null::<libc::sigset_t>(), 0usize);
    // SAFETY: the kernel writes at most `max` events to `events`, which we hold mutably.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            epfd,
            events.as_mut_ptr(),
            max,
            0,
            mask,
            mask_len,
        )
    };
    check(ready).map(|count| count as usize)
}

/// Changes the kernel socket of an epoll registration.
///
/// # Errors
/// `ENOENT` if the program has removed it meanwhile, `EBADF` if it has closed the number, which may
/// leave the kernel socket as it is.
pub fn epoll_modify(epfd: c_int, fd: c_int, mut event: libc::epoll_event) -> Result<(), Errno> {
    let event = &raw mut event;
    // SAFETY: the kernel reads one event.
    let result =
        unsafe { libc::syscall(libc::SYS_epoll_ctl, epfd, libc::EPOLL_CTL_MOD, fd, event) };
    check(result).map(drop)
}
