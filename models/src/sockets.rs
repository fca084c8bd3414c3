//! The engine's own files that are modelled, where the engine has them.

#[path = "../../crates/engine/src/sockets/offload_state.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
pub(crate) mod offload_state;
#[path = "../../crates/engine/src/sockets/readiness.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
pub(crate) mod readiness;
#[path = "../../crates/engine/src/sockets/shared/socket.rs"]
#[expect(dead_code, reason = "the engine uses all of it")]
pub(crate) mod shared_socket;
