//! What sockets of every kind stand on: descriptors, the kernel's sockets behind them, interfaces, waiting.

pub(crate) mod doorbell;
pub(crate) mod exception;
pub(crate) mod fd_table;
mod follow;
pub(crate) mod frames;
pub(crate) mod host;
pub(crate) mod interface;
pub(crate) mod internal_thread;
pub mod interrupt;
pub(crate) mod links;
pub(crate) mod message;
pub(crate) mod network;
pub(crate) mod next_hops;
pub(crate) mod notice;
pub(crate) mod offload;
pub(crate) mod offload_state;
mod option_names;
pub(crate) mod options;
pub(crate) mod reason;
pub(crate) mod rules;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod slab;
pub(crate) mod sleep;
pub mod user_memory;
pub(crate) mod wait;
