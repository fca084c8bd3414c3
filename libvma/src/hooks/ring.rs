//! `io_uring(7)` by `syscall(2)`: libuv changes its epoll sets so, and runtimes send and receive.

use engine::Reason;
use engine::io_uring::{self, Operation, Target};
use libc::{c_int, c_long, c_uint, c_void};

use super::straight::{enter_straight, register_straight, setup_straight};
use super::{epoll, numbers, transfer};
use crate::guard::{self, contained};
use crate::{process_state, runtime};

/// What a ring does is seen neither by the hooks nor before the kernel does it: every socket is the
/// kernel's, also those to come.
#[cold]
fn leave_all_to_kernel(why: &str) {
    if io_uring::becomes_unseen()
        && let Some(engine) = process_state::engine()
    {
        let _ = contained(|| engine.withdraw(Reason::IoUring, why));
    }
}

/// # Safety
/// That of `io_uring_setup(2)`.
pub(super) unsafe extern "C" fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_long {
    // SAFETY: the caller's promise.
    let fd = unsafe { setup_straight(entries, parameters) };
    let Ok(number @ 0..) = c_int::try_from(fd) else {
        return fd;
    };
    let saved = guard::errno();
    numbers::number_reused(number);
    // SAFETY: the kernel has just read and written the parameters.
    let made = contained(|| unsafe { io_uring::made(number, parameters) });
    if !matches!(made, Ok(Ok(()))) {
        leave_all_to_kernel("a thread of the kernel's, or memory of its own");
    }
    guard::set_errno(saved);
    fd
}

/// # Safety
/// That of `io_uring_enter(2)`.
pub(super) unsafe extern "C" fn io_uring_enter(
    fd: c_uint,
    submitted: c_uint,
    wanted: c_uint,
    flags: c_uint,
    argument: *const c_void,
    len: usize,
) -> c_long {
    if submitted > 0
        && !io_uring::is_unseen()
        && (process_state::engine().is_some() || runtime::has_ancestors())
    {
        look_at(fd.cast_signed(), submitted);
    }
    // SAFETY: the caller's promise.
    unsafe { enter_straight(fd, submitted, wanted, flags, argument, len) }
}

#[cold]
fn look_at(fd: c_int, count: c_uint) {
    let saved = guard::errno();
    match contained(|| io_uring::submitted(fd, count, is_of_interest)) {
        Ok(Ok(mut operations)) => {
            // Outside of the library, as the program's own calls.
            operations.iter_mut().for_each(|(_, it)| follow(it));
            let _ = contained(move || io_uring::replace(fd, &operations));
        }
        Ok(Err(_)) if process_state::is_vfork_child() => {}
        Ok(Err(_)) | Err(_) => leave_all_to_kernel("a ring from elsewhere"),
    }
    guard::set_errno(saved);
}

/// Whether an operation concerns a socket or a set of ours.
fn is_of_interest(operation: &Operation) -> bool {
    let is_ours = |fd| runtime::look_up(fd).is_some() || runtime::has_ancestors();
    match operation.target() {
        Target::Epoll { fd, .. } => {
            engine::epoll_may_be_shared(fd);
            is_ours(fd)
        }
        Target::Close(_) | Target::Table => true,
        Target::Use(first, second) => is_ours(first) || is_ours(second),
    }
}

/// The kernel is about to be told of an operation.
fn follow(operation: &mut Operation) {
    match operation.target() {
        Target::Epoll {
            epfd,
            operation: what,
            fd,
            event,
        } => {
            // SAFETY: the program's own event, which the hook looks at first.
            if unsafe { epoll::epoll_ctl(epfd, what, fd, event) } == 0 {
                operation.complete();
                return;
            }
            match guard::errno() {
                libc::ENOENT => epoll::forget_registration(epfd, fd),
                libc::EINVAL => operation.refuse_as_invalid(),
                libc::EBADF => operation.refuse_descriptor(),
                // The kernel finds the same.
                _ => {}
            }
        }
        Target::Close(fd) => numbers::forget(fd),
        Target::Use(first, second) => {
            for fd in [first, second].into_iter().filter(|fd| *fd >= 0) {
                transfer::leave_to_kernel(fd, Reason::IoUring);
            }
        }
        Target::Table => leave_all_to_kernel("a table of descriptors"),
    }
}

/// # Safety
/// That of `io_uring_register(2)`.
pub(super) unsafe extern "C" fn io_uring_register(
    fd: c_uint,
    what: c_uint,
    argument: *mut c_void,
    count: c_uint,
) -> c_long {
    /// Tables of descriptors, of the ring's own, too: `IORING_REGISTER_FILES`, `_FILES_UPDATE`,
    /// `_FILES2`, `_FILES_UPDATE2`, `_RING_FDS`.
    const TABLES: [c_uint; 5] = [2, 6, 13, 14, 20];
    if TABLES.contains(&what) {
        leave_all_to_kernel("a table of descriptors");
    }
    // SAFETY: the caller's promise.
    unsafe { register_straight(fd, what, argument, count) }
}
