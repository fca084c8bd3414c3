//! The library's own threads: the internal one, and one that opens interfaces.

use std::sync::OnceLock;
use std::{io, thread};

use engine::monitor::{Monitor, ThreadPlace};
use engine::{Engine, ProgramEnd};

use crate::process_state::{self, Device};
use crate::signal_set::SignalSet;
use crate::{guard, guardian, log_sink, process_end, signals};

/// What the standard library gives a thread, too.
const STACK_BYTES: usize = 2 << 20;

static PLACE: OnceLock<ThreadPlace> = OnceLock::new();

/// Says where the thread is to run, before it starts. The first word counts.
pub(crate) fn runs_at(place: ThreadPlace) {
    let _ = PLACE.set(place);
}

/// The program's own threads have ended, and the process would have ended with the last of them. On
/// return the C library runs the exit handlers if it knows of that.
fn end_as_the_program(end: ProgramEnd) {
    guard::leave_for_good();
    // A thread that was killed inside has its locks for ever.
    if guard::nobody_is_inside() {
        process_end::process_ends();
    }
    match end {
        ProgramEnd::Thread => {}
        ProgramEnd::Exit(status) => {
            // SAFETY: an integer.
            unsafe { libc::syscall(libc::SYS_exit_group, status) };
        }
        ProgramEnd::Killed(signal) => signals::die_by(signal),
    }
}

/// Prepares the process for its end when it has its first connection or listener. Starts the
/// internal thread if an interface is open, or to be taken over, or memory may be shared with other
/// processes, and the thread does not run yet.
pub(crate) fn start_when_needed(engine: &'static Engine<Device>) {
    if engine.has_streams() && process_state::is_first_to_prepare_for_death() {
        signals::hand_over_before_death();
    }
    let is_needed =
        engine.has_open_interface() || engine.waits_for_interface() || engine.looks_for_peers();
    if !is_needed {
        return;
    }
    let Some(network) = process_state::network().filter(|_| process_state::is_first_watcher())
    else {
        return;
    };
    let monitor = Monitor::prepare(
        engine,
        log_sink::CONTROLS,
        PLACE.get().cloned().unwrap_or_default(),
        guardian::start,
    );
    let thread = spawn("vma-internal", move || {
        if let Some(end) = monitor.run(engine, network) {
            end_as_the_program(end);
        }
    });
    match thread {
        Ok(()) => engine.internal_thread_started(),
        Err(error) => {
            log::error!("changes of the network configuration are not followed: no thread: {error}")
        }
    }
}

/// Runs work in a thread of its own. `false`: there is none.
pub(crate) fn run_beside(work: Box<dyn FnOnce() + Send>) -> bool {
    spawn("vma-open", work).is_ok()
}

/// A thread that is the library's: no signal of the program's is delivered to it.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut all = SignalSet::all();
    all.remove(libc::SIGBUS);
    all.swap_with_current();
    let thread = thread::Builder::new()
        .name(name.to_owned())
        // Else the standard library looks for a size in the environment, which another thread may
        // be changing.
        .stack_size(STACK_BYTES)
        .spawn(move || {
            guard::enter_for_good();
            body();
        });
    all.swap_with_current();
    thread.map(drop)
}
