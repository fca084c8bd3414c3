//! The scheduler's part of the calling thread.

use std::{io, mem};

use super::may_call;

/// `sched_yield(2)`: lets others run that wait for this CPU. Returns at once if nobody does.
pub fn yield_cpu() {
    // SAFETY: sched_yield has no preconditions.
    unsafe { libc::syscall(libc::SYS_sched_yield) };
}

/// Something that has changed when another thread has taken the calling one's CPU meanwhile, offers
/// of it included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switches {
    /// How often (`ru_nivcsw` of getrusage(2)).
    Counted(u64),
    /// For how long, by the clocks.
    Away { nsec: u64 },
}

impl Switches {
    /// So far.
    pub fn now() -> Self {
        match thread_rusage() {
            Some(rusage) => Self::Counted(rusage.ru_nivcsw as u64),
            None => {
                let cpu_nsec = super::clock_nsec(libc::CLOCK_THREAD_CPUTIME_ID);
                let nsec = super::now_nsec().saturating_sub(cpu_nsec);
                Self::Away { nsec }
            }
        }
    }

    /// Whether there were any since then.
    pub fn has_changed_since(self, earlier: Self) -> bool {
        match (earlier, self) {
            (Self::Away { nsec: before }, Self::Away { nsec }) => {
                nsec.saturating_sub(before) > SWITCH_NSEC
            }
            _ => self != earlier,
        }
    }
}

/// What the calling thread has had of its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadUsage {
    /// When this was, on the monotonic clock.
    pub now_nsec: u64,
    /// How long it has run.
    pub cpu_nsec: u64,
    /// How often it has gone to sleep.
    pub voluntary: u64,
    /// How often another has taken its place.
    pub involuntary: u64,
}

impl ThreadUsage {
    /// No thread's.
    pub const NONE: Self = Self {
        now_nsec: 0,
        cpu_nsec: 0,
        voluntary: 0,
        involuntary: 0,
    };

    /// What two clocks tell where nothing is counted: a thread that does not sleep was without its
    /// CPU while only one of them ran.
    fn by_clocks(now_nsec: u64, cpu_nsec: u64) -> Self {
        Self {
            now_nsec,
            cpu_nsec,
            voluntary: 0,
            involuntary: now_nsec.saturating_sub(cpu_nsec) / TIME_SLICE_NSEC,
        }
    }
}

/// Who has the CPU for so long has work of its own.
const TIME_SLICE_NSEC: u64 = 200_000;
/// A thread that was away for less has not changed places with another one.
const SWITCH_NSEC: u64 = 1_000;

/// Takes about a microsecond.
pub fn thread_usage() -> ThreadUsage {
    let rusage = thread_rusage();
    let now_nsec = super::now_nsec();
    // That of getrusage(2) is as old as the last tick.
    let cpu_nsec = super::clock_nsec(libc::CLOCK_THREAD_CPUTIME_ID);
    match rusage {
        Some(rusage) => ThreadUsage {
            now_nsec,
            cpu_nsec,
            voluntary: rusage.ru_nvcsw as u64,
            involuntary: rusage.ru_nivcsw as u64,
        },
        None => ThreadUsage::by_clocks(now_nsec, cpu_nsec),
    }
}

/// How long a thread of the process has run; 0: it has no such thread.
pub fn thread_cpu_nsec(thread: libc::pid_t) -> u64 {
    // include/linux/posix-timers_types.h
    const PER_THREAD: libc::clockid_t = 4;
    const CLOCK_SCHED: libc::clockid_t = 2;
    super::clock_nsec((!thread << 3) | PER_THREAD | CLOCK_SCHED)
}

/// `None`: a filter forbids to ask.
fn thread_rusage() -> Option<libc::rusage> {
    if !may_call(libc::SYS_getrusage) {
        return None;
    }
    // SAFETY: all-zero is a value of this struct of integers.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one rusage.
    let result = unsafe { libc::syscall(libc::SYS_getrusage, libc::RUSAGE_THREAD, &raw mut usage) };
    (result == 0).then_some(usage)
}

/// The calling thread's timers are not late for the sake of others, if the kernel allows it.
pub fn want_exact_timers() {
    if may_call(libc::SYS_prctl) {
        // SAFETY: integers.
        unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    }
}

/// Gives the calling thread the default scheduling policy. A refusal changes nothing.
pub fn become_ordinary_thread() {
    if !may_call(libc::SYS_sched_setscheduler) {
        return;
    }
    // SAFETY: all-zero is a value of this struct: priority 0, the only one of the default policy.
    let parameters: libc::sched_param = unsafe { mem::zeroed() };
    let parameters = &raw const parameters;
    // SAFETY: 0 is the calling thread; the kernel reads one sched_param.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_OTHER,
            parameters,
        )
    };
}

/// The CPU that the calling thread runs on.
pub fn current_cpu() -> u32 {
    // SAFETY: sched_getcpu has no preconditions.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// The CPUs that the calling thread may run on. None: the kernel does not say.
pub fn allowed_cpus() -> Vec<u32> {
    // SAFETY: all-zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    let (len, at) = (size_of_val(&set), &raw mut set);
    // SAFETY: the set is writable for its size; 0 is the calling thread.
    if unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, len, at) } < 0 {
        return Vec::new();
    }
    // SAFETY: the numbers are within the set.
    let is_in = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..8 * len).filter(is_in).map(|cpu| cpu as u32).collect()
}

/// Keeps the calling thread on these CPUs, those of them that there are.
pub fn run_on(cpus: &[u32]) -> io::Result<()> {
    if !may_call(libc::SYS_sched_setaffinity) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // SAFETY: all-zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    let bits = 8 * size_of_val(&set);
    for cpu in cpus
        .iter()
        .map(|cpu| *cpu as usize)
        .filter(|cpu| *cpu < bits)
    {
        // SAFETY: the number is within the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    let (len, set) = (size_of_val(&set), &raw const set);
    // SAFETY: the set is readable for its size; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, len, set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
