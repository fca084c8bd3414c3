//! Models of what threads share without locks, and of the locks. See Cargo.toml.

#![cfg(test)]

#[path = "../../crates/stats/src/counter.rs"]
#[expect(dead_code, reason = "the statistics use all of it")]
mod counter;
#[path = "../../crates/shm/src/direction.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
mod direction;
#[path = "../../crates/dev-core/src/lock.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
mod lock;
#[path = "../../crates/shm/src/doorbell.rs"]
#[expect(dead_code, reason = "arenas have as many slots")]
mod peer_doorbell;
#[path = "../../crates/stats/src/shares.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
mod shares;
mod sockets;
mod sync;
#[path = "../../crates/stats/src/field/versioned.rs"]
mod versioned;

mod counter_model;
mod direction_model;
mod doorbell_model;
mod lead_model;
mod lock_model;
mod offload_state_model;
mod peer_doorbell_model;
mod readiness_model;
mod shared_socket_model;
mod shares_model;
mod versioned_model;
mod wait_model;

/// Runs `model` in every order of its threads with at most so many changes between them where they
/// could go on: loom's own way to keep the number of orders in bounds, and few errors need more.
fn every_order(changes: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(changes);
    builder.check(model);
}
