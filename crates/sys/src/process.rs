//! System calls between a process and its descendants.

use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use descriptors::OwnDescriptor;
use libc::c_int;

use super::{Errno, check, may_call, owned, poll_one};

/// What tells a socket from every other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn inode(self) -> u64 {
        self.inode
    }
}

/// What a descriptor stands for; `None` if it is closed.
pub fn file_id(fd: c_int) -> Option<FileId> {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one `struct stat`.
    let result = unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut status) };
    (result == 0).then_some(FileId {
        device: status.st_dev,
        inode: status.st_ino,
    })
}

/// Two connected sockets for messages, which never block, both the library's. A forked child keeps
/// the second only.
pub fn message_pair() -> Result<(OwnDescriptor, OwnDescriptor), Errno> {
    let [first, second] = connected_pair()?;
    Ok((
        OwnDescriptor::new(first),
        OwnDescriptor::kept_by_child(second),
    ))
}

/// The same, of which a forked child keeps both.
pub fn lasting_message_pair() -> Result<(OwnDescriptor, OwnDescriptor), Errno> {
    let [first, second] = connected_pair()?.map(OwnDescriptor::kept_by_child);
    Ok((first, second))
}

fn connected_pair() -> Result<[OwnedFd; 2], Errno> {
    // Of datagram sockets, one end would not see that the other was shut down.
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let mut fds: [c_int; 2] = [-1; 2];
    // SAFETY: the kernel writes two descriptors.
    check(unsafe {
        libc::syscall(
            libc::SYS_socketpair,
            libc::AF_UNIX,
            kind,
            0,
            fds.as_mut_ptr(),
        )
    })?;
    // SAFETY: the kernel has just made them.
    Ok(fds.map(|fd| unsafe { owned(fd.into()) }))
}

/// A descriptor of a process, which becomes readable when that has ended (pidfd_open(2), Linux 5.3).
pub fn process_fd(process: libc::pid_t) -> Result<OwnDescriptor, Errno> {
    if !may_call(libc::SYS_pidfd_open) {
        return Err(Errno(libc::EPERM));
    }
    // SAFETY: pidfd_open takes integers. The kernel makes the descriptor close-on-exec.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    // SAFETY: the kernel has just made it.
    Ok(OwnDescriptor::new(unsafe { owned(fd) }))
}

/// Whether a process has not ended. One that its parent has not heard of yet has.
pub fn is_running(process: libc::pid_t) -> bool {
    let Ok(process) = process_fd(process) else {
        // Where that cannot be asked it is not known to have ended.
        return !may_call(libc::SYS_pidfd_open);
    };
    poll_one(process.as_raw_fd(), libc::POLLIN) == Ok(0)
}

/// The process that started this one, or took it in its parent's place.
pub fn parent_process_id() -> libc::pid_t {
    // SAFETY: getppid has no preconditions.
    unsafe { libc::syscall(libc::SYS_getppid) as libc::pid_t }
}

/// Sends a message of one byte, without a signal when nobody can receive it.
pub fn send_message(fd: c_int) -> Result<(), Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let byte = 0_u8;
    let (data, len) = (&raw const byte, 1usize);
    let (to, to_len) = (std::ptr::null::<libc::sockaddr>(), 0);
    // SAFETY: the kernel reads one byte; there is no address to read.
    check(unsafe { libc::syscall(libc::SYS_sendto, fd, data, len, flags, to, to_len) }).map(|_| ())
}

/// Takes a message; `false`: there is none. One that was shut down always has one.
pub fn take_message(fd: c_int) -> bool {
    let (data, len) = (std::ptr::null_mut::<u8>(), 0usize);
    let (from, from_len) = (
        std::ptr::null_mut::<libc::sockaddr>(),
        std::ptr::null_mut::<libc::socklen_t>(),
    );
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: nothing is written: there is no buffer and no room for an address.
    unsafe { libc::syscall(libc::SYS_recvfrom, fd, data, len, flags, from, from_len) >= 0 }
}

/// Whether `execve(2)` closes the descriptor.
pub fn closes_on_exec(fd: c_int) -> bool {
    // SAFETY: fcntl with F_GETFD takes no pointer.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) };
    flags >= 0 && flags as c_int & libc::FD_CLOEXEC != 0
}

/// Waits until another process wakes those that wait on `word`, unless it is not `expected` any
/// more, or `limit` has passed.
pub fn futex_wait(word: &AtomicU32, expected: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: the word outlives the call, and the kernel reads one timespec.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const limit,
        )
    };
}

/// Wakes everybody who waits on `word`, in every process.
pub fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, c_int::MAX) };
}
