use std::sync::Arc;

use links::reason::Reason;
use loom::thread::{self, JoinHandle};

use crate::every_order;
use crate::sockets::offload_state::OffloadState;

/// Before the network changes: never accelerated, and not waiting for an interface.
fn kernels() -> Arc<OffloadState> {
    let state = OffloadState::new();
    assert!(state.set(Reason::NoInterface));
    Arc::new(state)
}

/// A thread that calls the socket. The result is whether it waits in the kernel.
fn caller(state: &Arc<OffloadState>) -> JoinHandle<bool> {
    let state = Arc::clone(state);
    thread::spawn(move || state.may_be_left_to_kernel() && state.commit_if_never_offloaded())
}

/// A thread that waits in the kernel would not learn of what comes past it.
#[test]
fn no_thread_waits_in_the_kernel_for_an_accelerated_socket() {
    every_order(4, || {
        let state = kernels();
        let callers = [caller(&state), caller(&state)];
        let accelerated = state.set(Reason::Offloaded);
        for caller in callers {
            let in_kernel = caller.join().unwrap();
            assert_eq!(in_kernel, !accelerated);
        }
        assert_eq!(state.is_offloaded(), accelerated);
        assert_eq!(state.is_committed(), !accelerated);
    });
}

/// The network changes twice while a thread looks once.
#[test]
fn a_socket_that_was_accelerated_meanwhile_is_not_left_to_the_kernel() {
    every_order(4, || {
        let state = kernels();
        let caller = caller(&state);
        let accelerated = state.set(Reason::Offloaded);
        assert!(state.set(Reason::NoInterface));
        assert_eq!(caller.join().unwrap(), !accelerated);
        assert_eq!(state.is_committed(), !accelerated);
    });
}

#[test]
fn another_reason_does_not_undo_what_a_thread_relies_on() {
    every_order(4, || {
        let state = kernels();
        let callers = [caller(&state), caller(&state)];
        assert!(state.set(Reason::Loopback));
        assert!(callers.map(|caller| caller.join().unwrap()) == [true, true]);
        assert!(state.is_committed() && state.reason() == Reason::Loopback);
    });
}
