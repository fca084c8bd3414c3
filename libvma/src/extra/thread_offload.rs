//! Whether the sockets that a thread makes are accelerated.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use engine::Reason;
use libc::{c_int, pthread_t};

use crate::guard::{contained, fail};
use crate::{process_state, start};

/// What was asked for, by thread.
static THREADS: LazyLock<Mutex<HashMap<pthread_t, bool>>> = LazyLock::new(Mutex::default);
/// Anything was; what some thread's sockets are to be accelerated for.
static IS_ASKED: AtomicBool = AtomicBool::new(false);
static IS_ASKED_FOR: AtomicBool = AtomicBool::new(false);

/// New sockets of the thread are accelerated from here on, or are the kernel's.
pub(super) unsafe extern "C" fn thread_offload(offload: c_int, tid: pthread_t) -> c_int {
    let is_offloaded = offload != 0;
    let done = contained(|| {
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        threads.insert(tid, is_offloaded);
        drop(threads);
        if is_offloaded {
            IS_ASKED_FOR.store(true, Ordering::Release);
        }
        IS_ASKED.store(true, Ordering::Release);
        if let Some(engine) = start::start()
            && is_offloaded
        {
            engine.offload_by_thread();
        }
    });
    match done {
        Ok(()) => 0,
        Err(_) => fail(libc::EINVAL),
    }
}

/// Whether threads have asked for acceleration, whatever the parameters say.
pub(crate) fn offloads_by_thread() -> bool {
    IS_ASKED_FOR.load(Ordering::Acquire)
}

/// A socket was made by the calling thread.
#[inline]
pub(crate) fn follow_thread(fd: c_int) {
    if IS_ASKED.load(Ordering::Acquire) {
        follow(fd);
    }
}

#[cold]
fn follow(fd: c_int) {
    // SAFETY: takes nothing.
    let me = unsafe { libc::pthread_self() };
    let _ = contained(|| {
        let threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = threads.get(&me).copied();
        drop(threads);
        if let Some(engine) = process_state::engine()
            && !asked.unwrap_or_else(|| engine.offloads_by_default())
        {
            engine.leave_descriptor_to_kernel(fd, Reason::Disabled);
        }
    });
}
