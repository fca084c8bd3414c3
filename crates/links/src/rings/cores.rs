//! Threads that stay on their cores: `VMA_RING_ALLOCATION_LOGIC_TX=31`, and the same for receiving.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The core that the thread was given.
    static CORE: Cell<Option<u32>> = const { Cell::new(None) };
    /// It gets none.
    static IS_FREE: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread gets no core: it is not the program's.
pub fn leave_thread_free() {
    IS_FREE.set(true);
}

/// How many threads each core was given.
static THREADS: Mutex<Option<HashMap<u32, u32>>> = Mutex::new(None);

/// The calling thread's core, on which it stays from here on. As in the original a thread that may
/// run on one core only is there already; others get the one that fewest have, their present one if
/// that makes no great difference.
pub(super) fn attach_thread() -> u32 {
    if let Some(core) = CORE.get() {
        return core;
    }
    if IS_FREE.get() {
        return sys::current_cpu();
    }
    let allowed = sys::allowed_cpus();
    let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    let threads = threads.get_or_insert_default();
    let present = sys::current_cpu();
    let core = choose(&allowed, present, |core| {
        threads.get(&core).copied().unwrap_or(0)
    });
    *threads.entry(core).or_default() += 1;
    CORE.set(Some(core));
    if allowed.len() > 1 {
        match sys::run_on(&[core]) {
            Ok(()) => log::debug!("this thread stays on CPU {core} from here on"),
            Err(error) => log::debug!("this thread cannot stay on CPU {core}: {error}"),
        }
    }
    core
}

fn choose(allowed: &[u32], present: u32, threads_of: impl Fn(u32) -> u32) -> u32 {
    let Some(least) = allowed.iter().min_by_key(|core| threads_of(**core)) else {
        return present;
    };
    if allowed.contains(&present) && threads_of(present) <= threads_of(*least) + 1 {
        return present;
    }
    *least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_unless_others_do() {
        let threads = [2, 0, 1];
        let choose = |allowed: &[u32], present| choose(allowed, present, |it| threads[it as usize]);
        assert_eq!(choose(&[0, 1, 2], 0), 1);
        assert_eq!(choose(&[0, 1, 2], 2), 2);
        assert_eq!(choose(&[0], 1), 0, "it may be nowhere else");
        assert_eq!(choose(&[], 2), 2);
    }

    #[test]
    fn a_thread_that_was_attached_runs_on_its_core_only() {
        let (core, again, allowed) = std::thread::spawn(|| {
            let core = attach_thread();
            (core, attach_thread(), sys::allowed_cpus())
        })
        .join()
        .unwrap();
        assert_eq!((again, allowed), (core, vec![core]));
    }

    #[test]
    fn a_thread_that_is_left_free_may_run_anywhere() {
        let (before, after) = std::thread::spawn(|| {
            let before = sys::allowed_cpus();
            leave_thread_free();
            attach_thread();
            (before, sys::allowed_cpus())
        })
        .join()
        .unwrap();
        assert_eq!(before, after);
    }
}
