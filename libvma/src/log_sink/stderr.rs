//! Standard error, as long as the program means it to be that.
//!
//! A daemon closes descriptor 2, and the number goes to the next thing that it opens: a database,
//! or a connection. A log line must not end up there. So descriptor 2 is for the log while it is
//! what the process was started with, or what the program has put there on purpose (`dup2`,
//! `freopen` and the like), or something that cannot be harmed: a terminal, `/dev/null`, or a file
//! opened for appending, which is what log files are. Otherwise lines are dropped; `VMA_LOG_FILE`
//! is the place for them. A copy of the original standard error would not do: whoever reads the
//! other end of that pipe waits until the last copy is closed.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use libc::STDERR_FILENO;

/// Device and inode of what descriptor 2 is meant to be.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// The process whose memory this is.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// What descriptor 2 is now is meant to be standard error.
pub(super) fn process_starts() {
    extern "C" fn owned_by_this_process() {
        PROCESS.store(stats::process_id(), Ordering::Relaxed);
    }
    owned_by_this_process();
    // SAFETY: the function lives as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(owned_by_this_process)) };
    adopt();
}

/// What descriptor 2 is from here on is meant to be standard error. A child of `vfork(2)`, which
/// has our memory but not our descriptors, means its own.
pub(crate) fn adopt() {
    if stats::process_id() != PROCESS.load(Ordering::Relaxed) {
        return;
    }
    let (device, inode) = status().map_or((0, 0), |status| (status.st_dev, status.st_ino));
    DEVICE.store(device, Ordering::Relaxed);
    INODE.store(inode, Ordering::Relaxed);
}

/// Whether log lines may be written to descriptor 2.
pub(super) fn is_for_the_log() -> bool {
    status().is_some_and(|status| is_the_adopted(&status) || is_harmless(&status))
}

fn is_the_adopted(status: &libc::stat) -> bool {
    status.st_dev == DEVICE.load(Ordering::Relaxed)
        && status.st_ino == INODE.load(Ordering::Relaxed)
}

fn is_harmless(status: &libc::stat) -> bool {
    const NULL_DEVICE: libc::dev_t = libc::makedev(1, 3);
    match status.st_mode & libc::S_IFMT {
        libc::S_IFCHR => status.st_rdev == NULL_DEVICE || is_terminal(),
        libc::S_IFREG => {
            // SAFETY: fcntl with F_GETFL takes no pointer.
            let flags = unsafe { libc::syscall(libc::SYS_fcntl, STDERR_FILENO, libc::F_GETFL) };
            flags > 0 && flags & i64::from(libc::O_APPEND) != 0
        }
        _ => false,
    }
}

/// Whether descriptor 2 is a terminal.
pub(super) fn is_terminal() -> bool {
    // SAFETY: isatty touches no memory of ours.
    unsafe { libc::isatty(STDERR_FILENO) == 1 }
}

/// Writes to descriptor 2. If nobody reads any more, the program does not get the `SIGPIPE` for it.
pub(super) fn write(line: &[u8]) {
    // SAFETY: sigset_t is a plain array of integers, for which all-zero is a value.
    let mut pipe: libc::sigset_t = unsafe { mem::zeroed() };
    let mut before = pipe;
    let mut pending = pipe;
    // SAFETY: the set is writable.
    unsafe { libc::sigaddset(&raw mut pipe, libc::SIGPIPE) };
    // SAFETY: both sets are valid for the call.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before) };
    // SAFETY: the set is writable.
    unsafe { libc::sigpending(&raw mut pending) };
    // SAFETY: the line is readable for its length.
    let written =
        unsafe { libc::syscall(libc::SYS_write, STDERR_FILENO, line.as_ptr(), line.len()) };
    // SAFETY: the set was filled above.
    let was_pending = unsafe { libc::sigismember(&raw const pending, libc::SIGPIPE) } == 1;
    if written < 0 && !was_pending && crate::guard::errno() == libc::EPIPE {
        let none = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the set and the time are valid for the call; no information is asked for.
        unsafe { libc::sigtimedwait(&raw const pipe, ptr::null_mut(), &raw const none) };
    }
    // SAFETY: the set is valid for the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
}

fn status() -> Option<libc::stat> {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one `struct stat`.
    let result = unsafe { libc::syscall(libc::SYS_fstat, STDERR_FILENO, &raw mut status) };
    (result == 0).then_some(status)
}
