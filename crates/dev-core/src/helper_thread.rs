//! Threads of a back-end's own.

use std::sync::OnceLock;
use std::thread;

/// What a thread does first that is made here.
static BEGIN: OnceLock<fn()> = OnceLock::new();

/// Has each thread that [`spawn`] makes call `begin` first. The first word counts.
pub fn threads_begin_with(begin: fn()) {
    let _ = BEGIN.set(begin);
}

/// Runs `body` in a thread of its own, which takes no signals of the program's. `false`: no thread
/// is to be had, and `body` was dropped.
///
/// It should last: in a thread that ends all signals are blocked, also those by which the C library
/// changes the rights of all threads.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> bool {
    let before = swap_mask(!OF_C_LIBRARY);
    let spawned = thread::Builder::new()
        .name(name.to_owned())
        // Else the standard library looks for a size in the environment, which another thread may
        // be changing.
        .stack_size(STACK_BYTES)
        .spawn(|| {
            if let Some(begin) = BEGIN.get() {
                begin();
            }
            body();
        });
    swap_mask(before);
    spawned.is_ok()
}

const STACK_BYTES: usize = 128 << 10;
/// The signals 32 and 33: cancellation, and setuid(2) and its like.
const OF_C_LIBRARY: u64 = 0b11 << 31;

/// Sets which signals the thread takes none of, and returns those before.
fn swap_mask(mask: u64) -> u64 {
    let mut before = 0_u64;
    let (new, old) = (&raw const mask, &raw mut before);
    // SAFETY: the kernel reads and writes a set of eight bytes each.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            new,
            old,
            size_of::<u64>(),
        )
    };
    before
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_thread_takes_no_signals_of_the_programs() {
        let own = swap_mask(0);
        let (told, mask) = mpsc::channel();
        assert!(spawn("vma-test", move || told.send(swap_mask(0)).unwrap()));
        // SIGKILL and SIGSTOP cannot be refused.
        let always = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
        assert_eq!(mask.recv().unwrap(), !(OF_C_LIBRARY | always));
        assert_eq!(swap_mask(own), 0);
    }
}
