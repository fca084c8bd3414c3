//! Filters that were there before the program: a service manager's. Nobody shows their programs, so
//! a child of this process tries the library's calls, in a way that does nothing, and is looked at:
//! the one in which it ended is deadly.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_long;

use super::calls::{CALLS, SystemCall, When};

/// How many filters the process has; 0 where the kernel does not say (before Linux 5.9).
pub(super) fn count() -> u32 {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    count_in(&text)
}

fn count_in(status: &str) -> u32 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp_filters:"))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// The first call of the library that is deadly here, of those that it cannot do without. Those
/// that it can are not made from here on if they are.
pub(super) fn first_deadly() -> Option<&'static SystemCall> {
    let progress = shared_word()?;
    let mut first = 0;
    while first < CALLS.len() {
        let tried = try_from(first, progress);
        // SAFETY: mapped by this process, which alone has it now.
        let reached = unsafe { progress.as_ref() }.load(Ordering::Acquire) as usize;
        match (tried, CALLS.get(reached)) {
            (Tried::Killed, Some(call)) if call.when == When::IfAllowed => {
                engine::do_without(call.number);
                first = reached + 1;
            }
            (Tried::Killed, Some(call)) => return Some(call),
            // It came to the end, or there is nobody to ask.
            _ => return None,
        }
    }
    None
}

/// What became of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    Killed,
    Ended,
    /// There was none, or nobody says.
    Unknown,
}

/// A word that a child shares with its parent. It stays mapped: this happens once in a process.
fn shared_word() -> Option<ptr::NonNull<AtomicU32>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
    let address = unsafe { libc::mmap(ptr::null_mut(), size_of::<u32>(), access, flags, -1, 0) };
    (address != libc::MAP_FAILED).then(|| ptr::NonNull::new(address.cast()))?
}

/// Tries the calls from one on. The program sees no child: it sends no signal, and `wait(2)` does
/// not find it (`__WCLONE`).
fn try_from(first: usize, progress: ptr::NonNull<AtomicU32>) -> Tried {
    // SAFETY: without CLONE_VM the child has a copy of everything, and makes system calls only
    // until it ends.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    if child == 0 {
        // SAFETY: the word is mapped.
        let progress = unsafe { progress.as_ref() };
        // SAFETY: as above.
        unsafe { child_tries(first, progress) };
    }
    if child < 0 {
        return Tried::Unknown;
    }
    let mut status = 0;
    loop {
        let (at, flags, none) = (
            &raw mut status,
            libc::__WALL,
            ptr::null_mut::<libc::rusage>(),
        );
        // SAFETY: the kernel writes the status.
        let waited = unsafe { libc::syscall(libc::SYS_wait4, child, at, flags, none) };
        if waited == child {
            break;
        }
        if waited < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return Tried::Unknown;
        }
    }
    match libc::WIFSIGNALED(status) {
        true => Tried::Killed,
        false => Tried::Ended,
    }
}

/// In the child. A signal of the filter's (`SECCOMP_RET_TRAP`) ends it, too, whatever handler the
/// program has: it is blocked.
///
/// # Safety
/// For a child of clone(2) that has its own memory.
unsafe fn child_tries(first: usize, progress: &AtomicU32) -> ! {
    let all = u64::MAX;
    let (set, none) = (&raw const all, ptr::null_mut::<u64>());
    let (how, len): (c_long, c_long) = (libc::SIG_SETMASK.into(), 8);
    // SAFETY: the kernel reads eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, none, len) };
    // Every filter allows the end of a thread.
    let tried = |(_, call): &(usize, &SystemCall)| call.number != libc::SYS_exit;
    for (index, call) in CALLS.iter().enumerate().skip(first).filter(tried) {
        progress.store(index as u32, Ordering::Release);
        let [a, b, c, d, e, f] = call.arguments;
        // SAFETY: with these arguments the call does nothing but to this child.
        unsafe { libc::syscall(call.number, a, b, c, d, e, f) };
    }
    progress.store(CALLS.len() as u32, Ordering::Release);
    // SAFETY: nothing of the program's runs.
    unsafe { libc::syscall(libc::SYS_exit_group, 0) };
    loop {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_counted() {
        assert_eq!(count_in("Seccomp:\t2\nSeccomp_filters:\t3\n"), 3);
        assert_eq!(count_in("Seccomp:\t0\n"), 0);
        assert_eq!(count_in(""), 0);
    }

    #[test]
    fn without_a_filter_no_call_is_deadly() {
        assert!(first_deadly().is_none());
        // SAFETY: mapped, and the child that had it has ended.
        let reached = unsafe { shared_word().unwrap().as_ref() }.load(Ordering::Relaxed);
        assert_eq!(reached, 0, "a word of its own each time");
        let progress = shared_word().unwrap();
        assert_eq!(try_from(0, progress), Tried::Ended);
        // SAFETY: as above.
        let reached = unsafe { progress.as_ref() }.load(Ordering::Relaxed);
        assert_eq!(reached as usize, CALLS.len());
    }
}
