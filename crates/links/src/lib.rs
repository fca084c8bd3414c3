//! Interfaces: which are open, their rings, who receives by them, and who is woken by their
//! packets.
//!
//! Nothing in here knows what a socket is: [`Receiver`] is all that an interface asks of one.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel's interfaces mix widths; what is cast is bounded by a ring or a system call's result"
)]

pub mod by_link;
pub mod delivery;
pub mod doorbell;
pub mod family;
pub mod flow_label;
pub mod frames;
pub mod groups;
pub mod interface;
pub mod internal_thread;
pub mod lead;
mod links;
pub mod moderated_sleep;
pub mod moderation;
pub mod netconf_network;
pub mod network;
pub mod next_hops;
pub mod notice;
pub mod reason;
pub mod receiver;
pub mod rings;
pub mod settings;
mod sync;
pub mod wait;
pub mod watch;

pub use links::{Absent, Links, Spawn, TakeOver};
pub use receiver::{DirectCall, Identity, NoCall, Receiver};
