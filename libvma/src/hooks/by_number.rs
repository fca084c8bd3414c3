//! `syscall(2)` for what the hooks have by name: programs, language runtimes and libraries make
//! such calls by number, as `accept4` and `epoll_pwait2` where the C library is older than they
//! are.
//!
//! The library's own calls come here as well, and go to the kernel: they are told by the address
//! that they return to.

use engine::timespec_of_nsec;
use libc::{c_int, c_long, c_uint, c_ulong, sigset_t, timespec};

use super::{
    control, descriptor, epoll, numbers, options, poll, process, receive, select, send, setup,
    transfer, waits,
};
use crate::{guard, own_code, process_state, runtime};

const NUMBERS: usize = 512;
/// The highest number that has a place.
pub(super) const LAST_NUMBER: usize = NUMBERS - 1;

/// Which numbers come here.
pub(super) static IS_HERE: [bool; NUMBERS] = {
    let mut here = [false; NUMBERS];
    let mut index = 0;
    while index < OF_DESCRIPTORS.len() {
        here[OF_DESCRIPTORS[index] as usize] = true;
        index += 1;
    }
    let mut index = 0;
    while index < OTHERS.len() {
        here[OTHERS[index] as usize] = true;
        index += 1;
    }
    here
};

/// The first argument is a descriptor, and only a socket of ours needs the hook.
const OF_DESCRIPTORS: [c_long; 30] = [
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ioctl,
    libc::SYS_listen,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_sendfile,
];

const OTHERS: [c_long; 7] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_select,
    libc::SYS_splice,
];

/// Whether a call that returns to this address is for a hook: the program has made it, and it may
/// have to do with a socket of ours. Takes no memory: allocators call here with their locks held.
pub(super) fn is_for_hooks(number: c_long, first: c_long, returns_to: usize) -> bool {
    if !own_code::is_outside(returns_to) {
        return false;
    }
    let is_wait = matches!(
        number,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2
    );
    // Who waits is called back when a first socket of ours comes into the set.
    let Some(engine) = process_state::engine_at_hand() else {
        return (is_wait || runtime::has_ancestors()) && !guard::is_inside();
    };
    if guard::is_inside() {
        return false;
    }
    let is_known = |fd: c_long| engine.look_up(fd as c_int).is_some() || runtime::has_ancestors();
    match number {
        // The first argument is not the socket of ours, or not the only one.
        libc::SYS_epoll_ctl | libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_sendfile => true,
        _ if is_wait || OTHERS.contains(&number) => true,
        _ => is_known(first),
    }
}

/// What `pselect6(2)` has for a mask.
#[repr(C)]
struct Mask {
    mask: *const sigset_t,
    len: usize,
}

/// The kernel's masks have 64 bits. It refuses others.
const MASK_BYTES: usize = 8;

unsafe extern "C" {
    /// pthread_setcancelstate(3)
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Makes the call as the function of its name does. `None`: it is for the kernel. The thread cannot
/// be cancelled there, as in `syscall(2)`.
///
/// # Safety
/// That of the system call of this number.
pub(super) unsafe fn call(number: c_long, arguments: [c_long; 6]) -> Option<c_long> {
    /// `PTHREAD_CANCEL_DISABLE`
    const DISABLED: c_int = 1;
    let mut old = 0;
    // SAFETY: `old` is writable.
    unsafe { pthread_setcancelstate(DISABLED, &raw mut old) };
    // SAFETY: the caller's promise.
    let result = unsafe { call_hook(number, arguments) };
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(old, &raw mut old) };
    result
}

/// # Safety
/// That of the system call of this number.
unsafe fn call_hook(number: c_long, arguments: [c_long; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    let int = |value: c_long| value as c_int;
    if OF_DESCRIPTORS.contains(&number) && numbers::is_own(fd) {
        return Some(guard::fail::<c_int>(libc::EBADF).into());
    }
    macro_rules! hook {
        ($module:ident::$name:ident($($argument:expr),*)) => {{
            // SAFETY: the caller's promise: the arguments are those of the call.
            #[allow(clippy::useless_conversion, reason = "results have several widths")]
            let result = unsafe { $module::$name($($argument),*) };
            c_long::try_from(result).ok()
        }};
    }
    match number {
        libc::SYS_accept => hook!(setup::accept(fd, at(b), at(c))),
        libc::SYS_accept4 => hook!(setup::accept4(fd, at(b), at(c), int(d))),
        libc::SYS_bind => hook!(setup::bind(fd, at(b), c as u32)),
        libc::SYS_connect => hook!(setup::connect(fd, at(b), c as u32)),
        libc::SYS_getpeername => hook!(setup::getpeername(fd, at(b), at(c))),
        libc::SYS_getsockname => hook!(setup::getsockname(fd, at(b), at(c))),
        libc::SYS_getsockopt => hook!(options::getsockopt(fd, int(b), int(c), at(d), at(e))),
        libc::SYS_setsockopt => hook!(options::setsockopt(fd, int(b), int(c), at(d), e as u32)),
        libc::SYS_ioctl => hook!(control::ioctl(fd, b as c_ulong, at(c))),
        libc::SYS_listen => hook!(setup::listen(fd, int(b))),
        libc::SYS_shutdown => hook!(setup::shutdown(fd, int(b))),
        libc::SYS_dup => hook!(descriptor::dup(fd)),
        libc::SYS_dup2 => hook!(descriptor::dup2(fd, int(b))),
        libc::SYS_dup3 => hook!(descriptor::dup3(fd, int(b), int(c))),
        libc::SYS_fcntl => hook!(control::fcntl(fd, int(b), at(c))),
        libc::SYS_read => hook!(receive::read(fd, at(b), c as usize)),
        libc::SYS_readv => hook!(receive::readv(fd, at(b), int(c))),
        libc::SYS_recvfrom => {
            hook!(receive::recvfrom(
                fd,
                at(b),
                c as usize,
                int(d),
                at(e),
                at(f)
            ))
        }
        libc::SYS_recvmsg => hook!(receive::recvmsg(fd, at(b), int(c))),
        // The two halves of the offset are one here.
        libc::SYS_preadv2 => hook!(receive::preadv2(fd, at(b), int(c), d, int(f))),
        libc::SYS_pwritev2 => hook!(send::pwritev2(fd, at(b), int(c), d, int(f))),
        libc::SYS_write => hook!(send::write(fd, at(b), c as usize)),
        libc::SYS_writev => hook!(send::writev(fd, at(b), int(c))),
        libc::SYS_sendto => {
            hook!(send::sendto(fd, at(b), c as usize, int(d), at(e), f as u32))
        }
        libc::SYS_sendmsg => hook!(send::sendmsg(fd, at(b), int(c))),
        libc::SYS_sendfile => hook!(transfer::sendfile(fd, int(b), at(c), d as usize)),
        libc::SYS_splice => hook!(transfer::splice(
            fd,
            at(b),
            int(c),
            at(d),
            e as usize,
            f as c_uint
        )),
        libc::SYS_epoll_ctl => hook!(epoll::epoll_ctl(fd, int(b), int(c), at(d))),
        libc::SYS_epoll_wait => hook!(epoll::epoll_wait(fd, at(b), int(c), int(d))),
        libc::SYS_epoll_pwait if is_mask(e, f) => {
            hook!(epoll::epoll_pwait(fd, at(b), int(c), int(d), at(e)))
        }
        libc::SYS_epoll_pwait2 if is_mask(e, f) => {
            hook!(epoll::epoll_pwait2(fd, at(b), int(c), at(d), at(e)))
        }
        libc::SYS_poll => hook!(poll::poll(at(a), b as u64, int(c))),
        libc::SYS_ppoll if is_mask(d, e) => {
            // SAFETY: the caller's promise.
            let ppoll = || unsafe { poll::ppoll(at(a), b as u64, at(c), at(d)) };
            // SAFETY: the caller's promise.
            Some(unsafe { with_rest(at(c), ppoll) }.into())
        }
        libc::SYS_select => hook!(select::select(fd, at(b), at(c), at(d), at(e))),
        libc::SYS_pselect6 => {
            // SAFETY: the caller's promise.
            let mask = unsafe { mask_at(at(f)) }?;
            // SAFETY: the caller's promise.
            let pselect = || unsafe { select::pselect(fd, at(b), at(c), at(d), at(e), mask) };
            // SAFETY: the caller's promise.
            Some(unsafe { with_rest(at(e), pselect) }.into())
        }
        libc::SYS_execve => hook!(process::execve(at(a), at(b), at(c))),
        libc::SYS_execveat => hook!(process::execveat(fd, at(b), at(c), at(d), int(e))),
        _ => None,
    }
}

fn at<T>(argument: c_long) -> *mut T {
    std::ptr::with_exposed_provenance_mut(argument as usize)
}

fn is_mask(mask: c_long, len: c_long) -> bool {
    mask == 0 || len as usize == MASK_BYTES
}

/// The mask of `pselect6(2)`. `None`: the kernel refuses it.
///
/// # Safety
/// What it leads to must be the program's own.
unsafe fn mask_at(mask: *const Mask) -> Option<*const sigset_t> {
    if mask.is_null() {
        return Some(std::ptr::null());
    }
    if !engine::user_memory::is_readable(mask, size_of::<Mask>()) {
        return None;
    }
    // SAFETY: readable (checked above), and the program's own.
    let mask = unsafe { mask.read_unaligned() };
    (mask.mask.is_null() || mask.len == MASK_BYTES).then_some(mask.mask)
}

/// The system calls, not the C library's functions, leave the time that was not slept.
///
/// # Safety
/// The timeout must be null or the program's own.
unsafe fn with_rest(timeout: *mut timespec, call: impl FnOnce() -> c_int) -> c_int {
    let begun = std::time::Instant::now();
    // SAFETY: the caller's promise.
    let asked = unsafe { waits::timespec_at(timeout) };
    let result = call();
    if let Ok(Some(asked)) = asked
        && engine::user_memory::is_writable(timeout, size_of::<timespec>())
    {
        let passed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let left = asked.saturating_sub(passed);
        // SAFETY: writable (checked above), and the program's own.
        unsafe { timeout.write_unaligned(timespec_of_nsec(left)) };
    }
    result
}
