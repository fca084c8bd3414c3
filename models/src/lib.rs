//! Models of what threads share without locks, and of the locks. See Cargo.toml.

#![cfg(test)]

#[path = "../../crates/engine/src/doorbell.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
mod doorbell;
#[path = "../../crates/dev-core/src/lock.rs"]
mod lock;
#[path = "../../crates/engine/src/udp/offload_state.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
mod offload_state;
#[path = "../../crates/engine/src/reason.rs"]
mod reason;
#[path = "../../crates/engine/src/fork/shared/socket.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
mod shared_socket;
mod sync;
mod sys;
#[path = "../../crates/stats/src/field/versioned.rs"]
mod versioned;
mod wait;

mod doorbell_model;
mod lock_model;
mod offload_state_model;
mod shared_socket_model;
mod versioned_model;
mod wait_model;

/// Runs `model` in every order of its threads with at most so many changes between them where they could go on: loom's own
/// way to keep the number of orders in bounds, and few errors need more.
fn every_order(changes: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(changes);
    builder.check(model);
}
