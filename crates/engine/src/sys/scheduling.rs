//! The scheduler's part of the calling thread.

use std::mem;

/// `sched_yield(2)`: lets others run that wait for this CPU. Returns at once if nobody does.
pub(crate) fn yield_cpu() {
    // SAFETY: sched_yield has no preconditions.
    unsafe { libc::syscall(libc::SYS_sched_yield) };
}

/// How often another thread has taken the calling one's CPU, offers of it included (`ru_nivcsw` of getrusage(2)).
pub(crate) fn involuntary_switches() -> u64 {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one rusage.
    unsafe { libc::syscall(libc::SYS_getrusage, libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nivcsw as u64
}

/// Keeps the calling thread, and those that it starts from here on, on the CPU where it runs. Returns its number.
#[cfg(test)]
pub(crate) fn pin_to_one_cpu() -> usize {
    // SAFETY: sched_getcpu has no preconditions.
    let cpu = unsafe { libc::sched_getcpu() } as usize;
    // SAFETY: all-zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the number is one of an existing CPU, within the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is readable for its size.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(result, 0);
    cpu
}
