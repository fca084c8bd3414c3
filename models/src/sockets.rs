//! The engine's own files that are modelled, where the engine has them.

#[path = "../../crates/engine/src/sockets/doorbell.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
pub(crate) mod doorbell;
#[path = "../../crates/engine/src/sockets/lead.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
pub(crate) mod lead;
#[path = "../../crates/engine/src/sockets/offload_state.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
pub(crate) mod offload_state;
#[path = "../../crates/engine/src/sockets/readiness.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
pub(crate) mod readiness;
#[path = "../../crates/engine/src/sockets/reason.rs"]
pub(crate) mod reason;
#[path = "../../crates/engine/src/sockets/shared/socket.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
pub(crate) mod shared_socket;
pub(crate) mod wait;
