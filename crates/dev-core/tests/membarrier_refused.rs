//! A program gives up the right to `membarrier(2)` after its first sockets, as a seccomp filter
//! does, and breaks the promise of thread mode 0.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dev_core::{Lock, ThreadMode};

/// Has `membarrier(2)` fail with `EPERM` in this thread.
fn refuse_membarrier() {
    let statement = |code: u32, k: u32, otherwise: u8| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf: otherwise,
        k,
    };
    let (load, equal, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let mut filter = [
        // The number of the system call is the first word of seccomp_data.
        statement(load, 0, 0),
        statement(equal, u32::try_from(libc::SYS_membarrier).unwrap(), 1),
        statement(end, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs(), 0),
        statement(end, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap(),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: integers.
    let restricted = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(restricted, 0);
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the kernel reads the program, which lives as long as the call.
    let filtered = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(filtered, 0);
    // SAFETY: integers.
    let refused = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
    assert_eq!(refused, -1);
}

fn work(lock: &Lock<(u64, u64)>) {
    let mut pair = lock.lock();
    pair.0 += 1;
    std::hint::spin_loop();
    pair.1 += 1;
    assert_eq!(pair.0, pair.1);
}

#[test]
fn threads_never_meet_inside() {
    // Made before the first refusal, so that each of them belongs to this thread.
    let locks: Vec<_> = (0..200)
        .map(|_| Lock::new(ThreadMode::Single, (0, 0)))
        .collect();
    for lock in &locks {
        let ends = AtomicBool::new(false);
        work(lock);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                refuse_membarrier();
                (0..1000).for_each(|_| work(lock));
                ends.store(true, Ordering::Relaxed);
            });
            let begun = Instant::now();
            while !ends.load(Ordering::Relaxed) && !other.is_finished() {
                work(lock);
                assert!(begun.elapsed() < Duration::from_secs(60));
            }
        });
    }
}
