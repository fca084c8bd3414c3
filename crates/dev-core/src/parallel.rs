//! Something that waits in the kernel, and something else meanwhile.

use std::panic::resume_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// What a thread does first that is made here.
static BEGIN: OnceLock<fn()> = OnceLock::new();

/// Has each thread that [`parallel`] makes call `begin` first. The first word counts.
pub fn threads_begin_with(begin: fn()) {
    let _ = BEGIN.set(begin);
}

/// Runs `aside` in a thread of its own, which takes no signals, while the caller does something
/// else; one after the other where no thread is to be had.
pub fn parallel<A: Send, B>(aside: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    let aside = Mutex::new(Some(aside));
    let take = || {
        let mut aside = aside.lock().unwrap_or_else(PoisonError::into_inner);
        aside.take()
    };
    thread::scope(|scope| {
        let before = swap_mask(u64::MAX);
        let spawned = thread::Builder::new()
            .name("vma-aside".to_owned())
            // Else the standard library looks for a size in the environment, which another thread
            // may be changing.
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || {
                if let Some(begin) = BEGIN.get() {
                    begin();
                }
                take().map(|aside| aside())
            });
        swap_mask(before);
        let result = here();
        let done = match spawned {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => take().map(|aside| aside()),
        };
        match done {
            Some(done) => (done, result),
            None => unreachable!("only one of the two takes it"),
        }
    })
}

const STACK_BYTES: usize = 128 << 10;

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
    fn both_run_at_the_same_time() {
        let ((there, from_here), (here, from_there)) = (mpsc::channel(), mpsc::channel());
        // Each waits for the other.
        let results = parallel(
            move || {
                here.send(1).unwrap();
                from_here.recv().unwrap()
            },
            move || {
                there.send(2).unwrap();
                from_there.recv().unwrap()
            },
        );
        assert_eq!(results, (2, 1));
    }

    #[test]
    fn the_thread_takes_no_signals_and_the_caller_those_that_it_took() {
        let own = swap_mask(0);
        let (aside, here) = parallel(|| swap_mask(u64::MAX), || swap_mask(0));
        assert_eq!(here, 0);
        // SIGKILL and SIGSTOP cannot be refused, and the C library has some for itself.
        let always = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
        assert_eq!((aside | always) | u64::MAX << 31, u64::MAX);
        swap_mask(own);
    }
}
