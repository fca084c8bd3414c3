//! Signals whose default action ends the process, where the program has asked for nothing else:
//! what its connections were given to send is the kernel's first, which goes on to deliver it and
//! tells the peers, as it does when any process ends.

use engine::interrupt;
use libc::{c_int, c_void, siginfo_t};

use super::delivery::{is_fault, waits_outside};
use super::stand_in;
use crate::{guard, process_state};

/// Those with a name. `SIGKILL` asks no handler. Others are ignored, or stop and continue.
const ENDING: [c_int; 22] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGSEGV,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSYS,
];

/// The process has connections from here on.
pub(crate) fn hand_over_before_death() {
    if is_init() {
        return;
    }
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    for signal in ENDING.into_iter().chain(real_time) {
        stand_in::install_first(signal, dies);
    }
}

/// The first process of a PID namespace: signals without a handler do not end it. A child may
/// become one and inherit the handler.
fn is_init() -> bool {
    stats::process_id() == 1
}

/// In the place of the default action, which is in force again.
pub(super) extern "C" fn dies(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes it for a handler installed with SA_SIGINFO, as this one is.
    let is_fault = unsafe { info.as_ref() }.is_some_and(|info| is_fault(signal, info));
    if is_init() && !is_fault {
        return;
    }
    // A call that polls comes out.
    let saved = guard::errno();
    interrupt::handler_runs(false);
    guard::set_errno(saved);
    // SAFETY: as above, of both.
    if unsafe { waits_outside(signal, info, context, dies) } {
        return;
    }
    hand_over();
    // SAFETY: this is a signal handler.
    unsafe { stand_in::act_as_usual(signal, info) };
}

/// The kernel has everything then, but for what takes too long. A thread that has a fault inside
/// the library may hold locks, which that would wait for. Async-signal-safe.
pub(super) fn hand_over() {
    if let Some(engine) = process_state::engine_at_hand().filter(|_| !guard::is_inside()) {
        engine.process_ends_by_signal();
    }
}
