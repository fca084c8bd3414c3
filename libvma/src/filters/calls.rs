//! The system calls that the library makes beside those that the program makes itself. The manual
//! page lists them, and `tests/processes/seccomp.rs` runs programs under filters that allow no
//! others.

/// When a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// With the first socket, and when an interface is opened.
    AtFirst,
    /// At any time from then on.
    Always,
    /// As long as no filter is seen that forbids it: it can be done without.
    IfAllowed,
}

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemCall {
    #[allow(dead_code, reason = "the log has it, and the test of the manual page")]
    pub(crate) name: &'static str,
    pub(crate) number: libc::c_long,
    pub(crate) when: When,
    /// Arguments as the library's own are, to a filter that looks at them. With these the call does
    /// nothing, but for `exit`.
    #[allow(dead_code, reason = "not used by the test of the manual page")]
    pub(crate) arguments: [u64; 6],
}

macro_rules! calls {
    ($($when:ident { $($name:ident $(($($argument:expr),+))?,)+ })+) => {
        /// All of them. What is most likely to be forbidden is first.
        pub(crate) const CALLS: &[SystemCall] = &[$($(
            SystemCall {
                name: stringify!($name),
                number: libc::$name,
                when: When::$when,
                arguments: with(&[$($($argument as u64),+)?]),
            },
        )+)+];
    };
}

/// Arguments that are not named are no descriptor, and no address.
const fn with(first: &[u64]) -> [u64; 6] {
    let mut all = [u64::MAX, 0, 0, 0, 0, 0];
    let mut index = 0;
    while index < first.len() {
        all[index] = first[index];
        index += 1;
    }
    all
}

/// No descriptor.
const NONE: u64 = u64::MAX;

calls! {
    Always {
        SYS_bpf(2, 0, 0),
        SYS_setsockopt(NONE, libc::IPPROTO_TCP, libc::TCP_REPAIR, 0, 4),
        SYS_socket(libc::AF_INET, libc::SOCK_STREAM, 9999),
        SYS_bind,
        SYS_brk(0),
        SYS_capget(0, 0),
        SYS_clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, 0),
        SYS_clock_nanosleep(99),
        SYS_close,
        SYS_connect,
        SYS_dup3,
        SYS_epoll_create1(0x1000_0000),
        SYS_epoll_ctl,
        SYS_epoll_pwait,
        SYS_eventfd2(0, 0x1000_0000),
        SYS_fcntl(NONE, libc::F_SETFL, 0),
        SYS_fstat,
        SYS_futex(0, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 0),
        SYS_getpeername,
        SYS_getpid(0),
        SYS_getrandom(0, 0, libc::GRND_NONBLOCK),
        SYS_getsockname,
        SYS_getsockopt(NONE, libc::IPPROTO_TCP, libc::TCP_INFO),
        SYS_gettid(0),
        SYS_madvise(0, 0, libc::MADV_DONTNEED),
        SYS_mmap(0, 0, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, NONE),
        SYS_mprotect(0, 0, libc::PROT_READ | libc::PROT_WRITE),
        SYS_mremap(1, 0, 0),
        SYS_munmap(1, 0),
        SYS_newfstatat(NONE, 0, 0, 0),
        // With a signal mask of no length, which is refused.
        SYS_ppoll(0, 0, 0, 1, 1),
        SYS_pread64,
        SYS_prlimit64(0, 99),
        SYS_read,
        SYS_recvfrom,
        SYS_recvmsg,
        SYS_rt_sigaction(99),
        SYS_rt_sigpending(0, 0),
        SYS_rt_sigprocmask(99, 0, 0, 0),
        SYS_rt_tgsigqueueinfo(NONE, NONE, 0, 0),
        SYS_sched_yield(0),
        SYS_sendmsg,
        SYS_sendto,
        SYS_shutdown,
        SYS_socketpair(9999),
        SYS_unlinkat(NONE, 0),
        SYS_write,
    }
    AtFirst {
        SYS_clone3(0, 0),
        SYS_close_range(1, 0, 0),
        // Of a thread.
        SYS_exit(0),
        SYS_fallocate,
        SYS_fchmod,
        SYS_flock,
        SYS_fstatfs,
        SYS_ftruncate,
        SYS_getdents64,
        SYS_geteuid(0),
        SYS_getresuid(0, 0, 0),
        SYS_ioctl,
        SYS_lseek,
        SYS_membarrier(0),
        SYS_openat(NONE, 0),
        SYS_prctl(NONE),
        SYS_pwrite64,
        SYS_readlinkat(NONE, 0),
        SYS_rseq(0, 0),
        SYS_sched_getaffinity(NONE, 0),
        SYS_set_robust_list(0, 0),
        SYS_sigaltstack(0, 0),
        SYS_statx(NONE, 0),
        SYS_uname(0),
    }
    IfAllowed {
        SYS_getrusage(99, 0),
        SYS_sched_setscheduler(NONE, 0),
        SYS_sched_setaffinity(NONE, 0),
        SYS_pidfd_open(NONE, 0),
    }
}
